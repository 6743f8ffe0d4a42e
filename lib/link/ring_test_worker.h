/* SPDX-License-Identifier: MIT */
/* A transport and a worker inside the test process; included only by ring_test.c. */
#ifndef RING_TEST_WORKER_H
#define RING_TEST_WORKER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../kernel/vgpu_drv/uapi/vgpu_device.h"
#include "ring.h"

#define WINDOW (4u << 20)
#define CALL_ECHO 0x1234  /* replies with its arguments */
#define CALL_COUNT 0x1235 /* no reply; adds its first word to `sum` */
#define CALL_DIE 0x1236   /* the worker exits without a reply */
#define CALL_NEVER 0x1237 /* never answered; the worker keeps running */
#define CALL_HUGE 0x1238  /* claims a payload larger than the slot */

#define CALL_PRINT 0x1239 /* no reply; sends its text back as a print, waits for room */

/* One transport and worker per test. */
static struct fixture {
    struct lnk_transport t;
    struct lnk_ring r;
    struct vgp_window_shared *h;
    uint8_t *base;
    pthread_t worker;
    pthread_mutex_t lock;
    pthread_cond_t bell, wake;
    bool rang, stop, slow, order_bad;
    uint64_t sum, records, doorbells, sleeps;
    uint32_t next_expected[8];
    int gone;
} f;

static char noted[8192];
static unsigned notes;

static void on_notify(void *arg, uint16_t type, uint64_t cookie, const uint8_t *data, uint32_t size)
{
    (void)arg;
    (void)cookie;
    notes++;
    if (type == VGP_NOTIFY_PRINT && size < sizeof(noted) - strlen(noted))
        strncat(noted, (const char *)data, size);
}

/* ---- transport ------------------------------------------------------------------------------ */

static uint64_t fake_seen(struct lnk_transport *t)
{
    (void)t;
    return __atomic_load_n(&f.h->wake_seq, __ATOMIC_ACQUIRE);
}

static int fake_wait(struct lnk_transport *t, uint64_t seen, int64_t deadline_ns)
{
    struct timespec ts;
    int rc = 0;

    (void)t;
    pthread_mutex_lock(&f.lock);
    f.sleeps++;
    while (rc == 0 && f.h->wake_seq == (uint32_t)seen && !f.gone) {
        int e;

        ts.tv_sec = deadline_ns / 1000000000;
        ts.tv_nsec = deadline_ns % 1000000000;
        e = pthread_cond_clockwait(&f.wake, &f.lock, CLOCK_MONOTONIC, &ts);
        if (e != 0)
            rc = -ETIMEDOUT;
    }
    if (f.gone)
        rc = -ENODEV;
    pthread_mutex_unlock(&f.lock);
    return rc;
}

static void fake_doorbell(struct lnk_transport *t)
{
    (void)t;
    pthread_mutex_lock(&f.lock);
    f.rang = true;
    f.doorbells++;
    pthread_cond_signal(&f.bell);
    pthread_mutex_unlock(&f.lock);
}

static const struct lnk_transport_ops fake_ops = {
    .name = "fake",
    .seen = fake_seen,
    .wait = fake_wait,
    .doorbell = fake_doorbell,
};

/* ---- worker --------------------------------------------------------------------------------- */

static void wake_guest(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_exchange_n(&f.h->guest_sleeps, 0, __ATOMIC_SEQ_CST) != 0) {
        pthread_mutex_lock(&f.lock);
        __atomic_fetch_add(&f.h->wake_seq, 1, __ATOMIC_SEQ_CST);
        pthread_cond_broadcast(&f.wake);
        pthread_mutex_unlock(&f.lock);
    }
}

static void reply(const struct vgp_record *rec, const void *data, uint32_t size)
{
    struct vgp_reply *slot =
        (struct vgp_reply *)(f.base + f.h->reply_offset + rec->reply_slot * f.h->reply_slot_size);

    memcpy(slot + 1, data, size < 1024 ? size : 1024);
    slot->result = 0;
    slot->size = rec->call == CALL_HUGE ? 1u << 20 : size < 1024 ? size : 1024;
    __atomic_store_n(&slot->seq, rec->reply_seq, __ATOMIC_RELEASE);
    wake_guest();
}

static void print_back(const char *text)
{
    uint32_t length = (uint32_t)strlen(text);
    struct vgp_notify n = {.size = (16 + 4 + length + 15) & ~15u, .type = VGP_NOTIFY_PRINT};
    uint64_t tail = f.h->notify_tail;
    uint32_t pos = tail & (f.h->notify_size - 1);
    uint32_t pad = pos + n.size > f.h->notify_size ? f.h->notify_size - pos : 0;
    uint8_t *base = f.base + f.h->notify_offset;

    while (!f.stop &&
           tail + pad + n.size - __atomic_load_n(&f.h->notify_head, __ATOMIC_ACQUIRE) > f.h->notify_size)
        usleep(50);
    if (pad != 0) {
        memcpy(base + pos, &(struct vgp_notify){.size = pad, .type = VGP_NOTIFY_PAD}, 16);
        tail += pad;
        pos = 0;
    }
    memcpy(base + pos, &n, sizeof(n));
    memcpy(base + pos + 16, &length, 4);
    memcpy(base + pos + 20, text, length);
    __atomic_store_n(&f.h->notify_tail, tail + n.size, __ATOMIC_RELEASE);
    wake_guest();
}

