/* SPDX-License-Identifier: MIT */
/* Accesses at the ends of memory, a program per seed. */
#ifndef EDGE_H
#define EDGE_H

#include "ref.h"

#include <stddef.h>

/* False: the program of this seed ended in an unexpected way, described by `why`. */
bool edge_run(u64 seed, char *why, size_t room);
/* PTX of the last program. */
const char *edge_text(void);

#endif
