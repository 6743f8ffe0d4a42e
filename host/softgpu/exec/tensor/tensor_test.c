/* SPDX-License-Identifier: MIT */
/*
 * Tensor copies against a model of their own: element by element, with the tables of the PTX ISA in place of
 * bits of addresses. Refusals; maps that a hostile kernel has written.
 */
#include "exec/code.h"
#include "exec/exec_test.h"
#include "memory/tensor_map.h"

#include <stdlib.h>
#include <string.h>

#define SHARED 16384 /* bytes of the box's array in shared memory */
#define TENSOR 65536

static const uint8_t sizes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};

/* What the kernel is given, and what it leaves: the contents of shared memory, coordinates, bytes expected. */
struct io {
    uint8_t shared[SHARED];
    int32_t at[5];
    uint16_t offset[4];
    uint32_t pad, expected, complete;
};

static struct io *io;
static uint8_t *tensor, *before;

#define TEXT \
    ".version %s\n.target %s\n.address_size 64\n" \
    ".visible .entry t(.param .align 128 .b8 m[128], .param .u64 p)\n{\n" \
    ".reg .pred %%p<4>;\n.reg .b16 %%h<4>;\n.reg .b32 %%r<20>;\n.reg .b32 %%x<5>;\n.reg .b64 %%rd<10>;\n" \
    ".shared .align 1024 .b8 sh[16384];\n.shared .align 8 .b64 bar;\n" \
    "ld.param.u64 %%rd1, [p];\nmov.b64 %%rd2, m;\ncvta.param.u64 %%rd2, %%rd2;\n" \
    "mov.u32 %%r1, sh;\nmov.u32 %%r2, bar;\n" \
    "ld.global.b32 %%x0, [%%rd1+16384];\nld.global.b32 %%x1, [%%rd1+16388];\n" \
    "ld.global.b32 %%x2, [%%rd1+16392];\nld.global.b32 %%x3, [%%rd1+16396];\n" \
    "ld.global.b32 %%x4, [%%rd1+16400];\nld.global.b16 %%h0, [%%rd1+16404];\n" \
    "ld.global.b16 %%h1, [%%rd1+16406];\nld.global.b16 %%h2, [%%rd1+16408];\n" \
    "mov.u32 %%r3, 0;\nA: cvt.u64.u32 %%rd3, %%r3;\nadd.u64 %%rd3, %%rd3, %%rd1;\n" \
    "ld.global.v4.u32 {%%r4, %%r5, %%r6, %%r7}, [%%rd3];\nadd.u32 %%r8, %%r1, %%r3;\n" \
    "st.shared.v4.u32 [%%r8], {%%r4, %%r5, %%r6, %%r7};\nadd.u32 %%r3, %%r3, 16;\n" \
    "setp.lt.u32 %%p1, %%r3, 16384;\n@%%p1 bra A;\n" \
    "mbarrier.init.shared::cta.b64 [%%r2], 1;\nld.global.u32 %%r9, [%%rd1+16416];\n" \
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%r2], %%r9;\n%s\n" \
    "mbarrier.test_wait.parity.shared::cta.b64 %%p2, [%%r2], 0;\nselp.u32 %%r10, 1, 0, %%p2;\n" \
    "st.global.u32 [%%rd1+16420], %%r10;\n" \
    "mov.u32 %%r3, 0;\nB: cvt.u64.u32 %%rd3, %%r3;\nadd.u64 %%rd3, %%rd3, %%rd1;\nadd.u32 %%r8, %%r1, %%r3;\n" \
    "ld.shared.v4.u32 {%%r4, %%r5, %%r6, %%r7}, [%%r8];\n" \
    "st.global.v4.u32 [%%rd3], {%%r4, %%r5, %%r6, %%r7};\nadd.u32 %%r3, %%r3, 16;\n" \
    "setp.lt.u32 %%p1, %%r3, 16384;\n@%%p1 bra B;\nret;\n}\n"

#define LOAD "mbarrier::complete_tx::bytes [%r1], [%rd2, {"

struct params {
    struct sg_tensor_map map;
    void *io;
};

static struct tk opened;

static bool open_kernel(const char *target, const char *body)
{
    static char text[8192];

    snprintf(text, sizeof(text), TEXT, strcmp(target, "sm_90") ? "8.6" : "8.3", target, body);
    if (tk_open(&opened, text, "t"))
        return true;
    sg_module_free(opened.m);
    return false;
}

static int run_opened(const struct sg_tensor_map *map, struct sg_fault *f)
{
    struct params p = {*map, io};

    memset(f, 0, sizeof(*f));
    return tk_run(&opened, 1, 1, &p, f);
}

static int run(const struct sg_tensor_map *map, const char *target, const char *body, struct sg_fault *f)
{
    int r = -1;

    memset(f, 0, sizeof(*f));
    if (!open_kernel(target, body)) {
        snprintf(f->message, sizeof(f->message), "%s", opened.diag.message);
        return r;
    }
    r = run_opened(map, f);
    tk_close(&opened);
    return r;
}

/* ---- the model ---- */

