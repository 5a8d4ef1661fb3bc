/* quota.c: takes a seat in the ledger of a tenant for each of its sessions, and ends a session when the
 * tenant's dollars or minutes are used up. */
#include "quota.h"
#include "audit/audit.h"
#include "ledger.h"
#include "session/session.h"
#include <errno.h>
#include <math.h>
#include <string.h>

#define LOOK_MS 5000   /* between two looks at what the others have spent */
#define LOCK_TRIES 500 /* of 10 ms: longer than anybody needs it */

struct mcg_quota_seat {
  uv_timer_t timer; /* last: freed in its close callback */
  bool timed;
  mcg_session *session;
  mcg_quota quota;
  char *directory, *tenant;
  char name[27]; /* of the record */
  int record;
};

static void seat_free(mcg_quota_seat *seat)
{
  if (seat->record >= 0) close(seat->record);
  free(seat->directory);
  free(seat->tenant);
  free(seat);
}

static void timer_closed(uv_handle_t *handle)
{
  seat_free(handle->data);
}

static int cannot(const mcg_quota_seat *seat, const char *what, mcg_error **err)
{
  return mcg_fail(err, MCG_UNAVAILABLE, "look at what is in the way there", "cannot %s in %s: %s",
                  what, seat->directory, strerror(errno));
}

static int lock(mcg_engine *engine, const mcg_quota_seat *seat, mcg_error **err) MCG_PARKS;
static int lock(mcg_engine *engine, const mcg_quota_seat *seat, mcg_error **err)
{
  for (int tries = 0;; tries++) {
    int fd = mcg_ledger_lock(seat->directory);
    if (fd >= 0) return fd;
    if (errno != EWOULDBLOCK || tries == LOCK_TRIES) return cannot(seat, "lock the quota", err);
    if (mcg_fiber_sleep(engine, 10, err) < 0) return -1;
  }
}

static const char *period(const mcg_quota *quota)
{
  static const char *const words[] = {"", " this month", " today"};
  return words[quota->per];
}

/* Of whom the message is. */
static char *who(const mcg_quota_seat *seat)
{
  return seat->tenant ? mcg_format("tenant \"%s\"", seat->tenant) : strdup("nobody");
}

static int check_spent(const mcg_quota_seat *seat, const mcg_ledger_total *total, mcg_error **err)
{
  static const char fix[] = "raise its quota, or wait until its period is over";
  const mcg_quota *quota = &seat->quota;
  auto_free char *name = who(seat);
  if (quota->usd > 0 && total->usd >= quota->usd)
    return mcg_fail(err, MCG_QUOTA, fix, "%s has spent $%.2f of its $%.2f%s", name, total->usd,
                    quota->usd, period(quota));
  if (quota->minutes > 0 && total->minutes >= quota->minutes)
    return mcg_fail(err, MCG_QUOTA, fix, "%s has used %.4g of its %.4g minutes%s", name,
                    total->minutes, quota->minutes, period(quota));
  return 0;
}

static int check_all(const mcg_quota_seat *seat, const mcg_ledger_total *total, mcg_error **err)
{
  const mcg_quota *quota = &seat->quota;
  auto_free char *name = who(seat);
  if (quota->sessions && total->sessions >= quota->sessions)
    return mcg_fail(err, MCG_QUOTA, "close one of them, or raise its quota",
                    "%s has its %u session%s already", name, quota->sessions,
                    quota->sessions == 1 ? "" : "s");
  return check_spent(seat, total, err);
}

static int take_seat(mcg_session *session, mcg_quota_seat *seat, mcg_error **err)
{
  mcg_ledger_total total;
  seat->directory = mcg_ledger_open(seat->tenant, err);
  if (!seat->directory) return -1;
  auto_fd int held = lock(session->engine, seat, err);
  if (held < 0) return -1;
  if (mcg_ledger_sum(seat->directory, &seat->quota, true, &total) < 0)
    return cannot(seat, "read the quota", err);
  if (check_all(seat, &total, err) < 0) return -1;
  seat->record = mcg_ledger_enter(seat->directory, seat->name);
  return seat->record < 0 ? cannot(seat, "note a session", err) : 0;
}

