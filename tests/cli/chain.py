# chain.py: an audit log judged by other means than ours: chain.py FILE [KEY]. Each line is JSON with its
# keys in order, sequence numbers and hashes follow, no byte of it would act on a terminal. With -s SEQ as
# the first two words a sequence may begin there. Prints how many lines there are.
import hashlib
import hmac
import json
import re
import sys

words = sys.argv[1:]
first = 1
if words[0] == "-s":
    first = int(words[1])
    words = words[2:]
key = words[1].encode() if len(words) > 1 else None
previous, seq = "0" * 64 if first == 1 else None, first - 1
starts, count = {}, 0


def ordered(value):
    if isinstance(value, dict):
        assert list(value) == sorted(value), list(value)
        for each in value.values():
            ordered(each)
    elif isinstance(value, list):
        for each in value:
            ordered(each)


with open(words[0], "rb") as file:
    for line in file:
        assert line.endswith(b"\n"), "a torn line"
        line = line[:-1]
        assert not re.search(rb"[\x00-\x1f\x7f]", line), "a control byte"
        event = json.loads(line.decode("utf-8"))
        ordered(event)
        seq += 1
        assert event["seq"] == seq, (event["seq"], seq)
        assert previous is None or event["prev"] == previous, "line %d does not follow" % seq
        bare = line.replace(b',"hash":"%s"' % event["hash"].encode(), b"").replace(
            b'{"hash":"%s",' % event["hash"].encode(), b"{")
        text = event["prev"].encode() + bare
        mine = hmac.new(key, text, hashlib.sha256) if key else hashlib.sha256(text)
        assert mine.hexdigest() == event["hash"], "line %d has another hash" % seq
        previous = event["hash"]
        if event["phase"] == "start":
            starts[event["id"]] = event["op"]
        elif event["phase"] == "finish":
            assert starts.pop(event["id"]) == event["op"]
        count += 1
print(count)
