/* policy_read.c: a policy from the JSON of a configuration, strictly, and back again for those who ask
 * what holds. */
#include "policy_parts.h"
#include "proxy.h"
#include <jansson.h>
#include <string.h>

#define CONNECTIONS 64
#define IDLE_S 60
#define HEADERS_MAX 32
#define VALUE_MAX 8192

static int no_memory(mcg_error **err)
{
  return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the network's rules");
}

static int fault_fail(const mcg_fault *fault, const mcg_where *where, mcg_error **err)
{
  if (!*fault->text) return no_memory(err);
  return mcg_check_fail(where, err, *fault->fix ? fault->fix : NULL, "%s", fault->text);
}

/* ---- headers ------------------------------------------------------------------------------ */

/* Those that say where a message ends or goes are not to be set by a rule. */
static bool may_be_set(const char *name)
{
  static const char *const framing[] = {
      "host",   "connection", "content-length", "transfer-encoding",
      "te",     "trailer",    "upgrade",        "keep-alive",
      "expect", NULL};
  for (size_t i = 0; framing[i]; i++)
    if (strcasecmp(name, framing[i]) == 0) return false;
  return strncasecmp(name, "proxy-", 6) != 0;
}

static bool is_token(const char *name)
{
  static const char chars[] =
      "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  return *name && strlen(name) <= 128 && name[strspn(name, chars)] == '\0';
}

/* A piece of a value: text, or {secret = text}. */
static int read_piece(const json_t *value, const mcg_where *where, const char **out, bool *hidden,
                      mcg_error **err)
{
  static const char *const keys[] = {"secret", NULL};
  const json_t *secret = json_object_get(value, "secret");
  *hidden = secret != NULL;
  if (secret && mcg_check_keys(value, keys, where, err) < 0) return -1;
  return mcg_check_string(secret ? secret : value, where, out, err);
}

/* One piece or a list of them, one behind the other. What is wrong is told without the value. */
static int read_value(const json_t *value, const mcg_where *where, mcg_header *out, mcg_error **err)
{
  bool list = json_is_array(value);
  size_t count = list ? json_array_size(value) : 1, len = 0;
  char *text = out->value = calloc(1, VALUE_MAX + 1); /* the rule's from here on */
  char *secrets = out->secrets = calloc(2, VALUE_MAX + 1);
  if (!text || !secrets) return no_memory(err);
  for (size_t i = 0; i < count; i++) {
    const mcg_where item = {.up = where, .index = i};
    const char *piece;
    bool hidden;
    if (read_piece(list ? json_array_get(value, i) : value, list ? &item : where, &piece, &hidden,
                   err) < 0)
      return -1;
    size_t more = strlen(piece);
    if (more > VALUE_MAX - len)
      return mcg_check_fail(where, err, "set a shorter one", "it is longer than %d bytes",
                            VALUE_MAX);
    memcpy(text + len, piece, more);
    len += more;
    if (hidden && more) secrets = stpcpy(secrets, piece) + 1;
  }
  if (len == 0) return mcg_check_fail(where, err, "check what the secret is set to", "it is empty");
  for (size_t i = 0; i < len; i++)
    if (((unsigned char)text[i] < ' ' && text[i] != '\t') || text[i] == 127)
      return mcg_check_fail(where, err, "check that the secret does not end in a line break",
                            "it holds a control character");
  return 0;
}

