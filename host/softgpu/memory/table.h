/* SPDX-License-Identifier: MIT */
/*
 * The table of all memory that kernels and copies may access (memory/sg_table.c), for memory/sg_memory.c.
 * It changes under sg_mem_lock only; all functions here are called with it held.
 */
#ifndef SG_MEM_INT_H
#define SG_MEM_INT_H

#include "memory/memory.h"

struct sg_rec {
    struct sg_mem_info info;
    uint64_t block, block_len; /* range taken from the arena, gap included; 0: not from the arena */
};

struct sg_entry {
    uint64_t base, end;
    uint32_t owner;  /* context id; 0: every context */
    uint32_t access; /* SG_ACCESS_*; 0: no device, for now */
    struct sg_rec *rec;
    struct sg_entry *next; /* valid while the entry is not in the table */
};

extern pthread_mutex_t sg_mem_lock;

/* The entry around addr, or NULL; valid until it is removed. */
struct sg_entry *sg_table_find(uint64_t addr);
/* The entry around addr, else the first entry after it, or NULL. */
struct sg_entry *sg_table_from(uint64_t addr);
/* Makes room for one more entry. Returns false if out of memory. */
bool sg_table_reserve(void);
/* Returns false if the range overlaps an existing entry (*overlap), or if out of memory. */
bool sg_table_insert(const struct sg_entry *e, bool *overlap);
void sg_table_remove(struct sg_entry *e);
uint64_t sg_table_count(void); /* number of entries */
/* Sets the access rights of the entry: SG_ACCESS_*. */
void sg_table_set_access(struct sg_entry *e, uint32_t access);

#endif
