/* rule.h: one rule of a network policy: a host and its ports, and what holds for connections by it.
 * Pure; the JSON around it is policy.c's.
 *
 *   api.example.com        *.example.org:443       *:443           10.0.0.0/8:5432
 *   192.0.2.7:8000-8100    [2001:db8::1]:443       [fd00::/8]:22,443 */
#ifndef MCG_RULE_H
#define MCG_RULE_H

#include "name.h"

#define MCG_PORTS_MAX 32 /* ranges in one rule */

typedef struct mcg_port_range {
  uint16_t first, last;
} mcg_port_range;

/* In order, none touches another. */
typedef struct mcg_ports {
  mcg_port_range list[MCG_PORTS_MAX];
  size_t count;
} mcg_ports;

/* A header that is set on the way out. The value is a secret; both are free of CR, LF and NUL. */
typedef struct mcg_header {
  char *name, *value;
  char *secrets; /* those of its pieces that are one, each with a NUL, and one more; or NULL */
} mcg_header;

typedef enum mcg_rule_kind {
  MCG_RULE_HOST,    /* this name */
  MCG_RULE_SUFFIX,  /* the names beneath this one */
  MCG_RULE_ANY,     /* every name and every address */
  MCG_RULE_NETWORK, /* addresses */
} mcg_rule_kind;

typedef struct mcg_rule {
  mcg_rule_kind kind;
  char *text; /* as it is told of: "*.example.org:443" */
  char name[MCG_NAME_ROOM];
  mcg_address network;
  unsigned bits;
  mcg_ports ports;
  bool sni;           /* the name in the ClientHello must be the one that was resolved */
  bool terminate_tls; /* the engine speaks TLS to both sides */
  mcg_header *headers;
  size_t header_count;
} mcg_rule;

/* What is wrong with a rule, and what to write. */
typedef struct mcg_fault {
  char text[192], fix[192]; /* fix: "" where there is none */
} mcg_fault;

/* "HOST" or "HOST:PORTS". Without ports: 80 and 443 where it allows, all where it denies. A rule that
 * allows may not be "*" without ports, nor of one label ("com", "*.com"). False: *fault is filled, or
 * memory is out and its text is empty. */
bool mcg_rule_parse(const char *text, size_t len, bool allows, mcg_rule *out, mcg_fault *fault);
void mcg_rule_fini(mcg_rule *rule); /* the values of its headers are wiped */
/* "443", "443,8443", "8000-8100", "*". */
bool mcg_ports_parse(const char *text, size_t len, mcg_ports *out, mcg_fault *fault);
bool mcg_ports_add(mcg_ports *ports, uint16_t first, uint16_t last); /* false: there are too many */
bool mcg_ports_have(const mcg_ports *ports, uint16_t port);
/* The least port of it above `port`; 0: none. */
uint16_t mcg_ports_after(const mcg_ports *ports, uint16_t port);
/* Sets the ports and writes `text` anew. False: no memory. */
bool mcg_rule_set_ports(mcg_rule *rule, const mcg_ports *ports);

bool mcg_rule_names(const mcg_rule *rule, const char *name); /* ports aside */
/* Is there a host and port that both are about? */
bool mcg_rules_meet(const mcg_rule *a, const mcg_rule *b);
bool mcg_rule_holds(const mcg_rule *rule, const mcg_address *address);

/* "HOST:PORT" as a user asks about one, into a normalised name or an address. */
bool mcg_host_port_parse(const char *text, size_t len, char name[MCG_NAME_ROOM],
                         mcg_address *address, bool *is_address, uint16_t *port, mcg_fault *fault);

#endif
