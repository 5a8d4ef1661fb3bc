-- untrusted.lua: a guardrail that somebody else wrote. It runs in a process of its own, in a jail:
-- it decides, and can do nothing else. One that loops is ended, and what it was asked is denied.
-- Run it: mooncage run examples/untrusted.lua
local mooncage = require "mooncage"

local function try(text, command)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  local config = { guardrail = mooncage.policy(path, { untrusted = true }) { only = "echo" } }
  os.remove(path)
  local result, err = mooncage.with(config, function(session) return session:exec(command) end)
  print(result and result.stdout:gsub("\n", "") or (tostring(err):gsub(path, "POLICY")))
end

local HONEST = [[
  return function(options)
    return function(command)
      return command.words ~= nil and command.words[1] == options.only, "only " .. options.only
    end
  end]]

try(HONEST, "echo it may")
try(HONEST, "rm -rf .")
try("return function() return function() while true do end end end", "echo hello")
try("return function() return function() return io.open '/etc/passwd' ~= nil end end", "echo hello")
