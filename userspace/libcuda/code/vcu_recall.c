/* SPDX-License-Identifier: MIT */
/* A direct-mapped table: of two queries with the same place the later is kept. */
#include "recall.h"

#include "code.h"

#include <stdlib.h>
#include <string.h>

#define PLACES 256u

static pthread_mutex_t recall_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    struct vcu_question question; /* call 0: nothing */
    uint64_t answer[2];
} recall_table[PLACES];
static uint64_t recall_generation = 1; /* under the lock */
static bool recall_off;

static unsigned recall_place(const struct vcu_question *q)
{
    uint64_t h = q->call ^ q->object * 0x9e3779b97f4a7c15u ^ q->context << 7;

    for (unsigned i = 0; i < 3; i++)
        h = (h ^ q->inputs[i]) * 0xff51afd7ed558ccdu;
    return (unsigned)(h >> 32) % PLACES;
}

static bool recall_same(const struct vcu_question *a, const struct vcu_question *b)
{
    return a->call == b->call && a->object == b->object && a->context == b->context &&
           a->generation == b->generation && memcmp(a->inputs, b->inputs, sizeof(a->inputs)) == 0;
}

bool vcu_recall(struct vcu_question *q, uint64_t answer[2])
{
    unsigned at;
    bool known;

    q->context = vcu_current_context();
    at = recall_place(q);
    pthread_mutex_lock(&recall_lock);
    q->generation = recall_generation;
    known = !recall_off && recall_same(q, &recall_table[at].question);
    if (known)
        memcpy(answer, recall_table[at].answer, sizeof(recall_table[at].answer));
    pthread_mutex_unlock(&recall_lock);
    return known;
}

void vcu_recall_keep(const struct vcu_question *q, const uint64_t answer[2])
{
    unsigned at = recall_place(q);

    pthread_mutex_lock(&recall_lock);
    if (q->generation == recall_generation) { /* else the answer may be older than a setting made meanwhile */
        recall_table[at].question = *q;
        memcpy(recall_table[at].answer, answer, sizeof(recall_table[at].answer));
    }
    pthread_mutex_unlock(&recall_lock);
}

CUresult vcu_recall_forget(void)
{
    pthread_mutex_lock(&recall_lock);
    recall_generation++;
    pthread_mutex_unlock(&recall_lock);
    return CUDA_SUCCESS;
}

bool vcu_recall_on(void)
{
    return !recall_off;
}

__attribute__((constructor)) void vcu_recall_init(void)
{
    const char *value = getenv("VGPU_ANSWER_QUERIES");

    recall_off = value != NULL && !strcmp(value, "0");
}
