/* SPDX-License-Identifier: MIT */
/*
 * Every spelling of ld and st in tests-ptx/spellings.txt (those of ggml and cuBLAS): space, cache
 * and ordering modifiers, vectors, types. Each runs for all lanes, and under a predicate for odd
 * lanes. The expected value follows from the type alone: signed types are extended by their sign,
 * unsigned types by 0.
 */
#include "exec/exec_test.h"

#include <stdlib.h>
#include <string.h>

#define LANES 32
#define ROOM 32 /* bytes of memory of a lane */

struct form {
    char text[128];
    char space;                     /* g s l p, or x for generic */
    bool is_store, is_signed, hint; /* hint: one more operand */
    unsigned n, bits;
};

static bool parse(const char *spelling, struct form *f)
{
    char copy[128], *word, *save = NULL;

    memset(f, 0, sizeof(*f));
    snprintf(f->text, sizeof(f->text), "%s", spelling);
    snprintf(copy, sizeof(copy), "%s", spelling);
    f->space = 'x';
    f->n = 1;
    word = strtok_r(copy, ".", &save);
    if (!word || (strcmp(word, "ld") && strcmp(word, "st")))
        return false;
    f->is_store = word[0] == 's';
    while ((word = strtok_r(NULL, ".", &save))) {
        if (!strcmp(word, "global") || !strcmp(word, "shared") || !strcmp(word, "local") ||
            !strncmp(word, "param", 5))
            f->space = word[0];
        else if (!strcmp(word, "L2::cache_hint"))
            f->hint = true;
        else if (word[0] == 'v' && word[1] >= '2' && word[1] <= '8' && !word[2])
            f->n = (unsigned)(word[1] - '0');
        else if (strchr("usbf", word[0]) && atoi(word + 1) >= 8) {
            f->bits = (unsigned)atoi(word + 1);
            f->is_signed = word[0] == 's';
        }
    }
    return f->bits != 0 && f->n * f->bits <= ROOM * 8;
}

/* A register as wide as the type, and at least 16 bits; wider: as the types of PTX allow. */
static const char *reg_type(const struct form *f, bool wide)
{
    const bool flt = strstr(f->text, f->bits == 32 ? ".f32" : ".f64") != NULL;

    if (wide && f->bits < 32)
        return "b32";
    return flt ? (f->bits == 32 ? "f32" : "f64") : f->bits <= 16 ? "b16" : f->bits == 32 ? "b32" : "b64";
}

static size_t make(char *t, size_t cap, const struct form *f, bool wide, bool pred)
{
    static const char *const address[] = {"%rd4", "%r4", "loc", "prm"};
    const char *at = f->space == 'g' || f->space == 'x' ? address[0]
                     : f->space == 's'                  ? address[1]
                     : f->space == 'l'                  ? address[2]
                                                        : address[3];
    const char *type = reg_type(f, wide);
    size_t n = 0;

#define ADD(...) n += (size_t)snprintf(t + n, cap - n, __VA_ARGS__)
    ADD(".version 9.0\n.target sm_100\n.address_size 64\n"
        ".visible .entry t(.param .u64 in, .param .u64 out, .param .align 32 .b8 prm[32])\n{\n"
        ".reg .pred %%p<2>;\n.reg .b16 %%h<2>;\n.reg .b32 %%r<9>;\n.reg .b64 %%rd<9>;\n.reg .%s %%v<9>;\n"
        ".shared .align 32 .b8 sh[1024];\n.local .align 32 .b8 loc[32];\n"
        "mov.u32 %%r1, %%tid.x;\nand.b32 %%r2, %%r1, 1;\nsetp.eq.u32 %%p1, %%r2, 1;\n"
        "shl.b32 %%r3, %%r1, 5;\ncvt.u64.u32 %%rd3, %%r3;\nld.param.u64 %%rd1, [in];\n"
        "add.u64 %%rd4, %%rd1, %%rd3;\nld.param.u64 %%rd2, [out];\nshl.b64 %%rd5, %%rd3, 2;\n"
        "add.u64 %%rd5, %%rd2, %%rd5;\nmov.u32 %%r4, sh;\nadd.u32 %%r4, %%r4, %%r3;\n",
        type);
    /* memory of every space begins as the lane's part of the input */
    for (int i = 0; i < ROOM; i += 8)
        ADD("ld.global.b64 %%rd6, [%%rd4+%d];\nst.shared.b64 [%%r4+%d], %%rd6;\nst.local.b64 [loc+%d], %%rd6;\n",
            i, i, i);
    for (unsigned k = 0; k < f->n; k++) { /* the stored value; the value kept by lanes that do not load */
        if (type[0] == 'b' && type[1] == '1')
            ADD("cvt.u16.u32 %%v%u, %%r1;\nadd.u16 %%v%u, %%v%u, %u;\n", k, k, k, 0x8180u + 0x101u * k);
        else if (!strcmp(type, "b32"))
            ADD("add.u32 %%v%u, %%r1, %u;\n", k, 0x81828380u + 0x1010101u * k);
        else if (!strcmp(type, "b64"))
            ADD("add.u64 %%v%u, %%rd3, %llu;\n", k, 0x8182838485868780ull + 0x101010101010101ull * k);
        else if (!strcmp(type, "f32"))
            ADD("add.u32 %%r5, %%r1, %u;\nmov.b32 %%v%u, %%r5;\n", 0x41828380u + 0x1010101u * k, k);
        else
            ADD("add.u64 %%rd6, %%rd3, %llu;\nmov.b64 %%v%u, %%rd6;\n",
                0x4182838485868780ull + 0x101010101010101ull * k, k);
    }
    ADD("%s%s ", pred ? "@%p1 " : "", f->text);
    if (f->is_store)
        ADD("[%s], ", at);
    if (f->n > 1)
        ADD("{");
    for (unsigned k = 0; k < f->n; k++)
        ADD("%s%%v%u", k ? ", " : "", k);
    if (f->n > 1)
        ADD("}");
    if (!f->is_store)
        ADD(", [%s]", at);
    ADD("%s;\n", f->hint ? ", %rd3" : "");
    if (f->is_store) { /* the lane's memory goes out */
        for (int i = 0; i < ROOM; i += 8)
            ADD("ld.%s.b64 %%rd6, [%s+%d];\nst.global.b64 [%%rd5+%d], %%rd6;\n",
                f->space == 's'   ? "shared"
                : f->space == 'l' ? "local"
                                  : "global",
                at, i, i);
    } else {
        for (unsigned k = 0; k < f->n; k++) {
            const bool half = type[0] == 'b' && type[1] == '1';

            ADD("st.global.%s [%%rd5+%u], %%v%u;\n", half ? "b16" : type, 8 * k, k);
        }
    }
    ADD("ret;\n}\n");
    return n;
}