/* Where the PTX ISA's tables put byte `at` of a box that begins at a multiple of 1024. */
static uint32_t model_place(const struct sg_tensor_map *m, uint32_t at)
{
    const uint32_t line = at / 128, inside = at % 16;
    uint32_t chunk = at / 16 % 8, flip = 0;

    if (m->swizzle == SG_TMAP_SWIZZLE_32B)
        chunk = chunk / 2 * 2 + (chunk + line) % 2;
    else if (m->swizzle == SG_TMAP_SWIZZLE_64B)
        chunk = chunk / 4 * 4 + ((chunk % 4) ^ (line % 4));
    else if (m->swizzle == SG_TMAP_SWIZZLE_128B && m->atom == SG_TMAP_ATOM_16B)
        chunk ^= line % 8;
    else if (m->swizzle == SG_TMAP_SWIZZLE_128B && m->atom == SG_TMAP_ATOM_64B)
        chunk = (chunk + 4 * (line % 2)) % 8;
    else if (m->swizzle == SG_TMAP_SWIZZLE_128B)
        chunk = ((chunk / 2) ^ (line % 4)) * 2 + chunk % 2;
    if (m->swizzle == SG_TMAP_SWIZZLE_128B && m->atom == SG_TMAP_ATOM_32B_FLIP_8B && line % 2)
        flip = 8;
    return line * 128 + chunk * 16 + (inside ^ flip);
}

/* The element's place in the tensor's bytes, or -1. */
static int64_t model_element(const struct sg_tensor_map *m, const int64_t at[5])
{
    int64_t place = at[0] * sizes[m->type];

    for (uint32_t i = 0; i < m->rank; i++) {
        if (at[i] < 0 || at[i] >= (int64_t)m->dim[i])
            return -1;
        if (i)
            place += at[i] * (int64_t)m->stride[i - 1];
    }
    return place;
}

/* The coordinates of element k of the box. */
static void model_coordinates(const struct sg_tensor_map *m, bool four, uint32_t k, int64_t at[5])
{
    memset(at, 0, 5 * sizeof(*at));
    if (m->form == SG_TMAP_IM2COL) {
        int64_t pixel = k / m->channels, scale = 1;

        /* the pixels of the bounding box, numbered; then those of the next image */
        for (uint32_t i = 1; i + 1 < m->rank; i++) {
            const int64_t n = ((int64_t)m->dim[i] - 1 + m->upper[i - 1] - m->lower[i - 1]) / m->step[i] + 1;

            pixel += (io->at[i] - m->lower[i - 1]) / m->step[i] * scale;
            scale *= n;
        }
        for (uint32_t i = 1; i + 1 < m->rank; i++) {
            const int64_t n = ((int64_t)m->dim[i] - 1 + m->upper[i - 1] - m->lower[i - 1]) / m->step[i] + 1;

            at[i] = m->lower[i - 1] + pixel % n * m->step[i] + io->offset[i - 1];
            pixel /= n;
        }
        at[m->rank - 1] = io->at[m->rank - 1] + pixel;
        at[0] = io->at[0] + k % m->channels;
        return;
    }
    if (four) {
        at[0] = io->at[0] + k % m->box[0];
        at[1] = io->at[1 + k / m->box[0]];
        return;
    }
    for (uint32_t i = 0; i < m->rank; i++) {
        const uint32_t step = i ? m->step[i] : 1, n = (m->box[i] + step - 1) / step;

        at[i] = io->at[i] + (int64_t)(k % n) * step;
        k /= n;
    }
}

static uint32_t model_elements(const struct sg_tensor_map *m, bool four)
{
    uint32_t n = m->box[0] * (four ? 4u : 1u);

    if (m->form == SG_TMAP_IM2COL)
        return (uint32_t)m->channels * m->pixels;
    for (uint32_t i = 1; i < m->rank; i++)
        n *= ((uint32_t)m->box[i] + m->step[i] - 1) / m->step[i];
    return n;
}

static void new_contents(void)
{
    for (uint32_t k = 0; k < TENSOR; k++)
        before[k] = tensor[k] = (uint8_t)(rand() >> 7);
    for (uint32_t k = 0; k < SHARED; k++)
        io->shared[k] = (uint8_t)(rand() >> 7);
}

/* ---- loads and stores ---- */

struct copy {
    const char *name, *target;
    const char *load, *store; /* without the operands */
    struct sg_tensor_map map;
    int32_t at[5];
    uint16_t offset[3];
    bool four;
};

static void operands(char *body, size_t n, const struct copy *c, bool load)
{
    static const char *const coordinates[] =
        {"", "%x0", "%x0, %x1", "%x0, %x1, %x2", "%x0, %x1, %x2, %x3", "%x0, %x1, %x2, %x3, %x4"},
                             *const offsets[] = {"", ", {%h0}", ", {%h0, %h1}", ", {%h0, %h1, %h2}"};
    const char *at = coordinates[c->four ? 5 : c->map.rank];

    if (load)
        snprintf(body, n, "%s.mbarrier::complete_tx::bytes [%%r1], [%%rd2, {%s}], [%%r2]%s;", c->load, at,
                 c->map.form == SG_TMAP_IM2COL ? offsets[c->map.rank - 2] : "");
    else
        snprintf(body, n, "%s.bulk_group [%%rd2, {%s}], [%%r1];", c->store, at);
}

static void set_map(struct sg_tensor_map *m, const struct copy *c)
{
    *m = c->map;
    m->magic = SG_TMAP_MAGIC;
    m->version = SG_TMAP_VERSION;
    m->address = (uintptr_t)tensor;
    for (int i = 0; i < 5; i++)
        m->step[i] = m->step[i] ? m->step[i] : 1;
    memcpy(io->at, c->at, sizeof(io->at));
    memcpy(io->offset, c->offset, sizeof(c->offset));
}

