-- policy_explain.lua: `mooncage policy explain -- CMD`: what the configuration would decide about a
-- command, step by step, and by which rule. Nothing is opened and nothing is run.
local core = require "mooncage.core"
local decide = require "mooncage.decide"
local exit = require "mooncage.cli.exit"
local mooncage = require "mooncage"
local output = require "mooncage.cli.output"
local policy = require "mooncage.policy"
local sandbox = require "mooncage.cli.sandbox"

---The command as a guardrail is told of it.
local function command_of(line, tool, config)
  local command = { tool = tool, cwd = config.working_directory, env_names = {}, has_stdin = false,
    pty = false }
  if line.flags.shell then
    command.shell = table.concat(line.rest, " ")
    command.words = core.words(command.shell)
  else
    command.argv, command.words = line.rest, {}
    for i, each in ipairs(line.rest) do command.words[i] = each end
  end
  command.commands, command.unclear = mooncage.commands(command.shell or command.argv)
  return command
end

---What the tenant may change of this: the tools. Others of its overrides are no matter here.
local function of_tenant(functions, config)
  if not functions.tenants then return nil, config.allowed_tools end
  local key = config.tenant and require("mooncage.cli.system").sha256(config.tenant):sub(1, 32)
  local ok, answer = pcall(decide.answerers.tenant, functions,
    { tenant = config.tenant or core.null, key = key or core.null })
  if not ok then return { step = "tenants", decision = "deny", reason = answer.message } end
  if not answer.overrides then
    return { step = "tenants", decision = "deny", reason = answer.denied or "it gave no reason" }
  end
  return { step = "tenants", decision = "allow" },
    answer.overrides.allowed_tools or config.allowed_tools
end

local function of_tools(tool, allowed)
  if allowed == nil then
    return { step = "allowed_tools", decision = "allow", reason = "every tool is allowed" }
  end
  for _, each in ipairs(allowed) do
    if each == tool then
      return { step = "allowed_tools", decision = "allow", reason = tool .. " is on the list" }
    end
  end
  return { step = "allowed_tools", decision = "deny",
    reason = ("%s is not on the list: %s"):format(tool, table.concat(allowed, ", ")) }
end

local function ask_guardrail(functions, command)
  local nothing = { minutes = 0, usd = 0, unpriced = false }
  return pcall(decide.answerers.guardrail, functions, { command = command,
    spend = { session = nothing, run = nothing, tenant = nothing } })
end

local function decision_of(verdict)
  return verdict.ask and "ask" or verdict.rewrite and "rewrite" or verdict.allow and "allow"
    or "deny"
end

---The commands in a command, each with what the rules of command_guardrail say of it alone.
local function each_command(functions, command)
  local list = core.array {}
  local origin = functions.guardrail and policy.origin(functions.guardrail)
  local rules = origin and origin.name == "command_guardrail"
  for i, each in ipairs(command.commands or {}) do
    local told = { words = core.array(each.words), at = each.at, inside = each.inside,
      via = each.via }
    if rules then
      local one = {}
      for key, value in pairs(command) do one[key] = value end
      local alone = {}
      for key, value in pairs(each) do alone[key] = value end
      alone.inside = nil
      one.commands = { alone }
      local ok, verdict = ask_guardrail(functions, one)
      told.decision = ok and decision_of(verdict) or "deny"
      told.reason = ok and verdict.reason or nil
      told.rule = ok and verdict.rule or nil
    end
    list[i] = told
  end
  return list
end

local function of_guardrail(functions, command)
  if not functions.guardrail then
    return { step = "guardrail", decision = "allow", reason = "there is no guardrail" }
  end
  local ok, verdict = ask_guardrail(functions, command)
  if not ok then
    return { step = "guardrail", decision = "deny", reason = "it failed: " .. verdict.message }
  end
  if verdict.rewrite and (verdict.rewrite[1] or "") == "" then
    return { step = "guardrail", decision = "deny",
      reason = "its rewrite is no list of arguments" }
  end
  return {
    step = "guardrail",
    decision = decision_of(verdict),
    reason = verdict.reason or verdict.warn, rule = verdict.rule, rewrite = verdict.rewrite,
  }
end

---Would a session open? That is who has the last word on what a tenant may have, too.
local function of_select(config)
  local candidate, err = mooncage.select(config)
  if not candidate then return { step = "select", decision = "deny", reason = err.message } end
  return { step = "select", decision = "allow", reason = candidate.name or candidate.id }
end

---The steps in their order, up to the first that denies.
local function explain(line, config)
  local data = {}
  for key, value in pairs(config) do data[key] = value end
  local plain, functions = decide.split(data, 1)
  local tool = line.flags.tool or "shell"
  local steps = core.array {}
  local command = command_of(line, tool, plain)
  local tenant, allowed = of_tenant(functions, plain)
  local function add(step)
    steps[#steps + 1] = step
    return not step or step.decision == "allow"
  end
  local _ = add(tenant) and add(of_select(config)) and add(of_tools(tool, allowed))
    and add(of_guardrail(functions, command))
  return steps, each_command(functions, command), command.unclear
end

local COLORS = { allow = "green", deny = "red", ask = "yellow", rewrite = "yellow" }

local function print_steps(steps)
  for _, step in ipairs(steps) do
    output.say("%-13s %s%s%s\n", step.step,
      output.colored(COLORS[step.decision], step.decision),
      step.reason and ": " .. step.reason or "",
      step.rule and (" (rule %s)"):format(step.rule) or "")
    if step.rewrite then output.say("%-13s as: %s\n", "", table.concat(step.rewrite, " ")) end
  end
end

local function print_command(command, depth)
  local words = {}
  for k, word in ipairs(command.words) do words[k] = (word:gsub("%c", "?")) end
  local text = #words > 0 and table.concat(words, " ") or "(no program)"
  output.say("%-13s %s%s  %s%s\n", ("at byte %d"):format(command.at), ("  "):rep(depth), text,
    command.decision and output.colored(COLORS[command.decision], command.decision) or "",
    command.decision and command.reason and ": " .. command.reason or "")
end

---Every simple command, indented below the one that runs it.
local function print_commands(commands, unclear)
  if unclear then output.say("%-13s not understood: %s\n", "command", unclear) end
  if #commands < 2 then return end
  local function print_inside(place, depth)
    for i, command in ipairs(commands) do
      if command.inside == place then
        print_command(command, depth)
        print_inside(i, depth + 1)
      end
    end
  end
  print_inside(nil, 0)
end

---@param line mooncage.cli.Line
---@return integer? status, table? err
return function(line)
  local config, err, path = sandbox.config(line.flags)
  if not config then return nil, err end
  if line.rest[1] == "" then
    return nil, core.error("invalid", "the command is empty", "name the program to run")
  end
  local sound, wrong = mooncage._resolve(config) -- before any function of it is asked
  if not sound then return nil, sandbox.locate(wrong, path, line.flags) end
  local steps, commands, unclear = explain(line, config)
  local last = steps[#steps]
  if output.is_json() then
    local told = output.document { decision = last.decision, by = last.step, reason = last.reason,
      rule = last.rule, rewrite = last.rewrite, steps = steps, commands = commands,
      unclear = unclear }
    if not told then return exit.FAILED end
  else
    print_commands(commands, unclear)
    print_steps(steps)
  end
  local runs = last.decision == "allow" or last.decision == "rewrite"
  return runs and exit.OK or exit.DENIED
end
