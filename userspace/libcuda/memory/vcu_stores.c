/* SPDX-License-Identifier: MIT */
#include "stores.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../../lib/bulk/bulk.h"
#include "../core/core.h"
#include "../../../lib/clock/clock.h"

#define MEASURED_MIN (64u << 10) /* the cost of smaller copies is that of their records */
#define CLASS_FIRST 16           /* copies of 64 KiB, and smaller ones */
#define CLASSES 11               /* the last one: 64 MiB and more */

enum mode { LEARNT, NEVER, ALWAYS };

static enum mode mode;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct blk_choice choices[2][CLASSES];

void vcu_stores_init(void)
{
    const char *value = getenv("VGPU_STREAM_COPIES");

    mode = value == NULL ? LEARNT : !strcmp(value, "0") ? NEVER : !strcmp(value, "1") ? ALWAYS : LEARNT;
}

static uint32_t kinds_of(uint64_t bytes)
{
    return bytes < BLK_PAST_MIN ? 2 : BLK_KINDS;
}

static struct blk_choice *choice_of(bool to_host, uint64_t bytes)
{
    const int log = 63 - __builtin_clzll(bytes | 1);
    const int at = log < CLASS_FIRST ? 0 : log - CLASS_FIRST < CLASSES ? log - CLASS_FIRST : CLASSES - 1;

    choices[to_host][at].kinds = kinds_of(bytes);
    return &choices[to_host][at];
}

/* A hint that races with another thread's is still a hint. */
static void tell_worker(bool to_host, uint32_t kind)
{
    const uint32_t hints = to_host ? (kind & BLK_TO_PIECE ? VGP_PAST_TO_STAGING : 0)
                                   : (kind & BLK_FROM_PIECE ? VGP_PAST_FROM_STAGING : 0);
    uint32_t *word = &vcu.ring.shared->past_caches;

    if (__atomic_load_n(word, __ATOMIC_RELAXED) != hints)
        __atomic_store_n(word, hints, __ATOMIC_RELAXED);
}

struct vcu_stores vcu_stores_plan(bool to_host, uint64_t bytes, bool timed)
{
    struct vcu_stores s = {.to_host = to_host, .bytes = bytes};

    if (mode == LEARNT) {
        s.timed = timed && bytes >= MEASURED_MIN;
        pthread_mutex_lock(&lock);
        s.kind = s.timed ? blk_choose(choice_of(to_host, bytes))
                         : blk_choose_unmeasured(choice_of(to_host, bytes));
        pthread_mutex_unlock(&lock);
        s.start_ns = s.timed ? clk_now_ns() : 0;
    } else if (mode == ALWAYS) {
        s.kind = kinds_of(bytes) - 1;
    }
    tell_worker(to_host, s.kind);
    return s;
}

void vcu_stores_end(const struct vcu_stores *s)
{
    if (!s->timed)
        return;
    pthread_mutex_lock(&lock);
    blk_learn(choice_of(s->to_host, s->bytes), s->kind, s->bytes, clk_now_ns() - s->start_ns);
    pthread_mutex_unlock(&lock);
}

bool vcu_stores_unsure(bool to_host, uint64_t bytes)
{
    bool unsure;

    if (mode != LEARNT || bytes < MEASURED_MIN)
        return false;
    pthread_mutex_lock(&lock);
    unsure = blk_unsure(choice_of(to_host, bytes));
    pthread_mutex_unlock(&lock);
    return unsure;
}
