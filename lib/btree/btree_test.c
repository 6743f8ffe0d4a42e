/* SPDX-License-Identifier: MIT */
/* The tree beside a sorted array that does the same: random operations, its shape after each,
   readers without a lock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "btree.c"

/* ---- the model ---- */

#define MODEL_MAX 16000
static struct btr_item model[MODEL_MAX];
static unsigned nmodel;

static unsigned model_upto(uint64_t key)
{
    unsigned i = 0;

    while (i < nmodel && model[i].key <= key)
        i++;
    return i;
}

static struct btr_item *model_find(uint64_t key)
{
    const unsigned i = model_upto(key);

    return i && model[i - 1].key == key ? &model[i - 1] : NULL;
}

static void model_insert(struct btr_item item)
{
    const unsigned i = model_upto(item.key);

    memmove(&model[i + 1], &model[i], (nmodel - i) * sizeof(model[0]));
    model[i] = item;
    nmodel++;
}

static void model_remove(const struct btr_item *at)
{
    const size_t i = (size_t)(at - model);

    memmove(&model[i], &model[i + 1], (nmodel - i - 1) * sizeof(model[0]));
    nmodel--;
}

static void same(bool found, const struct btr_item *got, const struct btr_item *want)
{
    assert_int_equal(found, want != NULL);
    if (want)
        assert_memory_equal(got, want, sizeof(*want));
}

/* ---- the shape ---- */

/* Items below the node; checks fill, order, keys and weights of children, and that all leaves
   are as deep. */
static size_t check_below(const struct btr_node *node, unsigned depth, bool root, uint64_t *first)
{
    size_t sum = 0;

    assert_true(node->n <= FANOUT && node->n >= (root ? 1 : SPARSE) && depth > 0);
    assert_int_equal(node->leaf, depth == 1);
    *first = node->key[0];
    for (uint32_t i = 0; i < node->n; i++) {
        uint64_t below;

        assert_true(!i || node->key[i - 1] < node->key[i]);
        if (node->leaf) {
            sum++;
            continue;
        }
        sum += check_below(node->ptr[i], depth - 1, false, &below);
        assert_int_equal(below, node->key[i]);
        assert_int_equal(node->weight[i], heaviest_item(node->ptr[i]));
    }
    return sum;
}

static void check_shape(const struct btr_tree *t)
{
    uint64_t first;

    assert_int_equal(t->count, nmodel);
    assert_int_equal(t->root == NULL, nmodel == 0);
    assert_int_equal(t->sequence & 1, 0);
    if (t->root)
        assert_int_equal(check_below(t->root, t->height, true, &first), nmodel);
    else
        assert_int_equal(t->height, 0);
}

/* ---- random operations ---- */

static void check_look_ups(const struct btr_tree *t, uint64_t key, uint64_t weight)
{
    struct btr_item got = {0, 0, NULL}, *want = model_find(key);
    uint64_t ticket;
    const unsigned upto = model_upto(key);
    unsigned from = upto - (want != NULL), heavy = from;

    same(btr_find(t, key, &got), &got, want);
    want = upto ? &model[upto - 1] : NULL;
    same(btr_floor(t, key, &got), &got, want);
    same(btr_peek(t, key, &got, &ticket) == BTR_FOUND, &got, want);
    assert_true(btr_unchanged(t, ticket));
    same(btr_ceiling(t, key, &got), &got, from < nmodel ? &model[from] : NULL);
    while (heavy < nmodel && model[heavy].weight < weight)
        heavy++;
    same(btr_first_of_weight(t, key, weight, &got), &got, heavy < nmodel ? &model[heavy] : NULL);
}

static void operate(struct btr_tree *t, uint64_t key, bool more)
{
    const struct btr_item item = {key, (uint64_t)random() % 1000, (void *)(uintptr_t)(key + 1)};
    struct btr_item *there = model_find(key), got;

    if (there && random() % 4 == 0) {
        there->weight = item.weight;
        assert_true(btr_set_weight(t, key, item.weight));
    } else if (more) {
        assert_int_equal(btr_insert(t, key, item.weight, item.value), there ? EEXIST : 0);
        if (!there)
            model_insert(item);
    } else {
        const bool removed = btr_remove(t, key, &got);

        same(removed, &got, there);
        if (there)
            model_remove(there);
        else
            assert_false(btr_set_weight(t, key, 1));
    }
}

