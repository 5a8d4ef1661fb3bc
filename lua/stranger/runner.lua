-- runner.lua: in mooncage-policy: makes a policy of the text it is given, and answers what it is
-- asked. `...` is a table of what the engine's own Lua has as mooncage.core.
local core = ...

local loaded = { ["mooncage.core"] = core }

---The few modules that are in the executable.
function require(name) -- luacheck: globals require
  local module = loaded[name]
  if module == nil then
    module = core.embedded(name)()
    loaded[name] = module
  end
  return module
end

---A decision here has the process's own budget, and no other.
function core.decide(_, fn, ...) return fn(...) end

---An error as a table, as core.error makes it.
function core.error(code, message, fix)
  return { code = code, message = message, fix = fix }
end

local pure = require "mooncage.pure"
local select = require "mooncage.select"
local verdict = require "mooncage.verdict"

local LOG_MAX, LOGS_MAX = 4096, 65536 -- bytes printed in one decision, in all
local TEXT_MAX = 1024

local decision, complaint
local printed, in_all = {}, 0

local function print_to_log(...)
  local parts = {}
  for i = 1, (_G.select("#", ...)) do parts[i] = tostring((_G.select(i, ...))) end
  local text = table.concat(parts, "\t")
  local room = math.min(LOG_MAX - (printed.size or 0), LOGS_MAX - in_all)
  text = text:sub(1, math.max(0, room))
  if text == "" then return end
  printed[#printed + 1] = text
  printed.size, in_all = (printed.size or 0) + #text, in_all + #text
end

---What was thrown, as a text; its metamethods are not asked.
local function thrown(value)
  if type(value) == "table" then value = rawget(value, "message") end
  if type(value) ~= "string" then return "it threw a value that is neither a text nor an error" end
  return value:sub(1, TEXT_MAX)
end

local answerers = {}

function answerers.begin(asked)
  local env = pure.environment {
    rank = function(candidates, requirements, options)
      return core.rank(candidates, requirements, options)
    end,
    words = core.words,
    commands = core.commands,
  }
  env.print = print_to_log
  local chunk, why = pure.chunk(asked.name, asked.source, env)
  if not chunk then error(why, 0) end
  local factory = chunk()
  if type(factory) ~= "function" then
    error(("%s: returns %s, not a function"):format(asked.name, type(factory)), 0)
  end
  if asked.check then -- some cannot be without options: that is no fault of the file
    local ok, made = pcall(factory, asked.options)
    complaint = not ok and thrown(made) or type(made) ~= "function"
      and ("without options it gives %s, not a function"):format(type(made)) or nil
    return {}
  end
  decision = factory(asked.options or {})
  if type(decision) ~= "function" then
    error(("%s: with these options it gives %s, not a function"):format(asked.name,
      type(decision)), 0)
  end
  return {}
end

function answerers.check()
  return { says = complaint }
end

function answerers.guardrail(asked)
  return verdict.of(decision(asked.command, asked.context))
end

function answerers.selector(asked)
  return select.ask(decision, asked, asked.context)
end

function answerers.tenant(asked)
  local overrides, reason = decision(asked.tenant, asked.config, asked.context)
  return verdict.tenant(overrides, reason)
end

---A line of JSON to a line of JSON.
return function(line)
  printed = {}
  local asked = core.question(line)
  local ok, answer = pcall(answerers[asked.kind], asked)
  local said = ok and { answer = answer } or { error = thrown(answer) }
  if #printed > 0 then said.log = table.concat(printed, "\n") end
  local encoded, text = pcall(core.encode, said)
  if not encoded then text = core.encode { error = thrown(text) } end
  return text .. "\n"
end
