-- trust.lua: which local configurations may be used: a file that a repository brings along is only
-- read as configuration once its user has said so, for this path and these bytes. The list is
-- "trusted" in the state directory, in sha256sum's form: a hash and a path a line.
local system = require "mooncage.cli.system"

local trust = {}

local MOST = 1024 * 1024

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

---The text of a file if it is trusted as it stands; else nil and what to say.
---@param path string
---@return string? text, string? why
function trust.read(path)
  local text, why = system.read_file(path, MOST)
  local real = text and system.real_path(path)
  local list = real and list_path(false)
  if not list then return nil, ("%s in this directory is not used: %s"):format(path, why) end
  local trusted, wrong = read_list(list)
  if not trusted then return nil, ("%s in this directory is not used: %s"):format(path, wrong) end
  if not trusted[real] then
    return nil, ("%s in this directory is not used: a configuration that comes with a tree could "
      .. "undo the sandbox; read it, then say mooncage config trust %s"):format(path, path)
  end
  local hash, err = system.sha256(text)
  if hash == trusted[real] then return text end
  return nil, ("%s in this directory is not used: %s"):format(path, err and err.message
    or ("it has changed since it was trusted; read it, then say mooncage config trust %s"):format(
      path))
end

---Trusts a file as it stands.
---@param path string
---@return table? { path, sha256 }, table? err
function trust.add(path)
  local function failed(code, message, fix)
    return nil, { code = code, message = message, fix = fix }
  end
  local text, why = system.read_file(path, MOST)
  if not text then
    return failed("not_found", why, "name a file that is there, and no directory")
  end
  local chunk, wrong = load(text:gsub("^#[^\n]*", "", 1), "@" .. path, "t")
  if not chunk then
    return failed("invalid", wrong, "only a Lua text can be a configuration")
  end
  local real, lost = system.real_path(path)
  if not real then return failed("not_found", lost, "name a file that is there") end
  if real:find "[%c]" then
    return failed("invalid", "a path with control characters cannot be trusted", "rename it")
  end
  local hash, err = system.sha256(text)
  if not hash then return nil, err end
  local list, nowhere = list_path(true)
  if not list then
    return failed("unavailable", nowhere, "set XDG_STATE_HOME to a place of yours")
  end
  local trusted, unread = read_list(list)
  if not trusted then return failed("unauthorized", unread, "remove it, and trust anew") end
  trusted[real] = hash
  local ok, unwritten = write_list(list, trusted)
  if not ok then
    return failed("unavailable", "cannot keep what is trusted: " .. tostring(unwritten),
      "set XDG_STATE_HOME to a place that can be written")
  end
  return { path = real, sha256 = hash }
end

return trust
