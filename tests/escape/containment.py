"""containment.py: all rows, and docs/containment.md, which is made of them.

A row says what is tried, what stops it and how that shows (OUTCOMES), what it needs of the machine, and
what is left open. Here stand the claims that the rows show together (SECTIONS), and what of the corpus
has no row yet (LATER). `faults` finds ids that no row has."""

import os
import re

import harness
import rows_audit  # noqa: F401
import rows_fs  # noqa: F401
import rows_gateway  # noqa: F401
import rows_kernel  # noqa: F401
import rows_more  # noqa: F401
import rows_network  # noqa: F401
import rows_proc  # noqa: F401
import rows_resources  # noqa: F401
import rows_secrets  # noqa: F401
import rows_snapshot  # noqa: F401
import rows_specs  # noqa: F401
import rows_tar  # noqa: F401
import rows_tenant  # noqa: F401

TOP = os.path.dirname(os.path.dirname(harness.HERE))
PAGE = os.path.join(TOP, "docs", "containment.md")

# Prefix of the ids, how many the corpus has, and what the rows show together.
SECTIONS = (
    ("FS", 28, "Files", "A command reads and changes no file but those it was given, and no path makes the engine do it on its behalf."),
    ("PR", 28, "Processes, sockets of the host, terminals", "It sees, signals, traces and talks to no process but its own; nothing of it outlives its end."),
    ("KS", 15, "The kernel", "It reaches no part of the kernel that programs do not need; where a wall cannot be built, nothing runs."),
    ("RS", 14, "Resources", "What it uses up is its own: time, memory, processes, disk, descriptors, output."),
    ("NW", 24, "Network", "It reaches what the policy names, by name and port, and nothing else; every try is in the audit log."),
    ("CP", 20, "Guardrail over commands", "What the parser cannot fully understand is denied. This is advice, not the wall: that is the sandbox."),
    ("LU", 20, "Policies in Lua", "A policy that is wrong, slow or hostile denies, and the engine goes on."),
    ("AU", 11, "Audit log", "What happened stands there, before it happens, as it was; what is changed afterwards is seen."),
    ("SE", 11, "Secrets", "A secret is where it was meant to be, and nowhere else."),
    ("TN", 10, "Tenants", "One tenant cannot reach, see, forge or starve another, nor get more than the operator gives."),
    ("TR", 22, "Archives", "An archive is unpacked whole, inside, or not at all, and what it says is not believed."),
    ("XA", 0, "Beyond the corpus", "Attacks on this design in particular: stubs, init, built-ins, streams, binds, the gateway."),
)

OUTCOMES = {
    "denied": "the call fails inside, with an error",
    "absent": "what is attacked is not there",
    "refused": "the engine says no, with a code, before anything is done",
    "killed": "the process, or the whole tree, dies",
    "bounded": "it works up to a limit, and the session and the host go on",
    "harmless": "it works, and reaches nothing outside",
    "seen": "it is in the audit log, or the check of the log finds it",
    "given": "it works, because what was written gives it",
}

# Rows of the corpus that come with what they attack.
LATER = (
    ("NW-23 to NW-24", "policies that a backend's own network cannot express", "hosted backends, containers and clusters"),
    ("TR-22", "answers of remote stores: redirects, wrong lengths, entity bombs", "stores in S3 and GCS"),
    ("HC-01 to HC-18", "answers, errors and redirects of vendors, Docker and Kubernetes", "the backends that speak HTTP"),
)

HEAD = """# Containment: what was tried, and what stops it

Written by `tests/escape/run --write-table`. Every line is a test in `tests/escape/`: its control first shows that the
attack works without the sandbox, then it is tried inside, as root and as an ordinary user. The ids are those of the
corpus of attacks that the project keeps; `XA` are our own. `tests/escape/run ID...` runs the rows of that name.

The machine that runs them all has cgroup v1 and Linux 6.18; `tests/vm/run` runs a choice of them, and with `--all` all,
on Debian with cgroup v2 and systemd. What a row needs beyond that stands in its last column; where it is missing the
row is skipped and says so.

| outcome | what it means |
|---|---|
"""


def later_ids():
    """All that LATER holds, ranges spelled out."""
    found = set()
    for ids, _, _ in LATER:
        first, _, last = ids.partition(" to ")
        prefix, start = first.split("-")
        found.update(["%s-%02d" % (prefix, n) for n in range(int(start), int(last.split("-")[1]) + 1)] if last else [first])
    return found


def faults():
    have, found = [r.id for r in harness.ROWS], []
    found += ["%s is there twice" % i for i in sorted(set(have)) if have.count(i) > 1]
    found += ["%s has no outcome" % r.id for r in harness.ROWS if r.outcome not in OUTCOMES]
    for prefix, count, _, _ in SECTIONS:
        for number in range(1, count + 1):
            one = "%s-%02d" % (prefix, number)
            if one not in have and one not in later_ids():
                found.append("%s is neither a row nor one of those to come" % one)
    return found


def in_order(rows):
    return sorted(rows, key=lambda r: (int(re.search(r"\d+", r.id).group()), r.id))


def page():
    cell = lambda text: text.replace("|", "\\|")  # noqa: E731
    gaps = []
    parts = [HEAD] + ["| %s | %s |\n" % line for line in OUTCOMES.items()]
    for prefix, _, title, claim in SECTIONS:
        rows = in_order(r for r in harness.ROWS if r.id.startswith(prefix + "-"))
        parts.append("\n## %s\n\n%s\n\n| id | attempt | what stops it | outcome | as | needs |\n|---|---|---|---|---|---|\n" % (title, claim))
        parts += ["| %s | %s | %s | %s | %s | %s |\n" % (
            r.id, cell(r.title), cell(r.mechanism), r.outcome, ", ".join(r.identities), r.needs or "") for r in rows]
        gaps += [(r.id, r.gap) for r in rows if r.gap]
    parts.append("\n## Known gaps\n\n| row | what is open, and why |\n|---|---|\n")
    parts += ["| %s | %s |\n" % (one, cell(gap)) for one, gap in gaps]
    parts.append("\n## Not tried yet\n\n| rows | attempt | comes with |\n|---|---|---|\n")
    parts += ["| %s | %s | %s |\n" % line for line in LATER]
    return "".join(parts)


def write():
    if faults():
        raise SystemExit("containment.py: " + "; ".join(faults()))
    with open(PAGE, "w") as file:
        file.write(page())


def stale():
    """None, or what is wrong with the page."""
    if faults():
        return "; ".join(faults())
    try:
        with open(PAGE) as file:
            return None if file.read() == page() else "stale: run tests/escape/run --write-table"
    except OSError as error:
        return str(error)