static int read_headers(const json_t *headers, const mcg_where *where, mcg_rule *rule,
                        mcg_error **err)
{
  const char *name;
  json_t *value;
  if (mcg_check_object(headers, where, err) < 0) return -1;
  size_t count = json_object_size(headers);
  if (!count) return 0;
  if (count > HEADERS_MAX)
    return mcg_check_fail(where, err, "leave some out", "there are more than %d", HEADERS_MAX);
  if (!rule->terminate_tls)
    return mcg_check_fail(where, err, "add terminate_tls = true",
                          "headers can only be set where TLS ends at the engine");
  if (rule->kind != MCG_RULE_HOST)
    return mcg_check_fail(where, err, "give each host a rule of its own",
                          "what is set here would go to more than one host");
  rule->headers = calloc(count, sizeof *rule->headers);
  if (!rule->headers) return no_memory(err);
  json_object_foreach((json_t *)headers, name, value)
  {
    const mcg_where at = {.up = where, .key = name};
    mcg_header *header = &rule->headers[rule->header_count];
    if (!is_token(name))
      return mcg_check_fail(&at, err, "use letters, digits and -", "it is no name of a header");
    for (size_t i = 0; i < rule->header_count; i++)
      if (strcasecmp(name, rule->headers[i].name) == 0)
        return mcg_check_fail(&at, err, "leave one of the two out", "it is set twice");
    if (!may_be_set(name))
      return mcg_check_fail(&at, err, "leave it out", "this header cannot be set by a rule");
    rule->header_count++;
    if (!(header->name = strdup(name))) return no_memory(err);
    if (read_value(value, &at, header, err) < 0) return -1;
  }
  return 0;
}

/* ---- rules -------------------------------------------------------------------------------- */

static int read_one_port(const json_t *value, const mcg_where *where, mcg_ports *out,
                         mcg_error **err)
{
  mcg_ports some;
  mcg_fault fault;
  double number;
  const char *text;
  if (json_is_number(value)) {
    if (mcg_check_number(value, where, 1, 65535, true, &number, err) < 0) return -1;
    some = (mcg_ports){.list = {{(uint16_t)number, (uint16_t)number}}, .count = 1};
  } else if (mcg_check_string(value, where, &text, err) < 0) {
    return -1;
  } else if (!mcg_ports_parse(text, strlen(text), &some, &fault)) {
    return fault_fail(&fault, where, err);
  }
  for (size_t i = 0; i < some.count; i++)
    if (!mcg_ports_add(out, some.list[i].first, some.list[i].last))
      return mcg_check_fail(where, err, "write several rules",
                            "there are more than %d ranges of ports", MCG_PORTS_MAX);
  return 0;
}

/* 443, "8000-8100", {443, 8443}. */
static int read_ports(const json_t *value, const mcg_where *where, mcg_ports *out, mcg_error **err)
{
  *out = (mcg_ports){.count = 0};
  if (!json_is_array(value)) return read_one_port(value, where, out, err);
  if (!json_array_size(value))
    return mcg_check_fail(where, err, "name a port, or leave it out", "the list is empty");
  for (size_t i = 0; i < json_array_size(value); i++) {
    const mcg_where at = {.up = where, .index = i};
    if (read_one_port(json_array_get(value, i), &at, out, err) < 0) return -1;
  }
  return 0;
}

static int read_flag(const json_t *table, const char *key, const mcg_where *up, bool *out,
                     mcg_error **err)
{
  const mcg_where at = {.up = up, .key = key};
  const json_t *value = json_object_get(table, key);
  return value ? mcg_check_bool(value, &at, out, err) : 0;
}

static int read_options(const json_t *table, const mcg_where *where, bool allows, mcg_rule *rule,
                        mcg_error **err)
{
  const mcg_where headers = {.up = where, .key = "headers"}, sni = {.up = where, .key = "sni"},
                  tls = {.up = where, .key = "terminate_tls"};
  const json_t *given = json_object_get(table, "headers");
  if (read_flag(table, "sni", where, &rule->sni, err) < 0 ||
      read_flag(table, "terminate_tls", where, &rule->terminate_tls, err) < 0)
    return -1;
  if (!allows && (rule->sni || rule->terminate_tls || given))
    return mcg_check_fail(where, err, "put them into a rule that allows",
                          "a rule that denies has no options but host and port");
  if (rule->sni && rule->kind == MCG_RULE_NETWORK)
    return mcg_check_fail(&sni, err, "name the host", "a rule of addresses knows no name");
  if (rule->terminate_tls && rule->kind != MCG_RULE_HOST && rule->kind != MCG_RULE_SUFFIX)
    return mcg_check_fail(&tls, err, "name the host",
                          "TLS can only be ended for a host whose name is known");
  return given ? read_headers(given, &headers, rule, err) : 0;
}

