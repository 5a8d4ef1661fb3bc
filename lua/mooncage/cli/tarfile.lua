-- tarfile.lua: what is in a tar archive, for comparing two. It is only listed: nothing is
-- unpacked here, and what makes no sense is an error.
local tarfile = {}

local BLOCK = 512
local PIECE = 65536
local ZEROS = ("\0"):rep(BLOCK)

---@class mooncage.cli.TarEntry
---@field kind "file"|"directory"|"link"
---@field mode integer
---@field size integer?    of a file
---@field offset integer?  where its bytes begin
---@field target string?   of a link

local function damaged(what)
  return nil, { code = "protocol", message = "the snapshot's data is no tar archive: " .. what,
    fix = "only what session:snapshot or import saved can be compared" }
end

---Octal digits, or base 256 where the first bit is set.
local function number(field)
  local first = field:byte()
  if first < 128 then return tonumber(field:match "^ *([0-7]*)", 8) or 0 end
  local value = first - 128
  for i = 2, #field do value = value * 256 + field:byte(i) end
  return value
end

local function text(field)
  return field:match "^%Z*"
end

---"LENGTH KEY=VALUE\n" one after the other.
local function take_pax(into, records)
  local at = 1
  while at <= #records do
    local len, key = records:match("^(%d+) ([^=]*)=", at)
    len = tonumber(len)
    if not len or at + len - 1 > #records then return false end
    into[key] = records:sub(at + #tostring(len) + #key + 2, at + len - 2)
    at = at + len
  end
  return true
end

local function clean(name)
  local parts = {}
  for part in name:gmatch "[^/]+" do
    if part ~= "." then parts[#parts + 1] = part end
  end
  return table.concat(parts, "/")
end

local KINDS = { ["0"] = "file", ["\0"] = "file", ["7"] = "file", ["5"] = "directory",
  ["2"] = "link", ["1"] = "hard" }

---@return mooncage.cli.TarEntry? entry, table|string err or the name
local function entry_of(block, given, offset, entries)
  local prefix = block:sub(258, 263) == "ustar\0" and text(block:sub(346, 500)) or ""
  local name = given.path or (prefix ~= "" and prefix .. "/" or "") .. text(block:sub(1, 100))
  local kind = KINDS[block:sub(157, 157)]
  if kind == "file" and name:sub(-1) == "/" then kind = "directory" end
  if not kind then return damaged("an entry of an unknown kind") end
  local target = given.linkpath or text(block:sub(158, 257))
  local entry = { kind = kind, mode = number(block:sub(101, 108)) % 512 }
  if kind == "hard" then -- the same file under another name
    local first = entries[clean(target)]
    if not first then return damaged("a hard link to what is not there") end
    return first, clean(name)
  end
  if kind == "file" then
    entry.size = tonumber(given.size) or number(block:sub(125, 136))
    entry.offset = offset
  end
  if kind == "link" then entry.target = target end
  return entry, clean(name)
end

---Everything in it, by its name; the top directory is "".
---@param file file* at its beginning
---@return table<string, mooncage.cli.TarEntry>? entries, table? err
function tarfile.index(file)
  local entries, given, at = {}, {}, 0
  while true do
    file:seek("set", at)
    local block = file:read(BLOCK)
    if block == ZEROS then return entries end
    if not block or #block < BLOCK then return damaged("it is cut off") end
    at = at + BLOCK
    local kind = block:sub(157, 157)
    local size = tonumber(given.size) or number(block:sub(125, 136))
    if kind == "x" or kind == "g" or kind == "L" or kind == "K" then
      size = number(block:sub(125, 136))
      local records = size > 0 and file:read(size) or ""
      if not records or #records < size then return damaged("it is cut off") end
      if kind == "L" then given.path = text(records) end
      if kind == "K" then given.linkpath = text(records) end
      if kind == "x" and not take_pax(given, records) then return damaged("a bad header") end
    else
      local entry, name = entry_of(block, given, at, entries)
      if not entry then return nil, name end
      if kind == "1" or entry.kind ~= "file" then size = 0 end
      entries[name], given = entry, {}
    end
    at = at + math.ceil(size / BLOCK) * BLOCK
  end
end

---Whether two files hold the same bytes.
---@param one { file: file*, entry: mooncage.cli.TarEntry }
---@param other { file: file*, entry: mooncage.cli.TarEntry }
function tarfile.same_content(one, other)
  local left = one.entry.size
  if left ~= other.entry.size then return false end
  one.file:seek("set", one.entry.offset)
  other.file:seek("set", other.entry.offset)
  while left > 0 do
    local piece = math.min(left, PIECE)
    local bytes = one.file:read(piece)
    if not bytes or #bytes < piece or bytes ~= other.file:read(piece) then return false end
    left = left - piece
  end
  return true
end

return tarfile
