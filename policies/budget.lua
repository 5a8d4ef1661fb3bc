-- budget: a guardrail that warns of, and ends, spending: dollars or minutes, of a session, of a run
-- (the sessions with one run_id) or of a tenant.
--
--   guardrail = mooncage.policy "budget" {
--     per = "run",          -- "session" (the default), "run" or "tenant"
--     usd = 5, minutes = 60, -- one of them or both
--     warn_at = 0.8,        -- from this part on it says so; 0.8 unless given
--     unpriced = "deny",    -- or "allow": where a backend's cost is not known, usd counts nothing
--     next = mooncage.policy "command_guardrail" { ... }, -- who judges what can still be paid
--   }
--
-- It is asked before each command: one that runs already is not ended by it; limits.exec_s and
-- limits.wall_s end those, and a tenant's quota ends its sessions.

local KNOWN = {
  per = "string", usd = "number", minutes = "number", warn_at = "number", unpriced = "string",
  next = "function",
}
local NAMES = { run = "run_id", tenant = "tenant" }
local PER = { session = true, run = true, tenant = true }

local function check(options)
  for key, value in pairs(options) do
    if not KNOWN[key] then error(("budget: unknown option '%s'"):format(tostring(key)), 0) end
    if type(value) ~= KNOWN[key] then
      error(("budget: %s must be a %s, not a %s"):format(key, KNOWN[key], type(value)), 0)
    end
  end
  if not options.usd and not options.minutes then error("budget: give usd, minutes or both", 0) end
  for _, key in ipairs { "usd", "minutes" } do
    if options[key] and not (options[key] >= 0 and options[key] < math.huge) then
      error(("budget: %s must be a number of at least 0"):format(key), 0)
    end
  end
  if options.warn_at and not (options.warn_at > 0 and options.warn_at <= 1) then
    error("budget: warn_at must be above 0 and at most 1", 0)
  end
  if not PER[options.per or "session"] then
    error(("budget: per is '%s': it is session, run or tenant"):format(options.per), 0)
  end
  if options.unpriced and options.unpriced ~= "allow" and options.unpriced ~= "deny" then
    error(("budget: unpriced is '%s': it is allow or deny"):format(options.unpriced), 0)
  end
end

---"$4.20 of $5.00", "59 of 60 minutes"
local function said(key, spent, most)
  if key == "usd" then return ("$%.2f of $%.2f"):format(spent, most) end
  return ("%.4g of %.4g minutes"):format(spent, most)
end

return function(options)
  check(options)
  local per, warn_at = options.per or "session", options.warn_at or 0.8
  return function(command, context)
    local known = type(context) == "table" and type(context.spend) == "table" and context.spend
    local spend = known and known[per]
    if type(spend) ~= "table" then
      local missing = known and NAMES[per]
      if missing then return false, ("budget: the session has no %s"):format(missing) end
      return false, ("budget: what this %s has spent is not known"):format(per)
    end
    if options.usd and spend.unpriced and options.unpriced ~= "allow" then
      return false, ("budget: what this %s costs is not known: give the candidate a cost, or set "
        .. "unpriced = \"allow\""):format(per)
    end
    local warning
    for _, key in ipairs { "usd", "minutes" } do
      local most, spent = options[key], spend[key]
      if most and type(spent) ~= "number" then
        return false, ("budget: the %s this %s has spent are not known"):format(key, per)
      end
      if most and spent >= most then
        return false, ("budget: this %s has spent %s"):format(per, said(key, spent, most))
      end
      if most and spent >= most * warn_at then
        warning = ("budget: this %s has spent %s"):format(per, said(key, spent, most))
      end
    end
    local verdict, reason, rule = true, nil, nil
    if options.next then verdict, reason, rule = options.next(command, context) end
    if verdict == true and warning then verdict = { warn = warning } end
    return verdict, reason, rule
  end
end