static void check_load(const struct copy *c)
{
    static uint8_t want[SHARED];
    struct sg_tensor_map m;
    struct sg_fault f;
    uint32_t n, bad = 0;
    char body[512];
    int r;

    new_contents();
    set_map(&m, c);
    n = model_elements(&m, c->four);
    io->expected = n * sizes[m.type];
    memcpy(want, io->shared, SHARED);
    for (uint32_t k = 0; k < n; k++) {
        int64_t at[5], from;

        model_coordinates(&m, c->four, k, at);
        from = model_element(&m, at);
        for (uint32_t b = 0; b < sizes[m.type]; b++)
            want[model_place(&m, k * sizes[m.type] + b)] = from >= 0 ? tensor[from + b]
                                                           : m.fill  ? (uint8_t)(b % 2 ? 0x7f : 0xf7)
                                                                     : 0;
    }
    operands(body, sizeof(body), c, true);
    r = run(&m, c->target, body, &f);
    for (uint32_t k = 0; k < SHARED && !bad; k++)
        bad = io->shared[k] != want[k] ? k + 1 : 0;
    t_result(c->name, !r && !bad && io->complete == 1 && !memcmp(tensor, before, TENSOR),
             "load: %d %s; byte %u, complete %u", r, f.message, bad, io->complete);
}

static void check_store(const struct copy *c)
{
    struct sg_tensor_map m;
    struct sg_fault f;
    uint32_t n, bad = 0;
    char body[512];
    int r;

    new_contents();
    set_map(&m, c);
    memset(io->offset, 0, sizeof(io->offset));
    n = model_elements(&m, c->four);
    io->expected = 0;
    for (uint32_t k = 0; k < n; k++) {
        int64_t at[5], to;

        model_coordinates(&m, c->four, k, at);
        to = model_element(&m, at);
        for (uint32_t b = 0; to >= 0 && b < sizes[m.type]; b++)
            before[to + b] = io->shared[model_place(&m, k * sizes[m.type] + b)];
    }
    operands(body, sizeof(body), c, false);
    r = run(&m, c->target, body, &f);
    for (uint32_t k = 0; k < TENSOR && !bad; k++)
        bad = tensor[k] != before[k] ? k + 1 : 0;
    t_result(c->name, !r && !bad, "store: %d %s; byte %u", r, f.message, bad);
}

#define IN ".shared::cluster.global"
#define OUT ".global.shared::cta"
#define T(n) .load = "cp.async.bulk.tensor." n "d" IN, .store = "cp.async.bulk.tensor." n "d" OUT ".tile"
#define I(n) \
    .load = "cp.async.bulk.tensor." n "d" IN ".im2col", \
    .store = "cp.async.bulk.tensor." n "d" OUT ".im2col_no_offs"
#define SW(s, a) .swizzle = SG_TMAP_SWIZZLE_##s, .atom = SG_TMAP_ATOM_##a
#define TILED .form = SG_TMAP_TILED
#define COLUMNS .form = SG_TMAP_IM2COL

