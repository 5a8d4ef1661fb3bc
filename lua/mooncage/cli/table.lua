-- table.lua: the one table of commands and flags. The parser, --help, the man page, the completion
-- scripts and docs/commands.md are all made from it. Only what works stands here.
--
-- A flag: name (long, without dashes), short, value (how it is shown; none: a switch), type (a
-- reader of values.lua), choices, hidden (choices that only an error explains), many (more than
-- once: a list), counted, complete (what completion offers), actions (those of the command's that
-- take it; none: all), help.
-- A command: name, module, summary, usage, description, flags (lists joined in order), takes (how
-- the words after the flags are read, see parse.lua), examples. One with actions (takes = "action")
-- has them as a list: name, least and most words after it, command (words after -- belong to it).

local flags = {}

flags.global = {
  { name = "config", value = "FILE", type = "name", complete = "file",
    help = "Read this configuration, a Lua file that returns a table, instead of the usual one." },
  { name = "json", help = "Write one JSON document (or JSON lines) on stdout and nothing else." },
  { name = "quiet", short = "q", help = "Leave out warnings and progress." },
  { name = "verbose", short = "v", counted = true, help = "Tell more on stderr; twice: all." },
  { name = "no-input", help = "Never ask; where an answer is needed, fail." },
  { name = "color", value = "WHEN", type = "string", choices = { "auto", "always", "never" },
    help = "Colour on stderr: auto, always or never. NO_COLOR is honoured." },
  { name = "help", short = "h", help = "Show help and leave." },
  { name = "version", help = "Show the version and leave." },
}

flags.sandbox = {
  { name = "backend", value = "ID", type = "name", choices = { "jail", "subprocess" },
    help = "What makes the sandbox: jail (the default), or subprocess, which isolates nothing." },
  { name = "option", value = "KEY=VALUE", type = "option", many = true,
    help = "An option of the backend; @env:NAME or @file:PATH as VALUE reads it from there." },
  { name = "memory", value = "SIZE", type = "size", help = "At most so much memory: 512M, 1G." },
  { name = "cpus", value = "N", type = "number", help = "At most so many processors: 1.5." },
  { name = "pids", value = "N", type = "count", help = "At most so many processes and threads." },
  { name = "disk", value = "SIZE", type = "size",
    help = "At most so much written to the workspace and temporary files." },
  { name = "timeout", value = "DURATION", type = "duration",
    help = "Kill a command and all it started after this time: 500ms, 30s, 10m, 1h." },
  { name = "wall", value = "DURATION", type = "duration",
    help = "End the whole sandbox after this time." },
  { name = "network", value = "WHICH", type = "string", choices = { "none", "open", "host" },
    help = "none (the default): only its own loopback. open: everything but private and other "
      .. "special addresses, through the gateway. host: shares the host's network, with everything "
      .. "that listens there." },
  { name = "allow", value = "HOST[:PORT]", type = "name", many = true,
    help = "Let connections through to HOST: a name, *.SUFFIX, an address or a network. Without "
      .. "PORT 80 and 443; a list (80,443) or a range (8000-8100) is fine." },
  { name = "deny", value = "HOST[:PORT]", type = "name", many = true,
    help = "Refuse connections to HOST, whatever else allows them." },
  { name = "env", value = "NAME[=VALUE]", type = "environment", many = true,
    help = "Set a variable; without =VALUE take it over from here." },
  { name = "env-file", value = "FILE", type = "name", many = true, complete = "file",
    help = "Set variables from lines of NAME=VALUE." },
  { name = "workdir", value = "DIR", type = "inside",
    help = "The workspace, where commands start, is at DIR inside." },
  { name = "bind", value = "SRC:DST[:rw]", type = "bind", many = true, complete = "file",
    help = "Show SRC of the host live at DST inside; read-only unless rw." },
  { name = "manifest", value = "FILE", type = "name", complete = "file",
    help = "What is in the workspace from the start: a Lua file that returns a table." },
  { name = "tenant", value = "ID", type = "name",
    help = "On whose behalf: letters, digits, - and _, at most 64." },
  { name = "audit", value = "FILE", type = "name", complete = "file",
    help = "Write the audit log to FILE instead of the usual place; its key, its other options and "
      .. "other sinks of the configuration stay." },
  { name = "best-effort",
    help = "Go on without what cannot be enforced here, and say what that was." },
}

