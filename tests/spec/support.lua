-- support.lua: what specs share: which sandboxes there are to try, and the check after each case
-- that nothing is left: no session, no task, no process, no descriptor.
local core = require "mooncage.core"
local mooncage = require "mooncage"

local support = {}

local function read_file(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local text = file:read "*a"
  file:close()
  return text
end
support.read_file = read_file

function support.write_file(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

---Adds the backends of backends.c, which stand in for those that are yet to come.
function support.stand_ins()
  local path = assert(os.getenv "SPEC_CORE", "run the specs with tests/spec/run")
  local ok, err = assert(package.loadlib(path, "luaopen_spec_backends"))()
  if ok == nil and err then error(tostring(err)) end
end

---What a shell command of the host says.
function support.host(command)
  local pipe = assert(io.popen("unset LD_PRELOAD; " .. command)) -- see tests/spec/run
  local text = pipe:read "*a"
  pipe:close()
  return text
end

---An interpreter with the module, for shell commands.
support.lua = os.getenv "SPEC_LUA" or "luajit"

---A fresh directory of the host, removed after the test.
function support.temporary()
  return (support.host "mktemp -d /tmp/mooncage-spec-XXXXXX":gsub("\n", ""))
end

local function children(pid)
  local text = read_file(("/proc/%s/task/%s/children"):format(pid, pid)) or ""
  local list = {}
  for child in text:gmatch "%d+" do list[#list + 1] = child end
  return list
end

local function descriptors()
  local _, count = support.host "ls /proc/$PPID/fd":gsub("\n", "")
  return count
end

---Descriptors that are open, processes below us (the spawner's own children too).
local function state()
  local self = read_file("/proc/self/stat"):match "^%d+"
  local processes = 0
  for _, child in ipairs(children(self)) do
    processes = processes + 1 + #children(child)
  end
  local sessions, tasks = core.live()
  return { fds = descriptors(), processes = processes, sessions = sessions, tasks = tasks }
end

---In a describe block: after each case everything must be as it was before, soon. `setup` and
---`teardown` run inside of that.
function support.leaves_nothing(setup, teardown)
  local busted = getfenv(2)
  local before
  busted.before_each(function()
    if not support.warm then -- the engine and its spawner stay
      support.warm = true
      for _, each in ipairs(support.sandboxes()) do
        local session = mooncage.open { backend = each.backend() }
        if session then session:close() end
      end
      mooncage.sleep(0.2)
    end
    before = state()
    if setup then setup() end
  end)
  busted.after_each(function()
    if teardown then teardown() end
    local now
    for _ = 1, 100 do
      collectgarbage()
      collectgarbage()
      now = state()
      if now.fds <= before.fds and now.processes <= before.processes
        and now.sessions <= before.sessions and now.tasks <= before.tasks then
        return
      end
      mooncage.sleep(0.02)
    end
    for name, count in pairs(now) do
      if count > before[name] then
        error(("%d %s left over"):format(count - before[name], name), 0)
      end
    end
  end)
end

---The sandboxes that the contract is tried on.
---@return { name: string, backend: fun(options: table?): table }[]
function support.sandboxes()
  local function jail(carrier)
    return function(options)
      local all = { carrier = carrier }
      for key, value in pairs(options or {}) do all[key] = value end
      return mooncage.jail(all)
    end
  end
  return {
    { name = "jail", backend = jail(nil), isolates = true },
    { name = "jail, framed", backend = jail "framed", isolates = true },
    { name = "subprocess", backend = function(options) return mooncage.subprocess(options) end },
  }
end

return support
