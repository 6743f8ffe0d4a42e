/* SPDX-License-Identifier: MIT */
/* Which memory of this process is mapped. */
#ifndef LNK_MAPPED_H
#define LNK_MAPPED_H

#include <stdbool.h>
#include <stdint.h>

/* True when every page of [p, p + n) is mapped (readable is not checked). */
bool lnk_memory_mapped(const void *p, uint64_t n);

/* A mapping of this process, as far as it lies in a range. */
struct lnk_mapping {
    uint64_t start, end, offset, inode;
    unsigned major, minor;
    char access[5]; /* "rwxp", or 's' for a shared one */
};
/* Calls fn for each mapping in the range until it returns false. False: the system does not tell. */
bool lnk_each_mapping(const void *va, uint64_t length, bool (*fn)(const struct lnk_mapping *p, void *arg),
                      void *arg);

#endif
