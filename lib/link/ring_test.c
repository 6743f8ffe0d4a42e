/* SPDX-License-Identifier: MIT */
/*
 * The ring client against a worker thread in the same process: wrap-around, a full ring, many
 * threads, sleeping and waking on both sides, a dead worker, hostile headers and notifications.
 */
#define _GNU_SOURCE
#include "ring_test_worker.h"

/* ---- helpers -------------------------------------------------------------------------------- */

static CUresult count(uint32_t value, uint32_t thread, uint32_t number, uint32_t bytes)
{
    struct lnk_call c;
    CUresult r = lnk_ring_begin(&f.r, &c, CALL_COUNT, bytes, LNK_REPLY_NONE, 0, 0);

    if (r != CUDA_SUCCESS)
        return r;
    memcpy(c.args, (uint32_t[]){value, thread, number}, 12);
    lnk_ring_publish(&c);
    return CUDA_SUCCESS;
}

static CUresult echo(const void *data, uint32_t n, void *back, uint32_t *back_n)
{
    struct lnk_call c;
    const void *payload;
    CUresult r = lnk_ring_begin(&f.r, &c, CALL_ECHO, n, LNK_REPLY_WAIT, 0, 0);

    if (r != CUDA_SUCCESS)
        return r;
    memcpy(c.args, data, n);
    lnk_ring_publish(&c);
    r = lnk_ring_collect(&c, &payload, back_n);
    if (r == CUDA_SUCCESS)
        memcpy(back, payload, *back_n);
    lnk_ring_end(&c);
    return r;
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void test_round_trip(void **state)
{
    uint8_t out[1024], in[64];
    uint32_t n = 0;

    (void)state;
    for (uint32_t i = 0; i < 3000; i++) {
        memset(in, (int)i, sizeof(in));
        assert_int_equal(echo(in, 16 + i % 48, out, &n), 0);
        assert_true(n >= 16 + i % 48 && n < 16 + i % 48 + 16);
        assert_memory_equal(in, out, 16 + i % 48);
    }
}

static void test_wrap_and_full(void **state)
{
    uint64_t sum = 0;

    (void)state;
    /* Sizes that end at every distance from the end of the ring; far more than fits at once. */
    for (uint32_t i = 0; i < 3000; i++) {
        assert_int_equal(count(i, 0, i, 12 + (i * 2654435761u) % 3000), 0);
        sum += i;
    }
    echo("x", 1, noted, &(uint32_t){0});
    assert_int_equal(f.sum, sum);
    assert_false(f.order_bad);
}

static void test_full_ring_slow_worker(void **state)
{
    (void)state;
    f.slow = true;
    for (uint32_t i = 0; i < 400; i++)
        assert_int_equal(count(1, 0, i, 4000), 0);
    f.slow = false;
    echo("x", 1, noted, &(uint32_t){0});
    assert_int_equal(f.sum, 400);
}

static void test_record_limit(void **state)
{
    struct lnk_call c;
    uint32_t max = VGP_RECORD_MAX - sizeof(struct vgp_record);

    (void)state;
    for (int i = 0; i < 5; i++) { /* each needs most of the ring: filler and record apart */
        assert_int_equal(count(1, 0, (uint32_t)i * 3, max - 1), 0);
        assert_int_equal(count(1, 0, (uint32_t)i * 3 + 1, max), 0);
        assert_int_equal(count(1, 0, (uint32_t)i * 3 + 2, 12), 0);
    }
    assert_int_equal(lnk_ring_begin(&f.r, &c, CALL_COUNT, max + 1, LNK_REPLY_NONE, 0, 0),
                     CUDA_ERROR_INVALID_VALUE);
    echo("x", 1, noted, &(uint32_t){0});
    assert_int_equal(f.sum, 15);
}

static unsigned tapped;

/* Sees a call while its worker writes all over the ring, which is the worker's memory, too. */
static void tap_call(struct lnk_ring *r, const struct vgp_record *record)
{
    struct vgp_record was = *record;

    memset(r->ring + (r->tail & (r->ring_size - 1)), 0xff, record->size);
    assert_memory_equal(record, &was, sizeof(was));
    assert_int_equal(record->call, CALL_ECHO);
    assert_true(record->size >= sizeof(was) + 16 && record->size < 100);
    tapped++;
}

static void tap_reply(struct lnk_ring *r, uint32_t slot, CUresult result, const void *payload, uint32_t size,
                      bool dead)
{
    (void)r, (void)slot, (void)result, (void)payload, (void)size, (void)dead;
}

/* What a tap is shown cannot be changed by the worker, and is what the worker gets. */
static void test_tap(void **state)
{
    static const struct lnk_tap tap = {.call = tap_call, .reply = tap_reply};

    assert_true(lnk_ring_tap(&f.r, &tap));
    test_round_trip(state);
    assert_int_equal(tapped, 3000);
    free(f.r.tapped);
}

static void *producer(void *arg)
{
    uint32_t id = (uint32_t)(uintptr_t)arg;
    uintptr_t bad = 0;

    for (uint32_t i = 0; i < 1000; i++) {
        bad += count(1, id, i, 12 + (i * 40503u + id) % 500) != CUDA_SUCCESS;
        if (i % 8 == 0) {
            uint32_t word[2] = {id, i}, back[256], n = 0;

            bad += echo(word, sizeof(word), back, &n) != CUDA_SUCCESS;
            bad += memcmp(word, back, sizeof(word)) != 0;
        }
    }
    return (void *)bad;
}

static void test_threads(void **state)
{
    pthread_t t[8]; /* as many as there are reply slots, and the main thread: they wait their turn */

    (void)state;
    for (uintptr_t i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&t[i], NULL, producer, (void *)i), 0);
    for (int i = 0; i < 8; i++) {
        void *bad;

        pthread_join(t[i], &bad);
        assert_null(bad);
    }
    echo("x", 1, noted, &(uint32_t){0});
    assert_int_equal(f.sum, 8 * 1000);
    assert_false(f.order_bad);
}

