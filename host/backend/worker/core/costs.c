/* SPDX-License-Identifier: MIT */
/* A small table of what calls cost. A collision only makes an estimate worse, and what is charged is measured. */
#include "core.h"

#define ROWS 512u

static struct cost {
    uint32_t key, seen;
    uint64_t ns;
} table[ROWS];

uint64_t wrk_cost_of(uint32_t key)
{
    const struct cost *c = &table[key % ROWS];

    return c->key == key && c->seen ? c->ns : 0;
}

void wrk_cost_learn(uint32_t key, unsigned calls, uint64_t ns)
{
    struct cost *c = &table[key % ROWS];
    uint64_t each = ns / (calls ? calls : 1);

    each = each ? each : 1;
    if (c->key != key) {
        c->key = key;
        c->seen = 0;
    }
    /* Up at once, down slowly: who is cheap for a while to be dear afterwards gains little. */
    c->ns = !c->seen || each > c->ns ? each : c->ns - (c->ns - each) / 8;
    c->seen = 1;
}
