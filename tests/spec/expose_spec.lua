-- Ports of a sandbox that the host can reach. The client is python3, outside, as a browser is.
local mooncage = require "mooncage"
local support = require "support"

-- Serves on the port until it is killed; says so first. Echoes what one client sends, upper-cased.
local SERVER = [[
import socket, sys, threading
s = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=64,
  family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print("stands", flush=True)
def serve(c):
  while True:
    data = c.recv(65536)
    if not data: break
    c.sendall(data.upper())
  c.close()
while True: threading.Thread(target=serve, args=(s.accept()[0],)).start()
]]

-- Sends each word over a connection of its own, all open at once, and prints the answers.
local CLIENT = [==[
import socket, sys
def connect(url):
  if url.startswith("unix:"):
    c = socket.socket(socket.AF_UNIX); c.connect(url[5:])
  else:
    c = socket.create_connection(url.rsplit("/", 1)[1].rsplit(":", 1))
  c.settimeout(30)
  return c
def rest(c):
  out = b""
  while True:
    data = c.recv(65536)
    if not data: return out
    out += data
try:
  every = [connect(sys.argv[1]) for _ in sys.argv[2:]]
  for c, word in zip(every, sys.argv[2:]): c.sendall(word.encode()); c.shutdown(socket.SHUT_WR)
  print(" ".join(rest(c).decode() for c in every))
except ConnectionRefusedError: print("refused")
except ConnectionResetError: print("reset", flush=True)
except FileNotFoundError: print("no socket")
]==]

---What the client says; the engine turns meanwhile.
local function ask(outside, url, ...)
  local result = assert(outside:exec { "python3", "-c", CLIENT, url, ... })
  assert.equal("", result.stderr)
  return (result.stdout:gsub("\n$", ""))
end

local function serve(session, address, port)
  local process = assert(session:start { "python3", "-c", SERVER, address, tostring(port) })
  assert.equal("stands\n", assert(process:read()))
  return process
end

local function with_both(config, body)
  local session = assert(mooncage.open(config))
  local outside = assert(mooncage.open { backend = "subprocess" })
  local ok, err = pcall(body, session, outside)
  session:close()
  outside:close()
  if not ok then error(err, 0) end
end

