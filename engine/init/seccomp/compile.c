/* compile.c: runs at build time, writes seccomp_filters.h: one BPF program a profile, as bytes.
 *
 * An allow list. What is not on it answers ENOSYS, so that a libc falls back; what is known to be
 * dangerous answers EPERM, so that a program says why it failed; a foreign architecture or an x32
 * number kills. libseccomp makes the filter over the numbers. It is then asked for every number, and a
 * binary search over the runs of equal answers takes its place: far fewer instructions, and each
 * sandbox waits until the kernel has compiled them. Where arguments decide, the answer is a marker that becomes a jump to a
 * short block written here: a block can say "else", which libseccomp's argument rules cannot, and it
 * looks at the low 32 bits only, which is what the kernel does with an int (CVE-2019-10063 was a look
 * at all 64).
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
#define MARKER 0xE00u /* ERRNO data of an answer that becomes a jump to block MARKER + n */
#define BLOCKS_MAX 64
#define NUMBERS 1024 /* more than any architecture has; all above answers as the last does */
#define X32 0x40000000u
#define PROGRAM_MAX 2048
#define RULES_MAX 16 /* of one call */
#define JUMPS_MAX 512
#define ALONE_MAX 4 /* numbers that are looked at one by one in a run of equal answers */

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

/* Jumps whose end is not written yet: an instruction, which side of it, and the verdict at that end. */
typedef struct jump {
  size_t at;
  bool yes;
  uint32_t verdict;
} jump;
typedef struct jumps {
  jump jump[JUMPS_MAX];
  size_t count;
} jumps;

static void later(jumps *list, size_t at, bool yes, uint32_t answer)
{
  if (list->count == JUMPS_MAX) die("too many jumps");
  list->jump[list->count++] = (jump){at, yes, answer};
}

/* To the next instruction. */
static void land(program *p, const jump *j)
{
  size_t far = p->len - j->at - 1;
  if (far > UINT8_MAX) die("a jump of a condition reaches 255 far");
  if (j->yes)
    p->code[j->at].jt = (uint8_t)far;
  else
    p->code[j->at].jf = (uint8_t)far;
}

static void land_all(program *p, jumps *list)
{
  for (size_t i = 0; i < list->count; i++) land(p, &list->jump[i]);
  list->count = 0;
}

/* One end a verdict, for all that jump there. */
static void emit_ends(program *p, jumps *list)
{
  for (size_t i = 0; i < list->count; i++) {
    uint32_t answer = list->jump[i].verdict;
    bool first = true;
    for (size_t k = 0; k < i; k++) first = first && list->jump[k].verdict != answer;
    if (!first) continue;
    for (size_t k = i; k < list->count; k++)
      if (list->jump[k].verdict == answer) land(p, &list->jump[k]);
    emit(p, BPF_RET | BPF_K, answer, 0, 0);
  }
  list->count = 0;
}

typedef const arg_rule *rule_list[RULES_MAX];

static bool looks_alike(const arg_rule *one, const arg_rule *other, unsigned depth)
{
  return other->conditions > depth &&
         one->condition[depth].argument == other->condition[depth].argument &&
         one->condition[depth].mask == other->condition[depth].mask;
}

static void emit_rules(program *p, rule_list rules, size_t count, unsigned depth, jumps *ends,
                       jumps *misses);

/* Rules that look at the same bits next: these are loaded once, and each value has its own rules. Only one
 * value can hold, so what misses those has missed all. */
static void emit_values(program *p, rule_list rules, size_t count, unsigned depth, jumps *ends,
                        jumps *misses)
{
  const arg_condition *c = &rules[0]->condition[depth];
  emit_load(p, c->argument);
  if (c->mask != UINT32_MAX) emit(p, BPF_ALU | BPF_AND | BPF_K, c->mask, 0, 0);
  bool done[RULES_MAX] = {false};
  for (size_t i = 0, left = count; left; i++) {
    if (done[i]) continue;
    uint32_t value = rules[i]->condition[depth].value;
    rule_list same;
    size_t found = 0;
    for (size_t k = i; k < count; k++)
      if (rules[k]->condition[depth].value == value) {
        done[k] = true;
        same[found++] = rules[k];
      }
    left -= found;
    jump miss = {.at = p->len};
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 0);
    if (same[0]->conditions == depth + 1)
      later(ends, miss.at, true, verdict(same[0]->answer));
    else
      emit_rules(p, same, found, depth + 1, ends, misses);
    if (left)
      land(p, &miss);
    else
      later(misses, miss.at, false, 0);
  }
}

