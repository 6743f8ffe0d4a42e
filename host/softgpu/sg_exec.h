/* SPDX-License-Identifier: MIT */
/*
 * The seam inside the software GPU: what the PTX front end and interpreter (sg_ptx_*, sg_exec_*)
 * offer to the driver-API half (sg_drv_*), and what they ask of it.
 *
 * Everything here runs inside the process that loaded libcuda-soft.so.1. PTX text, parameter
 * buffers and device addresses come from an untrusted guest; nothing in them is asserted on.
 * Device addresses are host addresses of this process (design: section 9), so every global access
 * is checked with sg_mem_check() before it is made.
 */
#ifndef SG_EXEC_H
#define SG_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SG_WARP_SIZE 32
/* Limits of untrusted input; each is a bound on work or memory, not a CUDA limit. */
#define SG_PTX_TEXT_MAX (256u << 20) /* the largest PTX seen in a real library is 11 MB */
#define SG_MAX_PARAM_BYTES 32764     /* CUDA: kernel parameters, sm_70 and later */
#define SG_DIAG_MAX 512

/* Why something was refused: always filled when a function here does not return 0. */
struct sg_diag {
    uint32_t line; /* 1-based line of the PTX text, 0: none */
    uint32_t column;
    char message[SG_DIAG_MAX]; /* NUL-terminated, one line, names the symbol or opcode */
};

struct sg_texture; /* sg_tex.h */
struct sg_module; /* a parsed PTX text: kernels are indexed, bodies decoded at first use */
struct sg_kernel; /* owned by its module */

struct sg_param {
    uint32_t offset; /* bytes from the start of the parameter buffer */
    uint32_t size;   /* bytes */
};

struct sg_kernel_info {
    const char *name; /* mangled name, owned by the module */
    uint32_t nparams;
    const struct sg_param *params;
    uint32_t param_bytes;  /* total size of the parameter buffer */
    uint32_t static_shared; /* bytes of .shared declared (excludes extern arrays) */
    uint32_t local_bytes;   /* per thread */
    uint32_t max_threads;   /* from .maxntid / .reqntid, else 1024 */
    uint32_t reqntid[3];    /* 0,0,0 when absent */
    uint32_t num_regs;      /* a sane report, 1..255 */
    uint32_t ptx_target;    /* e.g. 80 for .target sm_80 */
    uint32_t ptx_version;   /* e.g. 90 for .version 9.0 */
    bool launches;          /* uses the device runtime (CUDA Dynamic Parallelism) */
};

struct sg_global_info {
    const char *name;
    uint64_t size;  /* bytes; 0 for an unsized extern */
    uint32_t align; /* bytes, power of two */
    bool is_const;  /* .const space */
    bool is_managed; /* .attribute(.managed) */
    bool is_extern;
};

/*
 * Parses module-level structure of PTX text (copied; need not be NUL-terminated). Bodies are only
 * indexed. Returns a CUresult: 0, CUDA_ERROR_INVALID_PTX (218), CUDA_ERROR_UNSUPPORTED_PTX_VERSION
 * (222), CUDA_ERROR_NOT_SUPPORTED (801: clusters, 32-bit addresses, constant banks) or
 * CUDA_ERROR_OUT_OF_MEMORY (2); diag is filled on failure. *out is owned by the caller.
 */
int sg_module_parse(const char *text, size_t len, struct sg_module **out, struct sg_diag *diag);
/* One of the texts that are linked. */
struct sg_ptx_input {
    const char *text;
    size_t len;
    const char *name; /* for messages */
};
/*
 * Links PTX texts into one, which the caller frees: *text is NUL-terminated, *len without the NUL.
 * Returns 0, CUDA_ERROR_INVALID_PTX (syntax, a name that is defined twice) or
 * CUDA_ERROR_OUT_OF_MEMORY (also for more than SG_PTX_TEXT_MAX bytes). Names that nobody
 * defines are left: sg_module_parse() and the decoder say who uses them.
 */
int sg_ptx_link(const struct sg_ptx_input *in, uint32_t n, char **text, size_t *len,
                struct sg_diag *diag);
/* A function that is declared, not defined, and none of CUDA's own; NULL: there is none. */
const char *sg_module_undefined(const struct sg_module *m);
/*
 * The same for a cubin, of which only what it says about itself is used: sg_kernel_prepare() answers
 * CUDA_ERROR_NO_BINARY_FOR_GPU (209) for each kernel. has: what the image contained, for that
 * message. elf is not kept. 0, CUDA_ERROR_INVALID_IMAGE (200) or 2.
 */
int sg_sass_parse(const void *elf, size_t len, const char *has, struct sg_module **out,
                  struct sg_diag *diag);
/* No kernel is said to need more registers (CU_JIT_MAX_REGISTERS); a text can say so in a pragma, too. */
#define SG_PRAGMA_REGISTERS "vgpu max_registers "
void sg_module_limit_registers(struct sg_module *m, uint32_t most);
void sg_module_free(struct sg_module *m); /* no launch of it may be running */

