/* Queries of dig and of the C library, and our answers as the C library reads them. */
#define MCG_SAMPLES_DNS
#include "cmocka_all.h"
#include "egress/dns_message.h"
#include "wire_samples.h"
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <resolv.h>

static mcg_dns_query query_of(const char *hex)
{
  uint8_t bytes[512];
  mcg_dns_query query;
  assert_true(mcg_dns_read(bytes, sample(hex, bytes), &query));
  return query;
}

static void reads_dig(void **state)
{
  (void)state;
  static const struct {
    const char *hex;
    uint16_t id, type;
    mcg_dns_code code;
    const char *name, *shown; /* name NULL: it is no host's */
    bool edns, dnssec, checking_off;
  } cases[] = {
      {dig_a, 0xb6dd, MCG_DNS_A, MCG_DNS_OK, "api.example.com", "api.Example.com", true, false,
       false},
      {dig_aaaa_plain, 0x6142, MCG_DNS_AAAA, MCG_DNS_OK, "api.example.com", "api.example.com",
       false, false, false},
      {dig_https_cookie, 0x0049, MCG_DNS_HTTPS, MCG_DNS_OK, "api.example.com", "api.example.com",
       true, true, true},
      {dig_chaos, 0x6208, 16, MCG_DNS_REFUSED, "version.bind", "version.bind", true, false, false},
      {dig_edns1, 0x21f7, MCG_DNS_A, MCG_DNS_BADVERS, "a.test", "a.test", true, false, false},
      {dig_underscore, 0x8aec, 33, MCG_DNS_OK, NULL, "_srv._tcp.a.test", false, false, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mcg_dns_query query = query_of(cases[i].hex);
    assert_int_equal(query.id, cases[i].id);
    assert_int_equal(query.type, cases[i].type);
    assert_int_equal(query.code, cases[i].code);
    assert_true(query.recursion);
    assert_int_equal(query.named, cases[i].name != NULL);
    assert_string_equal(query.name, cases[i].name ? cases[i].name : "");
    assert_string_equal(query.shown, cases[i].shown);
    assert_int_equal(query.edns, cases[i].edns);
    assert_int_equal(query.dnssec, cases[i].dnssec);
    assert_int_equal(query.checking_off, cases[i].checking_off);
  }
}

/* Every shorter piece of a query, and every longer one, is none. */
static void reads_whole_queries_only(void **state)
{
  (void)state;
  uint8_t bytes[512];
  mcg_dns_query query;
  size_t len = sample(dig_https_cookie, bytes);
  for (size_t cut = 0; cut < len; cut++) {
    bool answered = mcg_dns_read(bytes, cut, &query);
    assert_int_equal(answered, cut >= 12);
    if (answered) assert_int_equal(query.code, MCG_DNS_FORMERR);
  }
  bytes[len] = 0;
  assert_true(mcg_dns_read(bytes, len + 1, &query));
  assert_int_equal(query.code, MCG_DNS_FORMERR);
}

typedef struct change {
  size_t at;
  uint8_t value;
  int code; /* -1: no answer at all */
} change;

static void judges_headers_and_names(void **state)
{
  (void)state;
  /* Of the plain query: id 0-1, flags 2-3, counts 4-11, name 12-28, type 29-30, class 31-32. */
  static const change changes[] = {
      {2, 0x81, -1},              /* an answer */
      {2, 0x11, MCG_DNS_NOTIMP},  /* a status request */
      {2, 0x29, MCG_DNS_NOTIMP},  /* an update */
      {2, 0x03, MCG_DNS_FORMERR}, /* truncated */
      {5, 0, MCG_DNS_FORMERR},    /* no question */
      {5, 2, MCG_DNS_FORMERR},
      {7, 1, MCG_DNS_FORMERR}, /* answers in it */
      {9, 1, MCG_DNS_FORMERR},
      {11, 1, MCG_DNS_FORMERR}, /* OPT is missing */
      {11, 2, MCG_DNS_FORMERR},
      {12, 0xc0, MCG_DNS_FORMERR}, /* a pointer */
      {12, 0x41, MCG_DNS_FORMERR}, /* a bit-string label */
      {12, 4, MCG_DNS_FORMERR},    /* the next label is as long as a letter says */
      {28, 1, MCG_DNS_FORMERR},    /* no root */
      {30, 252, MCG_DNS_REFUSED},  /* AXFR */
      {30, 41, MCG_DNS_REFUSED},   /* OPT as a type */
      {30, 255, MCG_DNS_OK},       /* ANY: there is nothing of it */
      {32, 3, MCG_DNS_REFUSED},    /* CHAOS */
      {13, '.', MCG_DNS_OK},       /* but not named */
      {13, 0, MCG_DNS_OK},
      {13, 0xe9, MCG_DNS_OK},
      {13, '_', MCG_DNS_OK},
      {13, '-', MCG_DNS_OK},
  };
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    uint8_t bytes[64];
    mcg_dns_query query;
    size_t len = sample(dig_aaaa_plain, bytes);
    bytes[changes[i].at] = changes[i].value;
    bool answered = mcg_dns_read(bytes, len, &query);
    if (answered != (changes[i].code >= 0) || (answered && (int)query.code != changes[i].code))
      fail_msg("byte %zu as 0x%02x: %d", changes[i].at, changes[i].value, query.code);
    if (changes[i].at == 13) assert_false(query.named);
  }
}

