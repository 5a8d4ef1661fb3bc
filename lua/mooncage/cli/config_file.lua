-- config_file.lua: finds and reads the configuration, a Lua file that returns a table. It is the
-- operator's code: it runs as ordinary Lua, and text only, no bytecode. What its keys mean is the
-- engine's to judge; here an error is given the line it stands on.

local config_file = {}

local MOST = 1024 * 1024 -- bytes of a configuration

local function invalid(message, fix)
  return nil, { code = "invalid", message = message, fix = fix }
end

local function exists(path)
  local file = io.open(path, "rb")
  if file then file:close() end
  return file ~= nil
end

local function home_config()
  local base = os.getenv "XDG_CONFIG_HOME"
  if base and base:sub(1, 1) == "/" then return base .. "/mooncage/config.lua" end
  local home = os.getenv "HOME"
  if home and home ~= "" then return home .. "/.config/mooncage/config.lua" end
end

---@class mooncage.cli.Source
---@field path string? nil: there is no configuration
---@field text string? what was trusted: read once, so that it is what runs
---@field ignored string? why the mooncage.lua that lies here is not used

---Where the configuration is: what was asked for, else the first that is there.
---@param asked string? of --config
---@return mooncage.cli.Source
function config_file.find(asked)
  if asked then return { path = asked } end
  local named = os.getenv "MOONCAGE_CONFIG"
  if named and named ~= "" then return { path = named } end
  local found = {}
  if require("mooncage.cli.system").is_file "mooncage.lua" then
    local text, why = require("mooncage.cli.trust").read "mooncage.lua"
    if text then return { path = "mooncage.lua", text = text } end
    found.ignored = why
  end
  local home = home_config()
  if home and exists(home) then
    found.path = home
  elseif exists "/etc/mooncage/config.lua" then
    found.path = "/etc/mooncage/config.lua"
  end
  return found
end

---What a configuration sees beside ordinary Lua.
local function environment(path, mooncage)
  local function fail(message, fix)
    error({ code = "not_found", message = ("%s: %s"):format(path, message), fix = fix }, 0)
  end
  local extra = { mooncage = mooncage }
  function extra.secret(name)
    if type(name) ~= "string" then
      fail("secret needs the name of an environment variable", 'write secret "NAME"')
    end
    local value = os.getenv(name)
    if not value then
      fail(("secret %q: no such variable in the environment"):format(name),
        ("set it: export %s=..."):format(name))
    end
    return mooncage.secret(value)
  end
  function extra.secret_file(file_name)
    if type(file_name) ~= "string" then
      fail("secret_file needs a path", 'write secret_file "PATH"')
    end
    local file, why = io.open(file_name, "rb")
    if not file then fail("secret_file: " .. why, "name a file that you can read") end
    local text = file:read "*a"
    file:close()
    if not text then
      fail(("secret_file: cannot read %s"):format(file_name), "name a file, no directory")
    end
    return mooncage.secret((text:gsub("\r?\n$", "")))
  end
  return setmetatable(extra, { __index = _G })
end

---The line of a file that is being run, seen from what it called.
local function line_in(path)
  for level = 2, 50 do
    local about = debug.getinfo(level, "Sl")
    if not about then return nil end
    if about.source == "@" .. path then return about.currentline end
  end
end

