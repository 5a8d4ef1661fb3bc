-- snapshot.lua: `mooncage snapshot`: what a store holds, and sessions that stay in and out of it.
local core = require "mooncage.core"
local exit = require "mooncage.cli.exit"
local interrupt = require "mooncage.cli.interrupt"
local keepers = require "mooncage.cli.keepers"
local mooncage = require "mooncage"
local output = require "mooncage.cli.output"
local plain = require "mooncage.plain"
local sandbox = require "mooncage.cli.sandbox"
local system = require "mooncage.cli.system"
local tarfile = require "mooncage.cli.tarfile"

local actions = {}

---The configuration, with --store, --tenant and --disk over it, and what its tenant gets: asked of
---`tenants` as for a session, unless --store-prefix says which part of the store is meant.
---@return table? config, table overrides_or_err
local function config_of(flags)
  local config, err, path = sandbox.config { config = flags.config, tenant = flags.tenant,
    store = flags.store, disk = flags.disk }
  if not config then return nil, err end
  local prefix, overrides = flags["store-prefix"], {}
  if config.tenant or not prefix then
    overrides, err = mooncage._overrides(config)
    if not overrides then
      if not config.tenant and err.code == "no_candidate" then
        err.fix = "name the tenant with --tenant, or the part of the store with --store-prefix"
      end
      return nil, sandbox.locate(err, path, flags)
    end
  end
  config.store_prefix = prefix or overrides.store_prefix or config.store_prefix
  return config, overrides
end

---The store of the configuration, in the part of its tenant.
---@return mooncage.Store? store, table? err
local function store_of(flags)
  local config, err = config_of(flags)
  if not config then return nil, err end
  local given = config.snapshot_store or {}
  return mooncage.store.file { dir = given.dir, hmac_key = given.hmac_key }:of {
    tenant = config.tenant, store_prefix = config.store_prefix,
  }
end

local function named(metadata)
  return ("%s@%d"):format(metadata.snapshot_id, metadata.version)
end

---Says what was saved or restored.
local function tell(metadata)
  if output.is_json() then return output.document { snapshot = metadata } end
  return output.write(named(metadata) .. "\n")
end

-- ---- sessions ----------------------------------------------------------------------------------

---The store of --store, with the key of the configuration. Without the flag: the session's own.
local function named_store(flags, config)
  if not flags.store then return nil end
  local given = config.snapshot_store
  local store = mooncage.store.file {
    dir = assert(system.absolute(flags.store)),
    hmac_key = type(given) == "table" and given.hmac_key or nil,
  }
  return { type = store.type, dir = store.dir, hmac_key = store.hmac_key }
end

---Calls a session's own method with the snapshot's id; the session stays.
local function with_session(line, method)
  for _, name in ipairs { "tenant", "store-prefix" } do
    if line.flags[name] then
      return nil, { code = "invalid", message = ("--%s is not for %s"):format(name, line.words[1]),
        fix = "leave it out: the session has its part of the store" }
    end
  end
  local config, err = sandbox.standing(line.flags)
  if not config then return nil, err end
  local session, gone = keepers.open(line.words[2], config)
  if not session then return nil, gone end
  local metadata
  metadata, err = session[method](session, line.words[3],
    { store = named_store(line.flags, config) })
  session:close()
  if not metadata then return nil, err end
  return tell(metadata)
end

function actions.save(line) return with_session(line, "snapshot") end

function actions.restore(line) return with_session(line, "restore") end

-- ---- what is there -----------------------------------------------------------------------------

local UNITS = { "B", "K", "M", "G", "T" }

local function size_text(bytes)
  local unit = 1
  while bytes >= 1024 and unit < #UNITS do bytes, unit = bytes / 1024, unit + 1 end
  return (unit > 1 and bytes < 10 and "%.1f%s" or "%.0f%s"):format(bytes, UNITS[unit])
end

local function time_text(seconds)
  return os.date("!%Y-%m-%d %H:%M:%S", seconds)
end

