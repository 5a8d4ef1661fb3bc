-- verdict.lua: what a policy is told, and what its answer means, as plain data: the same for one in
-- the engine and one in a process of its own.
local core = require "mooncage.core"

local verdict = {}

-- ---- answers ----------------------------------------------------------------------------------

---The list of a rewrite; an empty one, which is refused, where there are holes or other keys.
local function arguments(list)
  local argv, count = {}, 0
  for _ in next, list do count = count + 1 end
  for i = 1, count do
    argv[i] = rawget(list, i)
    if argv[i] == nil then return core.array {} end
  end
  return core.array(argv)
end

---A text of at most 64 KiB, or nil; the engine looks for secrets in it and shows less.
local function short(text)
  if type(text) ~= "string" then return nil end
  local last = math.min(#text, 65536)
  while last < #text and math.floor(text:byte(last + 1) / 64) == 2 do last = last - 1 end -- UTF-8
  return text:sub(1, last)
end

---What a guardrail says, as data. All that is not a plain yes is a no; what makes no sense is said.
function verdict.of(said, reason, rule)
  reason, rule = short(reason), short(rule)
  if said == true then -- most are: with room for all of it from the start
    local answer = { allow = true, reason = false, rule = false }
    answer.reason, answer.rule = reason, rule
    return answer
  end
  if said == false then return { allow = false, reason = reason, rule = rule } end
  if said == "ask" then return { ask = true, reason = reason, rule = rule } end
  local only = type(said) == "table" and next(said) -- one key: who says two things says nothing
  if only and next(said, only) == nil then
    local value = rawget(said, only)
    if only == "warn" and type(value) == "string" then
      value = short(value)
      return { allow = true, warn = value, reason = reason or value, rule = rule }
    end
    if only == "rewrite" and type(value) == "table" then
      return { rewrite = arguments(value), reason = reason, rule = rule }
    end
  end
  local what = type(said) == "string" and ("%q"):format(said:sub(1, 40)) or "a value of type "
    .. type(said)
  return { allow = false, senseless = true, rule = rule,
    reason = ("it returned %s, which is no decision"):format(what) }
end

---What a tenant policy says.
function verdict.tenant(overrides, reason)
  if overrides == nil then return { denied = reason ~= nil and tostring(reason) or nil } end
  if type(overrides) ~= "table" then
    error(core.error("invalid", ("tenants: returned a %s, not a table of overrides")
      :format(type(overrides)), "return { limits = ... }, or nil and a reason"))
  end
  return { overrides = overrides }
end

return verdict