---What a file threw, as an error: ours name the place that called what threw them.
local function thrown_error(path, line, thrown)
  local place = line and ("%s:%d: "):format(path, line) or path .. ": "
  if type(thrown) == "table" and type(thrown.message) == "string" then
    local message = thrown.message
    if message:sub(1, #path + 1) == path .. ":" then message = message:sub(#path + 3) end
    local code = thrown.code or "invalid"
    if code == "not_found" then code = "invalid" end -- what the file names: the file is wrong
    return { code = code, message = place .. message, fix = thrown.fix }
  end
  return {
    code = "invalid",
    message = type(thrown) == "string" and thrown
      or ("%sthrew an error of type %s"):format(place, type(thrown)),
    fix = "the file threw this; correct it there",
  }
end

---Lua's messages begin with the place: "@path:3: what". Ours name the path once.
local function load_text(path, text, mooncage, look)
  if text:sub(1, 1) == "\27" then
    return invalid(path .. ": is bytecode, not Lua text", "give the source text of the file")
  end
  text = text:gsub("^#[^\n]*", "")
  local chunk, why = load(text, "@" .. path, "t", environment(path, mooncage))
  if not chunk then return invalid(why, "correct the Lua text there") end
  local line
  local ok, value = require("mooncage.policy").guarded(look, xpcall, chunk, function(thrown)
    line = line_in(path)
    return thrown
  end)
  if not ok then return nil, thrown_error(path, line, value) end
  if type(value) ~= "table" then
    return invalid(("%s: returns %s, not a table"):format(path, type(value)),
      "end the file with: return { ... }")
  end
  return value
end

---@param path string
---@param mooncage table the module, as the file sees it
---@param what string? what the file is; "configuration"
---@param text string? of the file, where it was read already, and is trusted
---@param look fun(path: string, text: string)? throws where the text is not to be run
---@return table? config, table? err
function config_file.load(path, mooncage, what, text, look)
  if text then -- it holds for its bytes: what else it loads must, too
    return load_text(path, text, mooncage, require("mooncage.cli.trust").must_hold)
  end
  local why, there
  text, why, there = require("mooncage.cli.system").read_file(path, MOST, "operator")
  if text then
    local ok, refused = true, nil
    if look then ok, refused = pcall(look, path, text) end
    if not ok then return nil, refused end
    return load_text(path, text, mooncage)
  end
  if there then
    return invalid(("the %s: %s"):format(what or "configuration", why),
      "name an ordinary file of yours that nobody else can write (chmod go-w)")
  end
  return nil, {
    code = "not_found",
    message = ("cannot read the %s: %s"):format(what or "configuration",
      (why:gsub("^cannot read ", ""))),
    fix = what and "name a file that is there"
      or "name a file that is there with --config or MOONCAGE_CONFIG",
  }
end

---The lines of the keys of a file; nil when it cannot be read.
---@param path string
---@return mooncage.cli.Lines?
function config_file.lines(path)
  local file = io.open(path, "rb")
  local text = file and file:read "*a"
  if file then file:close() end
  return text and require("mooncage.cli.lines").of(text)
end

---The flag that set the innermost part of a key's path that a flag did set, and what of the path
---comes after it: "backend.options.rootfs" -> "--option", "rootfs".
local function flag_of(where, flags_of)
  local flag, after
  for name, rest in where:gmatch "([%w_]+)[%[%]%d]*()" do
    if flags_of[name] then
      flag, after = flags_of[name], where:sub(rest):gsub("^%.", "")
    end
  end
  return flag, after
end

---Gives an error about a key, "limits.memory_mb: what is wrong", the place the key came from: the
---flag that set it, or the line of the file.
---@param err mooncage.Error
---@param path string? of the configuration file
---@param flags_of table<string, string> key -> the flag that set it
function config_file.locate(err, path, flags_of)
  local said = err.message:gsub("^configuration: ", "")
  local where, text = said:match "^([%a_][%w_]*[%.%[][^:]-): (.*)$"
  if not where then where, text = said:match "^([%a_][%w_]*): (.*)$" end
  if not where then -- "hooks.x must be a function": what the module itself says of a key
    where, text = said:match "^([%l_][%w_%.]*) (must be .*)$"
  end
  if not where then return err end
  local flag, inner = flag_of(where, flags_of)
  if flag then
    err.message = ("%s%s: %s"):format(flag, inner ~= "" and " " .. inner or "", text)
  elseif path and (err.code == "invalid" or said:match "^candidates: ") then
    local keys = config_file.lines(path)
    local line = keys and keys:find(require("mooncage.cli.lines").path(where))
    err.message = line and ("%s:%d: %s"):format(path, line, said) or ("%s: %s"):format(path, said)
  else
    err.message = said
  end
  return err
end

return config_file
