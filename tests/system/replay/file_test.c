/* SPDX-License-Identifier: MIT */
/*
 * The reader of recordings with invalid input: a recording with one event of each type is truncated
 * at every byte, every byte is changed in several ways, and plausible false values are tried singly.
 * Each file is read to its end or refused with a reason; the sanitizers check memory accesses.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../../userspace/vgpu/replay/replay.h"

static uint8_t file[65536];
static size_t used;
static int passed, failed;
static char path[4096];

static void result(const char *name, bool good)
{
    printf("%s%s\n", good ? "ok - " : "FAIL: ", name);
    if (good)
        passed++;
    else
        failed++;
}

static void put(const void *data, size_t size)
{
    if (size != 0)
        memcpy(file + used, data, size);
    used += size;
    assert(used < sizeof(file));
}

static void event(uint16_t type, uint64_t serial, const void *head, size_t head_size, const void *body,
                  size_t body_size)
{
    static const uint8_t zero[8];
    size_t exact = sizeof(struct vgp_event) + head_size + body_size;
    struct vgp_event e = {.size = (uint32_t)vgp_pad_to_8(exact), .type = type, .serial = serial};

    put(&e, sizeof(e));
    put(head, head_size);
    put(body, body_size);
    put(zero, e.size - exact);
}

static void call(uint64_t serial, uint16_t number, uint32_t slot, const void *args, size_t size,
                 const void *data, size_t data_size)
{
    struct {
        struct vgp_record r;
        uint8_t args[512];
    } one = {.r = {.size = (uint32_t)((sizeof(one.r) + size + 15) & ~15u),
                   .call = number,
                   .reply_slot = slot,
                   .reply_seq = 1}};

    memcpy(one.args, args, size);
    event(VGP_EVENT_CALL, serial, &one, one.r.size, data, data_size);
}

static void reply(uint64_t serial, int32_t code, const void *payload, uint32_t size, const void *data,
                  uint32_t data_size)
{
    struct {
        struct vgp_event_reply h;
        uint8_t payload[512];
    } one = {.h = {code, size, data_size, 0}};

    memcpy(one.payload, payload, size);
    event(VGP_EVENT_REPLY, serial, &one, sizeof(one.h) + vgp_pad_to_8(size), data, data_size);
}

static void build(void)
{
    struct vgp_recording_header h = {.magic = VGP_RECORDING_MAGIC,
                                     .version = VGP_RECORDING_VERSION,
                                     .protocol_major = VGP_VERSION_MAJOR,
                                     .staging_size = 1 << 20,
                                     .reply_slots = 64,
                                     .program = "test"};
    struct {
        struct vgp_args_vgpHello a;
        char label[8];
    } hello = {{1, 1, 5, {0}}, "name"};
    struct {
        struct vgp_ret_vgpHello r;
        char provider[8];
    } helloed = {.r = {.provider_len = 5}, .provider = "soft"};
    struct vgp_args_vgpRegionRegister region = {.region = 3, .va = 0x7f0000000000, .length = 65536};
    struct vgp_ret_vgpRegionRegister registered = {0x7f0000000000};
    struct vgp_args_vgpCopy up = {.dstKind = VGP_COPY_DEVICE,
                                  .srcKind = VGP_COPY_STAGING,
                                  .dst = 0x2000,
                                  .dstPitch = 64,
                                  .dstHeight = 2,
                                  .src = 128,
                                  .srcPitch = 32,
                                  .srcHeight = 2,
                                  .widthBytes = 16,
                                  .height = 2,
                                  .depth = 1,
                                  .when = VGP_WHEN_COMPLETE};
    struct vgp_args_vgpCopy down = up;
    struct vgp_ret_vgpCopy copied = {0};
    struct vgp_event_notify note = {VGP_NOTIFY_HOST_FUNC, 12, 7};
    struct vgp_event_done done = {1, 2};
    struct vgp_event_host host = {3, 24, 4096};
    struct vgp_args_vgpRegionUnregister gone = {.region = 3};
    struct vgp_event_end end = {.reason = VGP_END_EXIT, .calls = 5};
    uint8_t bytes[64] = "0123456789";

    down.dstKind = VGP_COPY_STAGING;
    down.srcKind = VGP_COPY_DEVICE;
    down.dst = 128;
    down.src = 0x2000;
    used = 0;
    put(&h, sizeof(h));
    call(1, VGP_vgpHello, 0, &hello, sizeof(hello.a) + 8, NULL, 0);
    reply(1, 0, &helloed, sizeof(helloed), NULL, 0);
    call(2, VGP_vgpRegionRegister, 1, &region, sizeof(region), NULL, 0);
    reply(2, 0, &registered, sizeof(registered), NULL, 0);
    event(VGP_EVENT_HOST_WRITE, 0, &host, sizeof(host), bytes, 24);
    call(3, VGP_vgpCopy, 2, &up, sizeof(up), bytes, 32);
    call(4, VGP_vgpCopy, 3, &down, sizeof(down), NULL, 0);
    reply(4, 0, &copied, sizeof(copied), bytes, 32);
    event(VGP_EVENT_HOST_RESULT, 0, &host, sizeof(host), bytes, 24);
    event(VGP_EVENT_NOTIFY, 0, &note, sizeof(note), bytes, 12);
    event(VGP_EVENT_HOST_DONE, 0, &done, sizeof(done), NULL, 0);
    call(5, VGP_vgpRegionUnregister, 1, &gone, sizeof(gone), NULL, 0);
    reply(5, 0, bytes, 0, NULL, 0);
    event(VGP_EVENT_END, 0, &end, sizeof(end), NULL, 0);
}

/* Reads a whole file. 0: to its end; -1: refused, with a reason that names the file. */
static int read_all(const uint8_t *data, size_t size, bool partial, char *why)
{
    struct replay_file *f = malloc(sizeof(*f));
    FILE *out = fopen(path, "wb");
    struct replay_event e;
    int rc = -1;

    assert(f != NULL && out != NULL);
    assert(fwrite(data, 1, size, out) == size);
    fclose(out);
    if (replay_file_open(f, path)) {
        while ((rc = replay_file_next(f, &e, partial)) == 1)
            ;
    }
    if (rc != 0)
        assert(strstr(f->why, path) != NULL);
    strcpy(why, f->why);
    replay_file_close(f);
    free(f);
    return rc;
}

