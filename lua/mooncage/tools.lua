-- tools.lua: session:call_tool: the tools that are built in, those of the config, and their way: is
-- it allowed, the log's start, the tool, the log's finish. Arguments come from a model as often as
-- not, so what is wrong with them is an error that is returned, never one that is raised.
local core = require "mooncage.core"

local tools = {}

-- What a search tells at most; a longer answer helps no model.
local MATCHES_MAX, TEXT_MAX = 200, 400

local function invalid(text, ...)
  return nil, core.error("invalid", text:format(...))
end

-- Arguments of the built-in tools: name -> type, with "?" where it may be left out.
local ARGUMENTS = {
  shell = { command = "string|table", cwd = "string?", stdin = "string?", timeout = "number?",
    env = "table?", user = "string?" },
  read_file = { path = "string", max_bytes = "number?" },
  write_file = { path = "string", content = "string", mode = "string?" },
  edit_file = { path = "string", old = "string", new = "string", all = "boolean?" },
  list_files = { path = "string?" },
  search_files = { pattern = "string", path = "string?", fixed = "boolean?" },
}

-- Of their texts, those that are bytes; no other can hold a NUL.
local BYTES = { stdin = true, content = true, old = true, new = true }

local FIX = "the arguments are in docs/guard.md"

local builtin = {}

function builtin.shell(args, session)
  return session:exec(args.command, {
    cwd = args.cwd, stdin = args.stdin, timeout = args.timeout, env = args.env, user = args.user,
  })
end

function builtin.read_file(args, session)
  return session:read(args.path, args.max_bytes and { max_bytes = args.max_bytes } or nil)
end

function builtin.write_file(args, session)
  return session:write(args.path, args.content, args.mode)
end

---How often `text` holds `part`, and where it first stands.
local function occurrences(text, part)
  local count, first, at = 0, nil, 1
  while true do
    local from, to = text:find(part, at, true)
    if not from then return count, first end
    count, first, at = count + 1, first or from, to + 1
  end
end