static uint64_t stored(const struct form *f, unsigned lane, unsigned k, bool wide)
{
    const bool flt = strstr(f->text, ".f32") || strstr(f->text, ".f64");

    if (wide)
        return lane + 0x81828380u + 0x1010101u * k;
    if (f->bits <= 16)
        return lane + 0x8180u + 0x101u * k;
    if (f->bits == 32)
        return lane + (flt ? 0x41828380u : 0x81828380u) + 0x1010101u * k;
    return lane * 32ull + (flt ? 0x4182838485868780ull : 0x8182838485868780ull) + 0x101010101010101ull * k;
}

static void one(const struct form *f, bool wide, bool pred)
{
    static char text[16384];
    struct {
        uint64_t in, out;
        uint64_t pad[2];
        uint8_t prm[32];
    } params;
    struct sg_fault fault = {.message = ""};
    char name[180];
    struct tk t;
    bool ok = true;
    uint8_t *in, *out;
    unsigned lane = 0;

    snprintf(name, sizeof(name), "%s%s%s", pred ? "@p " : "", f->text, wide ? " into 32 bits" : "");
    make(text, sizeof(text), f, wide, pred);
    in = tm_alloc(LANES * ROOM);
    out = tm_alloc(LANES * ROOM * 4);
    if (!tk_open(&t, text, "t")) {
        t_result(name, false, "not decoded");
        goto end;
    }
    for (unsigned i = 0; i < LANES * ROOM; i++)
        in[i] = (uint8_t)(i * 37 + 11 + (i >> 3) * 128);
    memset(out, 0x5a, LANES * ROOM * 4);
    params.in = (uintptr_t)in;
    params.out = (uintptr_t)out;
    memcpy(params.prm, in, sizeof(params.prm));
    if (tk_run(&t, 1, LANES, &params, &fault)) {
        t_result(name, false, "%s", fault.message);
        sg_module_free(t.m);
        goto end;
    }
    for (lane = 0; lane < LANES && ok; lane++) {
        const bool done = !pred || (lane & 1);
        const uint8_t *mem = f->space == 'p' ? in : in + lane * ROOM, *got = out + lane * ROOM * 4;

        if (f->is_store) {
            const uint8_t *where = f->space == 'g' || f->space == 'x' ? in + lane * ROOM : got;
            uint8_t want[ROOM];

            for (unsigned i = 0; i < ROOM; i++)
                want[i] = (uint8_t)((lane * ROOM + i) * 37 + 11 + ((lane * ROOM + i) >> 3) * 128);
            for (unsigned k = 0; k < f->n && done; k++) {
                const uint64_t v = stored(f, lane, k, wide);

                memcpy(want + k * f->bits / 8, &v, f->bits / 8);
            }
            ok = !memcmp(want, where, ROOM);
            continue;
        }
        for (unsigned k = 0; k < f->n && ok; k++) {
            uint64_t want = 0, v = 0;
            const unsigned width = f->bits <= 16 ? (wide ? 32 : 16) : f->bits;

            memcpy(&want, mem + k * f->bits / 8, f->bits / 8);
            if (f->is_signed && f->bits < 64 && want >> (f->bits - 1))
                want |= ~0ull << f->bits;
            if (!done)
                want = stored(f, lane, k, wide);
            memcpy(&v, got + 8 * k, width / 8);
            ok = v == (width < 64 ? want & ((1ull << width) - 1) : want);
        }
    }
    t_result(name, ok, "lane %u differs", lane - 1);
    sg_module_free(t.m);
end:
    tm_free_all();
}

int main(int argc, char **argv)
{
    FILE *list = argc > 1 ? fopen(argv[1], "r") : fopen(SG_SPELLINGS, "r");
    char line[128];

    t_variant(argc, argv);
    if (!list) {
        t_result("the list of spellings", false, "cannot be read");
        return t_end("softgpu loads and stores");
    }
    while (fgets(line, sizeof(line), list)) {
        struct form f;

        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "ld.", 3) && strncmp(line, "st.", 3))
            continue;
        if (!parse(line, &f)) {
            t_result(line, false, "no test knows this form");
            continue;
        }
        if (f.is_store && f.space == 'p') /* parameters of calls: tested with calls */
            continue;
        for (int pred = 0; pred < 2; pred++) {
            one(&f, false, pred);
            if (f.bits < 32 && !strstr(f.text, ".b8") && !strstr(f.text, ".b16"))
                one(&f, true, pred);
        }
    }
    fclose(list);
    return t_end("softgpu loads and stores");
}