local function print_list(list)
  local width = 2
  for _, one in ipairs(list) do width = math.max(width, #one.snapshot_id) end
  local row = "%-" .. width .. "s  %7s  %-19s  %6s  %s\n"
  local ok = output.write(row:format("ID", "VERSION", "CREATED (UTC)", "SIZE", "FILES"))
  for _, one in ipairs(list) do
    if one.damaged then
      output.show(("%-" .. width .. "s  damaged: %s\n"):format(one.snapshot_id, one.damaged))
    else
      ok = output.write(row:format(one.snapshot_id, one.version, time_text(one.created_at),
        size_text(one.size_bytes), one.file_count or "?"))
    end
  end
  return ok
end

function actions.ls(line)
  local store, err = store_of(line.flags)
  if not store then return nil, err end
  local list
  list, err = store:list(line.words[2])
  if not list then return nil, err end
  if output.is_json() then return output.document { snapshots = core.array(list) } end
  if not output.is_quiet() then return print_list(list) end
  local ok = true
  for _, one in ipairs(list) do ok = output.write(one.snapshot_id .. "\n") end
  return ok
end

local SHOWN = {
  "snapshot_id", "version", "created_at", "size_bytes", "file_count", "sha256", "format",
  "manifest_hash", "backend", "tenant", "parent",
}

function actions.show(line)
  local store, err = store_of(line.flags)
  if not store then return nil, err end
  local metadata
  metadata, err = store:show(line.words[2])
  if not metadata then return nil, err end
  if output.is_json() then return output.document { snapshot = metadata } end
  local out, labels = {}, {}
  for _, key in ipairs(SHOWN) do
    local value = metadata[key]
    if key == "created_at" then value = time_text(value) .. " UTC" end
    if value then out[#out + 1] = ("%s: %s\n"):format(key, plain(value)) end
  end
  for name, value in pairs(metadata.labels or {}) do
    labels[#labels + 1] = ("label %s: %s\n"):format(plain(name), plain(value))
  end
  table.sort(labels)
  return output.write(table.concat(out) .. table.concat(labels))
end

---Goes on after one that is not there, and tells of the first that failed at the end.
function actions.rm(line)
  local store, err = store_of(line.flags)
  if not store then return nil, err end
  local removed, failure = core.array {}, nil
  for i = 2, #line.words do
    local ok, why = store:delete(line.words[i])
    if ok then
      removed[#removed + 1] = line.words[i]
      if not output.is_json() then output.write(line.words[i] .. "\n") end
    elseif failure and not output.is_json() then
      output.error(why)
    else
      failure = failure or why
    end
  end
  if failure then return nil, failure, { removed = removed } end
  return not output.is_json() or output.document { removed = removed }
end

function actions.gc(line)
  local dry_run = line.flags["dry-run"] or false
  local store, err = store_of(line.flags)
  if not store then return nil, err end
  local report
  report, err = store:gc { dry_run = dry_run }
  if not report then return nil, err end
  table.sort(report.removed)
  if output.is_json() then
    return output.document { removed = core.array(report.removed), dry_run = dry_run }
  end
  for _, name in ipairs(report.removed) do
    output.show(("%s %s\n"):format(dry_run and "would remove" or "removed", name))
  end
  if #report.removed == 0 then output.note "nothing was left behind" end
  return true
end

-- ---- diff --------------------------------------------------------------------------------------

---The data of a snapshot in a file without a name, which is gone with this process.
---@return { file: file*, entries: table<string, mooncage.cli.TarEntry> }? data, table? err
local function fetch(store, id)
  local file, why = io.tmpfile()
  local full
  if not file then
    return nil, { code = "unavailable", message = "no temporary file: " .. why,
      fix = "make room in /tmp" }
  end
  local ok, err = store:load(id, function(chunk)
    local written, reason = file:write(chunk)
    full = reason
    return written and true or false
  end)
  if ok and not file:flush() then full = "it could not be written" end
  if full then
    return nil, { code = "quota", message = ("a copy of %s: %s"):format(id, full),
      fix = "make room in /tmp" }
  end
  if not ok then return nil, err end
  local entries
  entries, err = tarfile.index(file)
  return entries and { file = file, entries = entries }, err
end

---What differs of one name that both have: nil where nothing does.
local function difference(old, new)
  local one, other = old.entry, new.entry
  if one.kind ~= other.kind then
    return { op = "T", kind = other.kind, old_kind = one.kind }
  end
  local what = core.array {}
  if one.kind == "file" and not tarfile.same_content(old, new) then what[#what + 1] = "content" end
  if one.target ~= other.target then what[#what + 1] = "target" end
  if one.kind ~= "link" and one.mode ~= other.mode then what[#what + 1] = "mode" end
  if #what == 0 then return nil end
  return { op = "M", kind = one.kind, what = what, old_mode = ("%o"):format(one.mode),
    mode = ("%o"):format(other.mode) }
end

local function compare(old, new)
  local changes = core.array {}
  local function add(path, change)
    change.path = path == "" and "." or path
    changes[#changes + 1] = change
  end
  for path, entry in pairs(old.entries) do
    local other = new.entries[path]
    local change = { op = "D", kind = entry.kind }
    if other then
      change = difference({ file = old.file, entry = entry }, { file = new.file, entry = other })
    end
    if change then add(path, change) end
  end
  for path, entry in pairs(new.entries) do
    if not old.entries[path] then add(path, { op = "A", kind = entry.kind }) end
  end
  table.sort(changes, function(a, b) return a.path < b.path end)
  return changes
end

local function print_change(change)
  local about = ""
  if change.op == "T" then
    about = ("  %s -> %s"):format(change.old_kind, change.kind)
  elseif change.op == "M" and change.mode ~= change.old_mode then
    about = ("  mode %s -> %s"):format(change.old_mode, change.mode)
  end
  return output.show(("%s %s%s\n"):format(change.op, (change.path:gsub("\n", "\\n")), about))
end

function actions.diff(line)
  local store, err = store_of(line.flags)
  if not store then return nil, err end
  local old, new
  old, err = fetch(store, line.words[2])
  if not old then return nil, err end
  new, err = fetch(store, line.words[3])
  if not new then return nil, err end
  local changes = compare(old, new)
  if output.is_json() then return output.document { changes = changes } end
  for _, change in ipairs(changes) do
    if not print_change(change) then return false end
  end
  return true
end

-- ---- out, in -----------------------------------------------------------------------------------

---The FILE that was named, or "-" for one of our own streams.
local function place_of(line, fd)
  local place = line.words[3] or "-"
  if place ~= "-" and system.is_open_as(place, fd) then place = "-" end -- such as /dev/stdout
  if place ~= "-" or not core.terminal.isatty(fd) then return place end
  return nil, { code = "invalid", message = "a tar archive is nothing for a terminal",
    fix = "name a file, or redirect " .. (fd == 0 and "the input" or "the output") }
end

function actions.export(line)
  local to, misplaced = place_of(line, 1)
  if not to then return nil, misplaced end
  if to == "-" and output.is_json() then
    return nil, { code = "invalid", message = "the archive and the JSON document would mix",
      fix = "name a file to export to" }
  end
  local store, err = store_of(line.flags)
  if not store then return nil, err end
  if to ~= "-" then interrupt.watch() end -- what is half written goes
  local written = true
  local metadata, unread = store:load(line.words[2], to ~= "-" and to or function(chunk)
    written = output.write(chunk)
    return written
  end)
  if not written then return false end
  if not metadata then return nil, unread end
  return to == "-" or tell(metadata)
end

-- What an archive is unpacked with, of the configuration and of what its tenant gets: for whom,
-- into which store, within which limits, and who is told.
local KEPT = {
  "tenant", "snapshot_store", "store_prefix", "limits", "enforcement", "labels", "run_id", "audit",
  "context", "agent", "hook_timeout_s",
}
local KEPT_OF_TENANT = { "limits", "enforcement", "labels", "audit", "quota" }

local function only(from, keys)
  local to = {}
  for _, key in ipairs(keys) do to[key] = from[key] end
  return to
end

---A plain jail, whatever the configuration's sandboxes are: an archive meets nothing of the host,
---and nothing of the host gets into the snapshot.
local function unpacking(config, overrides)
  local plain_jail = only(config, KEPT)
  plain_jail.backend = "jail"
  if type(config.snapshot) == "table" then
    plain_jail.snapshot = only(config.snapshot, { "max_mb" })
  end
  if type(config.hooks) == "table" then
    plain_jail.hooks = only(config.hooks, { "on_sandbox_snapshot" })
  end
  if config.tenants then
    local given = only(overrides, KEPT_OF_TENANT)
    plain_jail.tenants = function() return given end
  end
  return plain_jail
end

---Unpacked in a sandbox that is gone afterwards, and packed again: nothing unsafe gets in.
function actions.import(line)
  local from, misplaced = place_of(line, 0)
  if not from then return nil, misplaced end
  local config, overrides = config_of(line.flags)
  if not config then return nil, overrides end
  local session, err = mooncage.open(unpacking(config, overrides))
  if not session then return nil, err end
  local ok, metadata
  ok, err = session:restore_workspace(from == "-" and "/dev/stdin" or from)
  if ok then metadata, err = session:snapshot(line.words[2]) end
  local closed, close_error = session:close()
  if not metadata then return nil, err end
  if not closed then return nil, close_error end
  return tell(metadata)
end

-- ---- all ---------------------------------------------------------------------------------------

local snapshot = {}

---@param line mooncage.cli.Line
---@return integer status
function snapshot.main(line)
  local ok, err, extra = actions[line.words[1]](line)
  if err then
    output.error(err, output.is_json() and extra or nil)
    return exit.of_error(err)
  end
  return ok and exit.OK or exit.FAILED
end

return snapshot
