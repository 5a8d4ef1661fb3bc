-- decide.lua: the functions of a config. They stay in Lua: split() takes them out of what goes to
-- the engine, and when the engine asks, the decider here calls the one that answers.
--
-- Each kind of question has an answerer: function(functions, asked, session) -> answer | nil, the
-- session for hooks only. What is no text in a command or a result is bytes by then. For
-- "select", "tenant" and "guardrail" it must not wait, and calls the user's function through
-- core.decide, which bounds it; where that is a stranger's policy (stranger.lua) it waits, in a
-- task of its own. For "confirm", "hook" and "event" it always runs in one.

local core = require "mooncage.core"
local policy = require "mooncage.policy"
local stranger = require "mooncage.stranger"
local tools = require "mooncage.tools"
local verdict = require "mooncage.verdict"

local decide = {}

local answerers = {}
decide.answerers = answerers

core.set_decider(function(kind, functions, asked, session)
  return pcall(answerers[kind], functions, asked, session)
end)

local function misuse(level, text, ...)
  error(("mooncage: open: " .. text):format(...), level + 1)
end

---The functions that split() has found so far; their kinds are what the engine asks.
local function new_functions()
  return { asks = {}, asked = {}, waits = {}, strangers = {} }
end

local function asks(functions, kind)
  if functions.asked[kind] then return end
  functions.asked[kind] = true
  table.insert(functions.asks, kind)
end

---Asks a function that decides; one of a stranger's is asked in its process, which is waited for.
local function asks_policy(functions, kind, fn)
  asks(functions, kind)
  if not stranger.is(fn) then return end
  table.insert(functions.waits, kind)
  table.insert(functions.strangers, stranger.handle(fn))
end

---What is the operator's own code is never a stranger's.
local function refuse_stranger(fn, what, level)
  if not stranger.is(fn) then return end
  misuse(level + 1, "%s: an untrusted policy cannot be one; it can be a selector, a guardrail or "
    .. "tenants", what)
end

-- ---- hooks -------------------------------------------------------------------------------------

---Who is meant: { id = of the command, session = the object }.
local function exec_of(asked, session)
  local exec = asked.exec
  exec.session = session
  return exec
end

local HOOKS = {
  on_sandbox_exec_start = function(functions, asked, session)
    return functions.context_of(asked), functions.agent, asked.command, exec_of(asked, session)
  end,
  on_sandbox_exec_end = function(functions, asked, session)
    return functions.context_of(asked), functions.agent, asked.command, asked.result,
      exec_of(asked, session)
  end,
  on_sandbox_start = function(functions, asked, session)
    return functions.context_of(asked), functions.agent, session
  end,
  on_sandbox_stop = function(functions, asked, session)
    return functions.context_of(asked), functions.agent, session, asked.usage
  end,
  on_sandbox_snapshot = function(functions, asked, session)
    return functions.context_of(asked), functions.agent, session, asked.metadata
  end,
}

