-- audit.lua: mooncage.audit: the places that audit events go to. Each function makes plain data for
-- the config key `audit`; the engine judges it and does the writing.
local core = require "mooncage.core"

local audit = {}

local JSONL = {
  path = "string", dir = "string", own = "boolean", durable = "boolean", rotate_mb = "number",
  hmac_key = "string",
}

local function names_of(known)
  local names = {}
  for name in pairs(known) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local function check(what, options, known)
  if type(options) ~= "table" then
    error(("mooncage: audit.%s: options must be a table, not a %s"):format(what, type(options)), 3)
  end
  for key, value in pairs(options) do
    local wanted = known[key]
    if not wanted then
      local near = type(key) == "string" and core.nearest(key, names_of(known))
      error(("mooncage: audit.%s: unknown option '%s'%s"):format(what, tostring(key),
        near and (" (did you mean '%s'?)"):format(near) or ""), 3)
    end
    local secret = wanted == "string" and type(value) == "userdata"
    if type(value) ~= wanted and not secret then
      error(("mooncage: audit.%s: option '%s' must be a %s, not a %s"):format(what, key, wanted,
        type(value)), 3)
    end
  end
end

---Lines in a file, each chained to the one before.
---@param options mooncage.AuditFile?
---@return mooncage.AuditSink
function audit.jsonl(options)
  options = options == nil and {} or options
  check("jsonl", options, JSONL)
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
  check("stderr", options == nil and {} or options, {})
  return { type = "stderr" }
end

return audit
