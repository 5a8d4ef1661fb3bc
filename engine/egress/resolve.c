/* resolve.c: one thread for each look-up that is under way, at most so many a session; those who want
 * the same name wait for the same look-up, and its answer is kept for a second.
 *
 * Threads of libuv's pool would do, were there not four of them for everybody: four names of a server
 * that never answers would stop the look-ups of every session. A look-up cannot be canceled: what it
 * writes to is shared between its thread and the loop, and the last of the two frees it. An answer that
 * is kept is memory and nothing else, and so few are: a sandbox can ask for any number of names. */
#include "resolve.h"
#include "name.h"
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <resolv.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>

#define LOOKUPS_MAX 32
#define KEPT_MAX 64 /* answers; then the oldest go */
#define WAIT_MS 8000
#define THREAD_STACK ((size_t)256 << 10)

typedef void (*ask_fn)(const char *name, mcg_resolved *out);

/* Between the loop and a thread. */
typedef struct lookup {
  atomic_uint refs;
  int done_fd; /* an eventfd: written once `resolved` holds */
  ask_fn ask;
  char name[MCG_NAME_ROOM];
  mcg_resolved resolved;
} lookup;

typedef struct waiter {
  struct waiter *next;
  mcg_wait wait;
  mcg_resolved *out;
  bool answered; /* `out` holds, and the entry may be gone */
} waiter;

typedef struct entry {
  struct entry *next;
  mcg_resolver *resolver; /* NULL once it is in no list */
  lookup *lookup;         /* until it has answered */
  uv_poll_t poll;         /* the same */
  bool closed;            /* `poll` is */
  bool done;              /* the next two hold */
  uint64_t at_ms;
  mcg_resolved resolved;
  waiter *waiters;
  char name[MCG_NAME_ROOM];
} entry;

struct mcg_resolver {
  mcg_engine *engine;
  entry *entries;
  ask_fn ask;
};

/* ---- on the thread ------------------------------------------------------------------------ */

static mcg_resolve_status status_of(int rc)
{
  switch (rc) {
  case 0: return MCG_RESOLVED;
  case EAI_NONAME: return MCG_RESOLVE_NO_NAME;
#ifdef EAI_NODATA
  case EAI_NODATA: return MCG_RESOLVE_NO_DATA;
#endif
  default: return MCG_RESOLVE_FAILED;
  }
}

/* Of this thread alone: no search domains, no HOSTALIASES. A final dot would say the first, too, but then
 * no line of /etc/hosts is found. */
static void take_names_as_they_are(void)
{
  if (!(_res.options & RES_INIT)) res_init();
  _res.options &= ~(unsigned long)(RES_DEFNAMES | RES_DNSRCH);
  _res.options |= RES_NOALIASES;
}

static void ask_host(const char *name, mcg_resolved *out)
{
  const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  struct addrinfo *list = NULL;
  take_names_as_they_are();
  int rc = getaddrinfo(name, NULL, &hints, &list);
  out->status = status_of(rc);
  if (rc) snprintf(out->reason, sizeof out->reason, "%s", gai_strerror(rc));
  for (struct addrinfo *one = rc ? NULL : list; one; one = one->ai_next) {
    mcg_address address;
    if (!mcg_address_of(one->ai_addr, &address)) continue;
    if (out->count == MCG_RESOLVE_ADDRESSES) {
      out->status = MCG_RESOLVE_FAILED;
      snprintf(out->reason, sizeof out->reason, "it has more than %d addresses",
               MCG_RESOLVE_ADDRESSES);
      break;
    }
    out->list[out->count++] = address;
  }
  if (!rc) freeaddrinfo(list);
}

static void lookup_unref(lookup *self)
{
  if (atomic_fetch_sub(&self->refs, 1) != 1) return;
  close(self->done_fd);
  free(self);
}

static void *lookup_main(void *arg)
{
  lookup *self = arg;
  self->ask(self->name, &self->resolved);
  const uint64_t one = 1;
  (void)!write(self->done_fd, &one, sizeof one); /* the first write of an eventfd cannot fail */
  lookup_unref(self);
  return NULL;
}

static int start_thread(lookup *self)
{
  pthread_attr_t attributes;
  pthread_t thread;
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, THREAD_STACK);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the host's */
  int rc = pthread_create(&thread, &attributes, lookup_main, self);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return rc;
}

/* ---- entries ------------------------------------------------------------------------------ */

static void entry_closed(uv_handle_t *handle)
{
  entry *self = handle->data;
  lookup_unref(self->lookup);
  self->lookup = NULL;
  self->closed = true;
  if (!self->resolver) free(self);
}

/* Out of the list already. */
static void entry_drop(entry *self)
{
  self->resolver = NULL;
  if (self->closed)
    free(self);
  else if (!self->done)
    uv_close((uv_handle_t *)&self->poll, entry_closed);
}

