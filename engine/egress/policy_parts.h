/* policy_parts.h: the insides of a policy, for those who read and judge it. */
#ifndef MCG_POLICY_PARTS_H
#define MCG_POLICY_PARTS_H

#include "policy.h"

typedef struct mcg_rule_list {
  mcg_rule *rules;
  size_t count;
} mcg_rule_list;

struct mcg_policy {
  unsigned refs;
  bool by_default, redirects; /* of this one alone */
  mcg_rule_list allow, deny;
  mcg_egress_limits limits; /* the tightest of this one and those around it */
  char *ca_file;            /* or NULL */
  mcg_policy *within;       /* or NULL */
  char *proxy;              /* of the outermost; "": none; NULL: as the environment says */
};

#endif