/* Rules whose conditions before `depth` hold. Where none holds whole, it ends in `misses`. */
static void emit_rules(program *p, rule_list rules, size_t count, unsigned depth, jumps *ends,
                       jumps *misses)
{
  jumps missed = {.count = 0};
  for (size_t i = 0, next; i < count; i = next) {
    land_all(p, &missed);
    if (rules[i]->conditions == depth) {
      emit(p, BPF_RET | BPF_K, verdict(rules[i]->answer), 0, 0);
      return;
    }
    next = i + 1;
    while (next < count && looks_alike(rules[i], rules[next], depth)) next++;
    emit_values(p, rules + i, next - i, depth, ends, &missed);
  }
  for (size_t i = 0; i < missed.count; i++) later(misses, missed.jump[i].at, missed.jump[i].yes, 0);
}

static void emit_block(program *p, const arg_block *block)
{
  jumps ends = {.count = 0}, misses = {.count = 0};
  rule_list rules;
  if (block->count > RULES_MAX) die("too many rules for one call");
  for (size_t i = 0; i < block->count; i++) rules[i] = &block->rules[i];
  emit_rules(p, rules, block->count, 0, &ends, &misses);
  for (size_t i = 0; i < misses.count; i++)
    later(&ends, misses.jump[i].at, misses.jump[i].yes, verdict(block->otherwise));
  if (!block->count) emit(p, BPF_RET | BPF_K, verdict(block->otherwise), 0, 0);
  emit_ends(p, &ends);
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

/* What the filter may say is a matter of the kernel that will load it, not of the one that builds: told
 * nothing, libseccomp asks the latter, which an emulator or a container may answer with no. */
static scmp_filter_ctx new_tree(uint32_t otherwise)
{
  if (seccomp_api_set(3) < 0) die("libseccomp does not know KILL_PROCESS");
  scmp_filter_ctx tree = seccomp_init(otherwise);
  if (!tree) die("seccomp_init failed");
  if (seccomp_attr_set(tree, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) < 0)
    die("no KILL_PROCESS for foreign architectures");
  if (seccomp_attr_set(tree, SCMP_FLTATR_CTL_OPTIMIZE, 2) < 0) die("no tree optimisation");
  return tree;
}

static void add_blocks(scmp_filter_ctx tree, const arg_block *blocks, size_t count)
{
  for (size_t b = 0; b < count; b++)
    add(tree, &blocks[b].call, SCMP_ACT_ERRNO(MARKER + (uint32_t)b));
}

static scmp_filter_ctx make_tree(unsigned profile)
{
  scmp_filter_ctx tree = new_tree(SCMP_ACT_ERRNO(ENOSYS));
  add_all(tree, ALLOWED, COUNT(ALLOWED), profile);
  add_all(tree, REFUSED, COUNT(REFUSED), profile);
  add_blocks(tree, ARG_BLOCKS, COUNT(ARG_BLOCKS));
  return tree;
}

static scmp_filter_ctx make_setid_tree(void)
{
  scmp_filter_ctx tree = new_tree(SCMP_ACT_ALLOW);
  add_blocks(tree, SETID_BLOCKS, COUNT(SETID_BLOCKS));
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

/* ---- asking it ------------------------------------------------------------------------------ */

/* What libseccomp's program answers; it looks at number and architecture alone. */
static uint32_t ask(const program *p, uint32_t arch, uint32_t number)
{
  uint32_t a = 0;
  for (size_t at = 0; at < p->len; at++) {
    struct sock_filter i = p->code[at];
    switch (i.code) {
    case BPF_LD | BPF_W | BPF_ABS:
      if (i.k == offsetof(struct seccomp_data, nr))
        a = number;
      else if (i.k == offsetof(struct seccomp_data, arch))
        a = arch;
      else
        die("libseccomp's filter looks at arguments");
      break;
    case BPF_JMP | BPF_JA: at += i.k; break;
    case BPF_JMP | BPF_JEQ | BPF_K: at += a == i.k ? i.jt : i.jf; break;
    case BPF_JMP | BPF_JGT | BPF_K: at += a > i.k ? i.jt : i.jf; break;
    case BPF_JMP | BPF_JGE | BPF_K: at += a >= i.k ? i.jt : i.jf; break;
    case BPF_RET | BPF_K: return i.k;
    default: die("an instruction of libseccomp's that is new to us");
    }
  }
  die("libseccomp's filter runs out");
  return 0;
}

typedef struct run {
  uint32_t first, answer;
  uint32_t alone[ALONE_MAX], other[ALONE_MAX]; /* numbers in it, and their answers */
  size_t alone_count;
} run;
typedef struct runs {
  run run[NUMBERS];
  size_t count;
} runs;

static void find_runs(const program *filter, uint32_t arch, runs *out)
{
  out->count = 0;
  for (uint32_t number = 0; number < NUMBERS; number++) {
    uint32_t answer = ask(filter, arch, number);
    if (!out->count || out->run[out->count - 1].answer != answer)
      out->run[out->count++] = (run){.first = number, .answer = answer};
  }
  uint32_t last = out->run[out->count - 1].answer;
  if (ask(filter, arch, X32 - 1) != last || ask(filter, arch, UINT32_MAX) != last)
    die("numbers that nobody has are not all answered alike");
  if (ask(filter, arch + 1, 0) != SECCOMP_RET_KILL_PROCESS)
    die("another architecture is not killed");
}

/* ---- the program ----------------------------------------------------------------------------- */

/* One number between two runs that are answered alike makes one run of three. */
static void join_runs(runs *r)
{
  size_t count = 0;
  for (size_t i = 0; i < r->count; i++) {
    run *last = count ? &r->run[count - 1] : NULL;
    const run *here = &r->run[i], *next = i + 1 < r->count ? here + 1 : NULL;
    if (last && next && next->first == here->first + 1 && next->answer == last->answer &&
        last->alone_count < ALONE_MAX) {
      last->alone[last->alone_count] = here->first;
      last->other[last->alone_count++] = here->answer;
      i++;
    } else {
      r->run[count++] = *here;
    }
  }
  r->count = count;
}

static bool is_answer(const runs *r, size_t low, size_t high)
{
  return low == high && !r->run[low].alone_count;
}

/* An answer with a marker is left as it is until its block has a place. */
static void emit_search(program *p, const runs *r, size_t low, size_t high, jumps *ends)
{
  const run *leaf = &r->run[low];
  if (low == high) {
    for (size_t i = 0; i < leaf->alone_count; i++) {
      later(ends, p->len, true, leaf->other[i]);
      emit(p, BPF_JMP | BPF_JEQ | BPF_K, leaf->alone[i], 0, 0);
    }
    later(ends, p->len - 1, false, leaf->answer);
    return;
  }
  size_t middle = (low + high + 1) / 2;
  jump right = {.at = p->len, .yes = true};
  emit(p, BPF_JMP | BPF_JGE | BPF_K, r->run[middle].first, 0, 0);
  if (is_answer(r, low, middle - 1))
    later(ends, right.at, false, leaf->answer);
  else
    emit_search(p, r, low, middle - 1, ends);
  if (is_answer(r, middle, high)) {
    later(ends, right.at, true, r->run[middle].answer);
  } else {
    land(p, &right);
    emit_search(p, r, middle, high, ends);
  }
}

/* x32 is on x86_64 only; elsewhere no number is that high. UINT32_MAX is a debugger's "skip this". */
static void emit_program(program *p, const runs *r, uint32_t arch)
{
  uint32_t unknown = r->run[r->count - 1].answer;
  p->len = 0;
  emit(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
  emit(p, BPF_JMP | BPF_JEQ | BPF_K, arch, 1, 0);
  emit(p, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
  emit(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
  emit(p, BPF_JMP | BPF_JGE | BPF_K, X32, 0, 3);
  emit(p, BPF_JMP | BPF_JEQ | BPF_K, UINT32_MAX, 0, 1);
  emit(p, BPF_RET | BPF_K, unknown, 0, 0);
  emit(p, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
  jumps ends = {.count = 0};
  if (is_answer(r, 0, r->count - 1)) die("a filter that answers all numbers alike");
  emit_search(p, r, 0, r->count - 1, &ends);
  emit_ends(p, &ends);
}

static bool is_marker(const struct sock_filter *i, size_t *block)
{
  if (i->code != (BPF_RET | BPF_K) || (i->k & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_ERRNO ||
      (i->k & SECCOMP_RET_DATA) < MARKER)
    return false;
  *block = (i->k & SECCOMP_RET_DATA) - MARKER;
  return true;
}

static bool same_block(const arg_block *one, const arg_block *other)
{
  return one->rules == other->rules && one->count == other->count &&
         one->otherwise == other->otherwise;
}

static void join_blocks(program *p, const arg_block *blocks, size_t count)
{
  size_t tree = p->len, start[BLOCKS_MAX], block;
  if (count > BLOCKS_MAX) die("too many blocks");
  for (size_t b = 0; b < count; b++) {
    size_t twin = 0;
    while (!same_block(&blocks[twin], &blocks[b])) twin++;
    start[b] = twin < b ? start[twin] : p->len;
    if (twin == b) emit_block(p, &blocks[b]);
  }
  for (size_t i = 0; i < tree; i++) {
    if (!is_marker(&p->code[i], &block)) continue;
    if (block >= count) die("a leaf with an unknown marker");
    p->code[i] =
        (struct sock_filter){.code = BPF_JMP | BPF_JA, .k = (uint32_t)(start[block] - i - 1)};
  }
}

static uint32_t native_arch(void)
{
#if defined(__x86_64__)
  return AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
  return AUDIT_ARCH_AARCH64;
#else
#error "no seccomp filter for this architecture"
#endif
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

static void make_program(FILE *out, const char *name, scmp_filter_ctx tree, const arg_block *blocks,
                         size_t count)
{
  static program filter, p;
  static runs r;
  read_program(tree, &filter);
  find_runs(&filter, native_arch(), &r);
  join_runs(&r);
  emit_program(&p, &r, native_arch());
  join_blocks(&p, blocks, count);
  write_program(out, name, &p);
  seccomp_release(tree);
}

int main(int argc, char **argv)
{
  if (argc != 2) die("usage: seccomp_compile OUT.h");
  FILE *out = fopen(argv[1], "w");
  if (!out) die("cannot write the header");
  fprintf(out, "/* Made by seccomp/compile.c. The index is enum mcg_spawn_profile. */\n"
               "#include <linux/filter.h>\n");
  for (unsigned profile = 0; profile < COUNT(PROFILE_NAMES); profile++)
    make_program(out, PROFILE_NAMES[profile], make_tree(profile), ARG_BLOCKS, COUNT(ARG_BLOCKS));
  make_program(out, "no_setid", make_setid_tree(), SETID_BLOCKS, COUNT(SETID_BLOCKS));
  fprintf(out, "static const struct {\n  const char *name;\n  const struct sock_filter *code;\n"
               "  unsigned short len;\n} mcg_seccomp_filters[] = {\n");
  for (unsigned i = 0; i < COUNT(PROFILE_NAMES); i++)
    fprintf(out, "  {\"%s\", mcg_seccomp_%s, sizeof mcg_seccomp_%s / sizeof *mcg_seccomp_%s},\n",
            PROFILE_NAMES[i], PROFILE_NAMES[i], PROFILE_NAMES[i], PROFILE_NAMES[i]);
  fprintf(out, "};\n");
  return fclose(out) == 0 ? 0 : 1;
}
