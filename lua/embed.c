/* embed.c: a tool of the build: compiles Lua files with the LuaJIT that the command is linked to and
 * writes them as a C table. Usage: embed OUT DIRECTORY FILE... (files relative to the directory). */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "mooncage/cli/init.lua" -> "mooncage.cli" */
static void module_name(const char *file, char *out, size_t cap)
{
  snprintf(out, cap, "%s", file);
  char *end = strrchr(out, '.');
  if (end) *end = 0;
  for (char *c = out; *c; c++)
    if (*c == '/') *c = '.';
  size_t len = strlen(out);
  if (len > 5 && strcmp(out + len - 5, ".init") == 0) out[len - 5] = 0;
}

static char *read_file(const char *path, size_t *len)
{
  FILE *in = fopen(path, "rb");
  char *text = NULL;
  *len = 0;
  if (!in) return NULL;
  for (;;) {
    char *more = realloc(text, *len + 65536);
    if (!more) exit(1);
    text = more;
    size_t n = fread(text + *len, 1, 65536, in);
    if (n == 0) break;
    *len += n;
  }
  fclose(in);
  return text;
}

static int write_module(lua_State *L, FILE *out, const char *directory, const char *file,
                        int number)
{
  char path[4096], chunk[512];
  size_t len;
  snprintf(path, sizeof path, "%s/%s", directory, file);
  snprintf(chunk, sizeof chunk, "@%s", file);
  char *text = read_file(path, &len);
  if (!text) {
    fprintf(stderr, "embed: cannot read %s\n", path);
    return -1;
  }
  lua_getglobal(L, "string");
  lua_getfield(L, -1, "dump");
  int rc = luaL_loadbuffer(L, text, len, chunk);
  free(text);
  if (rc != 0 || lua_pcall(L, 1, 1, 0) != 0) {
    fprintf(stderr, "embed: %s\n", lua_tostring(L, -1));
    return -1;
  }
  const unsigned char *code = (const unsigned char *)lua_tolstring(L, -1, &len);
  fprintf(out, "static const unsigned char module_%d[] = {", number);
  for (size_t i = 0; i < len; i++) fprintf(out, "%s%u,", i % 24 ? "" : "\n", code[i]);
  fprintf(out, "\n};\n");
  lua_settop(L, 0);
  return 0;
}

int main(int argc, char **argv)
{
  if (argc < 4) return 2;
  lua_State *L = luaL_newstate();
  FILE *out = fopen(argv[1], "w");
  if (!L || !out) return 1;
  luaL_openlibs(L);
  fprintf(out, "#include \"embedded.h\"\n");
  for (int i = 3; i < argc; i++)
    if (write_module(L, out, argv[2], argv[i], i) < 0) return 1;
  fprintf(out, "const mcg_embedded mcg_embedded_modules[] = {\n");
  for (int i = 3; i < argc; i++) {
    char name[512];
    module_name(argv[i], name, sizeof name);
    fprintf(out, "  {\"%s\", module_%d, sizeof module_%d},\n", name, i, i);
  }
  fprintf(out, "  {0, 0, 0}\n};\n");
  lua_close(L);
  return fclose(out) == 0 ? 0 : 1;
}
