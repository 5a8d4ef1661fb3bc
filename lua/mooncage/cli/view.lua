-- view.lua: `mooncage diff` and `mooncage apply`: the view of a project that a session that stays
-- has for its workspace.
local exit = require "mooncage.cli.exit"
local keepers = require "mooncage.cli.keepers"
local output = require "mooncage.cli.output"
local sandbox = require "mooncage.cli.sandbox"

local view = {}

-- The command as flags of `run`, whose last step it is.
local function flags_of(line, session)
  local flags = { project = session.project }
  flags[line.command] = true
  flags["apply-git"] = line.flags.git
  return flags
end

local function document(session, report)
  return output.document {
    project = report, session = { id = session.id, backend = session.backend },
  }
end

function view.main(line)
  local session, err = keepers.open(line.words[1])
  local report
  if session then report, err = sandbox.project(session, flags_of(line, session), true) end
  if not report then
    if session then session:close() end
    output.error(err)
    return exit.of_error(err)
  end
  local told = not output.is_json() or document(session, report)
  if line.command == "apply" then keepers.withdraw(session) end
  session:close() -- of diff it lets go: the sandbox stays
  return told and exit.OK or exit.FAILED
end

return view
