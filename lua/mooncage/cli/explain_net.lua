-- explain_net.lua: `mooncage policy explain-net HOST:PORT`: whether a sandbox may connect there, by
-- which rule, and why. Nothing is opened and nothing is looked up.
local core = require "mooncage.core"
local config_file = require "mooncage.cli.config_file"
local decide = require "mooncage.decide"
local exit = require "mooncage.cli.exit"
local mooncage = require "mooncage"
local network = require "mooncage.cli.network"
local output = require "mooncage.cli.output"
local sandbox = require "mooncage.cli.sandbox"

---The configuration: of --policy, a file that returns one or only its network; else the usual one.
---@return table? config, table? err, string? path
local function config_of(flags)
  local path = flags.policy
  if not path then return sandbox.config(flags) end
  if flags.config then
    return nil, core.error("invalid", "--policy and --config are both given", "leave one out")
  end
  local loaded, err = config_file.load(path, mooncage, "policy")
  if not loaded then return nil, err end
  if loaded.network == nil then loaded = { network = loaded } end
  local config = {}
  for key, value in pairs(loaded) do config[key] = value end
  if flags.tenant then config.tenant = flags.tenant end
  local ok, wrong = network.add(config, flags)
  if not ok then return nil, wrong end
  return config, nil, path
end

---What a tenant makes of the network; of its other overrides nothing is asked here.
---@return table? overrides, table? err
local function overrides_of(config)
  local data = {}
  for key, value in pairs(config) do data[key] = value end
  local plain, functions = decide.split(data, 1)
  if not functions.tenants then return {} end
  local key = plain.tenant and require("mooncage.cli.system").sha256(plain.tenant):sub(1, 32)
  local ok, answer = pcall(decide.answerers.tenant, functions,
    { tenant = plain.tenant or core.null, key = key or core.null })
  if not ok then return nil, core.error("command_denied", "tenants: " .. answer.message,
    answer.fix or "correct the function") end
  if not answer.overrides then
    return nil, core.error("command_denied", "tenants: " .. (answer.denied or "it gave no reason"),
      "name another tenant with --tenant, or change the configuration's `tenants`")
  end
  return { network = answer.overrides.network }
end

local function print_answer(answer)
  local target = answer.target
  output.say("%s: %s\n",
    answer.allowed and output.colored("green", "allowed") or output.colored("red", "denied"),
    answer.reason)
  if answer.index then
    output.say("rule:    %s (%s[%d])\n", answer.rule, answer.by, answer.index)
  end
  if answer.sni then output.say "sni:     TLS must name the same host\n" end
  if answer.terminate_tls then
    output.say("tls:     ends at the engine%s\n",
      answer.headers and ", which sets " .. table.concat(answer.headers, ", ") or "")
  end
  if answer.allowed and target.name and not target.address and answer.by ~= "host" then
    output.note "its addresses are judged when it connects; ask about one with --address"
  end
end

---@param line mooncage.cli.Line
---@return integer? status, table? err
return function(line)
  local flags = line.flags
  local config, err, path = config_of(flags)
  if not config then return nil, err end
  local overrides, refused = overrides_of(config)
  if not overrides then return nil, refused end
  local request = {
    config = { network = config.network }, tenant = config.tenant,
    overrides = overrides.network ~= nil and overrides or nil,
    target = line.words[1], address = flags.address,
  }
  local ok, answer, why = pcall(core.explain_net, request)
  if not ok then answer, why = nil, core.error("invalid", "network: " .. tostring(answer),
    "see docs/network.md for what a policy holds") end
  if not answer then return nil, sandbox.locate(why, path, flags) end
  if not output.is_json() then
    print_answer(answer)
  elseif not output.document(answer) then
    return exit.FAILED
  end
  return answer.allowed and exit.OK or exit.DENIED
end
