/* SPDX-License-Identifier: MIT */
/* Policies as text and as BPF. Part of confine/. */
#ifndef WRK_POLICY_H
#define WRK_POLICY_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vgb_holds.h"

struct wrk_policy_use {
    uint64_t self; /* process id of the worker */
    bool starting; /* further filters may follow */
    bool log;      /* refused calls are notified instead */
};
/* A context of libseccomp; NULL with a message in err. */
void *wrk_policy_build(const char *policy, const struct wrk_policy_use *use, char *err, size_t err_size);

/* Stands for the worker's process id in compiled policies: above the kernel's largest one (2^22). */
#define WRK_POLICY_SELF 0x53454c46u

/* Policies compiled by the build (policies/compile.c): libseccomp takes 0.5 ms for one. */
struct wrk_policy_code {
    VGB_LENT const char *policy; /* text it was compiled from */
    bool starting;
    unsigned short n;
    VGB_LENT const struct sock_filter *code;
};
extern const struct wrk_policy_code wrk_policy_codes[];
extern const unsigned wrk_policy_codes_n;
/* Copies the code with the process id in place of WRK_POLICY_SELF. Allocated; NULL: no memory. */
struct sock_filter *wrk_policy_code_for(const struct wrk_policy_code *p, uint32_t self);

#endif