uint32_t sg_module_kernel_count(const struct sg_module *m);
struct sg_kernel *sg_module_kernel(const struct sg_module *m, uint32_t i);
struct sg_kernel *sg_module_find_kernel(const struct sg_module *m, const char *name); /* or NULL */
/* Decodes the kernel when it was not yet: sizes of memory and registers come from its body. When
 * that fails they are 0 (16 registers), and sg_kernel_prepare() says why. */
void sg_kernel_get_info(const struct sg_kernel *k, struct sg_kernel_info *info);

uint32_t sg_module_global_count(const struct sg_module *m);
void sg_module_get_global(const struct sg_module *m, uint32_t i, struct sg_global_info *info);
/* Module-level .texref, .surfref and .samplerref variables: names of handles, not memory. */
enum sg_opaque_kind { SG_OPAQUE_TEXREF, SG_OPAQUE_SURFREF, SG_OPAQUE_SAMPLERREF };
uint32_t sg_module_opaque_count(const struct sg_module *m);
const char *sg_module_get_opaque(const struct sg_module *m, uint32_t i, enum sg_opaque_kind *kind);
/* The initialiser of a sampler variable (independent texture mode); without one: all zero, wrap. */
struct sg_sampler_init {
    int address[3];            /* numbers of CUaddress_mode */
    bool linear, unnormalized; /* filter_mode = linear, force_unnormalized_coords = 1 */
};
/* 0, or 218 with diag filled when the initialiser is not understood. */
int sg_module_get_sampler(const struct sg_module *m, uint32_t i, struct sg_sampler_init *out,
                          struct sg_diag *diag);
/* What kernels get as the handle; like global addresses, before the first launch. */
void sg_module_set_opaque_handle(struct sg_module *m, uint32_t i, uint64_t handle);
/*
 * The driver half allocates each global (device memory of at least info.size, aligned) and says
 * where it lies; sg_module_init_globals() then writes the initialisers (with symbol addresses
 * resolved). Call after every global has its address and before the first launch.
 */
void sg_module_set_global_address(struct sg_module *m, uint32_t i, uint64_t device_address);
int sg_module_init_globals(struct sg_module *m, struct sg_diag *diag);

/* Decodes one kernel now (else the first launch does): 0, 218, or CUDA_ERROR_NOT_SUPPORTED (801)
 * when an opcode is not one that the interpreter has (diag names it and its line). Thread-safe. */
int sg_kernel_prepare(struct sg_kernel *k, struct sg_diag *diag);

/* Called from many threads; each returns a cudaError_t, self the name of the graph or 0. */
struct sg_genv; /* a graph that runs: sg_gexec.h */
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
    uint32_t grid[3];  /* each >= 1; already validated against device limits */
    uint32_t block[3];
    uint32_t dynamic_shared;  /* bytes */
    uint32_t stack_bytes;     /* CU_LIMIT_STACK_SIZE, for recursive functions; 0: CUDA's default */
    const void *params;       /* info.param_bytes bytes, stable during the launch */
    void *mem;                /* passed to sg_mem_check() */
    bool cooperative;         /* all CTAs must make progress together */
    const struct sg_sms *sms; /* where it may run: %smid, and so many threads at most; NULL: anywhere */
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
    /* What device code asks about graphs; graph is passed on. NULL: there are none. */
    const struct sg_graph_ops *graphs;
    struct sg_genv *graph; /* the graph that the kernel is a node of, or NULL */
    /* CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT: kernels that one grid may launch, at most
     * SG_PENDING_LAUNCHES_MAX, which all grids below it may not exceed together; 0: CUDA's default */
    uint32_t pending_launches;
    struct sg_children *children; /* of the grid that runs; sg_exec_launch() sets it */
};

/* What ended a launch abnormally (a device-side error). */
struct sg_fault {
    int result; /* CUresult: 700 illegal address, 716 misaligned, 710 assert, 714 call
                 * stack overflow, 715 illegal
                 * instruction, 719 launch failed (trap, abort), 702 timeout, 718 invalid pc,
                 * 717 invalid address space, 801 opcode not available */
    uint32_t block[3], thread[3];
    uint32_t line;       /* PTX line */
    uint64_t address;    /* for 700/716 */
    uint32_t access_size;
    bool is_write;
    char space[8];       /* "global", "shared", "local", "param", "const" */
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
/* Reserves what a sandbox might forbid later (memory for native code). Optional. */
void sg_exec_prepare(void);
void sg_exec_set_threads(unsigned n); /* before the first launch; 0 = number of online CPUs */

/* ---- asked of the driver half (implemented in sg_mem.c, or by a unit test) ---- */

/* One allocation as seen by an executing thread: cached by the interpreter across accesses, valid
 * while generation equals *sg_mem_generation. */
struct sg_mem_range {
    uint64_t base, end; /* [base, end) */
    uint64_t generation;
    bool writable;
};
extern volatile uint64_t sg_mem_generation; /* changes when any allocation goes away */
/*
 * True when [addr, addr+size) lies inside one live allocation of this context that may be accessed
 * so; *hit then describes it. Lock-free or read-locked; called from many threads.
 */
bool sg_mem_check(void *mem, uint64_t addr, uint64_t size, bool write, struct sg_mem_range *hit);

#endif
