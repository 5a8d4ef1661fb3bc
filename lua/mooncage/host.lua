-- host.lua: runs a script as the main task of the command: os.exit closes what is open, an uncaught
-- error shows where it came from, a signal cancels every task, and tasks that are still at work are
-- waited for.
local core = require "mooncage.core"
local plain = require "mooncage.plain"
local thrown = require "mooncage.thrown"

local host = {}

host.isatty = core.terminal.isatty
host.exit = core.exit

local SIGNALS = { INT = 2, TERM = 15, HUP = 1 }

---What an uncaught error looks like on stderr.
local function show(err, traceback)
  err = thrown(err)
  local text = (err.backend and err.backend .. ": " or "") .. err.message
  local cause = err.cause
  while cause do
    text, cause = text .. "\n  because: " .. cause.message, cause.cause
  end
  if err.fix then text = text .. "\n  fix: " .. err.fix end
  traceback = traceback and core.struck(traceback) or err.traceback
  if traceback then text = text .. "\n" .. traceback end
  io.stderr:write("mooncage: ", plain(text), "\n")
end

---Tasks that nobody waited for are still the script's: it ends when they have. False: one failed.
local function await_tasks(tell)
  local good = true
  while true do
    local task = core.tasks()[1]
    if not task then break end
    local _, err = task:wait()
    if task:status() == "failed" and err.code ~= "canceled" then
      good = false
      tell(err)
    end
  end
  collectgarbage()
  collectgarbage()
  local _, lost = core.tasks()
  return good and lost == 0
end

---Runs `chunk(...)` as the script of this process.
---@param chunk function
---@param words string[] its arguments
---@param tell fun(err: any, traceback: string?)? where errors go instead of stderr
---@return integer status
function host.run_script(chunk, words, tell)
  tell = tell or show
  local killed_by
  for name in pairs(SIGNALS) do
    core.terminal.on_signal(name, function()
      if killed_by then core.exit(128 + SIGNALS[killed_by]) end -- it was asked to end before
      killed_by = name
      host.cancel_all()
    end)
  end
  -- It stays so: hooks are called after this, until the last session is closed.
  -- luacheck: push ignore 122
  os.exit = function(code)
    if code == nil or code == true then code = 0 end
    if code == false then code = 1 end
    core.exit(code)
  end
  -- luacheck: pop
  local traceback
  local ok, err = xpcall(chunk, function(what)
    core.unsuccessful() -- while whatever it has opened is still known
    traceback = debug.traceback("", 2):gsub("^\n", "")
    return what
  end, unpack(words))
  if not ok and not killed_by then tell(err, traceback) end
  if not ok then host.cancel_all() end
  local good = await_tasks(tell)
  if killed_by or not ok or not good then core.unsuccessful() end
  if killed_by then return 128 + SIGNALS[killed_by] end
  return ok and good and 0 or 1
end

---Cancels every task, the script's own too: each wait ends with `canceled`.
function host.cancel_all()
  core.cancel_all()
end

return host
