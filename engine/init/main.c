/* main.c: the modes of mooncage-init. The first argument chooses; users never call it themselves. */
#include "probe.h"
#include "server.h"
#include "spawner.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int usage(void)
{
  static const char text[] =
      "mooncage-init is started by mooncage, as one of:\n"
      "  mooncage-init spawner                          descriptors 3 and 4 as in spawn.h\n"
      "  mooncage-init server [--framed] [--dir DIR]    unconfined, serves descriptor 3\n"
      "  mooncage-init probe                            tries what sandboxes are made with\n"
      "  mooncage-init --version\n";
  fputs(text, stderr);
  return 2;
}

/* For tests and development: no sandbox at all around it. */
static int server_mode(char **args)
{
  static const char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", NULL};
  static const char *const mechanisms[] = {"isolation=none", NULL};
  mcg_server_config config = {
      .fd = 3, .env = env, .mechanisms = mechanisms, .confine_paths = 1, .is_pid1 = getpid() == 1};
  for (; *args; args++) {
    if (strcmp(*args, "--framed") == 0)
      config.carrier = 1;
    else if (strcmp(*args, "--dir") == 0 && args[1])
      config.workdir = *++args;
    else
      return usage();
  }
  return mcg_server_main(&config);
}

int main(int argc, char **argv)
{
  if (argc == 2 && strcmp(argv[1], "--version") == 0) {
    printf("mooncage-init, protocol %d\n", MCG_PROTOCOL_VERSION);
    return 0;
  }
  if (argc == 2 && strcmp(argv[1], "spawner") == 0) return mcg_spawner_main();
  if (argc == 2 && strcmp(argv[1], "probe") == 0) return mcg_probe_main();
  if (argc >= 2 && strcmp(argv[1], "server") == 0) return server_mode(argv + 2);
  return usage();
}
