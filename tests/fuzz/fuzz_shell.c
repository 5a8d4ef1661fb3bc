/* The parser of shell text, and what it finds in programs that run others. Of all that is told the places
 * must be in the text, the words must be texts, and a list of arguments must stay what it was. */
#include "fuzz.h"
#include "decide/shell.h"

#include <string.h>

static void check_words(const mcg_shell_word *word, size_t count, size_t len)
{
  size_t seen = 0;
  for (; word && seen < count; word = word->next) {
    FUZZ_NEED(word->text && strlen(word->text) == word->len);
    FUZZ_NEED(word->at <= len);
    FUZZ_NEED(!word->why || word->prefix || word->text);
    seen++;
  }
  FUZZ_NEED(seen == count);
}

static void check(const mcg_shell *shell, size_t len)
{
  size_t place = 0;
  for (const mcg_shell_command *each = shell->first; each; each = each->next) {
    check_words(each->words, each->count, len);
    FUZZ_NEED(each->at <= len);
    FUZZ_NEED(each->inside != each);
    FUZZ_NEED(each->unclear || !each->untold);
    for (const mcg_shell_untold *untold = each->untold; untold; untold = untold->next)
      FUZZ_NEED(untold->why && untold->word <= each->count);
    FUZZ_NEED(++place <= MCG_SHELL_COMMANDS);
  }
}

static void as_argv(const uint8_t *data, size_t size)
{
  const char *argv[64];
  size_t lens[64], count = 0;
  char *copy = malloc(size + 1);
  FUZZ_NEED(copy);
  memcpy(copy, data, size);
  copy[size] = '\0';
  for (char *at = copy; at < copy + size && count < 64; at += lens[count - 1] + 1) {
    argv[count] = at;
    lens[count++] = strcspn(at, "\n");
    at[lens[count - 1]] = '\0';
    if (strlen(at) != lens[count - 1]) lens[count - 1] = strlen(at);
  }
  mcg_shell shell;
  mcg_shell_init(&shell);
  if (count && mcg_shell_take_argv(&shell, argv, lens, count) == 0) {
    mcg_shell_unwrap(&shell);
    FUZZ_NEED(shell.first->count == count);
    check(&shell, size);
  }
  mcg_shell_fini(&shell);
  free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size == 0) return 0;
  if (data[0] == '\1') {
    as_argv(data + 1, size - 1);
    return 0;
  }
  mcg_shell shell;
  mcg_shell_init(&shell);
  if (mcg_shell_parse(&shell, (const char *)data, size) == 0) {
    mcg_shell_unwrap(&shell);
    check(&shell, size);
  } else {
    FUZZ_NEED(shell.why && shell.why_at <= size);
  }
  mcg_shell_fini(&shell);
  return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
  static const char *const seeds[] = {
      "aa; bb && cc || dd | ee & (ff) { gg; }",
      "aa \"$(bb `cc \\`dd\\``)\" ${x:-$(ee)} $((1 + $(ff))) 'q' \\x #c\ngg",
      "cat <<E <<-'F' | sh\n$(aa) `bb`\nE\n\t$(cc)\n\tF\ndd",
      "if aa; then bb; elif cc; then dd; else ee; fi > out 2>&1",
      "case $x in (a|b) aa;; *) bb; esac; for i in $(aa) b; do cc $i; done",
      "while read x; do eval \"aa\"; done < f; f() { aa; }; trap 'bb' EXIT",
      "env -S 'A=1 sh -c \"aa\"' x; sudo -u r nice -n 5 xargs -I{} aa {}",
      "find . -exec sh -c 'aa {}' \\; -ok bb {} + -delete; tar --checkpoint-act=exec='aa' x",
      "git -c alias.x='!aa' x; sed -e 's/[/]/x/e' f; awk 'BEGIN{system(1)}'; make -f - A=$(bb)",
      "\1env\n-S\nsh -c 'aa $(bb)'\nx",
      "\1xargs\n-0\nbash\n-c\naa; bb <<E\n",
  };
  size_t len = index < sizeof seeds / sizeof *seeds ? strlen(seeds[index]) : 0;
  if (len > room) return 0;
  memcpy(out, seeds[len ? index : 0], len);
  return len;
}
