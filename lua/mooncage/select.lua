-- select.lua: candidates for selectors: read-only facts, and what a selector's answer means. The
-- matching itself is the engine's (core.rank).
local core = require "mooncage.core"
local plain = require "mooncage.plain"

local select = {}

local REASON_MAX = 1024 -- bytes of it that are kept

local function read_only(_, key)
  error(("a candidate is read-only: '%s' cannot be set"):format(tostring(key)), 2)
end

---A candidate whose own fields cannot be set. What is in its tables is this call's copy.
---@param facts table
function select.candidate(facts)
  facts.satisfies = core.satisfies
  return setmetatable({}, {
    __index = facts,
    __newindex = read_only,
    __metatable = "a candidate",
    ["mooncage.candidate"] = true,
  })
end

---Candidates as a tenant chooses them: names mean those of the configuration.
local function of_tenant(config, chosen)
  local list = {}
  for _, each in ipairs(chosen) do
    if type(each) ~= "string" then
      list[#list + 1] = each
    else
      for _, given in ipairs(config.candidates or { config.backend or "jail" }) do
        local id = type(given) == "table" and given.id or given
        local name = type(given) == "table" and given.name or id
        if each == name or each == id then list[#list + 1] = given end
      end
    end
  end
  return list
end

---The candidate of that number as a configuration has it, with what a tenant may have changed.
local function configured(config, overrides, number)
  local given, candidates = config.backend, config.candidates
  if overrides and overrides.candidates then
    candidates = of_tenant(config, overrides.candidates)
  end
  if candidates ~= nil then given = candidates[number] end
  if given == nil then given = "jail" end
  return type(given) == "string" and { id = given, options = {} } or given
end

---What a dry run has told, for mooncage.select.
---@param told table
---@param config table
---@param overrides table? of the tenant
function select.told(told, config, overrides)
  local explanation = core.explanation(told.candidates)
  explanation.order, explanation.why = told.order, told.reason
  if told.error then
    return nil, core.error(told.error.code, told.error.message, told.error.fix), explanation
  end
  return configured(config, overrides, told.chosen), explanation
end

local function invalid(message)
  error(core.error("invalid", "the selector " .. message,
    "return a candidate, a list of candidates, or nil and a reason"), 0)
end

---The numbers of the candidates that were returned: of one, or of a list.
local function order_of(decision, numbers)
  if numbers[decision] then return { numbers[decision] } end
  if type(decision) ~= "table" then
    invalid(("returned a %s, not a candidate"):format(type(decision)))
  end
  local order = {}
  for i = 1, math.huge do
    local candidate = rawget(decision, i)
    if candidate == nil then break end
    order[i] = numbers[candidate]
    if not order[i] then
      invalid(("returned a list whose item %d is not one of its candidates"):format(i))
    end
  end
  if #order == 0 and next(decision) ~= nil then
    invalid "returned a table that is not one of its candidates"
  end
  return order
end

---A text, an explanation; of anything else only what it is.
local function reason_of(value)
  if value == nil then return nil end
  if type(value) == "string" then return plain(value:sub(1, REASON_MAX)) end
  if core.is_explanation(value) then return tostring(value) end
  return "a reason of type " .. type(value)
end

---Calls a selector with what the engine asks, and says what its answer means.
---@param selector function
---@param asked { candidates: table[], numbers: integer[], requirements: table }
---@param context table
---@return { order: integer[], reason: string? }
function select.ask(selector, asked, context)
  local candidates, numbers = {}, {}
  for i, facts in ipairs(asked.candidates) do
    candidates[i] = select.candidate(facts)
    numbers[candidates[i]] = asked.numbers[i]
  end
  local decision, reason =
    core.decide("selector", selector, candidates, asked.requirements, context)
  local order = decision ~= nil and order_of(decision, numbers) or {}
  return { order = core.array(order), reason = reason_of(reason) }
end

return select
