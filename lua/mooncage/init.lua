-- mooncage: run an agent's commands inside sandboxes. The module: sessions, tasks, backends.
-- Types for editors are in types.lua.
local core = require "mooncage.core"
local decide = require "mooncage.decide"

local mooncage = {
  _VERSION = core.version,
  spawn = core.spawn,
  join = core.join,
  sleep = core.sleep,
  now = core.now,
  run = core.run,
  doctor = core.doctor,
  rank = core.rank,
  words = core.words,
  commands = core.commands,
  json = { encode = core.encode, decode = core.decode, array = core.array, null = core.null },
}

-- Set by mooncage.defaults: what mooncage.open falls back to, key by key, and who says where an
-- error about one of those keys came from.
local defaults, locate = {}, nil

---Feeds a stdin function to its process; a task of its own, so the function may wait.
core.set_pump(function(process, source)
  local ok, err = pcall(function()
    for chunk in source do
      if type(chunk) ~= "string" then
        error(("a stdin function must return strings, not a %s"):format(type(chunk)), 0)
      end
      if not process:write(chunk) then return end
    end
  end)
  if ok then
    process:close_stdin()
  else
    process:_abort("stdin", err)
  end
end)

local function check_config(config, what, level)
  if config == nil or type(config) == "table" then return end
  error(("mooncage: %s: the config must be a table, not a %s"):format(what, type(config)),
    level + 1)
end

---The config with what defaults() and a backend shorthand add, and its functions apart.
local function prepare(config, level)
  check_config(config, "open", level + 1)
  if config == nil then config = {} end
  local merged = {}
  for key, value in pairs(defaults) do merged[key] = value end
  if config.backend ~= nil or config.candidates ~= nil then
    merged.backend, merged.candidates = nil, nil
  end
  for key, value in pairs(config) do merged[key] = value end
  if merged.on_log ~= nil then
    if type(merged.on_log) ~= "function" then
      error(("mooncage: open: on_log must be a function, not a %s"):format(type(merged.on_log)),
        level + 1)
    end
    core.on_log(merged.on_log)
    merged.on_log = nil
  end
  local data, functions = decide.split(merged, level + 1) -- no tail call: its errors count levels
  return data, functions
end

---Says where an error came from that is about a key of the defaults.
local function explain(config, session, err)
  if session or not locate or type(err) ~= "table" or not err.message then return session, err end
  local key = err.message:gsub("^configuration: ", ""):match "^[%a_][%w_]*"
  if key and (config == nil or config[key] == nil) then err = locate(err) end
  return nil, err
end

local function open_session(config, level)
  local data, functions = prepare(config, level)
  local session, err = core.open(data, functions)
  if session then core.functions_of(session, functions) end
  return explain(config, session, err)
end

---Opens a sandbox; close it with session:close(), or let mooncage.with do both.
---@param config mooncage.Config?
---@return mooncage.Session? session, mooncage.Error? err
function mooncage.open(config)
  local session, err = open_session(config, 3)
  return session, err
end

-- What of a config stands by a session that is there already.
local STANDS_BY = {
  "guardrail", "on_ask", "hooks", "hook_timeout_s", "tools", "allowed_tools", "context", "agent",
}

---Takes up a session that a keeper holds. Of `config` it takes what stands by a session: guardrail,
---on_ask, hooks, hook_timeout_s, tools, allowed_tools, context and agent.
---@param state string
---@param config mooncage.Config?
---@return mooncage.Session? session, mooncage.Error? err
function mooncage.resume(state, config)
  if type(state) ~= "string" then
    error(("mooncage: resume: the state must be a string, not a %s"):format(type(state)), 2)
  end
  check_config(config, "resume", 2)
  local chosen = {}
  for _, key in ipairs(STANDS_BY) do chosen[key] = (config or defaults)[key] end
  local data, functions = decide.split(chosen, 2)
  local session, err = core.resume(state, data, functions)
  if session then core.functions_of(session, functions) end
  return session, err
end

---session:fork(): the functions of its config are the fork's, too.
core.session_methods().fork = function(session)
  local fork, err = core.fork(session)
  if fork then core.functions_of(fork, core.functions_of(session)) end
  return fork, err
end

---The candidate that mooncage.open would take first, and what is said of each; opens nothing.
---@param config mooncage.Config?
---@return mooncage.Candidate? candidate, table explanation_or_err, mooncage.Explanation? why
function mooncage.select(config)
  check_config(config, "select", 2)
  local data, functions = prepare(config, 2)
  local told, err = core.select(data, functions)
  if not told then return explain(config, nil, err) end
  return require("mooncage.select").told(told, data, functions and functions.overrides)
end

---What `tenants` of a config says that its tenant gets, as opening a session would ask it, judged
---by the engine; opens nothing. Without `tenants` nothing.
---@return table? overrides, mooncage.Error? err
function mooncage._overrides(config)
  if config.tenants == nil then return {} end
  local asked = {}
  for key, value in pairs(config) do asked[key] = value end
  if type(asked.selector) == "function" then asked.selector = nil end -- there is nothing to choose
  local data, functions = prepare(asked, 2)
  local told, err = core.select(data, functions)
  if not told then return nil, err end
  return functions.overrides or {}
end

---What mooncage.open falls back to, key by key: the command's configuration for a script.
---@param config mooncage.Config
---@param where? fun(err: mooncage.Error): mooncage.Error
function mooncage.defaults(config, where)
  defaults, locate = config, where
end

---What was thrown of a config, as an error that begins with the key.
local function misused(thrown)
  if type(thrown) == "table" then return thrown end
  local said = tostring(thrown)
  said = said:match "mooncage: open: (.*)$" or said:match "mooncage: config[%.%[](.*)$" or said
  return core.error("invalid", said, "see docs/config.md for the keys and what each may be")
