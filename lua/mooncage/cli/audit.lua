-- audit.lua: `mooncage audit`: reads audit logs. What is shown was written by whoever ran commands,
-- so all of it passes plain() on its way to a terminal. Judging the chain is the engine's.
local core = require "mooncage.core"
local exit = require "mooncage.cli.exit"
local follow = require "mooncage.cli.follow"
local logs = require "mooncage.cli.logs"
local output = require "mooncage.cli.output"
local plain = require "mooncage.plain"
local system = require "mooncage.cli.system"

local audit = {}

local function failed(message, fix)
  return nil, core.error("not_found", message, fix)
end

-- ---- bytes that are no text --------------------------------------------------------------------

local DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

local function unbase64(text)
  local out, bits, held = {}, 0, 0
  for digit in text:gmatch "[%w+/]" do
    held = held * 64 + DIGITS:find(digit, 1, true) - 1
    bits = bits + 6
    if bits >= 8 then
      bits = bits - 8
      out[#out + 1] = string.char(math.floor(held / 2 ^ bits) % 256)
      held = held % 2 ^ bits
    end
  end
  return table.concat(out)
end

-- ---- events ------------------------------------------------------------------------------------

local function wanted(event, flags)
  if flags.session and (event.session or ""):sub(1, #flags.session) ~= flags.session then
    return false
  end
  return (not flags.op or event.op == flags.op)
    and (not flags.tenant or event.tenant == flags.tenant)
end

-- What a field must be for us to look at it; "text" may be a table, see text_of.
local FIELDS = {
  op = "string", phase = "string", id = "string", session = "string", ts = "string",
  signal = "string", exit_code = "number", bytes = "number", duration = "number",
  timed_out = "boolean", argv = "table", detail = "table", error = "table", decision = "table",
  usage = "table",
}

---A line as an event; nil when it is none. Anybody may have written it: a field of another type
---than ours is left out.
local function read_event(raw)
  local event = core.decode(raw)
  if type(event) ~= "table" then return nil end
  for name, kind in pairs(FIELDS) do
    if type(event[name]) ~= kind then event[name] = nil end
  end
  return event.op and event.phase and event or nil
end

---Text as it was; what was no text, or was cut, as what there is of it.
local function text_of(value)
  if type(value) ~= "table" then return tostring(value) end
  if type(value.base64) == "string" then return unbase64(value.base64) end
  if type(value.words) == "number" then return ("(and %d words more)"):format(value.words) end
  local text = type(value.text) == "table" and value.text.base64 and text_of(value.text)
    or type(value.text) == "string" and value.text or ""
  return ("%s... (%s bytes)"):format(text, tostring(value.len))
end

local function quoted(word)
  if word:match "^[%w_%-./=:,@%%+]+$" then return word end
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

local function command_of(event)
  if event.shell then return text_of(event.shell) end
  local words = {}
  for i, word in ipairs(event.argv or {}) do words[i] = quoted(text_of(word)) end
  return table.concat(words, " ")
end

---Who decided, and what: a decision stands by what was let through, too.
local function decided(event, detail)
  local decision = event.decision
  local verdict = decision.reason or event.op == "select" and detail.chosen
  local text = ("%s: %s"):format(text_of(decision.by),
    text_of(verdict or event.error and "denied" or "allowed"))
  return decision.rule and ("%s (rule %s)"):format(text, text_of(decision.rule)) or text
end

---What an event says beyond who and when.
local function about(event)
  local said = {}
  local function add(text) if text and text ~= "" then said[#said + 1] = text end end
  if event.shell or event.argv then add(command_of(event)) end
  local detail = event.detail or {}
  add(detail.call and text_of(detail.call))
  add(event.path and text_of(event.path))
  add(detail.snapshot_id and text_of(detail.snapshot_id)
    .. (type(detail.version) == "number" and ("@%d"):format(detail.version) or ""))
  add(event.tool and "tool " .. text_of(event.tool))
  add(event.exit_code and "exit " .. event.exit_code)
  add(event.signal)
  add(event.timed_out and "timed out")
  add(event.bytes and event.bytes .. " bytes")
  add(event.duration and ("%.3f s"):format(event.duration))
  if event.decision then add(decided(event, detail)) end
  add(detail.what and text_of(detail.what))
  add(detail.outcome and "outcome " .. text_of(detail.outcome))
  add(detail.first_seq and ("%s-%s"):format(text_of(detail.first_seq), text_of(detail.last_seq)))
  if event.error then
    add(("%s: %s"):format(text_of(event.error.code), text_of(event.error.message)))
  end
  return (table.concat(said, "  "):gsub("[\r\n\t]", " "))
end

local function show_event(event, raw)
  if output.is_json() then return output.write(raw .. "\n") end
  local when = (event.ts or "?"):gsub("T", " "):sub(1, 23)
  local line = ("%s  %-10s %-6s  %-8s  %s"):format(when, event.op, event.phase,
    (event.session or ""):sub(1, 8), about(event))
  return output.write(plain(line, true) .. "\n")
end

---A log to read; a pipe is not waited for.
local function open_log(path)
  if not system.is_ordinary(path) and system.real_path(path) then
    return nil, path .. ": is no ordinary file"
  end
  return io.open(path, "rb")
end

---Calls fn(event, raw) for each line of a file, or of its first `most` bytes; one that is none is
---passed over, and counted.
local function each_event(path, fn, most)
  local file, why = open_log(path)
  if not file then return failed(why, "name a file that is there") end
  local bad, read = 0, 0
  for raw in file:lines() do
    read = read + #raw + 1
    if most and read > most then break end
    local event = read_event(raw)
    if event then
      if fn(event, raw) == false then break end
    elseif raw ~= "" then
      bad = bad + 1
    end
  end
  file:close()
  if bad > 0 then
    output.warn(("%s: %s no audit events; see mooncage audit verify"):format(path,
      bad == 1 and "1 line is" or bad .. " lines are"))
  end
  return true
end

-- ---- show, tail --------------------------------------------------------------------------------

local function files_of(line)
  local places, err = logs.places(line)
  if not places then return nil, err end
  local files = logs.files(places, #line.words > 0)
  if #files == 0 then return logs.none(places) end
  return files
end

local function show(line)
  local files, err = files_of(line)
  if not files then return nil, err end
  for _, path in ipairs(files) do
    local written = true
    local ok
    ok, err = each_event(path, function(event, raw)
      if wanted(event, line.flags) then written = show_event(event, raw) end
      return written
    end)
    if not ok then return nil, err end
    if not written then return exit.FAILED end
  end
  return exit.OK
end

---Shows what is added, until the command is ended.
local function go_on(followed, flags)
  while followed.next(function(raw)
    local event = read_event(raw)
    return not event or not wanted(event, flags) or show_event(event, raw)
  end) do
    core.sleep(0.2)
  end
  return exit.FAILED
end

local function latest(list, most)
  if #list <= most then return list end
  local kept = {}
  for i = #list - most + 1, #list do kept[#kept + 1] = list[i] end
  return kept
end

---Puts events of a file among the last ones, by their times. Those of one file stay in its order,
---whatever the clock did meanwhile.
local function merge(last, some, most)
  for _, each in ipairs(some) do last[#last + 1] = each end
  table.sort(last, function(a, b)
    if a.time ~= b.time then return a.time < b.time end
    if a.file ~= b.file then return a.file < b.file end
    return a.at < b.at
  end)
  return latest(last, most)
end

---The last events of a file that are wanted.
local function last_of(path, number, flags, most, bytes)
  local some, time, count = {}, "", 0
  local ok, err = each_event(path, function(event, raw)
    if not wanted(event, flags) then return end
    local now = logs.time_of(event) or time
    time, count = now > time and now or time, count + 1
    some[#some + 1] = { event = event, raw = raw, time = time, file = number, at = count }
    if #some >= 2 * most then some = latest(some, most) end
  end, bytes)
  return ok and latest(some, most), err
end

local function tail(line)
  local places, err = logs.places(line)
  if not places then return nil, err end
  local followed = line.flags.follow and follow.new(function()
    return logs.files(places, false)
  end)
  local files
  files, err = files_of(line)
  if not files then return nil, err end
  local most, last = line.flags.lines or 10, {}
  for number, file in ipairs(logs.newest_first(files)) do -- as many files as it takes
    if #last >= most and file.last < last[1].time then break end
    local some
    some, err = last_of(file.path, -number, line.flags, most, followed and followed.ends[file.path])
    if not some then return nil, err end
    last = merge(last, some, most)
  end
  for _, each in ipairs(last) do
    if not show_event(each.event, each.raw) then return exit.FAILED end
  end
  return followed and go_on(followed, line.flags) or exit.OK
end

-- ---- verify ------------------------------------------------------------------------------------

local function print_report(report)
  local file = text_of(report.file)
  if report.ok then
    output.say("%s: %s, %d lines\n", file, output.colored("green", "ok"), report.lines)
  else
    output.say("%s: %s\n", file, output.colored("red", "not what was written"))
  end
  for _, problem in ipairs(report.problems) do output.say("  %s\n", problem.message) end
  if output.is_quiet() then return end
  for _, note in ipairs(report.notes) do
    output.say("  note, line %d: %s\n", note.line, note.message)
  end
end

local function verify(line)
  local places, err = logs.places(line)
  if not places then return nil, err end
  if #line.words > 0 then -- together: several of them may be one log
    local paths = core.array {}
    for i, place in ipairs(places) do paths[i] = place.path end
    places = { { path = paths[1], paths = paths, key = places[1].key } }
  end
  local all = { ok = true, files = core.array {} }
  for _, place in ipairs(places) do
    local report
    report, err = core.audit_verify {
      paths = place.paths or core.array { place.path }, hmac_key = place.key,
    }
    if not report then return nil, err end
    local nothing = #line.words == 0 and #report.files == 1 and not system.is_file(place.path)
      and report.files[1].file == place.path
    if not nothing then
      all.ok = all.ok and report.ok
      for _, each in ipairs(report.files) do table.insert(all.files, each) end
    end
  end
  if #all.files == 0 then return logs.none(places) end
  if output.is_json() then
    if not output.document(all) then return exit.FAILED end
  else
    for _, report in ipairs(all.files) do print_report(report) end
  end
  return all.ok and exit.OK or exit.SCRIPT
end

-- ---- stats -------------------------------------------------------------------------------------

local SUMMED = { "wall_clock_s", "exec_count", "exec_s", "cpu_s", "net_in_bytes", "net_out_bytes",
  "snapshot_bytes", "estimated_usd", "reported_usd" }

local function new_sums()
  return { events = 0, sessions = 0, denied = 0, failed = 0, open = 0, unknown = 0 }
end

local function add_usage(sums, usage)
  for _, key in ipairs(SUMMED) do
    if type(usage[key]) == "number" then sums[key] = (sums[key] or 0) + usage[key] end
  end
  if type(usage.max_rss_mb) == "number" then
    sums.max_rss_mb = math.max(sums.max_rss_mb or 0, usage.max_rss_mb)
  end
end

---What one event adds to the sums of its session, its tenant and all.
local function count(all, event, started)
  local tenant, session = event.tenant and text_of(event.tenant) or "", event.session
  local id = event.id or ""
  all.tenants[tenant] = all.tenants[tenant] or new_sums()
  local each = { all.total, all.tenants[tenant] }
  if session then
    all.sessions[session] = all.sessions[session] or new_sums()
    all.sessions[session].tenant = event.tenant and tenant or nil
    all.sessions[session].backend = type(event.backend) == "string" and event.backend or nil
    each[3] = all.sessions[session]
  end
  local code = event.error and event.error.code
  local denied = code == "command_denied" or code == "tool_not_allowed"
  local unknown = event.phase == "finish" and event.detail and event.detail.outcome == "unknown"
  for _, sums in ipairs(each) do
    sums.events = sums.events + 1
    if event.op == "open" and event.phase == "start" then sums.sessions = sums.sessions + 1 end
    if denied then sums.denied = sums.denied + 1 end
    if code and not denied then sums.failed = sums.failed + 1 end
    if event.op == "close" and event.usage then add_usage(sums, event.usage) end
    if unknown then sums.unknown = sums.unknown + 1 end
    if event.phase == "start" then sums.open = sums.open + 1 end
    if event.phase == "finish" and started[id] then sums.open = sums.open - 1 end
  end
  if event.phase == "start" then started[id] = true end
  if event.phase == "finish" then started[id] = nil end
end

local function print_sums(name, sums)
  output.say("%-28s %7d %8d %8d %7d %7d %10.1f %10.2f %8s\n", name, sums.events,
    sums.sessions, sums.exec_count or 0, sums.denied, sums.failed, sums.wall_clock_s or 0,
    sums.cpu_s or 0, sums.estimated_usd and ("%.4f"):format(sums.estimated_usd) or "-")
end

local function sorted_keys(from)
  local keys = {}
  for key in pairs(from) do keys[#keys + 1] = key end
  table.sort(keys)
  return keys
end

local function print_stats(all)
  output.say("%-28s %7s %8s %8s %7s %7s %10s %10s %8s\n", "", "EVENTS", "SESSIONS",
    "COMMANDS", "DENIED", "FAILED", "WALL S", "CPU S", "USD")
  for _, id in ipairs(sorted_keys(all.sessions)) do print_sums(id, all.sessions[id]) end
  for _, tenant in ipairs(sorted_keys(all.tenants)) do
    print_sums(tenant == "" and "no tenant" or "tenant " .. tenant, all.tenants[tenant])
  end
  print_sums("all", all.total)
  if all.total.open > 0 then
    output.say("%d begun and not ended: still running, or their engine died\n", all.total.open)
  end
  if all.total.unknown > 0 then
    output.say("%d ended with their engine, and nobody saw how\n", all.total.unknown)
  end
end

local function stats(line)
  local files, err = files_of(line)
  if not files then return nil, err end
  local all = { total = new_sums(), sessions = {}, tenants = {} }
  local started = {}
  for _, path in ipairs(files) do
    local ok
    ok, err = each_event(path, function(event)
      if wanted(event, line.flags) then count(all, event, started) end
    end)
    if not ok then return nil, err end
  end
  if output.is_json() then return output.document(all) and exit.OK or exit.FAILED end
  print_stats(all)
  return exit.OK
end

local actions = { tail = tail, show = show, verify = verify, stats = stats }

-- As in docs/audit.md.
local OPS = { "select", "open", "close", "exec", "pty", "tool", "guardrail", "read", "write",
  "snapshot", "restore", "net",
  "expose", "limit", "hook_error", "reap", "recovered" }

---A kind that there is none of would only ever show nothing.
local function check_op(op)
  for _, each in ipairs(OPS) do
    if op == nil or op == each then return true end
  end
  local near = core.nearest(op, OPS)
  return nil, core.error("invalid", ("--op %s: there is no such kind of event"):format(op),
    near and ("did you mean %s?"):format(near) or "there are " .. table.concat(OPS, ", "))
end

function audit.main(line)
  local known, wrong = check_op(line.flags.op)
  if not known then
    output.error(wrong)
    return exit.of_error(wrong)
  end
  local status, err = actions[table.remove(line.words, 1)](line)
  if status then return status end
  output.error(err)
  return exit.of_error(err)
end

return audit
