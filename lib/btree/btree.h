/* SPDX-License-Identifier: MIT */
/*
 * An ordered map from 64-bit keys to pointers: a B+ tree. Look-ups by key, by neighbour and by
 * weight, insertion and removal cost O(log n). Each item has a weight; each inner node stores the
 * largest weight below each of its children, so the first item of at least a given weight is found
 * without visiting lighter items (first fit).
 *
 * The owner serialises all calls except btr_peek() and btr_unchanged(), which threads may call
 * without a lock while the tree changes: a sequence counter reveals the change, and the caller
 * tries again. For this, nodes of a tree created with `peeked` remain nodes until btr_fini():
 * removed nodes are kept for later insertions.
 */
#ifndef BTR_BTREE_H
#define BTR_BTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct btr_item {
    uint64_t key, weight;
    void *value;
};

struct btr_node;
struct btr_tree {
    struct btr_node *root; /* NULL: empty tree */
    struct btr_node *spare;
    uint32_t nspare;
    uint32_t height;   /* levels of nodes */
    size_t count;      /* number of items */
    uint64_t sequence; /* odd while the tree changes */
    bool peeked;       /* the tree is used with btr_peek() */
};

/* A zeroed tree is empty and not peeked. */
void btr_init(struct btr_tree *t, bool peeked);
/* Frees the nodes; the caller owns the values. */
void btr_fini(struct btr_tree *t);

/* Reserves memory for the next btr_insert(). Returns false if there is none. */
bool btr_reserve(struct btr_tree *t);
/* 0; EEXIST: the key is present; ENOMEM. */
int btr_insert(struct btr_tree *t, uint64_t key, uint64_t weight, void *value);
/* Removes a key; *out (may be NULL) receives the item. Needs no memory. */
bool btr_remove(struct btr_tree *t, uint64_t key, struct btr_item *out);
/* Changes the weight of an existing key. */
bool btr_set_weight(struct btr_tree *t, uint64_t key, uint64_t weight);

/* The item with that key; with the largest key <= key; with the smallest key >= key. */
bool btr_find(const struct btr_tree *t, uint64_t key, struct btr_item *out);
bool btr_floor(const struct btr_tree *t, uint64_t key, struct btr_item *out);
bool btr_ceiling(const struct btr_tree *t, uint64_t key, struct btr_item *out);
/* The first item with a key >= key and at least that weight. */
bool btr_first_of_weight(const struct btr_tree *t, uint64_t key, uint64_t weight, struct btr_item *out);

/* ---- without the owner's lock ---- */

enum btr_peek { BTR_NONE, BTR_FOUND, BTR_CHANGED };
/*
 * As btr_floor(). BTR_CHANGED: the tree is changing, try again. Otherwise the answer is valid as of
 * *ticket; data that the caller then reads through item->value is valid as of the same moment if
 * btr_unchanged() is true afterwards.
 */
enum btr_peek btr_peek(const struct btr_tree *t, uint64_t key, struct btr_item *item, uint64_t *ticket);
bool btr_unchanged(const struct btr_tree *t, uint64_t ticket);
/* For the owner: enclose changes to data behind values, so that btr_unchanged() detects them. */
void btr_change_begin(struct btr_tree *t);
void btr_change_end(struct btr_tree *t);

#endif
