-- selector.lua: several candidates, and ten lines that choose among them: what is only looked at
-- stays in a plain sandbox, what builds gets the one with more memory. Nothing is opened to ask.
-- Run it: mooncage run examples/selector.lua
local mooncage = require "mooncage"

local function selector(candidates, requirements, context)
  local kind = context.labels and context.labels.kind or "triage"
  for _, candidate in ipairs(candidates) do
    local tag = candidate.tags[1]
    if tag == kind and candidate:satisfies(requirements) then return candidate, "for " .. tag end
  end
  return (mooncage.rank(candidates, requirements))
end

local config = {
  candidates = {
    mooncage.subprocess { name = "bare" },
    mooncage.jail { name = "small", tags = { "triage" }, profile = "strict" },
    mooncage.jail { name = "large", tags = { "build" } },
  },
  selector = selector,
  requirements = { min_isolation = "namespace" },
}

for _, kind in ipairs { "triage", "build", "other" } do
  config.labels = { kind = kind }
  local candidate, explanation = assert(mooncage.select(config))
  print(("%-7s goes to %s (%s)"):format(kind, candidate.name, explanation.why or "by price"))
end

local _, explanation = assert(mooncage.select(config))
for _, entry in ipairs(explanation) do print(" ", entry.name, entry.reason) end

print(assert(mooncage.with(config, function(session)
  return session.name .. " says " .. assert(session:exec "echo hello").stdout
end)))
