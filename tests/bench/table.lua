-- table.lua: makes docs/bench.md of the rows that the bench driver printed: luajit table.lua ROWS.
-- Every goal is a ratio of medians of one run; absolute figures are this machine's only.

local facts, enforcement, times, figures = {}, {}, {}, {}

local function read(path)
  for line in io.lines(path) do
    local row = {}
    for field in (line .. "\t"):gmatch "(.-)\t" do row[#row + 1] = field end
    if row[1] == "fact" then
      facts[#facts + 1] = { row[2], row[3] }
    elseif row[1] == "enforcement" then
      enforcement[#enforcement + 1] = { row[2], row[3] }
    elseif row[1] == "time" then
      times[#times + 1] = {
        section = row[2], name = row[3], program = row[4], pause = tonumber(row[5]), n = row[6],
        median = tonumber(row[7]), p95 = tonumber(row[8]), min = tonumber(row[9]),
      }
    elseif row[1] == "figure" then
      local key = row[2] .. "/" .. row[3]
      figures[key] = figures[key] or { name = row[3], section = row[2], unit = row[6] }
      table.insert(figures[key], tonumber(row[5]))
    end
  end
end

local function time(name, program, pause, section)
  section = section or "one"
  for _, row in ipairs(times) do
    if row.name == name and row.program == program and row.pause == pause
      and row.section == section then return row end
  end
end

local function median(list)
  local sorted = { unpack(list) }
  table.sort(sorted)
  local middle = (#sorted + 1) / 2
  return (sorted[math.floor(middle)] + sorted[math.ceil(middle)]) / 2
end

local function figure(key) return figures[key] and median(figures[key]) end

local function print_row(...) print("| " .. table.concat({ ... }, " | ") .. " |") end

-- "at least" goals want a ratio above the bound, "at most" goals one below it.
local function goal(what, ratio, kind, bound)
  if not ratio then return print_row(what, "not measured", kind .. " " .. bound, "") end
  local met
  if kind == "at least" then met = ratio >= bound else met = ratio <= bound end
  print_row(what, ("%.2f"):format(ratio), kind .. " " .. bound, met and "met" or "**missed**")
end

local function ratio(above, below)
  if above and below then return above.median / below.median end
end

local function goals()
  print "\n## The goals\n"
  print_row("what", "seen", "goal", "")
  print_row("---", "---:", "---", "---")
  for _, pause in ipairs { 0, 100 } do
    local how = pause == 0 and "back to back" or "100 ms apart"
    for _, case in ipairs {
      { "musl", 2, 1.3, "static musl" }, { "glibc", 1.75, 1.15, "static glibc" },
    } do
      local program, cold_bound, warm_bound, words = unpack(case)
      local label = (", %s, %s"):format(words, how)
      local cold = time("mooncage cold", program, pause)
      local bwrap = time("bwrap", program, pause)
      goal("bwrap : cold" .. label, ratio(bwrap, cold), "at least", cold_bound)
      goal("crun : cold" .. label, ratio(time("crun", program, pause), cold), "at least", 6)
      goal("warm : posix_spawn" .. label,
        ratio(time("mooncage warm", program, pause, "warm"),
          time("posix_spawn", program, pause, "warm")),
        "at most", warm_bound)
      goal("from the pool : posix_spawn" .. label,
        ratio(time("mooncage pool, to reply", program, pause, "pool"),
          time("posix_spawn", program, pause, "pool")),
        "at most", program == "musl" and 1.5 or 1.25)
      goal("`mooncage run` : bwrap" .. label,
        ratio(time("mooncage run", program, pause), bwrap), "at most", 2)
    end
  end
  local each = figure "crowd/memory, each"
  goal("memory of an idle sandbox, KiB", each, "at most", 512)
  goal("cold in a crowded engine : in an empty one",
    ratio(time("mooncage cold, crowded engine", "musl", 0, "crowd"),
      time("mooncage cold, empty engine", "musl", 0, "crowd")), "at most", 1.3)
  local bare = time("warm from Lua", "musl", 0, "pipeline")
  local whole = time("warm from Lua, whole pipeline", "musl", 0, "pipeline")
  goal("the whole pipeline of a warm command takes more, ms",
    bare and whole and whole.median - bare.median, "at most", 0.1)
  local few = time("mcg_rank of 1000, few match", "", 0, "rank")
  goal("ranking 1000 candidates of which few match, us", few and few.median * 1000, "at most", 40)
  local all = time("mcg_rank of 1000, all match", "", 0, "rank")
  goal("ranking 1000 candidates that all match, us", all and all.median * 1000, "at most", 100)
  local slowest = time("pure Lua selector of 1000, all match", "", 0, "rank")
  goal("a selector in plain Lua over 1000 candidates, ms", slowest and slowest.median,
    "at most", 1)
  local synced = figure "audit/a sync for each line"
  local durable = figure "audit/durable, 1000 in flight"
  goal("durable log with 1000 commands in flight : a sync for each line",
    synced and durable and durable / synced, "at least", 100)
  goal("an event in lua-cjson : as canonical JSON",
    ratio(time("lua-cjson of 1000 of them", "", 0, "audit"),
      time("1000 events serialised", "", 0, "audit")), "at least", 4)
  local gateway, socat = figure "network/MB/s through the gateway",
    figure "network/MB/s through socat"
  goal("MB/s through the gateway : through socat", gateway and socat and gateway / socat,
    "at least", 0.7)
  local far, near = figure "network/first byte through the gateway",
    figure "network/first byte, plain"
  goal("the gateway adds to the first byte of a connection, ms", far and near and far - near,
    "at most", 0.2)
  goal("connections a second through the gateway",
    figure "network/connections a second through the gateway", "at least", 1000)
  local listed = time("open and close, an allow list", "musl", 0, "network")
  local unlisted = time("open and close, no network", "musl", 0, "network")
  goal("opening with an allow list takes more, ms",
    listed and unlisted and listed.median - unlisted.median, "at most", 0.5)
  local ours, pipe = figure "stdout/mooncage", figure "stdout/plain pipe, 1 MiB"
  goal("stdout : a plain pipe of the same size", ours and pipe and ours / pipe, "at least", 0.6)
end

-- What was found with the kernel's tracer while a sandbox was opened and closed again and again,
-- where nothing else ran. Figures are of that machine: two virtual processors.
local FOUND = [[

## What holds it back

Of a cold sandbox's 3 ms, by the kernel's tracer on two virtual processors:

- **The network namespace**: 0.65 ms to make, and 1.5 ms of a kernel worker when it ends;
  bubblewrap and crun pay that too. Here one that nobody used, as by the programs measured, is
  looked over (0.2 ms) and used for the next.
- **Control groups**: on version 1 three directories, 0.2 ms to make and 0.15 ms to remove; the
  peer bubblewrap has none. Here one that can be set back as it was serves the next sandbox.
- **The child's own steps**, one after another: 35 mounts 0.3 ms, the seccomp filter 0.08 ms,
  Landlock 0.06 ms, giving up 41 capabilities 0.05 ms; bubblewrap does a third of the mounts and
  none of the rest.
- **The clone** 0.25 ms, and the death of pid 1 with its stub 0.3 ms.
- A static glibc program takes 0.4 ms more to start than a musl one, inside and outside alike:
  that narrows ratios.

Of a warm command: five hand-overs (engine, init, the command, its stub, init, engine) where
posix_spawn has two. One takes 5 us on the same virtual processor and 10 to 50 us on another, most
after a pause, when it has to be woken first; pooled sandboxes pay the same. What the whole pipeline
adds is three questions to Lua and two lines of the log. What the gateway adds to the first byte of
a connection is two more connections' worth of hand-overs, between the program, the engine and the
server; half a dozen system calls judge, log and dial.

The crowded engine's figure is of two kinds: run after run of the same program gave 1.0 or 2, where
a thousand sandboxes' control groups are still being freed by the kernel. A ready child in each idle
sandbox costs 70 KiB of its memory.]]

local function all_times()
  print "\n## Times\n\nMilliseconds. `p` is the pause before each run in milliseconds.\n"
  print_row("what", "program", "p", "n", "median", "p95", "min")
  print_row("---", "---", "---:", "---:", "---:", "---:", "---:")
  for _, row in ipairs(times) do
    print_row(row.name, row.program, row.pause, row.n, ("%.3f"):format(row.median),
      ("%.3f"):format(row.p95), ("%.3f"):format(row.min))
  end
end

local function all_figures()
  print "\n## Other figures\n"
  print_row("what", "median", "unit", "n")
  print_row("---", "---:", "---", "---:")
  local keys = {}
  for key in pairs(figures) do keys[#keys + 1] = key end
  table.sort(keys)
  for _, key in ipairs(keys) do
    print_row(key, ("%.1f"):format(figure(key)), figures[key].unit, #figures[key])
  end
end

read(assert(arg[1], "usage: table.lua ROWS"))
print "# Speed\n"
print "Made by `tests/bench/run`; do not edit. All variants of a table ran in turns in one process"
print "on one machine, so ratios hold; absolute times are this machine's. Cold is open, exec, close"
print "of a jail with everything in force that is listed below; the peers ran the same program.\n"
print_row("machine", "")
print_row("---", "---")
for _, fact in ipairs(facts) do print_row(fact[1], fact[2]) end
goals()
print(FOUND)
all_times()
all_figures()
print "\n## In force in the jail that was measured\n"
print_row("mechanism", "how")
print_row("---", "---")
for _, pair in ipairs(enforcement) do print_row(pair[1], pair[2]) end