end

---What a config comes to, and what is in force where nothing was written; opens nothing.
---@return table? resolved, mooncage.Error? err
function mooncage._resolve(config)
  local ok, resolved, err = pcall(function() return core.resolve((prepare(config, 3))) end)
  if ok then return resolved, err end
  return nil, misused(resolved)
end

---What can be said of a config without an engine: that its functions are some, the rest data.
---@return true? ok, mooncage.Error? err
function mooncage._check(config)
  local ok, err = pcall(function() core.check((prepare(config, 3))) end)
  if ok then return true end
  return nil, misused(err)
end

local function finish(session, ok, ...)
  local first, why = ...
  if not ok or (first == nil and why ~= nil) then session:unsuccessful() end
  local closed, err = session:close()
  if not ok then
    local thrown = first
    error(type(thrown) == "string" and core.struck(thrown) or thrown, 0)
  end
  local failed = select("#", ...) > 0 and (...) == nil
  if not closed and not failed then return nil, err end -- its own error comes first
  return ...
end

---Opens a sandbox, calls `fn(session)`, and closes the sandbox whatever happens. What the function
---throws is thrown on.
---@param config mooncage.Config?
---@param fn fun(session: mooncage.Session): ...
---@return any ... what the function returned; or nil, err
function mooncage.with(config, fn)
  if type(fn) ~= "function" then
    error(("mooncage: with: the second argument must be a function, not a %s"):format(type(fn)), 2)
  end
  check_config(config, "with", 2)
  local session, err = open_session(config, 3)
  if not session then return nil, err end
  return finish(session, pcall(fn, session))
end

---A value that is handed on and never shown: the text itself, no name of a variable.
---@param value string
---@return mooncage.Secret
function mooncage.secret(value)
  if type(value) ~= "string" then
    error(("mooncage: secret: the value must be a string, not a %s"):format(type(value)), 2)
  end
  return core.secret(value)
end

---A secret from a file; one newline at its end is not part of it.
---@param path string
---@return mooncage.Secret? secret, mooncage.Error? err
function mooncage.secret_file(path)
  if type(path) ~= "string" then
    error(("mooncage: secret_file: the path must be a string, not a %s"):format(type(path)), 2)
  end
  local file, why = io.open(path, "rb")
  local text = file and file:read "*a"
  if file then file:close() end
  if not text then
    return nil, core.error("not_found", "secret file " .. (why or path .. ": cannot be read"),
      "name a file that this user can read")
  end
  return core.secret((text:gsub("\r?\n$", "")))
end

---Removes what engines that no longer live have left behind.
---@param options { dry_run: boolean? }?
---@return { removed: { kind: string, name: string }[] }? report, mooncage.Error? err
function mooncage.reap(options)
  for key, value in pairs(options or {}) do
    if key ~= "dry_run" or type(value) ~= "boolean" then
      error("mooncage: reap: the one option is dry_run, true or false", 2)
    end
  end
  return core.reap(options ~= nil and options.dry_run)
end

---A policy, by its name in policies/ or the path of its file: see policy.lua.
function mooncage.policy(name_or_path, options)
  return require("mooncage.policy").policy(name_or_path, options)
end

---Runs a chunk as a script: see host.lua.
function mooncage.run_script(chunk, words, tell)
  return require("mooncage.host").run_script(chunk, words, tell)
end

local TYPES = {
  bool = "boolean", integer = "number", number = "number", string = "string", list = "table",
  map = "table",
}
-- What every candidate takes beside its backend's own options.
local COMMON = {
  name = "string", cost = "table", tags = "table", max_sessions = "number", pool = "table",
}

local function check_option(id, key, value, known, names)
  local wanted = COMMON[key] or known[key] and TYPES[known[key].type]
  if not wanted then
    local near = type(key) == "string" and core.nearest(key, names)
    error(("mooncage: %s: unknown option '%s'%s"):format(id, tostring(key),
      near and (" (did you mean '%s'?)"):format(near) or ""), 4)
  end
  if type(value) == "userdata" and wanted == "string" then return end -- a secret
  if type(value) ~= wanted then
    error(("mooncage: %s: option '%s' must be a %s, not a %s"):format(id, key, wanted,
      type(value)), 4)
  end
end

---A candidate: plain data, checked against what the backend says it takes.
local function candidate(id, facts, options)
  if options ~= nil and type(options) ~= "table" then
    error(("mooncage: %s: options must be a table, not a %s"):format(id, type(options)), 3)
  end
  local known, names = {}, {}
  for _, option in ipairs(facts.options) do
    known[option.name] = option
    names[#names + 1] = option.name
  end
  for name in pairs(COMMON) do names[#names + 1] = name end
  local result = { id = id, options = {} }
  for key, value in pairs(options or {}) do
    check_option(id, key, value, known, names)
    if COMMON[key] then
      result[key] = value
    else
      result.options[key] = value
    end
  end
  if facts.isolation == "none" then
    core.log("warning", id .. " isolates nothing: what runs there has all your rights")
  end
  return result
end

-- The backends are asked for when one is first named: the engine is made then, not by require.
setmetatable(mooncage, {
  __index = function(self, key)
    if key == "audit" or key == "store" then
      rawset(self, key, require("mooncage." .. key))
      return rawget(self, key)
    end
    local backends = core.backends()
    local facts = backends and backends[key]
    if not facts then return nil end
    local function make(options)
      return (candidate(key, facts, options)) -- no tail call: its errors count levels
    end
    rawset(self, key, make)
    return make
  end,
})

return mooncage
