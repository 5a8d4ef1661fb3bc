-- network.lua: the flags that say what of the network may be reached, put over a configuration's.
local network = {}

---A copy of `list` with the words after it; what is no list is the engine's to refuse.
local function joined(list, words)
  if list ~= nil and type(list) ~= "table" then return list end
  local all = {}
  for _, rule in ipairs(list or {}) do all[#all + 1] = rule end
  for _, word in ipairs(words) do all[#all + 1] = word end
  return all
end

---Sets config.network from --network, --allow and --deny; rules are added to those that are there.
---@param config table
---@param flags table
---@return true? ok, mooncage.Error? err
function network.add(config, flags)
  if flags.network then config.network = flags.network end
  local with = flags.allow and "--allow" or flags.deny and "--deny"
  if not with then return true end
  if flags.network == "none" or flags.network == "host" then
    return nil, {
      code = "invalid",
      message = ("%s does not go with --network %s"):format(with, flags.network),
      fix = flags.network == "none" and "leave --network out"
        or ("leave %s out: the host's network has no rules"):format(with),
    }
  end
  local given, rules = config.network, { default = "deny" }
  flags.network_before = given
  flags.rules_before = {}
  if given == "open" then rules.default = "allow" end
  if type(given) == "table" then
    for key, value in pairs(given) do rules[key] = value end
  end
  for _, key in ipairs { "allow", "deny" } do
    flags.rules_before[key] = type(rules[key]) == "table" and #rules[key] or 0
    if flags[key] then rules[key] = joined(rules[key], flags[key]) end
  end
  config.network = rules
  return true
end

---Where a key of the network came from that --allow and --deny have been put over: the flag alone,
---the file (nothing) and what the flag has added to it, or what holds by default.
---@return string? flag, string? added, boolean? default
function network.origin(key, flags)
  local with = flags[key] and key or flags.allow and "allow" or flags.deny and "deny"
  if not with or not flags.rules_before then return nil end
  local before = flags.network_before
  if before == nil then return "--" .. with end
  if flags[key] then
    if flags.rules_before[key] > 0 then return nil, "--" .. key end
    return "--" .. key
  end
  local is_default = key == "default" and type(before) == "table" and before.default == nil
  return nil, nil, is_default
end

---An error about a rule that a flag gave, in words of that flag.
---@param err mooncage.Error
---@param flags table as they were given to network.add
---@return boolean was_one
function network.locate(err, flags)
  local key, index, text = err.message:gsub("^configuration: ", "")
    :match "^network%.(%l+)%[(%d+)%]: (.*)$"
  if not key or not flags[key] or not flags.rules_before then return false end
  if tonumber(index) <= flags.rules_before[key] then return false end
  err.message = ("--%s: %s"):format(key, text)
  return true
end

return network