static const struct copy copies[] = {
    {"1d, bytes", "sm_90", T("1"), {TILED, .type = SG_TMAP_U8, .rank = 1, .box = {64}, .dim = {200}}, {40}},
    {"1d, across the end",
     "sm_90",
     T("1"),
     {TILED, .type = SG_TMAP_U16, .rank = 1, .box = {64}, .dim = {77}},
     {20}},
    {"1d, across the beginning",
     "sm_90",
     T("1"),
     {TILED, .type = SG_TMAP_F32, .rank = 1, .fill = 1, .box = {64}, .dim = {77}},
     {-13}},
    {"1d, outside", "sm_90", T("1"), {TILED, .type = SG_TMAP_F64, .rank = 1, .box = {8}, .dim = {77}}, {-13}},
    {"1d, beyond 2^31",
     "sm_90",
     T("1"),
     {TILED, .type = SG_TMAP_U32, .rank = 1, .box = {8}, .dim = {1ull << 32}},
     {-2147483647}},
    {"2d",
     "sm_90",
     T("2"),
     {TILED, .type = SG_TMAP_F32, .rank = 2, .box = {16, 16}, .dim = {64, 64}, .stride = {256}},
     {16, 32}},
    {"2d, rows with gaps, corners outside",
     "sm_90",
     T("2"),
     {TILED, .type = SG_TMAP_BF16, .rank = 2, .fill = 1, .box = {32, 20}, .dim = {50, 40}, .stride = {112}},
     {30, -5}},
    {"2d, element strides",
     "sm_90",
     T("2"),
     {TILED, .type = SG_TMAP_S32, .rank = 2, .box = {8, 31}, .step = {1, 3}, .dim = {64, 64},
      .stride = {256}},
     {60, 10}},
    {"3d, element strides",
     "sm_90",
     T("3"),
     {TILED, .type = SG_TMAP_S64, .rank = 3, .box = {4, 5, 9}, .step = {1, 2, 8}, .dim = {16, 9, 20},
      .stride = {128, 1280}},
     {-2, -1, 5}},
    {"4d",
     "sm_90",
     T("4"),
     {TILED, .type = SG_TMAP_F16, .rank = 4, .box = {8, 3, 4, 5}, .dim = {24, 7, 6, 5},
      .stride = {48, 336, 2016}},
     {8, 5, -1, 2}},
    {"5d",
     "sm_90",
     T("5"),
     {TILED, .type = SG_TMAP_U64, .rank = 5, .box = {2, 3, 2, 3, 2}, .dim = {4, 5, 3, 4, 6},
      .stride = {32, 160, 480, 1920}},
     {2, 3, 1, 2, 5}},
    {"strides that descend",
     "sm_90",
     T("3"),
     {TILED, .type = SG_TMAP_U8, .rank = 3, .box = {16, 4, 4}, .dim = {16, 8, 8}, .stride = {1024, 16}},
     {0, 2, 3}},
    {"swizzle of 32 bytes",
     "sm_90",
     T("2"),
     {TILED, .type = SG_TMAP_F16, .rank = 2, SW(32B, 16B), .box = {16, 40}, .dim = {64, 64}, .stride = {128}},
     {16, 3}},
    {"swizzle of 64 bytes",
     "sm_90",
     T("2"),
     {TILED, .type = SG_TMAP_F16, .rank = 2, SW(64B, 16B), .box = {32, 40}, .dim = {64, 64}, .stride = {128}},
     {40, 30}},
    {"swizzle of 64 bytes, short rows",
     "sm_90",
     T("2"),
     {TILED, .type = SG_TMAP_U8, .rank = 2, SW(64B, 16B), .box = {48, 35}, .dim = {64, 64}, .stride = {128}},
     {5, 30}},
    {"swizzle of 128 bytes",
     "sm_90",
     T("2"),
     {TILED, .type = SG_TMAP_F32, .rank = 2, SW(128B, 16B), .box = {32, 24}, .dim = {64, 64},
      .stride = {256}},
     {-3, 50}},
    {"swizzle of 128 bytes, pieces of 32",
     "sm_90",
     T("2"),
     {TILED, .type = SG_TMAP_F32, .rank = 2, SW(128B, 32B), .box = {32, 24}, .dim = {64, 64},
      .stride = {256}},
     {7, 1}},
    {"swizzle of 128 bytes, pieces of 32, flipped",
     "sm_90",
     T("2"),
     {TILED, .type = SG_TMAP_F32, .rank = 2, SW(128B, 32B_FLIP_8B), .box = {32, 23}, .dim = {64, 64},
      .stride = {256}},
     {7, 1}},
    {"swizzle of 128 bytes, pieces of 64",
     "sm_90",
     T("3"),
     {TILED, .type = SG_TMAP_U16, .rank = 3, SW(128B, 64B), .box = {64, 5, 7}, .dim = {64, 16, 30},
      .stride = {128, 2048}},
     {0, 14, 1}},
    {"four rows",
     "sm_100a",
     "cp.async.bulk.tensor.2d.tile::gather4" IN,
     "cp.async.bulk.tensor.2d" OUT ".tile::scatter4",
     {TILED, .type = SG_TMAP_F16, .rank = 2, SW(128B, 16B), .box = {64, 1}, .dim = {100, 64},
      .stride = {256}},
     {50, 7, 63, 64, 0},
     .four = true},
    {"im2col, 3d",
     "sm_90",
     I("3"),
     {COLUMNS, .type = SG_TMAP_F16, .rank = 3, .channels = 8, .pixels = 40, .lower = {-1}, .upper = {-1},
      .dim = {16, 9, 5}, .stride = {32, 288}},
     {8, 3, 1},
     {2}},
    {"im2col, 4d",
     "sm_90",
     I("4"),
     {COLUMNS, .type = SG_TMAP_F16, .rank = 4, .channels = 16, .pixels = 64, .lower = {-1, -1},
      .upper = {-1, -1}, .dim = {16, 9, 7, 4}, .stride = {32, 288, 2016}},
     {0, 4, 3, 1},
     {1, 2}},
    {"im2col, 4d, element strides and swizzle",
     "sm_90",
     I("4"),
     {COLUMNS, .type = SG_TMAP_BF16, .rank = 4, SW(64B, 16B), .fill = 1, .channels = 32, .pixels = 50,
      .step = {1, 2, 2, 1}, .lower = {-1, -1}, .upper = {-1, 0}, .dim = {24, 9, 8, 4},
      .stride = {64, 576, 4608}},
     {0, 3, 1, 1},
     {1, 1}},
    {"im2col, 5d",
     "sm_90",
     I("5"),
     {COLUMNS, .type = SG_TMAP_U32, .rank = 5, .channels = 4, .pixels = 77, .lower = {0, -1, 1},
      .upper = {-2, 0, 1}, .dim = {4, 5, 4, 3, 6}, .stride = {16, 80, 320, 960}},
     {0, 1, 0, 2, 3},
     {2, 1, 0}},
};

/* ---- types that loads convert ---- */

static void conversions(void)
{
    static const uint32_t in[4] = {0x3f801000, 0x00000001, 0x3f803001, 0xff800001},
                          want[3][4] = {{0x3f801000, 0, 0x3f803001, 0xff800001},
                                        {0x3f800000, 0, 0x3f804000, 0xffc00001},
                                        {0x3f800000, 0, 0x3f804000, 0xffc00001}};
    static const uint8_t types[] = {SG_TMAP_F32_FTZ, SG_TMAP_TF32, SG_TMAP_TF32_FTZ};
    struct sg_fault f;

    for (unsigned k = 0; k < 3; k++) {
        struct copy c = {
            "", "sm_90", T("1"), {TILED, .type = types[k], .rank = 1, .box = {4}, .dim = {4}}, {0}};
        struct sg_tensor_map m;
        char body[512];
        int r;

        set_map(&m, &c);
        memcpy(tensor, in, sizeof(in));
        io->expected = 16;
        operands(body, sizeof(body), &c, true);
        r = run(&m, "sm_90", body, &f);
        t_result("a load converts", !r && !memcmp(io->shared, want[k], 16), "%u: %d %s: %x %x %x %x", k, r,
                 f.message, ((uint32_t *)(void *)io->shared)[0], ((uint32_t *)(void *)io->shared)[1],
                 ((uint32_t *)(void *)io->shared)[2], ((uint32_t *)(void *)io->shared)[3]);
    }
}