/* What is to be TLS is not on port 80. */
static int settle_ports(const json_t *port, bool written, const mcg_where *where, mcg_rule *rule,
                        mcg_error **err)
{
  const mcg_where at = {.up = where, .key = "port"};
  mcg_ports ports = {.list = {{443, 443}}, .count = 1};
  if (port && written)
    return mcg_check_fail(&at, err, "write the ports once", "`host` has ports, too");
  if (port && read_ports(port, &at, &ports, err) < 0) return -1;
  if (!port && (written || !(rule->sni || rule->terminate_tls))) return 0;
  return mcg_rule_set_ports(rule, &ports) ? 0 : no_memory(err);
}

static bool host_has_ports(const char *text)
{
  const char *close = strrchr(text, ']'), *slash = strrchr(text, '/');
  const char *from = close && (!slash || close > slash) ? close : slash ? slash : text;
  return strchr(from, ':') != NULL;
}

static int read_rule_table(const json_t *table, const mcg_where *where, bool allows, mcg_rule *rule,
                           mcg_error **err)
{
  static const char *const keys[] = {"host", "port", "sni", "terminate_tls", "headers", NULL};
  const mcg_where at = {.up = where, .key = "host"};
  const json_t *host = json_object_get(table, "host"), *port = json_object_get(table, "port");
  const char *text;
  mcg_fault fault;
  if (mcg_check_keys(table, keys, where, err) < 0) return -1;
  if (!host)
    return mcg_check_fail(where, err, "say which: host = \"api.example.com\"", "it needs a `host`");
  if (mcg_check_string(host, &at, &text, err) < 0) return -1;
  bool written = host_has_ports(text);
  /* "*" is fine where the ports stand beside it. */
  auto_free char *whole = mcg_format(port && !written ? "%s:1" : "%s", text);
  if (!whole) return no_memory(err);
  if (!mcg_rule_parse(whole, strlen(whole), allows, rule, &fault))
    return fault_fail(&fault, &at, err);
  if (read_options(table, where, allows, rule, err) < 0) return -1;
  return settle_ports(port, written, where, rule, err);
}

static int read_rule(const json_t *value, const mcg_where *where, bool allows, mcg_rule *rule,
                     mcg_error **err)
{
  const char *text;
  mcg_fault fault;
  if (json_is_object(value)) return read_rule_table(value, where, allows, rule, err);
  if (mcg_check_string(value, where, &text, err) < 0) return -1;
  if (mcg_rule_parse(text, strlen(text), allows, rule, &fault)) return 0;
  return fault_fail(&fault, where, err);
}

static int read_rules(const json_t *list, const mcg_where *where, bool allows, mcg_rule_list *out,
                      mcg_error **err)
{
  if (!list) return 0;
  if (mcg_check_list(list, where, err) < 0) return -1;
  size_t count = json_array_size(list);
  if (!count) return 0;
  if (count > MCG_POLICY_RULES)
    return mcg_check_fail(where, err, "write networks and *.suffixes",
                          "there are more than %d rules", MCG_POLICY_RULES);
  out->rules = calloc(count, sizeof *out->rules);
  if (!out->rules) return no_memory(err);
  for (size_t i = 0; i < count; i++) {
    const mcg_where at = {.up = where, .index = i};
    out->count++;
    if (read_rule(json_array_get(list, i), &at, allows, &out->rules[i], err) < 0) return -1;
  }
  return 0;
}

/* ---- the policy --------------------------------------------------------------------------- */

static int read_amount(const json_t *table, const char *key, const mcg_where *up, double low,
                       double high, bool whole, double *out, mcg_error **err)
{
  const mcg_where at = {.up = up, .key = key};
  const json_t *value = json_object_get(table, key);
  return value ? mcg_check_number(value, &at, low, high, whole, out, err) : 0;
}

static uint64_t tighter(uint64_t a, uint64_t b)
{
  return a && (a < b || !b) ? a : b;
}

