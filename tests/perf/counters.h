/* SPDX-License-Identifier: MIT */
/* Shared declarations of the parts of `counters` (counters.c). */
#ifndef COUNTERS_H
#define COUNTERS_H

#include "bench.h"

extern struct counters {
    struct api a;
    CUdeviceptr p; /* 256 KiB of device memory */
    void *pinned;  /* 256 KiB of the host's, pinned */
} counters;

/* Each runs one round and returns the first error. */
CUresult counters_capture(void);
CUresult counters_graph(void);
CUresult counters_graph_memset(void);
CUresult counters_graph_copy(void);
CUresult counters_graph_event(void);
CUresult counters_graph_host(void);
CUresult counters_graph_child(void);
CUresult counters_graph_any(void);
CUresult counters_graph_semaphore(void);
CUresult counters_graph_memop(void);
CUresult counters_graph_array(void);
CUresult counters_graph_condition(void);

#endif