/* ---- reductions ---- */

static void reductions(void)
{
    static const struct {
        const char *op;
        uint8_t type;
        uint64_t a, b, want;
        int result;
    } ops[] = {{"add", SG_TMAP_U32, 7, 5, 12, 0},
               {"add", SG_TMAP_F32, 0x3f800000, 0x40000000, 0x40400000, 0},
               {"add", SG_TMAP_F16, 0x3c00, 0x4000, 0x4200, 0},
               {"add", SG_TMAP_U64, 1ull << 40, 5, (1ull << 40) + 5, 0},
               {"add", SG_TMAP_S64, 1, 5, 0, 715},
               {"add", SG_TMAP_F64, 1, 5, 0, 715},
               {"add", SG_TMAP_U8, 1, 5, 0, 715},
               {"min", SG_TMAP_S32, 0xfffffff0, 5, 0xfffffff0, 0},
               {"max", SG_TMAP_U32, 0xfffffff0, 5, 0xfffffff0, 0},
               {"max", SG_TMAP_S64, -1ull, 5, 5, 0},
               {"min", SG_TMAP_BF16, 0x3f80, 0xbf80, 0xbf80, 0},
               {"min", SG_TMAP_F32, 1, 2, 0, 715},
               {"inc", SG_TMAP_U32, 9, 9, 0, 0},
               {"dec", SG_TMAP_U32, 0, 9, 9, 0},
               {"inc", SG_TMAP_S32, 9, 9, 0, 715},
               {"and", SG_TMAP_U64, 0xff, 0x3c, 0x3c, 0},
               {"or", SG_TMAP_S32, 1, 8, 9, 0},
               {"xor", SG_TMAP_U32, 15, 3, 12, 0},
               {"xor", SG_TMAP_F16, 15, 3, 12, 715}};

    for (size_t k = 0; k < sizeof(ops) / sizeof(ops[0]); k++) {
        const uint32_t size = sizes[ops[k].type], n = 32 / size;
        const struct copy c = {"",
                               "sm_90",
                               T("2"),
                               {TILED, .type = ops[k].type, .rank = 2, SW(32B, 16B), .box = {(uint16_t)n, 9},
                                .dim = {n + 1, 8}, .stride = {64}},
                               {1, 0}};
        uint32_t wrong = 0;
        struct sg_tensor_map m;
        struct sg_fault f;
        char body[256];
        int r;

        set_map(&m, &c);
        for (uint32_t i = 0; i < 2048; i += size) {
            memcpy(tensor + i, &ops[k].a, size);
            memcpy(io->shared + i, &ops[k].b, size);
        }
        snprintf(
            body, sizeof(body),
            "cp.reduce.async.bulk.tensor.2d.global.shared::cta.%s.tile.bulk_group [%%rd2, {%%x0, %%x1}], "
            "[%%r1];",
            ops[k].op);
        r = run(&m, "sm_90", body, &f);
        /* the first column and the last row lie outside */
        for (uint32_t i = 0; i < 576; i += size) {
            const bool inside = i % 64 >= size && i % 64 < size * (n + 1) && i < 512;

            wrong += memcmp(tensor + i, inside && !r ? &ops[k].want : &ops[k].a, size) != 0;
        }
        t_result(ops[k].op, r == ops[k].result && !wrong, "%d %s; %u wrong", r, f.message, wrong);
    }
}

/* ---- refusals ---- */

static const struct copy plain = {
    "",
    "sm_90",
    T("2"),
    {TILED, .type = SG_TMAP_F32, .rank = 2, .box = {16, 16}, .dim = {64, 64}, .stride = {256}},
    {0, 0}};

static void refused(const char *name, const struct sg_tensor_map *m, const char *body, int want)
{
    struct sg_fault f;
    int r = run(m, strstr(body, "tensormap.replace") ? "sm_90a" : "sm_90", body, &f);

    t_result(name, r == want, "%d %s", r, f.message);
}

#define REFUSE(name, change, want) \
    do { \
        set_map(&m, &plain); \
        change; \
        refused(name, &m, body, want); \
    } while (0)

