// SPDX-License-Identifier: MIT
/* Records and tails that are invalid in one way each: each must kill the client. */
#include "fuzz.h"

#include <string.h>

/* Attacks on a record header: they change a valid ping record, or the tail. */
#define PING_BYTES ((uint32_t)(sizeof(struct vgp_record) + 16))

#define HEADER(ident, statement) \
    static void a_##ident(struct raw *r) \
    { \
        struct vgp_record *rec = fuzz_ping(r, 0); \
        statement; \
        raw_publish(r); \
    }
HEADER(size_zero, rec->size = 0)
HEADER(size_below_header, rec->size = 16)
HEADER(size_header_only, rec->size = sizeof(*rec))
HEADER(size_misaligned, rec->size = PING_BYTES + 4)
HEADER(size_past_tail, rec->size = PING_BYTES + 16)
HEADER(size_past_maximum, rec->size = VGP_RECORD_MAX + 16)
HEADER(size_past_ring, rec->size = r->ring_size + 16)
HEADER(size_all_ones, rec->size = ~0u)
HEADER(size_top_bit, rec->size = 0x80000000u)
HEADER(call_zero, rec->call = 0)
HEADER(call_unknown, rec->call = VGP_CALL_LIMIT)
HEADER(call_unknown_high, rec->call = 0xfffe)
HEADER(flags, rec->flags = 1)
HEADER(padding, rec->padding = 1)
HEADER(slot_past, rec->reply_slot = r->slots)
HEADER(slot_high, rec->reply_slot = 0x7fffffff)
HEADER(slot_missing, rec->reply_slot = VGP_NO_REPLY)
HEADER(pad_in_the_middle, rec->call = VGP_CALL_PAD)

static void a_tail_back(struct raw *r)
{
    raw_ping(r);
    raw_publish_tail(r, r->tail - 16);
}
static void a_tail_zero(struct raw *r)
{
    raw_ping(r);
    raw_publish_tail(r, 0);
}
static void a_tail_beyond(struct raw *r)
{
    fuzz_ping(r, 0);
    raw_publish_tail(r, r->tail + r->ring_size);
}
static void a_tail_all_ones(struct raw *r)
{
    raw_publish_tail(r, ~0ull);
}
static void a_tail_misaligned(struct raw *r)
{
    fuzz_ping(r, 0);
    raw_publish_tail(r, r->tail + 8);
}
static void a_tail_half_header(struct raw *r)
{
    fuzz_ping(r, 0);
    raw_publish_tail(r, 16);
}
static void a_wraps_inside_record(struct raw *r)
{
    /*
     * A record that begins 16 bytes before the end of the ring and claims to continue at its start.
     */
    while (((uint32_t)r->tail & (r->ring_size - 1)) != r->ring_size - PING_BYTES && !raw_is_dead(r)) {
        fuzz_ping(r, 0);
        if ((r->tail & 0xffff) < PING_BYTES) {
            raw_publish(r);
            raw_settle(r);
        }
        if (((uint32_t)r->tail & (r->ring_size - 1)) > r->ring_size - PING_BYTES)
            break;
    }
    raw_publish(r);
    raw_settle(r);
    uint32_t at = (uint32_t)r->tail & (r->ring_size - 1);
    struct vgp_record *rec = (void *)(r->ring + at);
    uint32_t left = r->ring_size - at;
    memset(rec, 0, left < sizeof(*rec) ? left : sizeof(*rec));
    rec->size = left + 64;
    rec->call = VGP_vgpPing;
    raw_publish_tail(r, r->tail + left + 64);
}
static void a_zeros(struct raw *r)
{
    memset(r->ring, 0, 4096);
    raw_publish_tail(r, 4096);
}
static void a_ones(struct raw *r)
{
    memset(r->ring, 0xff, 4096);
    raw_publish_tail(r, 4096);
}
static void a_args_padding(struct raw *r)
{
    struct vgp_args_vgpDeviceInfo a = {.ordinal = 0};
    a.pad4[2] = 1;
    raw_put(r, VGP_vgpDeviceInfo, &a, sizeof(a), 0);
    raw_publish(r);
}
static void a_string_length(struct raw *r)
{
    struct vgp_args_vgpHello a = {.versionMajor = 1, .label_len = 64};
    raw_put(r, VGP_vgpHello, &a, sizeof(a), 0);
    raw_publish(r);
}
static void a_string_unterminated(struct raw *r)
{
    struct {
        struct vgp_args_vgpHello a;
        char label[16];
    } m = {.a = {.versionMajor = 1, .label_len = 16}};
    memset(m.label, 'x', sizeof(m.label));
    raw_put(r, VGP_vgpHello, &m, sizeof(m), 0);
    raw_publish(r);
}
static void a_blob_total(struct raw *r)
{
    struct {
        struct vgp_args_vgpBlobAppend a;
        uint8_t data[16];
    } m = {.a = {.blobId = 1, .totalSize = ~0ull, .data_len = 16}};
    raw_put(r, VGP_vgpBlobAppend, &m, sizeof(m), VGP_NO_REPLY);
    raw_publish(r);
}
static void a_blob_more_than_total(struct raw *r)
{
    struct {
        struct vgp_args_vgpBlobAppend a;
        uint8_t data[16];
    } m = {.a = {.blobId = 1, .totalSize = 8, .data_len = 16}};
    raw_put(r, VGP_vgpBlobAppend, &m, sizeof(m), VGP_NO_REPLY);
    raw_publish(r);
}

static const struct attack {
    const char *name;
    void (*run)(struct raw *r);
} attacks[] = {
#define A(x) \
    { \
#x, a_##x \
    }
    A(size_zero),
    A(size_below_header),
    A(size_header_only),
    A(size_misaligned),
    A(size_past_tail),
    A(size_past_maximum),
    A(size_past_ring),
    A(size_all_ones),
    A(size_top_bit),
    A(call_zero),
    A(call_unknown),
    A(call_unknown_high),
    A(flags),
    A(padding),
    A(slot_past),
    A(slot_high),
    A(slot_missing),
    A(pad_in_the_middle),
    A(tail_back),
    A(tail_zero),
    A(tail_beyond),
    A(tail_all_ones),
    A(tail_misaligned),
    A(tail_half_header),
    A(wraps_inside_record),
    A(zeros),
    A(ones),
    A(args_padding),
    A(string_length),
    A(string_unterminated),
    A(blob_total),
    A(blob_more_than_total),
};

static const char *one_attack(const struct attack *a)
{
    struct raw r;
    if (raw_open(&r, fuzz_path))
        return "no client";
    a->run(&r);
    const char *what = raw_wait_dead(&r);
    if (!what)
        printf("fuzz.%s dead: %.200s\n", a->name, (const char *)r.w->dead_text);
    raw_close(&r);
    return what;
}

void fuzz_records(void)
{
    for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++)
        if (fuzz_wanted(attacks[i].name))
            fuzz_result(attacks[i].name, one_attack(&attacks[i]));
}
