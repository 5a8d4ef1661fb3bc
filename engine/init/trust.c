/* trust.c: the engine's authority (engine/egress/authority.h) among those that the sandbox believes.
 *
 * Over the host's /usr, /etc/ssl/certs is a directory of the sandbox's own: what the host has in it, the
 * bundle with one more certificate, and that certificate by its name and by its hash. Over a rootfs the
 * bundles that are there are replaced, by bind mounts. Nothing of it is more than what is public. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "jail.h"
#include "kernel.h"

#define CERTS "/etc/ssl/certs"
#define BUNDLE "ca-certificates.crt"
#define OWN "mooncage.pem"

static int fail(mcg_jail *jail, const char *what)
{
  return mcg_jail_fail(jail, "trust", errno, "%s", what);
}

/* What `from` holds, then the certificate. -1 of `from`: only that. */
static int write_bundle(mcg_jail *jail, int from, const char *path)
{
  char piece[16384];
  int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (to < 0) return fail(jail, "make a bundle of certificates");
  ssize_t got = 0;
  bool good = true;
  while (good && from >= 0 && (got = read(from, piece, sizeof piece)) > 0)
    good = write(to, piece, (size_t)got) == got;
  size_t len = strlen(jail->spec->authority);
  good = good && got >= 0 && write(to, "\n", 1) == 1 &&
         write(to, jail->spec->authority, len) == (ssize_t)len;
  if (!good) fail(jail, "write a bundle of certificates");
  close(to);
  return good ? 0 : -1;
}

static int write_own(mcg_jail *jail, const char *path)
{
  const char *text = jail->spec->authority;
  return mcg_jail_write(path, 0644, text, strlen(text)) < 0 ? fail(jail, "write the authority") : 0;
}

/* OpenSSL looks for HASH.0, HASH.1 and so on. */
static int link_hash(mcg_jail *jail)
{
  char place[64];
  for (int i = 0; i < 16; i++) {
    snprintf(place, sizeof place, "r" CERTS "/%08x.%d", jail->spec->authority_hash, i);
    if (symlink(OWN, place) == 0) return 0;
    if (errno != EEXIST) break;
  }
  return fail(jail, "link the authority by its hash");
}

int mcg_jail_trust(mcg_jail *jail, int (*lend)(mcg_jail *jail, const char *name))
{
  char name[NAME_MAX + sizeof "ssl/certs/"];
  if (mkdir("r" CERTS, 0755) < 0) return fail(jail, "make " CERTS);
  DIR *dir = opendir(CERTS);
  int rc = 0;
  for (struct dirent *entry; rc == 0 && dir && (entry = readdir(dir));) {
    if (entry->d_name[0] == '.' || strcmp(entry->d_name, BUNDLE) == 0 ||
        strcmp(entry->d_name, OWN) == 0)
      continue;
    snprintf(name, sizeof name, "ssl/certs/%s", entry->d_name);
    rc = lend(jail, name);
  }
  if (dir) closedir(dir);
  if (rc < 0) return -1;
  int from = open(CERTS "/" BUNDLE, O_RDONLY | O_CLOEXEC);
  rc = write_bundle(jail, from, "r" CERTS "/" BUNDLE);
  if (from >= 0) close(from);
  return rc < 0 || write_own(jail, "r" CERTS "/" OWN) < 0 ? -1 : link_hash(jail);
}

/* ---- over a rootfs ---------------------------------------------------------------------------- */

/* A regular file in the root that is being made, or -1. */
static int open_there(const mcg_jail *jail, const char *path)
{
  struct stat st;
  int fd =
      mcg_sys_openat2(jail->root, path + 1, O_RDONLY | O_CLOEXEC | O_NONBLOCK,
                      MCG_RESOLVE_IN_ROOT | MCG_RESOLVE_NO_SYMLINKS | MCG_RESOLVE_NO_MAGICLINKS);
  if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
    close(fd);
    return -1;
  }
  return fd;
}

static int cover(mcg_jail *jail, const char *made, const char *path)
{
  char place[40];
  int target = mcg_jail_target(jail, "trust", path, false);
  if (target < 0) return -1;
  int rc = mcg_jail_bind(jail, "trust", made, target);
  close(target);
  if (rc < 0) return -1;
  int over = mcg_jail_target(jail, "trust", path, false);
  if (over < 0) return -1;
  snprintf(place, sizeof place, "/proc/self/fd/%d", over);
  rc = mount(NULL, place, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL);
  close(over);
  return rc < 0 ? fail(jail, "make the authority read-only") : 0;
}

int mcg_jail_trust_cover(mcg_jail *jail)
{
  static const char *const bundles[] = {CERTS "/" BUNDLE, "/etc/pki/tls/certs/ca-bundle.crt",
                                        "/etc/ssl/cert.pem"};
  char made[32];
  if (!jail->spec->authority) return 0;
  for (size_t i = 0; i < sizeof bundles / sizeof *bundles; i++) {
    int from = open_there(jail, bundles[i]);
    if (from < 0 && i > 0) continue;
    if (from < 0)
      from = open(CERTS "/" BUNDLE, O_RDONLY | O_CLOEXEC); /* the host's is better than none */
    snprintf(made, sizeof made, "x/bundle-%zu", i);
    int rc = write_bundle(jail, from, made);
    if (from >= 0) close(from);
    if (rc < 0 || cover(jail, made, bundles[i]) < 0) return -1;
  }
  return write_own(jail, "x/authority") < 0 ? -1 : cover(jail, "x/authority", CERTS "/" OWN);
}
