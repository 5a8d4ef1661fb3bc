-- logs.lua: which files `mooncage audit` reads: those that are named, else those of the
-- configuration; with the parts of a log that rotation has put aside.
local core = require "mooncage.core"
local sandbox = require "mooncage.cli.sandbox"
local system = require "mooncage.cli.system"

local logs = {}

local TAIL = 256 * 1024 -- bytes from the end in which a file's last event is looked for

local function failed(message, fix)
  return nil, core.error("not_found", message, fix)
end

---Where the configuration says that events go, and the key of each such place.
local function configured(flags)
  local config, err = sandbox.config { config = flags.config }
  if not config then return nil, err end
  local given = config.audit
  local places = {}
  local list = type(given) ~= "table" and {} or given.type and { given } or given
  for _, sink in ipairs(list) do
    if type(sink) == "table" and sink.type == "jsonl" then
      places[#places + 1] = { path = sink.path or sink.dir or system.state_dir() .. "/audit",
        key = sink.hmac_key }
    end
  end
  if #places > 0 then return places end
  local state, why = system.state_dir()
  if not state then return failed("no place for audit logs: " .. why, "name a file") end
  return { { path = state .. "/audit" } }
end

---@class mooncage.cli.Place
---@field path string a file or a directory
---@field key any? of the log's chain

---The places that the words name, else those of the configuration.
---@param line mooncage.cli.Line
---@return mooncage.cli.Place[]? places, table? err
function logs.places(line)
  local key = line.flags["hmac-key"]
  if #line.words == 0 then
    local places, err = configured(line.flags)
    for _, place in ipairs(places or {}) do place.key = key or place.key end
    return places, err
  end
  local places = {}
  for i, word in ipairs(line.words) do
    places[i] = { path = assert(system.absolute(word)), key = key }
  end
  return places
end

---What rotation has put aside of a log: NAME.SEQ.jsonl beside NAME.jsonl, the oldest first.
local function parts_of(path)
  local directory, name = path:match "^(.*/)([^/]+)$"
  local stem = (name:gsub("%.jsonl$", "")) .. "."
  local parts = {}
  for _, each in ipairs(system.list(directory) or {}) do
    local seq = each:sub(1, #stem) == stem and each:sub(#stem + 1):match "^(%d+)%.jsonl$"
    if seq then parts[#parts + 1] = { seq = tonumber(seq), path = directory .. each } end
  end
  table.sort(parts, function(a, b) return a.seq < b.seq end)
  return parts
end

---The files of the places: of a directory in order of their names, of a file the parts put aside
---before it. A file that two places name is there once.
---@param places mooncage.cli.Place[]
---@param named boolean one that is not there is spoken of, too
---@return string[]
function logs.files(places, named)
  local files, seen = {}, {}
  local function add(path)
    if not seen[path] then files[#files + 1], seen[path] = path, true end
  end
  for _, place in ipairs(places) do
    if system.is_directory(place.path) then
      local names = system.list(place.path) or {}
      table.sort(names)
      for _, name in ipairs(names) do
        if name:match "%.jsonl$" then add(place.path .. "/" .. name) end
      end
    else
      local parts = parts_of(place.path)
      for _, part in ipairs(parts) do add(part.path) end
      if named and #parts == 0 or system.is_file(place.path) then add(place.path) end
    end
  end
  return files
end

---What there is to say where there is no log.
function logs.none(places)
  return failed("there is no audit log in " .. places[1].path,
    "run something first, or name a file")
end

---The time of an event, as text that sorts; nil where it has none.
---@param event table
---@return string?
function logs.time_of(event)
  local ts = event.ts
  return type(ts) == "string" and ts:match "^%d%d%d%d%-%d%d%-%d%dT[%d:%.]+Z$" or nil
end

---When the last event of a file was; where that cannot be seen, after all others.
local function last_time(path)
  local file = system.is_ordinary(path) and io.open(path, "rb")
  if not file then return "~" end
  local size = file:seek "end"
  file:seek("set", math.max(0, size - TAIL))
  local text, last = file:read "*a" or "", nil
  file:close()
  for raw in text:gmatch "[^\n]+" do
    local found = raw:match '"ts":"([^"]+)"'
    last = found and logs.time_of { ts = found } or last
  end
  return last or "~"
end

---Orders files by their last events, the newest first.
---@param files string[]
---@return { path: string, last: string }[]
function logs.newest_first(files)
  local order = {}
  for i, path in ipairs(files) do order[i] = { path = path, last = last_time(path), at = i } end
  table.sort(order, function(a, b)
    if a.last ~= b.last then return a.last > b.last end
    return a.at > b.at
  end)
  return order
end

return logs
