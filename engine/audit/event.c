/* event.c: one event as a line. Its keys stand in order here, so that nothing has to be sorted; what
 * only the sink knows (hash, prev, seq) is left open. */
#include "sink.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DETAIL_MAX ((size_t)64 << 10)
#define KEY(text, name) mcg_text_literal(text, ",\"" name "\":")

static void put_foreign(mcg_text *text, const mcg_secrets *secrets, const char *value)
{
  mcg_text_foreign(text, secrets, value, strlen(value), MCG_TEXT_MAX);
}

/* Names of our own making: no need to look for anything in them. */
static void put_plain(mcg_text *text, const char *value)
{
  mcg_text_literal(text, "\"");
  mcg_text_put(text, value, strlen(value));
  mcg_text_literal(text, "\"");
}

static void put_decision(mcg_text *text, const mcg_event *event, const mcg_secrets *secrets)
{
  KEY(text, "decision");
  mcg_text_literal(text, "{\"by\":");
  put_foreign(text, secrets, event->decision.by);
  if (event->decision.reason) {
    KEY(text, "reason");
    put_foreign(text, secrets, event->decision.reason);
  }
  if (event->decision.rule) {
    KEY(text, "rule");
    put_foreign(text, secrets, event->decision.rule);
  }
  mcg_text_literal(text, "}");
}

static void put_error(mcg_text *text, const mcg_error *error, const mcg_secrets *secrets)
{
  KEY(text, "error");
  mcg_text_literal(text, "{\"code\":");
  put_plain(text, mcg_code_name(error->code));
  KEY(text, "message");
  const char *message = error->message ? error->message : "";
  char *clean = mcg_redact_parts(secrets, message, strlen(message)); /* it may have been cut */
  text->failed |= !clean;
  if (clean) put_foreign(text, secrets, clean);
  free(clean);
  mcg_text_literal(text, "}");
}

/* An object of any size: one that is too large stands as its length and hash. */
static void put_detail(mcg_text *text, const json_t *detail, const mcg_secrets *secrets)
{
  size_t start = text->len;
  mcg_text_json(text, secrets, detail);
  size_t len = text->len - start;
  if (text->failed || len <= DETAIL_MAX) return;
  mcg_sha256 hash;
  uint8_t digest[32];
  char hex[64];
  mcg_sha256_init(&hash);
  mcg_sha256_update(&hash, text->data + start, len);
  mcg_sha256_final(&hash, digest);
  mcg_hex(digest, sizeof digest, hex);
  text->len = start;
  mcg_text_literal(text, "{\"len\":");
  mcg_text_whole(text, len);
  KEY(text, "sha256");
  mcg_text_literal(text, "\"");
  mcg_text_put(text, hex, sizeof hex);
  mcg_text_literal(text, "\"}");
}

/* Seconds with six digits after the point at most: below 2^53 millionths this is the shortest
 * spelling that gives the number back. */
static void put_micros(mcg_text *text, uint64_t micros)
{
  mcg_text_whole(text, micros / 1000000);
  uint64_t rest = micros % 1000000;
  if (!rest) return;
  char digits[7] = {'.'};
  size_t len = 7;
  for (size_t i = 6; i > 0; i--, rest /= 10) digits[i] = (char)('0' + rest % 10);
  while (digits[len - 1] == '0') len--;
  mcg_text_put(text, digits, len);
}

static void put_digits(char *at, unsigned count, unsigned long number)
{
  while (count--) {
    at[count] = (char)('0' + number % 10);
    number /= 10;
  }
}

static void put_second(char *stamp, time_t second)
{
  struct tm tm;
  gmtime_r(&second, &tm);
  put_digits(stamp, 4, (unsigned long)tm.tm_year + 1900);
  put_digits(stamp + 5, 2, (unsigned long)tm.tm_mon + 1);
  put_digits(stamp + 8, 2, (unsigned long)tm.tm_mday);
  put_digits(stamp + 11, 2, (unsigned long)tm.tm_hour);
  put_digits(stamp + 14, 2, (unsigned long)tm.tm_min);
  put_digits(stamp + 17, 2, (unsigned long)tm.tm_sec);
}

/* UTC, whatever the time zone of the process: "2026-11-29T22:00:00.123456Z". The second is spelled
 * once, for all that happens in it. */
static void put_time(mcg_text *text)
{
  static _Thread_local char stamp[] = "0000-00-00T00:00:00.000000Z";
  static _Thread_local time_t spelled = -1;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (now.tv_sec != spelled) put_second(stamp, now.tv_sec);
  spelled = now.tv_sec;
  put_digits(stamp + 20, 6, (unsigned long)now.tv_nsec / 1000);
  put_plain(text, stamp);
}

