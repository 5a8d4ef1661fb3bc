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
print(session:exec("test -s /etc/ssl/certs/mooncage.pem && env | grep -c CA_BUNDLE").stdout)
print(session:exec("env | grep -c API_TOKEN").stdout) -- 0: it is not in there
if host then
  local result = session:exec { "curl", "-sS", "--max-time", "20", "https://" .. host .. "/" }
  print(result.stdout, result.stderr)
end
session:close()
