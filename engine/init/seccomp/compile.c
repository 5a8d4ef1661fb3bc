/* compile.c: runs at build time, writes seccomp_filters.h: one BPF program a profile, as bytes.
 *
 * An allow list. What is not on it answers ENOSYS, so that a libc falls back; what is known to be
 * dangerous answers EPERM, so that a program says why it failed; a foreign architecture or an x32
 * number kills. libseccomp makes the check of the architecture and the tree over the numbers. Where
 * arguments decide, its leaf is a marker, and the marker becomes a jump to a short block written here:
 * a block can say "else", which libseccomp's argument rules cannot, and it looks at the low 32 bits
 * only, which is what the kernel does with an int (CVE-2019-10063 was a look at all 64).
 *
 * Calls newer than libseccomp 2.5.4 stand with their number, which is the same on every architecture,
 * so that old and new libseccomp make the same program. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lists.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define MARKER 0xE00u /* ERRNO data of a leaf that becomes a jump to block MARKER + n */
#define PROGRAM_MAX 2048

typedef struct program {
  struct sock_filter code[PROGRAM_MAX];
  size_t len;
} program;

static void die(const char *what)
{
  fprintf(stderr, "seccomp_compile: %s\n", what);
  exit(1);
}

static void emit(program *p, uint16_t code, uint32_t k, uint8_t yes, uint8_t no)
{
  if (p->len == PROGRAM_MAX) die("a filter is too long");
  p->code[p->len++] = (struct sock_filter){.code = code, .k = k, .jt = yes, .jf = no};
}

/* ---- blocks: rules over arguments, first match wins, then `otherwise` ---------------------- */

static uint32_t verdict(int answer)
{
  if (answer == PRETEND) return SECCOMP_RET_ERRNO;
  return answer ? SECCOMP_RET_ERRNO | (uint32_t)answer : SECCOMP_RET_ALLOW;
}

static void emit_load(program *p, int argument)
{
  /* Low half first on both architectures that Mooncage runs on. */
  emit(p, BPF_LD | BPF_W | BPF_ABS,
       (uint32_t)(offsetof(struct seccomp_data, args) + 8 * (size_t)(argument & ~HIGH) +
                  (argument & HIGH ? 4 : 0)),
       0, 0);
}

/* Falls to the instruction after the rule's RET where a condition does not hold. */
static void emit_rule(program *p, const arg_rule *rule)
{
  size_t misses[8], missed = 0;
  for (size_t i = 0; i < rule->conditions; i++) {
    const arg_condition *c = &rule->condition[i];
    emit_load(p, c->argument);
    if (c->mask != UINT32_MAX) emit(p, BPF_ALU | BPF_AND | BPF_K, c->mask, 0, 0);
    misses[missed++] = p->len;
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, c->value, 0, 0);
  }
  emit(p, BPF_RET | BPF_K, verdict(rule->answer), 0, 0);
  for (size_t i = 0; i < missed; i++) p->code[misses[i]].jf = (uint8_t)(p->len - misses[i] - 1);
}

static void emit_block(program *p, const arg_block *block)
{
  for (size_t i = 0; i < block->count; i++) emit_rule(p, &block->rules[i]);
  emit(p, BPF_RET | BPF_K, verdict(block->otherwise), 0, 0);
}

/* Every leaf that carries a marker becomes a jump to its block at the end. */
static void join_blocks(program *p)
{
  size_t tree = p->len, start[COUNT(ARG_BLOCKS)];
  for (size_t b = 0; b < COUNT(ARG_BLOCKS); b++) {
    start[b] = p->len;
    emit_block(p, &ARG_BLOCKS[b]);
  }
  for (size_t i = 0; i < tree; i++) {
    if (p->code[i].code != (BPF_RET | BPF_K)) continue;
    uint32_t action = p->code[i].k & SECCOMP_RET_ACTION_FULL,
             data = p->code[i].k & SECCOMP_RET_DATA;
    if (action != SECCOMP_RET_ERRNO || data < MARKER) continue;
    if (data - MARKER >= COUNT(ARG_BLOCKS)) die("a leaf with an unknown marker");
    p->code[i] = (struct sock_filter){.code = BPF_JMP | BPF_JA,
                                      .k = (uint32_t)(start[data - MARKER] - i - 1)};
  }
}

/* ---- the tree over the numbers -------------------------------------------------------------- */

