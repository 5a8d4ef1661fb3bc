/* shell_memory.c: the memory of one parse, which is freed as a whole, and its bounds. */
#include "shell_parts.h"
#include <string.h>

#define FIRST ((size_t)960) /* most commands need no more, and malloc has such at hand */
#define BLOCK ((size_t)8 << 10)
#define TAKEN_MAX ((size_t)16 << 20)

struct mcg_shell_block {
  struct mcg_shell_block *next;
  size_t size, used;
  _Alignas(max_align_t) char bytes[];
};

void mcg_shell_init(mcg_shell *shell)
{
  *shell = (mcg_shell){0};
  shell->end = &shell->first;
}

void mcg_shell_fini(mcg_shell *shell)
{
  for (struct mcg_shell_block *block = shell->blocks, *next; block; block = next) {
    next = block->next;
    free(block);
  }
  mcg_shell_init(shell);
}

int mcg__shell_fail(mcg_shell *shell, size_t at, const char *why)
{
  if (!shell->why) {
    shell->why = why;
    shell->why_at = at;
  }
  return -1;
}

void *mcg__shell_take(mcg_shell *shell, size_t size)
{
  size = (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
  struct mcg_shell_block *block = shell->blocks;
  if (!block || block->size - block->used < size) {
    size_t least = block ? BLOCK : FIRST;
    size_t room = size > least ? size : least;
    shell->taken += room;
    block = shell->taken <= TAKEN_MAX ? malloc(sizeof *block + room) : NULL;
    if (!block) {
      shell->full = true;
      mcg__shell_fail(shell, 0, "it is too large to be taken apart");
      return NULL;
    }
    block->next = shell->blocks;
    block->size = room;
    block->used = 0;
    shell->blocks = block;
  }
  void *taken = block->bytes + block->used;
  block->used += size;
  return memset(taken, 0, size);
}

char *mcg__shell_copy(mcg_shell *shell, const char *text, size_t len)
{
  char *copy = mcg__shell_take(shell, len + 1);
  if (copy && len) memcpy(copy, text, len);
  return copy;
}

mcg_shell_command *mcg__shell_command(mcg_shell *shell, size_t at)
{
  mcg_shell_command *command = mcg__shell_take(shell, sizeof *command);
  if (!command) return NULL;
  command->at = at;
  if (++shell->count <= MCG_SHELL_COMMANDS) return command;
  shell->full = true;
  mcg__shell_fail(shell, at, "there are more than 1000 commands in it");
  return NULL;
}

void mcg__shell_add(mcg_shell *shell, mcg_shell_command *command)
{
  *shell->end = command;
  shell->end = &command->next;
}

int mcg__shell_deeper(mcg_shell *shell, size_t at)
{
  if (++shell->depth <= MCG_SHELL_DEPTH) return 0;
  return mcg__shell_fail(shell, at, "it is nested too deeply");
}