static int read_limits(const json_t *table, const mcg_where *where, mcg_policy *policy,
                       mcg_error **err)
{
  double connections = CONNECTIONS, idle = IDLE_S, rate = 0, total = 0;
  if (read_amount(table, "connections", where, 1, 10000, true, &connections, err) < 0 ||
      read_amount(table, "idle_s", where, 0.01, 86400, false, &idle, err) < 0 ||
      read_amount(table, "bytes_per_s", where, 1, 1e12, true, &rate, err) < 0 ||
      read_amount(table, "bytes_total", where, 1, 1e15, true, &total, err) < 0)
    return -1;
  mcg_egress_limits none = {0};
  const mcg_egress_limits *outer = policy->within ? &policy->within->limits : &none;
  policy->limits = (mcg_egress_limits){
      .connections = (unsigned)tighter((uint64_t)connections, outer->connections),
      .idle_ms = tighter((uint64_t)(idle * 1000 + 0.5), outer->idle_ms),
      .bytes_per_s = tighter((uint64_t)rate, outer->bytes_per_s),
      .bytes_total = tighter((uint64_t)total, outer->bytes_total)};
  return 0;
}

static int read_default(const json_t *table, const mcg_where *where, bool *out, mcg_error **err)
{
  const mcg_where at = {.up = where, .key = "default"};
  const json_t *value = json_object_get(table, "default");
  const char *word = "deny";
  if (value && mcg_check_string(value, &at, &word, err) < 0) return -1;
  *out = strcmp(word, "allow") == 0;
  if (*out || strcmp(word, "deny") == 0) return 0;
  return mcg_check_fail(&at, err, "write \"deny\" or \"allow\"", "\"%s\" is neither", word);
}

static bool too_many_ports(const mcg_rule_list *allow)
{
  unsigned count = 0;
  for (uint32_t port = 0; port < UINT16_MAX && count <= MCG_LISTEN_PORTS; count++) {
    uint32_t least = 0;
    for (size_t i = 0; i < allow->count; i++) {
      uint32_t next = mcg_ports_after(&allow->rules[i].ports, (uint16_t)port);
      if (next && (!least || next < least)) least = next;
    }
    if (!least) return false;
    port = least;
  }
  return count > MCG_LISTEN_PORTS;
}

static int read_ca_file(const json_t *table, const mcg_where *up, mcg_policy *policy,
                        mcg_error **err)
{
  const mcg_where where = {.up = up, .key = "ca_file"};
  const json_t *value = json_object_get(table, "ca_file");
  const char *path;
  if (!value) return 0;
  if (mcg_check_string(value, &where, &path, err) < 0) return -1;
  if (*path != '/')
    return mcg_check_fail(&where, err, "write an absolute path", "\"%s\" is relative", path);
  policy->ca_file = strdup(path);
  return policy->ca_file ? 0 : no_memory(err);
}

/* Who lies within a policy goes where that one says: else a tenant could name a proxy of its own. */
static int read_proxy(const json_t *table, const mcg_where *up, mcg_policy *policy, mcg_error **err)
{
  const mcg_where where = {.up = up, .key = "proxy"};
  const json_t *value = json_object_get(table, "proxy");
  const char *url = "";
  mcg_proxy *tried = NULL;
  if (!value) return 0;
  if (policy->within)
    return mcg_check_fail(&where, err, "leave it out",
                          "it belongs to the policy that this one lies within");
  if (!json_is_false(value)) {
    if (mcg_check_string(value, &where, &url, err) < 0) return -1;
    if (mcg_proxy_new(url, NULL, &tried, err) < 0) return mcg_wrap(err, "network.proxy");
    mcg_proxy_free(tried);
  }
  policy->proxy = strdup(url);
  return policy->proxy ? 0 : no_memory(err);
}

static int read_policy(const json_t *network, const mcg_where *where, unsigned depth,
                       mcg_policy **out, mcg_error **err);

