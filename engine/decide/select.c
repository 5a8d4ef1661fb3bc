/* select.c: which candidates meet the requirements, and which is the cheapest of them.
 *
 * What can be said with yes or no about a candidate is one bit of a word: isolation as a row of bits
 * that are set up to its strength, then persistence, room, and each capability that any candidate of
 * the table names. One `need & ~have` judges all of it; the lowest bit that is missing is the reason. */
#include "select.h"
#include "engine.h"
#include <math.h>
#include <string.h>

/* Bits of the first word. */
#define BIT_ISOLATION 0 /* four: namespace, container, gvisor, vm */
#define BIT_NETWORK 4   /* three capabilities with names of their own */
#define BIT_DENIED 5
#define BIT_PTY 6
#define BIT_PERSISTENT 7
#define BIT_ROOM 8
#define BIT_FIRST 9 /* capabilities, as many as fit; the others are in words of their own */
#define NONE UINT32_MAX

typedef enum verdict {
  FITS,
  BACKEND, /* not among `backends`, or among `not_backends` */
  BITS,    /* one that is missing */
  REGION,
  MEMORY,
  CPU,
  PRICE,
  NO_PRICE, /* and there is a highest one */
  UNPRICED, /* rejected */
} verdict;

typedef struct entry {
  uint64_t have;
  double usd; /* negative: unpriced */
  double memory_mb, cpu_count;
  uint32_t backend, region; /* numbers of names */
} entry;

struct mcg_candidates {
  size_t count, words; /* words: of further capabilities, for each row */
  entry *rows;
  uint64_t *more;   /* count * words */
  unsigned *limits; /* max_sessions, for the reason */
  char **names;     /* of capabilities, backends and regions alike, numbered */
  uint32_t *slots;  /* a hash table: number of the name, or NONE */
  size_t name_count, slot_count;
};

/* ---- names as numbers --------------------------------------------------------------------- */

static size_t hash(const char *text)
{
  size_t h = 2166136261u;
  for (; *text; text++) h = (h ^ (unsigned char)*text) * 16777619u;
  return h ^ h >> 15;
}

static uint32_t number_of(const mcg_candidates *self, const char *name)
{
  if (!self->slot_count) return NONE;
  for (size_t at = hash(name);; at++) {
    uint32_t number = self->slots[at & (self->slot_count - 1)];
    if (number == NONE || strcmp(self->names[number], name) == 0) return number;
  }
}

static void enter(mcg_candidates *self, uint32_t number)
{
  size_t at = hash(self->names[number]);
  while (self->slots[at & (self->slot_count - 1)] != NONE) at++;
  self->slots[at & (self->slot_count - 1)] = number;
}

static int grow(mcg_candidates *self)
{
  size_t larger = self->slot_count ? 2 * self->slot_count : 64;
  char **names = realloc(self->names, larger / 2 * sizeof *names);
  if (names) self->names = names;
  uint32_t *slots = malloc(larger * sizeof *slots);
  if (!names || !slots) {
    free(slots);
    return -1;
  }
  free(self->slots);
  self->slots = slots;
  self->slot_count = larger;
  memset(slots, 0xff, larger * sizeof *slots);
  for (size_t i = 0; i < self->name_count; i++) enter(self, (uint32_t)i);
  return 0;
}

/* The name's number, a new one where it is new; NONE: no memory. */
static uint32_t intern(mcg_candidates *self, const char *name)
{
  uint32_t number = number_of(self, name);
  if (number != NONE) return number;
  if (self->name_count >= self->slot_count / 2 && grow(self) < 0) return NONE;
  number = (uint32_t)self->name_count;
  self->names[number] = strdup(name);
  if (!self->names[number]) return NONE;
  self->name_count++;
  enter(self, number);
  return number;
}

/* ---- a table of candidates ---------------------------------------------------------------- */

/* Capabilities are numbered first, the three with bits of their own before all others: so the number
 * of a name says where its bit is. */
static uint64_t bit_of(uint32_t number, size_t *word)
{
  *word = 0;
  if (number < 3) return 1ull << (BIT_NETWORK + number);
  size_t at = number - 3 + BIT_FIRST;
  *word = at / 64;
  return 1ull << (at % 64);
}

