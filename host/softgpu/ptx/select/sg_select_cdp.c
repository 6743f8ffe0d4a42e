/* SPDX-License-Identifier: MIT */
/*
 * Kernels that launch kernels (CUDA C++ Programming Guide, CUDA Dynamic Parallelism, "Device
 * Runtime"): the functions called by code of nvcc 12 and later. NVIDIA's implementation is in
 * libcudadevrt, as machine code.
 */
#include "ptx/decode.h"

#include <string.h>

#define NONE SG_OPND_NONE

static uint32_t pack_pair(struct sg_dec *d, uint32_t lo, uint32_t hi)
{
    uint32_t r = sg_temp(d, SG_TY_U64);

    sg_emit(d, SG_OP_mov_pack_2x32, r, lo, hi, NONE);
    return r;
}

/* The first n numbers of type t of a struct, which is passed by value. */
static void load_struct(struct sg_dec *d, const struct sg_opnd *o, enum sg_type t, uint32_t n, uint32_t *out)
{
    const uint32_t size = sg_type_size(t);

    if (o->kind != SG_O_SYM || o->symkind != SG_K_LOCAL || d->lvars[o->v].shared ||
        d->lvars[o->v].size < n * size) {
        sg_dec_syntax(d, "call: a struct of %u bytes expected", n * size);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        out[i] = sg_temp(d, t);
        sg_ldst_local(d, false, t, out[i], d->lvars[o->v].offset + size * i);
    }
}

/* cudaGetParameterBufferV2(kernel, grid, block, bytes of shared memory) */
static int get_buffer(struct sg_dec *d, const struct sg_call *c)
{
    uint32_t grid[3] = {NONE, NONE, NONE}, block[3] = {NONE, NONE, NONE};
    uint32_t f[5], r;

    load_struct(d, &c->args[1], SG_TY_U32, 3, grid);
    load_struct(d, &c->args[2], SG_TY_U32, 3, block);
    if (d->err)
        return d->err;
    f[0] = sg_temp(d, SG_TY_U64);
    f[1] = sg_call_arg(d, &c->args[0], SG_TY_U64);
    f[2] = pack_pair(d, grid[0], grid[1]);
    f[3] = pack_pair(d, grid[2], block[0]);
    f[4] = pack_pair(d, block[1], block[2]);
    sg_emit_x(d, SG_OP_cdp_buffer, f, SG_F_D, SG_F_A | SG_F_B | SG_F_C | SG_F_E);
    /* The call has more operands than an instruction: a second instruction holds the size, and checks. */
    r = sg_temp(d, SG_TY_U64);
    sg_emit(d, SG_OP_cdp_shared, r, f[0], sg_call_arg(d, &c->args[3], SG_TY_U32), NONE);
    return d->err ? d->err : sg_call_ret(d, &c->rets[0], SG_TY_U64, r);
}

/*
 * cudaMemcpyAsync(to, from, bytes, kind, stream): there is only one memory, so the kind is ignored;
 * cudaMemsetAsync(to, value, bytes, stream)
 */
static int queue_memory(struct sg_dec *d, const struct sg_call *c, bool copy)
{
    uint32_t f[5];

    f[0] = sg_temp(d, SG_TY_U32);
    f[1] = sg_call_arg(d, &c->args[0], SG_TY_U64);
    f[2] = sg_call_arg(d, &c->args[1], copy ? SG_TY_U64 : SG_TY_U32);
    f[3] = sg_call_arg(d, &c->args[2], SG_TY_U64);
    f[4] = sg_call_arg(d, &c->args[copy ? 4 : 3], SG_TY_U64);
    sg_emit_x(d, copy ? SG_OP_cdp_memcpy : SG_OP_cdp_memset, f, SG_F_D, SG_F_A | SG_F_B | SG_F_C | SG_F_E);
    return d->err ? d->err : sg_call_ret(d, &c->rets[0], SG_TY_U32, f[0]);
}

/* NAME([64 bits[, BITS]]) that returns a cudaError_t */
static int call_2(struct sg_dec *d, enum sg_op op, const struct sg_call *c, enum sg_type second)
{
    uint32_t r = sg_temp(d, SG_TY_U32), a, b;

    a = c->nargs > 0 ? sg_call_arg(d, &c->args[0], SG_TY_U64) : NONE;
    b = c->nargs > 1 ? sg_call_arg(d, &c->args[1], second) : NONE;
    sg_emit(d, op, r, a, b, NONE);
    return d->err ? d->err : sg_call_ret(d, &c->rets[0], SG_TY_U32, r);
}

/* nvcc --default-stream per-thread calls NAME_ptsz: the same here, as streams make no difference. */
static bool is_named(const char *name, const char *want)
{
    const size_t n = strlen(want);

    return !strncmp(name, want, n) && (!name[n] || !strcmp(name + n, "_ptsz"));
}

