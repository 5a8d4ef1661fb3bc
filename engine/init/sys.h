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

/* clone: the child calls run(data), which never returns, on a stack that ends at `stack` (16-aligned). */
static inline long mcg_sys_clone(long flags, void *stack, int *parent_tid, void *child_tid,
                                 void (*run)(void *), void *data)
{
  long result;
  register long r10 __asm__("r10") = (long)child_tid;
  register long r8 __asm__("r8") = 0;
  __asm__ volatile("syscall\n\t"
                   "test %%rax, %%rax\n\t"
                   "jnz 1f\n\t"
                   "mov %[data], %%rdi\n\t"
                   "call *%[run]\n\t"
                   "hlt\n"
                   "1:"
                   : "=a"(result)
                   : "a"(SYS_clone), "D"(flags), "S"(stack), "d"(parent_tid), "r"(r10),
                     "r"(r8), [run] "r"(run), [data] "r"(data)
                   : "rcx", "r11", "memory", "cc");
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

static inline long mcg_sys_clone(long flags, void *stack, int *parent_tid, void *child_tid,
                                 void (*run)(void *), void *data)
{
  register long x8 __asm__("x8") = SYS_clone;
  register long x0 __asm__("x0") = flags;
  register long x1 __asm__("x1") = (long)stack;
  register long x2 __asm__("x2") = (long)parent_tid;
  register long x3 __asm__("x3") = 0;
  register long x4 __asm__("x4") = (long)child_tid;
  __asm__ volatile("svc 0\n\t"
                   "cbnz x0, 1f\n\t"
                   "mov x0, %[data]\n\t"
                   "blr %[run]\n\t"
                   "brk 0\n"
                   "1:"
                   : "+r"(x0)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), [run] "r"(run), [data] "r"(data)
                   : "memory", "cc", "x30");
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
