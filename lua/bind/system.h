/* system.h: opens the module "mooncage.cli.system"; see system.c. */
#ifndef MCG_LUA_SYSTEM_H
#define MCG_LUA_SYSTEM_H

#include <lua.h>

int luaopen_mooncage_cli_system(lua_State *L);
int mcg_lua_read_file(lua_State *L);

#endif
