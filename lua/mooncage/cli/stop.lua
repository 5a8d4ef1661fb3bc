-- stop.lua: `mooncage stop`: ends sessions that stay.
local core = require "mooncage.core"
local exit = require "mooncage.cli.exit"
local keepers = require "mooncage.cli.keepers"
local output = require "mooncage.cli.output"

local stop = {}

---Stops each; goes on after one that could not be stopped, and tells of the first.
function stop.main(line)
  local ids, failure = line.words, nil
  if line.flags.all then
    local listed, err = keepers.list()
    if not listed then
      output.error(err)
      return exit.of_error(err)
    end
    ids = {}
    for _, entry in ipairs(listed) do ids[#ids + 1] = entry.id end
  end
  local stopped = {}
  for _, id in ipairs(ids) do
    local session, err = keepers.open(id)
    local ok = session
    if session then ok, err = session:stop() end
    if ok then
      keepers.withdraw(session)
      stopped[#stopped + 1] = session.id
      if not output.is_json() then output.write(session.id .. "\n") end
    elseif failure and not output.is_json() then
      output.error(err)
    else
      failure = failure or err
    end
  end
  if failure then
    output.error(failure, output.is_json() and { stopped = core.array(stopped) } or nil)
    return exit.of_error(failure)
  end
  if output.is_json() and not output.document { stopped = core.array(stopped) } then
    return exit.FAILED
  end
  return exit.OK
end

return stop
