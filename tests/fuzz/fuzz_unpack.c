/* unpack of init: whatever the archive says, nothing outside of the directory changes, and nothing but
 * files, directories and links is made in it; what is refused leaves everything there as it was. Checksums
 * are put right first, so that mutations get past them. */
#include "fuzz.h"
#include "init/builtin.h"
#include "init/tar.h"
#include "init/tar_stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

static const uint8_t *input;
static size_t input_left;
static jmp_buf out_of_it;
static char place[64];
static int place_fd = -1, root_fd = -1;

/* What a failure leaves in memory, the end of the process frees in the real thing. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
  return "detect_leaks=0";
}

/* What builtin.c is to the real one. */
static void (*at_failure)(void);

void builtin_on_failure(void (*undo)(void))
{
  at_failure = undo;
}

__attribute__((format(printf, 3, 0))) static _Noreturn void fail(int number, const char *fix,
                                                                 const char *format, va_list args)
{
  char text[256];
  size_t room = sizeof text - strlen(fix);
  int len = vsnprintf(text, room, format, args);
  FUZZ_NEED(number > 0 && len > 0 && (size_t)len < room);
  void (*undo)(void) = at_failure;
  at_failure = NULL;
  FUZZ_NEED(undo); /* nothing fails before or after, or while what was made is removed */
  undo();
  longjmp(out_of_it, 1);
}

void builtin_fail(int number, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  fail(number, "", format, args);
}

void builtin_fail_fix(int number, const char *fix, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  fail(number, fix, format, args);
}

void builtin_lock(bool alone) /* one at a time */
{
  (void)alone;
}

void *builtin_alloc(size_t size)
{
  void *room = calloc(1, size);
  FUZZ_NEED(room);
  return room;
}

void builtin_give(int dir, int made) /* one user */
{
  (void)dir;
  (void)made;
}

void builtin_give_directory(int dir, const char *name)
{
  (void)dir;
  (void)name;
}

size_t builtin_get(void *bytes, size_t len)
{
  size_t piece = len < input_left ? len : input_left;
  if (piece) memcpy(bytes, input, piece);
  input += piece;
  input_left -= piece;
  return piece;
}

int paths_make(const char *path, mode_t mode)
{
  (void)path;
  (void)mode;
  return root_fd;
}

