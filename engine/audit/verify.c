/* verify.c: follows the chain of a log from line to line. Each line is judged by itself (do its bytes
 * have the hash it says?) and by its place (does it follow the one before?), so that a change is told
 * from a line that is missing or moved. The anchor says where the file has to end. */
#include "verify.h"
#include "anchor.h"
#include "engine.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CLOCK_SLACK_S 2
#define PROBLEMS_MAX 50 /* told one by one */

typedef struct reading {
  json_t *problems, *notes;
  size_t found;        /* problems, told or not */
  uint64_t mismatched; /* lines whose hash is another */
  mcg_chain chain;
  uint64_t line, first_seq, seq;
  char head[MCG_HASH_LEN];     /* '?': not known */
  char anchored[MCG_HASH_LEN]; /* hash of the line that the anchor is about */
  bool met_anchor;
  mcg_anchor anchor;
  const mcg_log_file *file;
  const mcg_link *link;         /* where the file before it ended; NULL: that is not looked at */
  char ends_head[MCG_HASH_LEN]; /* hash of the line that a file put aside has to end with */
  bool has_anchor;
  time_t time; /* of the last line, and as it says it */
  char ts[64];
} reading;

static void add_problem(reading *self, uint64_t seq, const char *kind, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void add_problem(reading *self, uint64_t seq, const char *kind, const char *format, ...)
{
  va_list list;
  va_start(list, format);
  auto_free char *text = mcg_format_line(format, list);
  va_end(list);
  if (self->found++ >= PROBLEMS_MAX) return;
  json_t *problem = json_pack("{s:I, s:s, s:s}", "line", (json_int_t)self->line, "kind", kind,
                              "message", text ? text : "no memory");
  if (seq) json_object_set_new(problem, "seq", json_integer((json_int_t)seq));
  json_array_append_new(self->problems, problem);
}

static void add_note(reading *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add_note(reading *self, const char *format, ...)
{
  va_list list;
  va_start(list, format);
  auto_free char *text = mcg_format_line(format, list);
  va_end(list);
  if (json_array_size(self->notes) >= PROBLEMS_MAX) return;
  json_array_append_new(self->notes, json_pack("{s:I, s:s}", "line", (json_int_t)self->line,
                                               "message", text ? text : "no memory"));
}

/* ---- one line ----------------------------------------------------------------------------- */

typedef struct log_entry {
  json_t *event;
  const char *hash, *prev, *op;
  uint64_t seq;
} log_entry;

static bool is_hash(const char *text)
{
  return text && strlen(text) == MCG_HASH_LEN && strspn(text, "0123456789abcdef") == MCG_HASH_LEN;
}

static bool parse(const char *line, size_t len, log_entry *out)
{
  auto_error mcg_error *ignored = NULL;
  *out = (log_entry){.event = mcg_json_parse(line, len, &ignored)};
  out->hash = json_string_value(json_object_get(out->event, "hash"));
  out->prev = json_string_value(json_object_get(out->event, "prev"));
  out->op = json_string_value(json_object_get(out->event, "op"));
  json_int_t seq = json_integer_value(json_object_get(out->event, "seq"));
  out->seq = seq > 0 && (uint64_t)seq <= MCG_SEQ_MAX ? (uint64_t)seq : 0;
  return is_hash(out->hash) && is_hash(out->prev) && out->seq && out->op;
}

/* The bytes as they were hashed: without the field of the hash and the comma that goes with it. The
 * field stands where we write it, before the id: elsewhere it would not change what is hashed. */
static bool own_hash(const reading *self, const char *line, size_t len, const log_entry *entry,
                     char out[MCG_HASH_LEN])
{
  char field[MCG_HASH_LEN + 12];
  int field_len = snprintf(field, sizeof field, "\"hash\":\"%s\"", entry->hash);
  const char *at = memmem(line, len, field, (size_t)field_len);
  if (!at) return false;
  static const char next[] = ",\"id\":";
  const char *after = at + field_len, *end = line + len;
  if ((size_t)(end - after) < sizeof next - 1 || memcmp(after, next, sizeof next - 1) != 0)
    return false;
  if (at[-1] == ',')
    at--;
  else
    after++;
  const char *parts[] = {entry->prev, line, after};
  const size_t lens[] = {MCG_HASH_LEN, (size_t)(at - line), (size_t)(end - after)};
  mcg_chain_hash(&self->chain, parts, lens, 3, out);
  return true;
}

/* "lines with seq 3 to 5" */
static const char *range(char text[64], uint64_t first, uint64_t last)
{
  if (first == last)
    snprintf(text, 64, "the line with seq %llu is", (unsigned long long)first);
  else
    snprintf(text, 64, "lines with seq %llu to %llu are", (unsigned long long)first,
             (unsigned long long)last);
  return text;
}

/* What a writer found when it took up the log. True: the place of this line is said as well. */
static bool judge_recovered(reading *self, const log_entry *entry, const char *what,
                            const json_t *detail)
{
  char text[64];
  unsigned long long line = self->line;
  uint64_t first = (uint64_t)json_integer_value(json_object_get(detail, "first_seq"));
  uint64_t last = (uint64_t)json_integer_value(json_object_get(detail, "last_seq"));
  if (strcmp(what, "missing_lines") == 0) {
    add_problem(self, entry->seq, "missing",
                "%s missing before line %llu, and was when that was written",
                range(text, first, last), line);
    return true;
  }
  if (strcmp(what, "rewritten") == 0)
    add_problem(self, entry->seq, "rewritten",
                "the file was written anew before line %llu: its line with seq %llu was not the "
                "one that the anchor knew",
                line, (unsigned long long)first);
  else if (strcmp(what, "bad_anchor") == 0)
    add_problem(self, entry->seq, "anchor",
                "the anchor could not be read before line %llu was written: what was cut off "
                "before it cannot be seen",
                line);
  else if (strcmp(what, "no_anchor") == 0)
    add_note(self, "there was no anchor before this line was written: what was cut off before it "
                   "cannot be seen");
  else if (strcmp(what, "unanchored_lines") == 0)
    add_note(self,
             "the anchor did not know lines with seq %llu to %llu: their writer was killed, or "
             "they were added by others",
             (unsigned long long)first, (unsigned long long)last);
  else if (strcmp(what, "torn_line") == 0)
    add_note(self, "a torn line was taken away before this one: its writer had been killed");
  return false;
}

static void judge_place(reading *self, const log_entry *entry)
{
  char text[64];
  uint64_t expected = self->seq + 1;
  bool recovered = strcmp(entry->op, "recovered") == 0;
  const json_t *detail = json_object_get(entry->event, "detail");
  const char *what = json_string_value(json_object_get(detail, "what"));
  if (recovered && what && judge_recovered(self, entry, what, detail)) return;
  if (entry->seq < expected)
    add_problem(self, entry->seq, "moved",
                "line %llu (seq %llu) is out of place: seq %llu was expected",
                (unsigned long long)self->line, (unsigned long long)entry->seq,
                (unsigned long long)expected);
  else if (entry->seq > expected)
    add_problem(self, entry->seq, "missing", "%s missing before line %llu",
                range(text, expected, entry->seq - 1), (unsigned long long)self->line);
  else if (*self->head != '?' && memcmp(entry->prev, self->head, MCG_HASH_LEN) != 0)
    add_problem(self, entry->seq, "replaced",
                self->line == 1 ? "line %llu does not go on where the file before it ended"
                                : "line %llu does not follow the line before it: that one was "
                                  "written anew",
                (unsigned long long)self->line);
}

/* Does it go on where the file before it ended, or begin as a log begins? `prev` NULL: it is empty. */
static void judge_link(reading *self, uint64_t begins, const char *prev)
{
  char text[64];
  const mcg_link *link = self->link;
  const char *path = self->file->path;
  if (!link) return;
  bool told = self->has_anchor && self->anchor.base == link->seq; /* of its first line */
  if (begins > link->seq && link->before && !told)
    add_problem(self, 0, "missing", "%s missing between %s and %s",
                range(text, link->seq + 1, begins), link->before, path);
  else if (begins > link->seq && !told)
    add_problem(self, 0, "missing", "%s missing before %s", range(text, 1, begins), path);
  else if (begins < link->seq && !told)
    add_problem(self, 0, "moved", "%s begins with seq %llu, but %s ends with seq %llu", path,
                (unsigned long long)begins + 1, link->before, (unsigned long long)link->seq);
  if (begins != link->seq || !prev || *link->head == '?' ||
      memcmp(prev, link->head, MCG_HASH_LEN) == 0)
    return;
  if (link->before)
    add_problem(self, 0, "replaced", "%s does not go on where %s ended", path, link->before);
  else if (!told)
    add_problem(self, 0, "replaced", "%s does not begin as a log does: something was before it",
                path);
}

/* Where the first line is one that says what is missing before it, it was said. */
static void judge_first(reading *self, const log_entry *entry)
{
  const json_t *detail = json_object_get(entry->event, "detail");
  const char *what = json_string_value(json_object_get(detail, "what"));
  if (strcmp(entry->op, "recovered") == 0 && what && strcmp(what, "missing_lines") == 0) return;
  judge_link(self, entry->seq - 1, entry->prev);
}

static void judge_time(reading *self, const log_entry *entry)
{
  const char *ts = json_string_value(json_object_get(entry->event, "ts"));
  struct tm tm = {0};
  if (!ts || strlen(ts) >= sizeof self->ts || !strptime(ts, "%Y-%m-%dT%H:%M:%S", &tm)) return;
  time_t now = timegm(&tm);
  /* Events are stamped before they are written: those of two writers may change places. */
  if (self->time && now < self->time - CLOCK_SLACK_S)
    add_note(self, "the clock went back before this line, from %s to %s", self->ts, ts);
  if (!self->time || now != self->time) {
    self->time = now;
    strcpy(self->ts, ts);
  }
}

static void judge_line(reading *self, const char *line, size_t len)
{
  log_entry entry;
  char hash[MCG_HASH_LEN];
  self->line++;
  if (!parse(line, len, &entry)) {
    add_problem(self, 0, "changed", "line %llu is no audit event any more",
                (unsigned long long)self->line);
    json_decref(entry.event);
    self->seq++; /* it was one: what follows is judged as if it were */
    memset(self->head, '?', MCG_HASH_LEN);
    return;
  }
  if (self->line == 1 && self->anchor.seq == 0) { /* nobody knows where it has to begin */
    self->seq = entry.seq - 1;
    memcpy(self->head, entry.prev, MCG_HASH_LEN);
  }
  bool matches =
      own_hash(self, line, len, &entry, hash) && memcmp(hash, entry.hash, MCG_HASH_LEN) == 0;
  if (!matches) self->mismatched++;
  if (!matches)
    add_problem(self, entry.seq, "changed", "line %llu (seq %llu) was changed: its hash is another",
                (unsigned long long)self->line, (unsigned long long)entry.seq);
  else
    judge_place(self, &entry);
  if (matches && self->line == 1) judge_first(self, &entry);
  judge_time(self, &entry);
  if (self->line == 1) self->first_seq = entry.seq;
  if (entry.seq == self->anchor.seq) {
    self->met_anchor = true;
    memcpy(self->anchored, entry.hash, MCG_HASH_LEN);
  }
  if (entry.seq == self->file->ends) memcpy(self->ends_head, entry.hash, MCG_HASH_LEN);
  if (entry.seq > self->seq || self->line == 1) { /* one that was moved does not lead on */
    self->seq = entry.seq;
    memcpy(self->head, entry.hash, MCG_HASH_LEN);
  }
  json_decref(entry.event);
}

/* ---- one file ----------------------------------------------------------------------------- */

static void read_lines(reading *self, FILE *file)
{
  auto_free char *line = NULL;
  size_t cap = 0;
  ssize_t len;
  while ((len = getline(&line, &cap, file)) > 0) {
    if (line[len - 1] == '\n') {
      judge_line(self, line, (size_t)len - 1);
      continue;
    }
    self->line++;
    add_note(self, "the last line is not whole: its writer was killed, or is at it");
    self->line--;
  }
}

static const char *judge_anchor(reading *self, int known)
{
  char text[64];
  if (known < 0) {
    add_problem(self, 0, "anchor", "the anchor of this file cannot be read: %s", strerror(-known));
    return "wrong";
  }
  if (!known) {
    add_note(self, "there is no anchor of this file: a tail that was cut off cannot be seen");
    return "none";
  }
  if (self->anchor.seq > self->seq) {
    add_problem(self, 0, "cut", "the tail is cut off: %s missing",
                range(text, self->seq + 1, self->anchor.seq));
    return "wrong";
  }
  if (self->anchor.seq > self->anchor.base &&
      (!self->met_anchor || memcmp(self->anchored, self->anchor.head, MCG_HASH_LEN) != 0)) {
    add_problem(self, self->anchor.seq, "rewritten",
                "the file was written anew: its line with seq %llu is not the one that was there",
                (unsigned long long)self->anchor.seq);
    return "wrong";
  }
  if (self->anchor.seq == self->seq) return "ok";
  if (!self->file->ends)
    add_note(self,
             "the anchor does not know lines with seq %llu to %llu: their writer was killed, or "
             "they were added by others",
             (unsigned long long)self->anchor.seq + 1, (unsigned long long)self->seq);
  return "behind";
}

/* What was put aside is complete: its name says which line is its last. */
static void judge_end(reading *self, int known)
{
  char text[64];
  uint64_t ends = self->file->ends;
  if (!ends) return;
  if (self->seq > ends)
    add_problem(self, 0, "added", "%s not from its writer: the file was put aside before",
                range(text, ends + 1, self->seq));
  else if (self->seq < ends && (known <= 0 || self->anchor.seq <= self->seq))
    add_problem(self, 0, "cut", "the tail is cut off: %s missing",
                range(text, self->seq + 1, ends));
}

static void judge_key(reading *self)
{
  if (!self->line || self->mismatched < self->line) return;
  if (self->chain.keyed)
    add_note(self, "not one line has the hash that this key gives it: is it the key of this log?");
  else
    add_note(self, "not one line has its hash: where the log has an hmac_key, give it with "
                   "--hmac-key @env:NAME");
}

static json_t *report(reading *self, const char *path, const char *anchor)
{
  judge_key(self);
  if (self->found > PROBLEMS_MAX)
    add_note(self, "%zu problems, of which the first %d are told", self->found, PROBLEMS_MAX);
  return json_pack("{s:o, s:b, s:I, s:I, s:I, s:s, s:o, s:o}", "file", mcg_json_bytes(path), "ok",
                   self->found == 0, "lines", (json_int_t)self->line, "first_seq",
                   (json_int_t)self->first_seq, "last_seq", (json_int_t)self->seq, "anchor", anchor,
                   "problems", self->problems, "notes", self->notes);
}

/* Never waits for a pipe. */
static FILE *open_log(const char *path, const char **why)
{
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  bool regular = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
  FILE *file = regular ? fdopen(fd, "rb") : NULL;
  if (!file) *why = fd >= 0 && !regular ? "it is no regular file" : strerror(errno);
  if (!file && fd >= 0) close(fd);
  return file;
}

/* What the file after this one has to go on from. */
static void set_link(const reading *self, int known, mcg_link *link)
{
  const mcg_log_file *file = self->file;
  link->before = file->path;
  link->seq = file->ends ? file->ends : self->seq;
  memcpy(link->head, self->ends_head, MCG_HASH_LEN);
  if (*link->head == '?' && known > 0 && self->anchor.seq == link->seq)
    memcpy(link->head, self->anchor.head, MCG_HASH_LEN);
}

json_t *mcg_verify_linked(const mcg_log_file *given, mcg_link *link, const char *key,
                          size_t key_len)
{
  reading self = {.problems = json_array(), .notes = json_array(), .file = given, .link = link};
  const char *why = NULL, *anchor = "none";
  auto_file FILE *file = open_log(given->path, &why);
  mcg_chain_init(&self.chain, key, key_len);
  memset(self.head, '0', MCG_HASH_LEN);
  memset(self.ends_head, '?', MCG_HASH_LEN);
  auto_free char *anchor_path = mcg_anchor_path(given->path);
  int known = anchor_path ? mcg_anchor_read(anchor_path, &self.anchor) : 0;
  self.has_anchor = known > 0;
  self.seq = self.has_anchor || !link ? self.anchor.base : link->seq;
  if (file && self.anchor.base) memset(self.head, '?', MCG_HASH_LEN);
  if (!file) {
    add_problem(&self, 0, "unreadable", "%s: %s", given->path, why);
    if (known > 0) anchor = "wrong";
  } else {
    read_lines(&self, file);
    anchor = judge_anchor(&self, known);
    if (!self.line && known > 0) judge_link(&self, self.anchor.base, NULL);
    judge_end(&self, known);
  }
  if (link) set_link(&self, known, link);
  return report(&self, given->path, anchor);
}

json_t *mcg_verify_file(const char *path, const char *key, size_t key_len)
{
  const mcg_log_file file = {.path = path};
  return mcg_verify_linked(&file, NULL, key, key_len);
}