flags.store = {
  { name = "store", value = "DIR", type = "name", complete = "directory",
    help = "Snapshots are in DIR, instead of the configured or the usual place." },
}

flags.snapshot = {
  { name = "snapshot", value = "ID", type = "name",
    help = "Begin with the workspace of this snapshot where there is one, and save it as that when "
      .. "the command has ended with 0 (of a script: when that ended with 0; of create: when the "
      .. "session is stopped or its time is over)." },
  flags.store[1],
}

flags.snapshots = {
  flags.store[1],
  { name = "tenant", value = "ID", type = "name",
    help = "The part of the store that this tenant sees, as tenants of the configuration has it." },
  { name = "store-prefix", value = "NAME", type = "name",
    help = "The part of the store that a tenant's store_prefix names." },
  { name = "dry-run", help = "gc: only say what would be removed." },
  { name = "disk", value = "SIZE", type = "size",
    help = "import: the room that the archive may take unpacked." },
}

flags.copies = {
  { name = "copy-in", value = "SRC[:DST]", type = "copy", many = true, complete = "file",
    help = "Copy a file or directory in before the command starts." },
  { name = "copy-out", value = "SRC[:DST]", type = "copy", many = true, complete = "file",
    help = "Copy a file or directory out after the command has ended." },
}

flags.copy_in = { flags.copies[1] }

flags.expose = {
  { name = "expose", value = "PORT[:HOSTPORT]", type = "exposed", many = true,
    help = "Let the host reach this port of the sandbox, on 127.0.0.1, at HOSTPORT or at one that "
      .. "is free; which one is said on stderr." },
}

flags.project = {
  { name = "project", value = "DIR", type = "name", complete = "directory",
    help = "The workspace is a copy-on-write view of DIR, which stays untouched." },
  { name = "diff", help = "Afterwards show what changed in the view of DIR." },
  { name = "apply", help = "Afterwards write the changes back to DIR, unless the command failed." },
  { name = "apply-git", help = "Let --apply write under .git, too." },
}

flags.view = { flags.project[1] }

flags.run = {
  { name = "eval", short = "e", value = "CODE", type = "string",
    help = "Run CODE as the script." },
}

flags.select = {
  { name = "require-network", value = "yes|no", type = "string", choices = { "yes", "no" },
    help = "yes: commands must reach the network; no: they must run with it denied." },
  { name = "require-persistent", help = "The workspace must outlive the session without a store." },
  { name = "require-capability", value = "NAME", type = "name", many = true,
    help = "The backend must have this capability: pty, snapshot, gpu ..." },
  { name = "min-isolation", value = "LEVEL", type = "string",
    choices = { "none", "namespace", "container", "gvisor", "vm" },
    help = "The least isolation: none, namespace, container, gvisor or vm." },
  { name = "require-memory", value = "SIZE", type = "size",
    help = "It must give so much memory: 512M, 4G." },
  { name = "require-cpus", value = "N", type = "number",
    help = "It must give so many processors." },
  { name = "require-pty", help = "Terminals are needed." },
  { name = "region", value = "NAME", type = "name", help = "It must be in this region." },
  { name = "max-usd-per-minute", value = "USD", type = "amount",
    help = "It must have a price, and not a higher one than this." },
  { name = "only-backend", value = "ID", type = "name", many = true,
    help = "Choose among these backends alone." },
  { name = "not-backend", value = "ID", type = "name", many = true,
    help = "Do not choose this backend." },
}

flags.create = {
  { name = "ttl", value = "DURATION", type = "duration",
    help = "How long the session stays; 1h unless given." },
}

flags.tool = {
  { name = "tool", value = "NAME", type = "name",
    help = "What the command counts as for allowed_tools; shell unless given." },
}

