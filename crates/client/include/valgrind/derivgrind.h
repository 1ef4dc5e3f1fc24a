/* The name under which programs for the Valgrind tool include the client requests of Derivgrind.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef DERIVGRIND_VALGRIND_DERIVGRIND_H
#define DERIVGRIND_VALGRIND_DERIVGRIND_H

#include "../derivgrind.h"

/* 1 under Derivgrind (and under Valgrind), 0 natively. Valgrind's own header defines it as well: include that first. */
#ifndef RUNNING_ON_VALGRIND
#define RUNNING_ON_VALGRIND DERIVGRIND_CAST_(unsigned, derivgrind_request_(0, 0x1001, 0, 0, 0, 0))
#endif

#endif /* DERIVGRIND_VALGRIND_DERIVGRIND_H */
