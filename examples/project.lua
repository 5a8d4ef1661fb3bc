-- project.lua: work on a directory without giving it away: a command changes a copy-on-write view,
-- the changes are shown, the directory stays as it was.
-- Run it: mooncage run examples/project.lua DIR [COMMAND]
local mooncage = require "mooncage"

local directory = arg[1]
if not directory then
  io.stderr:write "usage: mooncage run examples/project.lua DIR [COMMAND]\n"
  os.exit(2)
end
local command = arg[2] or "echo 'seen by a sandbox' >> README.md"

mooncage.with({ project = directory }, function(session)
  local result = assert(session:exec(command, { timeout = 600 }))
  io.write(result.stdout, result.stderr)
  local report = assert(session:diff())
  for _, change in ipairs(report.changes) do print(change.op, change.path) end
  io.write(report.diff)
  -- session:apply() would write this back to the directory.
end)
