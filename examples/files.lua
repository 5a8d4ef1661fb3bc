-- files.lua: files in and out of a sandbox, and errors as data.
-- Run it: mooncage run examples/files.lua
local mooncage = require "mooncage"

mooncage.with({ limits = { wall_s = 60 } }, function(session)
  assert(session:mkdir "data")
  assert(session:write("data/numbers.txt", "3\n1\n2\n"))
  assert(session:exec("sort -n data/numbers.txt > data/sorted.txt"))
  print("sorted:", (assert(session:read "data/sorted.txt"):gsub("\n", " ")))

  for _, entry in ipairs(assert(session:list "data")) do
    print(("%-12s %-10s %d bytes"):format(entry.name, entry.type, entry.size))
  end

  local text, err = session:read "data/missing.txt"
  print("missing file:", text, err.code)
  text, err = session:read "../../etc/passwd"
  print("a path that leaves the workspace:", text, err.code)
end)
