/* SPDX-License-Identifier: MIT */
/*
 * Events shared by several processes. The state is a page that all of them map: a counter of
 * records and, for each of the latest records, whether it has completed and which process made it.
 * A waiter captures the number of the latest record and sleeps on a futex in the page.
 *
 * The page is not trusted: it only decides when waiters of this event continue. A process that dies
 * with a pending record completes it, because the awaited work will never happen. Any holder can
 * enter a record in the name of another holder, which would block waiters for as long as that
 * holder lives. So each process keeps track of its own pending records, and when a holder exits, it
 * completes records in its own name that it did not make: a hostile process can block waiters only
 * while it lives.
 */
#define _GNU_SOURCE
#include "runtime/ipc_event.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RECORDS 128       /* number of distinguishable records; see sg_ipc_event_done() */
#define LOOK_NS 100000000 /* how often a sleeping waiter checks that the other process is alive */

struct record {
    _Atomic uint64_t state; /* number * 2 + completed */
    _Atomic uint32_t holder;
    uint32_t zero;
};

struct page {
    struct sg_share_head head;
    _Atomic uint64_t next, latest;
    struct record records[RECORDS];
};
_Static_assert(sizeof(struct page) <= 4096, "one page");

struct sg_ipc_event {
    SG_LISTED struct sg_ipc_event *link, **plink; /* list of all events of this process */
    uint8_t token[SG_SHARE_TOKEN];
    uint32_t holder; /* this process */
    bool made_here;
    SG_OWNED struct page *page;
    _Atomic uint64_t mine[RECORDS]; /* pending records of this process, by their places; 0: none */
};

/* Guards the list; records are made under it, so that none is looked at half made. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sg_ipc_event *all;

/* Enters this process among the holders. Replaces holders that exited without notice. */
static bool enter_holder(struct sg_ipc_event *x)
{
    for (unsigned i = 0; i < SG_SHARE_HOLDERS; i++) {
        uint32_t other = atomic_load(&x->page->head.holders[i]);

        if (other && (other == x->holder || !sg_share_gone(other)))
            continue;
        if (atomic_compare_exchange_strong(&x->page->head.holders[i], &other, x->holder))
            return true;
    }
    return false;
}

static void leave_holder(struct sg_ipc_event *x)
{
    for (unsigned i = 0; i < SG_SHARE_HOLDERS; i++) {
        uint32_t me = x->holder;

        if (atomic_compare_exchange_strong(&x->page->head.holders[i], &me, 0))
            return;
    }
}

static void list_event(struct sg_ipc_event *x)
{
    pthread_mutex_lock(&lock);
    x->link = all;
    x->plink = &all;
    if (all)
        all->plink = &x->link;
    all = x;
    pthread_mutex_unlock(&lock);
}

