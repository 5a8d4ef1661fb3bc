/* deadline.c: the time a session has: its wall limit, or its time to live, whichever is sooner. */
#include "audit/audit.h"
#include "session.h"

struct mcg_deadline { /* outlives its session's interest by one turn of the loop */
  uv_timer_t timer;
  mcg_session *session;
  bool wall; /* else the time to live */
  int64_t ms;
};

static void deadline_closed(uv_handle_t *handle)
{
  free(handle->data);
}

void mcg_session_no_deadline(mcg_session *session)
{
  if (session->deadline) uv_close((uv_handle_t *)&session->deadline->timer, deadline_closed);
  session->deadline = NULL;
}

static void deadline_reached(uv_timer_t *timer)
{
  struct mcg_deadline *deadline = timer->data;
  mcg_error *reason = NULL;
  mcg_fail(&reason, MCG_TIMEOUT,
           deadline->wall ? "raise limits.wall_s" : "open it with a longer ttl_s",
           "the session reached its %s of %.3g s", deadline->wall ? "wall limit" : "time to live",
           (double)deadline->ms / 1000);
  auto_json json_t *detail = json_pack("{s:s, s:f}", "limit", deadline->wall ? "wall_s" : "ttl_s",
                                       "value", (double)deadline->ms / 1000);
  mcg_audit_point(deadline->session,
                  &(mcg_event){.op = "limit", .error = reason, .detail = detail});
  mcg_session_end(deadline->session, reason);
}

int mcg_session_deadline(mcg_session *session, mcg_error **err)
{
  int64_t wall = (int64_t)session->config->plan.limits.wall_ms.value, ttl = session->config->ttl_ms;
  if (!wall && !ttl) return 0;
  struct mcg_deadline *deadline = malloc(sizeof *deadline);
  if (!deadline) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a session");
  deadline->session = session;
  deadline->wall = wall && (!ttl || wall <= ttl);
  deadline->ms = deadline->wall ? wall : ttl;
  uv_timer_init(session->engine->loop, &deadline->timer);
  deadline->timer.data = deadline;
  uv_update_time(session->engine->loop);
  uv_timer_start(&deadline->timer, deadline_reached, (uint64_t)deadline->ms, 0);
  uv_unref((uv_handle_t *)&deadline->timer);
  session->deadline = deadline;
  return 0;
}
