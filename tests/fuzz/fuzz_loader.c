/* What a configuration file in Lua gives the engine. The input is a row of choices for a table, such as a
 * file could return (wrong types, cycles, functions, secrets, keys of any kind): it is judged, or refused
 * with words. And it is a text, of which the line of a key is looked for. */
#include "lua_host.h"

static const char chunk[] =
    "local core = require 'mooncage.core'\n"
    "local mooncage = require 'mooncage'\n"
    "local lines = require 'mooncage.cli.lines'\n"
    "core.log_level 'error'\n"
    "local names = { 'backend', 'id', 'options', 'jail', 'subprocess', 'candidates', 'limits',\n"
    "  'memory_mb', 'cpu_count', 'pid_limit', 'network', 'allow', 'deny', 'default', 'open',\n"
    "  'environment', 'labels', 'tenant', 'manifest', 'files', 'content', 'secret', 'users',\n"
    "  'audit', 'type', 'jsonl', 'hmac_key', 'tools', 'allowed_tools', 'hooks', 'guardrail',\n"
    "  'requirements', 'cost', 'usd_per_minute', 'binds', 'source', 'target', 'project', 'host',\n"
    "  'port', 'headers', 'terminate_tls', 'api.example.com:443', '10.0.0.0/8', 'none' }\n"
    "local numbers = { 0, 1, -1, 0.5, 443, 65536, 2 ^ 53, 2 ^ 63, 1e308, 1 / 0, -1 / 0, 0 / 0 }\n"
    "local text, at\n"
    "local function pick(n)\n"
    "  at = at + 1\n"
    "  return (text:byte(at) or 0) % n\n"
    "end\n"
    "local function name() return names[pick(#names) + 1] end\n"
    "local value\n"
    "local function key(i)\n"
    "  local kind = pick(8)\n"
    "  if kind < 4 then return name() end\n"
    "  if kind < 6 then return i end\n"
    "  if kind == 6 then return numbers[pick(9) + 1] end\n"
    "  return pick(2) == 0 or text:sub(at, at + pick(9))\n"
    "end\n"
    "local function fill(depth, all)\n"
    "  local made = pick(6) == 0 and core.array {} or {}\n"
    "  all[#all + 1] = made\n"
    "  for i = 1, pick(5) do made[key(i)] = value(depth + 1, all) end\n"
    "  return made\n"
    "end\n"
    "function value(depth, all)\n"
    "  local kind = at > #text and 1 or pick(16)\n"
    "  if kind < 6 and depth < 8 then return fill(depth, all) end\n"
    "  if kind < 9 then return name() end\n"
    "  if kind == 9 then return numbers[pick(#numbers) + 1] end\n"
    "  if kind == 10 then return pick(2) == 0 end\n"
    "  if kind == 11 then return text:sub(at, at + pick(40)) end\n"
    "  if kind == 12 then return all[pick(#all) + 1] end\n"
    "  if kind == 13 then return mooncage.secret(name()) end\n"
    "  if kind == 14 then return function() return true end end\n"
    "  return pick(2) == 0 and io.stdout or coroutine.create(print)\n"
    "end\n"
    "local function judge(config)\n"
    "  local fine, said, err = pcall(core.resolve, config)\n"
    "  if fine and said then return end\n"
    "  err = fine and err or said\n"
    "  if type(err) == 'string' then assert(err ~= '') return end\n"
    "  assert(type(err) == 'table' and type(err.code) == 'string')\n"
    "  assert(type(err.message) == 'string' and err.message ~= '')\n"
    "end\n"
    "return function(bytes)\n"
    "  text, at = bytes, 0\n"
    "  judge(fill(0, {}))\n"
    "  local keys = lines.of(bytes)\n"
    "  for _, path in ipairs { 'backend', 'limits.memory_mb', 'network.allow[2]', 'a.b.c' } do\n"
    "    local line = keys:find(lines.path(path))\n"
    "    assert(line == nil or line >= 1)\n"
    "  end\n"
    "end\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  lua_run(chunk, data, size);
  return 0;
}

/* Choices as good as any. */
size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
  uint64_t state = (index + 1) * 0x9e3779b97f4a7c15u;
  size_t len = 200 < room ? 200 : room;
  if (index >= 8) return 0;
  for (size_t i = 0; i < len; i++) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    out[i] = (uint8_t)(state >> 11);
  }
  return len;
}