flags.exec = {
  { name = "timeout", value = "DURATION", type = "duration",
    help = "Kill the command and all it started after this time: 500ms, 30s, 10m, 1h." },
  { name = "env", value = "NAME[=VALUE]", type = "environment", many = true,
    help = "Set a variable; without =VALUE take it over from here." },
  { name = "env-file", value = "FILE", type = "name", many = true, complete = "file",
    help = "Set variables from lines of NAME=VALUE." },
  { name = "workdir", value = "DIR", type = "name", help = "Where the command starts, inside." },
}

flags.policy = {
  { name = "shell", help = "explain: CMD is one text for the shell, as session:exec takes it." },
  { name = "tenant", value = "ID", type = "name",
    help = "explain, explain-net: on whose behalf." },
  { name = "tool", value = "NAME", type = "name",
    help = "explain: as which tool it counts, instead of shell." },
  { name = "untrusted",
    help = "check, test: run the policy as a stranger's, in a process of its own." },
  { name = "policy", value = "FILE", type = "name", complete = "file",
    help = "explain-net: the rules of this Lua file, which returns them or a configuration." },
  { name = "allow", value = "HOST[:PORT]", type = "name", many = true,
    help = "explain-net: with this rule, too." },
  { name = "deny", value = "HOST[:PORT]", type = "name", many = true,
    help = "explain-net: with this rule that denies, too." },
  { name = "address", value = "ADDRESS", type = "name",
    help = "explain-net: as if HOST were at this address." },
}

flags.reap = {
  { name = "dry-run", help = "Only say what would be removed." },
}

flags.audit = {
  { name = "session", value = "ID", type = "name", actions = { "tail", "show", "stats" },
    help = "Only events of this session; the beginning of its id will do." },
  { name = "op", value = "OP", type = "name", actions = { "tail", "show", "stats" },
    help = "Only events of this kind: exec, read, open." },
  { name = "tenant", value = "ID", type = "name", actions = { "tail", "show", "stats" },
    help = "Only events of this tenant, in the same logs: where tenants of the configuration gives "
      .. "it a log of its own, name that." },
  { name = "lines", short = "n", value = "N", type = "count", actions = { "tail" },
    help = "tail: so many events; 10 unless given." },
  { name = "follow", short = "f", actions = { "tail" },
    help = "tail: go on with what is added." },
  { name = "hmac-key", value = "@WHERE", type = "secret", actions = { "verify" },
    help = "verify: the key of the log, from @env:NAME or @file:PATH." },
}

flags.apply = {
  { name = "git", help = "Write under .git, too." },
}

flags.stop = {
  { name = "all", help = "Stop every session of yours." },
}

