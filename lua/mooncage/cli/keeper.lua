-- keeper.lua: the process behind a session that stays. `mooncage create` starts it with the
-- configuration on its standard input; it opens the session, answers with the id, lets go of the
-- terminal and holds the sandbox until it is stopped, its time is over, or a signal ends it.
local exit = require "mooncage.cli.exit"
local keepers = require "mooncage.cli.keepers"
local mooncage = require "mooncage"
local output = require "mooncage.cli.output"
local sandbox = require "mooncage.cli.sandbox"
local system = require "mooncage.cli.system"
local terminal = require("mooncage.core").terminal

local keeper = {}

local function answer(document)
  output.document(document)
end

local function plain(err)
  return { code = err.code, message = err.message, fix = err.fix, backend = err.backend,
    retryable = err.retryable }
end

---Opens, copies in, and makes the session known.
local function start(order)
  local session, err = mooncage.open(order.config)
  if not session then return nil, err end
  local ends_at = os.time() + order.ttl
  local ok, problem = sandbox.copy_in(session, { ["copy-in"] = order.copies })
  if ok then ok, problem = keepers.announce(session, ends_at) end
  if ok then return session end
  keepers.withdraw(session)
  session:close()
  return nil, problem
end

---Waits until the session has ended elsewhere, or has to end now.
local function hold(session, ttl)
  local over = false
  for _, name in ipairs { "TERM", "INT", "HUP" } do
    terminal.on_signal(name, function() over = true end)
  end
  local deadline = mooncage.now() + ttl
  while not over and session:info().state ~= "closed" and mooncage.now() < deadline do
    mooncage.sleep(math.min(0.5, math.max(0.001, deadline - mooncage.now())))
  end
end

function keeper.main()
  local order = mooncage.json.decode(io.stdin:read "*a" or "")
  if type(order) ~= "table" then
    answer { error = { code = "protocol", message = "the keeper got no configuration" } }
    return exit.FAILED
  end
  local session, err = start(order)
  if not session then
    answer { error = plain(err) }
    return exit.FAILED
  end
  answer { id = session.id, backend = session.backend, enforcement = session.enforcement }
  system.let_go()
  hold(session, order.ttl)
  keepers.withdraw(session)
  session:close()
  return exit.OK
end

return keeper
