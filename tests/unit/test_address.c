/* Addresses: spellings, networks, and which of them are special. */
#include "cmocka_all.h"
#include "egress/address.h"
#include <arpa/inet.h>
#include <string.h>

static mcg_address address(const char *text)
{
  mcg_address out;
  if (!mcg_address_parse(text, strlen(text), &out)) fail_msg("%s is an address", text);
  return out;
}

static void spellings(void **state)
{
  (void)state;
  static const struct {
    const char *text, *usual; /* NULL: none */
  } cases[] = {
      {"127.0.0.1", "127.0.0.1"},
      {"0x7f.1", "127.0.0.1"},
      {"0X7F.1", "127.0.0.1"},
      {"2130706433", "127.0.0.1"},
      {"0177.0.0.1", "127.0.0.1"},
      {"127.1", "127.0.0.1"},
      {"0", "0.0.0.0"},
      {"2852039166", "169.254.169.254"},
      {"0251.0376.0251.0376", "169.254.169.254"},
      {"0xA9FEA9FE", "169.254.169.254"},
      {"1.2.3", "1.2.0.3"},
      {"1.65536", "1.1.0.0"},
      {"00000000000000000000177.0.0.1", "127.0.0.1"},
      {"::1", "::1"},
      {"::", "::"},
      {"FE80::1", "fe80::1"},
      {"::ffff:127.0.0.1", "127.0.0.1"},
      {"::ffff:a9fe:a9fe", "169.254.169.254"},
      {"0:0:0:0:0:0:0:1", "::1"},
      {"64:ff9b::7f00:1", "64:ff9b::7f00:1"},
      {"", NULL},
      {".", NULL},
      {"1.", NULL},
      {"1.2.3.4.", NULL},
      {"1.2.3.4.5", NULL},
      {"256.0.0.1", NULL},
      {"1.16777216", NULL},
      {"4294967296", NULL},
      {"99999999999999999999", NULL},
      {"08.0.0.1", NULL},
      {"0x", NULL},
      {"0x.0.0.1", NULL},
      {"0x7g", NULL},
      {"+1", NULL},
      {"-1", NULL},
      {" 1.2.3.4", NULL},
      {"1.2.3.4 ", NULL},
      {"1.2.3.4\n", NULL},
      {"1..2", NULL},
      {"fe80::1%eth0", NULL},
      {"[::1]", NULL},
      {"::1::", NULL},
      {"12345::", NULL},
      {"example", NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mcg_address out;
    char text[MCG_ADDRESS_TEXT];
    bool good = mcg_address_parse(cases[i].text, strlen(cases[i].text), &out);
    if (good != (cases[i].usual != NULL)) fail_msg("\"%s\"", cases[i].text);
    if (!good) continue;
    mcg_address_text(&out, text);
    assert_string_equal(text, cases[i].usual);
  }
  assert_false(mcg_address_parse("1.2.3.4\0x", 9, &(mcg_address){.six = false}));
  assert_false(mcg_address_parse("::1\0x", 5, &(mcg_address){.six = false}));
}

static void special_ranges(void **state)
{
  (void)state;
  static const struct {
    const char *text, *range; /* NULL: ordinary */
  } cases[] = {
      {"1.1.1.1", NULL},
      {"11.0.0.1", NULL},
      {"9.255.255.255", NULL},
      {"10.0.0.0", "private"},
      {"10.255.255.255", "private"},
      {"0.0.0.0", "reserved"},
      {"0.1.2.3", "reserved"},
      {"100.63.255.255", NULL},
      {"100.64.0.0", "carrier-grade NAT"},
      {"100.127.255.255", "carrier-grade NAT"},
      {"100.128.0.0", NULL},
      {"100.100.100.200", "metadata"},
      {"126.255.255.255", NULL},
      {"127.0.0.0", "loopback"},
      {"127.255.255.255", "loopback"},
      {"128.0.0.0", NULL},
      {"168.63.129.16", "metadata"},
      {"168.63.129.17", NULL},
      {"169.253.255.255", NULL},
      {"169.254.0.1", "link-local"},
      {"169.254.169.254", "metadata"},
      {"169.254.170.2", "metadata"},
      {"172.15.255.255", NULL},
      {"172.16.0.0", "private"},
      {"172.31.255.255", "private"},
      {"172.32.0.0", NULL},
      {"192.0.0.8", "reserved"},
      {"192.0.0.9", NULL},
      {"192.0.2.1", "reserved"},
      {"192.168.1.1", "private"},
      {"192.167.255.255", NULL},
      {"198.17.255.255", NULL},
      {"198.18.0.1", "reserved"},
      {"198.19.255.255", "reserved"},
      {"198.20.0.0", NULL},
      {"223.255.255.255", NULL},
      {"224.0.0.1", "multicast"},
      {"239.255.255.255", "multicast"},
      {"240.0.0.1", "reserved"},
      {"255.255.255.255", "reserved"},
      {"2606:4700::1111", NULL},
      {"::", "reserved"},
      {"::1", "loopback"},
      {"::2", "reserved"},
      {"::127.0.0.1", "reserved"}, /* IPv4-compatible, deprecated */
      {"::8.8.8.8", "reserved"},
      {"::ffff:127.0.0.1", "loopback"},
      {"::ffff:8.8.8.8", NULL},
      {"::ffff:0:8.8.8.8", "reserved"}, /* SIIT, RFC 2765 */
      {"64:ff9b::7f00:1", "loopback"},
      {"64:ff9b::a9fe:a9fe", "metadata"},
      {"64:ff9b::808:808", NULL},
      {"64:ff9b:1::808:808", "private"},
      {"100::1", "reserved"},
      {"2002:7f00:1::", "loopback"},
      {"2002:a00:1::1", "private"},
      {"2002:808:808::1", NULL},
      /* Teredo: server 8.8.8.8, client 10.0.0.1 and the other way round. */
      {"2001:0:808:808:0:0:f5ff:fffe", "private"},
      {"2001:0:a00:1:0:0:f7f7:f7f7", "private"},
      {"2001:0:808:808:0:0:f7f7:f7f7", NULL},
      {"2001:2::1", "reserved"},
      {"2001:10::1", "reserved"},
      {"2001:20::1", NULL},
      {"2001:db8::1", "reserved"},
      {"2001:4860:4860::8888", NULL},
      {"2001:4860::5efe:a00:1", "private"}, /* ISATAP of 10.0.0.1 */
      {"2001:4860::200:5efe:7f00:1", "loopback"},
      {"2001:4860::5efe:808:808", NULL},
      {"3fff::1", "reserved"},
      {"3fff:1000::1", NULL},
      {"4000::1", "reserved"},
      {"5f00::1", "reserved"},
      {"fc00::1", "private"},
      {"fd00:ec2::254", "metadata"},
      {"fd00::1", "private"},
      {"fe80::1", "link-local"},
      {"febf::1", "link-local"},
      {"fec0::1", "private"},
      {"ff02::1", "multicast"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mcg_address one = address(cases[i].text);
    const char *range = mcg_address_special(&one);
    if (!range != !cases[i].range || (range && strcmp(range, cases[i].range) != 0))
      fail_msg("%s is %s, not %s", cases[i].text, cases[i].range ? cases[i].range : "ordinary",
               range ? range : "ordinary");
    assert_int_equal(mcg_address_is_metadata(&one), range && strcmp(range, "metadata") == 0);
  }
}

static void networks(void **state)
{
  (void)state;
  static const struct {
    const char *address, *network;
    unsigned bits;
    bool within;
  } cases[] = {
      {"10.1.2.3", "10.0.0.0", 8, true},
      {"11.1.2.3", "10.0.0.0", 8, false},
      {"1.2.3.4", "0.0.0.0", 0, true},
      {"::1", "0.0.0.0", 0, false},
      {"1.2.3.4", "::", 0, false},
      {"192.0.2.129", "192.0.2.128", 25, true},
      {"192.0.2.127", "192.0.2.128", 25, false},
      {"10.0.0.1", "10.0.0.1", 32, true},
      {"10.0.0.0", "10.0.0.1", 32, false},
      {"fd12::1", "fd00::", 8, true},
      {"fe12::1", "fd00::", 8, false},
      {"2001:db8::1", "2001:db8::", 127, true},
      {"2001:db8::2", "2001:db8::", 127, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mcg_address one = address(cases[i].address), network = address(cases[i].network);
    if (mcg_address_within(&one, &network, cases[i].bits) != cases[i].within)
      fail_msg("%s in %s/%u", cases[i].address, cases[i].network, cases[i].bits);
  }
}

static void socket_addresses(void **state)
{
  (void)state;
  static const char *const texts[] = {"192.0.2.7", "2001:db8::7"};
  for (size_t i = 0; i < 2; i++) {
    struct sockaddr_storage room;
    mcg_address one = address(texts[i]), again;
    mcg_address_sockaddr(&one, 8443, &room);
    assert_int_equal(room.ss_family, i ? AF_INET6 : AF_INET);
    assert_true(mcg_address_of((struct sockaddr *)&room, &again));
    assert_true(mcg_address_equal(&one, &again));
  }
  struct sockaddr_in6 mapped = {.sin6_family = AF_INET6};
  mcg_address four = address("127.0.0.1"), out;
  inet_pton(AF_INET6, "::ffff:127.0.0.1", &mapped.sin6_addr);
  assert_true(mcg_address_of((struct sockaddr *)&mapped, &out));
  assert_true(mcg_address_equal(&out, &four));
  assert_false(mcg_address_of(&(struct sockaddr){.sa_family = AF_UNIX}, &out));
}

/* Addresses at and around the edges of every range, and some from all over. */
static void write_samples(FILE *out)
{
  static const char *const edges[] = {
      "0.0.0.0",     "10.0.0.0",    "11.0.0.0",        "100.64.0.0",   "100.128.0.0", "127.0.0.0",
      "128.0.0.0",   "169.254.0.0", "169.255.0.0",     "172.16.0.0",   "172.32.0.0",  "192.0.0.0",
      "192.0.1.0",   "192.0.2.0",   "192.0.3.0",       "192.88.99.0",  "192.168.0.0", "192.169.0.0",
      "198.18.0.0",  "198.20.0.0",  "198.51.100.0",    "198.51.101.0", "203.0.113.0", "203.0.114.0",
      "224.0.0.0",   "240.0.0.0",   "255.255.255.255", "::",           "::1",         "64:ff9b::",
      "64:ff9b:1::", "100::",       "100:0:0:1::",     "2001::",       "2001:2::",    "2001:10::",
      "2001:20::",   "2001:db8::",  "2001:db9::",      "2002::",       "3fff::",      "3fff:1000::",
      "4000::",      "5f00::",      "fc00::",          "fe00::",       "fe80::",      "fec0::",
      "ff00::"};
  uint32_t random = 12345;
  for (size_t i = 0; i < 4000; i++) {
    mcg_address one = address(edges[i % (sizeof edges / sizeof *edges)]);
    char text[MCG_ADDRESS_TEXT];
    size_t len = one.six ? 16 : 4, round = i / (sizeof edges / sizeof *edges);
    if (round == 1) { /* the one before */
      size_t at = len;
      while (at > 0 && one.bytes[--at]-- == 0) continue;
    }
    for (size_t at = len / 2; round > 1 && at < len; at++)
      one.bytes[at] = (uint8_t)((random = random * 1664525 + 1013904223) >> 24);
    for (size_t at = 0; round > 40 && at < len; at++)
      one.bytes[at] = (uint8_t)((random = random * 1664525 + 1013904223) >> 24);
    mcg_address_text(&one, text);
    fprintf(out, "%s %s\n", text, mcg_address_special(&one) ? "special" : "ordinary");
  }
}

/* Nothing that Python's ipaddress knows to be no ordinary place is one for us. (It has no opinion of what
 * 6to4 and Teredo stand for, so those are left out.) */
static void agrees_with_python(void **state)
{
  (void)state;
  static const char script[] =
      "import ipaddress, sys\n"
      "seen = 0\n"
      "for line in sys.stdin:\n"
      "    text, ours = line.split()\n"
      "    one = ipaddress.ip_address(text)\n"
      "    inner = one.version == 6 and (one.sixtofour or one.teredo or one.ipv4_mapped)\n"
      "    theirs = one.is_private or one.is_loopback or one.is_link_local or one.is_multicast \\\n"
      "        or one.is_reserved or one.is_unspecified or not one.is_global\n"
      "    if theirs and not inner and ours != 'special' and text not in ('192.0.0.9', "
      "'192.0.0.10') \\\n"
      "        and one not in ipaddress.ip_network('2001:20::/27'):\n"
      "        sys.exit(text + ' is ' + ours)\n"
      "    seen += 1\n"
      "sys.exit(0 if seen == 4000 else 'only %d came' % seen)\n";
  char command[sizeof script + 64];
  if (system("command -v python3 >/dev/null") != 0) {
    print_message("skipped: there is no python3 to compare with\n");
    skip();
  }
  snprintf(command, sizeof command, "python3 -c \"%s\"", script);
  FILE *python = popen(command, "w");
  assert_non_null(python);
  write_samples(python);
  assert_int_equal(pclose(python), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(spellings),          cmocka_unit_test(special_ranges),
      cmocka_unit_test(networks),           cmocka_unit_test(socket_addresses),
      cmocka_unit_test(agrees_with_python),
  };
  return cmocka_run_group_tests_name("address", tests, NULL, NULL);
}
