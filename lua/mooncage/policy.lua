-- policy.lua: loads policies: Lua files that decide and do nothing else. A policy file is text that
-- returns function(options) -> function of the kind wanted (selector, guardrail, tenants). It sees
-- no io, no os, no clock and no module but what is here (pure.lua), and shares nothing with other
-- policies. This keeps an operator's policy honest; it is no wall against a hostile one: that runs
-- in a process of its own (stranger.lua).
local core = require "mooncage.core"
local pure = require "mooncage.pure"
local stranger = require "mooncage.stranger"

local policy = { impure = pure.impure }

local SOURCE_MAX = 256 * 1024

-- What was made by which policy, for those who show it.
local made_by = setmetatable({}, { __mode = "k" })

local function fail(code, message, fix)
  error(core.error(code, message, fix), 0)
end

---Text of a file; nil, why, and what to do about it. Never waits, as for a pipe. `trusted`: it is
---to run in here, so nobody else may have written it, and it is no link.
---@param path string
---@param trusted boolean
local function read(path, trusted)
  local text, why, there = core.read_file(path, SOURCE_MAX, trusted and "policy" or nil)
  if text then return text end
  why = why:gsub("^cannot read (.-): ", "%1 cannot be read: ")
    :gsub("is too long$", "is longer than 256 KiB")
  if not there then return nil, why end
  return nil, why, "name an ordinary file of your own or root's that nobody else can write, or "
    .. "load it as untrusted"
end
policy.read = read