/* Negative: this architecture has no such call. */
static int number_of(const call *c)
{
  int number = seccomp_syscall_resolve_name(c->name);
  if (number == __NR_SCMP_ERROR && !c->number) {
    fprintf(stderr, "seccomp_compile: unknown call %s needs its number\n", c->name);
    exit(1);
  }
  return number == __NR_SCMP_ERROR ? c->number : number;
}

static void add(scmp_filter_ctx tree, const call *c, uint32_t action)
{
  int number = number_of(c);
  if (number < 0) return;
  int rc = seccomp_rule_add_exact(tree, action, number, 0);
  if (rc < 0) {
    fprintf(stderr, "seccomp_compile: %s: %s\n", c->name, strerror(-rc));
    exit(1);
  }
}

static void add_all(scmp_filter_ctx tree, const call *calls, size_t count, unsigned profile)
{
  for (size_t i = 0; i < count; i++) {
    const call *c = &calls[i];
    if (c->debug && profile == PROFILE_DEBUG)
      add(tree, c, SCMP_ACT_ALLOW);
    else if (c->answer)
      add(tree, c, SCMP_ACT_ERRNO((uint32_t)c->answer));
    else
      add(tree, c, SCMP_ACT_ALLOW);
  }
}

static scmp_filter_ctx make_tree(unsigned profile)
{
  scmp_filter_ctx tree = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
  if (!tree) die("seccomp_init failed");
  if (seccomp_attr_set(tree, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) < 0)
    die("no KILL_PROCESS for foreign architectures");
  if (seccomp_attr_set(tree, SCMP_FLTATR_CTL_OPTIMIZE, 2) < 0) die("no tree optimisation");
  add_all(tree, ALLOWED, COUNT(ALLOWED), profile);
  add_all(tree, REFUSED, COUNT(REFUSED), profile);
  for (size_t b = 0; b < COUNT(ARG_BLOCKS); b++)
    add(tree, &ARG_BLOCKS[b].call, SCMP_ACT_ERRNO(MARKER + (uint32_t)b));
  return tree;
}

static void read_program(scmp_filter_ctx tree, program *out)
{
  FILE *file = tmpfile();
  if (!file || seccomp_export_bpf(tree, fileno(file)) < 0) die("cannot export the filter");
  if (lseek(fileno(file), 0, SEEK_SET) < 0) die("cannot rewind the filter");
  ssize_t got = read(fileno(file), out->code, sizeof out->code);
  if (got <= 0 || (size_t)got % sizeof *out->code || (size_t)got == sizeof out->code)
    die("the exported filter has a strange size");
  out->len = (size_t)got / sizeof *out->code;
  fclose(file);
}

/* ---- output --------------------------------------------------------------------------------- */

static void write_program(FILE *out, const char *name, const program *p)
{
  fprintf(out, "static const struct sock_filter mcg_seccomp_%s[] = {", name);
  for (size_t i = 0; i < p->len; i++)
    fprintf(out, "%s{0x%02x,%u,%u,0x%08x},", i % 4 ? " " : "\n  ", p->code[i].code, p->code[i].jt,
            p->code[i].jf, p->code[i].k);
  fprintf(out, "\n};\n");
}

int main(int argc, char **argv)
{
  if (argc != 2) die("usage: seccomp_compile OUT.h");
  FILE *out = fopen(argv[1], "w");
  if (!out) die("cannot write the header");
  fprintf(out, "/* Made by seccomp/compile.c. The index is enum mcg_spawn_profile. */\n"
               "#include <linux/filter.h>\n");
  for (unsigned profile = 0; profile < COUNT(PROFILE_NAMES); profile++) {
    scmp_filter_ctx tree = make_tree(profile);
    static program p;
    read_program(tree, &p);
    join_blocks(&p);
    write_program(out, PROFILE_NAMES[profile], &p);
    seccomp_release(tree);
  }
  fprintf(out, "static const struct {\n  const char *name;\n  const struct sock_filter *code;\n"
               "  unsigned short len;\n} mcg_seccomp_filters[] = {\n");
  for (unsigned i = 0; i < COUNT(PROFILE_NAMES); i++)
    fprintf(out, "  {\"%s\", mcg_seccomp_%s, sizeof mcg_seccomp_%s / sizeof *mcg_seccomp_%s},\n",
            PROFILE_NAMES[i], PROFILE_NAMES[i], PROFILE_NAMES[i], PROFILE_NAMES[i]);
  fprintf(out, "};\n");
  return fclose(out) == 0 ? 0 : 1;
}
