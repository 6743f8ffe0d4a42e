/* SPDX-License-Identifier: MIT */
/* Functions of fuzz.c for the attacks, and the groups of attacks. */
#ifndef FUZZ_H
#define FUZZ_H

#include "raw.h"

extern const char *fuzz_path; /* the socket or the device */
extern unsigned fuzz_seeds;   /* --seeds: the number of random rounds */

/* xorshift. Tests first set the state to a fixed seed, so that a failure can be reproduced. */
extern uint64_t fuzz_random;
uint32_t fuzz_rnd(void);

/* Counts an attack; `what` is NULL or describes the failure. */
void fuzz_result(const char *name, const char *what);
/* True if the command line names this attack, or no attack. */
bool fuzz_wanted(const char *name);
/* NULL if a new client can ping. */
const char *fuzz_alive(void);
/* Puts a valid ping record; does not publish it. */
struct vgp_record *fuzz_ping(struct raw *r, uint32_t slot);

void fuzz_records(void);
void fuzz_calls(void);
void fuzz_mutations(void);
void fuzz_double_fetch(void);
void fuzz_scribble(void);
void fuzz_socket(void); /* not with a device */
void fuzz_wild(void);

#endif