static void refusals(void)
{
    struct sg_tensor_map m;
    struct sg_fault f;
    char body[1024], in[512];
    int r;

    operands(in, sizeof(in), &plain, true);
    for (unsigned store = 0; store < 2; store++) {
        operands(body, sizeof(body), &plain, !store);
        REFUSE("a map of zeros", memset(&m, 0, sizeof(m)), 715);
        REFUSE("a map of ones", memset(&m, 0xff, sizeof(m)), 715);
        REFUSE("another version", m.version++, 715);
        REFUSE("another rank", m.rank = 3; m.box[2] = 1; m.dim[2] = 1, 715);
        REFUSE("another form", m.form = SG_TMAP_IM2COL, 715);
        REFUSE("no dimensions", m.rank = 0, 715);
        REFUSE("too many dimensions", m.rank = 255, 715);
        REFUSE("an address that is not aligned", m.address += 8, 715);
        REFUSE("an empty dimension", m.dim[1] = 0, 715);
        REFUSE("a dimension beyond 2^32", m.dim[1] = UINT64_MAX, 715);
        REFUSE("a stride beyond 2^40", m.stride[0] = 1ull << 40, 715);
        REFUSE("a stride that is not aligned", m.stride[0] = 264, 715);
        REFUSE("an empty box", m.box[1] = 0, 715);
        REFUSE("a box beyond 256", m.box[1] = 257, 715);
        REFUSE("no element stride", m.step[1] = 0, 715);
        REFUSE("an element stride beyond 8", m.step[1] = 9, 715);
        REFUSE("a row that is not of 16 bytes", m.box[0] = 15, 715);
        REFUSE("a row longer than the swizzle", m.swizzle = SG_TMAP_SWIZZLE_32B, 715);
        REFUSE("an atom without a swizzle", m.atom = SG_TMAP_ATOM_32B, 715);
        REFUSE("an interleave of two dimensions", m.interleave = 1, 715);
        REFUSE("packed elements", m.type = SG_TMAP_B4X16; m.box[0] = 32, 801);
        REFUSE("a box beyond shared memory", m.box[0] = m.box[1] = 256, 700);
        /* the rows from the 33rd on lie behind the allocation */
        REFUSE("a tensor that leaves its memory", m.stride[0] = 2048; io->at[1] = 31, 700);
        REFUSE("a tensor that begins before its memory", m.address -= 16, 700);
        REFUSE("addresses beyond 2^64", m.address = -16ull; m.dim[1] = 1ull << 32;
               m.stride[0] = (1ull << 40) - 16; io->at[1] = 1 << 30, 700);
    }
    set_map(&m, &plain);
    for (unsigned k = 0; k < 2; k++) {
        static const char *const places[] = {"add.u32 %r1, %r1, 16;\n", "add.u32 %r1, %r1, 16256;\n"};

        snprintf(body, sizeof(body), "%s%s", places[k], in);
        refused(k ? "a box across the end of shared memory" : "a box that is not aligned", &m, body,
                k ? 700 : 716);
    }
    snprintf(body, sizeof(body), "add.u64 %%rd2, %%rd2, 32;\n%s", in);
    refused("a map that is not aligned", &m, body, 716);
    snprintf(body, sizeof(body), "mov.u64 %%rd2, 4096;\n%s", in);
    refused("a map where nothing is", &m, body, 700);
    snprintf(body, sizeof(body), "add.u64 %%rd2, %%rd2, 128;\n%s", in);
    refused("a map behind the parameters", &m, body, 700);
    snprintf(body, sizeof(body), "cvt.u64.u32 %%rd2, %%r1;\ncvta.shared.u64 %%rd2, %%rd2;\n%s", in);
    refused("a map in shared memory", &m, body, 717);
    snprintf(body, sizeof(body), "add.u32 %%r2, %%r2, 100000;\n%s", in);
    refused("a barrier where nothing is", &m, body, 700);
    refused("a prefetch of no map", &(struct sg_tensor_map){0},
            "cp.async.bulk.prefetch.tensor.2d.L2.global [%rd2, {%x0, %x1}];", 715);
    refused("a prefetch", &m, "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd2, {%x0, %x1}];", 0);
    r = run(&m, "sm_100a",
            "cp.async.bulk.tensor.3d.im2col::w.shared::cluster.global." LOAD
            "%x0, %x1, %x2}], [%r2], {%h0, %h1};",
            &f);
    t_result("wide im2col is refused by name", r == -1 && strstr(f.message, "im2col"), "%d %s", r, f.message);
    refused("too few coordinates", &m, "cp.async.bulk.tensor.2d.shared::cluster.global." LOAD "%x0}], [%r2];",
            -1);
    refused("coordinates of 16 bits", &m,
            "cp.async.bulk.tensor.2d.shared::cluster.global." LOAD "%h0, %h1}], [%r2];", -1);
}

/* ---- changes of maps ---- */

