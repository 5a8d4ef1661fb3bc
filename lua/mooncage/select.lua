-- select.lua: candidates for selectors: read-only facts, and what a selector's answer means. The
-- matching itself is the engine's (core.rank).
local core = require "mooncage.core"

local select = {}

local function read_only(_, key)
  error(("a candidate is read-only: '%s' cannot be set"):format(tostring(key)), 2)
end

---A candidate whose own fields cannot be set. What is in its tables is this call's copy.
---@param facts table
function select.candidate(facts)
  facts.satisfies = core.satisfies
  return setmetatable({}, {
    __index = facts,
    __newindex = read_only,
    __metatable = "a candidate",
    ["mooncage.candidate"] = true,
  })
end

return select
