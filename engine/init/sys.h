/* sys.h: system calls without libc's errno.
 *
 * A stub shares init's memory but is another process: a libc wrapper that failed in the stub would
 * overwrite the errno init is about to read. Results are as the kernel gives them: -errno. */
#ifndef MCG_SYS_H
#define MCG_SYS_H

#include <sys/syscall.h>

#if defined(__x86_64__)
static inline long mcg_sys(long n, long a, long b, long c, long d, long e)
{
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                   : "rcx", "r11", "memory");
  return result;
}
#elif defined(__aarch64__)
static inline long mcg_sys(long n, long a, long b, long c, long d, long e)
{
  register long x8 __asm__("x8") = n;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  __asm__ volatile("svc 0"
                   : "+r"(x0)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
                   : "memory", "cc");
  return x0;
}
#else
#error "mooncage-init knows the system call instruction of x86_64 and aarch64 only"
#endif

static inline long mcg_sys3(long n, long a, long b, long c)
{
  return mcg_sys(n, a, b, c, 0, 0);
}

#endif