static void replacements(void)
{
    static const char *const to_shared =
        "mov.u32 %r3, 0;\nC: cvt.u64.u32 %rd3, %r3;\nadd.u64 %rd3, %rd3, %rd2;\nld.u64 %rd4, [%rd3];\n"
        "add.u32 %r8, %r1, %r3;\nst.shared.u64 [%r8+8192], %rd4;\nadd.u32 %r3, %r3, 8;\n"
        "setp.lt.u32 %p1, %r3, 128;\n@%p1 bra C;\nadd.u32 %r11, %r1, 8192;\n";
    static const struct {
        const char *what;
        struct sg_tensor_map change; /* the fields that are not 0 */
    } cases[] = {{"global_address.shared::cta.b1024.b64 [%r11], 4096", {.address = 4096}},
                 {"rank.shared::cta.b1024.b32 [%r11], 2", {.rank = 3}},
                 {"box_dim.shared::cta.b1024.b32 [%r11], 1, 9", {.box = {0, 9}}},
                 {"global_dim.shared::cta.b1024.b32 [%r11], 0, 99", {.dim = {99}}},
                 {"global_stride.shared::cta.b1024.b64 [%r11], 3, 4096", {.stride = {0, 0, 0, 4096}}},
                 {"element_stride.shared::cta.b1024.b32 [%r11], 4, 3", {.step = {0, 0, 0, 0, 3}}},
                 {"elemtype.shared::cta.b1024.b32 [%r11], 10", {.type = SG_TMAP_BF16}},
                 {"interleave_layout.shared::cta.b1024.b32 [%r11], 1", {.interleave = 1}},
                 {"swizzle_mode.shared::cta.b1024.b32 [%r11], 3", {.swizzle = SG_TMAP_SWIZZLE_128B}},
                 {"fill_mode.shared::cta.b1024.b32 [%r11], 1", {.fill = 1}},
                 /* a stride that a tensor does not have: nothing is changed */
                 {"global_stride.shared::cta.b1024.b64 [%r11], 4, 4096", {.address = 0}}};
    struct sg_tensor_map m, got;
    struct sg_fault f;
    char body[2048];
    int r;

    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        const uint8_t *change = (const uint8_t *)&cases[k].change;
        uint8_t want[sizeof(m)];
        bool fields = true;

        set_map(&m, &plain);
        m.type = SG_TMAP_U32;
        memcpy(want, &m, sizeof(m));
        snprintf(body, sizeof(body), "%stensormap.replace.tile.%s;", to_shared, cases[k].what);
        r = run(&m, "sm_90a", body, &f);
        memcpy(&got, io->shared + 8192, sizeof(got));
        for (size_t i = 0; i < sizeof(m); i++)
            fields &= ((uint8_t *)&got)[i] == (change[i] ? change[i] : want[i]) || (!change[i] && k < 5);
        if (k == 0)
            fields = got.address == 4096 && !memcmp(got.stride, m.stride, sizeof(m.stride));
        if (k == 3)
            fields = got.dim[0] == 99 && got.dim[1] == 64;
        t_result(cases[k].what, !r && fields, "%d %s", r, f.message);
    }
    /* changed in shared memory, copied to global memory, used there */
    set_map(&m, &plain);
    m.address = 64;
    new_contents();
    io->expected = 1024;
    snprintf(
        body, sizeof(body),
        "%smov.u64 %%rd5, %llu;\ntensormap.replace.tile.global_address.shared::cta.b1024.b64 [%%r11], %%rd5;\n"
        "add.u64 %%rd6, %%rd1, 16448;\nand.b64 %%rd6, %%rd6, -64;\n"
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%%rd6], "
        "[%%r11], 128;\nfence.proxy.tensormap::generic.acquire.gpu [%%rd6], 128;\n"
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%%r1], [%%rd6, {%%x0, "
        "%%x1}], [%%r2];",
        to_shared, (unsigned long long)(uintptr_t)tensor);
    r = run(&m, "sm_90a", body, &f);
    t_result("a map made by a kernel", !r && io->complete && !memcmp(io->shared + 64, tensor + 256, 64),
             "%d %s", r, f.message);
    memset(&m, 0, sizeof(m));
    snprintf(body, sizeof(body), "%stensormap.replace.tile.rank.shared::cta.b1024.b32 [%%r11], 2;",
             to_shared);
    refused("a change of no map", &m, body, 715);
    set_map(&m, &plain);
    refused("a change of a parameter", &m, "tensormap.replace.tile.rank.b1024.b32 [%rd2], 2;", 700);
    refused("a change where nothing is", &m,
            "mov.u64 %rd2, 4096;\ntensormap.replace.tile.rank.b1024.b32 [%rd2], 2;", 700);
}

/* ---- several blocks, time slices ---- */

/* %r0: rank, %r1: a box of 1024 bytes, %r2: barrier, %rd2: map, %rd1: 256 bytes of io for each block. */
#define SHORT_TEXT \
    ".version 8.6\n.target %s\n.address_size 64\n" \
    ".visible .entry t(.param .align 128 .b8 m[128], .param .u64 p)\n{\n" \
    ".reg .pred %%p<4>;\n.reg .b16 %%h<4>;\n.reg .b32 %%r<20>;\n.reg .b64 %%rd<10>;\n" \
    ".shared .align 1024 .b8 sh[1024];\n.shared .align 8 .b64 bar;\n" \
    "ld.param.u64 %%rd1, [p];\nmov.b64 %%rd2, m;\ncvta.param.u64 %%rd2, %%rd2;\n" \
    "mov.u32 %%r0, %%cluster_ctarank;\nmov.u32 %%r1, sh;\nmov.u32 %%r2, bar;\n" \
    "mul.wide.u32 %%rd3, %%r0, 256;\nadd.u64 %%rd1, %%rd1, %%rd3;\n%s\nret;\n}\n"

static int run_short(const char *target, const char *body, uint32_t blocks, struct sg_fault *f)
{
    static char text[8192];
    struct params p = {{0}, io};
    int r;

    memset(f, 0, sizeof(*f));
    set_map(&p.map, &plain);
    snprintf(text, sizeof(text), SHORT_TEXT, target, body);
    if (!tk_open(&opened, text, "t")) {
        snprintf(f->message, sizeof(f->message), "%s", opened.diag.message);
        sg_module_free(opened.m);
        return -1;
    }
    t_cluster[0] = blocks;
    t_cluster[1] = t_cluster[2] = blocks != 0;
    r = tk_run(&opened, blocks ? blocks : 1, 1, &p, f);
    memset(t_cluster, 0, sizeof(t_cluster));
    tk_close(&opened);
    return r;
}

#define CLUSTER_SYNC "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"

/*
 * Block 1 loads into blocks 0, 2 and 3 at once. Each of their barriers counts; with a pair of blocks, those
 * of the parity of the barrier that is named: here 1 and twice 3.
 */
