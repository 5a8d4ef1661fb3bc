-- trust.lua: which local configurations may be used: a file that a repository brings along is only
-- read as configuration once its user has said so, for this path and these bytes, and so are the
-- policies and the manifest that it loads. The list is "trusted" in the state directory, in
-- sha256sum's form: a hash and a path a line.
local core = require "mooncage.core"
local lines = require "mooncage.cli.lines"
local system = require "mooncage.cli.system"

local trust = {}

local MOST = 1024 * 1024

local function directory_of(path) return path:match "^(.*/)[^/]*$" or "" end

---What a file is listed as: the real place of its directory, and its name there. A link has a name
---of its own, not that of what it leads to, which was trusted somewhere else.
local function listed_as(path)
  local directory = directory_of(path)
  local real, why = system.real_path(directory == "" and "." or directory)
  if not real then return nil, why end
  return (real == "/" and "" or real) .. "/" .. path:sub(#directory + 1)
end

local function list_path(create)
  local directory, why = system.state_dir(create)
  if not directory then return nil, why end
  return directory .. "/trusted"
end

---path -> hash; empty when nothing was ever trusted.
local function read_list(path)
  local text, why, there = system.read_file(path, MOST, "private")
  if not text and there then return nil, why end
  local trusted = {}
  for hash, name in (text or ""):gmatch "(%x+)  ([^\n]+)\n" do trusted[name] = hash end
  return trusted
end

local function write_list(path, trusted)
  local names, text = {}, {}
  for name in pairs(trusted) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do text[i] = ("%s  %s\n"):format(trusted[name], name) end
  local temporary = ("%s.%s"):format(path, tostring(text):match "0x(%x+)" or "new")
  local ok, why = system.write_private(temporary, table.concat(text))
  if ok then ok, why = os.rename(temporary, path) end
  if not ok then system.remove(temporary) end
  return ok, why
end

---Was the text trusted as that of this file? Else nil, why, and whether it was never.
local function holds(path, text)
  local name, lost = listed_as(path)
  local list, nowhere
  if name then list, nowhere = list_path(false) end
  if not list then return nil, lost or nowhere end
  local trusted, wrong = read_list(list)
  if not trusted then return nil, wrong end
  local hash, err = system.sha256(text)
  if not hash then return nil, err.message end
  if hash == trusted[name] then return true end
  return nil, trusted[name] and "it has changed since it was trusted", not trusted[name]
end

---The text of a file if it is trusted as it stands; else nil and what to say.
---@param path string
---@return string? text, string? why
function trust.read(path)
  local text, why = system.read_file(path, MOST)
  local ok, never
  if text then ok, why, never = holds(path, text) end
  if ok then return text end
  if never then why = "a configuration that comes with a tree could undo the sandbox" end
  return nil, ("%s in this directory is not used: %s%s"):format(path, why,
    text and ("; read it, then say mooncage config trust %s"):format(path) or "")
end

---Throws unless a file that a trusted configuration loads is trusted, too.
---@param path string
---@param text string
function trust.must_hold(path, text)
  local ok, why, never = holds(path, text)
  if ok then return end
  if never then why = "it was not there, or not named, when the configuration was trusted" end
  error(core.error("unauthorized", ("%s is not loaded: %s"):format(path, why),
    ("read it, then say mooncage config trust %s"):format(path)), 0)
end

---The files that a configuration names as policies or as its manifest, each once.
local function named_in(text)
  local found, seen, words = {}, {}, {}
  lines.each_token(text, function(kind, value)
    local first, second = words[1], words[2]
    local called = second == "policy" or first == "policy" and second == "("
    local set = first == "manifest" and second == "="
    if kind == "string" and value and (set or called and not value:match "^[%w_%-]+$")
      and not seen[value] then
      found[#found + 1], seen[value] = value, true
    end
    words = { second, kind ~= "string" and value or "" }
  end)
  return found
end

local function failed(code, message, fix)
  return nil, core.error(code, message, fix)
end

---A file as an entry of the list.
---@return { path: string, sha256: string, text: string }? entry, table? err
local function entry_of(path)
  local text, why = system.read_file(path, MOST)
  if not text then
    return failed("not_found", why, "name a file that is there, and no directory")
  end
  local chunk, wrong = load(text:gsub("^#[^\n]*", "", 1), "@" .. path, "t")
  if not chunk then return failed("invalid", wrong, "only a Lua text can be trusted") end
  local name, lost = listed_as(path)
  if not name then return failed("not_found", lost, "name a file that is there") end
  if name:find "[%c]" then
    return failed("invalid", "a path with control characters cannot be trusted", "rename it")
  end
  local hash, err = system.sha256(text)
  if not hash then return nil, err end
  return { path = name, sha256 = hash, text = text }
end

---Trusts a file as it stands, and the policies and the manifest that it names.
---@param path string
---@return table? { path, sha256, with = { path, sha256 }[] }, table? err
function trust.add(path)
  local entry, err = entry_of(path)
  if not entry then return nil, err end
  local list, nowhere = list_path(true)
  if not list then
    return failed("unavailable", nowhere, "set XDG_STATE_HOME to a place of yours")
  end
  local trusted, unread = read_list(list)
  if not trusted then return failed("unauthorized", unread, "remove it, and trust anew") end
  trusted[entry.path] = entry.sha256
  local with = core.array {}
  for _, name in ipairs(named_in(entry.text)) do
    local also = entry_of(name:sub(1, 1) == "/" and name or directory_of(path) .. name)
    if also then -- what is not there, or no Lua, is not loaded either
      with[#with + 1] = { path = also.path, sha256 = also.sha256 }
      trusted[also.path] = also.sha256
    end
  end
  local ok, unwritten = write_list(list, trusted)
  if not ok then
    return failed("unavailable", "cannot keep what is trusted: " .. tostring(unwritten),
      "set XDG_STATE_HOME to a place that can be written")
  end
  return { path = entry.path, sha256 = entry.sha256, with = with }
end

return trust
