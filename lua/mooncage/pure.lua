-- pure.lua: what a policy sees: facts come in, a decision goes out. The same for those that run in
-- the engine (policy.lua) and those of strangers in a process of their own (lua/stranger).
local pure = {}

---A copy of a table of functions, without some.
local function copy(library, without)
  local result = {}
  for name, value in pairs(library) do result[name] = value end
  for _, name in ipairs(without) do result[name] = nil end
  return result
end

---Metatables of tables only: those of strings and of the host's objects are shared by all.
local function table_metatable(value)
  if type(value) == "table" then return getmetatable(value) end
end

local BASE = {
  "assert", "error", "ipairs", "next", "pairs", "pcall", "xpcall", "rawequal", "rawget", "rawset",
  "select", "setmetatable", "tonumber", "tostring", "type", "unpack",
}

-- Names a policy may reach for, and is told why they are not there.
pure.impure = {}
for name in ([[collectgarbage coroutine debug dofile getfenv gcinfo io jit load loadfile loadstring
    module newproxy os package print require setfenv]]):gmatch "%S+" do
  pure.impure[name] = true
end

---The globals of one policy: a fresh set, of copies.
---@param mooncage table what it has as `mooncage`
function pure.environment(mooncage)
  local env = {
    string = copy(string, { "dump" }),
    table = copy(table, {}),
    math = copy(math, { "random", "randomseed" }),
    bit = copy(bit, {}),
    getmetatable = table_metatable,
    mooncage = mooncage,
  }
  for _, name in ipairs(BASE) do env[name] = _G[name] end
  env._G = env
  function env.require(name)
    if name == "mooncage" then return env.mooncage end
    error(("a policy decides from what it is given: it cannot require '%s'"):format(
      tostring(name)), 2)
  end
  return setmetatable(env, {
    __index = function(_, name)
      if not pure.impure[name] then return nil end
      error(("a policy decides from what it is given: there is no %s here"):format(name), 2)
    end,
  })
end

---The text as a function with these globals; nil, why, and what to do about it.
---@param path string
---@param text string
---@param env table
function pure.chunk(path, text, env)
  if text:sub(1, 1) == "\27" then
    return nil, path .. ": is bytecode, not Lua text", "give the source text of the file"
  end
  text = text:gsub("^#[^\n]*", "")
  local chunk, why = load(text, "@" .. path, "t", env)
  return chunk, why, "correct the Lua text there"
end

return pure