/* Grows, shrinks to nothing and grows again; keys from a narrow and from a wide range. */
static void run(bool peeked, uint64_t range, unsigned steps, unsigned seed)
{
    struct btr_tree t;

    srandom(seed);
    nmodel = 0;
    btr_init(&t, peeked);
    for (unsigned i = 0; i < steps; i++) {
        const bool grows = i / 5000 % 2 == 0;
        uint64_t key = (uint64_t)random() % range;

        if (!grows && nmodel && random() % 2)
            key = model[(unsigned)random() % nmodel].key;
        operate(&t, key, grows ? random() % 8 != 0 : random() % 8 == 0);
        if (i % 16 == 0)
            check_shape(&t);
        check_look_ups(&t, (uint64_t)random() % range, (uint64_t)random() % 1100);
    }
    while (nmodel) {
        operate(&t, model[(unsigned)random() % nmodel].key, false);
        check_shape(&t);
    }
    assert_true(peeked || t.nspare <= SPARES_MAX + t.height + 1);
    btr_fini(&t);
}

static void test_beside_a_model(void **state)
{
    (void)state;
    run(false, 100, 20000, 1);
    run(false, 1u << 30, 22000, 2);
    run(true, 20000, 22000, 3);
}

static void test_ends_of_the_keys(void **state)
{
    struct btr_tree t = {0};
    struct btr_item got;

    (void)state;
    assert_false(btr_floor(&t, UINT64_MAX, &got) || btr_ceiling(&t, 0, &got) || btr_remove(&t, 0, NULL));
    assert_int_equal(btr_insert(&t, UINT64_MAX, UINT64_MAX, NULL), 0);
    assert_int_equal(btr_insert(&t, 0, 0, NULL), 0);
    assert_true(btr_first_of_weight(&t, 0, UINT64_MAX, &got) && got.key == UINT64_MAX);
    assert_true(btr_floor(&t, UINT64_MAX - 1, &got) && got.key == 0);
    assert_true(btr_ceiling(&t, 1, &got) && got.key == UINT64_MAX);
    btr_fini(&t);
}

/* A tree of any age has few levels: ascending, descending and random insertion, removal from one
   end. */
static void test_height(void **state)
{
    struct btr_tree t = {0};

    (void)state;
    for (uint64_t i = 0; i < 100000; i++)
        assert_int_equal(btr_insert(&t, i < 50000 ? i : 1000000 - i, 0, NULL), 0);
    assert_true(t.height <= 5);
    for (uint64_t i = 0; i < 49000; i++)
        assert_true(btr_remove(&t, i, NULL));
    assert_true(t.height <= 5);
    for (uint64_t i = 50000; i < 100000; i++)
        assert_true(btr_remove(&t, 1000000 - i, NULL));
    assert_true(t.height <= 3 && t.count == 1000);
    btr_fini(&t);
}

/* ---- readers without a lock ---- */

static struct btr_tree shared;
static atomic_bool done;

#define SHARED_KEYS 4000u

/* Even keys stay for ever, each with itself as its value; odd ones come and go. */
static void *reader(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    size_t found = 0;

    while (!atomic_load(&done)) {
        const uint64_t key = (uint64_t)(rand_r(&seed)) % SHARED_KEYS;
        struct btr_item got;
        uint64_t ticket;

        if (btr_peek(&shared, key, &got, &ticket) == BTR_CHANGED)
            continue;
        if (got.key != key && got.key != key - 1)
            abort();
        if ((key % 2 == 0 && got.key != key) || (uintptr_t)got.value != got.key)
            abort();
        found++;
    }
    return (void *)found;
}

static void test_peek(void **state)
{
    pthread_t thread[2];
    void *found;

    (void)state;
    btr_init(&shared, true);
    for (uint64_t i = 0; i < SHARED_KEYS; i += 2)
        assert_int_equal(btr_insert(&shared, i, 1, (void *)(uintptr_t)i), 0);
    for (uintptr_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, reader, (void *)(i + 1)), 0);
    for (unsigned round = 0; round < 100; round++) {
        for (uint64_t i = 1; i < SHARED_KEYS; i += 2)
            assert_int_equal(btr_insert(&shared, i, 1, (void *)(uintptr_t)i), 0);
        for (uint64_t i = 1; i < SHARED_KEYS; i += 2)
            assert_true(btr_remove(&shared, i, NULL));
    }
    atomic_store(&done, true);
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], &found);
        assert_true(found != NULL);
    }
    btr_fini(&shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beside_a_model),
        cmocka_unit_test(test_ends_of_the_keys),
        cmocka_unit_test(test_height),
        cmocka_unit_test(test_peek),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