static void entry_answered(uv_poll_t *poll, int status, int events)
{
  (void)status;
  (void)events;
  entry *self = poll->data;
  self->done = true;
  self->at_ms = uv_now(poll->loop);
  self->resolved = self->lookup->resolved;
  uv_close((uv_handle_t *)poll, entry_closed);
  while (self->waiters) {
    waiter *first = self->waiters;
    self->waiters = first->next;
    *first->out = self->resolved;
    first->answered = true;
    mcg_wait_wake(self->resolver->engine, &first->wait);
  }
}

static int entry_new(mcg_resolver *resolver, const char *name, entry **out, mcg_error **err)
{
  entry *self = calloc(1, sizeof *self);
  lookup *one = calloc(1, sizeof *one);
  int number = self && one ? 0 : ENOMEM;
  if (!number && (one->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) number = errno;
  if (number) {
    free(self);
    free(one);
    return mcg_fail_errno(err, number, NULL, "look up %s", name);
  }
  atomic_init(&one->refs, 2);
  one->ask = resolver->ask;
  snprintf(one->name, sizeof one->name, "%s", name);
  snprintf(self->name, sizeof self->name, "%s", name);
  self->lookup = one;
  self->resolver = resolver;
  int rc = uv_poll_init(resolver->engine->loop, &self->poll, one->done_fd);
  if (rc < 0) {
    close(one->done_fd);
    free(one);
    free(self);
    return mcg_fail_errno(err, -rc, NULL, "look up %s", name);
  }
  self->poll.data = self;
  number = start_thread(one);
  if (number) {
    lookup_unref(one);
    entry_drop(self);
    return mcg_fail_errno(err, number, NULL, "start a thread to look up %s", name);
  }
  uv_poll_start(&self->poll, UV_READABLE, entry_answered);
  self->next = resolver->entries;
  *out = resolver->entries = self;
  return 0;
}

/* Drops what is too old, or too much; counts what is under way. The list begins with the newest. */
static entry *entry_find(mcg_resolver *resolver, const char *name, size_t *under_way)
{
  uint64_t now = uv_now(resolver->engine->loop);
  entry *found = NULL, **at = &resolver->entries;
  size_t kept = 0;
  *under_way = 0;
  while (*at) {
    entry *one = *at;
    if (one->done && (now - one->at_ms > MCG_RESOLVE_KEEP_MS || ++kept > KEPT_MAX)) {
      *at = one->next;
      entry_drop(one);
      continue;
    }
    if (!one->done) ++*under_way;
    if (strcmp(one->name, name) == 0) found = one;
    at = &one->next;
  }
  return found;
}

/* ---- for everybody ------------------------------------------------------------------------ */

int mcg_resolver_new(mcg_engine *engine, mcg_resolver **out, mcg_error **err)
{
  mcg_resolver *resolver = calloc(1, sizeof *resolver);
  if (!resolver) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a resolver");
  resolver->engine = engine;
  resolver->ask = ask_host;
  *out = resolver;
  return 0;
}

void mcg_resolver_ask_by(mcg_resolver *resolver, void (*ask)(const char *name, mcg_resolved *out))
{
  resolver->ask = ask ? ask : ask_host;
}

void mcg_resolver_free(mcg_resolver *resolver)
{
  if (!resolver) return;
  while (resolver->entries) {
    entry *first = resolver->entries;
    resolver->entries = first->next;
    entry_drop(first);
  }
  free(resolver);
}

static void leave(entry *self, const waiter *one)
{
  waiter **at = &self->waiters;
  while (*at && *at != one) at = &(*at)->next;
  if (*at) *at = one->next;
}

int mcg_resolve(mcg_resolver *resolver, const char *name, mcg_resolved *out, mcg_error **err)
{
  size_t under_way;
  if (strlen(name) >= MCG_NAME_ROOM)
    return mcg_fail(err, MCG_INVALID, NULL, "no name has more than %d bytes", MCG_NAME_MAX);
  entry *self = entry_find(resolver, name, &under_way);
  if (!self && under_way >= LOOKUPS_MAX)
    return mcg_fail(err, MCG_QUOTA, "look up fewer names at once",
                    "%d look-ups are under way, which is the most for a sandbox", LOOKUPS_MAX);
  if (!self && entry_new(resolver, name, &self, err) < 0) return -1;
  if (self->done) {
    *out = self->resolved;
    return 0;
  }
  waiter own = {.next = self->waiters, .out = out};
  mcg_error *error = NULL;
  mcg_wait_init(&own.wait);
  self->waiters = &own;
  if (mcg_wait_park(resolver->engine, &own.wait, WAIT_MS, &error) == 0) return 0;
  if (!own.answered) leave(self, &own);
  if (error->code != MCG_TIMEOUT) {
    *err = error;
    return -1;
  }
  mcg_error_free(error);
  *out = (mcg_resolved){.status = MCG_RESOLVE_FAILED};
  snprintf(out->reason, sizeof out->reason, "no name server answered in %d s", WAIT_MS / 1000);
  return 0;
}
