/* cmocka_all.h: cmocka.h and all that it wants to be included before it. */
#ifndef MCG_TEST_CMOCKA_ALL_H
#define MCG_TEST_CMOCKA_ALL_H

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#endif
