-- core.terminal and session:_attach: what the command does with its own descriptors.
local ffi = require "ffi"
local core = require "mooncage.core"
local mooncage = require "mooncage"
local support = require "support"

ffi.cdef [[
  int pipe(int fds[2]);
  int socketpair(int domain, int type, int protocol, int fds[2]);
  int close(int fd);
  int fcntl(int fd, int command, ...);
  int posix_openpt(int flags);
  int grantpt(int fd);
  int unlockpt(int fd);
  char *ptsname(int fd);
  int open(const char *path, int flags, ...);
]]
local C = ffi.C
local terminal = core.terminal

local function pair(make)
  local fds = ffi.new "int[2]"
  assert(make(fds) == 0)
  return fds[0], fds[1]
end

local function pipe() return pair(function(fds) return C.pipe(fds) end) end
local function sockets() return pair(function(fds) return C.socketpair(1, 1, 0, fds) end) end
local function is_nonblocking(fd) return math.floor(C.fcntl(fd, 3) / 0x800) % 2 == 1 end

for name, make in pairs { pipe = pipe, socket = sockets } do
  describe("a stream on a " .. name, function()
    local from, to
    support.leaves_nothing(function() from, to = make() end, function()
      C.close(from)
      C.close(to)
    end)

    it("waits to read and to write, and others run meanwhile", function()
      local reader = assert(terminal.stream(from, "r"))
      local writer = assert(terminal.stream(to, "w"))
      local data = ("0123456789"):rep(100000)
      local got = {}
      local task = mooncage.spawn(function()
        local total = 0
        while total < #data do
          local chunk = assert(reader:read())
          got[#got + 1], total = chunk, total + #chunk
        end
      end)
      assert.is_true(writer:write(data))
      assert.is_nil(task:wait())
      assert.is_true(table.concat(got) == data)
      reader:close()
      writer:close()
    end)

    it("leaves the descriptor's own flags alone, which others share", function()
      local writer = assert(terminal.stream(to, "w"))
      local task = mooncage.spawn(function() return writer:write(("x"):rep(2 ^ 21)) end)
      mooncage.sleep(0.02)
      assert.is_false(is_nonblocking(to))
      task:cancel()
      local _, err = task:wait()
      assert.equal("canceled", err.code)
      writer:close()
    end)

    it("gives nil at the end, and an error when the reader is gone", function()
      local reader = assert(terminal.stream(from, "r"))
      C.close(to)
      assert.is_nil(reader:read())
      reader:close()
      C.close(from)
      from, to = make()
    end)

    it("is waited for by one task at a time, and not when it is closed", function()
      local reader = assert(terminal.stream(from, "r"))
      local task = mooncage.spawn(function() return reader:read() end)
      mooncage.sleep(0.01)
      assert.error_matches(function() reader:read() end, "another task is waiting")
      reader:close()
      local _, err = task:wait()
      assert.equal("canceled", err.code)
      assert.error_matches(function() reader:read() end, "the stream is closed")
      assert.error_matches(function() assert(terminal.stream(to, "w")):read() end, "for writing")
    end)
  end)
end

describe("an attached command", function()
  local session
  support.leaves_nothing(function() session = assert(mooncage.open()) end, function()
    assert(session:close())
    session = nil -- it holds the log, which nobody else may have open
  end)

  ---Everything that can be read from a descriptor until its end.
  local function read_all(fd)
    local reader, got = assert(terminal.stream(fd, "r")), {}
    for chunk in function() return reader:read() end do got[#got + 1] = chunk end
    reader:close()
    return table.concat(got)
  end

  for name, make in pairs { pipe = pipe, socket = sockets } do
    it("has a " .. name .. " of ours as its output, byte-exact, whoever is slow", function()
      local from, to = make()
      local process = assert(session:_attach("head -c 3000000 /dev/zero; echo end; echo err >&2", {
        stdout_fd = to, max_output = 0,
      }))
      mooncage.sleep(0.05)
      local reader = mooncage.spawn(function() return read_all(from) end)
      local result = assert(process:wait())
      C.close(to)
      assert.equal(3000004, result.stdout_bytes)
      assert.equal(4, result.stderr_bytes)
      local data = reader:wait()
      assert.equal(3000004, #data)
      assert.equal("end\n", data:sub(-4))
      C.close(from)
    end)

    it("has a " .. name .. " of ours as its input", function()
      local from, to = make()
      local process = assert(session:_attach("wc -c", { stdin_fd = from }))
      local writer = assert(terminal.stream(to, "w"))
      assert(writer:write(("x"):rep(1000000)))
      writer:close()
      C.close(to)
      assert.equal("1000000\n", (process:wait().stdout:gsub(" ", "")))
      C.close(from)
    end)
  end

  it("reads and writes files and /dev/null", function()
    local directory = support.temporary()
    support.write_file(directory .. "/in", ("line\n"):rep(50000))
    local input = C.open(directory .. "/in", 0)
    local output = C.open(directory .. "/out", 0x41, ffi.new("int", 0x1a4))
    local process = assert(session:_attach("cat; echo err >&2", {
      stdin_fd = input, stdout_fd = output, stderr_fd = output,
    }))
    assert.is_true(assert(process:wait()).ok)
    C.close(input)
    C.close(output)
    assert.equal(250004, #support.read_file(directory .. "/out"))
    local null = C.open("/dev/null", 2)
    process = assert(session:_attach("cat; echo x", { stdin_fd = null, stdout_fd = null }))
    assert.equal(2, assert(process:wait()).stdout_bytes)
    C.close(null)
    support.host("rm -r " .. directory)
  end)

  it("gets SIGPIPE when the reader of its output is gone", function()
    local from, to = sockets()
    C.close(from)
    local process = assert(session:_attach("while echo x; do :; done", { stdout_fd = to }))
    assert.equal("SIGPIPE", assert(process:wait()).signal)
    C.close(to)
  end)

  it("does without input that is closed", function()
    local process = assert(session:_attach("cat; echo over", { stdin_fd = 999 }))
    assert.equal("over\n", assert(process:wait()).stdout)
  end)

  it("ends by a time-out though its input stays open", function()
    local from, to = pipe()
    local process = assert(session:_attach("cat", { stdin_fd = from, timeout = 0.1 }))
    assert.is_true(assert(process:wait()).timed_out)
    C.close(from)
    C.close(to)
  end)
end)

describe("a terminal", function()
  it("is told from what is none", function()
    local from, to = pipe()
    assert.is_false(terminal.isatty(from))
    local size, err = terminal.size(from)
    assert.is_nil(size)
    assert.is_string(err.code)
    local raw = terminal.raw(from)
    assert.is_nil(raw)
    C.close(from)
    C.close(to)
  end)

  it("is made raw and put back", function()
    local master = C.posix_openpt(2 + 0x100) -- O_RDWR | O_NOCTTY
    assert(master >= 0 and C.grantpt(master) == 0 and C.unlockpt(master) == 0)
    local slave = C.open(C.ptsname(master), 2 + 0x100)
    local path = ffi.string(C.ptsname(master))
    local function mode() return support.host("stty -a < " .. path) end
    assert.is_true(terminal.isatty(slave))
    local before = mode()
    assert.truthy(before:find(" icanon", 1, true))
    local raw = assert(terminal.raw(slave))
    assert.truthy(mode():find("-icanon", 1, true))
    raw:restore()
    assert.equal(before, mode())
    C.close(slave)
    C.close(master)
  end)
end)