/* Maps the page and enters; takes the descriptor and the hold on the token over. */
static bool attach_page(struct sg_ipc_event *x, int fd)
{
    void *p = mmap(NULL, sizeof(*x->page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    close(fd);
    if (p != MAP_FAILED) {
        x->page = p;
        if (enter_holder(x)) {
            list_event(x);
            return true;
        }
        munmap(p, sizeof(*x->page));
    }
    sg_share_close(x->token);
    return false;
}

struct sg_ipc_event *sg_ipc_event_new(void)
{
    struct sg_ipc_event *x = calloc(1, sizeof(*x));
    int fd = x ? sg_share_create(SG_SHARE_EVENT, 4096, x->token, &x->holder) : -1;

    if (x)
        x->made_here = true;
    if (fd < 0 || !attach_page(x, fd)) {
        free(x);
        return NULL;
    }
    return x;
}

CUresult sg_ipc_event_open(const uint8_t *token, struct sg_ipc_event **out)
{
    struct sg_ipc_event *x = calloc(1, sizeof(*x));
    uint64_t bytes;

    if (!x)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(x->token, token, sizeof(x->token));
    int fd = sg_share_open(SG_SHARE_EVENT, token, &bytes, &x->holder);

    if (fd >= 0 && bytes < 4096) {
        close(fd);
        sg_share_close(token);
        fd = -1;
    }
    if (fd < 0 || !attach_page(x, fd)) {
        free(x);
        return fd == -1 ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_MAP_FAILED;
    }
    *out = x;
    return CUDA_SUCCESS;
}

void sg_ipc_event_end(struct sg_ipc_event *x)
{
    if (!x)
        return;
    pthread_mutex_lock(&lock);
    *x->plink = x->link;
    if (x->link)
        x->link->plink = x->plink;
    pthread_mutex_unlock(&lock);
    leave_holder(x);
    munmap(x->page, sizeof(*x->page));
    sg_share_close(x->token);
    free(x);
}

bool sg_ipc_event_token(const struct sg_ipc_event *x, uint8_t *token)
{
    if (x->made_here)
        memcpy(token, x->token, sizeof(x->token));
    return x->made_here;
}

bool sg_ipc_event_is_ours(const uint8_t *token)
{
    bool found = false;

    pthread_mutex_lock(&lock);
    for (struct sg_ipc_event *x = all; x && !found; x = x->link)
        found = x->made_here && !memcmp(x->token, token, sizeof(x->token));
    pthread_mutex_unlock(&lock);
    return found;
}

/* ---- records ---- */

static struct record *record_of(struct sg_ipc_event *x, uint64_t n)
{
    return &x->page->records[n % RECORDS];
}

uint64_t sg_ipc_event_record(struct sg_ipc_event *x)
{
    uint64_t n, seen;
    struct record *r;

    pthread_mutex_lock(&lock);
    n = atomic_fetch_add(&x->page->next, 1) + 1;
    r = record_of(x, n);
    atomic_store(&x->mine[n % RECORDS], n);
    atomic_store(&r->holder, x->holder);
    atomic_store(&r->state, 2 * n);
    pthread_mutex_unlock(&lock);
    seen = atomic_load(&x->page->latest);
    while (seen < n && !atomic_compare_exchange_weak(&x->page->latest, &seen, n))
        ;
    return n;
}

static void complete_record(struct sg_ipc_event *x, struct record *r, uint64_t pending)
{
    atomic_compare_exchange_strong(&r->state, &pending, pending + 1);
    atomic_fetch_add(&x->page->head.wake, 1);
    syscall(SYS_futex, &x->page->head.wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void sg_ipc_event_complete(struct sg_ipc_event *x, uint64_t n)
{
    uint64_t mine = n;

    complete_record(x, record_of(x, n), 2 * n);
    atomic_compare_exchange_strong(&x->mine[n % RECORDS], &mine, 0);
}

/* True if this process has made the record and not completed it. It may have opened the event
   several times. */
static bool is_pending(const struct sg_ipc_event *x, uint64_t n)
{
    for (const struct sg_ipc_event *o = all; o; o = o->link) {
        if (atomic_load(&o->mine[n % RECORDS]) == n && !memcmp(o->token, x->token, sizeof(x->token)))
            return true;
    }
    return false;
}

void sg_share_holder_gone(void)
{
    pthread_mutex_lock(&lock);
    for (struct sg_ipc_event *x = all; x; x = x->link) {
        for (unsigned i = 0; i < RECORDS; i++) {
            struct record *r = &x->page->records[i];
            const uint64_t state = atomic_load(&r->state);

            if (!(state & 1) && state && atomic_load(&r->holder) == x->holder && !is_pending(x, state / 2))
                complete_record(x, r, state);
        }
    }
    pthread_mutex_unlock(&lock);
}

uint64_t sg_ipc_event_latest(struct sg_ipc_event *x)
{
    return atomic_load(&x->page->latest);
}

static bool holder_is_present(struct sg_ipc_event *x, uint32_t holder)
{
    for (unsigned i = 0; i < SG_SHARE_HOLDERS; i++) {
        if (atomic_load(&x->page->head.holders[i]) == holder)
            return !sg_share_gone(holder);
    }
    return false;
}

/* A record whose slot was reused counts as complete when the record that reused it is complete. */
bool sg_ipc_event_done(struct sg_ipc_event *x, uint64_t n)
{
    struct record *r = record_of(x, n);
    uint64_t state = atomic_load(&r->state);

    if (state & 1 || state < 2 * n)
        return true; /* the second case: never written by an honest process; not waited for */
    return !holder_is_present(x, atomic_load(&r->holder));
}

void sg_ipc_event_wait(struct sg_ipc_event *x, uint64_t n)
{
    const struct timespec look = {0, LOOK_NS};

    for (;;) {
        uint32_t seen = atomic_load(&x->page->head.wake);

        if (sg_ipc_event_done(x, n))
            return;
        syscall(SYS_futex, &x->page->head.wake, FUTEX_WAIT, seen, &look, NULL, 0);
    }
}