---Directories that may hold the built-in policies: beside the command, beside the module.
local function places()
  local list = {}
  local source = debug.getinfo(1, "S").source:match "^@(.*)/[^/]*$"
  if source and source:sub(1, 9) ~= "mooncage/" then
    list[#list + 1] = source .. "/policies" -- installed
    list[#list + 1] = source .. "/../../policies" -- a source tree
  end
  if package.preload["mooncage.cli.system"] then
    local program = require("mooncage.cli.system").program_directory()
    if program then
      list[#list + 1] = program .. "/../share/lua/5.1/mooncage/policies" -- installed
      list[#list + 1] = program .. "/policies" -- a build tree
    end
  end
  return list
end

---Where the built-in policies are.
---@return string? directory, string? why
function policy.directory()
  local tried = places()
  for _, place in ipairs(tried) do
    local file = io.open(place .. "/tenant_routing.lua", "rb")
    if file then
      file:close()
      return place
    end
  end
  return nil, "looked in " .. table.concat(tried, ", ")
end

-- The built-in policies, for "did you mean"; each is a file of policies/.
local BUILTIN = {
  "budget", "cheapest_first", "command_guardrail", "failover", "prefer_local", "tenant_routing",
}

local function builtin_path(name)
  local directory, why = policy.directory()
  if not directory then
    fail("not_found", ("the built-in policy %q is not installed: %s"):format(name, why),
      "install Mooncage's policies/, or name the file by its path")
  end
  local path = ("%s/%s.lua"):format(directory, name)
  local file = io.open(path, "rb")
  if file then
    file:close()
    return path
  end
  local near = core.nearest(name, BUILTIN)
  return fail("not_found", ("there is no policy %q"):format(name),
    near and near ~= name and ("did you mean %q?"):format(near)
      or "name a file (./my_policy.lua), or one of " .. table.concat(BUILTIN, ", "))
end

---The globals of one policy: a fresh set, of copies.
local function environment()
  return pure.environment {
    rank = function(...) return require("mooncage").rank(...) end,
    words = core.words,
    commands = core.commands,
  }
end

---Options are the policy's own copy.
local function deep_copy(value, depth)
  if type(value) ~= "table" then return value end
  if depth > 50 then
    fail("invalid", "the options of a policy are nested too deeply, or in a circle",
      "give plain data of at most 50 levels")
  end
  local result = {}
  for key, each in pairs(value) do result[key] = deep_copy(each, depth + 1) end
  return result
end

---Calls what belongs to the policy of a path: it must decide at once, and within its budget.
local function decide(path, fix, fn, ...)
  local ok, value = pcall(core.decide, path, fn, ...)
  if ok then return value end
  local message = type(value) == "table" and value.message or tostring(value)
  local place = path .. ": " .. path .. ":" -- it names the place itself
  if message:sub(1, #place) == place then message = message:sub(#path + 3) end
  return fail("invalid", message, fix)
end

---Runs a text as a policy's file does: pure, within its budget. Its value, or it throws.
---@param path string
---@param text string
---@return any
function policy.evaluate(path, text)
  local chunk, why, fix = pure.chunk(path, text, environment())
  if not chunk then fail("invalid", why, fix) end
  return decide(path, "correct it there", chunk)
end

-- Looks at each file that is to be a policy while a configuration is read that holds for its bytes.
local guard

---Calls fn; files that are loaded as policies meanwhile must pass look(path, text), which throws.
---@param look fun(path: string, text: string)?
---@param fn function
---@return any ... what fn returned
function policy.guarded(look, fn, ...)
  local before = guard
  guard = look
  local function leave(ok, ...)
    guard = before
    if not ok then error((...), 0) end
    return ...
  end
  return leave(pcall(fn, ...))
end

---The text of a policy, which nobody has looked at. One of ours may lie wherever it was installed.
---@param name_or_path string
---@param trusted boolean? it is to run in here
---@return string text, string path
function policy.source(name_or_path, trusted)
  local path, named = name_or_path, name_or_path:match "^[%w_%-]+$" ~= nil
  if named then path = builtin_path(name_or_path) end
  local text, why, fix = read(path, trusted and not named)
  if not text then
    fail(fix and "invalid" or "not_found", "the policy " .. why,
      fix or "name a policy file that is there")
  end
  if guard and not named then guard(path, text) end
  return text, path
end

---The factory of a policy: what its file returns.
---@param name_or_path string
---@return function factory, string path
function policy.load(name_or_path)
  local text, path = policy.source(name_or_path, true)
  local factory = policy.evaluate(path, text)
  if type(factory) ~= "function" then
    fail("invalid", ("%s: returns %s, not a function"):format(path, type(factory)),
      "end the file with: return function(options) return function(...) ... end end")
  end
  return factory, path
end

---Gives a policy its options: the function that decides.
function policy.make(factory, path, options)
  if options ~= nil and type(options) ~= "table" then
    fail("invalid", ("%s: its options must be a table, not a %s"):format(path, type(options)),
      "give them as policy \"NAME\" { OPTION = VALUE }")
  end
  local decision = decide(path, "correct the options, or the policy", factory,
    deep_copy(options or {}, 0))
  if type(decision) ~= "function" then
    fail("invalid",
      ("%s: with these options it gives %s, not a function"):format(path, type(decision)),
      "the file must return function(options) that returns a function")
  end
  return decision
end

---By which policy a function was made: { name, options }; nil for any other function.
function policy.origin(decision)
  return made_by[decision]
end

local function check_load_options(options)
  for key, value in pairs(options or {}) do
    if key ~= "untrusted" then
      local near = type(key) == "string" and core.nearest(key, { "untrusted" })
      fail("invalid", ("policy: unknown option %q"):format(tostring(key)),
        near and ("did you mean %q?"):format(near) or "the one option is untrusted")
    end
    if type(value) ~= "boolean" then
      fail("invalid", ("policy: untrusted must be true or false, not a %s"):format(type(value)),
        "write { untrusted = true }, or leave it out")
    end
  end
end

---A policy from policies/ or from a file. `mooncage.policy("budget")(options)` is the function.
---@param name_or_path string
---@param options { untrusted: boolean? }?
---@return fun(options: table?): function
function policy.policy(name_or_path, options)
  if type(name_or_path) ~= "string" then
    error(("mooncage: policy: the name must be a string, not a %s"):format(type(name_or_path)), 2)
  end
  if name_or_path:find("%z") then
    fail("invalid", "policy: the name holds a NUL byte", "name a file, or a policy by its name")
  end
  if options ~= nil and type(options) ~= "table" then
    error(("mooncage: policy: options must be a table, not a %s"):format(type(options)), 2)
  end
  check_load_options(options)
  local untrusted = options ~= nil and options.untrusted
  local factory, path = (untrusted and policy.source or policy.load)(name_or_path)
  return function(policy_options)
    local make = untrusted and stranger.make or policy.make
    local decision = make(factory, path, policy_options)
    made_by[decision] = { name = name_or_path, path = path, options = policy_options }
    return decision
  end
end

return policy
