-- stranger.lua: policies that nobody vouches for: mooncage.policy(name, { untrusted = true }). The
-- text is never loaded here. The engine starts a process for it, in a jail (see
-- engine/decide/stranger.c), and it is asked there. What comes back is plain data, and may only
-- narrow: it says no, asks a person, warns, chooses among what fits; it neither changes a command
-- nor names a file, a variable or a credential.
local core = require "mooncage.core"

local stranger = {}

-- The handle of each function that stands for one.
local handles = setmetatable({}, { __mode = "k" })

local function no(code, message, fix)
  error(core.error(code, message, fix), 0)
end

---Does the function stand for a stranger's policy?
function stranger.is(fn)
  return handles[fn] ~= nil
end

---What the engine's questions are counted by: see lua/bind/stranger.c.
function stranger.handle(fn)
  return handles[fn]
end

---A function that stands for the policy. It cannot be called: the engine asks.
---@param source string
---@param path string
---@param options table?
---@param check boolean? it is only asked whether it is one
---@return function
function stranger.make(source, path, options, check)
  if options ~= nil and type(options) ~= "table" then
    no("invalid", ("%s: its options must be a table, not a %s"):format(path, type(options)),
      "give them as { OPTION = VALUE }")
  end
  if source:sub(1, 1) == "\27" then
    no("invalid", path .. ": is bytecode, not Lua text", "give the source text of the file")
  end
  local plain, text = pcall(core.encode, options or {})
  if not plain then
    no("invalid", ("%s: its options must be plain data: %s"):format(path,
      text:match "options%S*: .*$" or text:match "value%S*: .*$" or text),
      "an untrusted policy takes texts, numbers, true and false, and tables of these")
  end
  local handle = core.stranger(core.encode {
    name = path, source = source, options = options or {}, check = check,
  })
  local function decision()
    no("unsupported", path .. ": an untrusted policy is asked by the engine, in its own process",
      "give it as guardrail, selector or tenants, not to another function or policy")
  end
  handles[decision] = handle
  return decision
end

---Asks, and waits. The answer, or it throws.
local function ask(fn, apart, question)
  local answer, err = core.stranger_ask(handles[fn], apart, core.encode(question))
  if answer == nil then error(err, 0) end
  return answer
end

---Does the text make a policy? { says = what it threw without options } where it needs some.
---@param source string
---@param path string
function stranger.check(source, path)
  local fn = stranger.make(source, path, nil, true)
  local answer = ask(fn, nil, { kind = "check" })
  core.stranger_rest(handles[fn])
  return answer
end

---Nothing more will be asked of it.
function stranger.rest(fn)
  core.stranger_rest(handles[fn])
end

---May the command run? As verdict.of says it.
function stranger.guardrail(fn, tenant, command, context)
  local answer = ask(fn, tenant, { kind = "guardrail", command = command, context = context })
  if answer.rewrite == nil then return answer end
  return { allow = false, rule = answer.rule,
    reason = "it wants to run something else, which an untrusted policy may not" }
end

---Which candidates, in order? As select.ask says it.
function stranger.select(fn, tenant, asked, context)
  return ask(fn, tenant, { kind = "selector", candidates = asked.candidates,
    numbers = asked.numbers, requirements = asked.requirements, context = context })
end

-- What it may say of a tenant: numbers, words and names that the engine holds against the
-- configuration. The rest would reach beyond: files of the host, variables, credentials.
local MAY = {
  limits = true, network = true, requirements = true, enforcement = true, allowed_tools = true,
  labels = true, quota = true, candidates = true,
}

local function check_overrides(overrides)
  if type(overrides) ~= "table" then return end
  for key, value in pairs(overrides) do
    if not MAY[key] then
      no("invalid", ("tenants: an untrusted policy cannot set '%s'"):format(tostring(key)),
        "let it set limits, network, requirements, enforcement, allowed_tools, labels, quota, or "
          .. "choose candidates by name")
    end
    if key == "candidates" and type(value) == "table" then
      for _, each in pairs(value) do
        if type(each) ~= "string" then
          no("invalid", "tenants: an untrusted policy cannot bring candidates of its own",
            "let it name those of the configuration")
        end
      end
    end
  end
end

---What does the tenant get? As verdict.tenant says it.
function stranger.tenant(fn, tenant, config, context)
  local answer = ask(fn, tenant, { kind = "tenant", tenant = tenant, config = config,
    context = context })
  check_overrides(answer.overrides)
  return answer
end

return stranger
