/* SPDX-License-Identifier: MIT */
/* See btree.h. All words read by btr_peek() are stored individually with relaxed atomics:
   `sequence` provides the ordering. */
#include "btree.h"

#include <errno.h>
#include <stdlib.h>

#define FANOUT 32u
#define SPARSE (FANOUT / 4) /* fewer in a node: it joins a neighbour or gets some of its */
#define DEPTH_MAX 16u       /* levels: 8^16 items exceed the number of keys that fit into memory */
#define SPARES_MAX 16u      /* kept by a tree that is not peeked */

struct btr_node {
    struct btr_node *next; /* in the list of spare nodes */
    uint32_t n;
    uint32_t leaf;
    uint64_t key[FANOUT];    /* ascending; of a child: the smallest below it */
    uint64_t weight[FANOUT]; /* per child: the largest weight below it */
    void *ptr[FANOUT];       /* value or child */
};

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define STORE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELAXED)

/* ---- nodes ---- */

static void put_item(struct btr_node *node, uint32_t i, uint64_t key, uint64_t weight, void *ptr)
{
    STORE(node->key[i], key);
    STORE(node->weight[i], weight);
    STORE(node->ptr[i], ptr);
}

static void copy_items(struct btr_node *to, uint32_t i, const struct btr_node *from, uint32_t k)
{
    put_item(to, i, from->key[k], from->weight[k], from->ptr[k]);
}

static void open_gap(struct btr_node *node, uint32_t at)
{
    for (uint32_t i = node->n; i > at; i--)
        copy_items(node, i, node, i - 1);
    STORE(node->n, node->n + 1);
}

static void close_gap(struct btr_node *node, uint32_t at)
{
    for (uint32_t i = at; i + 1 < node->n; i++)
        copy_items(node, i, node, i + 1);
    STORE(node->n, node->n - 1);
}

static uint64_t heaviest_item(const struct btr_node *node)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < node->n; i++)
        most = node->weight[i] > most ? node->weight[i] : most;
    return most;
}

