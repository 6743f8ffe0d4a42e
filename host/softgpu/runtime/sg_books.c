/* SPDX-License-Identifier: MIT */
/* Live resources created by programs; tests compare them before and after. */
#include <stdio.h>

#include "exec/exec.h"
#include "runtime/runtime.h"

/* Resource descriptors are not included: no call destroys them. */
static const char *const names[SG_T_COUNT] = {
    [SG_T_CTX] = "context",
    [SG_T_STREAM] = "stream",
    [SG_T_EVENT] = "event",
    [SG_T_MODULE] = "module",
    [SG_T_FUNC] = "function",
    [SG_T_LIB] = "library",
    [SG_T_KERN] = "kernel",
    [SG_T_POOL] = "pool",
    [SG_T_LINK] = "link",
    [SG_T_PHYS] = "physical",
    [SG_T_GRAPH] = "graph",
    [SG_T_NODE] = "node",
    [SG_T_GRAPH_EXEC] = "executable",
    [SG_T_UOBJ] = "user-object",
    [SG_T_ARRAY] = "array",
    [SG_T_MIPMAP] = "mipmap",
    [SG_T_TEXOBJ] = "texture",
    [SG_T_SURFOBJ] = "surface",
    [SG_T_TEXREF] = "texture-reference",
    [SG_T_SURFREF] = "surface-reference",
    [SG_T_COND] = "condition",
    [SG_T_GREEN] = "green-context",
};

uint64_t sg_memory_held(void)
{
    return sg_mem_in_use() + sg_exec_heap_beyond();
}

void sg_books(char *text, size_t size)
{
    int64_t alive[SG_T_COUNT];
    size_t at = 0;

    sg_tls_streams_forget();
    sg_obj_count(alive);
    for (unsigned i = 0; i < SG_T_COUNT && at < size; i++)
        if (names[i] && alive[i])
            at += (size_t)snprintf(text + at, size - at, "%s %lld ", names[i], (long long)alive[i]);
    if (at < size)
        snprintf(text + at, size - at, "ranges %llu bytes %llu reserved %llu",
                 (unsigned long long)sg_mem_ranges(), (unsigned long long)sg_mem_in_use(),
                 (unsigned long long)sg_mem_reserved());
}
