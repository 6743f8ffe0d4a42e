/* SPDX-License-Identifier: MIT */
/* Split virtqueues (virtio 1.2, 2.7). The rings are guest-controlled: values are read once and
 * bounded. */
#include "vu.h"

#include <string.h>

#define DESC_NEXT 1u
#define DESC_WRITE 2u
#define DESC_INDIRECT 4u
#define AVAIL_NO_INTERRUPT 1u

struct desc {
    uint64_t addr;
    uint32_t len;
    uint16_t flags, next;
};
_Static_assert(sizeof(struct desc) == 16, "virtq_desc");

static uint16_t load16(const uint8_t *p)
{
    return __atomic_load_n((const uint16_t *)(const void *)p, __ATOMIC_ACQUIRE);
}

static void store16(uint8_t *p, uint16_t v)
{
    __atomic_store_n((uint16_t *)(void *)p, v, __ATOMIC_RELEASE);
}

void brk_vu_queue_remap(struct brk_vu_queue *q, struct brk_vu_mem *m)
{
    q->desc = q->avail = q->used = NULL;
    if (!q->have_addr || !q->num || q->addr.desc % 16 || q->addr.avail % 2 || q->addr.used % 4)
        return;
    const uint8_t *d = brk_vu_mem_uva(m, q->addr.desc, 16ull * q->num);
    uint8_t *a = brk_vu_mem_uva(m, q->addr.avail, 6 + 2ull * q->num);
    uint8_t *u = brk_vu_mem_uva(m, q->addr.used, 6 + 8ull * q->num);

    if (!d || !a || !u)
        return;
    q->desc = d;
    q->avail = a;
    q->used = u;
}

/* Rings that do not fit into a region with the new number are not served until their addresses
 * come. */
void brk_vu_queue_resize(struct brk_vu_queue *q, struct brk_vu_mem *m, uint32_t num)
{
    q->num = num;
    brk_vu_queue_remap(q, m);
}

/* Adds a descriptor to the chain; false: malformed. */
static bool vu_queue_add(struct brk_vu_chain *c, const struct desc *d)
{
    struct brk_vu_segment s = {.gpa = d->addr, .len = d->len};

    if (d->len > UINT64_MAX - d->addr)
        return false;
    if (d->flags & DESC_WRITE) {
        if (c->nwrite == BRK_VU_SEGMENTS)
            return false;
        c->write[c->nwrite++] = s;
        return true;
    }
    if (c->nwrite || c->nread == BRK_VU_SEGMENTS) /* the readable part comes first */
        return false;
    c->read[c->nread++] = s;
    return true;
}

static bool add_indirect(struct brk_vu_mem *m, struct brk_vu_chain *c, const struct desc *table)
{
    uint32_t n = table->len / 16, i = 0, steps = 0;

    if (table->len % 16 || !n || n > BRK_VU_QUEUE_SIZE_MAX)
        return false;
    for (;;) {
        uint64_t want = 16;
        const uint8_t *p =
            table->addr > UINT64_MAX - 16ull * n ? NULL : brk_vu_mem_gpa(m, table->addr + 16ull * i, &want);
        struct desc d;

        if (!p || want < 16)
            return false;
        memcpy(&d, p, sizeof(d));
        if (d.flags & DESC_INDIRECT || !vu_queue_add(c, &d))
            return false;
        if (!(d.flags & DESC_NEXT))
            return true;
        i = d.next;
        if (i >= n || ++steps >= n)
            return false;
    }
}

static bool walk_chain(struct brk_vu_queue *q, struct brk_vu_mem *m, struct brk_vu_chain *c)
{
    uint32_t i = c->head, steps = 0;

    c->nread = c->nwrite = 0;
    for (;;) {
        struct desc d;

        memcpy(&d, q->desc + 16ull * i, sizeof(d));
        if (d.flags & DESC_INDIRECT) {
            /* Allowed as the last descriptor only. */
            return !(d.flags & DESC_NEXT) && add_indirect(m, c, &d);
        }
        if (!vu_queue_add(c, &d))
            return false;
        if (!(d.flags & DESC_NEXT))
            return true;
        i = d.next;
        if (i >= q->num || ++steps >= q->num)
            return false;
    }
}

