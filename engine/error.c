/* error.c: the one error type: making it, giving it context, freeing it. Text that goes to a terminal
 * or a log is made one harmless line here, whatever a sandboxed program or a config put into it. */
#include "engine.h"
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#define TEXT_MAX 4096 /* bytes kept of a message before escaping */

const char *mcg_code_name(mcg_code code)
{
  switch (code) {
#define MCG_CODE_NAME(name, text)                                                                  \
  case MCG_##name: return text;
    MCG_CODES(MCG_CODE_NAME)
#undef MCG_CODE_NAME
  }
  return "internal";
}

/* What is handed out when there is no memory for an error. Never freed, never changed. */
static char out_of_memory_message[] = "out of memory";
static mcg_error out_of_memory = {
    .code = MCG_NOMEM, .retryable = true, .message = out_of_memory_message};

void mcg_error_free(mcg_error *error)
{
  while (error && error != &out_of_memory) {
    mcg_error *cause = error->cause;
    free(error->message);
    free(error->fix);
    free(error);
    error = cause;
  }
}

void mcg_error_set_backend(mcg_error *error, const char *backend)
{
  if (error && error != &out_of_memory && !error->backend) error->backend = backend;
}

mcg_error *mcg_error_copy(const mcg_error *error)
{
  mcg_error *copy = calloc(1, sizeof *copy);
  if (!copy) return &out_of_memory;
  copy->code = error->code;
  copy->retryable = error->retryable;
  copy->backend = error->backend;
  copy->message = strdup(error->message);
  copy->fix = error->fix ? strdup(error->fix) : NULL;
  copy->cause = error->cause ? mcg_error_copy(error->cause) : NULL;
  if (copy->message && (copy->fix || !error->fix)) return copy;
  mcg_error_free(copy);
  return &out_of_memory;
}

/* Length of the UTF-8 sequence at `at` when it is one that may be shown, else 0. */
static size_t printable(const unsigned char *at, size_t left)
{
  static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
  size_t len = at[0] < 0x80 ? 1 : at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : at[0] >= 0xc0 ? 2 : 0;
  if (len == 1) return at[0] >= 0x20 && at[0] != 0x7f;
  if (len == 0 || len > left) return 0;
  unsigned point = at[0] & (0x7fu >> len);
  for (size_t i = 1; i < len; i++) {
    if ((at[i] & 0xc0) != 0x80) return 0;
    point = point << 6 | (at[i] & 0x3f);
  }
  bool sound = point >= least[len] && point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
  bool control = point < 0xa0 || point == 0x2028 || point == 0x2029 ||
                 (point >= 0x202a && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
  return sound && !control ? len : 0;
}

char *mcg_one_line(const char *text)
{
  size_t len = strlen(text);
  char *line = malloc(len * 4 + 1);
  if (!line) return NULL;
  char *out = line;
  for (size_t i = 0; i < len;) {
    const unsigned char *at = (const unsigned char *)text + i;
    size_t shown = printable(at, len - i);
    if (shown) {
      memcpy(out, at, shown);
      out += shown;
      i += shown;
      continue;
    }
    if (*at == '\n' || *at == '\t' || *at == '\r') {
      *out++ = '\\';
      *out++ = *at == '\n' ? 'n' : *at == '\t' ? 't' : 'r';
    } else {
      out += sprintf(out, "\\x%02x", *at);
    }
    i++;
  }
  *out = '\0';
  return line;
}

__attribute__((format(printf, 1, 0))) static char *format_list(const char *format, va_list list,
                                                               size_t most)
{
  va_list again;
  va_copy(again, list);
  int len = vsnprintf(NULL, 0, format, again);
  va_end(again);
  if (len < 0) return NULL;
  size_t kept = (size_t)len > most ? most : (size_t)len;
  char *text = malloc(kept + 1);
  if (!text) return NULL;
  vsnprintf(text, kept + 1, format, list);
  if (kept < (size_t)len) memcpy(text + kept - 3, "...", 3);
  return text;
}

char *mcg_format(const char *format, ...)
{
  va_list list;
  va_start(list, format);
  char *text = format_list(format, list, SIZE_MAX - 1);
  va_end(list);
  return text;
}

char *mcg_format_line(const char *format, va_list list)
{
  auto_free char *text = format_list(format, list, TEXT_MAX);
  return text ? mcg_one_line(text) : NULL;
}

static bool is_retryable(mcg_code code)
{
  return code == MCG_QUOTA || code == MCG_TIMEOUT || code == MCG_NOMEM;
}

/* Takes `message`, which may be NULL for want of memory. */
static int set(mcg_error **err, mcg_code code, const char *fix, char *message)
{
  auto_free char *line = message;
  if (!err) return -1;
  mcg_error *error = line ? calloc(1, sizeof *error) : NULL;
  char *advice = error && fix ? mcg_one_line(fix) : NULL;
  if (!error || (fix && !advice)) {
    free(error);
    *err = &out_of_memory;
    return -1;
  }
  *error = (mcg_error){.code = code,
                       .retryable = is_retryable(code),
                       .message = mcg_steal_pointer(&line),
                       .fix = advice};
  *err = error;
  return -1;
}

int mcg_fail(mcg_error **err, mcg_code code, const char *fix, const char *format, ...)
{
  va_list list;
  va_start(list, format);
  char *message = mcg_format_line(format, list);
  va_end(list);
  return set(err, code, fix, message);
}

mcg_error *mcg_error_new(mcg_code code, const char *message, const char *fix)
{
  mcg_error *error = NULL;
  mcg_fail(&error, code, fix, "%s", message);
  return error;
}

static mcg_code code_of_errno(int number)
{
  switch (number) {
  case ENOENT: return MCG_NOT_FOUND;
  case EACCES:
  case EPERM: return MCG_UNAUTHORIZED;
  case EMFILE:
  case ENFILE:
  case EAGAIN:
  case ENOSPC: return MCG_QUOTA;
  case ENOMEM: return MCG_NOMEM;
  default: return MCG_INTERNAL;
  }
}

int mcg_fail_errno(mcg_error **err, int number, const char *fix, const char *format, ...)
{
  char buffer[128];
  const char *reason = strerror_r(number, buffer, sizeof buffer);
  va_list list;
  va_start(list, format);
  auto_free char *what = format_list(format, list, TEXT_MAX);
  va_end(list);
  auto_free char *text = what ? mcg_format("%s: %s", what, reason) : NULL;
  return set(err, code_of_errno(number), fix, text ? mcg_one_line(text) : NULL);
}

int mcg_wrap(mcg_error **err, const char *format, ...)
{
  if (!err || !*err || *err == &out_of_memory) return -1;
  va_list list;
  va_start(list, format);
  auto_free char *context = mcg_format_line(format, list);
  va_end(list);
  char *message = context ? mcg_format("%s: %s", context, (*err)->message) : NULL;
  if (!message) return -1; /* the error without its context is worth more than "out of memory" */
  free((*err)->message);
  (*err)->message = message;
  return -1;
}