/* `empty`: nothing may be there to begin with. */
static void check_and_empty(int dir, unsigned depth, bool empty)
{
  int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  FUZZ_NEED(copy >= 0);
  DIR *list = fdopendir(copy);
  FUZZ_NEED(list);
  for (struct dirent *entry; (entry = readdir(list));) {
    struct stat info;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    FUZZ_NEED(!empty && !tar_stage_is(entry->d_name));
    FUZZ_NEED(fstatat(dir, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0);
    FUZZ_NEED(S_ISREG(info.st_mode) || S_ISDIR(info.st_mode) || S_ISLNK(info.st_mode));
    FUZZ_NEED(S_ISLNK(info.st_mode) || (info.st_mode & 07000) == 0);
    if (S_ISDIR(info.st_mode)) {
      FUZZ_NEED(fchmodat(dir, entry->d_name, 0700, 0) == 0);
      int next = openat(dir, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      FUZZ_NEED(next >= 0 && depth < 3000);
      check_and_empty(next, depth + 1, false);
      close(next);
      FUZZ_NEED(unlinkat(dir, entry->d_name, AT_REMOVEDIR) == 0);
    } else {
      FUZZ_NEED(unlinkat(dir, entry->d_name, 0) == 0);
    }
  }
  closedir(list);
}

static void check_outside(void)
{
  struct stat info;
  unsigned count = 0;
  int copy = openat(place_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *list = fdopendir(copy);
  FUZZ_NEED(list);
  while (readdir(list)) count++;
  closedir(list);
  FUZZ_NEED(count == 4); /* ".", "..", "root", "canary" */
  FUZZ_NEED(fstatat(place_fd, "canary", &info, AT_SYMLINK_NOFOLLOW) == 0);
  FUZZ_NEED(info.st_size == 6 && info.st_mode == (S_IFREG | 0600) && info.st_nlink == 1);
}

static void leave(void)
{
  check_and_empty(root_fd, 0, true);
  unlinkat(place_fd, "root", AT_REMOVEDIR);
  unlinkat(place_fd, "canary", 0);
  rmdir(place);
}

static void enter(void)
{
  if (place_fd >= 0) return;
  strcpy(place, "/tmp/mooncage-fuzz-XXXXXX");
  FUZZ_NEED(mkdtemp(place));
  place_fd = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int canary = openat(place_fd, "canary", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  FUZZ_NEED(canary >= 0 && write(canary, "canary", 6) == 6);
  close(canary);
  FUZZ_NEED(mkdirat(place_fd, "root", 0700) == 0);
  root_fd = openat(place_fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  umask(0);
  atexit(leave);
}

static void put_octal(char *field, size_t size, uint64_t value)
{
  for (size_t i = size - 1; i-- > 0; value >>= 3) field[i] = (char)('0' + (value & 7));
  field[size - 1] = 0;
}

/* Walks as a reader would, and writes every checksum anew. */
static void repair(uint8_t *bytes, size_t size)
{
  static const uint8_t zeros[TAR_BLOCK];
  for (size_t at = 0; at + TAR_BLOCK <= size;) {
    tar_header header;
    uint64_t len = 0;
    memcpy(&header, bytes + at, sizeof header);
    for (size_t i = 0; i < sizeof header.size && header.size[i] >= '0' && header.size[i] <= '7';
         i++)
      len = len << 3 | (uint64_t)(header.size[i] - '0');
    if (memcmp(&header, zeros, sizeof header) != 0) {
      put_octal(header.checksum, 7, tar_checksum(&header));
      memcpy(bytes + at, &header, sizeof header);
    }
    at += TAR_BLOCK;
    if (len > size - at) return;
    at += (size_t)(len + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
  }
}

/* ---- what is there already ---------------------------------------------------------------- */

static void plant_file(int dir, const char *name)
{
  int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  FUZZ_NEED(fd >= 0 && write(fd, "kept", 4) == 4);
  close(fd);
}

/* Of the names of the seeds: a directory with a file, a file, a link out. */
static void plant(void)
{
  FUZZ_NEED(mkdirat(root_fd, "d", 0700) == 0);
  int dir = openat(root_fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  plant_file(dir, "old");
  close(dir);
  plant_file(root_fd, "h");
  FUZZ_NEED(symlinkat("../canary", root_fd, "l") == 0);
}

static unsigned count_names(const char *path)
{
  unsigned count = 0;
  DIR *list = fdopendir(openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  FUZZ_NEED(list);
  while (readdir(list)) count++;
  closedir(list);
  return count - 2; /* "." and ".." */
}

static void check_planted(void)
{
  char text[16];
  struct stat info;
  static const char *const files[] = {"d/old", "h"};
  FUZZ_NEED(count_names(".") == 3 && count_names("d") == 1);
  FUZZ_NEED(fstatat(root_fd, "d", &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            (info.st_mode & 0777) == 0700);
  FUZZ_NEED(readlinkat(root_fd, "l", text, sizeof text) == 9);
  for (size_t i = 0; i < 2; i++) {
    int fd = openat(root_fd, files[i], O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    FUZZ_NEED(fd >= 0 && read(fd, text, sizeof text) == 4 && memcmp(text, "kept", 4) == 0);
    close(fd);
  }
}

static void unpack_once(const uint8_t *bytes, size_t size, bool planted, bool replaces)
{
  input = bytes;
  input_left = size;
  if (planted) plant();
  int mine = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (setjmp(out_of_it) == 0) {
    tar_unpack(mine, false, replaces);
    FUZZ_NEED(!at_failure);
    check_and_empty(root_fd, 0, false);
  } else if (planted) {
    check_planted();
    check_and_empty(root_fd, 0, false);
  }
  closefrom(mine); /* what a failure left open */
  check_outside();
  check_and_empty(root_fd, 0, true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  enter();
  uint8_t *copy = malloc(size ? size : 1);
  FUZZ_NEED(copy);
  if (size) memcpy(copy, data, size);
  repair(copy, size);
  unpack_once(copy, size, false, false);
  unpack_once(copy, size, true, size / TAR_BLOCK % 2);
  free(copy);
  return 0;
}

static size_t put_entry(uint8_t *out, const char *name, char type, const char *link,
                        const void *data, size_t len)
{
  tar_header header = {.type = type};
  size_t name_len = strlen(name);
  memcpy(header.name, name, name_len < sizeof header.name ? name_len : sizeof header.name);
  if (link) memcpy(header.link, link, strlen(link));
  put_octal(header.mode, sizeof header.mode, 0755);
  put_octal(header.size, sizeof header.size, len);
  put_octal(header.mtime, sizeof header.mtime, 1000000000);
  memcpy(header.magic, "ustar", 6);
  memcpy(header.version, "00", 2);
  memcpy(out, &header, sizeof header);
  memset(out + TAR_BLOCK, 0, (len + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK);
  if (len) memcpy(out + TAR_BLOCK, data, len);
  return TAR_BLOCK + (len + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
  static const char pax[] = "19 path=long/name/\n21 mtime=1234567890.5\n";
  size_t len = 0;
  if (index > 5 || room < 16 * TAR_BLOCK) return 0;
  if (index != 2) len += put_entry(out + len, "d/", TAR_DIR, NULL, NULL, 0);
  if (index == 0 || index == 3) len += put_entry(out + len, "d/f", TAR_FILE, NULL, "hello", 5);
  if (index == 0) len += put_entry(out + len, "h", TAR_HARD, "d/f", NULL, 0);
  if (index == 1) {
    len += put_entry(out + len, "x", TAR_PAX, NULL, pax, sizeof pax - 1);
    len += put_entry(out + len, "short", TAR_DIR, NULL, NULL, 0);
    len += put_entry(out + len, "././@LongLink", TAR_GNU_NAME, NULL, "d/a/b/c", 8);
    len += put_entry(out + len, "short", TAR_FILE, NULL, "x", 1);
  }
  if (index == 2) { /* out by a link */
    len += put_entry(out + len, "l", TAR_LINK, "..", NULL, 0);
    len += put_entry(out + len, "l/canary", TAR_FILE, NULL, "evil", 4);
    len += put_entry(out + len, "../canary", TAR_FILE, NULL, "evil", 4);
  }
  if (index == 3) {
    len += put_entry(out + len, "d/l", TAR_LINK, "../../canary", NULL, 0);
    len += put_entry(out + len, "h", TAR_HARD, "d/l", NULL, 0);
    len += put_entry(out + len, "h", TAR_FILE, NULL, "evil", 4);
    len += put_entry(out + len, "d/l", TAR_FILE, NULL, "good", 4);
  }
  if (index == 4) { /* over what is there: a directory, a file, a link */
    len += put_entry(out + len, "h", TAR_FILE, NULL, "new", 3);
    len += put_entry(out + len, "l/", TAR_DIR, NULL, NULL, 0);
    len += put_entry(out + len, "d/old", TAR_LINK, "../h", NULL, 0);
  }
  if (index == 5) {
    len += put_entry(out + len, "g", TAR_PAX_GLOBAL, NULL, "12 comment=x\n", 13);
    len += put_entry(out + len, "././@LongLink", TAR_GNU_LINK, NULL, "../canary", 10);
    len += put_entry(out + len, "l", TAR_LINK, NULL, NULL, 0);
    len += put_entry(out + len, "s", TAR_GNU_SPARSE, NULL, NULL, 0);
  }
  memset(out + len, 0, 2 * TAR_BLOCK);
  return len + 2 * TAR_BLOCK;
}