describe("expose", function()
  support.leaves_nothing()

  it("leads many connections to a port inside", function()
    with_both({}, function(session, outside)
      local url = assert(session:expose(8080, { connections = 103 }))
      assert.truthy(url:match "^http://127%.0%.0%.1:%d+$", url)
      serve(session, "127.0.0.1", 8080)
      assert.equal("ONE TWO THREE", ask(outside, url, "one", "two", "three"))
      local words, answers = {}, {}
      for i = 1, 100 do words[i], answers[i] = "w" .. i, "W" .. i end
      assert.equal(table.concat(answers, " "), ask(outside, url, unpack(words)))
    end)
  end)

  it("finds a server on ::1, too", function()
    with_both({}, function(session, outside)
      local url = assert(session:expose(8080))
      serve(session, "::1", 8080)
      assert.equal("SIX", ask(outside, url, "six"))
    end)
  end)

  it("takes the port of the host that is asked for, and refuses one that is taken", function()
    with_both({}, function(session)
      local port = tonumber(assert(session:expose(80)):match "%d+$")
      local url, err = session:expose(81, { host_port = port })
      assert.is_nil(url)
      assert.equal("conflict", err.code)
      assert.truthy(err.message:find(("port %d of 127.0.0.1 is taken"):format(port), 1, true))
      assert.truthy(err.fix)
    end)
  end)

  it("resets a client while nobody listens inside, and serves when somebody does", function()
    with_both({}, function(session, outside)
      local url = assert(session:expose(8080))
      assert.equal("reset", ask(outside, url, "one"))
      serve(session, "127.0.0.1", 8080)
      assert.equal("ONE", ask(outside, url, "one"))
    end)
  end)

  it("ends with the session", function()
    with_both({}, function(session, outside)
      local url = assert(session:expose(8080))
      serve(session, "127.0.0.1", 8080)
      local waiting = assert(outside:start { "python3", "-c", [[
import socket, sys
c = socket.create_connection(sys.argv[1].rsplit("/", 1)[1].rsplit(":", 1))
c.sendall(b"a"); c.recv(1); print("connected", flush=True)
try: c.recv(1); print("end", flush=True)
except ConnectionResetError: print("reset", flush=True)
]], url })
      assert.equal("connected\n", assert(waiting:read()))
      assert(session:close())
      assert.equal("reset\n", assert(waiting:read()))
      assert.equal("refused", ask(outside, url, "one"))
      local again, err = session:expose(8080)
      assert.is_nil(again)
      assert.equal("unavailable", err.code)
    end)
  end)

  it("leads a unix socket of one's own inside", function()
    local directory = support.temporary()
    with_both({}, function(session, outside)
      local path = directory .. "/sockets/web"
      serve(session, "127.0.0.1", 8080)
      local url = assert(session:expose(8080, { path = path }))
      assert.equal("unix:" .. path, url)
      assert.equal("ONE", ask(outside, url, "one"))
      assert.equal("700", (support.host("stat -c %a " .. directory .. "/sockets"):gsub("\n", "")))
      local none, err = session:expose(8080, { path = path })
      assert.is_nil(none)
      assert.equal("conflict", err.code)
      session:close()
      assert.equal("no socket", ask(outside, url, "one"))
    end)
    support.host("rm -rf " .. directory)
  end)

  it("refuses a directory that others can enter", function()
    local directory = support.temporary()
    support.host("mkdir -m 755 " .. directory .. "/open")
    with_both({}, function(session)
      local url, err = session:expose(80, { path = directory .. "/open/web" })
      assert.is_nil(url)
      assert.equal("unauthorized", err.code)
      assert.truthy(err.fix:find("chmod 700", 1, true))
    end)
    support.host("rm -rf " .. directory)
  end)

  it("refuses where the network is the host's, and where sockets cannot travel", function()
    for _, config in ipairs {
      { network = "host" }, { backend = "subprocess" },
      { backend = mooncage.jail { carrier = "framed" } },
    } do
      local session = assert(mooncage.open(config))
      local url, err = session:expose(80)
      session:close()
      assert.is_nil(url)
      assert.equal("unsupported", err.code)
      assert.truthy(err.fix)
    end
  end)

  it("raises for what is no port, and unknown options", function()
    with_both({}, function(session)
      for _, port in ipairs { 0, 65536, 1.5, -1, 0 / 0 } do
        assert.error_matches(function() session:expose(port) end, "from 1 to 65535")
      end
      assert.error_matches(function() session:expose "80" end, "must be a number")
      assert.error_matches(function() session:expose(80, { hostport = 1 }) end, "host_port")
      local url, err = session:expose(80, { host_port = 8080, path = "/tmp/x" })
      assert.is_nil(url)
      assert.equal("invalid", err.code)
      url, err = session:expose(80, { path = "relative" })
      assert.is_nil(url)
      assert.equal("invalid", err.code)
    end)
  end)

  it("counts its connections, limits them, and cuts those on which nothing moves", function()
    local directory = support.temporary()
    local log = directory .. "/log"
    with_both({ audit = { type = "jsonl", path = log } }, function(session, outside)
      local url = assert(session:expose(8080, { connections = 1, idle_s = 1 }))
      serve(session, "127.0.0.1", 8080)
      assert.equal("ABC", ask(outside, url, "abc"))
      local waiting = assert(outside:start { "python3", "-c", [[
import socket, sys
where = sys.argv[1].rsplit("/", 1)[1].rsplit(":", 1)
c = socket.create_connection(where)
c.sendall(b"a"); c.recv(1); print("connected", flush=True)
try: socket.create_connection(where).recv(1); print("second", flush=True)
except ConnectionResetError: print("crowded", flush=True)
try: c.recv(1); print("end", flush=True)
except ConnectionResetError: print("idle", flush=True)
]], url })
      local text = ""
      repeat
        local more = waiting:read()
        text = text .. (more or "")
      until not more
      assert.equal("connected\ncrowded\nidle\n", text)
      assert.equal(4, session:usage().net_in_bytes)
      assert.equal(4, session:usage().net_out_bytes)
      local told = {}
      for _, event in ipairs(assert(session:network_log())) do
        told[#told + 1] = ("%s %s %d %s %s %s"):format(event.direction, event.allowed, event.port,
          event.bytes_in, event.bytes_out, event.ended or event.reason)
        assert.truthy(event.at > 1e9)
      end
      assert.same({ "in true 8080 3 3 finished", "in true 8080 1 1 idle",
        "in false 8080 nil nil 1 connections to it are open, which is its `connections`" }, told)
      session:close()
      assert.equal(3, #assert(session:network_log()))
      local lines = support.read_file(log)
      local function has(pattern) assert.truthy(lines:find(pattern), pattern .. lines) end
      has '"detail":{"direction":"in","port":8080,"protocol":"tcp"}'
      has '"bytes_in":3,"bytes_out":3,"ended":"finished"'
      has '"ended":"idle"'
      has "1 connections to it are open"
    end)
    support.host("rm -rf " .. directory)
  end)

  it("stands in the audit log before anybody is let in", function()
    local directory = support.temporary()
    local log = directory .. "/log"
    with_both({ audit = { type = "jsonl", path = log } }, function(session)
      local url = assert(session:expose(8080))
      local text = support.read_file(log)
      assert.truthy(text:find('"op":"expose"', 1, true), text)
      assert.truthy(text:find(('"detail":{"port":8080,"url":"%s"}'):format(url), 1, true), text)
    end)
    support.host("rm -rf " .. directory)
  end)
end)
