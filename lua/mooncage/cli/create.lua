-- create.lua: `mooncage create`: a session that stays, held by a keeper process.
local exit = require "mooncage.cli.exit"
local mooncage = require "mooncage"
local output = require "mooncage.cli.output"
local sandbox = require "mooncage.cli.sandbox"
local system = require "mooncage.cli.system"

local create = {}

---@return table? card with id, backend, enforcement; table? err
local function start(flags)
  sandbox.say_ignored(flags)
  local copies = {}
  for i, copy in ipairs(flags["copy-in"] or {}) do
    copies[i] = {
      from = assert(system.absolute(copy.from)),
      to = copy.to or sandbox.base_name(copy.from),
    }
  end
  -- The keeper reads the configuration itself: its functions decide there.
  local reply, why = system.spawn_keeper { flags = flags, copies = copies }
  local card = reply and mooncage.json.decode(reply)
  if type(card) ~= "table" then
    return nil, { code = "internal", message = why or "the keeper gave no answer that makes sense",
      fix = "try it with `mooncage run` and the same flags, which says more" }
  end
  if card.error then return nil, card.error end
  return card
end

function create.main(line)
  local card, err = start(line.flags)
  if not card then
    output.error(err)
    return exit.of_error(err)
  end
  for _, warning in ipairs(card.warnings or {}) do output.warn(warning) end
  if not output.is_json() then sandbox.say_exposed(card.exposed) end
  local ok
  if output.is_json() then
    ok = output.document { session = card }
  else
    ok = output.write(card.id .. "\n")
  end
  return ok and exit.OK or exit.FAILED
end

return create