/* A dot within a label is not the dot between two. */
static void labels_are_no_text(void **state)
{
  (void)state;
  static const uint8_t query_bytes[] = "\0\1\1\0\0\1\0\0\0\0\0\0"
                                       "\x8"
                                       "evil.api\7example\3com\0\0\1\0\1";
  mcg_dns_query query;
  assert_true(mcg_dns_read(query_bytes, sizeof query_bytes - 1, &query));
  assert_int_equal(query.code, MCG_DNS_OK);
  assert_false(query.named);
  static const uint8_t nul[] = "\0\1\1\0\0\1\0\0\0\0\0\0"
                               "\x9"
                               "evil.test\0\0\1\0\1";
  uint8_t bytes[sizeof nul];
  memcpy(bytes, nul, sizeof nul);
  bytes[12 + 5] = '\0';
  assert_true(mcg_dns_read(bytes, sizeof nul - 1, &query));
  assert_false(query.named);
  assert_string_equal(query.shown, "evil?test");
  static const uint8_t numeric[] = "\0\1\1\0\0\1\0\0\0\0\0\0"
                                   "\4"
                                   "0x7f\1"
                                   "1\0\0\1\0\1";
  assert_true(mcg_dns_read(numeric, sizeof numeric - 1, &query));
  assert_false(query.named);
}

