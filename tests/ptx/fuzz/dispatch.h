/* SPDX-License-Identifier: MIT */
/* Tables of handles.py from the protocol's description for fuzz_dispatch.c, and the interface
 * between its two files. */
#ifndef FUZZ_DISPATCH_H
#define FUZZ_DISPATCH_H

#include <stdbool.h>
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

/* ---- fuzz_dispatch.c ---- */

struct vgb_msg;
struct vgp_call_fields;
extern const char *const fz_image; /* PTX of a module */
extern bool fz_posting;            /* no call has a reply, as on a stream that is known to capture */

uint32_t fz_byte(void); /* of the input */
uint64_t fz_number(unsigned bytes);
uint64_t fz_pick(unsigned type, unsigned role); /* a handle */
void fz_put(uint16_t call, const void *args, uint32_t size, uint32_t slot, uint64_t context);
void fz_call(uint16_t n); /* with fields from the input */
bool fz_replied(uint32_t slot);
void fz_learn(const struct vgp_call_fields *c, uint32_t slot);
uint64_t fz_context(void); /* the first one; 0: none */

/* ---- dispatch_steps.c ---- */

#define FZ_IMAGE_SIZE (VGP_BLOB_OFFER + 4096u)

#define FZ_REGION_VA 0x7e0000000000ull

const struct handle_field *fz_handle_of(uint16_t call, const char *name); /* NULL: no handle */
void fz_map(int broker, int guest_memory, uint32_t id, uint32_t b);       /* b: odd things about it */
void fz_answer_image(int broker, const struct vgb_msg *m);                /* as the broker */
void fz_offer(void);
void fz_capture(void);

#endif
