/* SPDX-License-Identifier: MIT */
/*
 * Graphs that the program builds call by call, and the calls that need no reply. Lock order: the
 * lock here, then that of the handle table; nothing is sent under it.
 */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_guest.h"

struct build;
struct build_node {
    struct build *graph;
    struct build_node *next, *prev; /* in graph->nodes */
    uint64_t handle;
    uint32_t number; /* in the order of the calls */
    uint32_t height; /* nesting depth of its child graph; 0: not a child graph */
    uint64_t weight; /* number of nodes, including those of the child graph */
    bool made;       /* the call that adds it has succeeded, or was posted */
    bool plain;      /* no other state of the graph depends on its type: see vcu_build_post() */
    bool conditional;
    uint64_t condition;   /* conditional node: the number that it tests */
    struct build *bodies; /* conditional node: its graphs, linked by next */
};

struct build {
    struct build *next; /* in `moved`, or the next graph of the same node */
    uint64_t handle;
    uint64_t doubts; /* when it was created */
    struct build_node *nodes;
    struct btr_tree edges; /* by the numbers of both ends */
    /* by the number: context handle as value, weight 1: a node tests it */
    struct btr_tree conditions;
    uint32_t numbers;
    uint32_t height;              /* nesting depth of graphs below it */
    uint64_t weight;              /* number of nodes, including those of the graphs below */
    bool shown;                   /* the program has handles of graphs below, whose contents may change */
    bool special;                 /* has, or may have, nodes that restrict edges and removal of nodes */
    bool unordered;               /* edges may lead back to earlier nodes, or are not all known */
    uint64_t parent, parent_node; /* handle of its new owner; 0: owned by the program */
};

/* Maximum number of dependencies compared with each other; a call with more has a reply. */
#define COMPARED 64u
/* Limits that every provider accepts: nesting depth of graphs, and number of nodes including those
 * of nested graphs. */
#define HEIGHT_SURE 16u
#define WEIGHT_SURE (UINT64_C(1) << 18)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t doubts;
static struct build *moved;
static bool off; /* VGPU_POST_NODES=0 */

CUresult vcu_build_init(void)
{
    const char *value = getenv("VGPU_POST_NODES");

    off = value != NULL && !strcmp(value, "0");
    return CUDA_SUCCESS;
}

void vcu_build_doubt(void)
{
    atomic_fetch_add(&doubts, 1);
}

bool vcu_build_may_name(void)
{
    return !off && vcu.worker_minor >= 8 && vcu.ring.tap == NULL;
}

/* Records are looked up, changed and freed under the lock. */
static struct build *build_find(CUgraph graph)
{
    return vcu_handle_data((uintptr_t)graph, VGP_H_GRAPH);
}

static struct build_node *find_node(CUgraphNode node)
{
    return vcu_handle_data((uintptr_t)node, VGP_H_GRAPH_NODE);
}

/* ---- graphs ----------------------------------------------------------------------------------- */

void vcu_build_begun(CUgraph graph)
{
    struct build *g = graph == NULL ? NULL : calloc(1, sizeof(*g));

    if (g == NULL) /* without a record it is untracked */
        return;
    g->handle = (uintptr_t)graph;
    g->doubts = atomic_load(&doubts);
    btr_init(&g->edges, false);
    btr_init(&g->conditions, false);
    vcu_handle_set_data(g->handle, VGP_H_GRAPH, g);
}

static void drop_node(struct build_node *n)
{
    if (n->made)
        n->graph->weight -= n->weight;
    if (n->prev != NULL)
        n->prev->next = n->next;
    else
        n->graph->nodes = n->next;
    if (n->next != NULL)
        n->next->prev = n->prev;
    free(n);
}

/* Moves the graphs of a node to the list. */
static void take_bodies(struct build_node *n, struct build **list)
{
    while (n->bodies != NULL) {
        struct build *g = n->bodies;

        n->bodies = g->next;
        g->next = *list;
        *list = g;
    }
}

/* Drops a list of graphs and, at any depth, those of their nodes. Graphs that were moved to these
 * count as moved to `heir` from now on. Without recursion: the program chooses the depth. */
static void drop_graphs(struct build *list, uint64_t heir)
{
    while (list != NULL) {
        struct build *g = list;

        list = g->next;
        while (g->nodes != NULL) {
            take_bodies(g->nodes, &list);
            vgp_handle_drop(g->nodes->handle);
            drop_node(g->nodes);
        }
        for (struct build *m = moved; m != NULL; m = m->next) {
            if (m->parent == g->handle)
                m->parent = heir;
        }
        vgp_handle_drop(g->handle);
        btr_fini(&g->edges);
        btr_fini(&g->conditions);
        free(g);
    }
}

