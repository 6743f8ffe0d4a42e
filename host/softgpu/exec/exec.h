/* SPDX-License-Identifier: MIT */
/*
 * Running kernels: the parameters of a launch, and its outcome.
 *
 * Everything here runs inside the process that loaded libcuda-soft.so.1. PTX text, parameter
 * buffers and device addresses come from an untrusted guest; none of their content is asserted on.
 * Device addresses are host addresses of this process, so every global access is checked with
 * sg_mem_check() before it is made.
 */
#ifndef SG_EXEC_H
#define SG_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/access.h"

#define SG_WARP_SIZE 32
/* Limits on untrusted input; each bounds work or memory and is not a CUDA limit. */
#define SG_PTX_TEXT_MAX (256u << 20) /* the largest PTX seen in a real library is 11 MB */
#define SG_MAX_PARAM_BYTES 32764     /* CUDA: kernel parameters, sm_70 and later */
#define SG_CLUSTER_MAX 16            /* maximum number of blocks in a cluster of the architecture */
/* CUDA: the maximum without NON_PORTABLE_CLUSTER_SIZE_ALLOWED */
#define SG_CLUSTER_PORTABLE 8
#define SG_DIAG_MAX 512

/* The reason for a refusal: filled whenever a function here does not return 0. */
struct sg_diag {
    uint32_t line; /* 1-based line of the PTX text, 0: none */
    uint32_t column;
    char message[SG_DIAG_MAX]; /* NUL-terminated, one line, names the symbol or opcode */
};

struct sg_texture; /* memory/texture.h */
struct sg_module;  /* a parsed PTX text: kernels are indexed, bodies decoded at first use */
struct sg_kernel;  /* owned by its module */

/* Kinds of kernel variables that are handles, not memory. */
enum sg_opaque_kind { SG_OPAQUE_TEXREF, SG_OPAQUE_SURFREF, SG_OPAQUE_SAMPLERREF };

struct sg_param {
    uint32_t offset; /* offset in the parameter buffer, bytes */
    uint32_t size;   /* size in bytes */
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
    uint32_t max_cluster;   /* .maxclusterrank; 0: not specified */
    bool explicit_cluster;  /* .explicitcluster: a launch must specify the cluster size */
    uint32_t num_regs;      /* register count to report, 1..255 */
    uint32_t ptx_target;    /* e.g. 80 for .target sm_80 */
    uint32_t ptx_version;   /* e.g. 90 for .version 9.0 */
    bool launches;          /* uses the device runtime (CUDA Dynamic Parallelism) */
    bool prints, allocates; /* calls printf(); malloc() or free() */
};

/* Called from many threads; each returns a cudaError_t. self: name of the graph, or 0. */
struct sg_genv; /* a running graph: graph/graph.h */
struct sg_graph_ops {
    uint32_t (*launch)(struct sg_genv *graph, uint64_t exec, uint64_t stream);
    uint64_t (*self)(const struct sg_genv *graph);
};

/* cudaFuncAttributes of CUDA 13 */
struct sg_function_attributes {
    uint64_t shared, constant, local; /* bytes */
    int32_t threads, registers, ptx_version, binary_version, cache_ca, max_dynamic, carveout;
    int32_t cluster_must_be_set, cluster[3], cluster_policy, nonportable_cluster;
    int32_t reserved[17];
};
_Static_assert(sizeof(struct sg_function_attributes) == 144, "cudaFuncAttributes");

/* Queries of device code. Called from many threads; each returns a cudaError_t. owner: of the launch. */
struct sg_query_ops {
    uint32_t (*device)(void *owner, int32_t *ordinal);
    uint32_t (*devices)(int32_t *count);
    uint32_t (*version)(int32_t *runtime);
    uint32_t (*attribute)(int32_t attribute, int32_t device, int32_t *value);
    uint32_t (*limit)(void *owner, uint32_t limit, uint64_t *value);
    /* preference of caches and width of banks of shared memory; either may be NULL */
    uint32_t (*configs)(void *owner, int32_t *cache, int32_t *bank);
    uint32_t (*function)(void *owner, struct sg_kernel *k, struct sg_function_attributes *out);
    uint32_t (*occupancy)(void *owner, struct sg_kernel *k, int32_t block, uint64_t dynamic, int32_t *blocks);
    /* 0 if the kernel can be launched with these blocks and bytes of dynamic shared memory */
    uint32_t (*launch)(void *owner, struct sg_kernel *k, const uint32_t block[3], uint32_t dynamic);
};

/* Each takes up to 32 KiB of this process's memory, for its parameters, until its grid has ended. */
#define SG_PENDING_LAUNCHES_MAX 65536u

/* A set of multiprocessors of a device: a bit each, and their number, at most 256. */
#define SG_SM_WORDS 4
struct sg_sms {
    uint32_t count;
    uint64_t bits[SG_SM_WORDS];
};

