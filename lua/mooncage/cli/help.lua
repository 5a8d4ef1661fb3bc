-- help.lua: --help from the table.
local spec = require "mooncage.cli.table"

local help = {}
local WIDTH = 80

---Breaks text into lines of at most `width`.
function help.wrap(text, width)
  local lines, line = {}, ""
  for word in text:gmatch "%S+" do
    if line ~= "" and #line + 1 + #word > width then
      lines[#lines + 1], line = line, word
    else
      line = line == "" and word or line .. " " .. word
    end
  end
  lines[#lines + 1] = line
  return lines
end

---Pairs of a term and its explanation, in two columns.
local function columns(out, rows, left)
  for _, row in ipairs(rows) do
    local lines = help.wrap(row[2], WIDTH - left)
    local term = "  " .. row[1]
    if #term > left - 2 then
      out[#out + 1] = term
      term = ""
    end
    for i, line in ipairs(lines) do
      local lead = i == 1 and term or ""
      out[#out + 1] = (lead .. (" "):rep(left - #lead) .. line):gsub("%s+$", "")
    end
  end
end

---"-e, --eval CODE"
function help.flag_term(flag)
  local short = flag.short and ("-%s, "):format(flag.short) or "    "
  local value = flag.value and " " .. flag.value or ""
  return short .. "--" .. flag.name .. value
end

function help.flag_text(flag)
  return flag.help .. (flag.many and " May be given more than once." or "")
end

local function flag_rows(list)
  local rows = {}
  for _, flag in ipairs(list) do
    rows[#rows + 1] = { help.flag_term(flag), help.flag_text(flag) }
  end
  return rows
end

local function own_flags(command)
  local own = {}
  for _, group in ipairs(command.flags) do
    for _, flag in ipairs(group) do own[#own + 1] = flag end
  end
  return own
end

local function add(out, ...)
  for i = 1, select("#", ...) do out[#out + 1] = (select(i, ...)) end
end

local function add_examples(out, examples)
  if #examples == 0 then return end
  add(out, "", "Examples:")
  for _, example in ipairs(examples) do
    if example[2] ~= "" then add(out, "  # " .. example[2]) end
    add(out, "  " .. example[1])
  end
end

local function of_command(command)
  local out = { ("mooncage %s: %s"):format(command.name, command.summary), "", "Usage:" }
  for _, usage in ipairs(command.usage) do add(out, "  " .. usage) end
  for _, paragraph in ipairs(command.description) do
    add(out, "")
    for _, line in ipairs(help.wrap(paragraph, WIDTH)) do add(out, line) end
  end
  local own = own_flags(command)
  if #own > 0 then
    add(out, "", "Flags:")
    columns(out, flag_rows(own), 32)
  end
  add(out, "", "Global flags:")
  columns(out, flag_rows(spec.global), 32)
  add_examples(out, command.examples)
  return table.concat(out, "\n") .. "\n"
end

local function of_all()
  local out = {
    "mooncage: run an agent's commands inside sandboxes", "", "Usage:",
    "  mooncage [global flags] COMMAND ...", "  mooncage COMMAND --help", "", "Commands:",
  }
  local rows = {}
  for _, command in ipairs(spec.commands) do rows[#rows + 1] = { command.name, command.summary } end
  columns(out, rows, 14)
  add(out, "", "Global flags:")
  columns(out, flag_rows(spec.global), 28)
  add(out, "", "Exit status:")
  columns(out, spec.statuses, 14)
  add_examples(out, { spec.by_name.run.examples[1], spec.by_name.run.examples[2] })
  return table.concat(out, "\n") .. "\n"
end

---@param name string? a command; nil: all of it
---@return string
function help.text(name)
  if name then return of_command(spec.by_name[name]) end
  return of_all()
end

help.own_flags = own_flags

return help
