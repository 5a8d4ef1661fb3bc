-- network.lua: the flags that say what of the network may be reached, put over a configuration's.
local network = {}

---A copy of `list` with the words after it.
local function joined(list, words)
  local all = {}
  for _, rule in ipairs(type(list) == "table" and list or {}) do all[#all + 1] = rule end
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
  local given, rules = config.network, {}
  if given == "open" then rules.default = "allow" end
  for key, value in pairs(type(given) == "table" and given or {}) do rules[key] = value end
  if flags.allow then rules.allow = joined(rules.allow, flags.allow) end
  if flags.deny then rules.deny = joined(rules.deny, flags.deny) end
  config.network = rules
  return true
end

return network
