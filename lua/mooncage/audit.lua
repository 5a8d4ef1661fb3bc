-- audit.lua: mooncage.audit: the places that audit events go to. Each function makes plain data for
-- the config key `audit`; the engine judges it and does the writing.
local check = require "mooncage.options"

local audit = {}

local JSONL = {
  path = "string", dir = "string", own = "boolean", durable = "boolean", rotate_mb = "number",
  hmac_key = "secret",
}

---Lines in a file, each chained to the one before.
---@param options mooncage.AuditFile?
---@return mooncage.AuditSink
function audit.jsonl(options)
  options = options == nil and {} or options
  check("audit.jsonl", options, JSONL)
  local sink = { type = "jsonl" }
  for key, value in pairs(options) do sink[key] = value end
  return sink
end

---Calls a function with each event, as a task: it may wait, and what it is told of waits for it.
---@param fn fun(event: table, line: string)
---@return mooncage.AuditSink
function audit.callback(fn)
  if type(fn) ~= "function" then
    error(("mooncage: audit.callback: expected a function, not a %s"):format(type(fn)), 2)
  end
  return { type = "callback", call = fn }
end

---Lines on standard error.
---@return mooncage.AuditSink
function audit.stderr(options)
  check("audit.stderr", options == nil and {} or options, {})
  return { type = "stderr" }
end

return audit
