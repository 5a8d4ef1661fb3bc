-- init.lua: the command `mooncage`. Reads the command line, shows help, and hands over to the
-- module of the command, which is loaded only then.
local exit = require "mooncage.cli.exit"
local output = require "mooncage.cli.output"
local parse = require "mooncage.cli.parse"
local spec = require "mooncage.cli.table"

local cli = {}

---Was --json meant, though the line could not be read to its end?
local function wants_json(argv)
  for _, word in ipairs(argv) do
    if word == "--" then return false end
    if word == "--json" then return true end
  end
  return false
end

local function show(text, document)
  local ok
  if output.is_json() then
    ok = output.document(document)
  else
    ok = output.write(text)
  end
  return ok and exit.OK or exit.FAILED
end

local function version()
  local number = require("mooncage")._VERSION
  return show(("mooncage %s\n"):format(number), { version = number, lua = jit.version })
end

local function usage(argv)
  local text = require("mooncage.cli.help").text()
  if #argv > 0 then return show(text, { help = text }) end
  io.stderr:write(text)
  return exit.USAGE
end

---Commands of our own making, which no table shows: the keeper of a session that stays, and the
---documents made from the table.
local hidden = {}

function hidden.__keeper()
  return require("mooncage.cli.keeper").main()
end

function hidden.__document(argv)
  local man = require "mooncage.cli.man"
  local makers = { man = man.page, markdown = man.markdown }
  if not makers[argv[2]] then return exit.USAGE end
  return output.write(makers[argv[2]]()) and exit.OK or exit.FAILED
end

local function describe(problem)
  if type(problem) == "table" and problem.code then return problem end
  return { code = "internal", message = debug.traceback(tostring(problem), 2),
    fix = "this is a fault of mooncage's own: please report it with these lines" }
end

local function run_command(line)
  require("mooncage.core").log_level(output.log_level())
  require("mooncage.cli.system").raise_open_files()
  local command = spec.by_name[line.command]
  local ok, status = xpcall(function()
    return require("mooncage.cli." .. command.module).main(line)
  end, describe)
  if ok then
    local lost = output.tell_lost()
    return lost and status == exit.OK and exit.FAILED or status
  end
  output.error(status)
  return exit.of_error(status)
end

---@param argv string[] the words after the program's name
---@return integer exit status
function cli.main(argv)
  if hidden[argv[1]] then return hidden[argv[1]](argv) end
  local line, err, partial = parse(argv)
  local flags = line and line.flags or partial and partial.flags or {}
  flags.json = flags.json or not line and wants_json(argv)
  output.configure(flags, require("mooncage.host").isatty)
  if not line then
    if #argv == 0 then return usage(argv) end
    output.error(err)
    return exit.USAGE
  end
  if flags.version then return version() end
  if flags.help then
    if not line.command then return usage(argv) end
    local text = require("mooncage.cli.help").text(line.command)
    return show(text, { help = text })
  end
  return run_command(line)
end

return cli
