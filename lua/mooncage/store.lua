-- store.lua: mooncage.store: the places that snapshots are kept in. Each function makes plain data
-- for the config key `snapshot_store`, which is an object as well: what lies there can be asked for
-- without a session. The engine judges it and does the work.
local check = require "mooncage.options"
local core = require "mooncage.core"

local store = {}

local Store = {}
Store.__index = Store

local FILE = { dir = "string", hmac_key = "secret" }
local PART = { tenant = "string", store_prefix = "string" }
local SAVE = {
  id = "string", session = "userdata", data = "any", manifest_hash = "string", labels = "table",
  exclude = "table",
}

---Snapshots in a directory of this host.
---@param options { dir: string?, hmac_key: string|mooncage.Secret|nil }?
---@return mooncage.Store
function store.file(options)
  options = options == nil and {} or options
  check("store.file", options, FILE)
  return setmetatable({ type = "file", dir = options.dir, hmac_key = options.hmac_key }, Store)
end

for _, kind in ipairs { "s3", "gcs" } do
  store[kind] = function()
    error(core.error("unsupported", ("this version has no snapshot store '%s'"):format(kind),
      "use mooncage.store.file { dir = ... }"), 2)
  end
end

---What is asked, of which store and part of it.
local function request(self, call, id)
  if type(id) == "table" then id = id.snapshot_id end
  return {
    call = call, id = id, tenant = self.tenant, store_prefix = self.store_prefix,
    store = { type = self.type, dir = self.dir, hmac_key = self.hmac_key },
  }
end

---The same store, in the part of a tenant, or in one that a prefix names.
function Store:of(part)
  check("store:of", part, PART)
  local view = {}
  for key, value in pairs(self) do view[key] = value end
  view.tenant, view.store_prefix = part.tenant, part.store_prefix
  return setmetatable(view, Store)
end

---A function that gives what `data` is, or the path that it names.
local function source_of(data)
  if type(data) == "table" and type(data.from) == "string" then return data.from end
  if type(data) ~= "string" then return data end
  return function()
    local all = data
    data = nil
    return all
  end
end

function Store:save(options)
  check("store:save", options, SAVE)
  if (options.session == nil) == (options.data == nil) then
    error("mooncage: store:save: give a session, or data", 2)
  end
  if options.session then
    if self.tenant or self.store_prefix then
      error(core.error("invalid", "store:save: a session is saved into its own part of the store",
        "save it with the store itself, not with what `of` gives"), 2)
    end
    return options.session:snapshot(options.id, {
      exclude = options.exclude, store = request(self).store,
    })
  end
  local asked = request(self, nil, options.id)
  asked.manifest_hash, asked.labels = options.manifest_hash, options.labels
  return core.store_save(asked, source_of(options.data))
end

function Store:load(ref, to)
  if to ~= nil then return core.store_load(request(self, nil, ref), to) end
  local chunks = {}
  local metadata, err = core.store_load(request(self, nil, ref), function(chunk)
    chunks[#chunks + 1] = chunk
  end)
  if not metadata then return nil, err end
  return table.concat(chunks), metadata
end

function Store:delete(ref) return core.store_ask(request(self, "delete", ref)) end

function Store:exists(ref) return core.store_ask(request(self, "exists", ref)) end

function Store:show(ref) return core.store_ask(request(self, "show", ref)) end

function Store:list(prefix)
  local asked = request(self, "list")
  asked.prefix = prefix
  return core.store_ask(asked)
end

function Store:gc(options)
  local asked = request(self, "gc")
  asked.dry_run = options and options.dry_run
  return core.store_ask(asked)
end

return store