/* cudaMemcpy2DAsync(to, pitch, from, pitch, width, height, kind, stream);
   cudaMemset2DAsync(to, pitch, value, width, height, stream) */
static int queue_rows(struct sg_dec *d, const struct sg_call *c, bool copy)
{
    const uint32_t rows = copy ? 4 : 3;
    uint32_t f[5];

    f[0] = sg_temp(d, SG_TY_U64);
    f[1] = sg_call_arg(d, &c->args[0], SG_TY_U64);
    f[2] = sg_call_arg(d, &c->args[1], SG_TY_U64);
    f[3] = sg_call_arg(d, &c->args[2], copy ? SG_TY_U64 : SG_TY_U32);
    f[4] = copy ? sg_call_arg(d, &c->args[3], SG_TY_U64) : NONE;
    sg_emit_x(d, copy ? SG_OP_cdp_copy_rows : SG_OP_cdp_set_rows, f, SG_F_D,
              SG_F_A | SG_F_B | SG_F_C | (copy ? SG_F_E : 0));
    f[1] = f[0];
    f[0] = sg_temp(d, SG_TY_U32);
    f[2] = sg_call_arg(d, &c->args[rows], SG_TY_U64);
    f[3] = sg_call_arg(d, &c->args[rows + 1], SG_TY_U64);
    f[4] = sg_call_arg(d, &c->args[copy ? 7 : 5], SG_TY_U64);
    sg_emit_x(d, SG_OP_cdp_rows, f, SG_F_D, SG_F_A | SG_F_B | SG_F_C | SG_F_E);
    return d->err ? d->err : sg_call_ret(d, &c->rets[0], SG_TY_U32, f[0]);
}

/* cudaMemset3DAsync(cudaPitchedPtr, value, cudaExtent, stream) */
static int queue_set_box(struct sg_dec *d, const struct sg_call *c)
{
    uint32_t to[4] = {NONE, NONE, NONE, NONE}, extent[3] = {NONE, NONE, NONE}, f[5], child;

    load_struct(d, &c->args[0], SG_TY_U64, 4, to); /* pointer, pitch, width, rows of a slice */
    load_struct(d, &c->args[2], SG_TY_U64, 3, extent);
    if (d->err)
        return d->err;
    child = sg_temp(d, SG_TY_U64);
    sg_emit(d, SG_OP_cdp_set_rows, child, to[0], to[1], sg_call_arg(d, &c->args[1], SG_TY_U32));
    sg_emit(d, SG_OP_cdp_slices, NONE, child, to[3], extent[2]);
    f[0] = sg_temp(d, SG_TY_U32);
    f[1] = child;
    f[2] = extent[0];
    f[3] = extent[1];
    f[4] = sg_call_arg(d, &c->args[3], SG_TY_U64);
    sg_emit_x(d, SG_OP_cdp_rows, f, SG_F_D, SG_F_A | SG_F_B | SG_F_C | SG_F_E);
    return d->err ? d->err : sg_call_ret(d, &c->rets[0], SG_TY_U32, f[0]);
}

/* Queries: each writes through the pointer that comes first. */
static const struct {
    const char *name;
    enum sg_op op;
    uint32_t nargs;
    uint32_t used;
    enum sg_type type[4]; /* of the arguments that are used */
} queries[] = {
    {"GetDevice", SG_OP_cdp_device, 1, 1, {SG_TY_U64}},
    {"GetDeviceCount", SG_OP_cdp_devices, 1, 1, {SG_TY_U64}},
    {"RuntimeGetVersion", SG_OP_cdp_version, 1, 1, {SG_TY_U64}},
    {"DeviceGetAttribute", SG_OP_cdp_attribute, 3, 3, {SG_TY_U64, SG_TY_U32, SG_TY_U32}},
    {"DeviceGetLimit", SG_OP_cdp_limit, 2, 2, {SG_TY_U64, SG_TY_U32}},
    {"DeviceGetCacheConfig", SG_OP_cdp_cache_config, 1, 1, {SG_TY_U64}},
    {"DeviceGetSharedMemConfig", SG_OP_cdp_bank_config, 1, 1, {SG_TY_U64}},
    {"FuncGetAttributes", SG_OP_cdp_function, 2, 2, {SG_TY_U64, SG_TY_U64}},
    {"OccupancyMaxActiveBlocksPerMultiprocessor",
     SG_OP_cdp_occupancy,
     4,
     4,
     {SG_TY_U64, SG_TY_U64, SG_TY_U32, SG_TY_U64}},
    /* cudaOccupancyDisableCachingOverride makes no difference: nothing is cached. */
    {"OccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
     SG_OP_cdp_occupancy,
     5,
     4,
     {SG_TY_U64, SG_TY_U64, SG_TY_U32, SG_TY_U64}},
};

