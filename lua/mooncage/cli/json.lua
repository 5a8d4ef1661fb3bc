-- json.lua: writes JSON for --json. Keys come sorted, so that the same facts give the same bytes;
-- whole numbers are exact; bytes that are not UTF-8 become {"base64":"..."}. It does not read JSON.
local json = {}

local LIST = {}

---Marks a table as a list, so that an empty one is written [].
function json.list(items)
  return setmetatable(items or {}, LIST)
end

-- Written for a value that is known to be nothing.
json.null = setmetatable({}, { __tostring = function() return "null" end })

local ESCAPES = {
  ['"'] = '\\"', ["\\"] = "\\\\", ["\b"] = "\\b", ["\f"] = "\\f",
  ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t",
}

local function escape(char)
  return ESCAPES[char] or ("\\u%04x"):format(char:byte())
end

---How many bytes the well-formed character at `i` has; nil when there is none (RFC 3629: no
---overlong forms, no surrogates, nothing above U+10FFFF).
local function character(text, i)
  local a, b, c, d = text:byte(i, i + 3)
  local function tail(byte) return byte and byte >= 0x80 and byte <= 0xBF end
  if a < 0x80 then return 1 end
  if a >= 0xC2 and a <= 0xDF then return tail(b) and 2 end
  if a >= 0xE0 and a <= 0xEF then
    local low = a == 0xE0 and 0xA0 or 0x80
    local high = a == 0xED and 0x9F or 0xBF
    return b and b >= low and b <= high and tail(c) and 3
  end
  if a >= 0xF0 and a <= 0xF4 then
    local low = a == 0xF0 and 0x90 or 0x80
    local high = a == 0xF4 and 0x8F or 0xBF
    return b and b >= low and b <= high and tail(c) and tail(d) and 4
  end
end

---@param text string
function json.is_utf8(text)
  local i = text:find "[\128-\255]"
  while i do
    local length = character(text, i)
    if not length then return false end
    i = text:find("[\128-\255]", i + length)
  end
  return true
end

local ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

function json.base64(text)
  local out = {}
  local function digit(n) return ALPHABET:sub(n + 1, n + 1) end
  for i = 1, #text, 3 do
    local a, b, c = text:byte(i, i + 2)
    local n = a * 65536 + (b or 0) * 256 + (c or 0)
    out[#out + 1] = digit(math.floor(n / 262144))
      .. digit(math.floor(n / 4096) % 64)
      .. (b and digit(math.floor(n / 64) % 64) or "=")
      .. (c and digit(n % 64) or "=")
  end
  return table.concat(out)
end

local function string_text(text)
  if json.is_utf8(text) then return '"' .. text:gsub('[%z\1-\31\\"\127]', escape) .. '"' end
  return '{"base64":"' .. json.base64(text) .. '"}'
end

local function number_text(number)
  if number ~= number or number == math.huge or number == -math.huge then return "null" end
  if number == math.floor(number) and math.abs(number) <= 2 ^ 53 then
    return ("%.0f"):format(number)
  end
  local short = ("%.15g"):format(number)
  return tonumber(short) == number and short or ("%.17g"):format(number)
end

local write

local function is_list(value)
  if getmetatable(value) == LIST then return true end
  local count = 0
  for _ in pairs(value) do count = count + 1 end
  return count > 0 and count == #value
end

local function write_table(value, out, depth)
  if depth > 100 then error("json: nested too deep", 0) end
  if is_list(value) then
    out[#out + 1] = "["
    for i, item in ipairs(value) do
      if i > 1 then out[#out + 1] = "," end
      write(item, out, depth + 1)
    end
    out[#out + 1] = "]"
    return
  end
  local keys = {}
  for key in pairs(value) do keys[#keys + 1] = tostring(key) end
  table.sort(keys)
  out[#out + 1] = "{"
  for i, key in ipairs(keys) do
    if i > 1 then out[#out + 1] = "," end
    local name = json.is_utf8(key) and key or "base64:" .. json.base64(key)
    out[#out + 1] = string_text(name) .. ":"
    local item = value[key]
    if item == nil then item = value[tonumber(key)] end
    write(item, out, depth + 1)
  end
  out[#out + 1] = "}"
end

function write(value, out, depth)
  local kind = type(value)
  if value == nil or value == json.null then
    out[#out + 1] = "null"
  elseif kind == "string" then
    out[#out + 1] = string_text(value)
  elseif kind == "number" then
    out[#out + 1] = number_text(value)
  elseif kind == "boolean" then
    out[#out + 1] = tostring(value)
  elseif kind == "cdata" then -- a 64-bit integer
    out[#out + 1] = (tostring(value):gsub("U?LL$", ""))
  elseif kind == "table" then
    write_table(value, out, depth)
  else
    error("json: cannot write a " .. kind, 0)
  end
end

---One document on one line, without a newline at its end.
function json.encode(value)
  local out = {}
  write(value, out, 0)
  return table.concat(out)
end

return json
