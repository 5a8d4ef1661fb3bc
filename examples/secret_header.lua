-- secret_header.lua: a program calls an API with a token that it never holds. TLS ends at the
-- engine, which verifies the server and sets the header in each request to that one host.
-- Run it: API_TOKEN=... mooncage run examples/secret_header.lua [HOST] (HOST is asked then)
local mooncage = require "mooncage"

local host, token = arg[1], mooncage.secret(os.getenv "API_TOKEN" or "no-token")
local session = assert(mooncage.open {
  network = {
    allow = {
      {
        host = host or "api.example.com",
        port = 443,
        terminate_tls = true,
        headers = { Authorization = { "Bearer ", token } },
      },
    },
  },
})

-- Programs find whom to believe where they always look.
local function count(word) return tonumber(session:exec("env | grep -c " .. word).stdout) end
print("an authority of its own", session:exec("test -s /etc/ssl/certs/mooncage.pem").ok)
print("variables that name it", count "CA_BUNDLE")
print("variables with the token", count "API_TOKEN")
if host then
  local result = session:exec { "curl", "-sS", "--max-time", "20", "https://" .. host .. "/" }
  print(result.stdout, result.stderr)
end
session:close()
