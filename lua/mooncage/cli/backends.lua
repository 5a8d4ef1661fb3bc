-- backends.lua: `mooncage backends`: what each backend is, costs and can, and if it works here.
local core = require "mooncage.core"
local exit = require "mooncage.cli.exit"
local mooncage = require "mooncage"
local output = require "mooncage.cli.output"

local backends = {}

---What the engine says of each backend, with what trying it has shown; in the order of their names.
---@return table[]? list, table? err
local function list()
  local known, err = core.backends()
  if not known then return nil, err end
  local report, why = mooncage.doctor()
  if not report then return nil, why end
  local tried = {}
  for _, backend in ipairs(report.backends or {}) do tried[backend.id] = backend end
  local all = {}
  for id, facts in pairs(known) do
    facts.id = id
    local trial = tried[id] or {}
    facts.usable = trial.usable ~= false and trial.ok ~= false
    facts.why = not facts.usable and (trial.why or trial.detail or "it could not be tried") or nil
    all[#all + 1] = facts
  end
  table.sort(all, function(a, b) return a.id < b.id end)
  return all
end

local function rate(cost)
  if not cost then return "unpriced" end
  local usd = cost.usd_per_minute == 0 and "free" or ("%.6g"):format(cost.usd_per_minute)
  return cost.as_of and ("%s (%s)"):format(usd, cost.as_of) or usd
end

local function capabilities(set)
  local names = {}
  for name in pairs(set or {}) do names[#names + 1] = name end
  table.sort(names)
  return table.concat(names, ",")
end

local HEADER = { "BACKEND", "FAMILY", "ISOLATION", "USD/MINUTE", "STAYS", "HERE", "CAPABILITIES" }

local function print_table(all)
  local rows = { HEADER }
  for _, each in ipairs(all) do
    rows[#rows + 1] = { each.id, each.family, each.isolation, rate(each.cost),
      each.persistent and "yes" or "no", each.usable and "yes" or "no",
      capabilities(each.capabilities) }
  end
  local widths = {}
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do widths[i] = math.max(widths[i] or 0, #cell) end
  end
  local lines = {}
  for _, row in ipairs(rows) do
    local cells = {}
    for i, cell in ipairs(row) do
      cells[i] = i < #row and cell .. (" "):rep(widths[i] - #cell) or cell
    end
    lines[#lines + 1] = table.concat(cells, "  ")
  end
  for _, each in ipairs(all) do
    local why = each.why and ("%s cannot be used here: %s"):format(each.id, each.why)
    lines[#lines + 1] = why or nil
  end
  return output.show(table.concat(lines, "\n") .. "\n")
end

function backends.main(line)
  -- Each is tried; what a trial warns of is in the report.
  if not line.flags.verbose then core.log_level "error" end
  local all, err = list()
  if not all then
    output.error(err)
    return exit.of_error(err)
  end
  if output.is_json() then
    return output.document { backends = core.array(all) } and exit.OK or exit.FAILED
  end
  local ok = true
  if output.is_quiet() then
    for _, each in ipairs(all) do ok = output.write(each.id .. "\n") and ok end
  else
    ok = print_table(all)
  end
  return ok and exit.OK or exit.FAILED
end

return backends
