-- keeper.lua: the process behind a session that stays. `mooncage create` starts it and sends it the
-- configuration; it opens the session, answers with the id, lets go of who started it, and holds
-- the sandbox until it is stopped, its time is over, or a signal ends it.
local core = require "mooncage.core"
local exit = require "mooncage.cli.exit"
local keepers = require "mooncage.cli.keepers"
local mooncage = require "mooncage"
local sandbox = require "mooncage.cli.sandbox"
local system = require "mooncage.cli.system"

local keeper = {}

local HOUR = 3600 -- its life, unless something else is said

-- How often it looks whether the session has ended on its own, in seconds.
local LOOK_EVERY = 1

local function plain(err)
  return {
    code = err.code, message = err.message, fix = err.fix, backend = err.backend,
    retryable = err.retryable,
  }
end

---Opens, copies in, and makes the session known.
---@return mooncage.Session? session, number|table ttl or err
local function start(order)
  local flags = order.flags
  local config, failure, path = sandbox.config(flags)
  if not config then return nil, failure end
  local ttl = flags.ttl or tonumber(config.ttl_s) or HOUR
  local session, err = mooncage.open(config)
  if not session then return nil, sandbox.locate(err, path, flags) end
  local ends_at = os.time() + ttl
  local ok, problem = sandbox.copy_in(session, { ["copy-in"] = order.copies })
  if ok then ok, problem = sandbox.expose(session, flags) end
  if ok then ok, problem = keepers.announce(session, ends_at) end
  if ok then return session, ttl end
  keepers.withdraw(session)
  sandbox.close(session)
  return nil, problem
end

---Waits until the session has ended elsewhere, or has to end now.
local function hold(session, ttl)
  local over = false
  for _, name in ipairs { "TERM", "INT", "HUP" } do
    core.terminal.on_signal(name, function() over = true end)
  end
  local deadline = mooncage.now() + ttl
  while not over and session:info().state ~= "closed" and mooncage.now() < deadline do
    mooncage.sleep(math.min(LOOK_EVERY, math.max(0.001, deadline - mooncage.now())))
  end
end

function keeper.main()
  local line, text = system.take_order()
  if not line then return exit.FAILED end
  local function answer(document) system.answer(line, core.encode(document)) end
  local order = mooncage.json.decode(text)
  if type(order) ~= "table" then
    answer { error = { code = "protocol", message = "the keeper got no configuration" } }
    return exit.FAILED
  end
  local warnings = core.array {}
  core.on_log(function(level, message)
    if level == "warning" then warnings[#warnings + 1] = message end
  end)
  local session, ttl = start(order)
  if not session then
    answer { error = plain(ttl) }
    return exit.FAILED
  end
  answer {
    id = session.id, backend = session.backend, enforcement = session.enforcement,
    exposed = sandbox.facts(session).exposed, warnings = warnings,
  }
  hold(session, ttl)
  keepers.withdraw(session)
  session:close()
  return exit.OK
end

return keeper
