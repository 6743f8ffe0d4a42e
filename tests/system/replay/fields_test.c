/* SPDX-License-Identifier: MIT */
/*
 * Replies that differ in one field, for every field of every call with results. Plain fields are
 * reported by name, fields that may differ are counted, and the first difference of a handle or
 * address becomes its translation. Memory returned by a call is known from its first to its last
 * byte. Floats are compared with a tolerance.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../../userspace/vgpu/replay/replay.h"

#define ELEMENTS 3u
#define HANDLE UINT64_C(0x0100000000000000)

/*
 * Defined in replay_run.c, which has a worker: layouts of parameters are not part of the comparison of
 * replies.
 */
const struct replay_layout *replay_layout_find(const struct replay_run *r, uint64_t handle)
{
    (void)r;
    (void)handle;
    return NULL;
}

void replay_layout_set(struct replay_run *r, uint64_t handle, const uint32_t *params, uint32_t count)
{
    (void)r;
    (void)handle;
    (void)params;
    (void)count;
}

static int passed, failed;

struct reply {
    uint8_t bytes[VGP_EVENT_MAX / 8];
    uint32_t size;
};

static void result(const char *name, unsigned wrong, unsigned of)
{
    printf("%s%s: %u of %u\n", wrong == 0 && of != 0 ? "ok - " : "FAIL: ", name, of - wrong, of);
    if (wrong == 0 && of != 0)
        passed++;
    else
        failed++;
}

/* Returns the elements of a field; `n`: their size, bytes. */
static uint8_t *field_at(const struct vgp_call_fields *f, uint32_t field, struct reply *r, uint64_t *n)
{
    uint64_t at = f->ret_fixed;

    for (uint32_t i = 0; i < field; i++) {
        if (f->out[i].form >= VGP_FORM_ARRAY)
            at += vgp_pad_to_8((uint64_t)ELEMENTS * f->out[i].size);
    }
    if (f->out[field].form < VGP_FORM_ARRAY) {
        *n = f->out[field].size;
        return r->bytes + f->out[field].offset;
    }
    *n = (uint64_t)ELEMENTS * f->out[field].size;
    return r->bytes + at;
}

/* Gives every field different bytes; none is 0, as no handle or address may become 0. */
static bool fill(const struct vgp_call_fields *f, struct reply *r)
{
    const uint32_t count = ELEMENTS;
    uint64_t size = f->ret_fixed, n;

    for (uint32_t i = 0; i < f->out_count; i++)
        size += f->out[i].form < VGP_FORM_ARRAY ? 0 : vgp_pad_to_8((uint64_t)ELEMENTS * f->out[i].size);
    if (size > sizeof(r->bytes))
        return false;
    memset(r->bytes, 0, size);
    r->size = (uint32_t)size;
    for (uint32_t i = 0; i < f->out_count; i++) {
        uint8_t *at = field_at(f, i, r, &n);

        for (uint64_t k = 0; k < n; k++)
            at[k] = (uint8_t)(1 + (i * 29 + k * 7) % 120);
        if (f->out[i].form >= VGP_FORM_ARRAY)
            memcpy(r->bytes + f->out[i].offset, &count, sizeof(count));
    }
    return true;
}

static bool is_word(const struct vgp_field *f)
{
    return f->size == 8 && (f->meaning == VGP_MEANS_HANDLE || f->meaning == VGP_MEANS_OBJECTS ||
                            f->meaning == VGP_MEANS_ADDR);
}

static bool may_vary(const struct vgp_field *f)
{
    return f->meaning == VGP_MEANS_VARIES || f->meaning == VGP_MEANS_OPAQUE;
}

static struct replay_run *run;
static char *shown;
static size_t shown_size;

static void compare(uint16_t call, const struct reply *recorded, const struct reply *here, CUresult rc,
                    CUresult rh)
{
    const struct vgp_record record = {.call = call};
    const struct vgp_event_reply head = {.result = (int32_t)rc, .payload = recorded->size};
    const struct replay_event e = {
        .type = VGP_EVENT_REPLY, .serial = 7, .reply = &head, .payload = recorded->bytes, .call = &record};

    replay_compare(run, &e, rh, here->bytes, here->size);
}

static void begin(void)
{
    run = calloc(1, sizeof(*run));
    run->options.out = open_memstream(&shown, &shown_size);
    run->options.show = 100;
}

static void end(void)
{
    fclose(run->options.out);
    free(shown);
    free(run);
}

/* True if the output names the call and this field, and nothing else. */
static bool named(const struct vgp_call_fields *f, const char *field)
{
    char want[256];

    fflush(run->options.out);
    snprintf(want, sizeof(want), "different: call 7 %s: %s: ", f->name, field);
    return strncmp(shown, want, strlen(want)) == 0 && strchr(shown, '\n') == shown + shown_size - 1;
}

