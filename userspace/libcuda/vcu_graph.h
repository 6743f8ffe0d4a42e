/* SPDX-License-Identifier: MIT */
/*
 * Graphs in the guest. Handles of graphs and nodes are minted by the worker, which alone knows which
 * are live; those of executable graphs are minted here.
 */
#ifndef VCU_GRAPH_H
#define VCU_GRAPH_H

#include "vcu.h"

#include "../../protocol/vgp_guest_rt.h"

/* Could this be the handle of a graph, of a node? The worker knows whether it is. */
static inline bool vcu_graph_ok(CUgraph g)
{
    return VGP_HANDLE_TYPE((uintptr_t)g) == VGP_H_GRAPH;
}
static inline bool vcu_node_ok(CUgraphNode n)
{
    return VGP_HANDLE_TYPE((uintptr_t)n) == VGP_H_GRAPH_NODE;
}
static inline bool vcu_exec_ok(CUgraphExec x)
{
    return vgp_handle_live((uintptr_t)x, VGP_H_GRAPH_EXEC);
}

#endif
