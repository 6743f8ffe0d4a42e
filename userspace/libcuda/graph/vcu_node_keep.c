/* SPDX-License-Identifier: MIT */
/* Data returned to the program that lives as long as its node. */
#include "graph.h"

#include <stdlib.h>

struct kept {
    struct kept *next;
    CUgraphNode node;
    CUgraph graph;
    void *storage;
};

#define BUCKETS 256u
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept *kept[BUCKETS];

static unsigned bucket_of(CUgraphNode node)
{
    return VGP_HANDLE_INDEX((uintptr_t)node) % BUCKETS;
}

bool vcu_node_keep(CUgraphNode node, CUgraph graph, void *storage)
{
    struct kept **p = &kept[bucket_of(node)], *k;

    pthread_mutex_lock(&lock);
    while (*p != NULL && (*p)->node != node)
        p = &(*p)->next;
    k = *p;
    if (k == NULL) {
        k = calloc(1, sizeof(*k));
        if (k != NULL) {
            k->node = node;
            k->graph = graph;
            *p = k;
        }
    }
    if (k != NULL) {
        free(k->storage);
        k->storage = storage;
    }
    pthread_mutex_unlock(&lock);
    if (k == NULL)
        free(storage);
    return k != NULL;
}

static void forget_in(struct kept **p, CUgraphNode node, CUgraph graph)
{
    while (*p != NULL) {
        struct kept *k = *p;

        if (k->node != node && k->graph != graph) {
            p = &k->next;
            continue;
        }
        *p = k->next;
        free(k->storage);
        free(k);
    }
}

void vcu_node_forget(CUgraphNode node)
{
    pthread_mutex_lock(&lock);
    forget_in(&kept[bucket_of(node)], node, NULL);
    pthread_mutex_unlock(&lock);
}

void vcu_node_forget_graph(CUgraph graph)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < BUCKETS; i++)
        forget_in(&kept[i], NULL, graph);
    pthread_mutex_unlock(&lock);
}
