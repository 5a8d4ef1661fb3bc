-- report.lua: busted's output handler for these specs: one line for each case that failed or was
-- skipped, with the reason, and the figures to the file that tests/spec/run sums up.
local busted = require "busted"
local base = require "busted.outputHandlers.base"

return function(options)
  local handler = base()
  local passed, failed, skipped = 0, 0, 0

  local function show(what, entry)
    local message = entry.message
    if type(message) ~= "string" then
      message = require("pl.pretty").write(message or "no message")
    end
    local place = entry.element.trace or {}
    io.write(("%s: %s\n  %s:%s\n  %s\n"):format(what, entry.name, place.short_src or "?",
      place.currentline or "?", (message:gsub("\n", "\n  "))))
    if options.verbose and entry.trace then io.write(entry.trace.traceback, "\n") end
    io.flush()
  end

  ---For who wants to know what came of each: a line to the file $SPEC_CASES.
  local function tell(element, status)
    local path = os.getenv "SPEC_CASES"
    local file = path and io.open(path, "a")
    if file then
      file:write(status, "\t", (handler.getFullName(element):gsub("%c", " ")), "\n")
      file:close()
    end
  end

  local function test_end(element, _, status)
    tell(element, status)
    if status == "success" then
      passed = passed + 1
    elseif status == "pending" then
      skipped = skipped + 1
      local entry = handler.pendings[#handler.pendings]
      io.write(("skipped: %s: %s\n"):format(entry.name, entry.message or "no reason given"))
    else
      failed = failed + 1
      local list = status == "failure" and handler.failures or handler.errors
      show("FAILED", list[#list])
    end
    return nil, true
  end

  local function on_error(element)
    if element.descriptor ~= "it" then
      failed = failed + 1
      show("FAILED", handler.errors[#handler.errors])
    end
    return nil, true
  end

  local function suite_end()
    io.write(("  %d passed, %d failed, %d skipped in %.1f s\n"):format(passed, failed, skipped,
      handler.getDuration()))
    io.flush()
    local path = os.getenv "SPEC_FIGURES"
    local file = path and io.open(path, "a")
    if file then
      file:write(("%d %d %d\n"):format(passed, failed, skipped))
      file:close()
    end
    return nil, true
  end

  busted.subscribe({ "test", "end" }, test_end, { predicate = handler.cancelOnPending })
  busted.subscribe({ "error" }, on_error)
  busted.subscribe({ "suite", "end" }, suite_end)
  return handler
end
