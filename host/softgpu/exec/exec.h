/* SPDX-License-Identifier: MIT */
/*
 * Running kernels: what a launch is, and how one ends.
 *
 * Everything here runs inside the process that loaded libcuda-soft.so.1. PTX text, parameter
 * buffers and device addresses come from an untrusted guest; nothing in them is asserted on.
 * Device addresses are host addresses of this process, so every global access
 * is checked with sg_mem_check() before it is made.
 */
#ifndef SG_EXEC_H
#define SG_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/access.h"

#define SG_WARP_SIZE 32
/* Limits of untrusted input; each is a bound on work or memory, not a CUDA limit. */
#define SG_PTX_TEXT_MAX (256u << 20) /* the largest PTX seen in a real library is 11 MB */
#define SG_MAX_PARAM_BYTES 32764     /* CUDA: kernel parameters, sm_70 and later */
#define SG_CLUSTER_MAX 16            /* blocks of a cluster that the architecture has room for */
#define SG_CLUSTER_PORTABLE 8        /* CUDA: so many without NON_PORTABLE_CLUSTER_SIZE_ALLOWED */
#define SG_DIAG_MAX 512

/* Why something was refused: always filled when a function here does not return 0. */
struct sg_diag {
    uint32_t line; /* 1-based line of the PTX text, 0: none */
    uint32_t column;
    char message[SG_DIAG_MAX]; /* NUL-terminated, one line, names the symbol or opcode */
};

struct sg_texture; /* memory/texture.h */
struct sg_module;  /* a parsed PTX text: kernels are indexed, bodies decoded at first use */
struct sg_kernel;  /* owned by its module */

/* What a variable of kernels that is a handle, not memory, stands for. */
enum sg_opaque_kind { SG_OPAQUE_TEXREF, SG_OPAQUE_SURFREF, SG_OPAQUE_SAMPLERREF };

struct sg_param {
    uint32_t offset; /* bytes from the start of the parameter buffer */
    uint32_t size;   /* bytes */
};

struct sg_kernel_info {
    const char *name; /* mangled name, owned by the module */
    uint32_t nparams;
    const struct sg_param *params;
    uint32_t param_bytes;   /* total size of the parameter buffer */
    uint32_t static_shared; /* bytes of .shared declared (excludes extern arrays) */
    uint32_t local_bytes;   /* per thread */
    uint32_t max_threads;   /* from .maxntid / .reqntid, else 1024 */
    uint32_t reqntid[3];    /* 0,0,0 when absent */
    uint32_t cluster[3];    /* .reqnctapercluster; 0,0,0 when absent */
    uint32_t max_cluster;   /* .maxclusterrank; 0: not said */
    bool explicit_cluster;  /* .explicitcluster: a launch has to say the size of clusters */
    uint32_t num_regs;      /* a sane report, 1..255 */
    uint32_t ptx_target;    /* e.g. 80 for .target sm_80 */
    uint32_t ptx_version;   /* e.g. 90 for .version 9.0 */
    bool launches;          /* uses the device runtime (CUDA Dynamic Parallelism) */
};

/* Called from many threads; each returns a cudaError_t, self the name of the graph or 0. */
struct sg_genv; /* a graph that runs: graph/graph.h */
struct sg_graph_ops {
    uint32_t (*launch)(struct sg_genv *graph, uint64_t exec, uint64_t stream);
    uint64_t (*self)(const struct sg_genv *graph);
};

/* Each takes up to 4 KiB of this process's memory until its grid has ended. */
#define SG_PENDING_LAUNCHES_MAX 65536u

/* Multiprocessors of a device: a bit for each, and how many. There are at most 256. */
#define SG_SM_WORDS 4
struct sg_sms {
    uint32_t count;
    uint64_t bits[SG_SM_WORDS];
};

