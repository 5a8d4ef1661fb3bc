# holds.py: is the Python expression $FILTER true of the JSON document (named `d`) in file argv[1]?
import json
import os
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    d = json.load(file)
try:
    held = eval(os.environ["FILTER"], {"d": d})
except Exception as problem:  # a missing key is a failed case, shown with the document
    held = False
    print(repr(problem))
if not held:
    print("does not hold:", os.environ["FILTER"])
    print(json.dumps(d, indent=1)[:2000])
    sys.exit(1)
