-- parser.lua: the parts of the command that need no sandbox: parser, values, JSON, help, completion
-- scripts, configuration files. Run it: mooncage run tests/cli/parser.lua; prints TAP.
local root = (arg[0]:match "^(.*)/[^/]*$" or ".") .. "/../.."

local parse = require "mooncage.cli.parse"
local spec = require "mooncage.cli.table"
local values = require "mooncage.cli.values"
local core = require "mooncage.core"
local help = require "mooncage.cli.help"
local completion = require "mooncage.cli.completion"
local config_file = require "mooncage.cli.config_file"
local exit = require "mooncage.cli.exit"

local number, failed = 0, 0

local function check(name, ok, detail)
  number = number + 1
  if not ok then failed = failed + 1 end
  print(("%s %d - %s"):format(ok and "ok" or "not ok", number, name))
  if not ok and detail then print("# " .. tostring(detail)) end
end

local function equal(name, got, wanted)
  check(name, got == wanted, ("got %s, wanted %s"):format(tostring(got), tostring(wanted)))
end

local function words(text)
  local list = {}
  for word in text:gmatch "%S+" do list[#list + 1] = word end
  return list
end

---A line that must be read.
local function good(text)
  local line, err = parse(words(text))
  check("reads: " .. text, line ~= nil, err and err.message)
  return line or { flags = {}, words = {} }
end

---A line that must be refused, with a message and a hint that hold these words.
local function bad(text, message, fix)
  local line, err = parse(words(text))
  check("refuses: " .. text, line == nil and err.code == "invalid")
  if line then return end
  check(("  says %q"):format(message), err.message:find(message, 1, true), err.message)
  if fix then check(("  hints %q"):format(fix), (err.fix or ""):find(fix, 1, true), err.fix) end
end

-- The command line.
local line = good "run --memory 512M --cpus=1.5 -q -- sh -c --memory"
equal("memory in bytes", line.flags.memory, 536870912)
equal("cpus", line.flags.cpus, 1.5)
equal("global flag after the command", line.flags.quiet, true)
equal("words after -- are untouched", table.concat(line.rest, "|"), "sh|-c|--memory")
line = good "--json run script.lua --json -x -- y"
equal("the script's words are its own", table.concat(line.words, "|"),
  "script.lua|--json|-x|--|y")
check("and no flags of ours", line.rest == nil and line.flags.json == true)
line = good "run -"
equal("- is the script on stdin", line.words[1], "-")
line = good "run -eprint(1) -- a b"
equal("-eCODE", line.flags.eval, "print(1)")
equal("its words", table.concat(line.rest, "|"), "a|b")
line = good "run --env A=1 --env B=x=y -- true"
equal("flags that repeat are a list", line.flags.env[2].value, "x=y")
line = good "-vvq ps"
equal("counted", line.flags.verbose, 2)
check("grouped", line.flags.quiet)
line = good "shell abc -- bash -l"
equal("shell in a session", line.words[1], "abc")
good "shell"
good "stop a b c"
good "stop --all"
check("help of a command asks nothing else", good("exec --help").flags.help)
equal("help run", good("help run").command, "run")

bad("rnu", "unknown command rnu", "did you mean mooncage run?")
bad("select jail", "unexpected word jail")
bad("serve", "unknown command serve")
bad("run --memroy 1M -- true", "unknown flag --memroy", "did you mean --memory?")
bad("run --image x -- true", "unknown flag --image")
bad("--memory 1M run -- true", "--memory belongs to a command", "mooncage run --memory")
bad("run", "needs a command after --", "usage: mooncage run")
bad("run --", "needs a command after --")
bad("run --memory", "--memory needs a value", "--memory SIZE")
bad("run --memory --cpus 1 -- true", "--memory needs a value")
bad("run --memory -- true", "--memory needs a value")
bad("run --memory 5Q -- true", "--memory 5Q: is no size", nil)
bad("run --cpus 0 -- true", "--cpus 0")
bad("run --pids 1.5 -- true", "--pids 1.5")
bad("run --timeout 30 -- true", "is no duration")
bad("run --network intranet -- true", "none, open, host")
bad("run --backend jial -- true", "--backend jial", "did you mean jail?")
bad("run --diff=yes -- true", "--diff takes no value")
bad("run -x -- true", "unknown flag -x")
bad("run --bind /a -- true", "SRC:DST")
bad("run --env 1=2=3 --env A-UNSET-NAME -- true", "not set in the environment")
bad("ps extra", "unexpected word extra")
bad("ps -- true", "takes no command")
bad("exec -- true", "needs the id")
bad("exec abc", "needs a command after --")
bad("cp one", "two places")
bad("stop", "needs the id")
bad("completion tcsh", "no completion for tcsh", "bash, zsh, fish")
bad("create -- true", "takes no command")
local _, err = parse { "run", "--env", "=secret", "--", "true" }
check("a refused variable does not show its value", not err.message:find "secret", err.message)

-- Values.
for text, bytes in pairs {
  ["1"] = 1, ["64k"] = 65536, ["512M"] = 536870912, ["1.5G"] = 1610612736, ["1GiB"] = 1073741824,
  ["100B"] = 100,
} do equal("size " .. text, values.size(text), bytes) end
for _, text in ipairs {
  "", "M", "-1M", "0", "1e9", "0x10", "1 M", "1.M", "1..5M", "9999999T", "1MM",
} do
  equal(("no size: %q"):format(text), values.size(text), nil)
end
for text, seconds in pairs { ["500ms"] = 0.5, ["30s"] = 30, ["1.5m"] = 90, ["1h"] = 3600 } do
  equal("duration " .. text, values.duration(text), seconds)
end
for _, text in ipairs { "", "30", "s", "-1s", "0s", "1w", "1e3s", "inf" } do
  equal(("no duration: %q"):format(text), values.duration(text), nil)
end
equal("bind is read-only unless rw", values.bind("/a:/b").writable, false)
equal("bind rw", values.bind("/a:/b:rw").writable, true)
equal("bind needs an absolute target", values.bind "/a:b", nil)
equal("bind with a strange mode", values.bind "/a:/b:rx", nil)
equal("copy without a target", values.copy("a/b").to, nil)

-- JSON, after RFC 8259 and RFC 4648.
local encode = core.encode
equal("integers are exact", encode { n = 9007199254740991 }, '{"n":9007199254740991}')
equal("fractions", encode { 0.1, 1e300 }, "[0.1,1e+300]")
equal("empty list and table", encode { a = core.array {}, b = {} }, '{"a":[],"b":{}}')
equal("control characters", encode "\0\n\"\\\127", [["\u0000\n\"\\\u007f"]])
equal("UTF-8 stays", encode "ü€😀", '"ü€😀"')
equal("other bytes", encode "\255\0", '{"base64":"/wA="}')
for text, name in pairs {
  ["\192\175"] = "overlong", ["\237\160\128"] = "surrogate", ["\244\144\128\128"] = "too large",
  ["\226\130"] = "cut off", ["\128"] = "tail alone",
} do check("not UTF-8: " .. name, encode(text):find("base64", 1, true)) end
for plain, coded in pairs { ["\255"] = "/w==", ["\255f"] = "/2Y=", ["\255fo"] = "/2Zv" } do
  equal("base64 of " .. #plain, encode(plain), ('{"base64":"%s"}'):format(coded))
end

-- Exit statuses.
equal("signal", exit.of_result { signal = "SIGTERM" }, 143)
equal("time-out", exit.of_result { signal = "SIGKILL", timed_out = true }, 124)
equal("missing", exit.of_result { exit_code = 127, not_found = true }, 127)
equal("denied", exit.of_error { code = "command_denied" }, 126)
equal("could not", exit.of_error { code = "unenforceable" }, 125)
equal("wrong", exit.of_error { code = "invalid" }, 2)

-- Help and completion say all that the table has.
local function said(text, flag)
  return text:find("--" .. flag.name, 1, true) ~= nil
end
for _, command in ipairs(spec.commands) do
  local text = help.text(command.name)
  local all = true
  for _, flag in ipairs(spec.flags_of(command)) do all = all and said(text, flag) end
  check("help of " .. command.name .. " has every flag", all)
  local wide
  for row in text:gmatch "[^\n]+" do
    if #row > 80 and not row:find "^  mooncage" then wide = row end
  end
  check("help of " .. command.name .. " fits 80 columns", not wide, wide)
end
for _, shell in ipairs(spec.shells) do
  local text, missing = completion[shell](), nil
  for _, command in ipairs(spec.commands) do
    if not text:find(command.name, 1, true) then missing = command.name end
    for _, flag in ipairs(spec.flags_of(command)) do
      local name = shell == "fish" and "-l " .. flag.name or "--" .. flag.name
      if not text:find(name, 1, true) then missing = flag.name end
    end
  end
  check(shell .. " completion has every command and flag", not missing, missing)
end

-- Configuration files.
local function config(text)
  local path = os.tmpname()
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
  local function jail(options) return { id = "jail", options = options } end
  local got, problem = config_file.load(path, { jail = jail })
  os.remove(path)
  return got, problem, path
end
local value, why = config "return { limits = { memory_mb = 64 }, backend = mooncage.jail {} }"
check("a configuration", value and value.limits.memory_mb == 64 and value.backend.id == "jail", why)
local path
value, why, path = config "return {\n  limits = = 1\n}"
check("a parse error has its place", not value and why.message:find(path .. ":2:", 1, true), why)
value, why, path = config "\n\nerror 'no such day'"
check("a throw has its place", not value and why.message:find(path .. ":3: no such day", 1, true))
value, why = config "return 7"
check("a wrong type", not value and why.message:find "returns number, not a table")
value, why = config(string.dump(function() return {} end))
check("bytecode is refused", not value and why.message:find "bytecode")
value, why = config "return { environment = { K = secret 'NO_SUCH_VARIABLE_HERE' } }"
check("a missing secret", not value and why.message:find "NO_SUCH_VARIABLE_HERE")
value, why = config_file.load("/no/such/config.lua", {})
check("a missing file", not value and why.code == "not_found" and why.message:find "/no/such")

-- Where an error about a key came from.
path = os.tmpname()
local file = assert(io.open(path, "wb"))
file:write("return {\n  -- memroy_mb = 1\n  limits = {\n    memroy_mb = 64,\n  },\n}\n")
file:close()
local function located(message, flags)
  return config_file.locate({ code = "invalid", message = message }, path, flags).message
end
equal("a key of the file", located("configuration: limits.memroy_mb: unknown key", {}),
  path .. ":4: limits.memroy_mb: unknown key")
equal("a key that a flag set", located("limits.cpu_count: 900 is not between 0 and 512",
  { cpu_count = "--cpus" }), "--cpus: 900 is not between 0 and 512")
equal("an option of a flag", located("backend.options.rotfs: unknown key",
  { options = "--option", backend = "--option" }), "--option rotfs: unknown key")
equal("something else", located("no such day", {}), "no such day")
os.remove(path)

-- The documents in docs/ are what the table says now.
local man = require "mooncage.cli.man"
for name, text in pairs { ["mooncage.1"] = man.page(), ["commands.md"] = man.markdown() } do
  local there = io.open(root .. "/docs/" .. name, "rb")
  check("docs/" .. name .. " is up to date", there and there:read "*a" == text,
    "make it anew with: mooncage __document " .. (name == "mooncage.1" and "man" or "markdown"))
  if there then there:close() end
end

-- On which line a key of a file is set.
local lines = require "mooncage.cli.lines"
local file_lines = lines.of [==[
-- limits = { memory_mb = 1 }
local shared = { memory_mb = 5 } --[[ network = 3
]] local said = "limits = 4"
return {
  candidates = {
    mooncage.jail { profile = "strict" },
    mooncage.jail {
      binds = { "/a:/b",
        "/c:/d" },
      profile = "x",
    },
  },
  ["limits"] = {
    memory_mb = 64, pid_limit = 2,
    ["disk_mb"] = 4 },
  environment = { A = secret "B",
    B = ("x"):rep(4), C = f { 1, 2 } },
  requirements = { min_isolation
     = "vm" },
  [ [[labels]] ] = {},
}
]==]
for where, wanted in pairs {
  ["limits"] = 13, ["limits.memory_mb"] = 14, ["limits.disk_mb"] = 15, ["limits.wall_s"] = 13,
  ["candidates"] = 5, ["candidates[1].options.profile"] = 6, ["candidates[2].options.profile"] = 10,
  ["candidates[2]"] = 7, ["candidates[2].options.binds[2]"] = 9, ["environment.B"] = 17,
  ["environment"] = 16, ["requirements.min_isolation"] = 18,
} do equal("the line of " .. where, file_lines:find(lines.path(where)), wanted) end
for _, where in ipairs { "network", "nothing", "[3]", "" } do
  equal("no line of " .. where, file_lines:find(lines.path(where)), nil)
end
equal("a path", table.concat(lines.path "a[1][2].b", "/"), "a/1/2/b")
math.randomseed(7)
local BITS = { "{", "}", "[", "]", "=", "==", ",", ";", "'", '"', "\\", "\n", "--", "[[", "]]",
  "[=[", "]=]", "name", "a.b", " ", "return", "(", ")", "\255", "\0", "5", "~=", ":" }
for _ = 1, 3000 do
  local text = {}
  for i = 1, math.random(0, 40) do text[i] = BITS[math.random(#BITS)] end
  lines.of(table.concat(text)):find { "name", 2, "b" }
end
check("any text has lines", true)

-- What others wrote, made safe for a terminal. What is UTF-8 is Unicode's to say (table 3-7).
local plain = require "mooncage.plain"
for _, character in ipairs { "\194\160", "\224\160\128", "\237\159\191", "\238\128\128",
  "\239\187\190", "\240\144\128\128", "\244\143\191\191" } do
  equal("a character stays", plain(character), character)
end
for _, bytes in ipairs { "\239\187\191", "\237\160\128", "\237\191\191", "\224\159\191",
  "\240\143\191\191", "\244\144\128\128", "\193\191", "\194\155" } do
  local shown = bytes:gsub(".", function(byte) return ("\\x%02x"):format(byte:byte()) end)
  equal("a mark, or no character, is shown as " .. shown, plain(bytes), shown)
end

print(("1..%d"):format(number))
print(("%d passed, %d failed, 0 skipped"):format(number - failed, failed))
os.exit(failed == 0 and 0 or 1)