---Replaces the one place where `old` stands; `all`: every one.
function builtin.edit_file(args, session)
  if args.old == "" then return invalid "old is empty: it names no place in the file" end
  local text, err = session:read(args.path)
  if not text then return nil, err end
  local count, first = occurrences(text, args.old)
  if count == 0 then
    return nil, core.error("not_found", ("%s does not hold the text to replace"):format(args.path),
      "read the file, and give its text to the letter")
  elseif count > 1 and not args.all then
    return nil, core.error("conflict",
      ("%s holds the text to replace %d times"):format(args.path, count),
      "give more of what stands round the place, or all = true")
  end
  local info
  info, err = session:stat(args.path)
  if not info then return nil, err end
  local edited
  if args.all then
    local parts, at = {}, 1
    for _ = 1, count do
      local from, to = text:find(args.old, at, true)
      parts[#parts + 1] = text:sub(at, from - 1)
      at = to + 1
    end
    parts[#parts + 1] = text:sub(at)
    edited = table.concat(parts, args.new)
  else
    edited = text:sub(1, first - 1) .. args.new .. text:sub(first + #args.old)
  end
  local ok
  ok, err = session:write(args.path, edited, info.mode)
  if not ok then return nil, err end
  return { replaced = count }
end

function builtin.list_files(args, session)
  return session:list(args.path)
end

---Runs grep in the sandbox, which goes through the guardrail like every command.
function builtin.search_files(args, session)
  local path = args.path or "."
  local result, err = session:exec({
    "grep", args.fixed and "-rnIZF" or "-rnIZE", "-e", args.pattern, "--", path,
  }, { max_output = 1024 * 1024 })
  if not result then return nil, err end
  if result.not_found then
    return nil, core.error("unsupported", "search_files needs grep in the sandbox",
      "use an image or a rootfs that has grep, or a tool of your own")
  elseif result.exit_code ~= 0 and result.exit_code ~= 1 and result.stdout == "" then
    return nil, core.error("invalid", "search_files: "
      .. (result.stderr:match "[^\n]+" or "grep failed"))
  end
  local matches = core.array {}
  for name, line, text in result.stdout:gmatch "([^%z\n]*)%z(%d+):([^\n]*)" do
    if #matches == MATCHES_MAX then return { matches = matches, truncated = true } end
    matches[#matches + 1] = { path = name, line = tonumber(line), text = text:sub(1, TEXT_MAX) }
  end
  return { matches = matches, truncated = result.stdout_truncated }
end

---What is wrong with the arguments of a built-in tool, or nil.
local function misfit(name, args)
  local wanted = ARGUMENTS[name]
  local names = {}
  for key in pairs(wanted) do names[#names + 1] = key end
  for key in pairs(args) do
    if type(key) ~= "string" or not wanted[key] then
      local near = type(key) == "string" and core.nearest(key, names)
      return ("tool %s: unknown argument '%s'%s"):format(name, tostring(key):sub(1, 40),
        near and (" (did you mean '%s'?)"):format(near) or "")
    end
  end
  for key, types in pairs(wanted) do
    local value = args[key]
    local optional = types:sub(-1) == "?"
    local fits = false
    for each in types:gsub("%?$", ""):gmatch "[^|]+" do fits = fits or type(value) == each end
    if not fits and not (optional and value == nil) then
      return ("tool %s: %s must be a %s, not a %s"):format(name, key,
        (types:gsub("%?$", ""):gsub("|", " or a ")), type(value))
    end
    if type(value) == "string" and not BYTES[key] and value:find("\0", 1, true) then
      return ("tool %s: %s contains a NUL byte, which no %s can"):format(name, key, key)
    end
  end
end

---What a built-in tool returned. Where it threw what a method of the session says of an argument
---("mooncage: exec: timeout must be ..."), that was the model's, and is an error that is returned.
local function judged(name, ok, first, ...)
  if ok then return first, ... end
  local wrong = type(first) == "string" and first:match "mooncage: %a[%w_]*: (.+)$"
  if not wrong then error(first, 0) end
  return nil, core.error("invalid", ("tool %s: %s"):format(name, wrong), FIX)
end

---Checks `tools` of a config: name -> function, or { run = function, sandbox = false }.
---@param given any
---@param complain fun(text: string, ...)
---@return table<string, { run: function, on_host: boolean }> found, string[] names
function tools.read(given, complain)
  local found, names = {}, {}
  if given == nil then return found, names end
  if type(given) ~= "table" then
    complain("tools must be a table of functions, not a %s", type(given))
  end
  for name, tool in pairs(given) do
    if type(name) ~= "string" or not name:match "^[%a_][%w_%-%.]*$" or #name > 64 then
      complain("tools: '%s' is no name for a tool: use letters, digits, _ - and .",
        tostring(name):sub(1, 40))
    end
    local run, on_host = tool, false
    if type(tool) == "table" then
      for key in pairs(tool) do
        if key ~= "run" and key ~= "sandbox" then
          local near = core.nearest(tostring(key), { "run", "sandbox" })
          complain("tools.%s: unknown key '%s'%s", name, tostring(key),
            near and (" (did you mean '%s'?)"):format(near) or ": it takes run and sandbox")
        end
      end
      if tool.sandbox ~= nil and type(tool.sandbox) ~= "boolean" then
        complain("tools.%s: sandbox must be true or false, not a %s", name, type(tool.sandbox))
      end
      run, on_host = tool.run, tool.sandbox == false
    end
    if type(run) ~= "function" then
      complain("tools.%s must be a function, or { run = function, sandbox = false }, not a %s",
        name, type(run))
    end
    found[name] = { run = run, on_host = on_host }
    names[#names + 1] = name
  end
  table.sort(names)
  return found, names
end

---The tool of that name: the config's own go over those that are built in.
local function find(session, name)
  local functions = core.functions_of(session)
  local own = functions and functions.tools or {}
  if own[name] then return own[name] end
  if builtin[name] then
    return {
      run = function(args, ...)
        local wrong = misfit(name, args)
        if wrong then return nil, core.error("invalid", wrong, FIX) end
        return judged(name, pcall(builtin[name], args, ...))
      end,
      on_host = false,
    }
  end
  local names = {}
  for each in pairs(builtin) do names[#names + 1] = each end
  for each in pairs(own) do names[#names + 1] = each end
  table.sort(names)
  local near = core.nearest(name, names)
  return nil, core.error("not_found", ("there is no tool '%s'"):format(name:sub(1, 40)),
    near and ("did you mean '%s'?"):format(near)
      or "there are " .. table.concat(names, ", ") .. "; give others as `tools`")
end

---An error of a tool: what it returned as one, or threw.
local function thrown(name, err)
  if type(err) == "table" and type(rawget(err, "message")) == "string" then return err end
  local text = type(err) == "string" and err or "it threw a value of type " .. type(err)
  return core.error("internal", ("tool %s: %s"):format(name, text), "correct the tool's function")
end

---Runs one with the commands of this task counted as its.
local function run(session, name, tool, args)
  local before, name_before = core.tool_scope(session, name)
  local function leave(...)
    core.tool_scope(before, name_before)
    return ...
  end
  -- A tool that leaves the sandbox is not given it.
  if tool.on_host then return leave(pcall(tool.run, args)) end
  return leave(pcall(tool.run, args, session))
end

---session:call_tool(name, args)
function tools.call(session, name, args)
  if type(name) ~= "string" then
    error(("mooncage: call_tool: the name must be a string, not a %s"):format(type(name)), 2)
  end
  if args ~= nil and type(args) ~= "table" then
    return invalid("tool %s: the arguments must be a table, not a %s", name, type(args))
  end
  args = args or {}
  local tool, err = find(session, name)
  if not tool then return nil, err end
  local handle
  handle, err = core.tool_start(session, name, tool.on_host,
    type(args.path) == "string" and args.path or nil)
  if not handle then return nil, err end
  local function finish(ok, first, second, ...)
    if not ok then
      first, second = nil, thrown(name, first)
    end
    local failed = first == nil and second ~= nil
    handle:finish(failed and thrown(name, second) or nil)
    return first, second, ...
  end
  return finish(run(session, name, tool, args))
end

core.session_methods().call_tool = tools.call

return tools