/* Returns false when the worker has exited. */
static bool serve_one(uint64_t head)
{
    const struct vgp_record *rec =
        (const struct vgp_record *)(f.base + f.h->ring_offset + (head & (f.h->ring_size - 1)));
    const uint32_t *args = (const uint32_t *)(rec + 1);

    f.records++;
    switch (rec->call) {
    case CALL_COUNT:
        f.sum += args[0];
        if (args[1] < 8) { /* checks the order per thread */
            if (f.next_expected[args[1]]++ != args[2])
                f.order_bad = true;
        }
        break;
    case CALL_ECHO:
    case CALL_HUGE:
        if (f.slow)
            usleep(2000);
        reply(rec, args, rec->size - (uint32_t)sizeof(*rec));
        break;
    case CALL_PRINT:
        print_back((const char *)args);
        break;
    case CALL_DIE:
        return false;
    default:
        break;
    }
    return true;
}

static void *worker(void *arg)
{
    uint64_t head = 0;

    (void)arg;
    for (;;) {
        uint64_t tail = __atomic_load_n(&f.h->ring_tail, __ATOMIC_ACQUIRE);
        const struct vgp_record *rec;

        if (f.stop)
            return NULL;
        if (tail == head) { /* the sleeping protocol of vgp_ring.h */
            __atomic_store_n(&f.h->worker_state, VGP_WORKER_IDLE, __ATOMIC_RELAXED);
            __atomic_thread_fence(__ATOMIC_SEQ_CST);
            pthread_mutex_lock(&f.lock);
            while (!f.stop && !f.rang && __atomic_load_n(&f.h->ring_tail, __ATOMIC_ACQUIRE) == head)
                pthread_cond_wait(&f.bell, &f.lock);
            f.rang = false;
            pthread_mutex_unlock(&f.lock);
            __atomic_store_n(&f.h->worker_state, VGP_WORKER_RUNNING, __ATOMIC_RELAXED);
            continue;
        }
        rec = (const struct vgp_record *)(f.base + f.h->ring_offset + (head & (f.h->ring_size - 1)));
        if (rec->call != VGP_CALL_PAD && !serve_one(head)) {
            f.h->sticky_result = CUDA_ERROR_ILLEGAL_ADDRESS;
            f.h->dead_reason = VGPU_DEAD_EXITED;
            strcpy(f.h->dead_text, "the test says so");
            __atomic_store_n(&f.h->worker_state, VGP_WORKER_DEAD, __ATOMIC_RELEASE);
            wake_guest();
            return NULL;
        }
        head += rec->size;
        if (f.slow)
            usleep(200);
        __atomic_store_n(&f.h->ring_head, head, __ATOMIC_RELEASE);
    }
}

static void write_header(void)
{
    memset(f.base, 0, WINDOW);
    f.h->version_major = VGP_VERSION_MAJOR;
    f.h->window_size = WINDOW;
    f.h->ring_offset = VGP_PAGE;
    f.h->ring_size = 128u << 10;
    f.h->reply_offset = f.h->ring_offset + f.h->ring_size;
    f.h->reply_slot_size = 4096;
    f.h->reply_slots = 8;
    f.h->notify_offset = f.h->reply_offset + 8 * 4096;
    f.h->notify_size = 4096;
    f.h->staging_offset = f.h->notify_offset + f.h->notify_size;
    f.h->staging_size = WINDOW - f.h->staging_offset;
    f.h->magic = VGP_MAGIC;
}

static int set_up(void **state)
{
    const char *why;

    (void)state;
    memset(&f, 0, sizeof(f));
    f.base = aligned_alloc(VGP_PAGE, WINDOW);
    f.h = (struct vgp_window_shared *)f.base;
    f.t.ops = &fake_ops;
    f.t.window = f.base;
    f.t.window_size = WINDOW;
    pthread_mutex_init(&f.lock, NULL);
    pthread_cond_init(&f.bell, NULL);
    pthread_cond_init(&f.wake, NULL);
    noted[0] = '\0';
    notes = 0;
    write_header();
    if (lnk_ring_init(&f.r, &f.t, on_notify, NULL, &why) != 0)
        return 1;
    return pthread_create(&f.worker, NULL, worker, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    pthread_mutex_lock(&f.lock);
    f.stop = true;
    pthread_cond_broadcast(&f.bell);
    pthread_mutex_unlock(&f.lock);
    pthread_join(f.worker, NULL);
    free(f.base);
    return 0;
}

#endif
