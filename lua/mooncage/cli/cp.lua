-- cp.lua: `mooncage cp`: files into and out of a session that stays.
local exit = require "mooncage.cli.exit"
local keepers = require "mooncage.cli.keepers"
local output = require "mooncage.cli.output"

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

---The last part of a path, for a target that is a directory: "." or ends in "/".
local function target_of(from, to)
  if to ~= "." and to:sub(-1) ~= "/" then return to end
  local name = from:gsub("/+$", ""):match "([^/]+)$" or from
  return to == "." and name or to .. name
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
    ok, err = session:download(from_path, target_of(from_path, to))
  else
    ok, err = session:upload(from, target_of(from, to_path))
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