struct sg_launch {
    struct sg_kernel *kernel;
    uint32_t grid[3]; /* each >= 1; already validated against device limits */
    uint32_t block[3];
    /* Blocks of a cluster, which divide the grid; 0,0,0: as the kernel says, or no clusters. */
    uint32_t cluster[3];
    uint32_t dynamic_shared;   /* bytes */
    uint32_t stack_bytes;      /* CU_LIMIT_STACK_SIZE, for recursive functions; 0: CUDA's default */
    const void *params;        /* info.param_bytes bytes, stable during the launch */
    void *mem;                 /* passed to sg_mem_check() */
    bool cooperative;          /* all CTAs must make progress together */
    const struct sg_sms *sms;  /* where it may run: range of %smid and number of threads; NULL: anywhere */
    uint64_t max_instructions; /* watchdog: warp instructions per launch, 0 = off */
    /* Asked now and then; non-zero ends the launch with CUDA_ERROR_LAUNCH_FAILED (719). */
    const volatile int *abort_flag;
    /* Receives device printf output, whole strings in order; called from executing threads,
     * serialised by the interpreter. NULL: stdout. */
    void (*print)(void *ctx, const char *text, size_t len);
    void *print_ctx;
    /* Receives the lines of failed device asserts, which CUDA writes to stderr; called like print,
     * with print_ctx. NULL: they go where print output goes. */
    void (*print_error)(void *ctx, const char *text, size_t len);
    /*
     * The texture or surface behind a handle that the kernel uses, or NULL: no such object, and the
     * kernel ends with CUDA_ERROR_ILLEGAL_ADDRESS. Valid until the launch has ended. Called from
     * many threads. NULL: there are no textures.
     */
    const struct sg_texture *(*texture)(void *textures, uint64_t handle, bool surface);
    void *textures;
    /* cudaGraphSetConditional(); gets mem. False: no such handle, and the kernel ends with
     * CUDA_ERROR_ILLEGAL_ADDRESS. Called from many threads. NULL: there are none. */
    bool (*set_conditional)(void *mem, uint64_t handle, uint32_t value);
    /* Graph operations of device code; graph is passed through. NULL: none. */
    const struct sg_graph_ops *graphs;
    struct sg_genv *graph; /* the graph that the kernel is a node of, or NULL */
    /* CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT: kernels that one grid may launch, at most
     * SG_PENDING_LAUNCHES_MAX, which all grids below it may not exceed together; 0: CUDA's default */
    uint32_t pending_launches;
    struct sg_children *children; /* of the grid that runs; sg_exec_launch() sets it */
};

/* The device-side error that ended a launch. */
struct sg_fault {
    int result; /* CUresult: 700 illegal address, 716 misaligned, 710 assert, 714 call
                 * stack overflow, 715 illegal
                 * instruction, 719 launch failed (trap, abort), 702 timeout, 718 invalid pc,
                 * 717 invalid address space, 801 opcode not available */
    uint32_t block[3], thread[3];
    uint32_t line;    /* PTX line */
    uint64_t address; /* for 700/716 */
    uint32_t access_size;
    bool is_write;
    char space[8];             /* "global", "shared", "local", "param", "const" */
    char message[SG_DIAG_MAX]; /* one line: kernel, block, thread, PTX line, opcode, address */
};

/*
 * Runs a whole grid, using the interpreter's own thread pool (sg_exec_set_threads) plus the calling
 * thread; CTAs are taken in ascending linear order. Deterministic for race-free programs.
 * Returns 0 or fault->result. Several launches may run at once from different threads.
 */
int sg_exec_launch(const struct sg_launch *launch, struct sg_fault *fault);
/*
 * Kernels that add floating point numbers atomically in global memory run their blocks one after the
 * other, so that the sums do not depend on the number of threads; relaxed: they do not.
 */
void sg_exec_set_relaxed(bool relaxed);
/* Opens what a sandbox might forbid later (the profile). Optional. */
void sg_exec_prepare(void);
void sg_exec_set_threads(unsigned n); /* before the first launch; 0 = number of online CPUs */

#endif
