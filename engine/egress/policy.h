/* policy.h: what a sandbox may reach: rules, and the judging of one connection by them. Immutable once
 * read, reference counted, pure: no look-ups, no I/O, nothing global.
 *
 * `deny` wins over `allow`, which wins over `default`. A target of a name needs a rule that names it;
 * a target of an address alone, one that holds the address. Whatever an address was found by, it is
 * refused where it lies in a special range (mcg_address_special), unless an allow rule of addresses
 * within that range holds it on that port; a metadata address only by a rule of that one address.
 * A policy may lie `within` another, which has to allow as well: how a tenant tightens. */
#ifndef MCG_POLICY_H
#define MCG_POLICY_H

#include "config/check.h"
#include "rule.h"

#define MCG_POLICY_DEPTH 4    /* policies within each other */
#define MCG_POLICY_RULES 1024 /* in one list */
#define MCG_LISTEN_PORTS 64   /* more than these are redirected, not listened on */

typedef struct mcg_policy mcg_policy;

/* What is kept of all connections of a session together; 0: no limit. */
typedef struct mcg_egress_limits {
  unsigned connections; /* at once */
  uint64_t idle_ms, bytes_per_s, bytes_total;
} mcg_egress_limits;

/* "none", "open" or the table; "host" is no policy: `invalid`. Fails with `invalid` at `where`. */
int mcg_policy_read(const struct json_t *network, const mcg_where *where, mcg_policy **out,
                    mcg_error **err);
mcg_policy *mcg_policy_ref(mcg_policy *policy);
void mcg_policy_unref(mcg_policy *policy); /* NULL is fine */
const mcg_egress_limits *mcg_policy_limits(const mcg_policy *policy);
bool mcg_policy_allows_nothing(const mcg_policy *policy);
bool mcg_policy_by_default(const mcg_policy *policy); /* default = "allow", all through */
/* The URL of the proxy that connections leave through; "": none; NULL: the environment's. */
const char *mcg_policy_proxy(const mcg_policy *policy);
/* Some rule that allows has terminate_tls: the sandbox is to trust an authority of the engine's. */
bool mcg_policy_terminates(const mcg_policy *policy);
/* The first rule that `policy` allows by, of which `around`, or one that it lies within, allows nothing;
 * 0: there is none. */
unsigned mcg_policy_rule_apart(const mcg_policy *policy, const mcg_policy *around);
/* A file of authorities to believe besides this system's, by the outermost policy; NULL: none. */
const char *mcg_policy_ca_file(const mcg_policy *policy);
/* Secrets as "[redacted]": what `config show` tells. Fresh; NULL when memory is out. */
struct json_t *mcg_policy_json(const mcg_policy *policy);

/* ---- what is listened on ------------------------------------------------------------------ */

/* The ports of it are too many to listen on (or all): connections are redirected to one listener, and
 * the functions below are not asked. */
bool mcg_policy_redirects(const mcg_policy *policy);
/* The least port above `port` on which a connection to this (normalised) name may be allowed; 0: none.
 * From 0, all of them: `for (p = 0; (p = mcg_policy_name_port(policy, name, p));)`. */
uint16_t mcg_policy_name_port(const mcg_policy *policy, const char *name, uint16_t port);
/* Does the stub answer for it? When there is any such port. */
bool mcg_policy_names(const mcg_policy *policy, const char *name);
/* The same for addresses of IPv4, or of IPv6, that rules hold: listened for on 0.0.0.0 and ::. */
uint16_t mcg_policy_address_port(const mcg_policy *policy, bool six, uint16_t port);

/* ---- judging ------------------------------------------------------------------------------ */

typedef struct mcg_target {
  const char *name;           /* normalised, or NULL */
  const mcg_address *address; /* NULL: not known yet; with a name: one that it resolved to */
  uint16_t port;
} mcg_target;

/* Everything in it is borrowed from the policy, but for `reason`. */
typedef struct mcg_verdict {
  bool allowed;
  const char *by;          /* "allow", "deny", "default" or "range" (a special one); static */
  unsigned index;          /* of the rule in its list, from 1; 0: it was no rule */
  const char *rule;        /* its text; else "default", or the name of the range */
  char reason[256];        /* one line for people */
  bool sni, terminate_tls; /* if allowed: what the rules by which it is want */
  const mcg_rule *rules[MCG_POLICY_DEPTH]; /* those rules, innermost first; none for a default */
  size_t rule_count;
} mcg_verdict;

/* Whether it is allowed, and why. */
bool mcg_policy_judge(const mcg_policy *policy, const mcg_target *target, mcg_verdict *out);

#endif
