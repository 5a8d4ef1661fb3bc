/* Requests and responses of HTTP, in whatever pieces: what goes on is always one that reads again as the
 * same, with the header of the rule once, and no secret comes back.
 *
 * An input is cut by its first byte: into a side, and pieces of one length. */
#include "fuzz.h"
#include "egress/http_exchange.h"

#include <strings.h>

#define SECRET "token-of-some-length"

static const mcg_http_set set[] = {{"Authorization", SECRET}};
static const mcg_http_rewrite rule = {
    .host = "api.test", .port = 443, .set = set, .count = 1, .plain = true};

static void *find(const mcg_bytes *bytes, const char *text)
{
  return bytes->len ? memmem(mcg_bytes_of(bytes), bytes->len, text, strlen(text)) : NULL;
}

/* What the server is sent begins with a head that it reads as we did. */
static void check_request(const mcg_bytes *far)
{
  static mcg_http_head head;
  mcg_http_refusal refusal;
  unsigned times = 0;
  FUZZ_NEED(mcg_http_request_read(mcg_bytes_of(far), far->len, &head, &refusal) > 0);
  for (size_t i = 0; i < head.count; i++)
    if (mcg_http_text_is(head.fields[i].name, "authorization")) {
      times++;
      FUZZ_NEED(mcg_http_text_is(head.fields[i].value, SECRET));
    }
  FUZZ_NEED(times == 1);
  FUZZ_NEED(strncasecmp(head.host.at, "api.test", 8) == 0);
  FUZZ_NEED(!(mcg_http_find(&head, "content-length") && mcg_http_find(&head, "transfer-encoding")));
}

static void feed(mcg_exchange *exchange, bool near, const char *bytes, size_t size, size_t piece,
                 mcg_bytes *out, mcg_bytes *back)
{
  size_t from = 0;
  for (size_t to = 0; to < size && mcg_exchange_state_of(exchange) == MCG_EXCHANGE_OPEN;) {
    to = size - to > piece ? to + piece : size;
    size_t took = near ? mcg_exchange_near(exchange, bytes + from, to - from, out, back)
                       : mcg_exchange_far(exchange, bytes + from, to - from, back);
    FUZZ_NEED(took <= to - from);
    from += took;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const char ask[] = "GET / HTTP/1.1\r\nHost: api.test\r\nUpgrade: x\r\n"
                            "Connection: upgrade\r\n\r\n";
  if (size < 1) return 0;
  bool near = data[0] & 1;
  size_t piece = (size_t)(data[0] >> 1) + 1;
  mcg_bytes out = {0}, back = {0};
  mcg_secrets *secrets = mcg_secrets_new();
  FUZZ_NEED(secrets && mcg_secrets_add(secrets, SECRET, strlen(SECRET)));
  mcg_exchange *exchange = mcg_exchange_new(&rule, secrets);
  FUZZ_NEED(exchange);
  if (!near) feed(exchange, true, ask, sizeof ask - 1, sizeof ask, &out, &back);
  feed(exchange, near, (const char *)data + 1, size - 1, piece, &out, &back);
  if (out.len) check_request(&out);
  if (!near) mcg_exchange_far_ended(exchange, true, &back);
  FUZZ_NEED(!out.failed && !back.failed && !find(&back, SECRET));
  mcg_exchange_free(exchange);
  mcg_secrets_free(secrets);
  mcg_bytes_fini(&out);
  mcg_bytes_fini(&back);
  return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
  static const char *const seeds[] = {
      "\x0fPOST /a?b=c HTTP/1.1\r\nHost: api.test:443\r\nContent-Length: 5\r\nAuthorization: x\r\n"
      "Expect: 100-continue\r\n\r\nhello",
      "\x03PUT / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"
      "\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
      "\x0eHTTP/1.1 200 OK\r\nContent-Length: 22\r\nX: " SECRET "\r\n\r\n<" SECRET ">",
      "\x04HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
      "9\r\ntoken-of-\r\nb\r\nsome-length\r\n0\r\n\r\n",
      "\x20HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" SECRET,
      "\x10HTTP/1.0 200 OK\r\n\r\ntoken-of-some-lengthtoken-of-some-lengt"};
  if (index >= sizeof seeds / sizeof *seeds || strlen(seeds[index]) > room) return 0;
  size_t len = strlen(seeds[index]);
  memcpy(out, seeds[index], len);
  return len;
}
