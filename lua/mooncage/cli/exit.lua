-- exit.lua: the exit status of the command, from a result or from an error.
local exit = {
  OK = 0,
  SCRIPT = 1, -- a script threw
  USAGE = 2, -- the command line or the configuration is wrong
  TIMEOUT = 124,
  FAILED = 125, -- Mooncage could not do it
  DENIED = 126, -- by policy; also a program that is there and cannot be executed
  NOT_FOUND = 127,
}

-- Linux, every architecture we build for.
local SIGNALS = {
  HUP = 1, INT = 2, QUIT = 3, ILL = 4, TRAP = 5, ABRT = 6, BUS = 7, FPE = 8, KILL = 9, USR1 = 10,
  SEGV = 11, USR2 = 12, PIPE = 13, ALRM = 14, TERM = 15, STKFLT = 16, CHLD = 17, CONT = 18,
  STOP = 19, TSTP = 20, TTIN = 21, TTOU = 22, URG = 23, XCPU = 24, XFSZ = 25, VTALRM = 26,
  PROF = 27, WINCH = 28, IO = 29, PWR = 30, SYS = 31,
}

local DENIED_CODES = { command_denied = true, tool_not_allowed = true, no_candidate = true }

---"SIGTERM" or "SIGRTMIN+3" -> its number; nil when it is no signal.
function exit.signal_number(name)
  local short = name:gsub("^SIG", "")
  if SIGNALS[short] then return SIGNALS[short] end
  local number = short:match "^%d+$"
  if number then return tonumber(number) end
  local above = short:match "^RTMIN%+?(%d*)$"
  return above and 34 + (tonumber(above) or 0)
end

---@param result mooncage.Result
function exit.of_result(result)
  if result.timed_out then return exit.TIMEOUT end
  if result.signal then return 128 + (exit.signal_number(result.signal) or 0) end
  return result.exit_code or exit.FAILED
end

---@param err mooncage.Error
function exit.of_error(err)
  if err.code == "invalid" then return exit.USAGE end
  if err.code == "timeout" then return exit.TIMEOUT end
  if DENIED_CODES[err.code] then return exit.DENIED end
  return exit.FAILED
end

return exit
