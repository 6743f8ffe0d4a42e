/* SPDX-License-Identifier: MIT */
/* Random sequences of driver-API calls on few live handles: shared code of the families of
 * calls. */
#ifndef SEQUENCES_H
#define SEQUENCES_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEQ_SLOTS 6
extern unsigned seq_slots; /* used by this seed, at least 2: fewer meet more often */

/* Handles of a kind. A destroyed handle stays in its slot, to be used again on purpose. */
#define SEQ_KIND(type, name) type name[SEQ_SLOTS]
struct seq_objects {
    SEQ_KIND(CUcontext, context); /* 0: the primary context, never destroyed */
    SEQ_KIND(CUstream, stream);
    SEQ_KIND(CUevent, event);
    SEQ_KIND(CUgraph, graph);
    SEQ_KIND(CUgraphNode, node);
    SEQ_KIND(CUgraphExec, exec);
    SEQ_KIND(CUgraphConditionalHandle, condition);
    SEQ_KIND(CUuserObject, user);
    SEQ_KIND(CUmodule, module);
    SEQ_KIND(CUfunction, function); /* each takes a pointer */
    SEQ_KIND(CUlibrary, library);
    SEQ_KIND(CUlinkState, link);
    SEQ_KIND(CUdeviceptr, memory); /* at least SEQ_BYTES each, if live */
    SEQ_KIND(CUmemoryPool, pool);
    SEQ_KIND(CUarray, array);
    SEQ_KIND(CUmipmappedArray, mipmap);
    SEQ_KIND(CUtexObject, texture);
    SEQ_KIND(CUsurfObject, surface);
    SEQ_KIND(CUmemGenericAllocationHandle, physical);
    SEQ_KIND(CUdeviceptr, reserved); /* of SEQ_GRANULE */
    SEQ_KIND(CUgreenCtx, green);
    SEQ_KIND(CUdeviceptr, managed); /* also among memory */
    SEQ_KIND(CUexternalMemory, external);
    SEQ_KIND(CUdeviceptr, opened); /* by an IPC handle */
    SEQ_KIND(void *, host);        /* page-locked, of SEQ_BYTES */
};
extern struct seq_objects seq;
#define SEQ_BYTES 4096u
#define SEQ_GRANULE (2u << 20)

extern unsigned seq_threads;
/* Returns a number below n; each thread has its own sequence. */
unsigned seq_random(unsigned n);
#define SEQ_ANY(kind) seq.kind[seq_random(seq_slots)]
#define SEQ_SLOT(kind) (&seq.kind[seq_random(seq_slots)])
/* Stores a live object in a random slot. */
#define SEQ_PUT(kind, value) \
    do { \
        seq.kind[seq_random(seq_slots)] = (value); \
    } while (0)

struct seq_step {
    const char *call; /* the entry point, for the counts */
    CUresult (*run)(void);
    unsigned weight;
};
extern const struct seq_step seq_graph_steps[], seq_node_steps[], seq_memory_steps[], seq_code_steps[],
    seq_stream_steps[], seq_share_steps[];
/* Starts the process whose IPC handles the sequences open. */
bool seq_share_begin(void);
/* Returns valid memory in half of the calls. */
CUdeviceptr seq_memory(void);
extern CUfunction seq_setter; /* kernel that sets the condition named by its argument; NULL: none */

/* Returns mostly a node of g; of the type if g has one (-1: any). */
CUgraphNode seq_graph_node(CUgraph g, int type);
/* Returns an executable graph, mostly with one of its nodes. */
CUgraphExec seq_graph_exec(CUgraphNode *n, int type);
CUDA_KERNEL_NODE_PARAMS seq_graph_kernel(void);
/* sides: 0 to 2 are within the device, 3 is from the host, 4 to it, 5 within it. */
CUDA_MEMCPY3D seq_graph_copy(unsigned sides);
CUDA_MEMSET_NODE_PARAMS seq_graph_fill(void);

/* PTX of the module that all sequences load. */
extern const char seq_ptx[];
/* Host function with a short duration; long in some seeds. */
void seq_host_function(void *argument);
extern char seq_host[SEQ_BYTES]; /* pageable memory */
/* Context of a seed's streams: the primary context, or one that may fault and be destroyed. */
CUcontext seq_home(void);
extern CUfunction seq_fault; /* faults, in a home that is not the primary context */
/* While set, running host functions do not end before it is cleared or a bounded time has
 * passed. */
void seq_hold(bool on);

/* ---- plots ---- */

/* Called once, before the seeds; counted: allocates an index in the counts. */
void seq_plots_begin(unsigned (*counted)(const char *what));
/* Chooses the plots of this seed. */
void seq_plots_choose(void);
/* Plays a plot when due; returns the number of its steps, else 0. */
unsigned seq_plot(void);
/* For plots: count an act; make a call of the seed's mixture. */
void seq_count(unsigned at, CUresult r);
void seq_noise(void);

#endif