static void cuts(void)
{
    size_t whole = used;
    char why[256];
    bool good = read_all(file, whole, false, why) == 0;

    if (!good)
        printf("%s\n", why);
    result("a recording with an event of each type is read", good);
    good = true;
    for (size_t n = 0; n < whole; n++) {
        if (read_all(file, n, false, why) != -1) {
            printf("cut at %zu: taken\n", n);
            good = false;
        }
    }
    result("cut at any byte it is refused", good);
    good = true;
    for (size_t n = sizeof(struct vgp_recording_header); n < whole; n++) {
        if (read_all(file, n, true, why) != 0) {
            printf("cut at %zu: %s\n", n, why);
            good = false;
        }
    }
    result("with --partial, cut at any byte behind its header, it is read as far as it goes", good);
}

static void damages(void)
{
    static const uint8_t masks[] = {0x01, 0x80, 0xff};
    size_t taken = 0, refused = 0;
    char why[256];

    for (size_t i = 0; i < used; i++) {
        for (size_t k = 0; k < sizeof(masks); k++) {
            file[i] ^= masks[k];
            if (read_all(file, used, k % 2 == 1, why) == 0)
                taken++; /* contents may have any value */
            else
                refused++;
            file[i] ^= masks[k];
        }
    }
    printf("%zu damaged recordings: %zu refused, %zu read (what was damaged is contents)\n", taken + refused,
           refused, taken);
    result("a damaged byte anywhere does no harm", refused > used / 2);
}

struct lie {
    const char *name;
    size_t back; /* offset from the start of the wanted event */
    uint16_t type;
    uint64_t serial;
    uint8_t size;
    uint64_t value;
    const char *why;
};

/* Returns the offset of an event's first byte. */
static size_t find(uint16_t type, uint64_t serial)
{
    for (size_t at = sizeof(struct vgp_recording_header); at < used;) {
        struct vgp_event e;

        memcpy(&e, file + at, sizeof(e));
        if (e.type == type && e.serial == serial)
            return at;
        at += e.size;
    }
    return 0;
}

#define IN_RECORD(field) (16 + __builtin_offsetof(struct vgp_record, field))
#define IN_ARGS(call, field) (16 + 32 + __builtin_offsetof(struct vgp_args_##call, field))
#define IN_REPLY(field) (16 + __builtin_offsetof(struct vgp_event_reply, field))

