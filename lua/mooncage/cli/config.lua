-- config.lua: `mooncage config`: what a sandbox would be opened with and where each value came
-- from, and which local configurations are trusted.
local config_file = require "mooncage.cli.config_file"
local core = require "mooncage.core"
local exit = require "mooncage.cli.exit"
local output = require "mooncage.cli.output"
local sandbox = require "mooncage.cli.sandbox"
local system = require "mooncage.cli.system"

local config = {}

---Names whose values are secret even where nobody said so.
local function sounds_secret(name)
  name = type(name) == "string" and name:lower() or ""
  return name:match "key$" or name:match "token$" or name:match "secret" or name:match "passw"
    or name:match "credential"
end

---Functions as what made them, secrets as "[redacted]", and what was made of one with *** in its
---place: what may be shown of a value.
local function shown(value, depth, name)
  if type(value) == "string" and sounds_secret(name) then
    return "[redacted]"
  elseif type(value) == "table" and name == "headers" then -- of a rule: what is set on the way out
    local copy = {}
    for key in pairs(value) do copy[key] = "[redacted]" end
    return copy
  elseif type(value) == "function" then
    local origin = require("mooncage.policy").origin(value)
    if not origin then return "function" end
    return { policy = origin.name, options = shown(origin.options or {}, depth + 1) }
  elseif type(value) == "table" and depth < 20 then
    local copy = {}
    for key, each in pairs(value) do
      local said = type(key) == "string" and core.struck(key) or key
      copy[said] = shown(each, depth + 1, key)
    end
    if value[1] ~= nil then return core.array(copy) end
    return copy
  elseif type(value) == "userdata" then
    return tostring(value)
  elseif type(value) == "string" then
    return core.struck(value)
  end
  return value
end

-- Tables whose keys are listed one by one; others are one value.
local OPENED = { limits = true, environment = true, labels = true, requirements = true,
  hooks = true, tools = true, network = true }

---Rows of { key, value }: what was written, in order, then what holds by default.
local function rows_of(given, resolved)
  local rows = {}
  local function add(key, value, default)
    rows[#rows + 1] = { key = key, value = shown(value, 0, key), default = default or nil,
      shown = core.struck(key) }
  end
  local function each(key, value)
    if OPENED[key] and type(value) == "table" and next(value) ~= nil then
      for name, inner in pairs(value) do add(key .. "." .. tostring(name), inner) end
    else
      add(key, value)
    end
  end
  for key, value in pairs(given) do each(key, value) end
  if given.backend == nil and given.candidates == nil then add("backend", "jail", true) end
  local limits = type(given.limits) == "table" and given.limits or {}
  for name, value in pairs(resolved.limits) do
    if limits[name] == nil then add("limits." .. name, value, true) end
  end
  if not resolved.limits.wall_s then
    add("limits.wall_s", 3600, true)
    rows[#rows].source = "default of mooncage run"
  end
  local defaults = {
    network = resolved.network, enforcement = resolved.enforcement, selector = "cheapest_first",
    failover = true, audit = { type = "jsonl", dir = (system.state_dir() or "?") .. "/audit" },
  }
  for key, value in pairs(defaults) do
    if given[key] == nil then add(key, value, true) end
  end
  table.sort(rows, function(a, b) return a.key < b.key end)
  return rows
end

---Says where a row's value came from: a flag, a line of the file, or a default.
local function add_source(row, line, path, keys)
  local names = require("mooncage.cli.lines").path(row.key)
  local flags = sandbox.flags_of_keys(line.flags)
  local flag = flags[names[#names]] or flags[names[1]]
  if names[1] == "network" and names[2] and not flag then
    local by_default
    flag, row.added, by_default = require("mooncage.cli.network").origin(names[2], line.flags)
    row.default = row.default or by_default
  end
  if names[1] == "environment" and names[2] then
    local taken
    flag, taken = sandbox.flag_of_variable(line.flags, names[2])
    if taken then row.value = "[from the environment]" end
  elseif names[1] == "backend" then
    local over = flags.options or flags.binds
    if flags.options and flags.binds then over = over .. ", " .. flags.binds end
    flag = flags.backend or not line.flags.backend_before and over or nil
    if flag ~= over then row.added = over end
  end
  if row.default then
    row.source = row.source or "default"
  elseif flag then
    row.source = flag
  else
    local number = keys and keys:find(names)
    row.source, row.file, row.line = "file", path, number
  end
end

local function source_text(row)
  local text = row.source
  if text == "file" then text = row.line and ("%s:%d"):format(row.file, row.line) or row.file end
  return row.added and ("%s, and %s"):format(text, row.added) or text
end

local function value_text(value)
  if type(value) == "string" then return (("%q"):format(value):gsub("\\\n", "\\n")) end
  return core.encode(value)
end

local function print_rows(rows, path)
  output.say("configuration file: %s\n", path or "none")
  local left = 0
  local texts = {}
  for i, row in ipairs(rows) do
    texts[i] = ("%s = %s"):format(row.shown, value_text(row.value))
    left = math.max(left, math.min(#texts[i], 50))
  end
  for i, row in ipairs(rows) do
    output.say("%s%s  %s\n", texts[i], (" "):rep(left - #texts[i]),
      output.colored("dim", "# " .. source_text(row)))
  end
end

local function show(line)
  local given, err, path = sandbox.config(line.flags)
  if not given then return nil, err end
  local resolved
  resolved, err = sandbox.resolve(given)
  if not resolved then return nil, sandbox.locate(err, path, line.flags) end
  local rows = rows_of(given, resolved)
  local keys = path and config_file.lines(path)
  for _, row in ipairs(rows) do add_source(row, line, path, keys) end
  if not output.is_json() then
    print_rows(rows, path)
    return exit.OK
  end
  local document = { file = path or core.null, config = {}, sources = {} }
  for _, row in ipairs(rows) do
    document.config[row.shown] = row.value
    document.sources[row.shown] = { source = row.source, added = row.added,
      file = row.file, line = row.line }
  end
  return output.document(document) and exit.OK or exit.FAILED
end

local function trust(line)
  local added, err = require("mooncage.cli.trust").add(line.words[1])
  if not added then return nil, err end
  if output.is_json() then return output.document(added) and exit.OK or exit.FAILED end
  output.say("trusted as it stands: %s\n", added.path)
  for _, each in ipairs(added.with) do output.say("with it: %s\n", each.path) end
  if not added.path:match "/mooncage%.lua$" then
    output.note "as a configuration only mooncage.lua is looked for in the working directory"
  end
  output.note("this holds for what stands in these files now; files that they read by other means, "
    .. "as with dofile, require or io.open, are not covered, and may change unasked")
  return exit.OK
end

local actions = { show = show, trust = trust }

---@param line mooncage.cli.Line
---@return integer status
function config.main(line)
  local status, err = actions[table.remove(line.words, 1)](line)
  if status then return status end
  output.error(err)
  return exit.of_error(err)
end

return config
