/* rule.c: the grammar of rules. What two readers could understand in two ways is refused, with the one
 * way to write it: IPv6 without brackets, 010.0.0.1, 10.1.2.3/8. */
#include "rule.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- faults ------------------------------------------------------------------------------- */

static bool fault_at(mcg_fault *fault, const char *fix, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool fault_at(mcg_fault *fault, const char *fix, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  vsnprintf(fault->text, sizeof fault->text, format, args);
  va_end(args);
  snprintf(fault->fix, sizeof fault->fix, "%s", fix ? fix : "");
  return false;
}

static const char *name_fix(const char *why)
{
  return strstr(why, "ASCII") ? "write it in its ASCII form, xn--..."
                              : "write a name (api.example.com, *.example.com) or an address";
}

static int shown(size_t len)
{
  return len > 80 ? 80 : (int)len;
}

/* ---- ports -------------------------------------------------------------------------------- */

bool mcg_ports_add(mcg_ports *ports, uint16_t first, uint16_t last)
{
  mcg_ports out = {.count = 0};
  bool placed = false;
  for (size_t i = 0; i <= ports->count; i++) {
    mcg_port_range one = i < ports->count ? ports->list[i] : (mcg_port_range){0, 0};
    bool apart = i == ports->count || one.last + 1 < first || one.first > last + 1;
    if (!apart) {
      if (one.first < first) first = one.first;
      if (one.last > last) last = one.last;
      continue;
    }
    if (!placed && (i == ports->count || one.first > last)) {
      if (out.count == MCG_PORTS_MAX) return false;
      out.list[out.count++] = (mcg_port_range){first, last};
      placed = true;
    }
    if (i == ports->count) break;
    if (out.count == MCG_PORTS_MAX) return false;
    out.list[out.count++] = one;
  }
  *ports = out;
  return true;
}

bool mcg_ports_have(const mcg_ports *ports, uint16_t port)
{
  return port > 0 && mcg_ports_after(ports, (uint16_t)(port - 1)) == port;
}

uint16_t mcg_ports_after(const mcg_ports *ports, uint16_t port)
{
  for (size_t i = 0; i < ports->count; i++)
    if (ports->list[i].last > port)
      return ports->list[i].first > port ? ports->list[i].first : (uint16_t)(port + 1);
  return 0;
}

/* 1 to 65535 in decimal without a zero before it; how long it is, 0: it is none. */
static size_t read_port(const char *text, size_t len, uint16_t *out)
{
  uint32_t value = 0;
  size_t at = 0;
  for (; at < len && text[at] >= '0' && text[at] <= '9'; at++) {
    value = value * 10 + (uint32_t)(text[at] - '0');
    if (value == 0 || value > 65535) return 0;
  }
  *out = (uint16_t)value;
  return at;
}

bool mcg_ports_parse(const char *text, size_t len, mcg_ports *out, mcg_fault *fault)
{
  static const char fix[] = "write a port from 1 to 65535, \"443,8443\", \"8000-8100\" or \"*\"";
  *out = (mcg_ports){.count = 0};
  if (len == 1 && *text == '*') return mcg_ports_add(out, 1, 65535);
  for (size_t at = 0;;) {
    uint16_t first, last;
    size_t used = read_port(text + at, len - at, &first);
    if (!used) return fault_at(fault, fix, "\"%.*s\" is no list of ports", shown(len), text);
    at += used;
    last = first;
    if (at < len && text[at] == '-') {
      used = read_port(text + at + 1, len - at - 1, &last);
      at += 1 + used;
      if (!used || last < first)
        return fault_at(fault, fix, "\"%.*s\" is no list of ports", shown(len), text);
    }
    if (!mcg_ports_add(out, first, last))
      return fault_at(fault, "write several rules", "there are more than %d ranges of ports",
                      MCG_PORTS_MAX);
    if (at == len) return true;
    if (text[at++] != ',')
      return fault_at(fault, fix, "\"%.*s\" is no list of ports", shown(len), text);
  }
}

static void default_ports(bool allows, mcg_ports *out)
{
  *out = (mcg_ports){.count = 0};
  if (!allows) {
    mcg_ports_add(out, 1, 65535);
    return;
  }
  mcg_ports_add(out, 80, 80);
  mcg_ports_add(out, 443, 443);
}

/* ---- hosts -------------------------------------------------------------------------------- */

/* Where the ports start, behind the ':'; `len` where there are none. */
static bool split(const char *text, size_t len, size_t *host, size_t *ports, mcg_fault *fault)
{
  const char *close = len && text[0] == '[' ? memchr(text, ']', len) : NULL;
  size_t from = close ? (size_t)(close - text) + 1 : 0;
  const char *slash = memchr(text, '/', len);
  if (!close && slash) from = (size_t)(slash - text);
  const char *colon = memchr(text + from, ':', len - from);
  *host = colon ? (size_t)(colon - text) : len;
  *ports = colon ? *host + 1 : len;
  if (colon && *ports == len)
    return fault_at(fault, "leave the ':' out, or write a port behind it", "there is no port");
  if (!close && !slash && colon && memchr(colon + 1, ':', len - *ports))
    return fault_at(fault, "write an IPv6 address as [ADDRESS] or [ADDRESS]:PORT",
                    "\"%.*s\" can be read in two ways", shown(len), text);
  return true;
}

static bool read_bits(const char *text, size_t len, unsigned most, unsigned *out)
{
  unsigned value = 0;
  if (len == 0 || len > 3 || (len > 1 && text[0] == '0')) return false;
  for (size_t i = 0; i < len; i++) {
    if (text[i] < '0' || text[i] > '9') return false;
    value = value * 10 + (unsigned)(text[i] - '0');
  }
  *out = value;
  return value <= most;
}

static void clear_behind(mcg_address *network, unsigned bits)
{
  for (unsigned i = bits; i < (network->six ? 128u : 32u); i++)
    network->bytes[i / 8] &= (uint8_t) ~(0x80u >> i % 8);
}

/* An address must be in its usual spelling but for IPv6's many, which all read the same. */
static bool read_address(const char *text, size_t len, mcg_address *out, mcg_fault *fault)
{
  char usual[MCG_ADDRESS_TEXT], fix[128];
  if (!mcg_address_parse(text, len, out))
    return fault_at(fault, NULL, "\"%.*s\" is no address", shown(len), text);
  mcg_address_text(out, usual);
  snprintf(fix, sizeof fix, "write %s", usual);
  bool four = !memchr(text, ':', len);
  if (four ? strlen(usual) == len && memcmp(usual, text, len) == 0 : out->six) return true;
  return fault_at(fault, fix, "\"%.*s\" is an unusual way to write an IPv4 address", shown(len),
                  text);
}

/* "10.0.0.0/8", "[fd00::/8]", "[fd00::]/8", "fd00::/8", "192.0.2.7", "[2001:db8::1]". */
static bool read_network(const char *text, size_t len, mcg_rule *out, mcg_fault *fault)
{
  char usual[MCG_ADDRESS_TEXT], fix[128];
  bool bracketed = text[0] == '[', around = bracketed && text[len - 1] == ']';
  if (around) {
    text++;
    len -= 2;
  }
  size_t end = len;
  const char *slash = memchr(text, '/', len);
  if (slash) end = (size_t)(slash - text);
  const char *host = text;
  size_t host_len = end;
  if (bracketed && !around && end > 2 && text[end - 1] == ']') {
    host++;
    host_len -= 2;
  }
  out->kind = MCG_RULE_NETWORK;
  if (!read_address(host, host_len, &out->network, fault)) return false;
  if (bracketed && !out->network.six)
    return fault_at(fault, "leave the brackets out", "\"%.*s\" is an IPv4 address in brackets",
                    shown(host_len), host);
  unsigned most = out->network.six ? 128 : 32;
  out->bits = most;
  if (slash && !read_bits(slash + 1, len - end - 1, most, &out->bits))
    return fault_at(fault, NULL, "\"%.*s\" is no length of a prefix from 0 to %u",
                    shown(len - end - 1), slash + 1, most);
  mcg_address whole = out->network;
  clear_behind(&out->network, out->bits);
  if (mcg_address_equal(&whole, &out->network)) return true;
  mcg_address_text(&out->network, usual);
  snprintf(fix, sizeof fix, "write %s/%u, or the address alone", usual, out->bits);
  return fault_at(fault, fix, "\"%.*s\" has bits behind its prefix", shown(len), text);
}

static bool read_name(const char *text, size_t len, bool allows, mcg_rule *out, mcg_fault *fault)
{
  const char *why;
  mcg_address address;
  bool suffix = len > 2 && text[0] == '*' && text[1] == '.';
  size_t skip = suffix ? 2 : 0;
  out->kind = suffix ? MCG_RULE_SUFFIX : MCG_RULE_HOST;
  if (memchr(text + skip, '*', len - skip))
    return fault_at(fault, "write *.example.org, or \"*:443\" for every host",
                    "\"%.*s\": a * stands alone, or is the first label", shown(len), text);
  mcg_name_kind kind = mcg_name_normalise(text + skip, len - skip, out->name, &address, &why);
  if (kind == MCG_NAME_ADDRESS && suffix) {
    kind = MCG_NAME_BAD;
    why = "addresses have no names beneath them";
  }
  if (kind == MCG_NAME_ADDRESS) return read_network(text, len, out, fault);
  if (kind == MCG_NAME_BAD)
    return fault_at(fault, name_fix(why), "\"%.*s\" is no name of a host: %s", shown(len), text,
                    why);
  if (!allows || strchr(out->name, '.')) return true;
  if (suffix)
    return fault_at(fault, "name at least two labels, as in *.example.org", "\"%.*s\" is too broad",
                    shown(len), text);
  if (text[len - 1] == '.') return true; /* "db.": meant so */
  char fix[192];
  snprintf(fix, sizeof fix, "write the whole name; if \"%.64s\" is all of it, \"%.64s.\"",
           out->name, out->name);
  return fault_at(fault, fix, "\"%.*s\" is one label, and no search domain is added to it",
                  shown(len), text);
}

static bool read_host(const char *text, size_t len, bool allows, bool ports, mcg_rule *out,
                      mcg_fault *fault)
{
  if (len == 0) return fault_at(fault, "write HOST or HOST:PORT", "it is empty");
  if (len == 1 && *text == '*') {
    out->kind = MCG_RULE_ANY;
    if (ports || !allows) return true;
    return fault_at(fault, "write \"*:443\", or default = \"allow\" for every host and port",
                    "\"*\" alone would be every host on every port");
  }
  if (!memchr(text, '/', len) && text[0] != '[') return read_name(text, len, allows, out, fault);
  if (!read_network(text, len, out, fault)) return false;
  if (out->bits > 0 || ports || !allows) return true;
  return fault_at(fault, "write the ports, too, as in \"0.0.0.0/0:443\"",
                  "\"%.*s\" would be every address", shown(len), text);
}

/* ---- rules -------------------------------------------------------------------------------- */

static size_t ports_text(const mcg_ports *ports, char *out, size_t room)
{
  size_t at = 0;
  for (size_t i = 0; i < ports->count && at < room; i++) {
    const mcg_port_range *one = &ports->list[i];
    at += (size_t)snprintf(out + at, room - at, "%s%u", i ? "," : "", one->first);
    if (one->last > one->first && at < room)
      at += (size_t)snprintf(out + at, room - at, "-%u", one->last);
  }
  return at;
}

bool mcg_rule_set_ports(mcg_rule *rule, const mcg_ports *ports)
{
  char host[MCG_NAME_ROOM + 2], list[MCG_PORTS_MAX * 12 + 1], whole[sizeof host + sizeof list];
  rule->ports = *ports;
  ports_text(ports, list, sizeof list);
  if (ports->count == 1 && ports->list[0].first == 1 && ports->list[0].last == 65535)
    strcpy(list, "*");
  char address[MCG_ADDRESS_TEXT], bits[8] = "";
  mcg_address_text(&rule->network, address);
  if (rule->bits < (rule->network.six ? 128u : 32u)) snprintf(bits, sizeof bits, "/%u", rule->bits);
  if (rule->kind == MCG_RULE_NETWORK)
    snprintf(host, sizeof host, rule->network.six ? "[%s%s]" : "%s%s", address, bits);
  else
    snprintf(host, sizeof host, "%s%s",
             rule->kind == MCG_RULE_ANY      ? "*"
             : rule->kind == MCG_RULE_SUFFIX ? "*."
                                             : "",
             rule->kind == MCG_RULE_ANY ? "" : rule->name);
  snprintf(whole, sizeof whole, "%s:%s", host, list);
  free(rule->text);
  rule->text = strdup(whole);
  return rule->text != NULL;
}

bool mcg_rule_parse(const char *text, size_t len, bool allows, mcg_rule *out, mcg_fault *fault)
{
  size_t host, ports;
  mcg_ports list;
  *out = (mcg_rule){.kind = MCG_RULE_HOST};
  *fault = (mcg_fault){.text = ""};
  if (memchr(text, '\0', len)) return fault_at(fault, NULL, "it holds a NUL byte");
  if (memchr(text, '@', len) || (len > 2 && memmem(text, len, "//", 2)))
    return fault_at(fault, "write HOST or HOST:PORT", "\"%.*s\" is a URL, or has a user in it",
                    shown(len), text);
  if (!split(text, len, &host, &ports, fault)) return false;
  if (!read_host(text, host, allows, ports < len, out, fault)) return false;
  default_ports(allows, &list);
  if (ports < len && !mcg_ports_parse(text + ports, len - ports, &list, fault)) return false;
  return mcg_rule_set_ports(out, &list);
}

void mcg_rule_fini(mcg_rule *rule)
{
  for (size_t i = 0; i < rule->header_count; i++) {
    if (rule->headers[i].value)
      explicit_bzero(rule->headers[i].value, strlen(rule->headers[i].value));
    for (char *at = rule->headers[i].secrets; at && *at;) {
      size_t len = strlen(at);
      explicit_bzero(at, len);
      at += len + 1;
    }
    free(rule->headers[i].secrets);
    free(rule->headers[i].name);
    free(rule->headers[i].value);
  }
  free(rule->headers);
  free(rule->text);
  *rule = (mcg_rule){.kind = MCG_RULE_HOST};
}

bool mcg_rule_names(const mcg_rule *rule, const char *name)
{
  if (rule->kind == MCG_RULE_ANY) return true;
  if (rule->kind == MCG_RULE_HOST) return strcmp(rule->name, name) == 0;
  return rule->kind == MCG_RULE_SUFFIX && mcg_name_beneath(name, rule->name);
}

bool mcg_rule_holds(const mcg_rule *rule, const mcg_address *address)
{
  if (rule->kind == MCG_RULE_ANY) return true;
  return rule->kind == MCG_RULE_NETWORK && mcg_address_within(address, &rule->network, rule->bits);
}

static bool hosts_meet(const mcg_rule *a, const mcg_rule *b)
{
  if (a->kind == MCG_RULE_ANY || b->kind == MCG_RULE_ANY) return true;
  if (a->kind == MCG_RULE_NETWORK || b->kind == MCG_RULE_NETWORK)
    return a->kind == b->kind &&
           mcg_address_within(&a->network, &b->network, a->bits < b->bits ? a->bits : b->bits);
  if (a->kind == MCG_RULE_HOST) return mcg_rule_names(b, a->name);
  if (b->kind == MCG_RULE_HOST) return mcg_rule_names(a, b->name);
  return strcmp(a->name, b->name) == 0 || mcg_name_beneath(a->name, b->name) ||
         mcg_name_beneath(b->name, a->name);
}

bool mcg_rules_meet(const mcg_rule *a, const mcg_rule *b)
{
  for (size_t i = 0; i < a->ports.count; i++) {
    const mcg_port_range *range = &a->ports.list[i];
    uint16_t port = mcg_ports_after(&b->ports, (uint16_t)(range->first - 1));
    if (port && port <= range->last) return hosts_meet(a, b);
  }
  return false;
}

bool mcg_host_port_parse(const char *text, size_t len, char name[MCG_NAME_ROOM],
                         mcg_address *address, bool *is_address, uint16_t *port, mcg_fault *fault)
{
  size_t host, at;
  const char *why;
  *fault = (mcg_fault){.text = ""};
  if (!split(text, len, &host, &at, fault)) return false;
  if (at >= len)
    return fault_at(fault, "write HOST:PORT", "\"%.*s\" has no port", shown(len), text);
  if (read_port(text + at, len - at, port) != len - at)
    return fault_at(fault, "write a port from 1 to 65535", "\"%.*s\" is no port", shown(len - at),
                    text + at);
  mcg_name_kind kind = mcg_name_normalise(text, host, name, address, &why);
  *is_address = kind == MCG_NAME_ADDRESS;
  if (kind != MCG_NAME_BAD) return true;
  return fault_at(fault, name_fix(why), "\"%.*s\" is no name of a host: %s", shown(host), text,
                  why);
}
