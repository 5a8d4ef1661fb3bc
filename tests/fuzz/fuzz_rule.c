/* Rules, names, addresses and "HOST:PORT", beside other readers of the same text: what is a name for us is
 * no address for the C library; what is an address is the same one; what we take for a host and port,
 * curl (where it is there) takes for the same, or for nothing. */
#include "fuzz.h"
#include "curl_url.h"
#include "egress/rule.h"
#include <arpa/inet.h>
#include <netdb.h>
#include <string.h>

/* The address that getaddrinfo takes a text for, without looking anything up. */
static bool library_reads(const char *text, mcg_address *out)
{
  struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found;
  if (!*text || getaddrinfo(text, NULL, &hints, &found) != 0) return false;
  bool good = mcg_address_of(found->ai_addr, out);
  freeaddrinfo(found);
  return good;
}

static void check_address(const char *text, size_t len)
{
  mcg_address ours, theirs;
  bool good = mcg_address_parse(text, len, &ours);
  if (strlen(text) == len && !strpbrk(text, "% \t\n\v\f\r")) { /* zones and tails we do not take */
    FUZZ_NEED(good == library_reads(text, &theirs));
    FUZZ_NEED(!good || mcg_address_equal(&ours, &theirs));
  }
  if (!good) return;
  char usual[MCG_ADDRESS_TEXT];
  mcg_address again;
  mcg_address_text(&ours, usual);
  FUZZ_NEED(mcg_address_parse(usual, strlen(usual), &again) && mcg_address_equal(&ours, &again));
  FUZZ_NEED(!mcg_address_is_metadata(&ours) || mcg_address_special(&ours));
}

static mcg_name_kind check_name(const char *text, size_t len, char out[MCG_NAME_ROOM],
                                mcg_address *address)
{
  char again[MCG_NAME_ROOM];
  mcg_address other;
  const char *why = NULL;
  mcg_name_kind kind = mcg_name_normalise(text, len, out, address, &why);
  if (kind == MCG_NAME_BAD) FUZZ_NEED(why && *why);
  if (kind != MCG_NAME_HOST) return kind;
  FUZZ_NEED(*out && strlen(out) <= MCG_NAME_MAX);
  FUZZ_NEED(out[strspn(out, "abcdefghijklmnopqrstuvwxyz0123456789-.")] == '\0');
  FUZZ_NEED(!library_reads(out, &other));
  FUZZ_NEED(mcg_name_normalise(out, strlen(out), again, &other, &why) == MCG_NAME_HOST);
  FUZZ_NEED(strcmp(out, again) == 0);
  return kind;
}

static void check_target(const char *text, size_t len)
{
  static curl_parser curl;
  static int there = -1;
  char name[MCG_NAME_ROOM], host[1024], theirs[MCG_NAME_ROOM];
  mcg_address address, other;
  mcg_fault fault;
  bool literal;
  uint16_t port;
  unsigned their_port;
  if (there < 0) there = curl_open(&curl);
  if (!mcg_host_port_parse(text, len, name, &address, &literal, &port, &fault)) {
    FUZZ_NEED(*fault.text);
    return;
  }
  FUZZ_NEED(port > 0);
  if (!there || !curl_splits(&curl, text, len, host, &their_port)) return;
  FUZZ_NEED(their_port == port);
  mcg_name_kind kind = check_name(host, strlen(host), theirs, &other);
  FUZZ_NEED(kind == (literal ? MCG_NAME_ADDRESS : MCG_NAME_HOST));
  FUZZ_NEED(literal ? mcg_address_equal(&address, &other) : strcmp(name, theirs) == 0);
}

/* A rule that was understood says in its text what it is. */
static void check_rule(const char *text, size_t len, bool allows)
{
  mcg_rule rule, again;
  mcg_fault fault;
  if (!mcg_rule_parse(text, len, allows, &rule, &fault)) {
    FUZZ_NEED(*fault.text);
    return;
  }
  for (size_t i = 0; i < rule.ports.count; i++) {
    const mcg_port_range *range = &rule.ports.list[i];
    FUZZ_NEED(range->first > 0 && range->first <= range->last);
    FUZZ_NEED(i == 0 || rule.ports.list[i - 1].last + 1 < range->first);
  }
  FUZZ_NEED(rule.ports.count > 0);
  FUZZ_NEED(mcg_rules_meet(&rule, &rule));
  FUZZ_NEED(mcg_rule_parse(rule.text, strlen(rule.text), false, &again, &fault));
  FUZZ_NEED(strcmp(rule.text, again.text) == 0 && rule.kind == again.kind);
  FUZZ_NEED(strcmp(rule.name, again.name) == 0 && rule.bits == again.bits);
  FUZZ_NEED(mcg_address_equal(&rule.network, &again.network));
  FUZZ_NEED(
      memcmp(&rule.ports.list, &again.ports.list, rule.ports.count * sizeof *rule.ports.list) == 0);
  mcg_rule_fini(&rule);
  mcg_rule_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char text[512], name[MCG_NAME_ROOM];
  mcg_address address;
  if (size >= sizeof text) return 0;
  if (size) memcpy(text, data, size);
  text[size] = '\0';
  check_address(text, size);
  check_name(text, size, name, &address);
  check_target(text, size);
  check_rule(text, size, true);
  check_rule(text, size, false);
  return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
  static const char *const texts[] = {"api.example.com:443",
                                      "*.example.org:22,80-82",
                                      "*:443",
                                      "10.0.0.0/8:5432",
                                      "[fd00::/8]:1-65535",
                                      "[2001:db8::1]:443",
                                      "0x7f.1:80",
                                      "0177.0.0.01",
                                      "::ffff:127.0.0.1",
                                      "2130706433:8080",
                                      "xn--bcher-kva.example.:80",
                                      "1.2.3.4.5",
                                      "db."};
  if (index >= sizeof texts / sizeof *texts) return 0;
  size_t len = strlen(texts[index]);
  if (len > room) len = room;
  memcpy(out, texts[index], len);
  return len;
}
