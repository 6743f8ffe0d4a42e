/* SPDX-License-Identifier: MIT */
/*
 * What calls cost, for flow.c.
 *
 * The hash has no secret and needs none: each key has one place, so no look-up takes longer for keys that a client chose, and
 * the table is that of its own worker. A collision makes an estimate worse, which a client can also do with one kernel whose
 * time depends on its data; what is charged is measured.
 */
#include "core.h"

#include <string.h>

#include "vgp_worker.h"

#define COSTS 512u

static struct cost {
    uint32_t key, seen;
    uint64_t ns;
} costs[COSTS];

uint64_t wrk_flow_cost(uint32_t key)
{
    const struct cost *c = &costs[key % COSTS];

    return c->key == key && c->seen ? c->ns : 0;
}

void wrk_flow_learn(uint32_t key, unsigned calls, uint64_t ns)
{
    struct cost *c = &costs[key % COSTS];
    uint64_t each = ns / (calls ? calls : 1);

    each = each ? each : 1;
    if (c->key != key) {
        c->key = key;
        c->seen = 0;
    }
    /* Raised at once, lowered slowly: little is gained by cheap calls ahead of expensive ones. */
    c->ns = !c->seen || each > c->ns ? each : c->ns - (c->ns - each) / 8;
    c->seen = 1;
}

uint32_t wrk_flow_key(uint16_t call, const uint8_t *args, uint32_t size)
{
    uint64_t h = call;

    if (call == VGP_vgpLaunch && size >= sizeof(struct vgp_args_vgpLaunch)) {
        struct vgp_args_vgpLaunch a;

        memcpy(&a, args, sizeof(a));
        h ^= a.func * 31 ^ (uint64_t)a.gridX * a.gridY * a.gridZ << 20;
    } else if (call == VGP_cuMemsetD8Async && size >= sizeof(struct vgp_args_cuMemsetD8Async)) {
        struct vgp_args_cuMemsetD8Async a;

        memcpy(&a, args, sizeof(a));
        h ^= a.N << 16;
    } else if (size >= 8 && (call == VGP_cuGraphLaunch || call == VGP_vgpGraphLaunch)) {
        uint64_t graph;

        memcpy(&graph, args, sizeof(graph));
        h ^= graph * 31;
    }
    h *= UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32) | 1u;
}
