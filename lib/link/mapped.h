/* SPDX-License-Identifier: MIT */
/* Queries about the memory mapped in this process. */
#ifndef LNK_MAPPED_H
#define LNK_MAPPED_H

#include <stdbool.h>
#include <stdint.h>

/* True if every page of [p, p + n) is mapped (readability is not checked). */
bool lnk_memory_mapped(const void *p, uint64_t n);

/* A mapping of this process, clipped to the range. */
struct lnk_mapping {
    uint64_t start, end, offset, inode;
    unsigned major, minor;
    char access[5]; /* "rwxp", or 's' for a shared one */
};
/* Calls fn for each mapping in the range until it returns false. Returns false if the system
   does not report mappings. */
bool lnk_each_mapping(const void *va, uint64_t length, bool (*fn)(const struct lnk_mapping *p, void *arg),
                      void *arg);

#endif