local function hook_names()
  local names = {}
  for name in pairs(HOOKS) do names[#names + 1] = name end
  table.sort(names)
  return names
end

---A hook whose name begins so, or with which this one begins: on_sandbox_exec is far from both.
local function begun(name)
  for _, each in ipairs(hook_names()) do
    if #name > #"on_" and (each:sub(1, #name) == name or name:sub(1, #each) == each) then
      return each
    end
  end
end

function answerers.hook(functions, asked, session)
  if session then core.functions_of(session, functions) end
  functions.hooks[asked.hook](HOOKS[asked.hook](functions, asked, session))
end

local function split_hooks(config, functions, level)
  local hooks = config.hooks
  if hooks == nil then return end
  if type(hooks) ~= "table" then
    misuse(level + 1, "hooks must be a table of functions, not a %s", type(hooks))
  end
  local names = {}
  for name, hook in pairs(hooks) do
    if not HOOKS[name] then
      local near = type(name) == "string" and (core.nearest(name, hook_names()) or begun(name))
      misuse(level + 1, "hooks: there is no hook '%s'%s", tostring(name),
        near and (" (did you mean '%s'?)"):format(near) or "; there are "
          .. table.concat(hook_names(), ", "))
    end
    if type(hook) ~= "function" then
      misuse(level + 1, "hooks.%s must be a function, not a %s", name, type(hook))
    end
    refuse_stranger(hook, "hooks." .. name, level + 1)
    names[#names + 1] = name
  end
  table.sort(names)
  functions.hooks = hooks
  config.hooks = core.array(names)
  if #names > 0 then asks(functions, "hook") end
end

-- ---- the selector ------------------------------------------------------------------------------

function answerers.select(functions, asked)
  if stranger.is(functions.selector) then
    return stranger.select(functions.selector, functions.who.tenant, asked,
      functions.context_of(asked))
  end
  return require("mooncage.select").ask(functions.selector, asked, functions.context_of(asked))
end

---A text is the engine's own order: see docs/selectors.md.
local function split_selector(config, functions, level)
  local selector = config.selector
  if selector == nil or type(selector) == "string" then return end
  if type(selector) ~= "function" then
    misuse(level + 1, "selector must be a function, or mooncage.policy \"name\" {}, not a %s",
      type(selector))
  end
  functions.selector = selector
  config.selector = nil
  asks_policy(functions, "select", selector)
end

-- ---- the audit log -----------------------------------------------------------------------------

function answerers.event(functions, asked)
  local event = core.decode(asked.line)
  for _, call in ipairs(functions.audit) do call(event, asked.line) end
end

local SINK_KEYS = { "type", "path", "dir", "own", "durable", "rotate_mb", "hmac_key" }

local function is_callback(sink)
  return type(sink) == "table" and sink.type == "callback" and type(sink.call) == "function"
end

---The functions of mooncage.audit.callback, out of one sink or a list of them.
local function split_audit(config, functions, level)
  local given = config.audit
  if type(given) ~= "table" then return end
  local odd = given.type == nil and given[1] == nil and next(given) -- a list, or made by a function
  if odd ~= nil and odd ~= false then
    local near = core.nearest(tostring(odd), SINK_KEYS)
    misuse(level + 1, "audit.%s: a sink needs a type%s: write mooncage.audit.jsonl { ... }, or a "
      .. "list of sinks", tostring(odd), near and near ~= odd and (" (and did you mean '%s'?)")
      :format(near) or "")
  end
  local one = given.type ~= nil
  local sinks = core.array {}
  functions.audit = {}
  for i, sink in ipairs(one and { given } or given) do
    if is_callback(sink) then
      refuse_stranger(sink.call, "audit", level + 1)
      table.insert(functions.audit, sink.call)
      sink = { type = "callback" }
    end
    sinks[i] = sink
  end
  if #functions.audit == 0 then return end
  config.audit = one and sinks[1] or sinks
  asks(functions, "event")
end

-- ---- guardrail ------------------------------------------------------------------------------

---Where a guardrail is written, for whoever has to change it: "config.lua:7", or its policy.
local function whereabouts(guardrail)
  local origin = policy.origin(guardrail)
  if origin then return ("policy %q"):format(origin.name) end
  local info = debug.getinfo(guardrail, "S")
  return ("%s:%d"):format(info.source:match "^@(.*)" or info.short_src, info.linedefined)
end

---What to do about a no.
local function way_out(guardrail, answer)
  if answer.senseless then
    return ("have the guardrail (%s) return true, false and a reason, \"ask\", "
      .. "{ rewrite = { ... } } or { warn = ... }"):format(whereabouts(guardrail))
  end
  return ("run something else, or change the guardrail (%s); with a configuration, "
    .. "`mooncage policy explain -- COMMAND` says what it decides"):format(whereabouts(guardrail))
end

function answerers.guardrail(functions, asked)
  local context, guardrail = functions.context_of(), functions.guardrail
  context.spend = asked.spend
  local answer
  if stranger.is(guardrail) then
    answer = stranger.guardrail(guardrail, functions.who.tenant, asked.command, context)
  else
    answer = verdict.of(core.decide("guardrail", guardrail, asked.command, context))
  end
  local stands = answer.allow == true or answer.ask or answer.rewrite
  local fix = not stands and way_out(guardrail, answer) or nil -- ours, whatever a stranger says
  if answer.fix ~= fix then answer.fix = fix end
  return answer
end

---What the one who is asked says: true, or false and why.
function answerers.confirm(functions, asked)
  local said, reason = functions.on_ask(asked.command, functions.context_of(), asked.reason)
  local answer = { allow = said == true, reason = type(reason) == "string" and reason or nil }
  if not answer.allow then
    answer.fix = ("say yes when asked, or have the guardrail (%s) allow it")
      :format(whereabouts(functions.guardrail))
  end
  return answer
end

local function split_guardrail(config, functions, level)
  for _, name in ipairs { "guardrail", "on_ask" } do
    local fn = config[name]
    if fn ~= nil and type(fn) ~= "function" then
      misuse(level + 1, "%s must be a function, not a %s", name, type(fn))
    end
    functions[name] = fn
    config[name] = nil
  end
  if functions.guardrail then
    config.guardrail = true
    asks_policy(functions, "guardrail", functions.guardrail)
    refuse_stranger(functions.on_ask, "on_ask", level + 1)
    if functions.on_ask then asks(functions, "confirm") end
  end
end

-- ---- tools ------------------------------------------------------------------------------------

local function split_tools(config, functions, level)
  local names
  functions.tools, names = tools.read(config.tools, function(...) misuse(level + 3, ...) end)
  config.tools = #names > 0 and core.array(names) or nil
end

-- ---- who it is for -----------------------------------------------------------------------------

---`context` and `agent` go to functions as they are; a context is given who the session is for.
local function split_identity(config, functions, level)
  local context = config.context
  if context ~= nil and type(context) ~= "table" then
    misuse(level + 1, "context must be a table, not a %s", type(context))
  end
  functions.agent = config.agent
  local who = { tenant = config.tenant, run_id = config.run_id, labels = config.labels }
  config.context, config.agent = nil, nil
  function functions.context_of()
    local given = {}
    if context then
      for key, value in pairs(context) do given[key] = value end
    end
    if who.tenant ~= nil then given.tenant = who.tenant end -- which no context can change
    if who.run_id ~= nil then given.run_id = who.run_id end
    if who.labels ~= nil then given.labels = who.labels end
    return given
  end
  functions.who = who
end

-- ---- tenants -----------------------------------------------------------------------------------

local function deep_copy(value)
  if type(value) ~= "table" then return value end
  local copy = {}
  for key, each in pairs(value) do copy[key] = deep_copy(each) end
  return copy
end

function answerers.tenant(functions, asked)
  local tenant, context = asked.tenant, functions.context_of(asked)
  if tenant == core.null then tenant = nil end
  context.tenant_key = asked.key ~= core.null and asked.key or nil
  local answer
  if stranger.is(functions.tenants) then
    answer = stranger.tenant(functions.tenants, tenant, functions.config, context)
  else
    answer = verdict.tenant(core.decide("tenants", functions.tenants, tenant,
      deep_copy(functions.config), context))
  end
  local overrides = answer.overrides
  if not overrides then return answer end
  functions.overrides = overrides
  if type(overrides.labels) == "table" then
    local labels = deep_copy(functions.who.labels or {})
    for key, value in pairs(overrides.labels) do labels[key] = value end
    functions.who.labels = labels
  end
  return answer
end

---Last: what the function is shown is the config as the engine gets it.
local function split_tenants(config, functions, level)
  local tenants = config.tenants
  if tenants == nil then return end
  if type(tenants) ~= "function" then
    misuse(level + 1, "tenants must be a function, not a %s", type(tenants))
  end
  config.tenants = nil
  functions.tenants, functions.config = tenants, deep_copy(config)
  asks_policy(functions, "tenant", tenants)
end

---Takes the functions out of a config, which is the caller's own copy.
---@param config table
---@param level integer of the caller's caller, for errors
---@return table config plain data, table functions for core.open
function decide.split(config, level)
  local functions = new_functions()
  split_hooks(config, functions, level + 1)
  split_selector(config, functions, level + 1)
  split_audit(config, functions, level + 1)
  split_guardrail(config, functions, level + 1)
  split_tools(config, functions, level + 1)
  split_identity(config, functions, level + 1)
  split_tenants(config, functions, level + 1)
  return config, functions
end

return decide
