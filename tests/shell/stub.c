/* Stands for every program in the differential test of the shell parser: appends its arguments to the
 * file $STUB_LOG, prints a word. When the file has grown it fails, so that no loop is endless. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_MAX 4096

int main(int argc, char **argv)
{
  static char record[1 << 16];
  size_t len = 0;
  const char *path = getenv("STUB_LOG");
  int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
  struct stat about;
  if (fd < 0 || fstat(fd, &about) < 0 || about.st_size > LOG_MAX) return 1;
  for (int i = 0; i < argc; i++) {
    const char *text = argv[i];
    if (i == 0 && strrchr(text, '/')) text = strrchr(text, '/') + 1;
    size_t size = strlen(text) + 1;
    if (size > sizeof record - len - 1) return 1;
    memcpy(record + len, text, size);
    len += size;
  }
  record[len++] = '\001'; /* a record's end */
  if (write(fd, record, len) != (ssize_t)len) return 1;
  return write(1, "word\n", 5) == 5 ? 0 : 1;
}
