-- sandbox.lua: what a session is to be, from the configuration file and the sandbox flags, and the
-- steps round a command: copies in, copies out, the changes of a project.
local core = require "mooncage.core"
local ask = require "mooncage.cli.ask"
local config_file = require "mooncage.cli.config_file"
local mooncage = require "mooncage"
local network = require "mooncage.cli.network"
local output = require "mooncage.cli.output"
local system = require "mooncage.cli.system"
local values = require "mooncage.cli.values"

local sandbox = {}

-- Flags that are one limit: the key of config.limits, and the unit it is in.
local LIMITS = {
  memory = { key = "memory_mb", unit = 2 ^ 20 },
  disk = { key = "disk_mb", unit = 2 ^ 20 },
  cpus = { key = "cpu_count", unit = 1 },
  pids = { key = "pid_limit", unit = 1 },
  timeout = { key = "exec_s", unit = 1 },
  wall = { key = "wall_s", unit = 1 },
}

local function shallow(from)
  local to = {}
  for key, value in pairs(from or {}) do to[key] = value end
  return to
end

---Where the configuration is; a local one that is not used is spoken of.
---@return mooncage.cli.Source
function sandbox.say_ignored(flags)
  local source = config_file.find(flags.config)
  if source.ignored and not output.is_json() then output.note(source.ignored) end
  return source
end

---A configuration has names, and no items: flags are put over it by name.
local function check_shape(config, path)
  for key in pairs(config) do
    if type(key) ~= "string" then
      return nil, core.error("invalid", ("%s: expected a table of names, found an item [%s]")
        :format(path, tostring(key)), "write NAME = VALUE; see docs/config.md for the names")
    end
  end
  return config
end

---Reads the configuration file, where there is one.
---@return table? config, table? err, string? path, boolean? trusted it is one of a directory
local function from_file(flags)
  local source = sandbox.say_ignored(flags)
  if not source.path then return {} end
  local config, err = config_file.load(source.path, mooncage, nil, source.text)
  if config then config, err = check_shape(config, source.path) end
  return config, err, source.path, source.text ~= nil
end

---What the variables of --env-file and --env come to, the later over the earlier.
---@return table<string, string>? environment, table? err
function sandbox.environment(flags, base)
  local environment = shallow(base)
  for _, path in ipairs(flags["env-file"] or {}) do
    local found, why = values.environment_file(path)
    if not found then
      return nil, { code = "invalid", message = why, fix = "correct the file, or leave it out" }
    end
    for name, value in pairs(found) do environment[name] = value end
  end
  for _, pair in ipairs(flags.env or {}) do environment[pair.name] = pair.value end
  return environment
end

---The options of --option; one that is given more than once is a list.
local function add_options(options, flags)
  local seen = {}
  for _, option in ipairs(flags.option or {}) do
    local value = option.value
    if option.source == "plain" then
      if value == "true" or value == "false" then
        value = value == "true"
      elseif value:match "^%d+$" and #value <= 15 then
        value = tonumber(value)
      end
    else
      value = mooncage.secret(value)
    end
    if seen[option.name] == nil then
      options[option.name] = value
    elseif seen[option.name] == 1 then
      options[option.name] = { options[option.name], value }
    else
      table.insert(options[option.name], value)
    end
    seen[option.name] = (seen[option.name] or 0) + 1
  end
  return options
end

