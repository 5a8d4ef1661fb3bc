"""late.py: sessions that were opened without a network, and are given one while they run."""

import os
import shutil
import subprocess

from cases import Skip, case


@case
def a_session_without_a_network_is_given_one_while_it_runs(t):
    ran = t.script("""
local mooncage = require "mooncage"
local session = assert(mooncage.open { audit = false })
local curl = "curl -sS --max-time 20 http://good.test:8080/hello"
local process = assert(session:start { "sh", "-c", "while read line; do " .. curl .. " 2>&1; done" })
print(session:set_network "none", session:exec(curl).exit_code ~= 0, #assert(session:network_log()))
assert(session:set_network { allow = { "good.test:8080" } })
process:write "go\\n"
io.write(process:read())
io.write(session:exec(curl).stdout)
print(session:exec("curl -sS --max-time 20 http://other.test:8080/").exit_code ~= 0)
print(session:exec("curl -sS --max-time 20 http://good.test:8443/").exit_code ~= 0)
print(session:exec("ip addr add 192.0.2.1/32 dev lo").exit_code ~= 0)
local none, err = session:set_network "open"
print(none, err.code)
assert(session:set_network "none")
print(session:exec(curl).exit_code ~= 0, session:usage().net_in_bytes > 0)
assert(session:set_network { allow = { "good.test:8080" } })
io.write(session:exec(curl).stdout)
local denied = 0
for _, event in ipairs(assert(session:network_log())) do denied = denied + (event.allowed == false and 1 or 0) end
print(denied >= 2)
session:close()
""")
    assert ran.out == ("true\ttrue\t0\nhello from good\nhello from good\ntrue\ntrue\ntrue\n"
                       "nil\tunenforceable\ntrue\ttrue\nhello from good\ntrue\n"), ran


@case
def a_late_network_may_be_open_and_is_nobody_elses_afterwards(t):
    ran = t.script("""
local mooncage = require "mooncage"
for i = 1, 6 do
  local session = assert(mooncage.open { audit = false })
  local before = session:exec("curl -sS --max-time 20 http://good.test:8080/").exit_code
  local routes = session:exec("cat /proc/net/fib_trie").stdout
  print(before ~= 0, routes:find("198.18.0.1", 1, true) == nil)
  if i % 2 == 1 then
    assert(session:set_network { allow = { "good.test:8000-9000" } })
    io.write(session:exec("curl -sS --max-time 20 http://good.test:8080/hello").stdout)
  end
  session:close()
  mooncage.sleep(0.1)
end
""")
    assert ran.out == "true\ttrue\nhello from good\ntrue\ttrue\n" * 3, ran


@case
def what_a_late_network_cannot_be(t):
    ran = t.script("""
local mooncage = require "mooncage"
local rules = { allow = { "good.test:8080" } }
local function try(config, policy, before)
  config.audit = false
  local session = assert(mooncage.open(config))
  if before then before(session) end
  local _, err = session:set_network(policy or rules)
  print(err.code, err.fix ~= nil, err.message)
  session:close()
end
try { network = "host" }
try { backend = mooncage.jail { carrier = "framed" } }
try { backend = "subprocess", network = "host" }
try({}, { allow = { { host = "good.test", port = 443, terminate_tls = true } } })
try({}, nil, function(session)
  local python = "import socket; s = socket.create_server(('127.0.0.1', 53)); print(1, flush=True); s.accept()"
  assert(session:start({ "python3", "-c", python })):read()
end)
""")
    lines = ran.out.splitlines()
    assert [line.split("\t")[:2] for line in lines] == [
        ["unsupported", "true"], ["unsupported", "true"], ["unsupported", "true"],
        ["unenforceable", "true"], ["conflict", "true"]], ran
    assert "port 53" in lines[4], ran


