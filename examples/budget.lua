-- budget.lua: a run that may cost so much and no more: a guardrail that warns, then denies. The
-- jail is given a price here, so that there is something to spend.
-- Run it: mooncage run examples/budget.lua
local mooncage = require "mooncage"

local config = {
  backend = mooncage.jail { cost = { usd_per_minute = 60 } }, -- a dollar a second
  run_id = "nightly",
  guardrail = mooncage.policy "budget" { per = "run", usd = 0.5, warn_at = 0.5 },
  on_log = function(level, message)
    if level == "warning" then print("  warning: " .. message:match "budget:.*") end
  end,
}

for step = 1, 10 do
  local result, err = mooncage.with(config, function(session)
    return session:exec "sleep 0.15; echo done"
  end)
  print(("step %d: %s"):format(step, result and result.stdout:gsub("\n", "") or tostring(err)))
  if not result then break end
end
