/* SPDX-License-Identifier: MIT */
/*
 * Round trips of every call through the generated encoders and decoders, in one process.
 *
 * T1 same call, same bytes (idempotence); T2 the encoder fills the size it asked for, and the
 * decoder consumes all of it; T3 every field arrives as sent (random values, several rounds); T4
 * every shorter record is refused; T5 every word of the arguments corrupted in turn: no crash
 * (ASan, UBSan), and padding that is not zero is refused; T6 no reply is larger than its slot, no
 * record larger than VGP_RECORD_MAX; T7 an array, text or blob of the maximum length is accepted,
 * and one element more is refused, although the record has room for it; T8 each call, on success
 * and failure, creates, drops and keeps the handles of its description, on both sides; T9 the
 * description of a call and of its fields matches the tables read by worker, library and replay;
 * T10 a reply with one element more than the maximum is refused, and an image in the record whose
 * size differs from the record's; T11 a call that the library cannot send, or refuses to, returns the
 * reason, sends nothing and keeps no new handle; T12 a C type of another size is refused, and lists
 * that belong together and differ in length. Device ordinals differ on the wire, per direction. The cases are
 * generated from the description for each run (gen/templates/roundtrip.py).
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vgp_facts.h"
#include "vgp_fields.h"
#include "vgp_guest.h"
#include "vgp_worker.h"

#define ARGS_MAX (VGP_RECORD_MAX - sizeof(struct vgp_record))

struct vgp_provider wrk_provider;

static uint64_t seed = 0x9e3779b97f4a7c15ull;
static uint64_t rnd(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static void rnd_bytes(void *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)p)[i] = (uint8_t)rnd();
}

/* Types of location: device or none. */
static __attribute__((unused)) void rnd_kinds(void *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((uint32_t *)p)[i] = (uint32_t)(rnd() % 2);
}

/* A string of n bytes with its NUL, no NUL inside. */
static __attribute__((unused)) void rnd_text(char *p, uint32_t n)
{
    for (uint32_t i = 0; i + 1 < n; i++)
        p[i] = (char)('!' + rnd() % 90);
    p[n - 1] = 0;
}

/* Favours limits, where mistakes are likely: 0, 1, the maximum and the maximum minus 1. */
static uint32_t pick_len(uint32_t max)
{
    switch (rnd() % 5) {
    case 0:
        return 0;
    case 1:
        return 1;
    case 2:
        return max;
    case 3:
        return max - 1;
    default:
        return (uint32_t)(rnd() % (max + 1ull));
    }
}

static volatile uint8_t sink;
static void touch(const void *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sink ^= ((const uint8_t *)p)[i];
}

/* Handles of a call: `minted` and `dropped` by the library, the rest by the worker. */
struct vgp_handles {
    unsigned minted, dropped, named, unnamed, parents;
};
static struct vgp_handles handles;

/* Values received by the far side, for comparison by the cases. */
static struct {
    unsigned calls;
    CUresult result;
    struct vgp_handles handles;
    uint8_t args[ARGS_MAX] __attribute__((aligned(16)));
    uint32_t args_size;
    uint8_t reply[VGP_REPLY_SLOT_SIZE] __attribute__((aligned(16)));
    uint32_t reply_size;
} seen;

static const char *case_name;
static uint16_t case_call;
static bool case_picky; /* handlers refuse random values as malformed */
static bool case_waits; /* the call waits for its stream */
static unsigned passed, failed;
static bool case_ok;

#define CHECK(cond, what) \
    do { \
        if (!(cond)) { \
            printf("FAIL %s: %s (line %d)\n", case_name, what, __LINE__); \
            case_ok = false; \
        } \
    } while (0)