static int check_facts(const mcg_facts *facts, size_t index, mcg_error **err)
{
  if (facts->size < sizeof *facts)
    return mcg_fail(err, MCG_INVALID, "set .size = sizeof(mcg_facts)",
                    "the facts of candidate %zu say they are %zu bytes long", index + 1,
                    facts->size);
  const char *name = facts->name ? facts->name : facts->backend ? facts->backend : "without a name";
  if (facts->priced && !(facts->usd_per_minute >= 0 && isfinite(facts->usd_per_minute)))
    return mcg_fail(err, MCG_INVALID, "give dollars a minute, 0 for free, or leave the price out",
                    "candidate %zu (%s): %.15g is no price", index + 1, name,
                    facts->usd_per_minute);
  if ((unsigned)facts->isolation > MCG_ISOLATION_VM || !(facts->memory_mb >= 0) ||
      !(facts->cpu_count >= 0))
    return mcg_fail(err, MCG_INVALID, "give an isolation there is, and numbers of 0 or more",
                    "candidate %zu (%s): isolation, memory_mb or cpu_count "
                    "is out of range",
                    index + 1, name);
  return 0;
}

static int number_capabilities(mcg_candidates *self, const mcg_facts *facts, size_t count,
                               mcg_error **err)
{
  static const char *const own[] = {"network", "network_denied", "pty"};
  bool known = true;
  for (size_t i = 0; i < 3; i++) known = intern(self, own[i]) != NONE && known;
  for (size_t i = 0; i < count; i++) {
    if (check_facts(&facts[i], i, err) < 0) return -1;
    for (const char *const *name = facts[i].capabilities; name && *name; name++)
      known = intern(self, *name) != NONE && known;
  }
  if (!known) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for candidates");
  self->words = (self->name_count - 3 + BIT_FIRST) / 64;
  return 0;
}

static int fill(mcg_candidates *self, size_t i, const mcg_facts *facts, mcg_error **err)
{
  entry *row = &self->rows[i];
  row->backend = facts->backend ? intern(self, facts->backend) : NONE;
  row->region = facts->region ? intern(self, facts->region) : NONE;
  if ((facts->backend && row->backend == NONE) || (facts->region && row->region == NONE))
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for candidates");
  row->usd = facts->priced ? facts->usd_per_minute + 0.0 : -1; /* no negative zero */
  row->memory_mb = facts->memory_mb > 0 ? facts->memory_mb : INFINITY;
  row->cpu_count = facts->cpu_count > 0 ? facts->cpu_count : INFINITY;
  row->have = (1ull << facts->isolation) - 1;
  if (facts->persistent) row->have |= 1ull << BIT_PERSISTENT;
  if (!facts->max_sessions || facts->sessions < facts->max_sessions) row->have |= 1ull << BIT_ROOM;
  self->limits[i] = facts->max_sessions;
  for (const char *const *name = facts->capabilities; name && *name; name++) {
    size_t word;
    uint64_t bit = bit_of(number_of(self, *name), &word);
    if (word)
      self->more[i * self->words + word - 1] |= bit;
    else
      row->have |= bit;
  }
  return 0;
}

int mcg_candidates_new(const mcg_facts *facts, size_t count, mcg_candidates **out, mcg_error **err)
{
  if (count > NONE / 2) return mcg_fail(err, MCG_INVALID, "give fewer", "too many candidates");
  mcg_candidates *self = calloc(1, sizeof *self);
  if (!self) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for candidates");
  self->count = count;
  int rc = number_capabilities(self, facts, count, err);
  if (rc == 0) {
    self->rows = calloc(count + 1, sizeof *self->rows);
    self->more = calloc(count * self->words + 1, sizeof *self->more);
    self->limits = calloc(count + 1, sizeof *self->limits);
    if (!self->rows || !self->more || !self->limits)
      rc = mcg_fail(err, MCG_NOMEM, NULL, "no memory for candidates");
  }
  for (size_t i = 0; rc == 0 && i < count; i++) rc = fill(self, i, &facts[i], err);
  if (rc < 0)
    mcg_candidates_free(self);
  else
    *out = self;
  return rc;
}

void mcg_candidates_free(mcg_candidates *self)
{
  if (!self) return;
  for (size_t i = 0; i < self->name_count; i++) free(self->names[i]);
  free(self->names);
  free(self->slots);
  free(self->rows);
  free(self->more);
  free(self->limits);
  free(self);
}

/* ---- requirements, in the numbers of one table -------------------------------------------- */

