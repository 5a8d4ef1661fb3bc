/* Queries to the stub: what is understood is a question that the C library reads the same way, and every
 * answer is one that it reads. */
#define MCG_SAMPLES_DNS
#include "fuzz.h"
#include "egress/dns_message.h"
#include "wire_samples.h"
#include <arpa/inet.h>
#include <arpa/nameser.h>

static void check_answer(const mcg_dns_query *query, mcg_dns_code code)
{
  static const mcg_address both[] = {{.bytes = {198, 18, 0, 1}},
                                     {.bytes = {0xfd, [15] = 1}, .six = true}};
  uint8_t out[MCG_DNS_ANSWER_ROOM];
  ns_msg message;
  size_t len = mcg_dns_answer(query, code, both, 2, 60, out);
  FUZZ_NEED(len <= sizeof out - 2);
  FUZZ_NEED(ns_initparse(out, (int)len, &message) == 0);
  FUZZ_NEED(ns_msg_id(message) == query->id && ns_msg_getflag(message, ns_f_qr));
  FUZZ_NEED((int)ns_msg_getflag(message, ns_f_rcode) == (int)(code & 15));
  FUZZ_NEED(ns_msg_count(message, ns_s_an) <= (code == MCG_DNS_OK));
  FUZZ_NEED(ns_msg_count(message, ns_s_ar) == query->edns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  mcg_dns_query query;
  ns_msg message;
  ns_rr question;
  int framed = mcg_dns_framed(data, size);
  FUZZ_NEED(framed >= -1 && (framed < 0 || (size_t)framed <= size));
  if (!mcg_dns_read(data, size, &query)) return 0;
  FUZZ_NEED(strlen(query.shown) < MCG_NAME_ROOM);
  if (query.code == MCG_DNS_OK) {
    FUZZ_NEED(ns_initparse(data, (int)size, &message) == 0);
    FUZZ_NEED(ns_parserr(&message, ns_s_qd, 0, &question) == 0);
    FUZZ_NEED(ns_rr_type(question) == query.type && ns_rr_class(question) == ns_c_in);
    if (query.named) FUZZ_NEED(strcasecmp(ns_rr_name(question), query.name) == 0);
    check_answer(&query, MCG_DNS_OK);
    check_answer(&query, MCG_DNS_NXDOMAIN);
  }
  check_answer(&query, query.code);
  return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
  static const char *const all[] = {dig_a,     dig_aaaa_plain, dig_https_cookie, dig_chaos,
                                    dig_edns1, dig_underscore, dig_tcp};
  (void)room;
  return index < sizeof all / sizeof *all ? sample(all[index], out) : 0;
}
