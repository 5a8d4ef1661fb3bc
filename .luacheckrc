std = "luajit"
max_line_length = 100
files["lua/mooncage/types.lua"] = { ignore = { "111", "131", "212", "241", "631" } }
files["tests/spec"] = { std = "+busted" }
files["tests/escape/prelude.lua"] = { unused = false } -- put before each attack's own lines
files["**/policies/*.lua"] = { read_globals = { "mooncage" } } -- what a policy may call