typedef struct wanted {
  uint64_t need;
  uint64_t *more;         /* or NULL */
  const char *unheard_of; /* a capability that no candidate has, or NULL */
  unsigned char *refused; /* by number of a name: such a backend will not do; or NULL */
  bool named_only;        /* and neither will one without a name */
  uint32_t region;
  bool any_region, capped;
  double usd, memory_mb, cpu_count;
} wanted;

static int want_capabilities(const mcg_candidates *self, const json_t *names, wanted *out,
                             mcg_error **err)
{
  for (size_t i = 0; i < json_array_size(names); i++) {
    const char *name = json_string_value(json_array_get(names, i));
    size_t word;
    uint32_t number = number_of(self, name);
    uint64_t bit = number == NONE ? 0 : bit_of(number, &word);
    if (number == NONE || word > self->words) { /* past them: the name of something else */
      out->unheard_of = name;
      continue;
    }
    if (word && !out->more) {
      out->more = calloc(self->words, sizeof *out->more);
      if (!out->more) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for requirements");
    }
    if (word)
      out->more[word - 1] |= bit;
    else
      out->need |= bit;
  }
  return 0;
}

static int want_backends(const mcg_candidates *self, const mcg_requirements *r, wanted *out,
                         mcg_error **err)
{
  if (!r->backends && !r->not_backends) return 0;
  out->refused = calloc(self->name_count + 1, 1);
  if (!out->refused) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for requirements");
  out->named_only = r->backends != NULL;
  if (r->backends) memset(out->refused, 1, self->name_count);
  for (size_t i = 0; i < json_array_size(r->backends); i++) {
    uint32_t number = number_of(self, json_string_value(json_array_get(r->backends, i)));
    if (number != NONE) out->refused[number] = 0;
  }
  for (size_t i = 0; i < json_array_size(r->not_backends); i++) {
    uint32_t number = number_of(self, json_string_value(json_array_get(r->not_backends, i)));
    if (number != NONE) out->refused[number] = 1;
  }
  return 0;
}

static int want(const mcg_candidates *self, const mcg_requirements *r, wanted *out, mcg_error **err)
{
  *out = (wanted){.need = 1ull << BIT_ROOM, .any_region = true};
  if (!r) return 0;
  out->need |= (1ull << r->min_isolation) - 1;
  if (r->network >= 0) out->need |= 1ull << (r->network ? BIT_NETWORK : BIT_DENIED);
  if (r->pty) out->need |= 1ull << BIT_PTY;
  if (r->persistent) out->need |= 1ull << BIT_PERSISTENT;
  out->any_region = !r->region;
  out->region = r->region ? number_of(self, r->region) : NONE;
  out->capped = r->capped;
  out->usd = r->max_usd_per_minute;
  out->memory_mb = r->memory_mb;
  out->cpu_count = r->cpu_count;
  if (want_capabilities(self, r->capabilities, out, err) < 0) return -1;
  return want_backends(self, r, out, err);
}

static void wanted_fini(wanted *self)
{
  free(self->more);
  free(self->refused);
}

/* ---- judging ------------------------------------------------------------------------------ */

static bool lacks_more(const mcg_candidates *self, const wanted *w, size_t i)
{
  for (size_t word = 0; w->more && word < self->words; word++)
    if (w->more[word] & ~self->more[i * self->words + word]) return true;
  return w->unheard_of != NULL;
}

static inline verdict judge(const mcg_candidates *self, const wanted *w, size_t i,
                            mcg_unpriced unpriced)
{
  const entry *row = &self->rows[i];
  if (w->refused && (row->backend == NONE ? w->named_only : w->refused[row->backend]))
    return BACKEND;
  if (w->need & ~row->have) return BITS;
  if ((w->more || w->unheard_of) && lacks_more(self, w, i)) return BITS;
  if (!w->any_region && (row->region == NONE || row->region != w->region)) return REGION;
  if (row->memory_mb < w->memory_mb) return MEMORY;
  if (row->cpu_count < w->cpu_count) return CPU;
  if (row->usd < 0) return w->capped ? NO_PRICE : unpriced == MCG_UNPRICED_REJECT ? UNPRICED : FITS;
  return w->capped && row->usd > w->usd ? PRICE : FITS;
}

/* ---- order -------------------------------------------------------------------------------- */

typedef struct place {
  uint64_t key; /* orders as the price does */
  uint32_t index;
} place;

