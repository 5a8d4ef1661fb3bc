/* spew MEBIBYTES: writes that much to stdout in pieces of 64 KiB, as fast as the reader takes it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
  static char piece[64 * 1024];
  memset(piece, 'x', sizeof piece);
  long long left = (argc > 1 ? atoll(argv[1]) : 1) << 20;
  while (left > 0) {
    ssize_t n = write(1, piece, (size_t)left < sizeof piece ? (size_t)left : sizeof piece);
    if (n <= 0) return 1;
    left -= n;
  }
  return 0;
}