/* Number of the first n keys that are at most `key`. */
static uint32_t keys_upto(const struct btr_node *node, uint32_t n, uint64_t key)
{
    const uint64_t *keys = node->key;
    uint32_t lo = 0, hi = n;

    while (lo < hi) {
        const uint32_t mid = (lo + hi) / 2;

        if (LOAD(keys[mid]) <= key)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The child below which the key is or would be. */
static uint32_t child_of(const struct btr_node *node, uint64_t key)
{
    const uint32_t k = keys_upto(node, node->n, key);

    return k ? k - 1 : 0;
}

static void node_free(struct btr_tree *t, struct btr_node *node)
{
    if (!t->peeked && t->nspare >= SPARES_MAX) {
        free(node);
        return;
    }
    node->next = t->spare;
    t->spare = node;
    t->nspare++;
}

/* After btr_reserve(). */
static struct btr_node *node_take(struct btr_tree *t, bool leaf)
{
    struct btr_node *node = t->spare;

    t->spare = node->next;
    t->nspare--;
    STORE(node->n, 0);
    STORE(node->leaf, leaf);
    return node;
}

/* ---- the tree ---- */

void btr_init(struct btr_tree *t, bool peeked)
{
    *t = (struct btr_tree){.peeked = peeked};
}

static void subtree_free(struct btr_node *node)
{
    for (uint32_t i = 0; !node->leaf && i < node->n; i++)
        subtree_free(node->ptr[i]);
    free(node);
}

void btr_fini(struct btr_tree *t)
{
    for (struct btr_node *node = t->spare, *next; node; node = next) {
        next = node->next;
        free(node);
    }
    if (t->root)
        subtree_free(t->root);
    btr_init(t, t->peeked);
}

bool btr_reserve(struct btr_tree *t)
{
    /* Every level may split, and the root may get a parent. */
    while (t->nspare < t->height + 1) {
        struct btr_node *node = calloc(1, sizeof(*node));

        if (!node)
            return false;
        node->next = t->spare;
        t->spare = node;
        t->nspare++;
    }
    return true;
}

void btr_change_begin(struct btr_tree *t)
{
    STORE(t->sequence, t->sequence + 1);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

void btr_change_end(struct btr_tree *t)
{
    __atomic_store_n(&t->sequence, t->sequence + 1, __ATOMIC_RELEASE);
}

/* Moves half of a full child to a new sibling after it; the parent has room. */
static void split_child(struct btr_tree *t, struct btr_node *parent, uint32_t at)
{
    struct btr_node *full = parent->ptr[at], *half = node_take(t, full->leaf);

    for (uint32_t i = FANOUT / 2; i < FANOUT; i++)
        copy_items(half, i - FANOUT / 2, full, i);
    STORE(half->n, FANOUT - FANOUT / 2);
    STORE(full->n, FANOUT / 2);
    open_gap(parent, at + 1);
    put_item(parent, at + 1, half->key[0], heaviest_item(half), half);
    STORE(parent->weight[at], heaviest_item(full));
}

static void insert_below(struct btr_tree *t, struct btr_node *node, const struct btr_item *item)
{
    if (node->leaf) {
        const uint32_t at = keys_upto(node, node->n, item->key);

        open_gap(node, at);
        put_item(node, at, item->key, item->weight, item->value);
        return;
    }
    uint32_t at = child_of(node, item->key);

    if (((struct btr_node *)node->ptr[at])->n == FANOUT) {
        split_child(t, node, at);
        at = child_of(node, item->key);
    }
    insert_below(t, node->ptr[at], item);
    if (item->key < node->key[at])
        STORE(node->key[at], item->key);
    if (item->weight > node->weight[at])
        STORE(node->weight[at], item->weight);
}

static void set_root(struct btr_tree *t, struct btr_node *node)
{
    STORE(t->root, node);
}

static void grow_root(struct btr_tree *t)
{
    struct btr_node *old = t->root, *root = node_take(t, !old);

    if (old) {
        put_item(root, 0, old->key[0], heaviest_item(old), old);
        STORE(root->n, 1);
    }
    set_root(t, root);
    t->height++;
}

int btr_insert(struct btr_tree *t, uint64_t key, uint64_t weight, void *value)
{
    const struct btr_item item = {key, weight, value};

    if (btr_find(t, key, NULL))
        return EEXIST;
    if (!btr_reserve(t))
        return ENOMEM;
    btr_change_begin(t);
    if (!t->root) {
        grow_root(t);
    } else if (t->root->n == FANOUT) {
        grow_root(t);
        split_child(t, t->root, 0);
    }
    insert_below(t, t->root, &item);
    t->count++;
    btr_change_end(t);
    return 0;
}

/* ---- removal ---- */

/* Balances the items of two siblings; `at` is the index of the right one in the parent. */
static void even_out(struct btr_node *parent, uint32_t at)
{
    struct btr_node *left = parent->ptr[at - 1], *right = parent->ptr[at];

    while (left->n > right->n + 1) {
        open_gap(right, 0);
        copy_items(right, 0, left, left->n - 1);
        STORE(left->n, left->n - 1);
    }
    while (right->n > left->n + 1) {
        copy_items(left, left->n, right, 0);
        STORE(left->n, left->n + 1);
        close_gap(right, 0);
    }
    STORE(parent->key[at], right->key[0]);
    STORE(parent->weight[at - 1], heaviest_item(left));
    STORE(parent->weight[at], heaviest_item(right));
}

static void join_nodes(struct btr_tree *t, struct btr_node *parent, uint32_t at)
{
    struct btr_node *left = parent->ptr[at - 1], *right = parent->ptr[at];

    for (uint32_t i = 0; i < right->n; i++)
        copy_items(left, left->n + i, right, i);
    STORE(left->n, left->n + right->n);
    STORE(parent->weight[at - 1], heaviest_item(left));
    close_gap(parent, at);
    node_free(t, right);
}

static void mend_child(struct btr_tree *t, struct btr_node *parent, uint32_t at)
{
    const struct btr_node *child = parent->ptr[at];

    STORE(parent->key[at], child->key[0]); /* never empty: it had SPARSE items */
    STORE(parent->weight[at], heaviest_item(child));
    if (child->n >= SPARSE || parent->n < 2)
        return;
    at += at == 0; /* index of the right sibling */
    const struct btr_node *left = parent->ptr[at - 1], *right = parent->ptr[at];

    if (left->n + right->n <= FANOUT)
        join_nodes(t, parent, at);
    else
        even_out(parent, at);
}

/* Removes an existing key. */
static void remove_below(struct btr_tree *t, struct btr_node *node, uint64_t key)
{
    const uint32_t at = child_of(node, key);

    if (node->leaf) {
        close_gap(node, at);
        return;
    }
    remove_below(t, node->ptr[at], key);
    mend_child(t, node, at);
}

bool btr_remove(struct btr_tree *t, uint64_t key, struct btr_item *out)
{
    if (!btr_find(t, key, out))
        return false;
    btr_change_begin(t);
    remove_below(t, t->root, key);
    t->count--;
    struct btr_node *root = t->root;

    if (!root->n || (!root->leaf && root->n == 1)) {
        set_root(t, root->n ? root->ptr[0] : NULL);
        t->height--;
        node_free(t, root);
    }
    btr_change_end(t);
    return true;
}

static void set_weight_below(struct btr_node *node, uint64_t key, uint64_t weight)
{
    const uint32_t at = child_of(node, key);

    if (!node->leaf) {
        set_weight_below(node->ptr[at], key, weight);
        weight = heaviest_item(node->ptr[at]);
    }
    STORE(node->weight[at], weight);
}

bool btr_set_weight(struct btr_tree *t, uint64_t key, uint64_t weight)
{
    if (!btr_find(t, key, NULL))
        return false;
    btr_change_begin(t);
    set_weight_below(t->root, key, weight);
    btr_change_end(t);
    return true;
}

/* ---- look-ups ---- */

static bool copy_item(const struct btr_node *leaf, uint32_t at, struct btr_item *out)
{
    if (out)
        *out = (struct btr_item){leaf->key[at], leaf->weight[at], leaf->ptr[at]};
    return true;
}

bool btr_floor(const struct btr_tree *t, uint64_t key, struct btr_item *out)
{
    const struct btr_node *node = t->root;

    if (!node)
        return false;
    while (!node->leaf)
        node = node->ptr[child_of(node, key)];
    const uint32_t k = keys_upto(node, node->n, key);

    return k && copy_item(node, k - 1, out);
}

bool btr_find(const struct btr_tree *t, uint64_t key, struct btr_item *out)
{
    struct btr_item item;

    if (!btr_floor(t, key, &item) || item.key != key)
        return false;
    if (out)
        *out = item;
    return true;
}

static bool first_below(const struct btr_node *node, uint64_t key, uint64_t weight, struct btr_item *out)
{
    if (node->leaf) {
        for (uint32_t i = 0; i < node->n; i++)
            if (node->key[i] >= key && node->weight[i] >= weight)
                return copy_item(node, i, out);
        return false;
    }
    /* Below the first child the key may lie after all items that are heavy enough; below later
       children all items count. */
    for (uint32_t i = child_of(node, key); i < node->n; i++)
        if (node->weight[i] >= weight && first_below(node->ptr[i], key, weight, out))
            return true;
    return false;
}

bool btr_first_of_weight(const struct btr_tree *t, uint64_t key, uint64_t weight, struct btr_item *out)
{
    return t->root && first_below(t->root, key, weight, out);
}

bool btr_ceiling(const struct btr_tree *t, uint64_t key, struct btr_item *out)
{
    return btr_first_of_weight(t, key, 0, out);
}

/* ---- without the owner's lock ---- */

bool btr_unchanged(const struct btr_tree *t, uint64_t ticket)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return LOAD(t->sequence) == ticket;
}

enum btr_peek btr_peek(const struct btr_tree *t, uint64_t key, struct btr_item *item, uint64_t *ticket)
{
    const uint64_t before = __atomic_load_n(&t->sequence, __ATOMIC_ACQUIRE);
    const struct btr_node *node = LOAD(t->root);

    *ticket = before;
    /* A pointer is followed only if it is valid at the time of the ticket: then it points to a
       node. */
    if ((before & 1) || !btr_unchanged(t, before))
        return BTR_CHANGED;
    for (unsigned depth = 0; node && depth < DEPTH_MAX; depth++) {
        uint32_t n = LOAD(node->n);
        const uint32_t leaf = LOAD(node->leaf);

        n = n < FANOUT ? n : FANOUT;
        uint32_t k = keys_upto(node, n, key);

        if (!k && leaf)
            break;
        k -= k != 0;
        if (leaf) {
            item->key = LOAD(node->key[k]);
            item->weight = LOAD(node->weight[k]);
        }
        item->value = LOAD(node->ptr[k]);
        if (!btr_unchanged(t, before))
            return BTR_CHANGED;
        if (leaf)
            return BTR_FOUND;
        node = item->value;
    }
    return btr_unchanged(t, before) ? BTR_NONE : BTR_CHANGED;
}
