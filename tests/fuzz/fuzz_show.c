/* A log as anybody may have left it, before `mooncage audit show`, `tail` and `stats`: no fault, and
 * nothing that a terminal obeys. */
#include "lua_host.h"

#include <sys/mman.h>
#include <unistd.h>

static const char chunk[] =
    "local audit = require 'mooncage.cli.audit'\n"
    "local output = require 'mooncage.cli.output'\n"
    "local said\n"
    "output.write = function(text) said[#said + 1] = text return true end\n"
    "output.warn = function() end\n"
    "return function(path)\n"
    "  for _, json in ipairs { false, true } do\n"
    "    output.configure({ color = 'never', json = json }, function() return true end)\n"
    "    for _, action in ipairs { 'show', 'tail', 'stats' } do\n"
    "      said = {}\n"
    "      local status = audit.main { words = { action, path }, flags = {} }\n"
    "      assert(type(status) == 'number')\n"
    "      local text = table.concat(said)\n"
    "      assert(json or not text:find '[%z\\1-\\8\\11-\\31\\127]', 'a control character')\n"
    "      assert(json or not text:find '\\194[\\128-\\159]', 'a C1 control')\n"
    "      assert(json or action == 'stats' or not text:find '\\226\\128[\\168-\\174]', 'bidi')\n"
    "      assert(json or action == 'stats' or not text:find '\\226\\129[\\166-\\169]', 'bidi')\n"
    "    end\n"
    "  end\n"
    "end\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static int fd = -1;
  char path[32];
  if (fd < 0) fd = memfd_create("log", MFD_CLOEXEC);
  FUZZ_NEED(fd >= 0 && ftruncate(fd, 0) == 0);
  FUZZ_NEED(pwrite(fd, data, size, 0) == (ssize_t)size);
  int len = snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  lua_run(chunk, path, (size_t)len);
  return 0;
}
