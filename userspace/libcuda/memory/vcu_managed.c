/* SPDX-License-Identifier: MIT */
/*
 * __managed__ variables. The host's driver chooses their addresses; the guest keeps its own pages
 * at the same addresses and copies bytes as a GPU without concurrent managed access does (attribute
 * 89 is 0): the program's writes go to the device before work is sent, the device's writes come
 * back when the program synchronises. Until then, as CUDA demands of programs on such devices, the
 * processor must not access managed data.
 *
 * A snapshot of each variable shows the bytes that either side has changed since they were last
 * equal, so neither overwrites the other's. Programs without such variables pay one load per call.
 */
#define _GNU_SOURCE

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vgp_calls.h"
#include "vgp_guest.h"
#include "memory.h"

#define UP_MAX 65536u /* inline data of one vgpCopy */
#define DOWN_MAX VGP_COPY_REPLY_MAX
#define JOIN 256u /* maximum gap of equal bytes between two changed runs sent as one */

struct shadow {
    struct shadow *next;
    uint64_t addr, size;
    uint64_t owner;   /* module or library */
    uint64_t context; /* used to transfer the bytes */
    uint64_t stream;  /* private and non-blocking: transfers wait for no other stream */
    uint8_t *snapshot;
    bool device_ahead; /* work was sent since the last complete fetch of the device's bytes */
};

/* Pages of this process that mirror pages of the device; never unmapped: the address may be reused,
 * and a program may read its variables while it exits. */
struct run {
    struct run *next;
    uint64_t start, end;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shadow *shadows;
static struct run *runs;
static __thread bool inside; /* the unit's own transfers must not start further transfers */

/* ---- pages ---------------------------------------------------------------------------------- */

static bool is_ours(uint64_t page)
{
    for (const struct run *r = runs; r != NULL; r = r->next) {
        if (page >= r->start && page < r->end)
            return true;
    }
    return false;
}

/* Maps the pages around a variable at its own address; false when the address is in use. */
static bool map_pages(uint64_t addr, uint64_t size)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t at = addr & ~(page - 1), end = (addr + size + page - 1) & ~(page - 1);

    while (at < end) {
        uint64_t stop = at;
        struct run *r;
        void *p;

        if (is_ours(at)) {
            at += page;
            continue;
        }
        while (stop < end && !is_ours(stop))
            stop += page;
        r = malloc(sizeof(*r));
        if (r == NULL)
            return false;
        p = mmap((void *)(uintptr_t)at, stop - at, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (p != (void *)(uintptr_t)at) {
            if (p != MAP_FAILED) /* a kernel before 4.17 takes the address for a hint */
                munmap(p, stop - at);
            free(r);
            return false;
        }
        *r = (struct run){runs, at, stop};
        runs = r;
        at = stop;
    }
    return true;
}

/* ---- transfers; under the lock, with `inside` set --------------------------------------------- */

static CUresult fetch_shadow(const struct shadow *s, uint8_t *to)
{
    CUresult res = CUDA_SUCCESS;

    for (uint64_t done = 0; done < s->size && res == CUDA_SUCCESS;) {
        uint64_t n = s->size - done < DOWN_MAX ? s->size - done : DOWN_MAX;
        uint32_t got = (uint32_t)n;
        struct vgp_submit sub;

        res = vgp_send_vgpCopy(&sub, true, (struct vgp_intent){0}, VGP_COPY_REPLY, VGP_COPY_DEVICE, 0, n, 1,
                               s->addr + done, n, 1, n, 1, 1, (CUstream)(uintptr_t)s->stream,
                               VGP_WHEN_COMPLETE, NULL, 0);
        if (res == CUDA_SUCCESS)
            res = vgp_recv_vgpCopy(&sub, to + done, &got);
        if (res == CUDA_SUCCESS && got != n)
            res = CUDA_ERROR_UNKNOWN;
        done += n;
    }
    return res;
}

static CUresult managed_send(const struct shadow *s, uint64_t from, uint64_t to)
{
    CUresult res = CUDA_SUCCESS;

    while (from < to && res == CUDA_SUCCESS) {
        uint64_t n = to - from < UP_MAX ? to - from : UP_MAX;
        struct vgp_submit sub;

        res = vgp_send_vgpCopy(&sub, true, (struct vgp_intent){0}, VGP_COPY_DEVICE, VGP_COPY_INLINE,
                               s->addr + from, n, 1, 0, n, 1, n, 1, 1, (CUstream)(uintptr_t)s->stream,
                               VGP_WHEN_COMPLETE, (const void *)(uintptr_t)(s->addr + from), (uint32_t)n);
        if (res == CUDA_SUCCESS)
            res = vgp_recv_vgpCopy(&sub, NULL, NULL);
        from += n;
    }
    return res;
}

/* Sends the runs of bytes that the program has changed. */
static void push_one(struct shadow *s)
{
    const uint8_t *now = (const uint8_t *)(uintptr_t)s->addr;
    uint64_t i = 0;

    if (memcmp(now, s->snapshot, s->size) == 0)
        return;
    while (i < s->size) {
        uint64_t from, to, same = 0;
        /* The bytes in the gap equal the device's, unless it may be changing them now. */
        uint64_t join = s->device_ahead ? 1 : JOIN;

        while (i < s->size && now[i] == s->snapshot[i])
            i++;
        if (i == s->size)
            break;
        from = to = i;
        for (; i < s->size && same < join; i++) {
            same = now[i] == s->snapshot[i] ? same + 1 : 0;
            if (same == 0)
                to = i + 1;
        }
        memcpy(s->snapshot + from, now + from, to - from);
        if (managed_send(s, from, to) != CUDA_SUCCESS)
            return; /* the context is broken: the next call says so */
    }
}

/* Fetches the bytes that the device has changed; bytes changed by the program meanwhile stay. */
static void pull_one(struct shadow *s)
{
    uint8_t *now = (uint8_t *)(uintptr_t)s->addr, *fresh = malloc(s->size);

    if (fresh == NULL || fetch_shadow(s, fresh) != CUDA_SUCCESS) {
        free(fresh);
        return;
    }
    if (memcmp(fresh, s->snapshot, s->size) != 0) {
        for (uint64_t i = 0; i < s->size; i++) {
            if (now[i] == s->snapshot[i] && now[i] != fresh[i])
                now[i] = fresh[i];
        }
        memcpy(s->snapshot, fresh, s->size);
    }
    free(fresh);
}

static void before_work(void)
{
    uint64_t context = vcu_owner_context();

    if (inside)
        return;
    inside = true;
    pthread_mutex_lock(&lock);
    for (struct shadow *s = shadows; s != NULL; s = s->next) {
        if (s->context == context)
            push_one(s);
        s->device_ahead = true;
    }
    pthread_mutex_unlock(&lock);
    inside = false;
}

static void after_wait(bool everything)
{
    uint64_t context = vcu_owner_context();

    if (inside)
        return;
    inside = true;
    pthread_mutex_lock(&lock);
    for (struct shadow *s = shadows; s != NULL; s = s->next) {
        if (s->context != context || !s->device_ahead)
            continue;
        pull_one(s);
        if (everything)
            s->device_ahead = false;
    }
    pthread_mutex_unlock(&lock);
    inside = false;
}

/* ---- variables ------------------------------------------------------------------------------ */

static struct shadow *find_locked(uint64_t addr)
{
    struct shadow *s = shadows;