static void test_sleep_and_wake(void **state)
{
    uint32_t back[256], n;

    (void)state;
    f.slow = true; /* replies later than any polling */
    for (int i = 0; i < 50; i++) {
        assert_int_equal(echo("ab", 2, back, &n), 0);
        usleep(1000); /* the worker goes idle: the doorbell must reach it */
    }
    assert_true(f.sleeps > 0);
    assert_true(f.doorbells >= 25);
}

static void test_many_outstanding(void **state)
{
    struct lnk_call c[8], extra;
    const void *payload;
    uint32_t n;

    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(lnk_ring_begin(&f.r, &c[i], CALL_ECHO, 4, LNK_REPLY_WAIT, 0, 0), 0);
        memcpy(c[i].args, &i, 4);
        lnk_ring_publish(&c[i]);
    }
    assert_int_equal(lnk_ring_begin(&f.r, &extra, CALL_ECHO, 4, LNK_REPLY_TRY, 0, 0), CUDA_ERROR_NOT_READY);
    for (uint32_t i = 8; i-- > 0;) {
        assert_int_equal(lnk_ring_collect(&c[i], &payload, &n), 0);
        assert_memory_equal(payload, &i, 4);
        assert_true(lnk_ring_ready(&c[i]));
        lnk_ring_end(&c[i]);
    }
    assert_int_equal(lnk_ring_begin(&f.r, &extra, CALL_ECHO, 4, LNK_REPLY_TRY, 0, 0), 0);
    lnk_ring_end(&extra); /* dropped before publishing: slot and record are free again */
    assert_int_equal(echo("x", 1, noted, &n), 0);
}

static void *wait_for_never(void *arg)
{
    struct lnk_call c;
    const void *payload;
    uint32_t n;
    CUresult r;

    (void)arg;
    r = lnk_ring_begin(&f.r, &c, CALL_NEVER, 4, LNK_REPLY_WAIT, 0, 0);
    if (r == CUDA_SUCCESS) {
        lnk_ring_publish(&c);
        r = lnk_ring_collect(&c, &payload, &n);
        lnk_ring_end(&c);
    }
    return (void *)(uintptr_t)r;
}

