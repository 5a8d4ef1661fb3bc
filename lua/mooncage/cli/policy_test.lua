-- policy_test.lua: runs the tests beside a policy: NAME.test.lua beside NAME.lua returns a table
-- with the kind of the policy, what all cases share, and a list of cases: what the policy is given,
-- and what it must decide. The cases are data: nothing is run and nothing is opened.
local core = require "mooncage.core"
local policy = require "mooncage.policy"
local stranger = require "mooncage.stranger"
local verdict = require "mooncage.verdict"

local policy_test = {}

local function invalid(message, fix)
  error(core.error("invalid", message, fix), 0)
end

-- What a case of each kind may say, besides name, options, expect and reason.
local FIELDS = {
  selector = { "candidates", "requirements", "context" },
  guardrail = { "command", "context", "rule" },
  tenant = { "tenant", "config", "context" },
}
local COMMON = { "name", "options", "expect", "reason" }

local function known_fields(kind)
  local names = {}
  for _, name in ipairs(COMMON) do names[#names + 1] = name end
  for _, name in ipairs(FIELDS[kind]) do names[#names + 1] = name end
  return names
end

local function check_fields(path, what, given, names)
  for key in pairs(given) do
    local known = type(key) == "number" and what == "the tests" -- see check_numbers
    for _, name in ipairs(names) do known = known or name == key end
    if not known then
      local near = type(key) == "string" and core.nearest(key, names)
      invalid(("%s: %s: unknown field '%s'"):format(path, what, tostring(key)),
        near and ("did you mean '%s'?"):format(near)
          or "there is " .. table.concat(names, ", "))
    end
  end
end

---The cases are numbered 1 to n: what a hole hides, or stands beside them, would never run.
---@return integer count
local function check_numbers(path, tests)
  local count, odd = 0, nil
  for key in pairs(tests) do
    if type(key) == "number" then
      count = count + 1
      if key < 1 or key % 1 ~= 0 then odd = key end
    end
  end
  if odd then
    invalid(("%s: there is a case [%s], which would never run"):format(path, tostring(odd)),
      "write the cases as a list, without numbers")
  end
  for i = 1, count do
    if tests[i] == nil then
      invalid(("%s: there is no case %d, but one after it"):format(path, i),
        "a nil in the list: is a variable misspelt? Take it out, or put the case there")
    end
  end
  if count == 0 then
    invalid(path .. ": there is no case in it", "write one: { name = ..., expect = ... }")
  end
  return count
end

-- What a candidate and a command may be described by, as docs/selectors.md and docs/guard.md say.
local FACTS = { "name", "backend", "tags", "family", "isolation", "cost", "persistent",
  "capabilities", "region", "memory_mb", "cpu_count", "sessions", "max_sessions", "health",
  "latency_s" }
local COMMAND = { "argv", "shell", "words", "commands", "unclear", "tool", "cwd", "env_names",
  "has_stdin", "pty" }

---Described facts that no engine would tell, and requirements that no configuration could have.
local function check_described(path, what, case, kind)
  if kind == "selector" then
    for i, facts in ipairs(case.candidates or {}) do
      if type(facts) ~= "table" then
        invalid(("%s: %s: candidate %d is a %s, not a table of facts"):format(path, what, i,
          type(facts)))
      end
      check_fields(path, ("%s: candidate %d"):format(what, i), facts, FACTS)
    end
    local ok, why = pcall(require("mooncage").rank, {}, case.requirements or {})
    if not ok then
      local said = tostring(why):match "rank: (.*)$" or tostring(why)
      invalid(("%s: %s: %s"):format(path, what, said), "see docs/config.md for the requirements")
    end
  elseif kind == "guardrail" and type(case.command) == "table" and case.command[1] == nil then
    check_fields(path, what .. ": the command", case.command, COMMAND)
  end
end

---A value as a short text: tables as JSON.
local function show(value)
  if type(value) ~= "table" then return tostring(value) end
  local ok, text = pcall(core.encode, value)
  return ok and text or "a table"
end

local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  for key, value in pairs(a) do
    if not same(value, b[key]) then return false end
  end
  for key in pairs(b) do
    if a[key] == nil then return false end
  end
  return true
end

---Candidates as a selector sees them: described facts, and the method that all have.
local function candidates_of(list)
  local result = {}
  for i, described in ipairs(list or {}) do
    local facts = { cost = {}, tags = {}, capabilities = {} }
    for key, value in pairs(described) do facts[key] = value end
    facts.satisfies = function(self, requirements)
      local order, why = require("mooncage").rank({ self }, requirements or {})
      if order and order[1] then return true end
      return false, type(why) == "table" and why[1] and why[1].reason or why
    end
    result[i] = facts
  end
  return result
end

---Names in order: of a candidate, or of a list of them.
local function names_of(decision)
  if type(decision) ~= "table" then return decision end
  if decision[1] == nil then return decision.name end
  local names = {}
  for i, each in ipairs(decision) do names[i] = type(each) == "table" and each.name or each end
  return names
end

---What the engine would say of the candidates that a selector chose; nil: nothing.
local function refused_choice(decision, requirements)
  if type(decision) ~= "table" then return nil end
  for _, chosen in ipairs(decision[1] ~= nil and decision or { decision }) do
    local fits, why = true, nil
    if type(chosen) == "table" and chosen.satisfies then
      fits, why = chosen:satisfies(requirements)
    end
    if not fits then
      return ("the engine refuses it: the selector chose %s, which cannot be used: %s"):format(
        tostring(chosen.name), tostring(why))
    end
  end
end

---What the engine would say of a tenant's overrides over the described configuration.
local function refused_overrides(case, overrides)
  local config = {}
  for key, value in pairs(case.config or {}) do config[key] = value end
  local network = config.network
  if network == nil then config.network = "none" end
  local ok, _, why = pcall(core.explain_net, { config = config, tenant = case.tenant or core.null,
    overrides = overrides, target = "example.com:443" })
  local said = ok and why and why.message:match '^tenant "[^"]*": (.*)$'
  return said and "the engine refuses it: " .. said
end

---What a decision gives, or false and what it threw.
local function bounded(decide, ...)
  return pcall(core.decide, "the policy", decide, ...)
end

local call = {}

function call.selector(decide, case)
  local ok, decision, reason = bounded(decide, candidates_of(case.candidates),
    case.requirements or {}, case.context or {})
  if not ok then return "error", decision end
  if decision == nil then return false, reason end
  local refused = refused_choice(decision, case.requirements or {})
  if refused then return "error", refused end
  local names = names_of(decision)
  if type(case.expect) == "string" and type(names) == "table" then names = names[1] end
  return names == nil and "error" or names, reason
end

---The command as a guardrail is told of it: argv, a text for the shell, or a table of both's facts.
local function command_of(given)
  local command = { tool = "shell", env_names = {}, has_stdin = false, pty = false }
  if type(given) == "string" then
    command.shell, command.words = given, (core.words(given))
  elseif type(given) == "table" and given[1] ~= nil then
    command.argv, command.words = given, {}
    for i, each in ipairs(given) do command.words[i] = each end
  else
    for key, value in pairs(given or {}) do command[key] = value end
    if command.words == nil then command.words = command.argv or core.words(command.shell or "") end
  end
  local what = command.shell or command.argv
  if command.commands == nil and (type(what) == "string" or type(what) == "table" and what[1]) then
    command.commands, command.unclear = core.commands(what)
  end
  return command
end

function call.guardrail(decide, case)
  local ok, said, reason, rule = bounded(decide, command_of(case.command), case.context or {})
  if not ok then return "error", said end
  if said == nil then return false, reason end
  local answer = verdict.of(said, reason, rule)
  if answer.senseless then return "error", "the engine refuses it: " .. answer.reason end
  if answer.rewrite and (answer.rewrite[1] or "") == "" then
    return "error", "the engine refuses it: its rewrite is no list of arguments"
  end
  return said, reason, rule
end

function call.tenant(decide, case)
  local ok, overrides, reason = bounded(decide, case.tenant, case.config or {},
    case.context or {})
  if not ok then return "error", overrides end
  if overrides == nil then return false, reason end
  if type(overrides) ~= "table" then
    return "error", ("the engine refuses it: it returned a %s, not a table of overrides"):format(
      type(overrides))
  end
  local refused = refused_overrides(case, overrides)
  if refused then return "error", refused end
  return overrides, reason
end

---The same of a stranger's policy, which is asked in its process.
local ask = {}

function ask.selector(decide, case)
  local candidates, numbers = core.array(candidates_of(case.candidates)), core.array {}
  for i, facts in ipairs(candidates) do facts.satisfies, numbers[i] = nil, i end
  local answer = stranger.select(decide, nil, { candidates = candidates, numbers = numbers,
    requirements = case.requirements or {} }, case.context or {})
  local chosen = {}
  for i, number in ipairs(answer.order or {}) do chosen[i] = candidates[number] end
  if #chosen == 0 then return false, answer.reason end
  local refused = refused_choice(candidates_of(chosen), case.requirements or {})
  if refused then return "error", refused end
  local names = names_of(chosen)
  if type(case.expect) ~= "table" then names = names[1] end
  return names, answer.reason
end

function ask.guardrail(decide, case)
  local answer = stranger.guardrail(decide, nil, command_of(case.command), case.context or {})
  local got = answer.ask and "ask" or answer.warn and { warn = answer.warn } or answer.allow == true
  return got, answer.reason, answer.rule
end

function ask.tenant(decide, case)
  local answer = stranger.tenant(decide, case.tenant, case.config or {}, case.context or {})
  local refused = answer.overrides and refused_overrides(case, answer.overrides)
  if refused then return "error", refused end
  return answer.overrides or false, answer.denied
end

---Made, asked, and ended.
local function ask_stranger(kind, source, path, case)
  local made, decide = pcall(stranger.make, source, path, case.options)
  if not made then return "error", decide end
  local ok, got, reason, rule = pcall(ask[kind], decide, case)
  stranger.rest(decide)
  if not ok then return "error", got end
  return got, reason, rule
end

local function reason_text(reason)
  if reason == nil then return nil end
  if type(reason) == "table" and not (getmetatable(reason) or {}).__tostring then
    return tostring(reason.message or show(reason))
  end
  return tostring(reason)
end

---One case: what came out, and whether that is what was expected.
local function run_case(kind, factory, path, case)
  local got, reason, rule
  if type(factory) == "string" then
    got, reason, rule = ask_stranger(kind, factory, path, case)
  else
    local ok, decide = pcall(policy.make, factory, path, case.options)
    if ok then
      got, reason, rule = call[kind](decide, case)
    else
      got, reason = "error", decide
    end
  end
  reason = reason_text(reason)
  local good = same(case.expect, got)
  if good and case.reason then good = (reason or ""):find(case.reason, 1, true) ~= nil end
  if good and case.rule then good = rule == case.rule end
  return {
    name = case.name, ok = good, expected = show(case.expect), got = show(got), reason = reason,
    rule = rule, expected_reason = case.reason, expected_rule = case.rule,
  }
end

local function check_case(path, number, case, kind)
  local what = ("case %d"):format(number)
  if type(case) ~= "table" then
    invalid(("%s: %s is a %s, not a table"):format(path, what, type(case)))
  end
  check_fields(path, what, case, known_fields(kind))
  if type(case.name) ~= "string" then
    invalid(("%s: %s has no name"):format(path, what), "say in words what it shows")
  end
  if case.expect == nil then
    invalid(("%s: case %q expects nothing"):format(path, case.name), "give it an expect")
  end
  for _, name in ipairs { "reason", "rule" } do
    if case[name] ~= nil and type(case[name]) ~= "string" then
      invalid(("%s: case %q: its %s is a %s, not a text"):format(path, case.name, name,
        type(case[name])))
    end
  end
  check_described(path, ("case %q"):format(case.name), case, kind)
end

---Where the tests of a policy are: a.lua -> a.test.lua.
function policy_test.path_of(policy_path)
  return (policy_path:gsub("%.lua$", "") .. ".test.lua")
end

---Runs the tests of one policy.
---@param policy_path string
---@param untrusted boolean? the policy runs in a process of its own; the tests beside it do not
---@return table report { policy, tests, cases, passed, failed }
function policy_test.run(policy_path, untrusted)
  local path = policy_test.path_of(policy_path)
  local text, why, fix = policy.read(path, true)
  if not text then
    return nil, core.error(fix and "invalid" or "not_found", "no tests: " .. why,
      fix or "write them beside the policy, see docs/policies.md")
  end
  local tests = policy.evaluate(path, text)
  if type(tests) ~= "table" or not FIELDS[tests.kind] then
    invalid(path .. ": must return a table with kind = \"selector\", \"guardrail\" or \"tenant\"")
  end
  local names = known_fields(tests.kind)
  names[#names + 1] = "kind"
  check_fields(path, "the tests", tests, names)
  local count = check_numbers(path, tests)
  local factory = (untrusted and policy.source or policy.load)(policy_path)
  local report = { policy = policy_path, tests = path, kind = tests.kind, cases = core.array {},
    passed = 0, failed = 0 }
  for number = 1, count do
    local case = tests[number]
    if type(case) == "table" then
      local whole = {}
      for _, name in ipairs(names) do whole[name] = tests[name] end
      whole.kind, whole.name = nil, nil
      for key, value in pairs(case) do whole[key] = value end
      case = whole
    end
    check_case(path, number, case, tests.kind)
    local result = run_case(tests.kind, factory, policy_path, case)
    report.cases[number] = result
    report[result.ok and "passed" or "failed"] = report[result.ok and "passed" or "failed"] + 1
  end
  return report
end

return policy_test