    while (s != NULL && s->addr != addr)
        s = s->next;
    return s;
}

/* The private stream in this context; shared by its variables. */
static CUresult stream_of_context(uint64_t context, uint64_t *stream)
{
    CUstream made;
    CUresult res;

    for (struct shadow *s = shadows; s != NULL; s = s->next) {
        if (s->context == context) {
            *stream = s->stream;
            return CUDA_SUCCESS;
        }
    }
    res = vgp_call_cuStreamCreate(&made, CU_STREAM_NON_BLOCKING);
    *stream = (uintptr_t)made;
    return res;
}

static void remember_contents(const struct shadow *s)
{
    struct vcu_context *c = vcu_context_find(NULL);
    struct vcu_memory m = {
        .kind = VCU_MEM_SHADOW,
        .owner = s->owner,
        .context = s->context,
        .device = c == NULL ? 0 : c->device,
        .buffer_id = vcu_memory_new_id(),
        .device_ptr = s->addr,
    };

    vcu_memory_put(s->addr, s->size, &m);
}

static CUresult add_locked(const char *call, uint64_t owner, uint64_t addr, uint64_t size)
{
    struct shadow *s = calloc(1, sizeof(*s));
    CUresult res = CUDA_ERROR_OUT_OF_MEMORY;

    if (s == NULL)
        return res;
    *s = (struct shadow){.addr = addr, .size = size, .owner = owner, .context = vcu_owner_context()};
    s->snapshot = malloc(size);
    if (s->snapshot != NULL)
        res = stream_of_context(s->context, &s->stream);
    if (res == CUDA_SUCCESS && !map_pages(addr, size))
        res = VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, call,
                         "the address of the variable (%#llx) is taken in this process",
                         (unsigned long long)addr);
    if (res == CUDA_SUCCESS)
        res = fetch_shadow(s, s->snapshot);
    if (res != CUDA_SUCCESS) {
        free(s->snapshot);
        free(s);
        return res;
    }
    memcpy((void *)(uintptr_t)addr, s->snapshot, size);
    s->next = shadows;
    shadows = s;
    remember_contents(s);
    atomic_fetch_add(&vcu_units_watching, 1);
    return CUDA_SUCCESS;
}

CUresult vcu_managed_add(const char *call, uint64_t owner, uint64_t addr, uint64_t size)
{
    CUresult res = CUDA_SUCCESS;

    inside = true;
    pthread_mutex_lock(&lock);
    if (size != 0 && find_locked(addr) == NULL)
        res = add_locked(call, owner, addr, size);
    pthread_mutex_unlock(&lock);
    inside = false;
    return res;
}

void vcu_managed_forget(uint64_t owner, uint64_t context)
{
    pthread_mutex_lock(&lock);
    for (struct shadow **pp = &shadows, *s; (s = *pp) != NULL;) {
        if ((owner != 0 && s->owner == owner) || (context != 0 && s->context == context)) {
            *pp = s->next;
            free(s->snapshot);
            free(s);
            atomic_fetch_sub(&vcu_units_watching, 1);
        } else {
            pp = &s->next;
        }
    }
    pthread_mutex_unlock(&lock);
}

const struct vcu_unit_ops vcu_managed_unit = {.before_work = before_work, .after_wait = after_wait};