local commands = {
  {
    name = "run", module = "run",
    summary = "Run a command, or a Lua script, in a fresh sandbox",
    usage = {
      "mooncage run [flags] -- CMD [ARG...]",
      "mooncage run [flags] SCRIPT.lua [ARG...]",
      "mooncage run [flags] -e CODE [-- ARG...]",
    },
    description = {
      "Runs CMD in a sandbox that is gone afterwards. Standard input, output, error and the exit "
        .. "status are the command's own, byte for byte. It sees the host's programs read-only, an "
        .. "empty workspace, no files of yours and no network.",
      "With a script (- reads it from standard input) the script runs outside and opens sandboxes "
        .. "itself with mooncage.open and mooncage.with; flags and configuration are what those "
        .. "start from. The words after the script are its arg.",
    },
    flags = {
      flags.run, flags.sandbox, flags.snapshot, flags.expose, flags.tool, flags.copies,
      flags.project,
    },
    takes = "script_or_command",
    examples = {
      { "echo hi | mooncage run -- tr a-z A-Z", "a filter, in a sandbox" },
      { "mooncage run --memory 256M --timeout 10s --copy-in main.py -- python3 main.py",
        "somebody's program, with limits" },
      { "mooncage run --project . --diff -- make", "what would it change here?" },
      { "mooncage run --snapshot work -- make", "go on where the last run of it left off" },
      { "mooncage run examples/quickstart.lua", "a script that uses sandboxes" },
    },
  },
  {
    name = "shell", module = "shell",
    summary = "Open an interactive terminal in a sandbox",
    usage = { "mooncage shell [flags] [-- CMD [ARG...]]", "mooncage shell ID [-- CMD [ARG...]]" },
    description = {
      "Starts a shell (or CMD) on a terminal of its own, in a fresh sandbox that is gone "
        .. "afterwards, or in session ID that mooncage create opened. The window's size and Ctrl-C "
        .. "reach it.",
    },
    flags = {
      flags.sandbox, flags.snapshot, flags.expose, flags.tool, flags.copies, flags.project,
    },
    takes = "session_or_none_then_command",
    examples = {
      { "mooncage shell", "look round in an empty sandbox" },
      { "mooncage shell --project . --diff", "try something on this tree" },
    },
  },
  {
    name = "create", module = "create",
    summary = "Open a session that stays, and print its id",
    usage = { "mooncage create [flags]" },
    description = {
      "Opens a sandbox, held by a small keeper process in the background, for exec, shell, cp and "
        .. "stop. It ends with mooncage stop, or after --ttl.",
      "With --project its workspace is a view of that directory: mooncage diff shows what changed "
        .. "in it, mooncage apply writes that back and ends the session, mooncage stop drops it.",
    },
    flags = {
      flags.create, flags.sandbox, flags.snapshot, flags.expose, flags.copy_in, flags.view,
    },
    takes = "nothing",
    examples = {
      { 'id=$(mooncage create --ttl 10m); mooncage exec "$id" -- uname -a', "" },
      { 'id=$(mooncage create --project .)', "work on a view of this tree" },
    },
  },
  {
    name = "exec", module = "exec",
    summary = "Run a command in a session that stays",
    usage = { "mooncage exec [flags] ID -- CMD [ARG...]" },
    description = {
      "Like run, in the session that mooncage create opened. What the command writes to the "
        .. "workspace is there for the next one.",
    },
    flags = { flags.exec, flags.tool },
    takes = "session_then_command",
    examples = { { "mooncage exec \"$id\" -- sh -c 'make && make test'", "" } },
  },
  {
    name = "diff", module = "view",
    summary = "Show what a session that stays has changed in its project",
    usage = { "mooncage diff ID" },
    description = {
      "For a session of mooncage create --project DIR: the files that were added, modified and "
        .. "deleted, and a unified diff. DIR itself is untouched. Exits 0 whether there are "
        .. "changes or not.",
    },
    flags = {},
    takes = "session",
    examples = { { 'mooncage diff "$id" | less', "" } },
  },
  {
    name = "apply", module = "view",
    summary = "Write a session's changes back to its project, and end it",
    usage = { "mooncage apply [--git] ID" },
    description = {
      "For a session of mooncage create --project DIR: ends what runs in it, takes the view down "
        .. "and writes the changes beneath DIR. What must not be written (links that leave DIR, "
        .. "devices, set-id bits, anything under .git without --git) and files that changed in DIR "
        .. "meanwhile are refused: then nothing is written, and the session stays.",
    },
    flags = { flags.apply },
    takes = "session",
    examples = { { 'mooncage apply "$id"', "" } },
  },
  {
    name = "cp", module = "cp",
    summary = "Copy files into or out of a session that stays",
    usage = { "mooncage cp SRC ID:DST", "mooncage cp ID:SRC DST" },
    description = {
      "Copies a file or a directory with all in it. Links are refused rather than followed. A file "
        .. "replaces that which a link at DST leads to; into a device or fifo it is written.",
    },
    flags = {},
    takes = "two_places",
    examples = {
      { 'mooncage cp ./src "$id:src"', "into the working directory" },
      { 'mooncage cp "$id:/workspace/report.pdf" .', "and back" },
    },
  },
  {
    name = "ps", module = "ps",
    summary = "List your sessions that stay",
    usage = { "mooncage ps" },
    description = { "One line a session: id, backend, age, processes. With -q only the ids." },
    flags = {},
    takes = "nothing",
    examples = {},
  },
  {
    name = "stop", module = "stop",
    summary = "End sessions that stay, with everything in them",
    usage = { "mooncage stop ID...", "mooncage stop --all" },
    description = { "Kills every process of the sandbox and removes what it held." },
    flags = { flags.stop },
    takes = "sessions",
    examples = { { "mooncage stop $(mooncage ps -q)", "" } },
  },
  {
    name = "snapshot", module = "snapshot",
    summary = "Save, restore and look after snapshots of workspaces",
    usage = {
      "mooncage snapshot save|restore [flags] SESSION ID",
      "mooncage snapshot ls [flags] [PREFIX]",
      "mooncage snapshot show [flags] ID",
      "mooncage snapshot rm [flags] ID...",
      "mooncage snapshot diff [flags] ID ID",
      "mooncage snapshot gc [--dry-run] [flags]",
      "mooncage snapshot export|import [flags] ID [FILE]",
    },
    description = {
      "save keeps the workspace of a session that stays under ID. restore ends every command of "
        .. "the session and puts the snapshot in place of its workspace, whole or not at all. Both "
        .. "print ID@VERSION. Without --store the store is that of the session's configuration; "
        .. "with it the hmac_key is that of the configuration here.",
      "ls lists the snapshots whose id begins with PREFIX, in order of ids; with -q only the ids. "
        .. "show tells all that is known of one. rm removes each, and goes on after one that is "
        .. "not there.",
      "diff compares two by path: A added, D deleted, M another content, target or mode, T "
        .. "another kind of file. Times do not count. Exits 0 whether there are differences or "
        .. "not. It needs room in /tmp for both.",
      "gc removes what saves that were cut short have left.",
      "export writes a plain tar archive to FILE, or to standard output; a link, device or fifo "
        .. "that is there stays what it is. import saves one, from FILE or standard input: it is "
        .. "unpacked in a plain jail first, so nothing unsafe gets in.",
    },
    flags = { flags.snapshots },
    takes = "action",
    actions = {
      { name = "save", least = 2, most = 2 },
      { name = "restore", least = 2, most = 2 },
      { name = "ls", least = 0, most = 1 },
      { name = "show", least = 1, most = 1 },
      { name = "rm", least = 1, most = 1000 },
      { name = "diff", least = 2, most = 2 },
      { name = "gc", least = 0, most = 0 },
      { name = "export", least = 1, most = 2, complete = "file" },
      { name = "import", least = 1, most = 2, complete = "file" },
    },
    examples = {
      { 'mooncage snapshot save "$id" before', "" },
      { "mooncage snapshot diff before after", "" },
      { "mooncage snapshot export before | tar -t", "what is in it?" },
      { "mooncage snapshot rm $(mooncage snapshot ls -q test-)", "all that begin so" },
    },
  },
  {
    name = "reap", module = "reap",
    summary = "Remove what sandboxes of engines that died have left",
    usage = { "mooncage reap [--dry-run]" },
    description = {
      "A sandbox is cleaned up with its engine even when that is killed. Should that have failed, "
        .. "this removes the cgroups, with the processes in them, and directories whose owner no "
        .. "longer lives. What an engine of another pid namespace has, a container's, is left "
        .. "alone unless nobody is in there.",
    },
    flags = { flags.reap },
    takes = "nothing",
    examples = {},
  },
  {
    name = "select", module = "select",
    summary = "Say which backend would be chosen, and why no other",
    usage = { "mooncage select [flags]" },
    description = {
      "Chooses as run would with this configuration and these flags, and opens nothing. The flags "
        .. "that begin with --require, and their neighbours, go over the requirements of the "
        .. "configuration. Every candidate is listed: in the order in which they would be tried, "
        .. "then those that would not be, each with the reason. Exits 126 when nobody would be.",
    },
    flags = { flags.select, flags.sandbox },
    takes = "nothing",
    examples = {
      { "mooncage select", "what would run use?" },
      { "mooncage select --require-network no --min-isolation namespace", "" },
      { "mooncage --json select | jq -r .chosen.name", "" },
    },
  },
  {
    name = "backends", module = "backends",
    summary = "List the backends, and whether they can be used here",
    usage = { "mooncage backends" },
    description = {
      "Each backend with its family, the isolation of its usual sandbox, what it costs and of "
        .. "which day that price is, whether workspaces stay, its capabilities, and whether a "
        .. "sandbox of it could be made here just now; if not, why.",
    },
    flags = {},
    takes = "nothing",
    examples = {},
  },
  {
    name = "doctor", module = "doctor",
    summary = "Try each mechanism here and say how to mend what does not work",
    usage = { "mooncage doctor" },
    description = {
      "Each mechanism is used once, in a process or sandbox that is thrown away: namespaces, the "
        .. "system calls, seccomp, Landlock, cgroups, mounts, id ranges, what network policies "
        .. "need, the audit log, OpenSSL. ok: it works for this user. no: it does not; what that "
        .. "costs, and the command that mends it, are shown. -: not for this user or machine, "
        .. "and nothing is wrong. After that comes what is in force in a default sandbox.",
      "Exits 0 when all is there that the default sandbox needs, 1 when not. With --json: "
        .. "version (1), ok, machine (kernel, uid, root, wsl, and container and ci where it is in "
        .. "one), checks (name, state \"ok\", \"no\" or \"off\", ok, needed, detail; costs and fix "
        .. "where the state is no), and backends. Keys may be added; none goes or changes its "
        .. "meaning while version is 1.",
    },
    flags = {},
    takes = "nothing",
    examples = {},
  },
  {
    name = "config", module = "config",
    summary = "Show the effective configuration, or trust a local one",
    usage = { "mooncage config show [flags]", "mooncage config trust FILE" },
    description = {
      "show prints what a sandbox would be opened with: the configuration file with the flags over "
        .. "it and the defaults below, and where each value came from. Secrets are not shown.",
      "trust lets the mooncage.lua of a directory be its configuration: a file that a repository "
        .. "brings along could undo the sandbox, so it is not used before. Read it first. A file "
        .. "that has changed since is not trusted any more. That goes for the files that it names "
        .. "with mooncage.policy and as its manifest, too: they are trusted with it. One whose "
        .. "name it makes up while it runs is trusted in the same way. What it reads by other "
        .. "means (dofile, require) is not covered.",
    },
    flags = { flags.sandbox, flags.view },
    takes = "action",
    actions = {
      { name = "show", least = 0, most = 0 },
      { name = "trust", least = 1, most = 1, complete = "file" },
    },
    examples = {
      { "mooncage config show", "what holds here, and why" },
      { "mooncage config trust mooncage.lua", "having read it" },
    },
  },
  {
    name = "policy", module = "policy",
    summary = "Check policies, run their tests, explain a decision",
    usage = {
      "mooncage policy check [--untrusted] FILE...",
      "mooncage policy test [--untrusted] FILE...|DIR",
      "mooncage policy explain [flags] -- CMD [ARG...]",
      "mooncage policy explain-net [flags] HOST:PORT",
    },
    description = {
      "check loads each policy (a file, a directory of them, or the name of a built-in one) and "
        .. "says what is wrong with it.",
      "test runs the tests of NAME.test.lua beside NAME.lua: candidates, commands and tenants that "
        .. "are described there, and what the policy must decide. Exits 1 when a test fails.",
      "With --untrusted the policies are those of strangers: each runs in a process of its own, in "
        .. "a jail, and never in this one. The tests beside them are yours.",
      "explain says what the configured tenants, selector, allowed_tools and guardrail would "
        .. "decide about CMD, why, and by which rule; nothing is run. Exits 0 when CMD would run, "
        .. "126 when not.",
      "explain-net says whether a sandbox may connect to HOST:PORT, why, and by which rule of the "
        .. "network; nothing is looked up. Exits 0 when it may, 126 when not, 2 when a rule or "
        .. "HOST:PORT is wrong.",
    },
    flags = { flags.policy },
    takes = "action",
    actions = {
      { name = "check", least = 1, most = 1000, complete = "file" },
      { name = "test", least = 1, most = 1000, complete = "file" },
      { name = "explain", least = 0, most = 0, command = true },
      { name = "explain-net", least = 1, most = 1 },
    },
    examples = {
      { "mooncage policy test policies/", "every policy of a directory" },
      { "mooncage policy check ./my_selector.lua", "" },
      { "mooncage policy explain -- rm -rf build", "would that run here?" },
      { "mooncage policy explain-net --allow '*.example.org' pypi.example.org:443",
        "may it connect there?" },
    },
  },
  {
    name = "audit", module = "audit",
    summary = "Read audit logs, and check that nobody changed them",
    usage = {
      "mooncage audit tail|show|stats [flags] [FILE|DIR...]",
      "mooncage audit verify [--hmac-key @WHERE] [FILE|DIR...]",
    },
    description = {
      "show prints every event, file by file, tail the last ones of all files by their times; with "
        .. "--json as they stand in the log. Without a file they are those of the configuration, "
        .. "else of the usual directory. What rotation has put aside of a log (NAME.SEQ.jsonl) is "
        .. "read with it.",
      "verify follows the chain from line to line and names the line that was changed, is missing "
        .. "or was moved, and a tail that was cut off. Exits 1 when a log is not what was written.",
      "stats sums up what each session and each tenant has used.",
    },
    flags = { flags.audit },
    takes = "action",
    actions = {
      { name = "tail", least = 0, most = 1000, complete = "file" },
      { name = "show", least = 0, most = 1000, complete = "file" },
      { name = "verify", least = 0, most = 1000, complete = "file" },
      { name = "stats", least = 0, most = 1000, complete = "file" },
    },
    examples = {
      { "mooncage audit tail -f", "watch what is run" },
      { "mooncage audit verify", "has anybody touched the logs?" },
      { "mooncage audit stats --json", "for a report" },
    },
  },
  {
    name = "completion", module = "completion",
    summary = "Print the completion script for a shell",
    usage = { "mooncage completion bash|zsh|fish" },
    description = { "Prints a script that teaches the shell the commands and flags." },
    flags = {},
    takes = "shell_name",
    examples = {
      { "eval \"$(mooncage completion bash)\"", "in ~/.bashrc" },
      { "mooncage completion fish > ~/.config/fish/completions/mooncage.fish", "" },
    },
  },
}