static CUresult next_result(void)
{
    return rnd() % 4 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- the worker's side ---- */

#include "vgp_roundtrip_worker.h"

static CUresult dispatch(uint16_t call, const uint8_t *args, uint32_t size, struct wrk_call *c)
{
    const struct vgp_dispatch *row = vgp_dispatch_row(call);
    struct vgp_record rec = {.size = (uint32_t)sizeof(rec) + size, .call = call};
    memset(c, 0, sizeof(*c));
    c->rec = &rec;
    c->args_size = size;
    if (!row || size < row->args_fixed)
        return wrk_malformed(c, "too short");
    /* Exactly the size of the record, so that ASan detects a read past its end. */
    uint8_t *copy = aligned_alloc(16, size ? (size + 15) & ~15u : 16);
    memcpy(copy, args, size);
    c->args = copy;
    CUresult r = row->handler(c);
    free(copy);
    return r;
}

/* ---- the guest's side: a ring of one record ---- */

static struct wrk_call now;

void vgp_stream_count(struct vgp_submit *s, uint64_t stream)
{
    (void)s, (void)stream;
}

bool vgp_submit_silent(struct vgp_submit *s, uint32_t since, uint64_t dst, uint64_t pitch, uint64_t width,
                       uint64_t height, uint32_t element, bool streamed, uint64_t stream)
{
    (void)s, (void)since, (void)dst, (void)pitch, (void)width, (void)height, (void)element, (void)streamed,
        (void)stream;
    return false;
}

/* T11: the next submission fails. */
static bool submit_fails;

CUresult vgp_submit_begin(struct vgp_submit *s, uint16_t call, uint32_t bytes, bool want_reply)
{
    (void)want_reply;
    if (submit_fails) {
        submit_fails = false;
        return CUDA_ERROR_UNKNOWN;
    }
    CHECK(bytes <= ARGS_MAX, "T6: record fits");
    CHECK(call == case_call, "its own number");
    CHECK(s->intent.observed == (case_waits ? VGP_OBSERVED_WAITS : VGP_OBSERVED_ANY) && !s->intent.posted &&
              (!case_waits || s->intent.streamed),
          "its own intent");
    memset(seen.args, 0xa5, sizeof(seen.args));
    seen.args_size = (bytes + 15) & ~15u;
    memset(seen.args, 0, bytes < 512 ? bytes : 512);
    memset(seen.args + bytes, 0, seen.args_size - bytes);
    s->args = seen.args;
    return CUDA_SUCCESS;
}

CUresult vgp_submit_publish(struct vgp_submit *s)
{
    (void)s;
    seen.calls++;
    seen.result = dispatch(case_call, seen.args, seen.args_size, &now);
    seen.handles = handles;
    CHECK(!now.malformed || case_picky, now.malformed_text);
    CHECK(now.reply_size <= sizeof(now.reply), "T6: reply fits its slot");
    memcpy(seen.reply, now.reply, now.reply_size);
    seen.reply_size = now.reply_size;
    return CUDA_SUCCESS;
}

CUresult vgp_submit_async(struct vgp_submit *s)
{
    vgp_submit_publish(s);
    return seen.result; /* for comparison by the case */
}

/* T10: offset and value of a wrong count in the next, full-size reply; value 0: none. */
static struct {
    uint32_t at, value;
} wrong_count;

CUresult vgp_submit_collect(struct vgp_submit *s, const void **payload, uint32_t *size)
{
    (void)s;
    *payload = seen.reply;
    *size = seen.reply_size;
    if (wrong_count.value != 0 && seen.reply_size != 0) {
        memcpy(seen.reply + wrong_count.at, &wrong_count.value, 4);
        *size = VGP_REPLY_SLOT_SIZE - sizeof(struct vgp_reply);
    }
    return seen.result;
}

void vgp_submit_end(struct vgp_submit *s)
{
    (void)s;
}

CUresult vgp_blob_send(const void *data, uint64_t size, uint32_t *blob_id)
{
    (void)data;
    (void)size;
    *blob_id = 1;
    return CUDA_SUCCESS;
}

/* A different ordinal on the wire, in each direction. */
int32_t vgp_device_sent(int32_t device)
{
    return device ^ 0x5a;
}

int32_t vgp_device_got(int32_t device)
{
    return device ^ 0x3c00;
}

uint64_t vgp_handle_mint(enum vgp_handle_type type)
{
    handles.minted++;
    return VGP_HANDLE(type, 7, 3);
}

bool vgp_handle_live(uint64_t handle, enum vgp_handle_type type)
{
    return VGP_HANDLE_TYPE(handle) == (unsigned)type;
}

void vgp_handle_drop(uint64_t handle)
{
    (void)handle;
    handles.dropped++;
}

/* ---- the cases ---- */

/* T8. `worker`: the generated handler names and drops the call's objects. */
static void check_handles(CUresult r, struct vgp_handles want, bool worker)
{
    CHECK(handles.minted == want.minted, "T8: a handle for each new object");
    CHECK(handles.dropped == (r == CUDA_SUCCESS ? want.unnamed : want.minted),
          "T8: handles that are given back");
    if (!worker || r != CUDA_SUCCESS)
        return;
    CHECK(seen.handles.named == want.named, "T8: new objects that the worker knows");
    CHECK(seen.handles.unnamed == want.unnamed, "T8: objects that the worker forgets");
    CHECK(seen.handles.parents == want.parents, "T8: objects that end with another");
}

/* T10, after the call with a wrong count. */
static __attribute__((unused)) void check_refused(CUresult r)
{
    CHECK(seen.reply_size == 0 || r == CUDA_ERROR_UNKNOWN, "T10: a reply beyond a maximum");
    memset(&wrong_count, 0, sizeof(wrong_count));
}

/* T10: changes the size of an image in the record by 1. */
static __attribute__((unused)) void check_image_size(uint32_t size_at)
{
    static uint8_t record[ARGS_MAX] __attribute__((aligned(16)));
    static struct wrk_call c;
    uint64_t size;

    for (int off = -1; off <= 1; off += 2) {
        memcpy(record, seen.args, seen.args_size);
        memcpy(&size, record + size_at, 8);
        size += (uint64_t)off;
        memcpy(record + size_at, &size, 8);
        dispatch(case_call, record, seen.args_size, &c);
        CHECK(c.malformed, "T10: the size of an image");
    }
}

/* T11, before and after a call that is to fail in the library. */
static void begin_not_sent(bool submission)
{
    submit_fails = submission;
    memset(&handles, 0, sizeof(handles));
}

static void check_not_sent(CUresult r)
{
    CHECK(r != CUDA_SUCCESS && !submit_fails, "T11: the result");
    CHECK(seen.calls == 1, "T11: nothing is sent");
    CHECK(handles.minted == handles.dropped, "T11: no new handle is kept");
}

static void check_flags(uint32_t flags)
{
    const uint32_t told = VGP_F_CONTEXT | VGP_F_WAIT | VGP_F_FILLS;

    CHECK((vgp_dispatch_row(case_call)->flags & told) == flags, "T9: flags of the call");
}

static void check_meaning(bool out, const char *name, unsigned meaning)
{
    const struct vgp_call_fields *f = vgp_fields_of(case_call);
    const struct vgp_field *list = f == NULL ? NULL : out ? f->out : f->in;
    const uint32_t n = f == NULL ? 0 : out ? f->out_count : f->in_count;

    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(list[i].name, name) == 0) {
            CHECK(list[i].meaning == meaning, name);
            return;
        }
    }
    CHECK(false, name);
}