static void put_monotonic(mcg_text *text)
{
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  put_micros(text, (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
}

static void put_to_hash(mcg_text *text, const mcg_event *event, const mcg_stamp *stamp,
                        const mcg_secrets *secrets)
{
  size_t open = text->len;
  if (event->argv) {
    KEY(text, "argv");
    mcg_text_words(text, secrets, event->argv);
  }
  if (stamp->backend) {
    KEY(text, "backend");
    put_foreign(text, secrets, stamp->backend);
  }
  if (event->counted) {
    KEY(text, "bytes");
    mcg_text_whole(text, event->bytes);
  }
  if (event->cwd) {
    KEY(text, "cwd");
    put_foreign(text, secrets, event->cwd);
  }
  if (event->decision.by) put_decision(text, event, secrets);
  if (event->detail) {
    KEY(text, "detail");
    put_detail(text, event->detail, secrets);
  }
  if (stamp->duration_s >= 0) {
    KEY(text, "duration");
    put_micros(text, (uint64_t)(stamp->duration_s * 1e6 + 0.5));
  }
  if (event->enforcement) {
    KEY(text, "enforcement");
    mcg_text_json(text, secrets, event->enforcement);
  }
  if (stamp->engine) {
    KEY(text, "engine");
    put_plain(text, stamp->engine);
  }
  if (event->error) put_error(text, event->error, secrets);
  if (event->ended && event->exit_code >= 0) {
    KEY(text, "exit_code");
    mcg_text_whole(text, (uint64_t)event->exit_code);
  }
  if (text->len > open) text->data[open] = '{'; /* the first comma */
}

static void put_to_prev(mcg_text *text, const mcg_event *event, const mcg_stamp *stamp,
                        const mcg_secrets *secrets)
{
  KEY(text, "id");
  put_plain(text, stamp->id);
  KEY(text, "mono");
  put_monotonic(text);
  KEY(text, "op");
  put_plain(text, stamp->op);
  if (event->path) {
    KEY(text, "path");
    put_foreign(text, secrets, event->path);
  }
  KEY(text, "phase");
  put_plain(text, stamp->phase);
  KEY(text, "prev");
}

static void put_last(mcg_text *text, const mcg_event *event, const mcg_stamp *stamp,
                     const mcg_secrets *secrets)
{
  if (stamp->session) {
    KEY(text, "session");
    put_plain(text, stamp->session);
  }
  if (event->shell) {
    KEY(text, "shell");
    put_foreign(text, secrets, event->shell);
  }
  if (event->ended && event->signal) {
    KEY(text, "signal");
    put_plain(text, event->signal);
  }
  if (stamp->tenant) {
    KEY(text, "tenant");
    put_foreign(text, secrets, stamp->tenant);
  }
  if (event->ended) {
    KEY(text, "timed_out");
    if (event->timed_out)
      mcg_text_literal(text, "true");
    else
      mcg_text_literal(text, "false");
  }
  if (event->tool) {
    KEY(text, "tool");
    put_foreign(text, secrets, event->tool);
  }
  KEY(text, "ts");
  put_time(text);
  if (event->usage) {
    KEY(text, "usage");
    mcg_text_json(text, secrets, event->usage);
  }
  KEY(text, "v");
  mcg_text_literal(text, "1}");
}

mcg_line *mcg_event_line(const mcg_event *event, const mcg_stamp *stamp, const mcg_secrets *secrets)
{
  mcg_text text = {0};
  mcg_line *line = NULL;
  if (!mcg_text_room(&text, 1024)) return NULL;
  text.len = sizeof *line; /* the head is filled in last: the buffer becomes the line */
  size_t start = text.len;
  put_to_hash(&text, event, stamp, secrets);
  size_t hash_at = text.len - start;
  put_to_prev(&text, event, stamp, secrets);
  size_t prev_at = text.len - start;
  if (stamp->run_id) {
    KEY(&text, "run_id");
    put_foreign(&text, secrets, stamp->run_id);
  }
  KEY(&text, "seq");
  size_t seq_at = text.len - start;
  put_last(&text, event, stamp, secrets);
  if (text.failed) {
    mcg_text_fini(&text);
    return NULL;
  }
  line = (mcg_line *)text.data;
  atomic_init(&line->refs, 1);
  line->sent = false;
  line->len = text.len - start;
  line->hash_at = hash_at;
  line->prev_at = prev_at;
  line->seq_at = seq_at;
  return line;
}

void mcg_line_unref(mcg_line *line)
{
  if (atomic_fetch_sub(&line->refs, 1) == 1) free(line);
}