static const struct vgp_call_fields *calls[512];
static unsigned ncalls;
static struct reply a, b, c;

static void test_equal(void)
{
    unsigned wrong = 0;

    for (unsigned i = 0; i < ncalls; i++) {
        begin();
        fill(calls[i], &a);
        fill(calls[i], &b);
        compare(calls[i]->number, &a, &b, CUDA_SUCCESS, CUDA_SUCCESS);
        wrong += run->totals.different != 0 || run->totals.equal != 1 || run->totals.varied_count != 0;
        end();
    }
    result("equal replies", wrong, ncalls);
}

/* Changes the first and the last byte of a field, each alone. */
static void test_one_byte(void)
{
    unsigned wrong = 0, tried = 0;

    for (unsigned i = 0; i < ncalls; i++) {
        const struct vgp_call_fields *f = calls[i];

        for (uint32_t k = 0; k < 2 * f->out_count; k++) {
            const struct vgp_field *field = &f->out[k / 2];
            uint64_t n;
            uint8_t *at;

            fill(f, &a);
            fill(f, &b);
            at = field_at(f, k / 2, &b, &n);
            if (is_word(field) || n == 0)
                continue;
            begin();
            at[k % 2 == 0 ? 0 : n - 1] ^= 0x80;
            compare(f->number, &a, &b, CUDA_SUCCESS, CUDA_SUCCESS);
            tried++;
            if (may_vary(field))
                wrong += run->totals.different != 0 || run->totals.equal != 1 ||
                         run->totals.varied_count != 1 ||
                         strcmp(run->totals.varied[0].field, field->name) != 0;
            else
                wrong += run->totals.different != 1 || run->totals.equal != 0 || !named(f, field->name);
            end();
        }
    }
    result("one byte of one field", wrong, tried);
}

static void set_word(uint8_t *at, uint64_t index, uint64_t value)
{
    memcpy(at + 8 * index, &value, 8);
}

/* True for calls that return numbers reused by the driver: each reply defines them anew. */
static bool gives_number(const struct vgp_call_fields *f)
{
    const struct vgp_call_facts *facts = vgp_call_facts(f->number);

    for (uint32_t i = 0; facts != NULL && i < facts->states_count; i++) {
        if (facts->states[i].kind == VGP_KIND_TEXTURE_OBJECT || facts->states[i].kind == VGP_KIND_CONDITION)
            return true;
    }
    return false;
}

/*
 * A handle: any other of its type is accepted once, then only that one; another type, or 0, is a
 * difference.
 */
static void test_handles(void)
{
    unsigned wrong = 0, tried = 0;

    for (unsigned i = 0; i < ncalls; i++) {
        const struct vgp_call_fields *f = calls[i];

        for (uint32_t k = 0; k < f->out_count; k++) {
            const struct vgp_field *field = &f->out[k];
            const uint64_t other[] = {HANDLE | 10, 0, HANDLE << 1 | 10, HANDLE | 11};
            uint64_t n;

            if (!is_word(field) || field->meaning == VGP_MEANS_ADDR || gives_number(f))
                continue;
            for (unsigned way = 0; way < 4; way++) {
                fill(f, &a);
                uint8_t *at = field_at(f, k, &a, &n);

                for (uint64_t w = 0; w < n / 8; w++)
                    set_word(at, w, HANDLE | (5 + 100 * w));
                c = b = a;
                at = field_at(f, k, &b, &n);
                for (uint64_t w = 0; w < n / 8; w++)
                    set_word(at, w, HANDLE | (10 + 100 * w));
                c = b;
                set_word(field_at(f, k, &c, &n), n / 8 - 1, other[way] + (way == 0 ? 100 * (n / 8 - 1) : 0));
                begin(); /* first occurrence */
                compare(f->number, &a, &c, CUDA_SUCCESS, CUDA_SUCCESS);
                wrong += run->totals.different != (way == 1 || way == 2);
                end();
                begin();
                compare(f->number, &a, &b, CUDA_SUCCESS, CUDA_SUCCESS);
                wrong += run->totals.different != 0;
                compare(f->number, &a, &c, CUDA_SUCCESS, CUDA_SUCCESS);
                wrong += run->totals.different != (way != 0) || (way != 0 && !named(f, field->name));
                tried += 3;
                end();
            }
        }
    }
    result("handles", wrong, tried);
}