static void multicast(bool pair)
{
    static const uint32_t expected[2][4] = {{1024, 0, 1024, 1024}, {0, 1024, 0, 2048}};
    const uint32_t *e = expected[pair];
    uint32_t wrong = 0;
    struct sg_fault f;
    char body[2048];
    int r;

    new_contents();
    snprintf(
        body, sizeof(body),
        "mbarrier.init.shared::cta.b64 [%%r2], 1;\nmov.u32 %%r3, %u;\nsetp.eq.u32 %%p0, %%r0, 1;\n"
        "selp.u32 %%r3, %u, %%r3, %%p0;\nsetp.eq.u32 %%p1, %%r0, 3;\nselp.u32 %%r3, %u, %%r3, %%p1;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%r2], %%r3;\n" CLUSTER_SYNC
        "mov.u16 %%h0, 13;\nmov.u32 %%r4, 0;\n@!%%p0 bra W;\n"
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster%s "
        "[%%r1], [%%rd2, {%%r4, %%r4}], [%%r2], %%h0;\n"
        "W: " CLUSTER_SYNC "mbarrier.test_wait.parity.shared::cta.b64 %%p2, [%%r2], 0;\n"
        "selp.u32 %%r5, 1, 0, %%p2;\nst.global.u32 [%%rd1+64], %%r5;\n"
        "ld.shared.v4.u32 {%%r6, %%r7, %%r8, %%r9}, [%%r1+64];\n"
        "st.global.v4.u32 [%%rd1], {%%r6, %%r7, %%r8, %%r9};",
        e[0], e[1], e[3], pair ? ".cta_group::2" : "");
    r = run_short(pair ? "sm_100a" : "sm_90", body, 4, &f);
    for (uint32_t k = 0; k < 4; k++)
        wrong +=
            (k != 1 && memcmp(io->shared + 256 * k, tensor + 256, 16) != 0) || io->shared[256 * k + 64] != 1;
    t_result(pair ? "a load into several blocks, barriers of pairs" : "a load into several blocks",
             !r && !wrong, "%d %s; %u wrong", r, f.message, wrong);
}

static void blocks_and_slices(void)
{
    static const char *const copies_of[] = {
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd2, {%r4, %r4}], [%r1];",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd2, {%r4, %r4}], "
        "[%r2];",
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%rd2, {%r4, %r4}], [%r1];"};
    struct sg_fault f;
    char body[1024];
    int r;

    multicast(false);
    multicast(true);
    r = run_short("sm_90",
                  "mov.u16 %h0, 4;\nmov.u32 %r4, 0;\ncp.async.bulk.tensor.2d.shared::cluster.global"
                  ".mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%rd2, {%r4, %r4}], [%r2], %h0;",
                  2, &f);
    t_result("a load into a block that is not there", r == 700, "%d %s", r, f.message);
    for (unsigned k = 0; k < 3; k++) {
        snprintf(body, sizeof(body),
                 "mbarrier.init.shared::cta.b64 [%%r2], 1;\nmov.u32 %%r4, 0;\nmov.u32 %%r5, 0;\nL: %s\n"
                 "add.u32 %%r5, %%r5, 1;\nsetp.lt.u32 %%p1, %%r5, 400;\n@%%p1 bra L;",
                 copies_of[k]);
        t_watchdog = 200;
        r = run_short("sm_90", body, 0, &f);
        t_watchdog = 2000000000ull;
        t_result("a time slice counts what tensor copies move", r == SG_ERR_TIMEOUT, "%d %s", r, f.message);
    }
}

/* ---- hostile maps ---- */

/* Any bytes end in a copy inside the allocations of the kernel or in a fault. */
static void hostile(bool store)
{
    uint8_t *victim = tm_alloc(4096);
    struct sg_tensor_map valid, m;
    unsigned results[6] = {0}, strange = 0;
    struct sg_fault f;
    char body[512];

    memset(victim, 0x5a, 4096);
    set_map(&valid, &plain);
    operands(body, sizeof(body), &plain, !store);
    if (!open_kernel("sm_90", body)) {
        t_result("hostile maps", false, "%s", opened.diag.message);
        return;
    }
    for (unsigned k = 0; k < 3000; k++) {
        const unsigned changes = 1 + (unsigned)rand() % 4;
        int r;

        m = valid;
        for (unsigned i = 0; i < changes; i++)
            ((uint8_t *)&m)[(unsigned)rand() % sizeof(m)] = (uint8_t)(rand() >> 5);
        io->at[0] = rand() % 80 - 8;
        io->at[1] = k % 3 ? rand() % 80 - 8 : (int32_t)((unsigned)rand() * 2u);
        r = run_opened(&m, &f);
        if (r == 0 || r == 700 || r == 715 || r == 716 || r == 717 || r == 801)
            results[r == 0 ? 0 : r == 801 ? 5 : r == 700 ? 1 : r - 713]++;
        else
            strange++;
    }
    tk_close(&opened);
    for (unsigned k = 0; k < 4096; k++)
        strange += victim[k] != 0x5a;
    t_result(store ? "stores with hostile maps" : "loads with hostile maps",
             !strange && results[0] && results[1] && results[2], "%u strange", strange);
}

int main(void)
{
    io = tm_alloc(sizeof(*io) + 4096);
    tensor = tm_alloc(TENSOR);
    before = calloc(1, TENSOR);
    srand(1);
    for (size_t k = 0; k < sizeof(copies) / sizeof(copies[0]); k++) {
        check_load(&copies[k]);
        check_store(&copies[k]);
    }
    conversions();
    reductions();
    refusals();
    replacements();
    blocks_and_slices();
    hostile(false);
    hostile(true);
    free(before);
    tm_free_all();
    return t_end("softgpu tensor copies");
}