/* Removes graphs that were moved to an ended object (UINT64_MAX: none), and those moved to these. A
 * graph moved to an untracked graph (a clone's child) stays in the table, and costs its handles,
 * until the process ends. */
static void drop_moved(uint64_t graph, uint64_t node)
{
    for (struct build **p = &moved; *p != NULL;) {
        struct build *g = *p;

        if (g->parent != graph && g->parent_node != node) {
            p = &g->next;
            continue;
        }
        *p = g->next;
        g->next = NULL;
        drop_graphs(g, graph);
        p = &moved;
    }
}

void vcu_build_graph_gone(CUgraph graph)
{
    struct build *g;

    pthread_mutex_lock(&lock);
    g = build_find(graph);
    if (g != NULL)
        drop_graphs(g, (uintptr_t)graph);
    vgp_handle_drop((uintptr_t)graph); /* where memory for a record was missing */
    drop_moved((uintptr_t)graph, UINT64_MAX);
    pthread_mutex_unlock(&lock);
}

void vcu_build_moved(CUgraph child, CUgraph graph, CUgraphNode node)
{
    struct build *g;

    pthread_mutex_lock(&lock);
    g = build_find(child);
    if (g != NULL && g->parent == 0) {
        g->parent = (uintptr_t)graph;
        g->parent_node = (uintptr_t)node;
        g->next = moved;
        moved = g;
    }
    pthread_mutex_unlock(&lock);
}

/* True if the guest's knowledge of the graph is complete now. Captures may be into any graph. */
static bool is_certain(const struct build *g)
{
    return g != NULL && g->parent == 0 && g->doubts == atomic_load(&doubts) && vcu_build_may_name() &&
           atomic_load_explicit(&vcu_captures, memory_order_relaxed) == 0;
}

/* ---- edges ------------------------------------------------------------------------------------ */

static uint64_t edge_key(const struct build_node *from, const struct build_node *to)
{
    return (uint64_t)from->number << 32 | to->number;
}

static void add_edge(struct build *g, const struct build_node *from, const struct build_node *to)
{
    if (from == NULL || to == NULL || from->number >= to->number ||
        btr_insert(&g->edges, edge_key(from, to), 0, NULL) != 0)
        g->unordered = true;
}

/* True: all edges are new, and lead from earlier nodes of the graph to later ones, so they cannot
 * form a cycle. */
static bool add_new_edges(struct build *g, const CUgraphNode *from, const CUgraphNode *to, size_t n)
{
    size_t done;

    for (done = 0; done < n; done++) {
        const struct build_node *a = find_node(from[done]), *b = find_node(to[done]);

        if (a == NULL || b == NULL || a->graph != g || b->graph != g || !a->made || !b->made ||
            a->number >= b->number || btr_find(&g->edges, edge_key(a, b), &(struct btr_item){0}) ||
            btr_insert(&g->edges, edge_key(a, b), 0, NULL) != 0)
            break;
    }
    if (done == n)
        return true;
    while (done-- > 0)
        btr_remove(&g->edges, edge_key(find_node(from[done]), find_node(to[done])), NULL);
    return false;
}

void vcu_build_special(CUgraph graph)
{
    struct build *g;

    pthread_mutex_lock(&lock);
    g = build_find(graph);
    if (g != NULL)
        g->special = true;
    pthread_mutex_unlock(&lock);
}

void vcu_build_special_node(CUgraphNode node)
{
    struct build_node *n;

    pthread_mutex_lock(&lock);
    n = find_node(node);
    if (n != NULL)
        n->graph->special = true;
    pthread_mutex_unlock(&lock);
}

bool vcu_build_post_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n)
{
    struct build *g;
    bool yes;

    pthread_mutex_lock(&lock);
    g = build_find(graph);
    yes = is_certain(g) && !g->special && !g->unordered && add_new_edges(g, from, to, n);
    pthread_mutex_unlock(&lock);
    return yes;
}

void vcu_build_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n, bool all_added)
{
    struct build *g;

    pthread_mutex_lock(&lock);
    g = build_find(graph);
    for (size_t i = 0; g != NULL && all_added && i < n; i++)
        add_edge(g, find_node(from[i]), find_node(to[i]));
    if (g != NULL && !all_added)
        g->unordered = true;
    pthread_mutex_unlock(&lock);
}

/* ---- nodes ------------------------------------------------------------------------------------ */