static void reads_the_longest_names(void **state)
{
  (void)state;
  uint8_t bytes[600];
  mcg_dns_query query;
  char name[256] = "";
  for (int i = 0; i < 4; i++) /* 63 + 63 + 63 + 61, and three dots: 253 */
    sprintf(name + strlen(name), "%s%.*s", i ? "." : "", i == 3 ? 61 : 63,
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
  assert_int_equal(strlen(name), 253);
  int len = res_mkquery(ns_o_query, name, ns_c_in, ns_t_a, NULL, 0, NULL, bytes, sizeof bytes);
  assert_true(len > 0);
  assert_true(mcg_dns_read(bytes, (size_t)len, &query));
  assert_true(query.named);
  assert_string_equal(query.name, name);
  assert_int_equal(query.question_len, 259);
  memmove(bytes + 14, bytes + 13, (size_t)len - 13); /* one more in the first label: 64 */
  bytes[12]++;
  assert_true(mcg_dns_read(bytes, (size_t)len + 1, &query));
  assert_int_equal(query.code, MCG_DNS_FORMERR);
  static const uint8_t root[] = "\0\1\1\0\0\1\0\0\0\0\0\0\0\0\1\0\1";
  assert_true(mcg_dns_read(root, sizeof root - 1, &query));
  assert_int_equal(query.code, MCG_DNS_OK);
  assert_false(query.named);
}

static mcg_address address(const char *text)
{
  mcg_address out;
  assert_true(mcg_address_parse(text, strlen(text), &out));
  return out;
}

/* What glibc makes of an answer: how many records, and the address of the first. */
static int library_reads(const uint8_t *bytes, size_t len, int rcode, char first[64])
{
  ns_msg message;
  ns_rr record;
  assert_int_equal(ns_initparse(bytes, (int)len, &message), 0);
  assert_int_equal(ns_msg_getflag(message, ns_f_qr), 1);
  assert_int_equal(ns_msg_getflag(message, ns_f_tc), 0);
  assert_int_equal(ns_msg_getflag(message, ns_f_rd), 1);
  assert_int_equal(ns_msg_getflag(message, ns_f_ra), 1);
  assert_int_equal(ns_msg_getflag(message, ns_f_rcode), rcode);
  assert_int_equal(ns_msg_count(message, ns_s_qd), 1);
  int count = ns_msg_count(message, ns_s_an);
  for (int i = 0; i < count; i++) {
    assert_int_equal(ns_parserr(&message, ns_s_an, i, &record), 0);
    if (i == 0)
      inet_ntop(ns_rr_type(record) == ns_t_a ? AF_INET : AF_INET6, ns_rr_rdata(record), first, 64);
    assert_int_equal(ns_rr_ttl(record), 70000);
    assert_int_equal(strcasecmp(ns_rr_name(record), "api.example.com"), 0);
  }
  for (int i = 0; i < ns_msg_count(message, ns_s_ar); i++) {
    assert_int_equal(ns_parserr(&message, ns_s_ar, i, &record), 0);
    assert_int_equal(ns_rr_type(record), ns_t_opt);
  }
  return count;
}

static void answers(void **state)
{
  (void)state;
  const mcg_address both[] = {address("198.18.0.7"), address("fd00::7")};
  const mcg_address many[] = {both[0], both[0], both[0], both[0], both[0], both[0]};
  uint8_t out[MCG_DNS_ANSWER_ROOM];
  char first[64];
  mcg_dns_query query = query_of(dig_a);
  size_t len = mcg_dns_answer(&query, MCG_DNS_OK, both, 2, 70000, out);
  assert_int_equal(library_reads(out, len, ns_r_noerror, first), 1);
  assert_string_equal(first, "198.18.0.7");
  assert_int_equal(out[0] << 8 | out[1], query.id);
  assert_memory_equal(out + 12, "\3api\7Example\3com", 17); /* as it was asked, case and all */
  len = mcg_dns_answer(&query, MCG_DNS_OK, many, 6, 70000, out);
  assert_int_equal(library_reads(out, len, ns_r_noerror, first), 4);
  len = mcg_dns_answer(&query, MCG_DNS_OK, both + 1, 1, 70000, out); /* none of that type */
  assert_int_equal(library_reads(out, len, ns_r_noerror, first), 0);
  len = mcg_dns_answer(&query, MCG_DNS_NXDOMAIN, both, 2, 70000, out);
  assert_int_equal(library_reads(out, len, ns_r_nxdomain, first), 0);
  query = query_of(dig_aaaa_plain);
  len = mcg_dns_answer(&query, MCG_DNS_OK, both, 2, 70000, out);
  assert_int_equal(library_reads(out, len, ns_r_noerror, first), 1);
  assert_string_equal(first, "fd00::7");
  query = query_of(dig_https_cookie);
  len = mcg_dns_answer(&query, MCG_DNS_OK, both, 2, 70000, out);
  assert_int_equal(library_reads(out, len, ns_r_noerror, first), 0);
  query = query_of(dig_chaos);
  len = mcg_dns_answer(&query, query.code, NULL, 0, 0, out);
  assert_int_equal(library_reads(out, len, ns_r_refused, first), 0);
  query = query_of(dig_edns1);
  len = mcg_dns_answer(&query, query.code, NULL, 0, 0, out);
  assert_int_equal(library_reads(out, len, 0, first), 0);
  assert_int_equal(out[len - 6], 1); /* the upper half of BADVERS */
}

/* Of what is not understood the header is all that comes back. */
static void answers_the_garbled(void **state)
{
  (void)state;
  uint8_t bytes[64], out[MCG_DNS_ANSWER_ROOM];
  mcg_dns_query query;
  sample(dig_aaaa_plain, bytes);
  assert_true(mcg_dns_read(bytes, 20, &query));
  size_t len = mcg_dns_answer(&query, query.code, NULL, 0, 0, out);
  assert_int_equal(len, 12);
  assert_int_equal(out[3] & 15, MCG_DNS_FORMERR);
  assert_int_equal(out[5], 0);
  bytes[2] = 0x29;
  assert_true(mcg_dns_read(bytes, 33, &query));
  len = mcg_dns_answer(&query, query.code, NULL, 0, 0, out);
  assert_int_equal(len, 12);
  assert_int_equal(out[2] >> 3 & 15, 5); /* its opcode */
  assert_int_equal(out[3] & 15, MCG_DNS_NOTIMP);
}

static void frames(void **state)
{
  (void)state;
  uint8_t bytes[64];
  mcg_dns_query query;
  size_t len = sample(dig_tcp, bytes);
  for (size_t cut = 0; cut < len; cut++) assert_int_equal(mcg_dns_framed(bytes, cut), 0);
  assert_int_equal(mcg_dns_framed(bytes, len), (int)len);
  assert_int_equal(mcg_dns_framed(bytes, len + 5), (int)len); /* the next one follows */
  assert_true(mcg_dns_read(bytes + 2, len - 2, &query));
  assert_string_equal(query.name, "a.test");
  assert_int_equal(mcg_dns_framed((const uint8_t *)"\0\13", 2), -1);
  assert_int_equal(mcg_dns_framed((const uint8_t *)"\x10\1", 2), -1);
  mcg_dns_frame(bytes, 0x123);
  assert_memory_equal(bytes, "\1\x23", 2);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_dig),
      cmocka_unit_test(reads_whole_queries_only),
      cmocka_unit_test(judges_headers_and_names),
      cmocka_unit_test(labels_are_no_text),
      cmocka_unit_test(reads_the_longest_names),
      cmocka_unit_test(answers),
      cmocka_unit_test(answers_the_garbled),
      cmocka_unit_test(frames),
  };
  return cmocka_run_group_tests_name("dns_message", tests, NULL, NULL);
}