/* The bits of doubles that are not negative order as these do. */
static uint64_t key_of(double usd, mcg_unpriced unpriced)
{
  uint64_t bits;
  if (usd < 0) return unpriced == MCG_UNPRICED_FIRST ? 0 : UINT64_MAX;
  memcpy(&bits, &usd, sizeof bits);
  return bits + 1;
}

/* Two sorted neighbours into one; without a branch on the keys, which nobody could predict. */
static void merge(const place *left, const place *middle, const place *end, place *out)
{
  const place *right = middle, *first = left;
  while (first < middle && right < end) {
    bool take = right->key < first->key;
    const place *next = take ? right : first;
    *out++ = *next;
    right += take;
    first += !take;
  }
  while (first < middle) *out++ = *first++;
  while (right < end) *out++ = *right++;
}

/* Merge sort: keeps the given order of equals. Returns which of the two holds the result. */
static place *sort(place *from, place *to, size_t count)
{
  enum { RUN = 8 };
  for (size_t start = 0; start < count; start += RUN) {
    size_t end = start + RUN < count ? start + RUN : count;
    for (size_t i = start + 1; i < end; i++) {
      place moved = from[i];
      size_t at = i;
      for (; at > start && from[at - 1].key > moved.key; at--) from[at] = from[at - 1];
      from[at] = moved;
    }
  }
  for (size_t width = RUN; width < count; width *= 2) {
    for (size_t start = 0; start < count; start += 2 * width) {
      size_t middle = start + width < count ? start + width : count;
      size_t end = middle + width < count ? middle + width : count;
      merge(from + start, from + middle, from + end, to + start);
    }
    place *sorted = to;
    to = from;
    from = sorted;
  }
  return from;
}

/* One block: the ranking, its order, its verdicts. */
static mcg_ranking *ranking_new(size_t count)
{
  mcg_ranking *made = malloc(sizeof *made + count * (sizeof(uint32_t) + 1));
  if (!made) return NULL;
  uint32_t *order = (uint32_t *)(made + 1);
  *made = (mcg_ranking){.order = order, .verdicts = (uint8_t *)(order + count)};
  return made;
}

int mcg_rank(const mcg_candidates *self, const mcg_requirements *requirements,
             mcg_unpriced unpriced, mcg_ranking **out, mcg_error **err)
{
  wanted w;
  mcg_ranking *made = ranking_new(self->count);
  place *places = malloc((2 * self->count + 1) * sizeof *places);
  int rc = made && places ? want(self, requirements, &w, err)
                          : mcg_fail(err, MCG_NOMEM, NULL, "no memory to rank candidates");
  if (rc < 0 && made && places) wanted_fini(&w);
  if (rc == 0) {
    uint8_t *verdicts = (uint8_t *)made->verdicts;
    uint32_t *order = (uint32_t *)made->order;
    size_t count = 0;
    for (size_t i = 0; i < self->count; i++) {
      verdicts[i] = (uint8_t)judge(self, &w, i, unpriced);
      places[count] = (place){key_of(self->rows[i].usd, unpriced), (uint32_t)i};
      count += verdicts[i] == FITS;
    }
    const place *sorted = sort(places, places + self->count, count);
    for (size_t i = 0; i < count; i++) order[i] = sorted[i].index;
    made->count = count;
    wanted_fini(&w);
    *out = mcg_steal_pointer(&made);
  }
  free(places);
  free(made);
  return rc;
}

void mcg_ranking_free(mcg_ranking *ranking)
{
  free(ranking);
}

/* ---- reasons ------------------------------------------------------------------------------ */

static const char *isolation_of(uint64_t have)
{
  int strength = 0;
  while (strength < MCG_ISOLATION_VM && have & (1ull << strength)) strength++;
  return mcg_isolation_names[strength];
}

