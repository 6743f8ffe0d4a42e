/* SPDX-License-Identifier: MIT */
/*
 * The table of all memory that kernels and copies may access (memory/table.c), for memory/memory.c.
 * It changes under sg_mem_lock only; all functions here are called with it held.
 */
#ifndef SG_MEM_INT_H
#define SG_MEM_INT_H

#include "memory/memory.h"

struct sg_rec {
    struct sg_mem_info info;
    uint64_t block, block_len; /* what it takes in the arena, with its gap; 0: not there */
};

struct sg_entry {
    uint64_t base, end;
    uint32_t owner;  /* context id, 0: every context */
    uint32_t access; /* SG_ACCESS_*; 0: nobody, for now */
    struct sg_rec *rec;
    struct sg_entry *next; /* while it is not in the table */
};

extern pthread_mutex_t sg_mem_lock;

/* The entry around addr, or NULL; good until it is removed. */
struct sg_entry *sg_table_find(uint64_t addr);
/* The entry around addr, or else the first behind it, or NULL. */
struct sg_entry *sg_table_from(uint64_t addr);
/* Makes room for one entry more; false without memory. */
bool sg_table_reserve(void);
/* False when the range overlaps one that is there (*overlap), or without memory. */
bool sg_table_insert(const struct sg_entry *e, bool *overlap);
void sg_table_remove(struct sg_entry *e);
uint64_t sg_table_count(void); /* entries */
/* Sets the access rights: SG_ACCESS_*. */
void sg_table_set_access(struct sg_entry *e, uint32_t access);

#endif
