-- runner.lua: busted's runner as a task of the engine. It ends by os.exit, as always; the sessions
-- that specs left open are closed then.
local core = require "mooncage.core"

local real_exit, status = os.exit, nil
-- luacheck: push ignore 122
os.exit = function(code)
  if code == nil or code == true then code = 0 end
  if code == false then code = 1 end
  status = code
  core.exit(code)
end
-- luacheck: pop

core.run(function()
  local ok, err = pcall(require "busted.runner", { standalone = false })
  if not ok and err ~= nil then error(err, 0) end
  status = ok and 0 or 1 -- busted says "failed" by throwing nil
end)
real_exit(status, true)