void vcu_build_name(struct vgp_where *w)
{
    struct build_node *n = NULL;
    struct build *g;

    if (!vcu_build_may_name())
        return;
    pthread_mutex_lock(&lock);
    g = build_find(w->graph);
    if (g != NULL && g->numbers != UINT32_MAX)
        n = calloc(1, sizeof(*n));
    if (n != NULL)
        n->handle = vgp_handle_mint(VGP_H_GRAPH_NODE);
    if (n != NULL && n->handle != 0) {
        n->graph = g;
        n->weight = 1;
        n->number = ++g->numbers;
        n->next = g->nodes;
        if (n->next != NULL)
            n->next->prev = n;
        g->nodes = n;
        vcu_handle_set_data(n->handle, VGP_H_GRAPH_NODE, n);
        w->op = VGP_NODE_NAME;
        w->target = (CUgraphNode)(uintptr_t)n->handle;
    } else {
        free(n); /* the worker then mints a handle */
    }
    pthread_mutex_unlock(&lock);
}

/* True if they are nodes of g, each once, on which new nodes can depend. */
static bool dependencies_ok(const struct build *g, const struct vgp_where *w)
{
    if (w->edges != NULL || w->ndeps > COMPARED)
        return false;
    for (size_t i = 0; i < w->ndeps; i++) {
        const struct build_node *n = find_node(w->deps[i]);

        if (n == NULL || n->graph != g || !n->made)
            return false;
        for (size_t k = 0; k < i; k++) {
            if (w->deps[k] == w->deps[i])
                return false;
        }
    }
    return true;
}

static bool may_post(struct build_node *n, const struct vgp_where *w)
{
    n->plain = true;
    return is_certain(n->graph) && dependencies_ok(n->graph, w);
}

bool vcu_build_post(const struct vgp_where *w, bool sure)
{
    struct build_node *n;
    bool yes = false;

    if (w->op != VGP_NODE_NAME)
        return false;
    pthread_mutex_lock(&lock);
    n = find_node(w->target);
    if (n != NULL)
        yes = may_post(n, w) && sure;
    pthread_mutex_unlock(&lock);
    return yes;
}

/* True if a copy of g as a child equals g: all of its contents are known, and may be copied. */
static bool may_be_child(const struct build *g, const struct build *of)
{
    return g != NULL && g != of && is_certain(g) && !g->special && !g->unordered && !g->shown &&
           g->height < HEIGHT_SURE && g->weight < WEIGHT_SURE && of->weight < WEIGHT_SURE - g->weight;
}

bool vcu_build_post_child(const struct vgp_where *w, CUgraph child)
{
    const struct build *g;
    struct build_node *n;
    bool yes = false;

    if (w->op != VGP_NODE_NAME)
        return false;
    pthread_mutex_lock(&lock);
    n = find_node(w->target);
    g = build_find(child);
    if (n != NULL && may_be_child(g, n->graph)) {
        n->height = g->height + 1;
        n->weight = g->weight + 1;
        yes = may_post(n, w);
    }
    pthread_mutex_unlock(&lock);
    return yes;
}

/* ---- conditional nodes ------------------------------------------------------------------------ */

void vcu_build_condition(CUgraph graph, uint64_t condition, CUcontext ctx)
{
    struct build *g;

    pthread_mutex_lock(&lock);
    g = build_find(graph);
    if (g != NULL) {
        g->special = true;
        btr_insert(&g->conditions, condition, 0, ctx); /* where it fails: nodes that test it get a reply */
    }
    pthread_mutex_unlock(&lock);
}

/* Finds the graph, g or an enclosing one, that has the condition. */
static struct build *condition_owner(struct build *g, uint64_t condition, struct btr_item *out)
{
    while (g != NULL && !btr_find(&g->conditions, condition, out))
        g = g->parent != 0 ? build_find((CUgraph)(uintptr_t)g->parent) : NULL;
    return g;
}

static struct build *new_body(const struct build_node *n)
{
    struct build *g = calloc(1, sizeof(*g));

    if (g != NULL)
        g->handle = vgp_handle_mint(VGP_H_GRAPH);
    if (g == NULL || g->handle == 0) {
        free(g);
        return NULL;
    }
    btr_init(&g->edges, false);
    btr_init(&g->conditions, false);
    g->special = true;
    g->parent = n->graph->handle;
    g->parent_node = n->handle;
    vcu_handle_set_data(g->handle, VGP_H_GRAPH, g);
    return g;
}

