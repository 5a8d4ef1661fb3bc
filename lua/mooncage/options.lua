-- options.lua: judging a table of options: unknown names, with the nearest that there is, and wrong
-- types, blamed on whoever called the function that was given it.
local core = require "mooncage.core"

local function names_of(known)
  local names = {}
  for name in pairs(known) do names[#names + 1] = name end
  table.sort(names)
  return names
end

---`known`: the type of each; "secret" takes a string or what mooncage.secret made, "any" anything.
---@param what string "audit.jsonl"
---@param options any
---@param known table<string, string>
return function(what, options, known)
  if type(options) ~= "table" then
    error(("mooncage: %s: options must be a table, not a %s"):format(what, type(options)), 3)
  end
  for key, value in pairs(options) do
    local wanted, given = known[key], type(value)
    if not wanted then
      local near = type(key) == "string" and core.nearest(key, names_of(known))
      error(("mooncage: %s: unknown option '%s'%s"):format(what, tostring(key),
        near and (" (did you mean '%s'?)"):format(near) or ""), 3)
    end
    if wanted == "secret" then wanted = given == "userdata" and given or "string" end
    if wanted ~= "any" and given ~= wanted then
      error(("mooncage: %s: option '%s' must be a %s, not a %s"):format(what, key, wanted, given),
        3)
    end
  end
end
