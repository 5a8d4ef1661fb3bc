-- create.lua: `mooncage create`: a session that stays, held by a keeper process.
local exit = require "mooncage.cli.exit"
local mooncage = require "mooncage"
local output = require "mooncage.cli.output"
local sandbox = require "mooncage.cli.sandbox"
local system = require "mooncage.cli.system"

local create = {}
local HOUR = 3600

---Functions stay with their process, and the keeper is another one.
local function without_functions(config)
  local data = {}
  for key, value in pairs(config) do
    if type(value) ~= "function" then data[key] = value end
  end
  return data
end

---@return table? card with id, backend, enforcement; table? err
local function start(flags)
  local config, err, path = sandbox.config(flags)
  if not config then return nil, err end
  local copies = {}
  for i, copy in ipairs(flags["copy-in"] or {}) do
    copies[i] = {
      from = assert(system.absolute(copy.from)),
      to = copy.to or sandbox.base_name(copy.from),
    }
  end
  local ttl = flags.ttl or tonumber(config.ttl_s) or HOUR
  local order = { config = without_functions(config), ttl = ttl, copies = copies }
  local reply, why = system.spawn_keeper(order)
  local card = reply and mooncage.json.decode(reply)
  if type(card) ~= "table" then
    return nil, { code = "internal", message = why or "the keeper gave no answer that makes sense" }
  end
  if card.error then return nil, sandbox.locate(card.error, path, flags) end
  return card
end

function create.main(line)
  local card, err = start(line.flags)
  if not card then
    output.error(err)
    return exit.of_error(err)
  end
  for _, warning in ipairs(card.warnings or {}) do output.warn(warning) end
  local ok
  if output.is_json() then
    ok = output.document { session = card }
  else
    ok = output.write(card.id .. "\n")
  end
  return ok and exit.OK or exit.FAILED
end

return create