@case
def parked_sandboxes_are_given_a_network(t):
    ran = t.script("""
local mooncage = require "mooncage"
for i = 1, 2 do
  local session = assert(mooncage.open { audit = false, pool = { size = 1 } })
  assert(session:set_network { allow = { "good.test:8080" } })
  print(session:exec("curl -sS http://good.test:8080/hello").stdout)
  session:close()
  mooncage.sleep(0.3)
end
""")
    assert ran.out == "hello from good\n\n" * 2, ran


@case
def a_root_file_system_and_a_range_of_uids_are_given_a_network(t):
    if t.identity.prefix:
        raise Skip("the host's / is no rootfs for an ordinary user in here, and there are no subordinate uids")
    ran = t.script("""
local mooncage = require "mooncage"
for _, options in ipairs { { rootfs = "/" }, { profile = "packages" } } do
  local session = assert(mooncage.open { audit = false, backend = mooncage.jail(options), enforcement = "best_effort" })
  assert(session:set_network { allow = { "good.test:8080" } })
  io.write(session:exec("curl -sS --max-time 20 http://good.test:8080/hello").stdout)
  session:close()
end
""")
    assert ran.out == "hello from good\n" * 2, ran


def small_root(t):
    """A root file system with a shell and curl, and what those load."""
    root = os.path.join(t.work, "rootfs")
    for name in ("bin", "etc", "proc", "dev", "tmp", "sys", "run", "root", "home", "workspace"):
        os.makedirs(os.path.join(root, name))
    open(os.path.join(root, "etc/resolv.conf"), "w").close()
    for program in ("sh", "curl"):
        program = shutil.which(program)
        shutil.copy(program, os.path.join(root, "bin"))
        for word in subprocess.check_output(["ldd", program], text=True).split():
            if word.startswith("/"):
                os.makedirs(root + os.path.dirname(word), exist_ok=True)
                shutil.copy(word, root + word)
    if t.identity.uid:
        subprocess.run(["chown", "-R", "%d:%d" % (t.identity.uid, t.identity.uid), root], check=True)
    return root


@case
def a_root_file_system_of_its_own_is_given_a_network(t):
    """Of an ordinary user as well: its network belongs to its user namespace, which is the user's."""
    ran = t.script("""
local mooncage = require "mooncage"
local session = assert(mooncage.open { audit = false, backend = mooncage.jail { rootfs = "%s" }, enforcement = "best_effort" })
local curl = { "/bin/curl", "-sS", "--max-time", "20", "http://good.test:8080/hello" }
print(session:exec(curl).exit_code ~= 0)
assert(session:set_network { allow = { "good.test:8080" } })
io.write(session:exec(curl).stdout)
print(session:exec({ "/bin/curl", "-sS", "--max-time", "20", "http://other.test:8080/" }).exit_code ~= 0)
assert(session:set_network "none")
print(session:exec(curl).exit_code ~= 0)
session:close()
""" % small_root(t))
    assert ran.out == "true\nhello from good\ntrue\ntrue\n", ran


@case
def a_tenant_that_has_no_network_is_given_none(t):
    """What it was opened with is all that it may have, however the engine's own rules are."""
    ran = t.script("""
local mooncage = require "mooncage"
local curl = "curl -sS --max-time 20 http://good.test:8080/hello"
local function opened(network)
  return assert(mooncage.open { tenant = "acme", audit = false, network = { allow = { "good.test:8080" } },
    tenants = function() return { network = network } end })
end
local session = opened "none"
for _, network in ipairs { { allow = { "good.test:8080" } }, "open" } do
  local done, err = session:set_network(network)
  print(done, err and err.code)
end
print(session:set_network "none", session:exec(curl).exit_code ~= 0)
session:close()
session = opened { allow = { "good.test:8080" } } -- the control
assert(session:set_network "none")
print(session:exec(curl).exit_code ~= 0)
assert(session:set_network { allow = { "good.test:8080" } })
io.write(session:exec(curl).stdout)
session:close()
""")
    assert ran.out == "nil\tinvalid\nnil\tinvalid\ntrue\ttrue\ntrue\nhello from good\n", ran