struct sg_launch {
    struct sg_kernel *kernel;
    uint32_t grid[3]; /* each >= 1; already validated against device limits */
    uint32_t block[3];
    /* Blocks per cluster, a divisor of the grid; 0,0,0: the kernel's size, or no clusters. */
    uint32_t cluster[3];
    uint32_t dynamic_shared; /* bytes */
    uint32_t stack_bytes;    /* CU_LIMIT_STACK_SIZE, for recursive functions; 0: CUDA's default */
    const void *params;      /* info.param_bytes bytes, stable during the launch */
    void *mem;               /* passed to sg_mem_check() */
    bool cooperative;        /* all CTAs must make progress together */
    /* allowed multiprocessors: range of %smid and number of threads; NULL: all */
    const struct sg_sms *sms;
    uint64_t max_instructions; /* watchdog: warp instructions per launch, 0 = off */
    /* Polled during the launch; non-zero ends it with CUDA_ERROR_LAUNCH_FAILED (719). */
    const volatile int *abort_flag;
    /* Receives device printf output, whole strings in order; called from executing threads,
     * serialised by the interpreter. NULL: stdout. */
    void (*print)(void *ctx, const char *text, size_t len);
    void *print_ctx;
    /* Receives the lines of failed device asserts, which CUDA writes to stderr; called like
       print, with print_ctx. NULL: same destination as print output. */
    void (*print_error)(void *ctx, const char *text, size_t len);
    /*
     * The texture or surface behind a handle used by the kernel. NULL: no such object, which ends
     * the kernel with CUDA_ERROR_ILLEGAL_ADDRESS. Valid until the launch has ended. Called from
     * many threads. A NULL function: no textures.
     */
    const struct sg_texture *(*texture)(void *textures, uint64_t handle, bool surface);
    void *textures;
    /* cudaGraphSetConditional(); receives mem. Returns false for an unknown handle, which ends
       the kernel with CUDA_ERROR_ILLEGAL_ADDRESS. Called from many threads. NULL: no handles. */
    bool (*set_conditional)(void *mem, uint64_t handle, uint32_t value);
    /* Graph operations of device code; they receive graph. NULL: none. */
    const struct sg_graph_ops *graphs;
    struct sg_genv *graph;              /* graph whose node the kernel is, or NULL */
    const struct sg_query_ops *queries; /* NULL: none */
    void *owner;                        /* module of the kernel and of those that it launches */
    /* CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT: kernels that one grid may launch, at most
       SG_PENDING_LAUNCHES_MAX, which also bounds the total of all grids below it; 0: CUDA's
       default. */
    uint32_t pending_launches;
    struct sg_children *children; /* launches of the running grid; set by sg_exec_launch() */
};

/* The device-side error that ended a launch. */
struct sg_fault {
    int result; /* CUresult: 700 illegal address, 716 misaligned, 710 assert, 714 call
                 * stack overflow, 715 illegal
                 * instruction, 719 launch failed (trap, abort), 702 timeout, 718 invalid pc,
                 * 717 invalid address space, 801 opcode not available */
    uint32_t block[3], thread[3];
    uint32_t line;    /* PTX line */
    uint64_t address; /* faulting address, for 700 and 716 */
    uint32_t access_size;
    bool is_write;
    char space[8];             /* "global", "shared", "local", "param", "const" */
    char message[SG_DIAG_MAX]; /* one line: kernel, block, thread, PTX line, opcode, address */
};

/*
 * Runs a whole grid on the interpreter's thread pool (sg_exec_set_threads) and the calling thread;
 * CTAs start in ascending linear order. Deterministic for race-free programs. Returns 0 or
 * fault->result. Several launches may run concurrently from different threads.
 */
int sg_exec_launch(const struct sg_launch *launch, struct sg_fault *fault);
/*
 * By default, a kernel that adds floating-point numbers atomically in global memory runs its blocks
 * one after the other, so that sums do not depend on the number of threads. relaxed: such kernels
 * run their blocks in parallel, too.
 */
void sg_exec_set_relaxed(bool relaxed);
/* Opens resources that a sandbox might forbid later (the profile). Optional. */
void sg_exec_prepare(void);
/*
 * Sets the size that the heap of device malloc() has at least from the next allocation on, bytes: a
 * context's CU_LIMIT_MALLOC_HEAP_SIZE. The heap of the process grows, and does not shrink once in use.
 */
void sg_exec_heap_size(uint64_t size);
/* Bytes of the heap, present or after the next allocation, beyond the limit's default. */
uint64_t sg_exec_heap_beyond(void);
void sg_exec_set_threads(unsigned n); /* call before the first launch; 0: number of online CPUs */

#endif