static char *lacks(const mcg_candidates *self, const wanted *w, const mcg_requirements *r, size_t i)
{
  uint64_t have = self->rows[i].have, missing = w->need & ~have;
  if (missing & 15)
    return mcg_format("isolation is %s, %s is required", isolation_of(have),
                      mcg_isolation_names[r->min_isolation]);
  if (missing & (1ull << BIT_NETWORK)) return strdup("it does not reach the network");
  if (missing & (1ull << BIT_DENIED)) return strdup("its network is not denied");
  if (missing & (1ull << BIT_PTY)) return strdup("it has no terminals");
  if (missing & (1ull << BIT_PERSISTENT)) return strdup("its workspace ends with the session");
  if (missing & (1ull << BIT_ROOM))
    return mcg_format("it has its %u sessions already", self->limits[i]);
  for (uint32_t n = 3; n < self->name_count; n++) {
    size_t word;
    uint64_t bit = bit_of(n, &word);
    bool lacking = word == 0             ? missing & bit
                   : word <= self->words ? w->more && w->more[word - 1] & bit &&
                                               !(self->more[i * self->words + word - 1] & bit)
                                         : false;
    if (lacking) return mcg_format("it lacks the capability %s", self->names[n]);
  }
  return mcg_format("it lacks the capability %s", w->unheard_of ? w->unheard_of : "");
}

static char *backend_reason(const mcg_candidates *self, const mcg_requirements *r, size_t i)
{
  uint32_t number = self->rows[i].backend;
  const char *name = number == NONE ? "" : self->names[number];
  for (size_t at = 0; at < json_array_size(r->not_backends); at++)
    if (strcmp(json_string_value(json_array_get(r->not_backends, at)), name) == 0)
      return mcg_format("not_backends names %s", name);
  return mcg_format("%s is not among backends", *name ? name : "it");
}

static char *fitting(double usd)
{
  if (usd < 0) return strdup("fits; unpriced");
  return usd > 0 ? mcg_format("fits; %.6g USD a minute", usd) : strdup("fits; free");
}

char *mcg_ranking_reason(const mcg_ranking *ranking, const mcg_candidates *self,
                         const mcg_requirements *r, size_t i)
{
  wanted w;
  auto_error mcg_error *failure = NULL;
  const entry *row = &self->rows[i];
  char *text = NULL;
  if (want(self, r, &w, &failure) == 0) switch ((verdict)ranking->verdicts[i]) {
    case FITS: text = fitting(row->usd); break;
    case BACKEND: text = backend_reason(self, r, i); break;
    case BITS: text = lacks(self, &w, r, i); break;
    case REGION:
      text = row->region == NONE ? mcg_format("it names no region, %s is required", r->region)
                                 : mcg_format("its region is %s, %s is required",
                                              self->names[row->region], r->region);
      break;
    case MEMORY:
      text = mcg_format("it gives at most %.6g MiB of memory, memory_mb = %.6g is required",
                        row->memory_mb, r->memory_mb);
      break;
    case CPU:
      text = mcg_format("it gives at most %.6g processors, cpu_count = %.6g is required",
                        row->cpu_count, r->cpu_count);
      break;
    case PRICE:
      text = mcg_format("it costs %.6g USD a minute, at most %.6g is allowed", row->usd,
                        r->max_usd_per_minute);
      break;
    case NO_PRICE: text = strdup("it is unpriced, and max_usd_per_minute is set"); break;
    case UNPRICED: text = strdup("it is unpriced, and such are rejected"); break;
    }
  wanted_fini(&w);
  return text;
}

static const char *lacking_key(const mcg_candidates *self, const wanted *w, size_t i)
{
  uint64_t missing = w->need & ~self->rows[i].have;
  if (missing & 15) return "min_isolation";
  if (missing & (1ull << BIT_NETWORK | 1ull << BIT_DENIED)) return "network";
  if (missing & (1ull << BIT_PTY)) return "pty";
  if (missing & (1ull << BIT_PERSISTENT)) return "persistent";
  return missing & (1ull << BIT_ROOM) ? "max_sessions" : "capabilities";
}

const char *mcg_ranking_key(const mcg_ranking *ranking, const mcg_candidates *self,
                            const mcg_requirements *r, size_t i)
{
  static const char *const keys[] = {[REGION] = "region",
                                     [MEMORY] = "memory_mb",
                                     [CPU] = "cpu_count",
                                     [PRICE] = "max_usd_per_minute",
                                     [NO_PRICE] = "max_usd_per_minute",
                                     [UNPRICED] = "unpriced"};
  wanted w;
  auto_error mcg_error *failure = NULL;
  verdict said = (verdict)ranking->verdicts[i];
  if (said == FITS) return NULL;
  if (said == BACKEND) return r->backends ? "backends" : "not_backends";
  if (said != BITS) return keys[said];
  const char *key = want(self, r, &w, &failure) == 0 ? lacking_key(self, &w, i) : "capabilities";
  wanted_fini(&w);
  return key;
}
