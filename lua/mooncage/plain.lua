-- plain.lua: text of ours that may hold what a sandbox, a file or another user wrote, made safe for
-- a terminal. Nothing in it may act there: no title, no colour, no clipboard, no typed answer.

local function escaped(byte) return ("\\x%02x"):format(byte) end

-- How many bytes a character takes that begins with this one.
local function length(byte)
  if byte >= 240 and byte <= 244 then return 4 end
  if byte >= 224 and byte <= 239 then return 3 end
  return byte >= 194 and byte <= 223 and 2 or nil
end

-- What looks like a character and is none: encoded surrogates, what fewer bytes would say, what is
-- beyond the last.
local function is_none(bytes)
  local first, second = bytes:byte(1, 2)
  return first == 224 and second < 160 or first == 237 and second > 159
    or first == 240 and second < 144 or first == 244 and second > 143
end

-- Those that end a line, turn the direction of what is around them, or mark it (U+FEFF).
local function turns(character)
  return character == "\216\156" or character == "\239\187\191"
    or character:match "^\226\128[\142\143\168-\174]$"
    or character:match "^\226\129[\166-\169]$"
end

-- Whole characters stay, but for the C1 controls and those that turn; any other byte is shown as
-- its number, since 8-bit terminals obey 80 to 9F.
local function high(bytes)
  local out, at = {}, 1
  while at <= #bytes do
    local byte = bytes:byte(at)
    local size = length(byte)
    local character = size and bytes:sub(at, at + size - 1)
    local whole = size and #character == size and not character:find("[^\128-\191]", 2)
    whole = whole and not is_none(character)
    local control = whole and byte == 194 and character:byte(2) < 160
    if whole and not control and not turns(character) then
      out[#out + 1], at = character, at + size
    else
      out[#out + 1], at = escaped(byte), at + 1
    end
  end
  return table.concat(out)
end

---Control characters and what is no UTF-8 are shown as \xNN; newline and tab stay, unless it is to
---be one line.
---@param text any
---@param one_line boolean?
---@return string
return function(text, one_line)
  text = tostring(text):gsub("[%z\1-\8\11-\31\127]", function(byte) return escaped(byte:byte()) end)
  if one_line then text = text:gsub("\n", "\\n"):gsub("\t", "\\t") end
  return (text:gsub("[\128-\255]+", high))
end
