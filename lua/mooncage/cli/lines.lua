-- lines.lua: on which line of a Lua text a key is set. The text is read as words and braces, no
-- more: keys of tables in tables, `name = value`, elements of lists. What a file computes stays
-- unfound.
local lines = {}

---Where a long bracket "[==[ ... ]==]" that starts at `at` ends; nil when none starts there.
local function long_end(text, at)
  local equals = text:match("^%[(=*)%[", at)
  if not equals then return nil end
  local _, last = text:find("]" .. equals .. "]", at, true)
  return last or #text
end

---A quoted string at `at`: where it ends, and what it holds where that is plain.
local function quoted(text, at)
  local quote, from = text:sub(at, at), at + 1
  while true do
    local found = text:find("[\\\n" .. quote .. "]", from)
    if not found then return #text end
    local char = text:sub(found, found)
    if char == quote then return found, text:sub(at + 1, found - 1) end
    if char == "\n" then return found - 1 end
    from = found + 2
  end
end

---Calls fn(kind, value, line) for each token: "name", "string", "other".
---@param text string
---@param fn fun(kind: string, value: string?, line: integer)
local function each_token(text, fn)
  local at, line = 1, 1
  local function pass(last)
    for _ in text:sub(at, last):gmatch "\n" do line = line + 1 end
    at = last + 1
  end
  while at <= #text do
    local char = text:sub(at, at)
    local comment = text:sub(at, at + 1) == "--"
    local long = long_end(text, comment and at + 2 or at)
    if comment then
      pass(long or (text:find("\n", at, true) or #text + 1) - 1)
    elseif long then
      fn("string", nil, line)
      pass(long)
    elseif char == '"' or char == "'" then
      local last, value = quoted(text, at)
      fn("string", value, line)
      pass(last)
    elseif char:match "[%a_]" then
      local _, last = text:find("^[%w_]+", at)
      fn("name", text:sub(at, last), line)
      pass(last)
    elseif text:match("^[=~<>]=", at) then
      fn("other", text:sub(at, at + 1), line)
      pass(at + 1)
    elseif char:match "%s" then
      local _, last = text:find("^%s+", at)
      pass(last)
    else
      fn("other", char, line)
      pass(at)
    end
  end
end

---The keys that a text sets: a list of { path = { names and numbers }, line }.
local function read(text)
  local found = {}
  local stack = { {} } -- of open tables; the first is the text
  local words, before = {}, nil -- a.b.c or ["c"] before a "="; the token before
  local function top() return stack[#stack] end
  local function record(names, line)
    local path = {}
    for _, level in ipairs(stack) do
      for _, name in ipairs(level.key or {}) do path[#path + 1] = name end
    end
    for _, name in ipairs(names) do path[#path + 1] = name end
    found[#found + 1] = { path = path, line = line }
  end
  local function element(line) -- something begins a value of a list
    local level = top()
    if level.count and level.fresh then
      level.fresh = false
      level.count = level.count + 1
      record({ level.count }, line)
    end
  end
  each_token(text, function(kind, value, line)
    if kind == "name" then
      if before ~= "." and before ~= ":" then words = {} end
      words[#words + 1], words.line = value, line
      element(line)
    elseif kind == "string" then
      words = before == "[" and { value, line = line } or {}
      element(line)
    elseif value == "=" then
      local level = top()
      local latest = found[#found]
      if level.count and latest and latest.path[#latest.path] == level.count then
        found[#found] = nil -- it was a key, and no element
        level.count = level.count - 1
      end
      if words[1] then record(words, words.line) end
      level.pending, words = words, {}
    elseif value == "{" then
      element(line)
      local level = top()
      local key = level.pending
      if not key and level.count then key = { level.count } end
      level.pending = nil
      stack[#stack + 1] = { key = key or {}, count = 0, fresh = true }
      words = {}
    elseif value == "}" then
      if #stack > 1 then stack[#stack] = nil end
      words = {}
    elseif value == "," or value == ";" then
      top().pending, top().fresh, words = nil, true, {}
    elseif value == "[" then
      element(line)
    elseif value ~= "]" and value ~= "." and value ~= ":" then
      element(line)
      words = {}
    end
    before = kind == "other" and value or kind
  end)
  return found
end

---How well an entry fits a path, whose last part it must have: the number of parts it has in order.
local function fit(entry, path, last)
  local have, score = entry.path, 0
  if have[#have] ~= path[last] then return nil end
  local at = #have - 1
  for i = last - 1, 1, -1 do
    for j = at, 1, -1 do
      if have[j] == path[i] then
        score, at = score + 1, j - 1
        break
      end
    end
  end
  return score
end

---@class mooncage.cli.Lines
---@field find fun(self, path: (string|integer)[]): integer?

---Reads a text once, to be asked for lines.
---@param text string
---@return mooncage.cli.Lines
function lines.of(text)
  local found = read(text)
  return {
    ---The line of the last part of the path that the text sets; the nearest part above it else.
    find = function(_, path)
      for last = #path, 1, -1 do
        local best, line
        for _, entry in ipairs(found) do
          local score = fit(entry, path, last)
          if score and (not best or score > best) then best, line = score, entry.line end
        end
        if best and best >= (last > 1 and type(path[last]) == "number" and 1 or 0) then
          return line
        end
      end
    end,
  }
end

---"candidates[2].options.rootfs" -> { "candidates", 2, "options", "rootfs" }
---@param where string
---@return (string|integer)[]
function lines.path(where)
  local path = {}
  for bracket, name in where:gmatch "(%[?)([^%.%[%]]+)" do
    path[#path + 1] = bracket == "[" and tonumber(name) or name
  end
  return path
end

lines.each_token = each_token

return lines
