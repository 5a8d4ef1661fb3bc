-- thrown.lua: whatever a script may throw, as an error that can be shown: a table of texts, with no
-- secret in them. A value of somebody else's may be anything, and its metamethods may throw.
local core = require "mooncage.core"

local CAUSES_MAX = 8

---The text of any value.
local function text(value)
  local ok, said = pcall(tostring, value)
  if not ok or type(said) ~= "string" then said = ("an error of type %s"):format(type(value)) end
  return core.struck(said)
end

local function own_text(err, key)
  local value = rawget(err, key)
  local kind = type(value)
  return (kind == "string" or kind == "number") and text(value) or nil
end

local function read(err, depth)
  if type(err) ~= "table" then
    return { code = "internal", message = text(err), retryable = false }
  end
  local cause = rawget(err, "cause")
  return {
    code = own_text(err, "code") or "internal",
    message = own_text(err, "message") or text(err),
    fix = own_text(err, "fix"),
    backend = own_text(err, "backend"),
    retryable = rawget(err, "retryable") == true,
    traceback = own_text(err, "traceback"),
    cause = cause ~= nil and depth < CAUSES_MAX and read(cause, depth + 1) or nil,
  }
end

---@param err any
---@return mooncage.Error
return function(err)
  return read(err, 0)
end
