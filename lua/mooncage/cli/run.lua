-- run.lua: `mooncage run`: one command in a fresh sandbox, or a script that opens its own.
local core = require "mooncage.core"
local exit = require "mooncage.cli.exit"
local interrupt = require "mooncage.cli.interrupt"
local mooncage = require "mooncage"
local output = require "mooncage.cli.output"
local sandbox = require "mooncage.cli.sandbox"

local run = {}

-- A command that nobody waits for any more shall not stay for ever.
local HOUR = 3600

---What the command could not say itself.
function run.tell(result, argv)
  if result.timed_out then output.note "the command ran into its time limit and was killed" end
  if result.not_found then
    output.note(("there is no program %s in the sandbox, or not its interpreter; --bind, --copy-in "
      .. "and --option path=DIR add to what it sees"):format(argv[1]))
  elseif result.start_error then
    output.note(("%s cannot be executed in the sandbox: %s; it must be a file, no directory, that "
      .. "may be executed (chmod +x)"):format(argv[1], result.start_error))
  end
  if result.oom_killed then output.note "the command was killed: it ran out of memory" end
end

---With --json the result is one document; otherwise the command has already said everything.
function run.report(session, result, argv, project)
  if not output.is_json() then
    run.tell(result, argv)
    return true
  end
  local document = {}
  for key, value in pairs(result) do document[key] = value end
  document.session = sandbox.facts(session)
  if project and next(project) then document.project = project end
  return output.document(document)
end

---Runs `argv` in an open session, with our own descriptors as its streams; with --json its output
---is kept for the document.
---@return mooncage.Result? result, table? err
function run.attached(session, argv, options)
  options.stdin_fd = 0
  if not output.is_json() then
    options.stdout_fd, options.stderr_fd, options.max_output = 1, 2, 0
  end
  return interrupt.during(session, argv, options)
end

---The steps round one command, which `execute` runs; the first error is what is told.
---@return mooncage.Result? result, table? err, table? project
function run.steps(session, flags, execute)
  local ok, err = sandbox.copy_in(session, flags)
  if not ok then return nil, err end
  local exposed
  exposed, err = sandbox.expose(session, flags)
  if not exposed then return nil, err end
  if not output.is_json() then sandbox.say_exposed(exposed) end
  local result
  result, err = execute()
  if not result then return nil, err end
  ok, err = sandbox.copy_out(session, flags)
  if not ok then return nil, err end
  local project
  project, err = sandbox.project(session, flags, result.ok)
  if not project then return nil, err end
  return result, nil, project
end

local function run_command(line)
  interrupt.watch()
  local session, err = sandbox.open(line.flags, { wall_s = HOUR })
  if not session then return nil, err end
  local result, problem, project = run.steps(session, line.flags, function()
    return run.attached(session, line.rest, { tool = line.flags.tool })
  end)
  local reported = result and run.report(session, result, line.rest, project)
  local closed, close_error = sandbox.close(session, result)
  if not result then return nil, problem end
  if not closed then return nil, close_error end
  return reported and exit.of_result(result) or exit.FAILED
end

---The script's text and the name that its messages show.
local function read_script(line)
  if line.flags.eval then return line.flags.eval, "=(-e)", line.rest or line.words end
  local name = line.words[1]
  local words = {}
  for i = 2, #line.words do words[#words + 1] = line.words[i] end
  if name == "-" then return io.stdin:read "*a" or "", "=stdin", words end
  local file, why = io.open(name, "rb")
  local text = file and file:read "*a"
  if file then file:close() end
  if text then return text, "@" .. name, words end
  return nil, {
    code = "invalid",
    message = ("cannot read the script %s: %s"):format(name, why or "is it a directory?"),
    fix = ("to run a command, put -- before it: mooncage run -- %s"):format(
      table.concat(line.words, " ")),
  }
end

---With --json, what a script threw is a document too.
local function tell_json(err, traceback)
  output.error(err, { traceback = traceback and core.struck(traceback) })
end

-- Steps round one command, which a script takes itself.
local FOR_COMMANDS = { "expose", "copy-in", "copy-out", "diff", "apply", "apply-git", "tool" }

local function run_script(line)
  for _, name in ipairs(FOR_COMMANDS) do
    if line.flags[name] then
      return nil, {
        code = "invalid",
        message = ("--%s is for a command, not for a script"):format(name),
        fix = name == "tool" and "in the script say session:exec(cmd, { tool = \"NAME\" })"
          or "in the script use session:upload, session:download, session:diff, session:apply or "
            .. "session:expose",
      }
    end
  end
  local text, name, words = read_script(line)
  if not text then return nil, name end
  if text:sub(1, 1) == "\27" then
    return nil, { code = "invalid", message = name:sub(2) .. ": is bytecode, not Lua text",
      fix = "give the source text of the script" }
  end
  local chunk, why = load(text:gsub("^#[^\n]*", "", 1), name, "t")
  if not chunk then
    output.error { code = "invalid", message = why, fix = "correct the Lua text there" }
    return exit.SCRIPT
  end
  local config, err, path = sandbox.config(line.flags)
  if not config then return nil, err end
  mooncage.defaults(config, function(wrong) return sandbox.locate(wrong, path, line.flags) end)
  words[0] = line.words[1] or "-e"
  _G.arg = words
  return mooncage.run_script(chunk, words, output.is_json() and tell_json or nil)
end

---The exit status of what ran, or of what failed, which is told here.
function run.finish(status, err)
  local killed = interrupt.status()
  if killed then return killed end
  if status then return status end
  output.error(err)
  return exit.of_error(err)
end

---@param line mooncage.cli.Line
---@return integer status
function run.main(line)
  local script = line.flags.eval or #line.words > 0
  return run.finish((script and run_script or run_command)(line))
end

return run
