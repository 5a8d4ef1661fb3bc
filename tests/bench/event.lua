-- event.lua: what lua-cjson takes for the event that audit.c makes. Prints one row as the driver
-- does; nothing where lua-cjson is not installed: luajit tests/bench/event.lua [ROUNDS]
local found, cjson = pcall(require, "cjson")
if not found then
  io.stderr:write "lua-cjson is not installed: no row of it\n"
  return
end

local rounds, MANY = tonumber(arg and arg[1]) or 50, 10000
local event = {
  argv = { "python3", "main.py", "--input", "data/input.csv" }, backend = "jail", bytes = 4711,
  cwd = "/workspace", duration = 0.123456, exit_code = 0,
  hash = ("0"):rep(64), id = "rtzkdcgh4zscmnj77pfy5mefx4", mono = 14789.697325, op = "exec",
  phase = "finish", prev = ("0"):rep(64), run_id = "run-17", seq = 4,
  session = "qkyxfniqoxm4o6z6l2cruon3pq", tenant = "acme", timed_out = false, tool = "shell",
  ts = "2026-11-29T22:44:50.693923Z", v = 1,
}

local times = {}
for round = -1, rounds do
  local start = os.clock()
  for _ = 1, MANY do cjson.encode(event) end
  if round > 0 then times[round] = (os.clock() - start) * 1000 * 1000 / MANY end
end
table.sort(times)
print(("time\taudit\tlua-cjson of 1000 of them\t\t0\t%d\t%.4f\t%.4f\t%.4f"):format(rounds,
  times[math.ceil(rounds / 2)], times[math.ceil(rounds * 0.95)], times[1]))
