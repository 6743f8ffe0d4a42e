/* SPDX-License-Identifier: MIT */
/* Which memory of this process is mapped, and which calls touch memory of the device. */
#ifndef LNK_MAPPED_H
#define LNK_MAPPED_H

#include <stdbool.h>
#include <stdint.h>

/* True when every page of [p, p + n) is mapped (readable is not checked). */
bool lnk_memory_mapped(const void *p, uint64_t n);
/* True for calls that may make the device read or write memory. */
bool lnk_call_is_work(uint16_t call);

#endif
