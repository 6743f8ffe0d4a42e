/* SPDX-License-Identifier: MIT */
/* The file of a recording: name, limit, end, rows of copies. A child process makes each recording. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "record.h"
#include "vgp_calls.h"
#include "../../protocol/vgp_recording.h"

#define STAGING (1u << 20)

static const struct lnk_tap *tap;
static struct vgp_window_shared window = {.version_major = 3, .version_minor = 4};
static struct lnk_ring ring = {.shared = &window, .staging_size = STAGING, .slot_count = 8};

bool lnk_ring_tap(struct lnk_ring *r, const struct lnk_tap *t)
{
    (void)r;
    tap = t;
    return true;
}

static char folder[] = "/tmp/vgpu-record.XXXXXX", path[64];
static pid_t child;
static char said[4096];

/* Records what the body does; what is said on standard error is in `said`. */
static void recorded(const char *name, const char *limit, void (*body)(void))
{
    int p[2], status;
    ssize_t n;

    assert_int_equal(pipe(p), 0);
    child = fork();
    if (child == 0) {
        dup2(p[1], STDERR_FILENO);
        setenv("VGPU_RECORD", name, 1);
        limit ? setenv("VGPU_RECORD_LIMIT", limit, 1) : unsetenv("VGPU_RECORD_LIMIT");
        ring.staging = calloc(1, STAGING);
        for (unsigned i = 0; i < STAGING; i++)
            ring.staging[i] = (uint8_t)(i * 7 + i / 256);
        lnk_record_start(&ring);
        if (body != NULL && lnk_record_on)
            body();
        lnk_record_end();
        _exit(0);
    }
    close(p[1]);
    said[0] = '\0';
    for (size_t have = 0; (n = read(p[0], said + have, sizeof(said) - 1 - have)) > 0; have += (size_t)n)
        said[have + (size_t)n] = '\0';
    close(p[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static uint8_t file[4 << 20];
static size_t file_size;

static void load(const char *name)
{
    int fd = open(name, O_RDONLY);
    ssize_t n;

    assert_true(fd >= 0);
    n = read(fd, file, sizeof(file));
    assert_true(n >= (ssize_t)sizeof(struct vgp_recording_header));
    file_size = (size_t)n;
    close(fd);
    unlink(name);
}

/* The event of that number; NULL: there are not so many. */
static const struct vgp_event *event(unsigned number)
{
    size_t at = sizeof(struct vgp_recording_header);

    for (; at < file_size; number--) {
        const struct vgp_event *e = (const void *)(file + at);

        assert_true(e->size >= sizeof(*e) && e->size % 8 == 0 && e->size <= file_size - at);
        if (number == 0)
            return e;
        at += e->size;
    }
    assert_int_equal(at, file_size);
    return NULL;
}

static void ended(unsigned number, enum vgp_end_reason reason, uint64_t calls)
{
    const struct vgp_event *e = event(number);
    const struct vgp_event_end *end = (const void *)(e + 1);

    assert_non_null(e);
    assert_int_equal(e->type, VGP_EVENT_END);
    assert_int_equal(end->reason, reason);
    assert_int_equal(end->calls, calls);
    assert_null(event(number + 1));
}

static void call(uint16_t number, uint32_t slot, const void *args, uint32_t size)
{
    struct {
        struct vgp_record record;
        uint8_t args[128];
    } r = {.record = {.size = (uint32_t)sizeof(r.record) + ((size + 15) & ~15u),
                      .call = number,
                      .reply_slot = slot}};

    memcpy(r.args, args, size);
    tap->call(&ring, &r.record);
}

static void ping(void)
{
    struct vgp_args_vgpPing a = {.value = 5};

    call(VGP_vgpPing, 0, &a, sizeof(a));
    tap->reply(&ring, 0, CUDA_SUCCESS, &a, sizeof(a), false);
}

static void test_names(void **state)
{
    const struct vgp_recording_header *h = (const void *)file;
    char name[128], want[128];

    (void)state;
    recorded(path, NULL, ping);
    load(path);
    assert_string_equal(said, "");
    assert_memory_equal(h->magic, VGP_RECORDING_MAGIC, 8);
    assert_true(h->protocol_major == 3 && h->protocol_minor == 4 && h->staging_size == STAGING);
    assert_true(h->reply_slots == 8 && h->pid == (uint32_t)child);
    assert_string_equal(h->program, program_invocation_short_name);
    assert_int_equal(event(0)->type, VGP_EVENT_CALL);
    assert_int_equal(event(1)->type, VGP_EVENT_REPLY);
    assert_int_equal(event(1)->serial, 1);
    ended(2, VGP_END_EXIT, 1);
    /* %p is the process, wherever it stands; any other % is itself. */
    snprintf(name, sizeof(name), "%s/%%p-%%p.%%d", folder);
    recorded(name, NULL, ping);
    snprintf(want, sizeof(want), "%s/%d-%d.%%d", folder, (int)child, (int)child);
    load(want);
    /* What is there already is another's: it stays, and the process is added to the name. */
    recorded(path, NULL, ping);
    recorded(path, NULL, NULL);
    snprintf(want, sizeof(want), "%s.%d", path, (int)child);
    load(want);
    ended(0, VGP_END_EXIT, 0);
    load(path);
    ended(2, VGP_END_EXIT, 1);
    recorded("/nowhere/file", NULL, ping);
    assert_non_null(strstr(said, "cannot create /nowhere/file: No such file"));
}

static void many(void)
{
    for (unsigned i = 0; i < 40000; i++)
        ping();
}

/* A size with each unit; the file is at most so large, and ends with its end and the number of its calls. */
static void test_limits(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"4096", 4096},    {"4097", 4097},  {"5000", 5000}, {"1K", 1 << 10},
                {"64K", 64 << 10}, {"1M", 1 << 20}, {"2M", 2 << 20}};
    static const char *const large[] = {NULL, "", "1G", "100G", "1073741824"},
                             *const bad[] = {"0", "-1", "K", "1KK", "1k", "1T", "1.5K", " ", "1073741825K"};
    uint64_t calls;
    unsigned n;

    (void)state;
    for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        recorded(path, good[i].text, many);
        load(path);
        assert_true(file_size <= good[i].bytes && file_size + 256 > good[i].bytes);
        for (calls = n = 0; event(n + 1) != NULL; n++)
            calls += event(n)->type == VGP_EVENT_CALL;
        ended(n, VGP_END_LIMIT, calls);
        assert_non_null(strstr(said, "the recording ends here"));
    }
    for (unsigned i = 0; i < sizeof(large) / sizeof(large[0]); i++) {
        recorded(path, large[i], ping);
        assert_string_equal(said, "");
        load(path);
        ended(2, VGP_END_EXIT, 1);
    }
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        recorded(path, bad[i], ping);
        assert_non_null(strstr(said, "is no size"));
        assert_int_equal(access(path, F_OK), -1);
    }
}

