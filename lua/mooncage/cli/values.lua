-- values.lua: turns the text of a flag's value into what it means. Each reader returns the value,
-- or nil and what is wrong with it; nothing is guessed.
local values = {}

local UNITS = { [""] = 1, K = 2 ^ 10, M = 2 ^ 20, G = 2 ^ 30, T = 2 ^ 40 }
local SECONDS = { ms = 0.001, s = 1, m = 60, h = 3600, d = 86400 }
local LARGEST = 2 ^ 53

---A decimal number of plain digits: no sign, no exponent, no hexadecimal.
local function decimal(text)
  if text:match "^%d+$" or text:match "^%d+%.%d+$" then return tonumber(text) end
end

---"512M" -> bytes. K, M, G and T are powers of 1024; a whole number of bytes must come out.
function values.size(text)
  local digits, unit, tail = text:match "^([%d.]+)([KMGTkmgt]?)(i?[Bb]?)$"
  local number = digits and decimal(digits)
  local scale = unit and UNITS[unit:upper()]
  if not number or (unit == "" and tail:sub(1, 1) == "i") then
    return nil, "is no size; write for instance 512M or 1.5G"
  end
  local bytes = number * scale
  if bytes < 1 or bytes > LARGEST then return nil, "must be from 1 byte to 8192T" end
  return math.floor(bytes)
end

---"30s", "1.5m", "500ms" -> seconds. The unit must be there: 30 alone says too little.
function values.duration(text)
  local digits, unit = text:match "^([%d.]+)(%a+)$"
  local number = digits and decimal(digits)
  if not number or not SECONDS[unit] then
    return nil, "is no duration; write for instance 500ms, 30s, 10m or 1h"
  end
  local seconds = number * SECONDS[unit]
  if seconds < 0.001 or seconds > 10 * 365 * 86400 then
    return nil, "must be from 1ms to 3650d"
  end
  return seconds
end

---A whole number of at least 1.
function values.count(text)
  local number = text:match "^%d+$" and tonumber(text)
  if not number or number < 1 or number > 2 ^ 31 - 1 then
    return nil, "must be a whole number of at least 1"
  end
  return number
end

---A number above 0, with decimals.
function values.number(text)
  local number = decimal(text)
  if not number or number <= 0 then return nil, "must be a number above 0, for instance 1.5" end
  return number
end

---A number that may be 0, with decimals.
function values.amount(text)
  local number = decimal(text)
  if not number then return nil, "must be a number, for instance 0.05" end
  return number
end

function values.string(text)
  return text
end

---Something that is not empty: a name, a path.
function values.name(text)
  if text == "" then return nil, "is empty" end
  return text
end

---A place inside a sandbox.
function values.inside(text)
  if text:sub(1, 1) ~= "/" then return nil, "must be an absolute path inside, such as /work" end
  return text
end

---"SRC" or "SRC:DST" -> { from, to }.
function values.copy(text)
  local from, to = text:match "^([^:]+):([^:]+)$"
  if not from then
    from = text:match "^([^:]+)$"
  end
  if not from then return nil, "must be SRC or SRC:DST" end
  return { from = from, to = to }
end

---"PORT" or "PORT:HOSTPORT" -> { port, host_port }.
function values.exposed(text)
  local inside, outside = text:match "^(%d+):?(%d*)$"
  if not inside or text:sub(-1) == ":" then return nil, "must be PORT or PORT:HOSTPORT" end
  local port, host_port = tonumber(inside), tonumber(outside)
  if port < 1 or port > 65535 or (host_port and (host_port < 1 or host_port > 65535)) then
    return nil, "needs ports from 1 to 65535"
  end
  return { port = port, host_port = host_port }
end

---"SRC:DST" or "SRC:DST:rw" -> a live mount. Read-only unless rw.
function values.bind(text)
  local source, target, mode = text:match "^([^:]+):([^:]+):?([^:]*)$"
  if not source or (mode ~= "" and mode ~= "ro" and mode ~= "rw") or text:sub(-1) == ":" then
    return nil, "must be SRC:DST or SRC:DST:rw"
  end
  if target:sub(1, 1) ~= "/" then return nil, "needs an absolute path inside, as in SRC:/data" end
  return { source = source, target = target, writable = mode == "rw" }
end

local function from_environment(name)
  local value = os.getenv(name)
  if not value then return nil, ("names %s, which is not set in the environment"):format(name) end
  return value
end

local function from_file(path)
  local file, why = io.open(path, "rb")
  if not file then return nil, "cannot be read from the file: " .. why end
  local text = file:read "*a"
  file:close()
  if not text then return nil, ("cannot be read from %s"):format(path) end
  return (text:gsub("\r?\n$", ""))
end

---"K=V", or "K" to take it over from our own environment -> { name, value }.
function values.environment(text)
  local name, value = text:match "^([^=]+)=(.*)$"
  local taken = not name
  if not name then
    if text:find("=", 1, true) or text == "" then return nil, "must be NAME=VALUE or NAME" end
    name = text
    local why
    value, why = from_environment(name)
    if not value then return nil, why end
  end
  return { name = name, value = value, taken = taken or nil }
end

---"KEY=VALUE", "KEY=@env:NAME", "KEY=@file:PATH" -> { name, value }.
function values.option(text)
  local name, value = text:match "^([%a_][%w_]*)=(.*)$"
  if not name then return nil, "must be KEY=VALUE" end
  local kind, where = value:match "^@(%a+):(.*)$"
  if kind == "env" then
    local got, why = from_environment(where)
    if not got then return nil, why end
    return { name = name, value = got, source = "environment" }
  elseif kind == "file" then
    local got, why = from_file(where)
    if not got then return nil, why end
    return { name = name, value = got, source = "file" }
  end
  return { name = name, value = value, source = "plain" }
end

---"@env:NAME", "@file:PATH" -> what is there; never the value, which a list of processes shows.
function values.secret(text)
  local kind, where = text:match "^@(%a+):(.+)$"
  if kind == "env" then return from_environment(where) end
  if kind == "file" then return from_file(where) end
  return nil, "must be @env:NAME or @file:PATH: the command line is there for all to see"
end

---Lines of NAME=VALUE or NAME; empty lines and lines that begin with # are skipped.
---@return table? name -> value
---@return string? why
function values.environment_file(path)
  local file, why = io.open(path, "rb")
  if not file then return nil, "cannot read the environment file: " .. why end
  local text = file:read "*a"
  file:close()
  if not text then return nil, ("cannot read the environment file %s"):format(path) end
  local found, number = {}, 0
  for line in (text:gsub("\n?$", "\n", 1)):gmatch "(.-)\r?\n" do
    number = number + 1
    if line ~= "" and line:sub(1, 1) ~= "#" then
      local pair, wrong = values.environment(line)
      if not pair then return nil, ("%s:%d: the line %s"):format(path, number, wrong) end
      found[pair.name] = pair.value
    end
  end
  return found
end

return values
