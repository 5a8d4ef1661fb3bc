-- blocks.lua: runs the fenced blocks of pages: luajit blocks.lua DIR PAGE...
--   console   lines "$ command", each with what it prints (stdout and stderr) after it; "..." alone
--             stands for any lines, "…" for any text in a line; `echo $?` tells how one ended
--   sh        run as one script; must succeed
--   lua       run by `mooncage run`; must succeed; a `text` block next is what it prints. One that
--             begins with "return {" is a configuration, with "return function" a policy; a first
--             comment "-- NAME.lua" names its file, NAME.test.lua are the tests of one above
-- A block after the comment <!-- not run: WHY --> is skipped. All run in DIR, a copy of the tree.

local directory = arg[1]
local passed, failed, skipped = 0, 0, 0

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "*a"
  file:close()
  return text
end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

local function blocks(text)
  local list, open, pending = {}, nil, nil
  local number = 0
  for line in (text .. "\n"):gmatch "(.-)\n" do
    number = number + 1
    if open then
      if line:match "^```" then
        list[#list + 1] = open
        open = nil
      else
        open.lines[#open.lines + 1] = line
      end
    else
      local language = line:match "^```(%w+)"
      if language then
        open = { language = language, line = number, lines = {}, skip = pending }
        pending = nil
      elseif line:match "^<!%-%- not run:" then
        pending = line:match "not run: (.-) *%-%->"
      elseif line ~= "" then
        pending = nil
      end
    end
  end
  return list
end

-- Runs a script of bash in the directory; returns what it wrote and its status.
local function bash(script)
  write(directory .. "/block.sh", script)
  local run = "cd '%s' && timeout 120 bash block.sh </dev/null >block.out 2>&1; echo $? >block.rc"
  os.execute(run:format(directory))
  return read(directory .. "/block.out"), tonumber(read(directory .. "/block.rc"))
end

local function split(text)
  local lines = {}
  for line in text:gmatch "([^\n]*)\n?" do lines[#lines + 1] = line end
  while lines[#lines] == "" do lines[#lines] = nil end
  return lines
end

local function line_matches(wanted, got)
  local pattern = wanted:gsub("[%^%$%(%)%%%.%[%]%*%+%-%?]", "%%%0"):gsub("…", ".-")
  return got:match("^" .. pattern .. "$") ~= nil
end

local function matches(wanted, got, i, j)
  i, j = i or 1, j or 1
  if i > #wanted then return j > #got end
  if wanted[i] == "..." then
    for from = j, #got + 1 do
      if matches(wanted, got, i + 1, from) then return true end
    end
    return false
  end
  return got[j] ~= nil and line_matches(wanted[i], got[j]) and matches(wanted, got, i + 1, j + 1)
end

local function report(what, ok, details)
  if ok then
    passed = passed + 1
    print("ok: " .. what)
  else
    failed = failed + 1
    print("FAILED: " .. what .. "\n" .. details:gsub("[^\n]+", "    %0"))
  end
end

local function show(wanted, got)
  return "shown:\n" .. table.concat(wanted, "\n") .. "\nprinted:\n" .. table.concat(got, "\n")
end

local function run_console(where, block)
  local commands = {}
  for _, line in ipairs(block.lines) do
    local command = line:match "^%$ (.*)"
    if command then
      commands[#commands + 1] = { text = command, shown = {} }
    else
      local last = commands[#commands]
      if last.text:match "\\$" then
        last.text = last.text .. "\n" .. line
      else
        table.insert(last.shown, line)
      end
    end
  end
  local script = {}
  for i, command in ipairs(commands) do
    local before = ("status=$?; echo; echo =block=%d=; (exit $status)\n"):format(i)
    script[#script + 1] = before .. command.text
  end
  local output = bash(table.concat(script, "\n") .. "\necho; echo =block=0=\n")
  for i, command in ipairs(commands) do
    local got = output:match(("=block=%d=\n(.-)\n=block="):format(i)) or ""
    local lines = split(got)
    local ok = matches(command.shown, lines)
    report(where .. " $ " .. command.text, ok, show(command.shown, lines))
  end
end

---Writes a Lua block to the file that its first comment names, and says how that is tried.
local function place_lua(block)
  local name = (block.lines[1] or ""):match "^%-%- ([%w_%.]+%.lua)" or "block.lua"
  write(("%s/%s"):format(directory, name), table.concat(block.lines, "\n") .. "\n")
  if name:match "%.test%.lua$" then return "mooncage policy test ./" .. name end
  for _, line in ipairs(block.lines) do
    if line:match "^return {" then
      return ("ACME_TOKEN=x mooncage --config %s config show"):format(name)
    elseif line:match "^return function" then
      return "mooncage policy check ./" .. name
    elseif line:match "^[^%-%s]" then
      break
    end
  end
  return "mooncage run " .. name
end

local function run_page(page)
  local list = blocks(read(page))
  for i, block in ipairs(list) do
    local where = page .. ":" .. tostring(block.line)
    if block.skip then
      skipped = skipped + 1
      print(("skip: %s: %s"):format(where, block.skip))
    elseif block.language == "console" then
      run_console(where, block)
    elseif block.language == "sh" then
      local output, code = bash("set -e\n" .. table.concat(block.lines, "\n"))
      report(where, code == 0, ("status %d\n%s"):format(code, output))
    elseif block.language == "lua" then
      local output, code = bash(place_lua(block))
      report(where, code == 0, ("status %d\n%s"):format(code, output))
      local shown = list[i + 1]
      if shown and shown.language == "text" then
        local got = split(output)
        report(where .. " prints what is shown", matches(shown.lines, got), show(shown.lines, got))
      end
    end
  end
end

for i = 2, #arg do
  local file = io.open(arg[i])
  if file then
    file:close()
    run_page(arg[i])
  end
end
print(("%d passed, %d failed, %d skipped"):format(passed, failed, skipped))
os.exit(failed == 0 and passed > 0 and 0 or 1)
