/* SPDX-License-Identifier: MIT */
/*
 * The PTX front end: a text (or what a cubin says about itself) becomes a module, whose kernels are decoded at
 * first use. Everything in a text comes from an untrusted guest; nothing in it is asserted on.
 */
#ifndef SG_PTX_H
#define SG_PTX_H

#include "exec/exec.h"

struct sg_global_info {
    const char *name;
    uint64_t size;   /* bytes; 0 for an unsized extern */
    uint32_t align;  /* bytes, power of two */
    bool is_const;   /* .const space */
    bool is_managed; /* .attribute(.managed) */
    bool is_extern;
};

/*
 * Parses module-level structure of PTX text (copied; need not be NUL-terminated). Bodies are only
 * indexed. Returns a CUresult: 0, CUDA_ERROR_INVALID_PTX (218), CUDA_ERROR_UNSUPPORTED_PTX_VERSION
 * (222), CUDA_ERROR_NOT_SUPPORTED (801: 32-bit addresses, constant banks) or
 * CUDA_ERROR_OUT_OF_MEMORY (2); diag is filled on failure. *out is owned by the caller.
 */
int sg_module_parse(const char *text, size_t len, struct sg_module **out, struct sg_diag *diag);
/* Does the text begin with .version, blanks and comments apart? Nothing else is taken for PTX. */
bool sg_ptx_begins(const char *text, size_t n);
/* NN of the text's .target sm_NN; 0: none is found, of which the parser says more. text ends with a NUL. */
uint32_t sg_ptx_target(const char *text, size_t n);
/* One of the texts that are linked. */
struct sg_ptx_input {
    const char *text;
    size_t len;
    const char *name; /* for messages */
    bool optional; /* linked only if it has a kernel or variable with linkage, or a name that another lacks */
};
/*
 * Links PTX texts into one, which the caller frees: *text is NUL-terminated, *len without the NUL.
 * Returns 0, CUDA_ERROR_INVALID_PTX (syntax, a name that is defined twice), CUDA_ERROR_NO_BINARY_FOR_GPU (optional texts
 * alone, of which nothing is needed) or CUDA_ERROR_OUT_OF_MEMORY (also for more than SG_PTX_TEXT_MAX bytes). Names that nobody
 * defines are left: sg_module_parse() and the decoder say who uses them.
 */
int sg_ptx_link(const struct sg_ptx_input *in, uint32_t n, char **text, size_t *len, struct sg_diag *diag);

#define SG_SOURCE_MAX 320 /* bytes of a source's place that are enough */
/*
 * The place in the source that a line of the module's text is of, as "FILE:LINE" or "FILE:LINE, inlined at FILE:LINE", cut
 * to room bytes. False: the text does not say (it has no line information).
 */
bool sg_module_source(const struct sg_module *m, uint32_t line, char *to, size_t room);
/* A function that is declared, not defined, and none of CUDA's own; NULL: there is none. */
const char *sg_module_undefined(const struct sg_module *m);
/*
 * The same for a cubin, of which only what it says about itself is used: sg_kernel_prepare() answers
 * CUDA_ERROR_NO_BINARY_FOR_GPU (209) for each kernel. has: what the image contained, for that
 * message. elf is not kept. 0, CUDA_ERROR_INVALID_IMAGE (200) or 2.
 */
int sg_sass_parse(const void *elf, size_t len, const char *has, struct sg_module **out, struct sg_diag *diag);
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
/* Whether text starts with the name of a PTX instruction (ptx/opcodes.c). */
bool sg_is_opcode(const char *text);

#endif
