-- keepers.lua: the sessions that stay, as other processes find them. Each has two files in the
-- user's runtime directory: ID.sock, on which its keeper listens, and ID.json, what it takes to
-- resume it. Neither holds a secret; the directory is the user's alone.
local core = require "mooncage.core"
local mooncage = require "mooncage"
local nearest = require("mooncage.core").nearest
local system = require "mooncage.cli.system"

local keepers = {}

---Where the files of a session are, and the directory.
---@param create boolean? make the directory
function keepers.directory(create)
  local path, why = system.runtime_dir(create or false)
  if path then return path end
  return nil, {
    code = "unavailable",
    message = "no place for the sockets of sessions: " .. why,
    fix = "set XDG_RUNTIME_DIR to a directory of yours with mode 0700",
  }
end

local function read_file(path)
  local file = io.open(path, "rb")
  local text = file and file:read "*a"
  if file then file:close() end
  return text
end

---The ids that have files, sorted.
local function ids_in(directory)
  local names, why = system.list(directory)
  if not names then
    return nil, { code = "unavailable", message = why,
      fix = "make it a directory of yours (chmod 700), or remove it" }
  end
  local ids = {}
  for _, name in ipairs(names) do
    local id = name:match "^(.+)%.json$"
    if id then ids[#ids + 1] = id end
  end
  table.sort(ids)
  return ids
end

local function read_card(directory, id)
  local text = read_file(("%s/%s.json"):format(directory, id))
  local card = text and mooncage.json.decode(text)
  return type(card) == "table" and type(card.state) == "string" and card or nil
end

local function remove_files(directory, id)
  system.remove(("%s/%s.json"):format(directory, id))
  system.remove(("%s/%s.sock"):format(directory, id))
end

local function unknown(id, ids)
  local near = nearest(id, ids)
  return nil, {
    code = "not_found",
    message = ("there is no session %s"):format(id),
    fix = near and ("did you mean %s?"):format(near) or "see mooncage ps",
  }
end

---The id that was meant: all of it, or a beginning that only one has.
local function complete_id(id, ids)
  local found
  if id == "" then -- a variable of a script that is not set, and never the only session
    return nil, { code = "invalid", message = "the id of the session is empty",
      fix = "name one that mooncage ps lists" }
  end
  for _, each in ipairs(ids) do
    if each == id then return id end
    if each:sub(1, #id) == id then
      if found then
        return nil, {
          code = "invalid",
          message = ("%s is the beginning of more than one session"):format(id),
          fix = "write more of it; see mooncage ps",
        }
      end
      found = each
    end
  end
  if found then return found end
  return unknown(id, ids)
end

---No keeper answers any more: nobody listens, or there is no socket.
local function is_dead(err)
  return err.code == "unavailable" or err.code == "not_found"
end

---Takes up a session that a keeper holds.
---@param id string
---@param config mooncage.Config? whose guardrail, hooks and tools stand by it
---@return mooncage.Session? session, table? err
function keepers.open(id, config)
  local directory, err = keepers.directory()
  if not directory then return nil, err end
  local ids, failure = ids_in(directory)
  if not ids then return nil, failure end
  local full, wrong = complete_id(id, ids)
  if not full then return nil, wrong end
  local card = read_card(directory, full)
  if not card then return unknown(id, ids) end
  local session, problem = mooncage.resume(card.state, config)
  if session then return session end
  if not is_dead(problem) then return nil, problem end
  remove_files(directory, full)
  return nil, {
    code = "not_found",
    message = ("session %s has ended"):format(full),
    fix = "open another with mooncage create",
    cause = problem,
  }
end

---@class mooncage.cli.Kept
---@field id string
---@field backend string
---@field created_at number?
---@field age_s number?
---@field ends_in_s number?
---@field processes table?

---Every session whose keeper answers; files of the others are removed.
---@param options { processes: boolean? }?
---@return mooncage.cli.Kept[]? entries, table? err
function keepers.list(options)
  local directory, err = keepers.directory()
  if not directory then return nil, err end
  local ids, failure = ids_in(directory)
  if not ids then return nil, failure end
  local entries = {}
  for _, id in ipairs(ids) do
    local card = read_card(directory, id)
    local session, problem
    if card then session, problem = mooncage.resume(card.state) end
    if session then
      local labels = next(card.labels or {}) and card.labels or nil
      local entry = { id = id, backend = session.backend, created_at = card.created_at,
        labels = labels, tenant = session.tenant, name = session.name }
      if card.created_at then entry.age_s = os.time() - card.created_at end
      if card.ends_at then entry.ends_in_s = card.ends_at - os.time() end
      if options and options.processes then entry.processes = session:processes() end
      session:close()
      entries[#entries + 1] = entry
    elseif not card or is_dead(problem) then
      remove_files(directory, id)
    end
  end
  return entries
end

---Removes the files of sessions whose keeper is gone; returns what they were.
---@param dry_run boolean
---@return string[] paths
function keepers.dead(dry_run)
  local directory = keepers.directory()
  local ids = directory and ids_in(directory) or {}
  local gone = {}
  for _, id in ipairs(ids) do
    local card = read_card(directory, id)
    local session, problem
    if card then session, problem = mooncage.resume(card.state) end
    if session then
      session:close()
    elseif not card or is_dead(problem) then
      gone[#gone + 1] = ("%s/%s.sock"):format(directory, id)
      if not dry_run then remove_files(directory, id) end
    end
  end
  return gone
end

---Tells others of a session: from now on they find it.
---@return true?, table? err
function keepers.announce(session, ends_at)
  local directory, err = keepers.directory(true)
  if not directory then return nil, err end
  local kept, failure = session:_keep(("%s/%s.sock"):format(directory, session.id))
  if not kept then return nil, failure end
  local state, problem = session:state()
  if not state then return nil, problem end
  local labels = {} -- as they may be shown: who lists them does not know the session's secrets
  for name, value in pairs(session.labels or {}) do
    labels[core.struck(name)] = core.struck(value)
  end
  local card = { state = state, ends_at = ends_at, created_at = os.time(), labels = labels }
  local text = core.encode(card)
  local path = ("%s/%s.json"):format(directory, session.id)
  local ok, why = system.write_private(path, text)
  if not ok then
    return nil, { code = "unavailable", message = why,
      fix = "make room there, or let this user write it" }
  end
  return true
end

---The session is over: nobody shall look for it.
function keepers.withdraw(session)
  local directory = keepers.directory()
  if directory then remove_files(directory, session.id) end
end

return keepers
