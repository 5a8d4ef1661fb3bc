-- audit_sink.lua: events of the audit log to a function of your own, beside the file.
--   mooncage run examples/audit_sink.lua
-- The function is called before a thing begins and after it has ended. What it is told of waits for
-- it; when it throws, the thing does not happen: here nothing is read from under /etc.
local mooncage = require "mooncage"

local counts = {}

local function sink(event)
  local name = event.op .. " " .. event.phase
  counts[name] = (counts[name] or 0) + 1
  local path = type(event.path) == "string" and event.path or ""
  if event.op == "read" and event.phase == "start" and path:match "^/etc/" then
    error("reading " .. path .. " is not recorded here, and so not done", 0)
  end
end

local log = os.tmpname()
local config = {
  run_id = "example",
  audit = { mooncage.audit.jsonl { path = log, durable = true }, mooncage.audit.callback(sink) },
}

mooncage.with(config, function(session)
  assert(session:write("note.txt", "written, and on record\n"))
  io.write(assert(session:read "note.txt"))
  local text, err = session:read "/etc/passwd"
  print(text, err.code)
end)

local names = {}
for name in pairs(counts) do names[#names + 1] = name end
table.sort(names)
for _, name in ipairs(names) do print(counts[name], name) end

-- The same events are in the file: mooncage audit verify FILE says that nobody has touched it.
local lines = 0
for _ in io.lines(log) do lines = lines + 1 end
print(lines .. " lines in the log")
os.remove(log)
