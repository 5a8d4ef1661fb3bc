/* spend.c: sums of what is over are kept by the engine, by run and by tenant; what runs is added when
 * somebody asks. Kept only for sessions whose host decides about commands: nobody else asks. */
#include "spend.h"
#include "quota.h"
#include <string.h>

#define KEPT_MAX 100000 /* sums; past it the engine forgets no sum, and begins no new one */

static mcg_spent of_session(const mcg_session *session)
{
  uint64_t end = session->ended_ns ? session->ended_ns : uv_hrtime();
  mcg_spent s = {0};
  if (session->pool || session->remote || !session->began_ns) return s;
  s.minutes = (double)(end - session->began_ns) / 60e9;
  s.usd = s.minutes * session->config->usd_per_minute;
  s.unpriced = !session->config->priced;
  return s;
}

static void add(mcg_spent *to, mcg_spent more)
{
  to->minutes += more.minutes;
  to->usd += more.usd;
  to->unpriced = to->unpriced || more.unpriced;
}

static json_t *spend_json(mcg_spent s)
{
  return json_pack("{s:f, s:f, s:b}", "minutes", s.minutes, "usd", s.usd, "unpriced", s.unpriced);
}

static mcg_spent spend_of(const json_t *kept)
{
  return (mcg_spent){.minutes = json_number_value(json_object_get(kept, "minutes")),
                     .usd = json_number_value(json_object_get(kept, "usd")),
                     .unpriced = json_is_true(json_object_get(kept, "unpriced"))};
}

/* The two kinds of sum have ids of their own: "r" and "t" come before them. */
static char *key_of(char kind, const char *id)
{
  return mcg_format("%c%s", kind, id);
}

static const char *id_of(const mcg_session *session, char kind)
{
  return kind == 'r' ? session->config->run_id : session->config->tenant;
}

/* False: there is no such sum. */
static bool sum_of(const mcg_session *session, char kind, mcg_spent *out)
{
  const char *id = id_of(session, kind);
  auto_free char *key = id ? key_of(kind, id) : NULL;
  if (!key) return false;
  *out = spend_of(json_object_get(session->engine->spent, key));
  for (const mcg_session *s = session->engine->sessions; s; s = s->after) {
    const char *its = id_of(s, kind);
    if (its && s->state != MCG_SESSION_CLOSED && !s->spend_kept && strcmp(its, id) == 0)
      add(out, of_session(s));
  }
  if (kind == 't' && session->seat)
    mcg_quota_spent(session, &out->usd, &out->minutes); /* of all engines */
  return true;
}

void mcg_spend_tell(const mcg_session *session, mcg_spend *room, mcg_told *told)
{
  room->session = of_session(session);
  told->session = &room->session;
  told->run = sum_of(session, 'r', &room->run) ? &room->run : NULL;
  told->tenant = sum_of(session, 't', &room->tenant) ? &room->tenant : NULL;
}

static void keep(const mcg_session *session, char kind)
{
  mcg_engine *engine = session->engine;
  const char *id = id_of(session, kind);
  auto_free char *key = id ? key_of(kind, id) : NULL;
  if (!key) return;
  if (!engine->spent) engine->spent = json_object();
  json_t *kept = json_object_get(engine->spent, key);
  if (!kept && json_object_size(engine->spent) >= KEPT_MAX) {
    mcg_log(engine, MCG_LOG_ERROR,
            "what run or tenant %s has spent is not kept: there are too many", id);
    return;
  }
  mcg_spent sum = spend_of(kept);
  add(&sum, of_session(session));
  json_object_set_new(engine->spent, key, spend_json(sum));
}

void mcg_spend_keep(mcg_session *session)
{
  if (session->spend_kept || !mcg_session_asks(session, MCG_ASK_GUARDRAIL)) return;
  keep(session, 'r');
  keep(session, 't');
  session->spend_kept = true;
}
