-- exec.lua: `mooncage exec`: one command in a session that stays.
local exit = require "mooncage.cli.exit"
local interrupt = require "mooncage.cli.interrupt"
local keepers = require "mooncage.cli.keepers"
local run = require "mooncage.cli.run"
local sandbox = require "mooncage.cli.sandbox"

local exec = {}

local function options_of(flags)
  local options = { timeout = flags.timeout, cwd = flags.workdir, tool = flags.tool }
  if flags.env or flags["env-file"] then
    local environment, err = sandbox.environment(flags)
    if not environment then return nil, err end
    options.env = environment
  end
  return options
end

local function steps(line)
  local options, wrong = options_of(line.flags)
  if not options then return nil, wrong end
  local config, unread = sandbox.standing(line.flags)
  if not config then return nil, unread end
  interrupt.watch()
  local session, err = keepers.open(line.words[1], config)
  if not session then return nil, err end
  local result, failure = run.attached(session, line.rest, options)
  local reported = result and run.report(session, result, line.rest)
  session:close() -- lets go of it; the sandbox stays
  if not result then return nil, failure end
  return reported and exit.of_result(result) or exit.FAILED
end

function exec.main(line)
  return run.finish(steps(line))
end

return exec