local function add_binds(options, flags)
  if not flags.bind then return end
  local binds = {}
  for _, bind in ipairs(options.binds or {}) do binds[#binds + 1] = bind end
  for _, bind in ipairs(flags.bind) do
    binds[#binds + 1] = {
      source = assert(system.absolute(bind.source)),
      target = bind.target,
      writable = bind.writable,
    }
  end
  options.binds = binds
end

---The candidate: the flags' backend, else the file's, else the jail; with the flags that are
---options of a backend on top.
local function set_backend(config, flags)
  if flags.backend then
    config.backend, config.candidates = { id = flags.backend }, nil
  end
  if not flags.option and not flags.bind then return true end
  local list = type(config.candidates) == "table" and config.candidates or {}
  if #list > 1 then
    return nil, {
      code = "invalid",
      message = ("%s goes with one backend, and the configuration has %d candidates"):format(
        flags.option and "--option" or "--bind", #list),
      fix = "say which with --backend ID, or set it in the configuration",
    }
  end
  local only = #list == 1 and list[1]
  local given = config.backend or only
  flags.backend_before = not flags.backend and given and true or nil
  local candidate = type(given) == "string" and { id = given } or shallow(given or { id = "jail" })
  candidate.options = add_options(shallow(candidate.options), flags)
  add_binds(candidate.options, flags)
  config.backend, config.candidates = candidate, nil
  return true
end

---Puts limits over those that are there; what is no table is the engine's to refuse.
local function set_limits(config, flags)
  if type(config.limits or {}) ~= "table" then return end
  local limits = shallow(config.limits)
  for name, limit in pairs(LIMITS) do
    if flags[name] then limits[limit.key] = flags[name] / limit.unit end
  end
  if next(limits) ~= nil then config.limits = limits end
end

---The store keeps the configuration's key. What is no table is the engine's to refuse.
local function set_snapshot(config, flags)
  if flags.store and type(config.snapshot_store or {}) == "table" then
    local store = shallow(config.snapshot_store)
    store.type, store.dir = "file", assert(system.absolute(flags.store))
    config.snapshot_store = store
  end
  if flags.snapshot and type(config.snapshot or {}) == "table" then
    config.snapshot = shallow(config.snapshot)
    config.snapshot.id = flags.snapshot
  end
end

---The log goes elsewhere; what else the configuration says of it, its key say, and its other sinks
---stay. What is no sink is the engine's to refuse.
local function set_audit(config, flags)
  if not flags.audit then return end
  local function moved(sink)
    sink = shallow(sink)
    sink.type, sink.path = "jsonl", assert(system.absolute(flags.audit))
    sink.dir, sink.own = nil, nil -- which go with a directory
    return sink
  end
  local given = config.audit
  if type(given) ~= "table" or given.type == "jsonl" or next(given) == nil then
    config.audit = moved(type(given) == "table" and given or nil)
    return
  end
  local sinks, found = core.array {}, false
  for _, sink in ipairs(given.type == nil and given or { given }) do
    local is_log = type(sink) == "table" and sink.type == "jsonl"
    sinks[#sinks + 1] = is_log and not found and moved(sink) or sink
    found = found or is_log
  end
  if not found then table.insert(sinks, 1, moved(nil)) end
  config.audit = sinks
end

-- The file that the manifest was read from, for errors about it.
local manifest_file

---The manifest: a table, or a Lua file that returns one. That of a trusted configuration must be
---trusted, too.
local function set_manifest(config, flags, trusted)
  local manifest = flags.manifest or config.manifest
  if type(manifest) ~= "string" then return true end
  local look = trusted and not flags.manifest and require("mooncage.cli.trust").must_hold or nil
  local loaded, err = config_file.load(manifest, mooncage, "manifest", nil, look)
  if not loaded then return nil, err end
  config.manifest, manifest_file = loaded, manifest
  return true
end

---What sessions start from: the configuration file with the flags over it.
---@param flags table
---@return table? config, table? err, string? path of the configuration file
function sandbox.config(flags)
  local file, problem, path, trusted = from_file(flags)
  if not file then return nil, problem end
  local config = shallow(file)
  local placed, misplaced = set_backend(config, flags)
  if not placed then return nil, misplaced end
  set_limits(config, flags)
  local reach, unclear = network.add(config, flags)
  if not reach then return nil, unclear end
  if (flags.env or flags["env-file"]) and type(config.environment or {}) == "table" then
    local environment, err = sandbox.environment(flags, config.environment)
    if not environment then return nil, err end
    config.environment = environment
  end
  local ok, wrong = set_manifest(config, flags, trusted)
  if not ok then return nil, wrong end
  if flags.workdir then config.working_directory = flags.workdir end
  if flags.project then config.project = assert(system.absolute(flags.project)) end
  set_snapshot(config, flags)
  if flags.tenant then config.tenant = flags.tenant end
  set_audit(config, flags)
  if flags["best-effort"] then config.enforcement = "best_effort" end
  if config.on_ask == nil then config.on_ask = ask.at_terminal(flags) end
  local good, misuse = mooncage._check(config)
  if not good then return nil, sandbox.locate(misuse, path, flags) end
  return config, nil, path
end

---What of the configuration stands by a session that is there: its guardrail, hooks and tools.
---@return table? config, table? err
function sandbox.standing(flags)
  local config, err = from_file(flags)
  if not config then return nil, err end
  config = shallow(config)
  if config.on_ask == nil then config.on_ask = ask.at_terminal(flags) end
  return config
end

-- Flags that are a key of their own.
local KEYS = {
  backend = "backend", option = "options", bind = "binds", network = "network",
  env = "environment", ["env-file"] = "environment", workdir = "working_directory",
  project = "project", manifest = "manifest", tenant = "tenant", audit = "audit",
  ["best-effort"] = "enforcement", address = "address", snapshot = "snapshot",
  store = "snapshot_store",
}

---Which flag set a key: so that an error names what the user wrote.
function sandbox.flags_of_keys(flags)
  local names = {}
  for flag, limit in pairs(LIMITS) do
    if flags[flag] then names[limit.key] = "--" .. flag end
  end
  for flag, key in pairs(KEYS) do
    if flags[flag] then names[key] = "--" .. flag end
  end
  return names
end

---The flag that set a variable, and whether its value is our own environment's; nil: the file.
---@return string? flag, boolean? taken
function sandbox.flag_of_variable(flags, name)
  for _, pair in ipairs(flags.env or {}) do
    if pair.name == name then return "--env", pair.taken end
  end
  for _, path in ipairs(flags["env-file"] or {}) do
    local found = values.environment_file(path)
    if found and found[name] then return "--env-file" end
  end
end

---What a configuration comes to, without opening anything.
---@return table? resolved, table? err
function sandbox.resolve(config)
  return mooncage._resolve(config)
end

---Usage errors among the flags of --project.
function sandbox.check(flags)
  for _, name in ipairs { "diff", "apply", "apply-git" } do
    if flags[name] and not flags.project then
      return nil, {
        code = "invalid",
        message = ("--%s needs --project"):format(name),
        fix = "say which directory: --project DIR",
      }
    end
  end
  if flags["apply-git"] and not flags.apply then
    return nil, {
      code = "invalid",
      message = "--apply-git needs --apply",
      fix = "add --apply",
    }
  end
  return true
end

-- What the engine advises in words of the configuration, in words of the command line.
local ADVICE = {
  { 'set enforcement = "best_effort" (--best-effort)', "say --best-effort" },
  { 'set enforcement = "best_effort"', "say --best-effort" },
  { 'network = "none"', "--network none" },
  { 'network = "host"', "--network host" },
}

---Says where an error about a key came from, and what to do about it here.
function sandbox.locate(err, path, flags)
  for _, advice in ipairs(ADVICE) do
    local from, to = (err.fix or ""):find(advice[1], 1, true)
    if from then err.fix = err.fix:sub(1, from - 1) .. advice[2] .. err.fix:sub(to + 1) end
  end
  if network.locate(err, flags) then return err end
  local of_manifest = manifest_file and err.message:gsub("^configuration: ", "")
    :match "^manifest[%.%[](.*)$"
  if of_manifest then
    err.message = of_manifest
    return config_file.locate(err, manifest_file, {})
  end
  return config_file.locate(err, path, sandbox.flags_of_keys(flags))
end

---Opens a session as the file and the flags say.
---@param flags table
---@param limits table? for what neither says
---@return mooncage.Session? session, table? err
function sandbox.open(flags, limits)
  local ok, problem = sandbox.check(flags)
  if not ok then return nil, problem end
  local config, failure, path = sandbox.config(flags)
  if not config then return nil, failure end
  if limits and type(config.limits or {}) == "table" then
    local merged = shallow(limits)
    for key, value in pairs(config.limits or {}) do merged[key] = value end
    config.limits = merged
  end
  local session, err = mooncage.open(config)
  if not session then return nil, sandbox.locate(err, path, flags) end
  return session
end

---Closes what a command ran in. What failed, also a step round the command, makes no snapshot.
---@param result mooncage.Result? of the command, where nothing else failed
---@return true?, table? err
function sandbox.close(session, result)
  if not (result and result.ok) then session:unsuccessful() end
  return session:close()
end

---The last part of a path: "a/b/" -> "b".
function sandbox.base_name(path)
  return path:gsub("/+$", ""):match "([^/]+)$" or path
end

---@return true?, table? err
function sandbox.copy_in(session, flags)
  for _, copy in ipairs(flags["copy-in"] or {}) do
    local to = copy.to or sandbox.base_name(copy.from)
    local above = to:match "^(.+)/[^/]+/*$"
    local ok, err = true, nil
    if above then ok, err = session:mkdir(above) end
    if ok then ok, err = session:upload(copy.from, to) end
    if not ok then return nil, err end
  end
  return true
end

---@return true?, table? err
function sandbox.copy_out(session, flags)
  for _, copy in ipairs(flags["copy-out"] or {}) do
    local ok, err = session:download(copy.from, copy.to or sandbox.base_name(copy.from))
    if not ok then return nil, err end
  end
  return true
end

local exposed = setmetatable({}, { __mode = "k" }) -- session -> what of it the host can reach

---Opens the ports of --expose to the host.
---@return table? list of { port, url }, table? err
function sandbox.expose(session, flags)
  local list = core.array {}
  for i, wanted in ipairs(flags.expose or {}) do
    local url, err = session:expose(wanted.port, { host_port = wanted.host_port })
    if not url then return nil, err end
    list[i] = { port = wanted.port, url = url }
  end
  if #list > 0 then exposed[session] = list end
  return list
end

---Says where they are.
function sandbox.say_exposed(list)
  for _, one in ipairs(list or {}) do
    output.note(("port %d of the sandbox: %s"):format(one.port, one.url))
  end
end

---Facts about a session that go with a result into --json.
function sandbox.facts(session)
  return {
    id = session.id, backend = session.backend, enforcement = session.enforcement,
    exposed = exposed[session],
  }
end

---The A/M/D list and the unified diff of a project, for people. A name takes one line.
local function print_changes(report)
  for _, change in ipairs(report.changes) do
    output.show(("%s %s\n"):format(change.op, (change.path:gsub("\n", "\\n"))))
  end
  if report.diff and report.diff ~= "" then output.show(report.diff) end
end

---After the command: shows and writes back what changed, as the flags ask. Applying closes the
---session.
---@param ok boolean did the command succeed? A failed one's changes are not written
---@return table? report for --json, table? err
function sandbox.project(session, flags, ok)
  local report = {}
  if flags.diff then
    local found, err = session:diff()
    if not found then return nil, err end
    report.changes, report.diff = found.changes, found.diff
    if not output.is_json() then print_changes(found) end
  end
  if flags.apply then
    if not ok then
      output.warn(("the command failed: nothing was written to %s"):format(flags.project))
      report.applied = core.array {}
    else
      local applied, err = session:apply { git = flags["apply-git"] or false }
      if not applied then return nil, err end
      report.applied = applied.applied
      if not output.is_json() then
        local count = #applied.applied
        output.note(("%d change%s written to %s"):format(count, count == 1 and "" or "s",
          flags.project))
      end
    end
  end
  return report
end

return sandbox