int brk_vu_queue_pop(struct brk_vu_queue *q, struct brk_vu_mem *m, struct brk_vu_chain *c)
{
    /* The guest can refill the ring with such chains as fast as they are returned. */
    for (unsigned skipped = 0; skipped < BRK_VU_SKIP_MAX; skipped++) {
        if (!q->avail || !q->started || !q->enabled)
            return 0;
        uint16_t idx = load16(q->avail + 2);
        if (idx == q->last_avail) {
            if (!q->event_idx)
                return 0;
            /*
             * avail_event: request a kick for the next chain, then check again in case it has come.
             */
            store16(q->used + 4 + 8ull * q->num, q->last_avail);
            __atomic_thread_fence(__ATOMIC_SEQ_CST);
            if (load16(q->avail + 2) == q->last_avail)
                return 0;
            continue;
        }
        uint16_t head = 0xffff;
        if ((uint16_t)(idx - q->last_avail) <= q->num)
            head = load16(q->avail + 4 + 2ull * (q->last_avail % q->num));
        if (head >= q->num) {
            q->started = false; /* the rest of the ring cannot be trusted either */
            if (q->err >= 0)
                brk_eventfd_signal(q->err);
            return -1;
        }
        q->last_avail++;
        c->head = head;
        if (walk_chain(q, m, c))
            return 1;
        brk_vu_queue_push(q, head, 0);
        brk_vu_queue_notify(q, (uint16_t)(q->used_idx - 1));
    }
    return 2;
}

void brk_vu_queue_push(struct brk_vu_queue *q, uint16_t head, uint32_t written)
{
    struct {
        uint32_t id, len;
    } e = {.id = head, .len = written};

    if (!q->used)
        return;
    memcpy(q->used + 4 + 8ull * (q->used_idx % q->num), &e, sizeof(e));
    q->used_idx++;
    store16(q->used + 2, q->used_idx);
}

void brk_vu_queue_notify(struct brk_vu_queue *q, uint16_t old_used)
{
    if (!q->used || q->call < 0)
        return;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (q->event_idx) {
        uint16_t event = load16(q->avail + 4 + 2ull * q->num);

        if ((uint16_t)(q->used_idx - event - 1) >= (uint16_t)(q->used_idx - old_used))
            return;
    } else if (load16(q->avail) & AVAIL_NO_INTERRUPT) {
        return;
    }
    brk_eventfd_signal(q->call);
}

uint32_t brk_vu_chain_read(struct brk_vu_mem *m, const struct brk_vu_chain *c, void *to, uint32_t room,
                           uint64_t *total)
{
    uint32_t done = 0;

    *total = 0;
    for (unsigned i = 0; i < c->nread; i++)
        *total += c->read[i].len;
    for (unsigned i = 0; i < c->nread; i++) {
        uint64_t gpa = c->read[i].gpa, left = c->read[i].len;

        while (left && done < room) {
            uint64_t n = left < room - done ? left : room - done;
            const uint8_t *p = brk_vu_mem_gpa(m, gpa, &n);

            if (!p)
                return done;
            memcpy((uint8_t *)to + done, p, n);
            done += (uint32_t)n;
            gpa += n;
            left -= n;
        }
    }
    return done;
}

uint64_t brk_vu_chain_room(const struct brk_vu_chain *c)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < c->nwrite; i++)
        n += c->write[i].len;
    return n;
}

uint32_t brk_vu_chain_write(struct brk_vu_mem *m, const struct brk_vu_chain *c, const void *from,
                            uint32_t size)
{
    uint32_t done = 0;

    for (unsigned i = 0; i < c->nwrite; i++) {
        uint64_t gpa = c->write[i].gpa, left = c->write[i].len;

        while (left && done < size) {
            uint64_t n = left < size - done ? left : size - done;
            uint8_t *p = brk_vu_mem_gpa(m, gpa, &n);

            if (!p)
                return done;
            memcpy(p, (const uint8_t *)from + done, n);
            done += (uint32_t)n;
            gpa += n;
            left -= n;
        }
    }
    return done;
}