bool vcu_build_bodies(const struct vgp_where *w, uint64_t condition, CUgraph *bodies, uint32_t size)
{
    struct build_node *n = NULL;
    uint32_t made = 0;

    if (w->op != VGP_NODE_NAME)
        return false;
    pthread_mutex_lock(&lock);
    n = find_node(w->target);
    if (n != NULL) {
        n->conditional = true;
        n->condition = condition;
    }
    for (; n != NULL && bodies != NULL && vcu.worker_minor >= 10 && made < size; made++) {
        struct build *g = new_body(n);

        if (g == NULL)
            break;
        g->next = n->bodies;
        n->bodies = g;
        bodies[made] = (CUgraph)(uintptr_t)g->handle;
    }
    if (n != NULL && made < size) {
        struct build *none = NULL;

        take_bodies(n, &none);
        drop_graphs(none, 0);
    }
    pthread_mutex_unlock(&lock);
    return n != NULL && made == size;
}

bool vcu_build_post_condition(const struct vgp_where *w, CUcontext ctx)
{
    const struct build_node *n;
    struct btr_item c = {0};
    bool yes;

    pthread_mutex_lock(&lock);
    n = find_node(w->target);
    yes = n != NULL && btr_find(&n->graph->conditions, n->condition, &c) && c.weight == 0 && c.value == ctx &&
          is_certain(n->graph) && dependencies_ok(n->graph, w);
    pthread_mutex_unlock(&lock);
    return yes;
}

/* Notes that a conditional node was added. */
static void condition_used(const struct build_node *n)
{
    struct btr_item c;
    struct build *g = n->conditional ? condition_owner(n->graph, n->condition, &c) : NULL;

    if (g != NULL)
        btr_set_weight(&g->conditions, n->condition, 1);
}

/* Notes that a conditional node could not be added; left: as for may_be_left(). */
static void bodies_gone(struct build_node *n, bool left)
{
    struct build *list = NULL;

    take_bodies(n, &list);
    for (struct build *g = list; g != NULL && left; g = g->next) {
        vcu_handle_set_data(g->handle, VGP_H_GRAPH, NULL);
        g->handle = 0;
    }
    drop_graphs(list, 0);
}

void vcu_build_shown(CUgraphNode node)
{
    struct build_node *n;

    pthread_mutex_lock(&lock);
    n = find_node(node);
    if (n != NULL)
        n->graph->shown = true;
    pthread_mutex_unlock(&lock);
}

CUresult vcu_where_post(struct vgp_where *w)
{
    if (vcu_build_post(w, true))
        w->op = VGP_NODE_POST;
    return CUDA_SUCCESS;
}

/* The worker may keep a node that it could neither finish nor destroy: its handle is not reused. */
static bool may_be_left(CUresult r)
{
    return r == CUDA_ERROR_OUT_OF_MEMORY || r == CUDA_ERROR_NOT_SUPPORTED;
}

CUresult vcu_where_added(const struct vgp_where *w, CUresult r, uint64_t *node)
{
    struct build_node *n;

    if (w->op < VGP_NODE_NAME)
        return r;
    *node = (uintptr_t)w->target;
    pthread_mutex_lock(&lock);
    n = find_node(w->target);
    if (n != NULL && r == CUDA_SUCCESS) {
        n->made = true;
        n->graph->special |= !n->plain;
        n->graph->weight += n->weight;
        if (n->graph->height < n->height)
            n->graph->height = n->height;
        for (size_t i = 0; i < w->ndeps; i++)
            add_edge(n->graph, find_node(w->deps[i]), n);
        condition_used(n);
    } else if (n != NULL) {
        bodies_gone(n, may_be_left(r));
        vcu_handle_set_data(n->handle, VGP_H_GRAPH_NODE, NULL);
        if (!may_be_left(r))
            vgp_handle_drop(n->handle);
        drop_node(n);
    }
    pthread_mutex_unlock(&lock);
    return r;
}

bool vcu_build_post_end(CUgraphNode node)
{
    const struct build_node *n;
    bool yes;

    pthread_mutex_lock(&lock);
    n = find_node(node);
    yes = n != NULL && n->made && n->plain && !n->graph->special && is_certain(n->graph);
    pthread_mutex_unlock(&lock);
    return yes;
}

void vcu_build_node_gone(CUgraphNode node)
{
    struct build_node *n;

    pthread_mutex_lock(&lock);
    n = find_node(node);
    if (n != NULL) {
        struct build *list = NULL;

        take_bodies(n, &list);
        drop_graphs(list, UINT64_MAX);
        vgp_handle_drop(n->handle);
        drop_node(n);
    }
    drop_moved(UINT64_MAX, (uintptr_t)node);
    pthread_mutex_unlock(&lock);
}
