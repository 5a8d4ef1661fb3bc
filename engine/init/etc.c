/* etc.c: /etc. What names things is written here; what the host's /usr cannot do without is lent
 * from the host. Nothing else of the host's /etc is there. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "jail.h"
#include "kernel.h"
#include "people.h"

/* Lent from the host, read-only. A name that ends in * is a prefix. */
static const char *const LENT[] = {"alternatives", "ld.so.cache",     "ld.so.conf", "ld.so.conf.d",
                                   "localtime",    "mime.types",      "services",   "protocols",
                                   "ssl/certs",    "ssl/openssl.cnf", "perl"};
static const char *const LENT_PREFIXES[] = {"python3", "java-"};

static int lend(mcg_jail *jail, const char *name)
{
  char source[PATH_MAX], place[PATH_MAX], link[PATH_MAX];
  struct stat st;
  snprintf(source, sizeof source, "/etc/%s", name);
  snprintf(place, sizeof place, "r/etc/%s", name);
  if (lstat(source, &st) < 0) return 0; /* the host does without it as well */
  if (S_ISLNK(st.st_mode)) {
    ssize_t len = readlink(source, link, sizeof link - 1);
    if (len <= 0) return 0;
    link[len] = 0;
    if (symlink(link, place) < 0) return mcg_jail_fail(jail, "mounts", errno, "link %s", source);
    return 0;
  }
  int rc = S_ISDIR(st.st_mode) ? mkdir(place, 0755) : mknod(place, S_IFREG | 0644, 0);
  if (rc < 0 || mount(source, place, NULL, MS_BIND | MS_REC, NULL) < 0)
    return mcg_jail_fail(jail, "mounts", errno, "bind %s", source);
  return 0;
}

static int lend_prefixes(mcg_jail *jail)
{
  DIR *dir = opendir("/etc");
  if (!dir) return 0;
  int rc = 0;
  for (struct dirent *entry; rc == 0 && (entry = readdir(dir));)
    for (size_t i = 0; i < sizeof LENT_PREFIXES / sizeof *LENT_PREFIXES; i++)
      if (strncmp(entry->d_name, LENT_PREFIXES[i], strlen(LENT_PREFIXES[i])) == 0)
        rc = lend(jail, entry->d_name);
  closedir(dir);
  return rc;
}

static int put(mcg_jail *jail, const char *name, const char *text, int len)
{
  char path[64];
  snprintf(path, sizeof path, "r/etc/%s", name);
  if (mcg_jail_write(path, 0644, text, (size_t)len) < 0)
    return mcg_jail_fail(jail, "mounts", errno, "write /etc/%s", name);
  return 0;
}

static int names(mcg_jail *jail)
{
  static mcg_names passwd, group;
  passwd.len = (size_t)snprintf(passwd.text, sizeof passwd.text,
                                "root:x:0:0:root:/root:/usr/sbin/nologin\n"
                                "sandbox:x:%u:%u:sandbox:/home/sandbox:/bin/sh\n"
                                "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
                                jail->uid, jail->gid);
  group.len = (size_t)snprintf(group.text, sizeof group.text,
                               "root:x:0:\nsandbox:x:%u:\nnogroup:x:65534:\n", jail->gid);
  if (mcg_jail_people(jail, &passwd, &group) < 0) return -1;
  if (put(jail, "passwd", passwd.text, (int)passwd.len) < 0) return -1;
  if (put(jail, "group", group.text, (int)group.len) < 0) return -1;
  static const char nss[] = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
                            "networks: files\nprotocols: files\nservices: files\n";
  return put(jail, "nsswitch.conf", nss, sizeof nss - 1);
}

/* Own network: the gateway's stub, where there is one; without one nobody answers there, at once. The
 * host's: as the host asks. */
static int network(mcg_jail *jail)
{
  const char *name = jail->spec->hostname ? jail->spec->hostname : "sandbox";
  char text[512];
  int len = snprintf(text, sizeof text, "127.0.0.1 localhost %s\n::1 localhost %s\n", name, name);
  if (put(jail, "hosts", text, len) < 0) return -1;
  len = snprintf(text, sizeof text, "%s\n", name);
  if (put(jail, "hostname", text, len) < 0) return -1;
  char resolver[4096] = MCG_RESOLVER;
  ssize_t got = (ssize_t)strlen(resolver);
  if (jail->spec->network == MCG_NET_HOST) {
    int fd = open("/etc/resolv.conf", O_RDONLY | O_CLOEXEC);
    got = fd < 0 ? 0 : read(fd, resolver, sizeof resolver);
    if (fd >= 0) close(fd);
  }
  return put(jail, "resolv.conf", resolver, got < 0 ? 0 : (int)got);
}

int mcg_jail_etc(mcg_jail *jail)
{
  if (mkdir("r/etc/ssl", 0755) < 0) return mcg_jail_fail(jail, "mounts", errno, "make /etc/ssl");
  if (jail->spec->authority && mcg_jail_trust(jail, lend) < 0) return -1;
  for (size_t i = 0; i < sizeof LENT / sizeof *LENT; i++)
    if (!(jail->spec->authority && strcmp(LENT[i], "ssl/certs") == 0) && lend(jail, LENT[i]) < 0)
      return -1;
  if (lend_prefixes(jail) < 0 || names(jail) < 0) return -1;
  return network(jail);
}
