-- doctor.lua: `mooncage doctor`: what works on this machine, and what would mend the rest.
local core = require "mooncage.core"
local exit = require "mooncage.cli.exit"
local mooncage = require "mooncage"
local output = require "mooncage.cli.output"

local doctor = {}

local function print_machine(where)
  local said = { where.kernel, where.root and "as root" or ("as uid %d"):format(where.uid) }
  if where.container then said[#said + 1] = "in a container (" .. where.container .. ")" end
  if where.ci then said[#said + 1] = "on " .. where.ci end
  if where.wsl then said[#said + 1] = "in WSL" end
  output.write(table.concat(said, ", ") .. "\n")
end

local MARKS = { ok = { "green", "ok  " }, no = { "red", "no  " }, off = { "yellow", "-   " } }

local function print_checks(checks)
  local width = 10
  for _, check in ipairs(checks) do width = math.max(width, #check.name) end
  local under = (" "):rep(width + 6)
  for _, check in ipairs(checks) do
    local mark = MARKS[check.state]
    local name = check.name .. (" "):rep(width - #check.name)
    output.say("%s%s  %s\n", output.colored(mark[1], mark[2]), name, check.detail or "")
    if check.costs then output.write(("%swithout it: %s\n"):format(under, check.costs)) end
    if check.fix then output.write(("%sfix: %s\n"):format(under, check.fix)) end
  end
end

---The names of what the default sandbox needs and has not.
local function missing(checks)
  local names = {}
  for _, check in ipairs(checks) do
    if check.needed and not check.ok then names[#names + 1] = check.name end
  end
  return table.concat(names, ", ")
end

local function print_backends(backends)
  for _, backend in ipairs(backends) do
    local usable = backend.usable ~= false and backend.ok ~= false
    local detail = backend.detail or "see above"
    local why = usable and "usable" or "not usable: " .. detail
    output.write(("backend %s (isolation: %s): %s\n"):format(backend.id,
      tostring(backend.isolation or "?"), why))
  end
end

function doctor.main(line)
  -- Each mechanism is tried; what a trial warns of is in the report.
  if not line.flags.verbose then core.log_level "error" end
  local report, err = mooncage.doctor()
  if not report then
    output.error(err)
    return exit.of_error(err)
  end
  if output.is_json() then
    if not output.document(report) then return exit.FAILED end
  else
    print_machine(report.machine)
    print_checks(report.checks)
    print_backends(report.backends or {})
    output.write(report.ok and "the default sandbox works here\n"
      or ("the default sandbox does not work here: %s\n"):format(missing(report.checks)))
  end
  return report.ok and exit.OK or exit.SCRIPT
end

return doctor
