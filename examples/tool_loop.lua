-- tool_loop.lua: a small agent: a model asks for tools, they run in a sandbox, it is told what came
-- of them, until it has an answer. The model here is a script, so that no network is needed; put
-- yours in its place. What the agent may do is said in the config, and the model finds out where it
-- ends.
-- Run it: mooncage run examples/tool_loop.lua
local mooncage = require "mooncage"

-- ---- what the agent may do ---------------------------------------------------------------------

local config = {
  allowed_tools = { "shell", "read_file", "write_file", "edit_file", "run_tests" },
  tools = {
    ---A tool of ours: its command runs in the sandbox, and counts as run_tests.
    run_tests = function(_, session)
      local result, err = session:exec({ "sh", "tests.sh" }, { timeout = 10 })
      if not result then return nil, err end
      return { passed = result.ok, output = result.stdout .. result.stderr }
    end,
  },
  guardrail = mooncage.policy "command_guardrail" {
    allow = { "ls *", "cat *", "sh tests.sh" },
  },
}

-- ---- a model that was written down -------------------------------------------------------------

---Says what to do next, given what it was told last.
local function scripted_model()
  local script = {
    { tool = "shell", args = { command = "ls" } },
    { tool = "read_file", args = { path = "add.sh" } },
    { tool = "run_tests" },
    { tool = "shell", args = { command = "sed -i 's/-/+/' add.sh" } }, -- denied by the guardrail
    { tool = "search_files", args = { pattern = "echo" } }, -- not on the list
    { tool = "edit_file", args = { path = "add.sh", old = "$1 - $2", new = "$1 + $2" } },
    { tool = "run_tests" },
  }
  local step = 0
  return function(told)
    step = step + 1
    if script[step] then return script[step] end
    return { answer = told.passed and "add.sh subtracted; now it adds." or "I could not mend it." }
  end
end

-- ---- the loop ----------------------------------------------------------------------------------

---What came of a call, in words for a model: an error is something to learn from.
local function told(result, err)
  if err then return { error = err.code, message = tostring(err), fix = err.fix } end
  if type(result) ~= "table" then return { result = result } end
  return result
end

local function shown(call, answer)
  local text = answer.error and ("refused: %s"):format(answer.message) or "done"
  if answer.passed ~= nil then text = answer.passed and "tests pass" or "tests fail" end
  print(("%-12s %s"):format(call.tool, text))
end

local STEPS_MAX = 20

local answer = assert(mooncage.with(config, function(session)
  assert(session:write("add.sh", "echo $(($1 - $2))\n"))
  assert(session:write("tests.sh",
    '[ "$(sh add.sh 2 3)" = 5 ] || { echo "2 + 3 is not 5"; exit 1; }\n'))
  local model, last = scripted_model(), {}
  for _ = 1, STEPS_MAX do
    local call = model(last)
    if call.answer then return call.answer end
    last = told(session:call_tool(call.tool, call.args))
    shown(call, last)
  end
  return nil, "the model did not come to an end"
end))

print(answer)