static int read_table(const json_t *table, const mcg_where *where, unsigned depth,
                      mcg_policy *policy, mcg_error **err)
{
  static const char *const keys[] = {"default", "allow",       "deny",        "connections",
                                     "idle_s",  "bytes_per_s", "bytes_total", "ca_file",
                                     "within",  "proxy",       NULL};
  const mcg_where allow = {.up = where, .key = "allow"}, deny = {.up = where, .key = "deny"},
                  within = {.up = where, .key = "within"};
  const json_t *around = json_object_get(table, "within");
  if (mcg_check_keys(table, keys, where, err) < 0 ||
      read_default(table, where, &policy->by_default, err) < 0 ||
      read_ca_file(table, where, policy, err) < 0 ||
      read_rules(json_object_get(table, "allow"), &allow, true, &policy->allow, err) < 0 ||
      read_rules(json_object_get(table, "deny"), &deny, false, &policy->deny, err) < 0 ||
      (around && read_policy(around, &within, depth + 1, &policy->within, err) < 0))
    return -1;
  policy->redirects = policy->by_default || too_many_ports(&policy->allow);
  if (read_proxy(table, where, policy, err) < 0) return -1;
  return read_limits(table, where, policy, err);
}

static int read_word(const json_t *network, const mcg_where *where, mcg_policy *policy,
                     mcg_error **err)
{
  const char *word;
  if (mcg_check_string(network, where, &word, err) < 0) return -1;
  policy->by_default = policy->redirects = strcmp(word, "open") == 0;
  if (policy->by_default || strcmp(word, "none") == 0) return read_limits(NULL, where, policy, err);
  if (strcmp(word, "host") == 0)
    return mcg_check_fail(where, err, "write \"none\", \"open\" or a table of rules",
                          "\"host\" shares the host's network, and has no rules");
  return mcg_check_fail(where, err, "write \"none\", \"open\", \"host\" or a table of rules",
                        "\"%s\" is no network", word);
}

static int read_policy(const json_t *network, const mcg_where *where, unsigned depth,
                       mcg_policy **out, mcg_error **err)
{
  if (depth > MCG_POLICY_DEPTH)
    return mcg_check_fail(where, err, "write less of them into each other",
                          "policies are %d deep at most", MCG_POLICY_DEPTH);
  mcg_policy *policy = calloc(1, sizeof *policy);
  if (!policy) return no_memory(err);
  policy->refs = 1;
  int rc = json_is_string(network) ? read_word(network, where, policy, err)
                                   : read_table(network, where, depth, policy, err);
  if (rc == 0)
    *out = policy;
  else
    mcg_policy_unref(policy);
  return rc;
}

int mcg_policy_read(const json_t *network, const mcg_where *where, mcg_policy **out,
                    mcg_error **err)
{
  return read_policy(network, where, 1, out, err);
}

/* ---- and back ----------------------------------------------------------------------------- */

static json_t *rule_json(const mcg_rule *rule)
{
  if (!rule->sni && !rule->terminate_tls) return json_string(rule->text);
  json_t *out = json_pack("{s:s}", "host", rule->text);
  if (rule->sni) json_object_set_new(out, "sni", json_true());
  if (rule->terminate_tls) json_object_set_new(out, "terminate_tls", json_true());
  json_t *headers = rule->header_count ? json_object() : NULL;
  for (size_t i = 0; i < rule->header_count; i++)
    json_object_set_new(headers, rule->headers[i].name, json_string("[redacted]"));
  if (headers) json_object_set_new(out, "headers", headers);
  return out;
}

static json_t *rules_json(const mcg_rule_list *list)
{
  json_t *out = json_array();
  for (size_t i = 0; i < list->count; i++) json_array_append_new(out, rule_json(&list->rules[i]));
  return out;
}

json_t *mcg_policy_json(const mcg_policy *policy)
{
  const mcg_egress_limits *limits = &policy->limits;
  json_t *out = json_pack(
      "{s:s, s:o, s:o, s:I, s:f}", "default", policy->by_default ? "allow" : "deny", "allow",
      rules_json(&policy->allow), "deny", rules_json(&policy->deny), "connections",
      (json_int_t)limits->connections, "idle_s", (double)limits->idle_ms / 1000);
  if (limits->bytes_per_s)
    json_object_set_new(out, "bytes_per_s", json_integer((json_int_t)limits->bytes_per_s));
  if (limits->bytes_total)
    json_object_set_new(out, "bytes_total", json_integer((json_int_t)limits->bytes_total));
  if (policy->within) json_object_set_new(out, "within", mcg_policy_json(policy->within));
  return out;
}
