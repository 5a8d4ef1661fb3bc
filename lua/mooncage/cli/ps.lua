-- ps.lua: `mooncage ps`: the sessions that stay.
local core = require "mooncage.core"
local exit = require "mooncage.cli.exit"
local keepers = require "mooncage.cli.keepers"
local output = require "mooncage.cli.output"

local ps = {}

---3725 -> "1h02m".
local function age(seconds)
  if not seconds or seconds < 0 then return "?" end
  if seconds < 60 then return ("%ds"):format(seconds) end
  if seconds < 3600 then return ("%dm%02ds"):format(seconds / 60, seconds % 60) end
  return ("%dh%02dm"):format(seconds / 3600, seconds % 3600 / 60)
end

local function print_table(entries)
  if output.is_quiet() then
    for _, entry in ipairs(entries) do output.write(entry.id .. "\n") end
    return
  end
  local width = 2
  for _, entry in ipairs(entries) do width = math.max(width, #entry.id) end
  local row = "%-" .. width .. "s  %-10s  %8s  %8s  %s\n"
  output.write(row:format("ID", "BACKEND", "AGE", "ENDS IN", "PROCESSES"))
  for _, entry in ipairs(entries) do
    output.write(row:format(entry.id, entry.backend, age(entry.age_s), age(entry.ends_in_s),
      entry.processes and tostring(#entry.processes) or "?"))
  end
end

function ps.main()
  local entries, err = keepers.list { processes = not output.is_quiet() }
  if not entries then
    output.error(err)
    return exit.of_error(err)
  end
  if output.is_json() then
    return output.document { sessions = core.array(entries) } and exit.OK or exit.FAILED
  end
  print_table(entries)
  return exit.OK
end

return ps
