/* SPDX-License-Identifier: MIT */
/*
 * A map from 64-bit keys to pointers, in order of the keys: a B+ tree. Look-ups by key, by neighbour and by weight,
 * insertion and removal cost O(log n). Each item has a weight; each inner node knows the largest weight below each of
 * its children, so the first item of at least a given weight is found without looking at lighter ones (first fit).
 *
 * The owner serialises all calls but btr_peek() and btr_unchanged(), which threads may use without any lock while the
 * tree changes: they find out that it changed (a sequence counter) and the caller tries again. For that the nodes of a
 * tree that was made with `peeked` stay nodes until btr_fini(): removed ones are kept for later insertions.
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
    struct btr_node *root; /* NULL: empty */
    struct btr_node *spare;
    uint32_t nspare;
    uint32_t height;   /* levels of nodes */
    size_t count;      /* items */
    uint64_t sequence; /* odd while the tree changes */
    bool peeked;       /* btr_peek() is used */
};

/* A tree of zeroes is empty and not peeked. */
void btr_init(struct btr_tree *t, bool peeked);
/* Frees the nodes; values are the caller's. */
void btr_fini(struct btr_tree *t);

/* Makes sure that the next btr_insert() has memory; false: there is none. */
bool btr_reserve(struct btr_tree *t);
/* 0, EEXIST: the key is there, ENOMEM. */
int btr_insert(struct btr_tree *t, uint64_t key, uint64_t weight, void *value);
/* Removes a key; *out (may be NULL) is what was there. Needs no memory. */
bool btr_remove(struct btr_tree *t, uint64_t key, struct btr_item *out);
/* Changes the weight of a key that is there. */
bool btr_set_weight(struct btr_tree *t, uint64_t key, uint64_t weight);

/* The item with that key; with the largest key up to it; with the smallest key from it on. */
bool btr_find(const struct btr_tree *t, uint64_t key, struct btr_item *out);
bool btr_floor(const struct btr_tree *t, uint64_t key, struct btr_item *out);
bool btr_ceiling(const struct btr_tree *t, uint64_t key, struct btr_item *out);
/* The first item from key on with at least that weight. */
bool btr_first_of_weight(const struct btr_tree *t, uint64_t key, uint64_t weight, struct btr_item *out);

/* ---- without the owner's lock ---- */

enum btr_peek { BTR_NONE, BTR_FOUND, BTR_CHANGED };
/*
 * As btr_floor(). BTR_CHANGED: the tree changes, try again. Otherwise the answer holds for the moment of *ticket; what
 * the caller then reads behind item->value belongs to that moment if btr_unchanged() is true afterwards.
 */
enum btr_peek btr_peek(const struct btr_tree *t, uint64_t key, struct btr_item *item, uint64_t *ticket);
bool btr_unchanged(const struct btr_tree *t, uint64_t ticket);
/* For the owner: around changes behind values, so that btr_unchanged() notices them. */
void btr_change_begin(struct btr_tree *t);
void btr_change_end(struct btr_tree *t);

#endif