static void lies(void)
{
    static const struct lie table[] = {
        {"a record larger than its event", IN_RECORD(size), VGP_EVENT_CALL, 1, 4, 65536, "proper header"},
        {"a call that nobody knows", IN_RECORD(call), VGP_EVENT_CALL, 1, 2, 0x7ffe, "does not know"},
        {"a reply slot beyond the last", IN_RECORD(reply_slot), VGP_EVENT_CALL, 1, 4, 64, "reply slot"},
        {"a text longer than its record", IN_ARGS(vgpHello, label_len), VGP_EVENT_CALL, 1, 4, 60,
         "do not fit"},
        {"a text without its end", IN_ARGS(vgpHello, label_len), VGP_EVENT_CALL, 1, 4, 3, "do not fit"},
        {"a call that was left out", 8, VGP_EVENT_CALL, 3, 8, 9, "follows call"},
        {"a copy from beyond the staging area", IN_ARGS(vgpCopy, src), VGP_EVENT_CALL, 3, 8, 1 << 20,
         "outside of the staging"},
        {"a copy whose size wraps", IN_ARGS(vgpCopy, srcPitch), VGP_EVENT_CALL, 3, 8, UINT64_MAX,
         "outside of the staging"},
        {"a copy with too little data", IN_ARGS(vgpCopy, widthBytes), VGP_EVENT_CALL, 3, 8, 32,
         "bytes of data"},
        {"a copy of no rows", IN_ARGS(vgpCopy, height), VGP_EVENT_CALL, 4, 8, 0, "outside of the staging"},
        {"memory that wraps", IN_ARGS(vgpRegionRegister, va), VGP_EVENT_CALL, 2, 8,
         UINT64_C(0xfffffffffffff000), "registered"},
        {"a reply to nobody", 8, VGP_EVENT_REPLY, 4, 8, 2, "waits for none"},
        {"a reply with a result that is none", IN_REPLY(result), VGP_EVENT_REPLY, 4, 4, 70000, "wrong sizes"},
        {"a reply that claims more than it has", IN_REPLY(payload), VGP_EVENT_REPLY, 1, 4, 4000,
         "wrong sizes"},
        {"a reply with data of another size", IN_REPLY(data), VGP_EVENT_REPLY, 4, 4, 31, "did not ask for"},
        {"bytes beyond registered memory", 16 + 8, VGP_EVENT_HOST_WRITE, 0, 8, 65530, "not registered"},
        {"bytes of memory that is not there", 16, VGP_EVENT_HOST_RESULT, 0, 4, 9, "not registered"},
        {"a host function that cannot be", 16, VGP_EVENT_HOST_DONE, 0, 4, VGP_HOST_RUNS, "slot"},
        {"an event that is longer than the file", 0, VGP_EVENT_END, 0, 4, 64, "cut off"},
        {"an event of a type that nobody knows", 4, VGP_EVENT_HOST_DONE, 0, 2, 99, "does not know"},
        {"an end that counts wrong", 16 + 8, VGP_EVENT_END, 0, 8, 4, "does not fit"},
    };
    char why[256];

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        size_t at = find(table[i].type, table[i].serial);
        int rc;

        memcpy(file + at + table[i].back, &table[i].value, table[i].size);
        rc = read_all(file, used, false, why);
        if (rc != -1 || strstr(why, table[i].why) == NULL)
            printf("wanted: %s; got: %s\n", table[i].why, rc == 0 ? "taken" : why);
        result(table[i].name, rc == -1 && strstr(why, table[i].why) != NULL);
        build();
    }
}

/*
 * Rows of a copy to the host are placed by its pitch: their extent must not wrap, or rows lie
 * elsewhere.
 */
static void rows_that_wrap(void)
{
    size_t at = find(VGP_EVENT_CALL, 4);
    uint32_t kind = VGP_COPY_HOST;
    uint64_t pitch = UINT64_MAX - 15; /* times one row, plus the 16 bytes of the second: 0 */
    char why[256];
    int rc;

    memcpy(file + at + IN_ARGS(vgpCopy, dstKind), &kind, sizeof(kind));
    result("a copy to the host is taken", read_all(file, used, false, why) == 0);
    memcpy(file + at + IN_ARGS(vgpCopy, dstPitch), &pitch, sizeof(pitch));
    rc = read_all(file, used, false, why);
    result("a copy to the host whose extent wraps", rc == -1 && strstr(why, "did not ask for") != NULL);
    build();
}

int main(int argc, char **argv)
{
    assert(argc == 2);
    snprintf(path, sizeof(path), "%s/replay_file_test.%d", argv[1], (int)getpid());
    build();
    cuts();
    damages();
    lies();
    rows_that_wrap();
    unlink(path);
    printf("replay_file: %d passed, %d failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
