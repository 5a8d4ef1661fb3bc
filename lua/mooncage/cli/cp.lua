-- cp.lua: `mooncage cp`: files into and out of a session that stays.
local exit = require "mooncage.cli.exit"
local keepers = require "mooncage.cli.keepers"
local output = require "mooncage.cli.output"
local sandbox = require "mooncage.cli.sandbox"
local system = require "mooncage.cli.system"

local cp = {}

---"ID:path" -> id, path. A path of the host that holds a colon is written ./a:b.
local function split(place)
  local id, path = place:match "^([%w%-_]+):(.+)$"
  return id, path
end

local function wrong(message)
  return nil, {
    code = "invalid",
    message = message,
    fix = "write: mooncage cp SRC ID:DST, or mooncage cp ID:SRC DST",
  }
end

---As cp does it: into a directory that is there, under the same name.
local function into(directory, from)
  return directory:gsub("/*$", "/", 1) .. sandbox.base_name(from)
end

local function download(session, from, to)
  if system.is_directory(to) then to = into(to, from) end
  return session:download(from, to)
end

local function upload(session, from, to)
  local found = session:stat(to)
  if found and found.type == "directory" then to = into(to, from) end
  return session:upload(from, to)
end

local function copy(from, to)
  local from_id, from_path = split(from)
  local to_id, to_path = split(to)
  if from_id and to_id then return wrong "cp: one of the places must be on this machine" end
  if not from_id and not to_id then return wrong "cp: one of the places must be in a session" end
  local session, err = keepers.open(from_id or to_id)
  if not session then return nil, err end
  local ok
  if from_id then
    ok, err = download(session, from_path, to)
  else
    ok, err = upload(session, from, to_path)
  end
  session:close()
  return ok, err
end

function cp.main(line)
  local ok, err = copy(line.words[1], line.words[2])
  if not ok then
    output.error(err)
    return exit.of_error(err)
  end
  if output.is_json() and not output.document { from = line.words[1], to = line.words[2] } then
    return exit.FAILED
  end
  return exit.OK
end

return cp