/* A different result; a short reply; as many differences as plain fields. */
static void test_whole(void)
{
    unsigned wrong = 0, tried = 0;

    for (unsigned i = 0; i < ncalls; i++) {
        const struct vgp_call_fields *f = calls[i];
        unsigned plain = 0;
        uint64_t n;

        fill(f, &a);
        fill(f, &b);
        begin();
        compare(f->number, &a, &b, CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE);
        wrong += run->totals.different != 1 || !named(f, "result");
        end();
        begin();
        b.size = 1;
        compare(f->number, &a, &b, CUDA_SUCCESS, CUDA_SUCCESS);
        wrong += run->totals.different == 0;
        end();
        fill(f, &b);
        for (uint32_t k = 0; k < f->out_count; k++) {
            uint8_t *at = field_at(f, k, &b, &n);

            if (!is_word(&f->out[k]) && !may_vary(&f->out[k]) && n != 0) {
                at[n / 2] ^= 0x80;
                plain++;
            }
        }
        begin();
        compare(f->number, &a, &b, CUDA_SUCCESS, CUDA_SUCCESS);
        wrong += run->totals.different != plain || run->totals.equal != (plain == 0);
        end();
        tried += 3;
    }
    result("results, short replies, all fields", wrong, tried);
}

static void put(struct vgp_place at, uint8_t *fixed, struct reply *r, uint64_t value)
{
    memcpy((at.where == 1 ? fixed : r->bytes) + at.offset, &value, at.size);
}

/*
 * For each call that returns memory: both ends of it, for every location and number of factors of
 * the length.
 */
static void test_ranges(void)
{
    const uint64_t from = UINT64_C(0x7f0000000000), to = UINT64_C(0x7e1234560000), factor[2] = {0x300, 0x70};
    unsigned wrong = 0, tried = 0;

    for (unsigned i = 0; i < ncalls; i++) {
        const struct vgp_call_facts *f = vgp_call_facts(calls[i]->number);
        uint64_t length = 1;
        bool first, last, behind;

        if (f == NULL || f->range.where == 0)
            continue;
        begin();
        fill(calls[i], &a);
        put(f->range, NULL, &a, from);
        for (unsigned k = 0; k < 2 && f->range_length[k].where != 0; k++) {
            put(f->range_length[k], run->open[0].fixed, &a, factor[k]);
            length *= factor[k];
        }
        b = a;
        put(f->range, NULL, &b, to);
        compare(calls[i]->number, &a, &b, CUDA_SUCCESS, CUDA_SUCCESS);
        wrong += run->totals.different != 0 || replay_map_address(&run->map, from, &first) != to ||
                 replay_map_address(&run->map, from + length - 1, &last) != to + length - 1;
        /* The address after the last byte is also kept by programs. */
        replay_map_address(&run->map, from + length + 1, &behind);
        wrong += !first || !last || behind;
        tried += 2;
        end();
    }
    result("memory that calls tell of", wrong, tried);
}

/*
 * Values equal within the tolerance; a NaN does not equal a number, nor infinity a finite number.
 */
static void test_tolerance(void)
{
    static const struct {
        double tolerance, recorded, here;
        bool same;
    } rows[] = {{0, 1, 1.0001, false},        {1e-3, 1000, 1000.9, true},
                {1e-3, 1000, 1001.1, false},  {1e-3, -1, 1, false},
                {1e-3, NAN, 1, false},        {1e-3, 1, NAN, false},
                {1e-3, NAN, -NAN, true},      {1e-3, 1, INFINITY, false},
                {1e-3, INFINITY, 1, false},   {1e-3, INFINITY, -INFINITY, false},
                {1e-3, INFINITY, NAN, false}, {1e-3, 0, 1e-30, false}};
    const unsigned n = sizeof(rows) / sizeof(rows[0]);
    unsigned wrong = 0;

    for (unsigned i = 0; i < 2 * n; i++) {
        const double d[2] = {rows[i / 2].recorded, rows[i / 2].here};
        const float f[2] = {(float)d[0], (float)d[1]};
        const uint8_t *x = i % 2 ? (const uint8_t *)d : (const uint8_t *)f;
        const uint64_t size = i % 2 ? 8 : 4;

        begin();
        run->options.tolerance = rows[i / 2].tolerance;
        run->options.doubles = i % 2;
        wrong +=
            replay_compare_bytes(run, 7, calls[0]->number, "data", x, x + size, size) != rows[i / 2].same ||
            run->totals.different != !rows[i / 2].same;
        end();
    }
    result("tolerances", wrong, 2 * n);
}

int main(void)
{
    for (unsigned number = 0; number <= UINT16_MAX; number++) {
        const struct vgp_call_fields *f = vgp_fields_of((uint16_t)number);

        if (f != NULL && f->out_count != 0 && ncalls < sizeof(calls) / sizeof(calls[0]) && fill(f, &a))
            calls[ncalls++] = f;
    }
    test_equal();
    test_one_byte();
    test_handles();
    test_whole();
    test_ranges();
    test_tolerance();
    printf("replay_fields: %d passed, %d failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
