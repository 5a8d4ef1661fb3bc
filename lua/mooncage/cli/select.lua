-- select.lua: `mooncage select`: which candidate would be chosen, and why no other; opens nothing.
local core = require "mooncage.core"
local exit = require "mooncage.cli.exit"
local mooncage = require "mooncage"
local output = require "mooncage.cli.output"
local sandbox = require "mooncage.cli.sandbox"

local select = {}

-- Flags that are one requirement: its key, and what of the flag's value it is.
local REQUIREMENTS = {
  ["require-network"] = { "network", function(value) return value == "yes" end },
  ["require-persistent"] = { "persistent" },
  ["require-capability"] = { "capabilities" },
  ["min-isolation"] = { "min_isolation" },
  ["require-memory"] = { "memory_mb", function(value) return value / 2 ^ 20 end },
  ["require-cpus"] = { "cpu_count" },
  ["require-pty"] = { "pty" },
  ["region"] = { "region" },
  ["max-usd-per-minute"] = { "max_usd_per_minute" },
  ["only-backend"] = { "backends" },
  ["not-backend"] = { "not_backends" },
}

---The configuration's requirements with the flags over them; and which flag set which.
local function add_requirements(config, flags)
  local wanted = {}
  for key, value in pairs(type(config.requirements) == "table" and config.requirements or {}) do
    wanted[key] = value
  end
  local any = false
  for flag, requirement in pairs(REQUIREMENTS) do
    if flags[flag] ~= nil then
      any = true
      local of = requirement[2]
      wanted[requirement[1]] = of and of(flags[flag]) or not of and flags[flag]
    end
  end
  if any then config.requirements = wanted end
end

---What is shown of each: first those that would be tried, in their order.
local function in_order(explanation)
  local rows, placed = {}, {}
  for place, number in ipairs(explanation.order or {}) do
    rows[#rows + 1] = { place = tostring(place), entry = explanation[number] }
    placed[number] = true
  end
  for number, entry in ipairs(explanation) do
    if not placed[number] then rows[#rows + 1] = { place = "-", entry = entry } end
  end
  return rows
end

local function print_table(explanation)
  local rows = in_order(explanation)
  local names, backends = 4, 7
  for _, row in ipairs(rows) do
    names = math.max(names, #tostring(row.entry.name))
    backends = math.max(backends, #tostring(row.entry.backend or "?"))
  end
  local form = ("%%2s  %%-%ds  %%-%ds  %%s\n"):format(names, backends)
  local ok = output.say(form, "", "NAME", "BACKEND", "WHY")
  for _, row in ipairs(rows) do
    local entry = row.entry
    ok = output.say(form, row.place, entry.name, entry.backend or "?", entry.reason) and ok
  end
  return ok
end

local function plain_list(explanation)
  local candidates = core.array {}
  for number, entry in ipairs(explanation) do candidates[number] = entry end
  return candidates
end

local function failed(err, explanation)
  if output.is_json() then
    output.error(err, explanation and { candidates = plain_list(explanation) })
  else
    if explanation and not output.is_quiet() then print_table(explanation) end
    output.error(err)
  end
  return exit.of_error(err)
end

function select.main(line)
  local config, err, path = sandbox.config(line.flags)
  if not config then return failed(err) end
  add_requirements(config, line.flags)
  local candidate, told, explanation = mooncage.select(config)
  if not candidate then return failed(sandbox.locate(told, path, line.flags), explanation) end
  explanation = told
  local chosen = explanation[explanation.order[1]]
  local ok
  if output.is_json() then
    ok = output.document {
      chosen = chosen, order = core.array(explanation.order), why = explanation.why,
      candidates = plain_list(explanation),
    }
  elseif output.is_quiet() then
    ok = output.say("%s\n", chosen.name)
  else
    ok = print_table(explanation)
    if explanation.why then
      ok = output.say("the selector: %s\n", explanation.why) and ok
    end
  end
  return ok and exit.OK or exit.FAILED
end

return select
