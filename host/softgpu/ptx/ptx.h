/* SPDX-License-Identifier: MIT */
/*
 * The PTX front end: turns a text, or the metadata of a cubin, into a module whose kernels are
 * decoded at first use. Texts come from an untrusted guest; none of their content is asserted on.
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
 * Parses the module-level structure of PTX text (copied; need not be NUL-terminated). Bodies are
 * only indexed. Returns a CUresult: 0, CUDA_ERROR_INVALID_PTX (218),
 * CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222), CUDA_ERROR_NOT_SUPPORTED (801: 32-bit addresses,
 * constant banks) or CUDA_ERROR_OUT_OF_MEMORY (2); diag is filled on failure. The caller owns *out.
 */
int sg_module_parse(const char *text, size_t len, struct sg_module **out, struct sg_diag *diag);
/* True if the text begins with .version, after blanks and comments. Only such text is treated as
   PTX. */
bool sg_ptx_begins(const char *text, size_t n);
/* NN of the text's .target sm_NN; 0: not found, for which the parser reports the reason. text
   must be NUL-terminated. */
uint32_t sg_ptx_target(const char *text, size_t n);
/* An input of the linker. */
struct sg_ptx_input {
    const char *text;
    size_t len;
    const char *name; /* name in messages */
    /* link it only if it has a kernel or variable with linkage, or defines a name missing
       elsewhere */
    bool optional;
};
/*
 * Links PTX texts into one text, which the caller frees: *text is NUL-terminated, *len excludes the
 * NUL. Returns 0, CUDA_ERROR_INVALID_PTX (syntax, a name that is defined twice),
 * CUDA_ERROR_NO_BINARY_FOR_GPU (only optional texts, none of them needed) or
 * CUDA_ERROR_OUT_OF_MEMORY (also for more than SG_PTX_TEXT_MAX bytes). Undefined names are kept:
 * sg_module_parse() and the decoder report their users.
 */
int sg_ptx_link(const struct sg_ptx_input *in, uint32_t n, char **text, size_t *len, struct sg_diag *diag);

#define SG_SOURCE_MAX 320 /* sufficient size of a source location, bytes */
/*
 * The source location of a line of the module's text, as "FILE:LINE" or "FILE:LINE, inlined at
 * FILE:LINE", truncated to room bytes. Returns false if the text has no line information for it.
 */
bool sg_module_source(const struct sg_module *m, uint32_t line, char *to, size_t room);
/* The end of the message of a kernel that calls a function which is declared only: CUDA_ERROR_NOT_SUPPORTED. */
#define SG_NO_BODY "the function has no body in this module"
/* A function that is declared but not defined, and not provided by CUDA. NULL: none. */
const char *sg_module_undefined(const struct sg_module *m);
/*
 * The same for a cubin, of which only the metadata is used: sg_kernel_prepare() returns
 * CUDA_ERROR_NO_BINARY_FOR_GPU (209) for each kernel. has: summary of the image's contents, for
 * that message. elf is not kept. 0, CUDA_ERROR_INVALID_IMAGE (200) or 2.
 */
int sg_sass_parse(const void *elf, size_t len, const char *has, struct sg_module **out, struct sg_diag *diag);
/* Upper limit for the reported registers of kernels (CU_JIT_MAX_REGISTERS); a text can set it
   with a pragma, too. */
#define SG_PRAGMA_REGISTERS "vgpu max_registers "
void sg_module_limit_registers(struct sg_module *m, uint32_t most);
void sg_module_free(struct sg_module *m); /* no launch of its kernels may be running */

uint32_t sg_module_kernel_count(const struct sg_module *m);
struct sg_kernel *sg_module_kernel(const struct sg_module *m, uint32_t i);
struct sg_kernel *sg_module_find_kernel(const struct sg_module *m, const char *name); /* or NULL */
/* Its index, as sg_module_kernel() takes it; UINT32_MAX: none. */
uint32_t sg_module_kernel_index(const struct sg_module *m, const char *name);
/* Decodes the kernel if that has not been done: memory and register sizes come from its body. If
   decoding fails they are 0 (16 registers), and sg_kernel_prepare() returns the reason. */
void sg_kernel_get_info(const struct sg_kernel *k, struct sg_kernel_info *info);

uint32_t sg_module_global_count(const struct sg_module *m);
void sg_module_get_global(const struct sg_module *m, uint32_t i, struct sg_global_info *info);

/* Module-level .texref, .surfref and .samplerref variables, which name handles, not memory. */
uint32_t sg_module_opaque_count(const struct sg_module *m);
const char *sg_module_get_opaque(const struct sg_module *m, uint32_t i, enum sg_opaque_kind *kind);
/* The initialiser of a sampler variable (independent texture mode); default: all zero, wrap. */
struct sg_sampler_init {
    int address[3];            /* values of CUaddress_mode */
    bool linear, unnormalized; /* filter_mode = linear, force_unnormalized_coords = 1 */
};
/* 0, or 218 with diag filled if the initialiser is not understood. */
int sg_module_get_sampler(const struct sg_module *m, uint32_t i, struct sg_sampler_init *out,
                          struct sg_diag *diag);
/* Sets the handle seen by kernels; as for global addresses, call before the first launch. */
void sg_module_set_opaque_handle(struct sg_module *m, uint32_t i, uint64_t handle);
/*
 * The driver half allocates each global (device memory of at least info.size, aligned) and sets its
 * address here; sg_module_init_globals() then writes the initialisers, with symbol addresses
 * resolved. Call it after every global has its address and before the first launch.
 */
void sg_module_set_global_address(struct sg_module *m, uint32_t i, uint64_t device_address);
int sg_module_init_globals(struct sg_module *m, struct sg_diag *diag);

/* Decodes a kernel now; otherwise its first launch does. 0, 218, or CUDA_ERROR_NOT_SUPPORTED
   (801) if the interpreter lacks an opcode (diag names it and its line). Thread-safe. */
int sg_kernel_prepare(struct sg_kernel *k, struct sg_diag *diag);
/*
 * The code of a prepared kernel to run blocks of that size, with native code if there is any; valid
 * as long as the kernel. Thread-safe.
 */
const struct sg_code *sg_kernel_code(struct sg_kernel *k, const uint32_t block[3]);
/* True if text starts with the name of a PTX instruction (ptx/sg_ptx_opcodes.c). */
bool sg_is_opcode(const char *text);

#endif