int mcg_quota_enter(mcg_session *session, const mcg_quota *quota, mcg_error **err)
{
  if (!quota->sessions && quota->usd <= 0 && quota->minutes <= 0) return 0;
  mcg_quota_seat *seat = calloc(1, sizeof *seat);
  if (!seat) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a session");
  const char *tenant = session->config->tenant;
  *seat = (mcg_quota_seat){.session = session, .quota = *quota, .record = -1};
  memcpy(seat->name, session->id, sizeof seat->name);
  seat->tenant = tenant ? strdup(tenant) : NULL;
  if (take_seat(session, seat, err) < 0) {
    seat_free(seat);
    return -1;
  }
  session->seat = seat;
  return 0;
}

/* ---- while it runs ------------------------------------------------------------------------ */

/* When the next look is due: sooner where this session, and those beside it, will have spent all. */
static uint64_t next_look(const mcg_quota_seat *seat, const mcg_ledger_total *total)
{
  const mcg_quota *quota = &seat->quota;
  double minutes = LOOK_MS / 60000.0, rate = seat->session->config->usd_per_minute;
  double beside = total->sessions ? total->sessions : 1;
  if (quota->minutes > 0) minutes = fmin(minutes, (quota->minutes - total->minutes) / beside);
  if (quota->usd > 0 && rate > 0)
    minutes = fmin(minutes, (quota->usd - total->usd) / rate / beside);
  return minutes > 0 ? (uint64_t)(minutes * 60000) + 1 : 1;
}

static void look(uv_timer_t *timer)
{
  mcg_quota_seat *seat = timer->data;
  mcg_ledger_total total;
  mcg_error *reason = NULL;
  mcg_ledger_touch(seat->record);
  if (mcg_ledger_sum(seat->directory, &seat->quota, false, &total) < 0)
    cannot(seat, "read the quota", &reason);
  else if (check_spent(seat, &total, &reason) == 0)
    uv_timer_start(timer, look, next_look(seat, &total), 0);
  if (!reason) return;
  auto_json json_t *detail =
      json_pack("{s:s, s:f, s:f}", "limit", "quota", "usd", total.usd, "minutes", total.minutes);
  mcg_audit_point(seat->session, &(mcg_event){.op = "limit", .error = reason, .detail = detail});
  mcg_session_end(seat->session, reason);
}

int mcg_quota_start(mcg_session *session, mcg_error **err)
{
  mcg_quota_seat *seat = session->seat;
  mcg_ledger_total total;
  if (!seat) return 0;
  seat->session = session; /* it may be one that was parked */
  if (seat->quota.usd > 0 && !session->config->priced)
    return mcg_fail(err, MCG_UNENFORCEABLE,
                    "give the candidate a cost = { usd_per_minute = ... }, or a quota in minutes",
                    "quota.usd: what %s costs is not known", session->config->name);
  if (mcg_ledger_write(seat->record, session->config->usd_per_minute) < 0)
    return cannot(seat, "note a session", err);
  if (seat->quota.usd <= 0 && seat->quota.minutes <= 0) return 0;
  if (mcg_ledger_sum(seat->directory, &seat->quota, false, &total) < 0)
    return cannot(seat, "read the quota", err);
  uv_timer_init(session->engine->loop, &seat->timer);
  seat->timer.data = seat;
  seat->timed = true;
  uv_update_time(session->engine->loop);
  uv_timer_start(&seat->timer, look, next_look(seat, &total), 0);
  uv_unref((uv_handle_t *)&seat->timer);
  return 0;
}

void mcg_quota_spent(const mcg_session *session, double *usd, double *minutes)
{
  mcg_ledger_total total;
  if (mcg_ledger_sum(session->seat->directory, &session->seat->quota, false, &total) < 0) return;
  *usd = total.usd;
  *minutes = total.minutes;
}

/* ---- its end ------------------------------------------------------------------------------ */

/* Nobody is waited for here: whoever has the lock next charges what is left behind. */
void mcg_quota_leave(mcg_session *session)
{
  mcg_quota_seat *seat = mcg_steal_pointer(&session->seat);
  if (!seat) return;
  uint64_t end = session->ended_ns ? session->ended_ns : uv_hrtime();
  double minutes = session->began_ns ? (double)(end - session->began_ns) / 60e9 : 0;
  double usd = minutes * session->config->usd_per_minute;
  auto_fd int held = mcg_ledger_lock(seat->directory);
  if (held < 0 || mcg_ledger_leave(seat->directory, seat->name, usd, minutes) < 0)
    mcg_ledger_bequeath(seat->record, usd, minutes);
  if (seat->timed)
    uv_close((uv_handle_t *)&seat->timer, timer_closed);
  else
    seat_free(seat);
}
