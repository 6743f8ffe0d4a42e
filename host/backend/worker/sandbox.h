/* SPDX-License-Identifier: MIT */
#ifndef VGB_SANDBOX_H
#define VGB_SANDBOX_H

#include <stddef.h>

/* policies/worker-*.seccomp, made into C by the Makefile. */
extern const char vgb_policy_soft[];
extern const char vgb_policy_nvidia[];

/* Installs the filter that `policy` describes, for all threads. 0, or -1 with a sentence in err. */
int vgb_sandbox_filter(const char *policy, char *err, size_t err_size);

#endif