static void test_dead_worker(void **state)
{
    pthread_t t[4];
    struct lnk_call c;
    void *r;

    (void)state;
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, wait_for_never, NULL);
    usleep(20000);
    assert_int_equal(lnk_ring_begin(&f.r, &c, CALL_DIE, 4, LNK_REPLY_NONE, 0, 0), 0);
    lnk_ring_publish(&c);
    for (int i = 0; i < 4; i++) { /* every waiter returns, with the sticky error */
        pthread_join(t[i], &r);
        assert_int_equal((uintptr_t)r, CUDA_ERROR_ILLEGAL_ADDRESS);
    }
    assert_int_equal(count(1, 0, 0, 12), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(lnk_ring_dead(&f.r), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void put_notify(uint64_t *tail, uint16_t type, const char *text);

/* What the worker wrote before its end comes out before the wait returns. */
static void test_last_words(void **state)
{
    uint64_t tail = 0;
    pthread_t t;
    void *r;

    (void)state;
    pthread_create(&t, NULL, wait_for_never, NULL);
    usleep(50000); /* asleep */
    put_notify(&tail, VGP_NOTIFY_PRINT, "last words\n");
    f.h->dead_reason = VGPU_DEAD_EXITED;
    __atomic_store_n(&f.h->worker_state, VGP_WORKER_DEAD, __ATOMIC_RELEASE);
    wake_guest();
    pthread_join(t, &r);
    assert_int_equal((uintptr_t)r, CUDA_ERROR_LAUNCH_FAILED);
    assert_string_equal(noted, "last words\n");
}

/* A loop that does not sleep in the transport notices both ends. */
static void test_lost(void **state)
{
    (void)state;
    assert_int_equal(lnk_ring_lost(&f.r), CUDA_SUCCESS);
    f.gone = 1;
    assert_int_equal(lnk_ring_dead(&f.r), CUDA_SUCCESS);
    assert_int_equal(lnk_ring_lost(&f.r), CUDA_ERROR_DEVICE_UNAVAILABLE);
    assert_int_equal(lnk_ring_dead(&f.r), CUDA_ERROR_DEVICE_UNAVAILABLE);
}

static void test_lost_transport(void **state)
{
    pthread_t t;
    void *r;

    (void)state;
    pthread_create(&t, NULL, wait_for_never, NULL);
    usleep(20000);
    pthread_mutex_lock(&f.lock);
    f.gone = 1;
    pthread_cond_broadcast(&f.wake);
    pthread_mutex_unlock(&f.lock);
    pthread_join(t, &r);
    assert_int_equal((uintptr_t)r, CUDA_ERROR_DEVICE_UNAVAILABLE);
}

static void test_hostile_reply(void **state)
{
    struct lnk_call c;
    const void *payload;
    uint32_t n;

    (void)state;
    assert_int_equal(lnk_ring_begin(&f.r, &c, CALL_HUGE, 4, LNK_REPLY_WAIT, 0, 0), 0);
    lnk_ring_publish(&c);
    assert_int_equal(lnk_ring_collect(&c, &payload, &n), CUDA_ERROR_UNKNOWN);
    assert_null(payload);
    lnk_ring_end(&c);
}

static void *no_worker(void *arg)
{
    return arg;
}

/* Nobody else writes the worker's words after this. */
static void stop_worker(void)
{
    pthread_mutex_lock(&f.lock);
    f.stop = true;
    pthread_cond_broadcast(&f.bell);
    pthread_mutex_unlock(&f.lock);
    pthread_join(f.worker, NULL);
    pthread_create(&f.worker, NULL, no_worker, NULL);
}

/* A worker that was rung for and is on its way is not rung for again; one that has taken
   something since is. */
static void test_one_doorbell(void **state)
{
    uint64_t before, first;

    (void)state;
    stop_worker();
    f.h->worker_state = VGP_WORKER_IDLE;
    before = f.doorbells;
    for (int i = 0; i < 10; i++)
        assert_int_equal(count(1, 9, 0, 4), CUDA_SUCCESS);
    assert_int_equal(f.doorbells, before + 1);
    /* It takes the first record, sees no more in time and sleeps again. */
    first = f.h->ring_tail / 10;
    f.h->ring_head += first;
    for (int i = 0; i < 10; i++)
        assert_int_equal(count(1, 9, 0, 4), CUDA_SUCCESS);
    assert_int_equal(f.doorbells, before + 2);
    f.h->worker_state = VGP_WORKER_RUNNING;
    f.h->ring_head = f.h->ring_tail - first;
    assert_int_equal(count(1, 9, 0, 4), CUDA_SUCCESS);
    assert_int_equal(f.doorbells, before + 2);
    /* It has all and sleeps: what it had when it was rung for last says nothing about the next
       sleep. */
    f.h->worker_state = VGP_WORKER_IDLE;
    for (unsigned i = 1; i <= 5; i++) {
        f.h->ring_head = f.h->ring_tail;
        assert_int_equal(count(1, 9, 0, 4), CUDA_SUCCESS);
        assert_int_equal(f.doorbells, before + 2 + i);
    }
}

static void test_hostile_head(void **state)
{
    (void)state;
    stop_worker();
    f.h->ring_head = 1u << 30;
    for (int i = 0; i < 60; i++) {
        if (count(1, 9, 0, 4000) != CUDA_SUCCESS)
            break;
    }
    assert_int_equal(count(1, 9, 0, 4000), CUDA_ERROR_UNKNOWN);
}

static void put_notify(uint64_t *tail, uint16_t type, const char *text)
{
    uint32_t length = (uint32_t)strlen(text);
    struct vgp_notify n = {.size = (16 + 4 + length + 15) & ~15u, .type = type};
    uint32_t pos = *tail & (f.h->notify_size - 1);

    if (pos + n.size > f.h->notify_size) {
        struct vgp_notify pad = {.size = f.h->notify_size - pos, .type = VGP_NOTIFY_PAD};

        memcpy(f.base + f.h->notify_offset + pos, &pad, sizeof(pad));
        *tail += pad.size;
        pos = 0;
    }
    memcpy(f.base + f.h->notify_offset + pos, &n, sizeof(n));
    memcpy(f.base + f.h->notify_offset + pos + 16, &length, 4);
    memcpy(f.base + f.h->notify_offset + pos + 20, text, length);
    *tail += n.size;
    __atomic_store_n(&f.h->notify_tail, *tail, __ATOMIC_RELEASE);
}

static void test_notifications(void **state)
{
    uint64_t tail = 0;
    char expect[4096] = "", line[64];
    uint32_t back[256], n;

    (void)state;
    for (int i = 0; i < 300; i++) { /* several times around the ring */
        snprintf(line, sizeof(line), "line %d%.*s\n", i, i % 30, "..............................");
        if (i < 60)
            strcat(expect, line);
        put_notify(&tail, VGP_NOTIFY_PRINT, line);
        if (i % 20 == 19)
            assert_int_equal(echo("x", 1, back, &n), 0); /* drained before the call returns */
        assert_int_equal(f.r.notify_head, i % 20 == 19 ? tail : f.r.notify_head);
        if (i == 59)
            assert_string_equal(noted, expect);
    }
    assert_int_equal(notes, 300);
    assert_int_equal(f.h->notify_head, tail);
}

/* The worker waits for room for its prints while we wait for room for our calls. */
static void test_prints_with_full_ring(void **state)
{
    uint32_t back[256], n;

    (void)state;
    for (int i = 0; i < 300; i++) {
        struct lnk_call c;

        assert_int_equal(lnk_ring_begin(&f.r, &c, CALL_PRINT, 4000, LNK_REPLY_NONE, 0, 0), 0);
        memset(c.args, 'a' + i % 26, 1000);
        c.args[1000] = '\0';
        lnk_ring_publish(&c);
    }
    assert_int_equal(echo("x", 1, back, &n), 0);
    assert_int_equal(notes, 300);
}

static void test_hostile_notification(void **state)
{
    struct vgp_notify n = {.size = 4080, .type = VGP_NOTIFY_PRINT};
    uint32_t length = 0xffffffff, back[256], size;

    (void)state;
    memcpy(f.base + f.h->notify_offset, &n, sizeof(n));
    memcpy(f.base + f.h->notify_offset + 16, &length, 4);
    __atomic_store_n(&f.h->notify_tail, 4080, __ATOMIC_RELEASE);
    echo("x", 1, back, &size);
    assert_int_equal(lnk_ring_dead(&f.r), CUDA_ERROR_UNKNOWN);
}

/* A text as long as its record has room, and one byte longer: that byte would be the next record's. */
static void test_longest_text(void **state)
{
    static const char text[] = "0123456789ab";
    struct vgp_notify n = {.size = 32, .type = VGP_NOTIFY_PRINT};
    uint64_t tail = 0;

    (void)state;
    for (uint32_t length = 0; length <= 13; length++) {
        memcpy(f.base + f.h->notify_offset + tail, &n, sizeof(n));
        memcpy(f.base + f.h->notify_offset + tail + 16, &length, 4);
        memcpy(f.base + f.h->notify_offset + tail + 20, text, 12);
        tail += n.size;
        noted[0] = '\0';
        __atomic_store_n(&f.h->notify_tail, tail, __ATOMIC_RELEASE);
        lnk_ring_drain(&f.r);
        assert_int_equal(strlen(noted), length <= 12 ? length : 0);
        assert_memory_equal(noted, text, strlen(noted));
        assert_int_equal(lnk_ring_dead(&f.r), length <= 12 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
    }
}

static void refuse_header(const char *what)
{
    struct lnk_ring r;
    const char *why = NULL;

    if (lnk_ring_init(&r, &f.t, on_notify, NULL, &why) != -EPROTO || why == NULL)
        fail_msg("accepted: %s", what);
    write_header();
}

static void test_hostile_headers(void **state)
{
    struct lnk_ring r;
    const char *why;

    (void)state;
    pthread_mutex_lock(&f.lock); /* the worker sleeps: the header is ours */
    write_header();
    assert_int_equal(lnk_ring_init(&r, &f.t, on_notify, NULL, &why), 0);
    f.h->magic = 0, refuse_header("magic");
    f.h->version_major++, refuse_header("version");
    f.h->window_size = WINDOW + 1, refuse_header("window size");
    f.h->ring_size = 3 << 16, refuse_header("ring size not a power of two");
    f.h->ring_size = 64 << 10, refuse_header("ring smaller than a record");
    f.h->ring_offset = 0, refuse_header("ring over the header");
    f.h->ring_offset = UINT32_MAX & ~63u, refuse_header("ring outside");
    f.h->reply_slots = 0, refuse_header("no slots");
    f.h->reply_slots = 1 << 16, refuse_header("slots beyond the window");
    f.h->reply_slot_size = 24, refuse_header("slot size");
    f.h->notify_size = 1000, refuse_header("notify size");
    f.h->notify_offset = f.h->ring_offset, refuse_header("overlap");
    f.h->staging_size = UINT64_MAX, refuse_header("staging wraps");
    f.h->staging_offset = UINT64_MAX - 63, refuse_header("staging offset");
    f.h->staging_size = 0, refuse_header("no staging");
    pthread_mutex_unlock(&f.lock);
}

/* Each number of a header at its limits and one step over, in a window where all areas have room. */
static void test_limits_of_headers(void **state)
{
    static const struct {
        uint32_t slots, slot_size, notify_size;
        bool accepted;
    } rows[] = {{1, 256, 4096, true},       {0, 256, 4096, false},
                {1, 240, 4096, false},      {1, 264, 4096, false},
                {1, 256, 2048, false},      {1, 256, 4096 + 16, false},
                {1 << 16, 256, 4096, true}, {(1 << 16) + 1, 256, 4096, false},
                {1, 1 << 20, 4096, true},   {1, (1 << 20) + 16, 4096, false}};
    const uint64_t window = f.t.window_size;
    int bad = -1;

    (void)state;
    pthread_mutex_lock(&f.lock);
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lnk_ring r;
        const char *why = NULL;
        int rc;

        write_header();
        f.t.window_size = f.h->window_size = 128u << 20; /* of which the header alone is read */
        f.h->notify_offset = 16u << 20;
        f.h->reply_offset = 32u << 20;
        f.h->notify_size = rows[i].notify_size;
        f.h->reply_slots = rows[i].slots;
        f.h->reply_slot_size = rows[i].slot_size;
        rc = lnk_ring_init(&r, &f.t, on_notify, NULL, &why);
        if (rc != (rows[i].accepted ? 0 : -EPROTO) && bad < 0)
            bad = (int)i;
    }
    f.t.window_size = window;
    write_header();
    pthread_mutex_unlock(&f.lock);
    assert_int_equal(bad, -1); /* the first wrong row */
}

/* An older worker says nothing; a hostile one anything. */
static void test_staging_piece(void **state)
{
    static const struct {
        uint32_t said, taken;
    } rows[] = {{0, VGP_PIECE_DEFAULT},
                {VGP_PIECE_LARGE, VGP_PIECE_LARGE},
                {1, VGP_PIECE_MIN},
                {VGP_PIECE_MIN + 4095, VGP_PIECE_MIN},
                {UINT32_MAX, VGP_PIECE_MAX}};
    struct lnk_ring r;
    const char *why = NULL;

    (void)state;
    pthread_mutex_lock(&f.lock);
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        f.h->staging_piece = rows[i].said;
        assert_int_equal(lnk_ring_init(&r, &f.t, on_notify, NULL, &why), 0);
        assert_int_equal(r.staging_piece, rows[i].taken);
    }
    write_header();
    pthread_mutex_unlock(&f.lock);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_round_trip),
        T(test_tap),
        T(test_wrap_and_full),
        T(test_full_ring_slow_worker),
        T(test_record_limit),
        T(test_threads),
        T(test_sleep_and_wake),
        T(test_many_outstanding),
        T(test_dead_worker),
        T(test_last_words),
        T(test_lost),
        T(test_lost_transport),
        T(test_hostile_reply),
        T(test_one_doorbell),
        T(test_hostile_head),
        T(test_notifications),
        T(test_prints_with_full_ring),
        T(test_hostile_notification),
        T(test_longest_text),
        T(test_hostile_headers),
        T(test_limits_of_headers),
        T(test_staging_piece),
    };

    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
