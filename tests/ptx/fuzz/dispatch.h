/* SPDX-License-Identifier: MIT */
/* What handles.py tells fuzz_dispatch.c of the protocol's description. */
#ifndef FUZZ_DISPATCH_H
#define FUZZ_DISPATCH_H

#include <stdint.h>

#include "vgp_ring.h"

enum role { ROLE_USE, ROLE_NEW, ROLE_END };

struct handle_field {
    uint16_t call; /* 0: the end of the table */
    const char *name;
    uint8_t type; /* enum vgp_handle_type */
    uint8_t role; /* enum role */
};

extern const struct handle_field handle_fields[];
extern const uint16_t call_numbers[];
extern const unsigned n_call_numbers;

#endif
