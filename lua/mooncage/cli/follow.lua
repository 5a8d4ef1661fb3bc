-- follow.lua: what is added to files, while others put them aside, cut, remove and begin them.
-- A file is known by what it is, not by its name: one that was put aside is read to its end.
local system = require "mooncage.cli.system"

local follow = {}

local function open(path)
  local id = system.is_ordinary(path)
  local file = id and io.open(path, "rb")
  if file and system.is_ordinary(path) == id then return id, file end
  if file then file:close() end
end

---Gives each whole line that was added.
local function read(self, known, fn)
  local size = known.file:seek "end"
  if size < known.at then known.at, known.rest = 0, "" end -- it was cut
  known.file:seek("set", known.at)
  local added = known.file:read "*a" or ""
  known.at = known.at + #added
  added = known.rest .. added
  known.rest = added:match "[^\n]*$"
  for raw in added:sub(1, #added - #known.rest):gmatch "([^\n]*)\n" do
    if fn(raw) == false then self.over = true return end
  end
end

---Follows the files that list() names, each from where it ends now; what it names later, from its
---start.
---@param list fun(): string[] paths, in the order in which they are read
---@return { next: fun(fn: fun(raw: string): boolean?): boolean, ends: table<string, integer> }
---next gives what was added since: false once fn has said so; ends: where each path was begun at
function follow.new(list)
  local self = { known = {}, ends = {}, over = false }

  local function look(starts)
    local order, seen = {}, {}
    for _, path in ipairs(list()) do
      local id = system.is_ordinary(path)
      if id and not self.known[id] then
        local file
        id, file = open(path)
        if id then
          self.known[id] = { file = file, at = starts and file:seek "end" or 0, rest = "" }
          if starts then self.ends[path] = self.known[id].at end
        end
      end
      if id and not seen[id] then order[#order + 1], seen[id] = id, true end
    end
    return order, seen
  end

  function self.next(fn)
    local order, seen = look()
    for id, known in pairs(self.known) do
      if not seen[id] then -- no name leads there any more: the last of it
        read(self, known, fn)
        known.file:close()
        self.known[id] = nil
      end
    end
    for _, id in ipairs(order) do
      if not self.over then read(self, self.known[id], fn) end
    end
    return not self.over
  end

  look(true)
  return self
end

return follow
