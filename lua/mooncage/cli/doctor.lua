-- doctor.lua: `mooncage doctor`: what works on this machine, and what would mend the rest.
local core = require "mooncage.core"
local exit = require "mooncage.cli.exit"
local mooncage = require "mooncage"
local output = require "mooncage.cli.output"

local doctor = {}

---Is the backend that isolates usable? That decides the exit status.
local function jail_works(report)
  for _, backend in ipairs(report.backends or {}) do
    if backend.id == "jail" then return backend.usable ~= false and backend.ok ~= false end
  end
  return false
end

local function print_checks(checks)
  local width = 10
  for _, check in ipairs(checks) do width = math.max(width, #check.name) end
  for _, check in ipairs(checks) do
    local mark = check.ok and output.paint_out("green", "ok  ") or output.paint_out("red", "no  ")
    local name = check.name .. (" "):rep(width - #check.name)
    output.write(("%s%s  %s\n"):format(mark, name, check.detail or ""))
    if not check.ok and check.fix then
      output.write(("    %s  fix: %s\n"):format((" "):rep(width), check.fix))
    end
  end
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
    print_checks(report.checks)
    print_backends(report.backends or {})
  end
  return jail_works(report) and exit.OK or 1
end

return doctor
