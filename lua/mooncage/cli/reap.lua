-- reap.lua: `mooncage reap`: removes what sandboxes of engines that died have left.
local core = require "mooncage.core"
local exit = require "mooncage.cli.exit"
local keepers = require "mooncage.cli.keepers"
local mooncage = require "mooncage"
local output = require "mooncage.cli.output"

local reap = {}

function reap.main(line)
  local dry_run = line.flags["dry-run"] or false
  local report, err = mooncage.reap { dry_run = dry_run }
  if not report then
    output.error(err)
    return exit.of_error(err)
  end
  local removed = report.removed or {}
  for _, path in ipairs(keepers.dead(dry_run)) do
    removed[#removed + 1] = { kind = "socket", name = path }
  end
  if output.is_json() then
    local document = { removed = core.array(removed), dry_run = dry_run }
    return output.document(document) and exit.OK or exit.FAILED
  end
  local done = dry_run and "would remove" or "removed"
  for _, item in ipairs(removed) do
    output.write(("%s %s %s\n"):format(done, item.kind, item.name))
  end
  if #removed == 0 then output.note "nothing was left behind" end
  return exit.OK
end

return reap
