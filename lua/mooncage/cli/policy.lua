-- policy.lua: `mooncage policy`: loads policies, runs the tests beside them, and says what would
-- be decided about a command or a connection.
local core = require "mooncage.core"
local exit = require "mooncage.cli.exit"
local loader = require "mooncage.policy"
local output = require "mooncage.cli.output"
local stranger = require "mooncage.stranger"
local system = require "mooncage.cli.system"

local policy = {}

---A thrown value as an error table.
local function as_error(thrown)
  if type(thrown) == "table" and thrown.code then return thrown end
  return { code = "internal", message = tostring(thrown) }
end

local function is_policy_file(name)
  return name:match "%.lua$" and not name:match "%.test%.lua$"
end

---The files meant by the words: a directory is all policies in it; a bare name one of ours.
---@return { path: string, asked: boolean }[]
local function files_of(words)
  local found = {}
  for _, word in ipairs(words) do
    if system.is_directory(word) then
      local names = assert(system.list(word))
      table.sort(names)
      for _, name in ipairs(names) do
        if is_policy_file(name) then
          found[#found + 1] = { path = word:gsub("/+$", "") .. "/" .. name, asked = false }
        end
      end
    elseif word:match "%.test%.lua$" then
      found[#found + 1] = { path = word:gsub("%.test%.lua$", ".lua"), asked = true }
    else
      local path = word
      if word:match "^[%w_%-]+$" then
        local _, at = loader.source(word)
        path = at
      end
      found[#found + 1] = { path = path, asked = true }
    end
  end
  return found
end

---Is a name the text's own: a local, or a parameter?
local function is_own(text, name)
  local word = "%f[%w_]" .. name .. "%f[^%w_]"
  return text:find("local%s+function%s+" .. word) or text:find("local%s+[%w_,%s]-" .. word)
    or text:find("function[%s%w_%.:]*%([^)]-" .. word)
end

---Where a policy reaches for what it will not have: that fails only once it has to decide.
---@return string? complaint
local function impure_use(path)
  local text = loader.read(path, true)
  local before, found
  require("mooncage.cli.lines").each_token(text or "", function(kind, value, line)
    if found then return end
    local pending = before
    before = { kind = kind, value = value, line = line,
      after = pending and pending.kind == "other" and pending.value }
    if not pending or pending.kind ~= "name" or not loader.impure[pending.value] then return end
    if pending.after == "." or pending.after == ":" or pending.value == "require" then return end
    local used = kind == "other" and (value == "." or value == "(" or value == "[")
      or kind == "string"
    if used and not is_own(text, pending.value) then
      found = ("%s:%d: uses %s, which a policy does not have: it decides from what it is given")
        :format(path, pending.line, pending.value)
    end
  end)
  return found
end

---The same of a policy that is not read in here: its process says.
local function check_stranger(path)
  local ok, said = pcall(function() return stranger.check(loader.source(path), path) end)
  if not ok then return { policy = path, ok = false, error = as_error(said) } end
  return { policy = path, ok = true, needs_options = said.says and true or nil, says = said.says }
end

---@return table report for --json
local function check_one(path, untrusted)
  if untrusted then return check_stranger(path) end
  local ok, factory = pcall(loader.load, path)
  if not ok then return { policy = path, ok = false, error = as_error(factory) } end
  local complaint = impure_use(path)
  if complaint then
    return { policy = path, ok = false, error = core.error("invalid", complaint,
      "take it from the options, the context or the facts") }
  end
  local made, decision = pcall(core.decide, path, factory, {})
  local says = not made and as_error(decision).message or nil
  if says and says:find("used more than", 1, true) or made and type(decision) ~= "function" then
    return { policy = path, ok = false, error = core.error("invalid", says
      or ("%s: gives %s, not a function"):format(path, type(decision)),
      "the file must return function(options) that returns a function, at once") }
  end
  -- Some policies cannot be without options: that is no fault of the file.
  return { policy = path, ok = true, needs_options = not made or nil, says = says }
end

local function check(line)
  for _, word in ipairs(line.words) do
    if word:match "%.test%.lua$" then
      return nil, core.error("invalid", word .. ": holds the tests of a policy, and is none",
        ("say mooncage policy test %s, or check the policy"):format(word))
    end
  end
  local reports, good = core.array {}, true
  for _, file in ipairs(files_of(line.words)) do
    local report = check_one(file.path, line.flags.untrusted)
    reports[#reports + 1] = report
    good = good and report.ok
    if not output.is_json() then
      if report.ok then
        output.say("%s: %s%s\n", file.path, output.colored("green", "ok"),
          report.needs_options and ", needs options: " .. report.says or "")
      else
        output.error(report.error)
      end
    end
  end
  if #reports == 0 then
    return nil, { code = "not_found", message = "no policies there: " .. line.words[1],
      fix = "name a .lua file, or a directory of them" }
  end
  if output.is_json() and not output.document { ok = good, policies = reports } then
    return exit.FAILED
  end
  return good and exit.OK or exit.USAGE
end

local function print_case(case)
  if case.ok then
    output.say("  %s %s\n", output.colored("green", "ok"), case.name)
    return
  end
  output.say("  %s %s\n", output.colored("red", "FAILED"), case.name)
  output.say("    expected %s%s\n", case.expected,
    case.expected_reason and (", because of %q"):format(case.expected_reason) or "")
  if case.expected_rule then output.say("    by rule  %s\n", case.expected_rule) end
  output.say("    decided  %s%s%s\n", case.got,
    case.reason and (": " .. case.reason) or "",
    case.rule and (" (rule %s)"):format(case.rule) or "")
end

---Runs one file's tests and tells what came of it.
---@return table? report nil: it has none, and nobody asked for it by name
local function test_one(file, untrusted)
  local ok, report, err = pcall(require("mooncage.cli.policy_test").run, file.path, untrusted)
  if not ok then report, err = nil, as_error(report) end
  if not report and err.code == "not_found" and not file.asked then
    if not output.is_json() then output.say("%s: no tests\n", file.path) end
    return nil
  end
  report = report or { policy = file.path, passed = 0, failed = 1, error = err }
  if output.is_json() then return report end
  if report.error then
    output.error(report.error)
  else
    output.say("%s: %d passed, %d failed\n", file.path, report.passed, report.failed)
    for _, case in ipairs(report.cases) do
      if not case.ok or not output.is_quiet() then print_case(case) end
    end
  end
  return report
end

local function test(line)
  local passed, failed, reports = 0, 0, core.array {}
  for _, file in ipairs(files_of(line.words)) do
    local report = test_one(file, line.flags.untrusted)
    if report then
      reports[#reports + 1] = report
      passed, failed = passed + report.passed, failed + report.failed
    end
  end
  if #reports == 0 then
    return nil, { code = "not_found", message = "no tests there: " .. line.words[1],
      fix = "write NAME.test.lua beside NAME.lua, see docs/policies.md" }
  end
  local good = failed == 0 and passed > 0 -- nothing was shown where nothing ran
  if output.is_json() then
    local told = output.document { ok = good, passed = passed, failed = failed,
      policies = reports }
    if not told then return exit.FAILED end
  else
    output.say("%d passed, %d failed\n", passed, failed)
  end
  return good and exit.OK or exit.SCRIPT
end

local actions = { check = check, test = test }

function actions.explain(line)
  return require "mooncage.cli.policy_explain"(line)
end

actions["explain-net"] = function(line)
  return require "mooncage.cli.explain_net"(line)
end

---@param line mooncage.cli.Line
---@return integer status
function policy.main(line)
  local action = table.remove(line.words, 1)
  local ok, status, err = pcall(actions[action], line)
  if not ok then status, err = nil, as_error(status) end
  if status then return status end
  output.error(err)
  return exit.of_error(err)
end

return policy
