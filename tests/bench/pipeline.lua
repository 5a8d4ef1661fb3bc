-- pipeline.lua: a warm command with nothing asked and nothing logged, and through the whole
-- pipeline: tool list, guardrail, hooks at both ends, an audit log that is not durable. In turns.
-- Prints rows as the bench driver does:
--   mooncage run tests/bench/pipeline.lua PROGRAMS LOG [ROUNDS]
local mooncage = require "mooncage"

local programs, log, rounds = arg[1], arg[2], tonumber(arg[3]) or 2000
local binds = { programs .. ":/mnt" }
local argv = { "/mnt/true-musl" }
local told = { started = 0, ended = 0, judged = 0 }

local plain = assert(mooncage.open { backend = mooncage.jail { binds = binds }, audit = false })
local whole = assert(mooncage.open {
  backend = mooncage.jail { binds = binds },
  allowed_tools = { "shell", "read_file", "write_file", "list_files" },
  guardrail = function(command)
    told.judged = told.judged + 1
    return command.argv ~= nil and command.argv[1] ~= "rm", "nothing is removed here"
  end,
  hooks = {
    on_sandbox_exec_start = function() told.started = told.started + 1 end,
    on_sandbox_exec_end = function() told.ended = told.ended + 1 end,
  },
  audit = mooncage.audit.jsonl { path = log },
})

local function once(session)
  local start = mooncage.now()
  local result = assert(session:exec(argv))
  local took = (mooncage.now() - start) * 1000
  if not result.ok then error(result.stderr, 0) end
  return took
end

local variants = {
  { name = "warm from Lua", session = plain, times = {} },
  { name = "warm from Lua, whole pipeline", session = whole, times = {} },
}
for round = -4, rounds do -- the first ones warm caches
  for i = 1, 2 do
    local variant = variants[(round + i) % 2 + 1]
    local took = once(variant.session)
    if round > 0 then variant.times[round] = took end
  end
end
plain:close()
whole:close()

-- A figure counts only if everything was in the way.
local ran = rounds + 5
if told.judged ~= ran or told.started ~= ran or told.ended ~= ran then
  error(("judged %d, started %d, ended %d of %d commands"):format(told.judged, told.started,
    told.ended, ran), 0)
end
for _, variant in ipairs(variants) do
  local times = variant.times
  table.sort(times)
  print(table.concat({ "time", "pipeline", variant.name, "musl", 0, rounds,
    ("%.4f"):format(times[math.ceil(rounds / 2)]),
    ("%.4f"):format(times[math.ceil(rounds * 0.95)]), ("%.4f"):format(times[1]) }, "\t"))
end
