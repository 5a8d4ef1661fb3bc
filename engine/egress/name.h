/* name.h: the one spelling of a host's name that everything is judged by. Pure. */
#ifndef MCG_NAME_H
#define MCG_NAME_H

#include "address.h"

#define MCG_NAME_MAX 253
#define MCG_NAME_ROOM (MCG_NAME_MAX + 1)

typedef enum mcg_name_kind { MCG_NAME_BAD, MCG_NAME_HOST, MCG_NAME_ADDRESS } mcg_name_kind;

/* Lower case, one dot at the end removed; letters, digits, '-' and '.', labels of 1 to 63 that neither
 * start nor end in '-', 253 in all. What inet_aton or inet_pton would take is an address, and `address`
 * is filled instead of `out`; a name whose last label is a number that is no address is bad. Brackets
 * around IPv6 are taken. BAD: *why (static) says what is wrong. */
mcg_name_kind mcg_name_normalise(const char *text, size_t len, char out[MCG_NAME_ROOM],
                                 mcg_address *address, const char **why);
/* Is `name` beneath `suffix`, at any depth, and not the suffix itself? Both normalised. */
bool mcg_name_beneath(const char *name, const char *suffix);

#endif