static bool first_round;

static void begin_case(const char *name, uint16_t call)
{
    case_name = name;
    case_call = call;
    case_ok = true;
    case_picky = case_waits = false;
    memset(&seen, 0, offsetof(__typeof__(seen), args));
    memset(&handles, 0, sizeof(handles));
}

/* T1, T4, T5 on the record just sent by the case. */
static void end_case(void)
{
    static uint8_t good[ARGS_MAX] __attribute__((aligned(16)));
    const uint32_t size = seen.args_size;
    static struct wrk_call c;
    memcpy(good, seen.args, size);

    dispatch(case_call, good, size, &c);
    CHECK(c.malformed == now.malformed, "T1: the same record again");
    for (uint32_t n = 0; n < size; n += 16) {
        if (n > 2048 && n + 2048 < size)
            continue; /* skips the middle of a long payload */
        dispatch(case_call, good, n, &c);
        CHECK(c.malformed, "T4: a shorter record is refused");
    }
    for (uint32_t at = 0; at + 4 <= size && at < 1024; at += 4) {
        static const uint32_t bad[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff};
        for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
            uint32_t keep;
            memcpy(&keep, good + at, 4);
            memcpy(good + at, &bad[i], 4);
            dispatch(case_call, good, size, &c);
            CHECK(c.reply_size <= sizeof(c.reply), "T5: reply fits its slot");
            memcpy(good + at, &keep, 4);
        }
    }
    if (case_ok)
        passed++;
    else
        failed++;
}

/*
 * Variable part of the arguments; listed: one of several arrays of the same length; exact: the size
 * of a C type, bytes, or 0. max 0: a blob, left out.
 */
struct part {
    const char *name;
    size_t len_at;
    uint32_t elem, max;
    bool text, listed;
    size_t exact;
};

/* True if the record is refused with `elements` in part `which`, none in the rest (texts: NUL). */
static bool refused_with(const struct part *parts, unsigned n, unsigned which, uint32_t elements,
                         uint32_t fixed)
{
    static uint8_t record[2 * VGP_RECORD_MAX] __attribute__((aligned(16)));
    static struct wrk_call c;
    uint32_t size = fixed;

    memset(record, 0, sizeof(record));
    memcpy(record, seen.args, fixed);
    for (unsigned i = 0; i < n; i++) {
        const uint32_t len = i == which ? elements : parts[i].text;

        memcpy(record + parts[i].len_at, &len, 4);
        if (parts[i].text)
            memset(record + size, 'x', len - 1);
        size += (len * parts[i].elem + 7) & ~7u;
    }
    dispatch(case_call, record, (size + 15) & ~15u, &c);
    return c.malformed;
}

/* T7; at the maximum, parts of a fixed or dependent length may be refused, beyond it all are. */
static void one_over(const struct part *parts, unsigned n, uint32_t fixed)
{
    bool given = case_picky;

    for (unsigned i = 0; i < n; i++)
        given |= parts[i].exact != 0 || !parts[i].max; /* a blob must have the record's size */
    for (unsigned i = 0; i < n && first_round; i++) {
        if (!parts[i].max)
            continue;
        CHECK(given || !refused_with(parts, n, i, parts[i].max, fixed), parts[i].name);
        CHECK(refused_with(parts, n, i, parts[i].max + 1, fixed), parts[i].name);
        /* T12. No byte at all is no object. */
        CHECK(parts[i].exact < 2 || refused_with(parts, n, i, (uint32_t)parts[i].exact - 1, fixed),
              parts[i].name);
        CHECK(!parts[i].listed || refused_with(parts, n, i, 1, fixed), parts[i].name);
    }
}

#include "vgp_roundtrip_cases.h"

int main(void)
{
    fake_provider();
    const unsigned n = sizeof(cases) / sizeof(cases[0]), rounds = 24;
    for (unsigned k = 0; k < rounds; k++)
        for (unsigned i = 0; i < n; i++) {
            first_round = k == 0;
            cases[i]();
        }
    printf("roundtrip: %u calls, %u rounds\n", n, rounds);
    printf("roundtrip: %u passed, %u failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