static bool call_query(struct sg_dec *d, const char *name, const struct sg_call *c)
{
    static const uint32_t field[] = {0, SG_F_A, SG_F_B, SG_F_C, SG_F_E};

    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
        uint32_t f[5] = {NONE, NONE, NONE, NONE, NONE}, used = 0;

        if (!is_named(name, queries[i].name) || c->nargs != queries[i].nargs)
            continue;
        f[0] = sg_temp(d, SG_TY_U32);
        for (uint32_t k = 0; k < queries[i].used; k++) {
            f[k + 1] = sg_call_arg(d, &c->args[k], queries[i].type[k]);
            used |= field[k + 1];
        }
        sg_emit_x(d, queries[i].op, f, SG_F_D, used);
        if (!d->err)
            sg_call_ret(d, &c->rets[0], SG_TY_U32, f[0]);
        return true;
    }
    return false;
}

static const struct {
    const char *name;
    enum sg_op op;
    uint32_t nargs;
    enum sg_type second;
} calls[] = {
    {"LaunchDeviceV2", SG_OP_cdp_launch, 2, SG_TY_U64},
    {"Memcpy3DAsync", SG_OP_cdp_copy_box, 2, SG_TY_U64},
    {"Malloc", SG_OP_cdp_malloc, 2, SG_TY_U64},
    {"Free", SG_OP_cdp_free, 1, SG_TY_NONE},
    {"StreamCreateWithFlags", SG_OP_cdp_stream, 2, SG_TY_U32},
    {"StreamDestroy", SG_OP_cdp_stream_end, 1, SG_TY_NONE},
    {"GetLastError", SG_OP_cdp_error, 0, SG_TY_NONE},
    {"PeekAtLastError", SG_OP_cdp_error_peek, 0, SG_TY_NONE},
    {"EventCreateWithFlags", SG_OP_cdp_stream, 2, SG_TY_U32},
    {"EventDestroy", SG_OP_cdp_stream_end, 1, SG_TY_NONE},
};

/*
 * Children run one after the other in the order of their launches, so an event has happened when
 * something waits for it: only its handle is checked.
 */
static const struct {
    const char *name;
    uint32_t nargs, event;
} event_calls[] = {
    {"EventRecord", 2, 0},
    {"EventRecordWithFlags", 3, 0},
    {"StreamWaitEvent", 3, 1},
};

static int call_event(struct sg_dec *d, const struct sg_call *c, uint32_t event)
{
    uint32_t r = sg_temp(d, SG_TY_U32);

    sg_emit(d, SG_OP_cdp_stream_end, r, sg_call_arg(d, &c->args[event], SG_TY_U64), NONE, NONE);
    return d->err ? d->err : sg_call_ret(d, &c->rets[0], SG_TY_U32, r);
}

#define PREFIX "__cudaCDP2"

bool sg_call_cdp(struct sg_dec *d, const char *name, const struct sg_call *c)
{
    if (c->nrets != 1)
        return false;
    if (!strncmp(name, PREFIX, strlen(PREFIX)))
        name += strlen(PREFIX);
    /* Function names of the guide's "Device-Side Launch from PTX"; compilers add the prefix. */
    else if (!strcmp(name, "cudaGetParameterBufferV2") || !strcmp(name, "cudaLaunchDeviceV2"))
        name += strlen("cuda");
    else
        return false;
    d->code->launches = true;
    if (!strcmp(name, "GetParameterBufferV2") && c->nargs == 4) {
        get_buffer(d, c);
        return true;
    }
    if ((is_named(name, "MemcpyAsync") && c->nargs == 5) ||
        (is_named(name, "MemsetAsync") && c->nargs == 4)) {
        queue_memory(d, c, name[3] == 'c');
        return true;
    }
    if ((is_named(name, "Memcpy2DAsync") && c->nargs == 8) ||
        (is_named(name, "Memset2DAsync") && c->nargs == 6)) {
        queue_rows(d, c, name[3] == 'c');
        return true;
    }
    if (is_named(name, "Memset3DAsync") && c->nargs == 4) {
        queue_set_box(d, c);
        return true;
    }
    if (call_query(d, name, c))
        return true;
    if ((!strcmp(name, "GetErrorString") || !strcmp(name, "GetErrorName")) && c->nargs == 1) {
        uint32_t r = sg_temp(d, SG_TY_U64);

        sg_emit(d, name[8] == 'S' ? SG_OP_cdp_error_string : SG_OP_cdp_error_name, r,
                sg_call_arg(d, &c->args[0], SG_TY_U32), NONE, NONE);
        if (!d->err)
            sg_call_ret(d, &c->rets[0], SG_TY_U64, r);
        return true;
    }
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (is_named(name, calls[i].name) && c->nargs == calls[i].nargs) {
            call_2(d, calls[i].op, c, calls[i].second);
            return true;
        }
    }
    for (size_t i = 0; i < sizeof(event_calls) / sizeof(event_calls[0]); i++) {
        if (is_named(name, event_calls[i].name) && c->nargs == event_calls[i].nargs) {
            call_event(d, c, event_calls[i].event);
            return true;
        }
    }
    return false;
}
