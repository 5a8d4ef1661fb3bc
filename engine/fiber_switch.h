/* fiber_switch.h: from one C stack to another. For fiber.c only.
 *
 * On x86-64 a switch is a page of assembly that saves what the ABI says a call must keep, and makes
 * no system call. Elsewhere, under shadow stacks (-fcf-protection), and with MOONCAGE_UCONTEXT, it is
 * ucontext, which does the same in more time. Neither changes anything but the registers for the
 * engine: signal masks are those of the thread, and nobody here changes them. */
#ifndef MCG_FIBER_SWITCH_H
#define MCG_FIBER_SWITCH_H

#include <stddef.h>
#include <stdint.h>

#if !defined(__x86_64__) || !defined(__LP64__) || (defined(__CET__) && (__CET__ & 2))
#ifndef MOONCAGE_UCONTEXT
#define MOONCAGE_UCONTEXT
#endif
#endif

#ifdef MOONCAGE_UCONTEXT

#include <ucontext.h>

typedef struct switch_context {
  ucontext_t registers;
  void (*entry)(void *arg);
  void *arg;
} switch_context;

static void switch_enter(unsigned high, unsigned low)
{
  switch_context *context = (switch_context *)((uintptr_t)high << 16 << 16 | low);
  context->entry(context->arg);
}

/* `entry` must never return. */
static void switch_prepare(switch_context *context, void *stack, size_t size,
                           void (*entry)(void *arg), void *arg)
{
  uintptr_t address = (uintptr_t)context;
  getcontext(&context->registers);
  context->entry = entry;
  context->arg = arg;
  context->registers.uc_stack.ss_sp = stack;
  context->registers.uc_stack.ss_size = size;
  context->registers.uc_link = NULL;
  makecontext(&context->registers, (void (*)(void))switch_enter, 2, (unsigned)(address >> 16 >> 16),
              (unsigned)address);
}

static inline void switch_to(switch_context *from, switch_context *to)
{
  swapcontext(&from->registers, &to->registers);
}

#else

typedef struct switch_context {
  void *stack_pointer;
} switch_context;

__attribute__((visibility("hidden"))) void mcg__switch(void **save, void *load);
__attribute__((visibility("hidden"))) void mcg__switch_first(void);

/* Pushed by one side and popped by the other: rbp rbx r12 r13 r14 r15, then the control words of SSE
 * and x87. mcg__switch_first is where a new stack "returns" to: it calls r13 with r12. */
__asm__(".pushsection .text\n"
        ".p2align 4\n"
        ".globl mcg__switch\n"
        ".hidden mcg__switch\n"
        ".type mcg__switch, @function\n"
        "mcg__switch:\n"
        ".cfi_startproc\n"
        "  pushq %rbp\n"
        "  pushq %rbx\n"
        "  pushq %r12\n"
        "  pushq %r13\n"
        "  pushq %r14\n"
        "  pushq %r15\n"
        "  subq $8, %rsp\n"
        "  stmxcsr (%rsp)\n"
        "  fnstcw 4(%rsp)\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  ldmxcsr (%rsp)\n"
        "  fldcw 4(%rsp)\n"
        "  addq $8, %rsp\n"
        "  popq %r15\n"
        "  popq %r14\n"
        "  popq %r13\n"
        "  popq %r12\n"
        "  popq %rbx\n"
        "  popq %rbp\n"
        "  ret\n"
        ".cfi_endproc\n"
        ".size mcg__switch, . - mcg__switch\n"
        ".p2align 4\n"
        ".globl mcg__switch_first\n"
        ".hidden mcg__switch_first\n"
        ".type mcg__switch_first, @function\n"
        "mcg__switch_first:\n"
        ".cfi_startproc\n"
        ".cfi_undefined rip\n" /* unwinders stop here */
        "  xorl %ebp, %ebp\n"
        "  movq %r12, %rdi\n"
        "  call *%r13\n"
        "  ud2\n"
        ".cfi_endproc\n"
        ".size mcg__switch_first, . - mcg__switch_first\n"
        ".popsection\n");

/* `entry` must never return. */
static void switch_prepare(switch_context *context, void *stack, size_t size,
                           void (*entry)(void *arg), void *arg)
{
  uint32_t control = 0;
  uint16_t x87 = 0;
  __asm__ volatile("stmxcsr %0" : "=m"(control));
  __asm__ volatile("fnstcw %0" : "=m"(x87));
  uint64_t *top = (uint64_t *)((uintptr_t)stack + size);
  *--top = 0; /* so that the stack is aligned as at a call */
  *--top = 0;
  *--top = (uint64_t)(uintptr_t)mcg__switch_first;
  *--top = 0;                          /* rbp */
  *--top = 0;                          /* rbx */
  *--top = (uint64_t)(uintptr_t)arg;   /* r12 */
  *--top = (uint64_t)(uintptr_t)entry; /* r13 */
  *--top = 0;                          /* r14 */
  *--top = 0;                          /* r15 */
  *--top = (uint64_t)x87 << 32 | control;
  context->stack_pointer = top;
}

static inline void switch_to(switch_context *from, switch_context *to)
{
  mcg__switch(&from->stack_pointer, to->stack_pointer);
}

#endif
#endif