local by_name = {}
for _, command in ipairs(commands) do by_name[command.name] = command end

---Every flag of a command, its own first, the global ones last; of the global ones alone for nil.
---@param command table?
local function flags_of(command)
  local all = {}
  for _, group in ipairs(command and command.flags or {}) do
    for _, flag in ipairs(group) do all[#all + 1] = flag end
  end
  for _, flag in ipairs(flags.global) do all[#all + 1] = flag end
  return all
end

return {
  commands = commands,
  by_name = by_name,
  global = flags.global,
  flags_of = flags_of,
  shells = { "bash", "zsh", "fish" },
  -- What there is to know about the exit status, for help and the man page.
  statuses = {
    { "0-255", "the command's own exit status; 128+N when signal N ended it" },
    { "1", "a script threw an error" },
    { "2", "the command line or the configuration is wrong" },
    { "124", "the command ran into --timeout, or the sandbox into --wall" },
    { "125", "Mooncage could not do it; the message says why" },
    { "126", "the program is there and cannot be executed, or policy denies it" },
    { "127", "there is no such program" },
  },
  environment = {
    { "MOONCAGE_CONFIG", "The configuration file, where --config is not given." },
    { "MOONCAGE_INIT", "The mooncage-init executable, where it is not at its installed place." },
    { "XDG_CONFIG_HOME", "Holds mooncage/config.lua; ~/.config where it is not set." },
    { "XDG_STATE_HOME", "Holds mooncage/: audit logs, snapshots, and which local configurations "
      .. "are trusted; ~/.local/state where it is not set, /var/lib for root." },
    { "XDG_RUNTIME_DIR", "Holds mooncage/, the sockets of sessions that stay." },
    { "NO_COLOR", "When set to anything, no colour." },
  },
  files = {
    { "$XDG_CONFIG_HOME/mooncage/config.lua", "The configuration of this user." },
    { "mooncage.lua", "The configuration of a directory, once it is trusted." },
    { "/etc/mooncage/config.lua", "The configuration of all users without one of their own." },
  },
}
