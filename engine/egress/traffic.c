/* traffic.c: counts, a total and a rate of bytes, shared by the connections of one session.
 *
 * The rate is a bucket that holds a tenth of a second: a sandbox that was quiet gets no credit beyond
 * that, and one that is held back goes on at every tick. What everybody takes at once is small while
 * there is a rate, so that one connection does not starve the others. */
#include "traffic.h"
#include <string.h>

#define TICK_MS 25
#define SHARE ((size_t)16 << 10)
#define BUCKET_LEAST 4096

static uint64_t bucket_of(uint64_t rate)
{
  return rate / 10 > BUCKET_LEAST ? rate / 10 : BUCKET_LEAST;
}

static void refill(mcg_traffic *traffic)
{
  uint64_t now = uv_now(traffic->timer.loop), most = bucket_of(traffic->rate);
  uint64_t passed = now - traffic->at_ms;
  if (passed > 1000) passed = 1000;
  uint64_t more = traffic->rate / 1000 * passed + traffic->rate % 1000 * passed / 1000;
  if (!more) return; /* too little time for a byte: it is not lost */
  traffic->at_ms = now;
  traffic->tokens = traffic->tokens + more > most ? most : traffic->tokens + more;
}

static void on_tick(uv_timer_t *timer)
{
  mcg_traffic *traffic = timer->data;
  mcg_traffic_waiter *head = &traffic->wait, ring;
  refill(traffic);
  if (!traffic->tokens) return;
  if (head->after == head) {
    uv_timer_stop(timer);
    return;
  }
  /* Those who wait now: who waits again in it does so for the next tick. */
  ring = *head;
  ring.after->before = ring.before->after = &ring;
  head->before = head->after = head;
  while (ring.after != &ring) {
    mcg_traffic_waiter *first = ring.after;
    mcg_traffic_leave(first);
    first->resume(first);
  }
}

void mcg_traffic_init(mcg_traffic *traffic, uv_loop_t *loop, uint64_t rate, uint64_t total)
{
  memset(traffic, 0, sizeof *traffic);
  traffic->wait.before = traffic->wait.after = &traffic->wait;
  uv_timer_init(loop, &traffic->timer);
  traffic->timer.data = traffic;
  traffic->at_ms = uv_now(loop);
  mcg_traffic_limit(traffic, rate, total);
}

void mcg_traffic_limit(mcg_traffic *traffic, uint64_t rate, uint64_t total)
{
  traffic->rate = rate;
  traffic->total = total;
  traffic->tokens = bucket_of(rate);
}

static void on_closed(uv_handle_t *timer)
{
  mcg_traffic *traffic = timer->data;
  traffic->closed(traffic->data);
}

void mcg_traffic_close(mcg_traffic *traffic, void (*closed)(void *data), void *data)
{
  traffic->closed = closed;
  traffic->data = data;
  uv_close((uv_handle_t *)&traffic->timer, on_closed);
}

bool mcg_traffic_spent(const mcg_traffic *traffic)
{
  return traffic->total && traffic->in + traffic->out >= traffic->total;
}

size_t mcg_traffic_ask(mcg_traffic *traffic, size_t want)
{
  if (traffic->total) {
    uint64_t moved = traffic->in + traffic->out;
    uint64_t left = moved < traffic->total ? traffic->total - moved : 0;
    if (want > left) want = (size_t)left;
  }
  if (!traffic->rate) return want;
  refill(traffic);
  if (want > SHARE) want = SHARE;
  return want < traffic->tokens ? want : (size_t)traffic->tokens;
}

void mcg_traffic_moved(mcg_traffic *traffic, bool into, size_t bytes)
{
  if (into)
    traffic->in += bytes;
  else
    traffic->out += bytes;
  traffic->tokens -= bytes < traffic->tokens ? bytes : traffic->tokens;
}

void mcg_traffic_wait(mcg_traffic *traffic, mcg_traffic_waiter *waiter)
{
  if (waiter->waits) return;
  waiter->waits = true;
  waiter->after = &traffic->wait;
  waiter->before = traffic->wait.before;
  waiter->before->after = waiter;
  traffic->wait.before = waiter;
  if (!uv_is_active((uv_handle_t *)&traffic->timer))
    uv_timer_start(&traffic->timer, on_tick, TICK_MS, TICK_MS);
}

void mcg_traffic_leave(mcg_traffic_waiter *waiter)
{
  if (!waiter->waits) return;
  waiter->waits = false;
  waiter->before->after = waiter->after;
  waiter->after->before = waiter->before;
  waiter->before = waiter->after = NULL;
}
