-- Put before every script of tests/escape: says things the way sbx-probe does.
local real = require "mooncage"
local mooncage = setmetatable({}, { __index = real })
local DIR, BIN, PROBE, MARK, CANARY = "@DIR@", "@BIN@", "@PROBE@", "@MARK@", "@CANARY@"
local CARRIER = "@CARRIER@"

local function say(verdict, what, detail)
  io.write(what, "\t", verdict, "\t", (tostring(detail or ""):gsub("[%c]", " ")):sub(1, 300), "\n")
  io.flush()
end

-- A sandbox that does not start is told to the runner by the exit status.
local function opened(session, err)
  if session then return session end
  io.stderr:write("open: ", err.code, ": ", err.message, "\n")
  os.exit(125)
end

-- The carrier that the run is for, where the script names none itself.
function mooncage.jail(options)
  local all = { carrier = CARRIER }
  for key, value in pairs(options or {}) do all[key] = value end
  return real.jail(all)
end

function mooncage.open(config)
  local all = { backend = mooncage.jail {} }
  for key, value in pairs(config) do all[key] = value end
  return real.open(all)
end

function mooncage.with(config, fn)
  local session = opened(mooncage.open(config))
  local ok, err = pcall(fn, session)
  session:close()
  if not ok then error(err, 0) end
end

-- A call that returns a value, or nil and an error; a raised error is a refusal too.
local function try(what, fn, ...)
  local ok, value, err = pcall(fn, ...)
  if not ok then return say("DENIED", what, "raised: " .. tostring(value)) end
  if value == nil and err ~= nil then return say("DENIED", what, err.code or tostring(err)) end
  say("ALLOWED", what, type(value) == "table" and (value.stdout or "table") or value)
  return value
end

-- As try, but only bytes that the canary is in count as a success of the attack.
local function try_read(what, session, path)
  local ok, value, err = pcall(session.read, session, path)
  if not ok then return say("DENIED", what, "raised: " .. tostring(value)) end
  if value == nil then return say("DENIED", what, err and err.code or "nil") end
  say(value:find(CANARY, 1, true) and "ALLOWED" or "DENIED", what, #value .. " bytes")
end

-- A jail that has the probe; `options` are the jail's own.
local function with_probe(options, config)
  options, config = options or {}, config or {}
  options.binds = { BIN .. ":@INSIDE@" }
  config.backend = mooncage.jail(options)
  return config
end