static const struct vgp_args_vgpCopy rows = {.dstKind = VGP_COPY_STAGING,
                                             .srcKind = VGP_COPY_STAGING,
                                             .src = 1000,
                                             .srcPitch = 100,
                                             .srcHeight = 9,
                                             .dst = 50000,
                                             .dstPitch = 300,
                                             .dstHeight = 5,
                                             .widthBytes = 37,
                                             .height = 4,
                                             .depth = 3,
                                             .when = VGP_WHEN_COMPLETE};

static void copies(void)
{
    struct vgp_args_vgpCopy issued = rows;

    issued.when = VGP_WHEN_ISSUED;
    call(VGP_vgpCopy, 1, &rows, sizeof(rows));
    tap->reply(&ring, 1, CUDA_SUCCESS, NULL, 0, false);
    call(VGP_vgpCopy, 1, &issued, sizeof(issued));
    tap->reply(&ring, 1, CUDA_SUCCESS, NULL, 0, false);
    call(VGP_vgpCopy, 2, &rows, sizeof(rows));
    tap->reply(&ring, 2, CUDA_ERROR_INVALID_VALUE, NULL, 0, false);
}

static void is_packed(const uint8_t *bytes, uint64_t from, uint64_t pitch, uint64_t height)
{
    for (uint64_t z = 0; z < rows.depth; z++) {
        for (uint64_t y = 0; y < rows.height; y++) {
            for (uint64_t x = 0; x < rows.widthBytes; x++, bytes++) {
                const uint64_t at = from + (z * height + y) * pitch + x;

                assert_int_equal(*bytes, (uint8_t)(at * 7 + at / 256));
            }
        }
    }
}

/* Rows of each side by its own pitch and height; a result only of a copy that is complete and good. */
static void test_copies(void **state)
{
    const uint64_t bytes = rows.widthBytes * rows.height * rows.depth;
    const struct vgp_event_reply *r;
    const struct vgp_event *e;

    (void)state;
    recorded(path, NULL, copies);
    load(path);
    e = event(0);
    assert_int_equal(e->size, vgp_pad_to_8(sizeof(*e) + sizeof(struct vgp_record) + sizeof(rows) + bytes));
    is_packed((const uint8_t *)(e + 1) + sizeof(struct vgp_record) + sizeof(rows), rows.src, rows.srcPitch,
              rows.srcHeight);
    for (unsigned i = 0; i < 3; i++) {
        e = event(2 * i + 1);
        r = (const void *)(e + 1);
        assert_int_equal(e->type, VGP_EVENT_REPLY);
        assert_int_equal(e->serial, i + 1);
        assert_int_equal(r->result, i == 2 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
        assert_int_equal(r->data, i == 0 ? bytes : 0);
        if (i == 0)
            is_packed((const uint8_t *)(r + 1), rows.dst, rows.dstPitch, rows.dstHeight);
    }
    ended(6, VGP_END_EXIT, 3);
}

static void forks(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        lnk_record_forked();
        ping();
        lnk_record_end();
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    ping();
}

/* Of a child nothing is in its parent's file. */
static void test_fork(void **state)
{
    (void)state;
    recorded(path, NULL, forks);
    assert_string_equal(said, "");
    load(path);
    ended(2, VGP_END_EXIT, 1);
}

static int setup(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/file", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_copies), cmocka_unit_test(test_fork)};

    return cmocka_run_group_tests_name("record_file", tests, setup, teardown);
}
