-- The types that editors read, the reference page and the module say the same.
local mooncage = require "mooncage"
local support = require "support"

local root = support.host "pwd":gsub("\n", "")
if not support.read_file(root .. "/lua/mooncage/types.lua") then
  root = debug.getinfo(1, "S").source:match "^@(.*)/tests/spec/[^/]*$" or root
end
local text = assert(support.read_file(root .. "/lua/mooncage/types.lua"))

---The functions that are declared for one owner, sorted.
local function declared(owner)
  local names = {}
  for name in text:gmatch("\nfunction " .. owner .. "[.:]([%w_]+)%(") do
    names[#names + 1] = name
  end
  table.sort(names)
  return names
end

---The fields of a class.
local function fields(class)
  local names = {}
  local block = text:match("%-%-%-@class mooncage%." .. class .. "[^\n]*\n(.-)\n\n")
  for name in block:gmatch "@field ([%w_]+)" do names[#names + 1] = name end
  return names
end

---Public names of a table that are functions, sorted.
local function public(methods)
  local names = {}
  for name, value in pairs(methods) do
    if type(value) == "function" and name:sub(1, 1) ~= "_" then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

describe("the types", function()
  support.leaves_nothing()

  it("name every function of the module, and no other", function()
    local names = declared "mooncage"
    local here = {}
    for _, name in ipairs(names) do here[name] = true end
    for _, name in ipairs(public(mooncage)) do
      assert.is_true(here[name] or name == "run_script", name .. " is not described")
    end
    for _, name in ipairs(names) do assert.is_function(mooncage[name], name) end
  end)

  it("name every method, and no other", function()
    local session = assert(mooncage.open())
    local process = assert(session:start "true")
    local task = mooncage.spawn(function() end)
    for owner, object in pairs { Session = session, Process = process, Task = task } do
      for _, name in ipairs(declared(owner)) do
        assert.is_function(object[name], owner .. ":" .. name)
      end
    end
    for name, object in pairs {
      ["mooncage.session"] = "Session",
      ["mooncage.process"] = "Process",
      ["mooncage.task"] = "Task",
    } do
      local index = debug.getregistry()[name].__index
      local methods = index
      if type(index) == "function" then
        local _, upvalue = debug.getupvalue(index, 1)
        methods = upvalue
      end
      assert.same(declared(object), public(methods))
    end
    process:wait()
    task:wait()
    session:close()
  end)

  it("name every field of a session and a result", function()
    local project = support.temporary()
    local session = assert(mooncage.open {
      labels = { a = "b" }, tenant = "t", project = project,
    })
    for _, name in ipairs(fields "Session") do assert.is_not_nil(session[name], name) end
    local described = {}
    for _, name in ipairs(fields "Result") do described[name] = true end
    for _, command in ipairs { "true", "kill -9 $$" } do
      for name in pairs(assert(session:exec(command))) do
        assert.is_true(described[name], name .. " is not described")
      end
    end
    session:close()
    support.host("rmdir " .. project)
  end)

  it("name every option of exec", function()
    local session = assert(mooncage.open())
    local wrong = setmetatable({}, { __name = "wrong" })
    for _, name in ipairs(fields "ExecOptions") do
      local ok, message = pcall(session.exec, session, "true", { [name] = wrong })
      assert.is_true(ok or not message:match "unknown option", name)
    end
    session:close()
  end)

  it("name keys that open knows", function()
    for _, name in ipairs(fields "Config") do
      local session, err
      local ok, message = pcall(function() session, err = mooncage.open { [name] = -0.5 } end)
      if session then session:close() end
      assert.is_false((ok and err and err.message or message or ""):match "unknown" ~= nil, name)
    end
  end)

  it("are what the reference pages were made from", function()
    for name, how in pairs { ["lua.md"] = "", ["mooncage.3"] = "man" } do
      local made = support.host(("cd '%s' && luajit docs/make-lua.lua %s"):format(root, how))
      assert.is_true(made == support.read_file(root .. "/docs/" .. name),
        ("docs/%s is old: luajit docs/make-lua.lua %s > docs/%s"):format(name, how, name))
    end
  end)

  it("name the keys that the page on configuration explains", function()
    local page = assert(support.read_file(root .. "/docs/config.md"))
    local keys = page:match "\n## Keys\n(.-)\n##"
    local explained = {}
    for line in keys:gmatch "\n(| `[^\n]*)" do
      for name in line:match "^| (.-) |":gmatch "`([%w_]+)`" do explained[name] = true end
    end
    for _, name in ipairs(fields "Config") do
      assert.is_true(explained[name], name .. " is not in docs/config.md")
      explained[name] = nil
    end
    assert.is_nil(next(explained), tostring(next(explained)) .. " is not in lua/mooncage/types.lua")
  end)
end)
