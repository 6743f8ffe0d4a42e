/* SPDX-License-Identifier: MIT */
/* References to user objects: counts of the program and of graphs, calls that are refused, and the end in every order. */
#include <unistd.h>

#include "api/api_test.h"

static _Atomic unsigned ended;

static void CUDA_CB end(void *arg)
{
    (void)arg;
    ended++;
}

static CUuserObject make(unsigned references)
{
    CUuserObject o;

    ended = 0;
    OK(cuUserObjectCreate(&o, NULL, end, references, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    return o;
}

static void assert_ended(void)
{
    for (int i = 0; i < 30000 && !ended; i++)
        usleep(1000);
    usleep(2000);
    assert_int_equal(ended, 1);
}

static void assert_not_ended(void)
{
    usleep(2000);
    assert_int_equal(ended, 0);
}

/* A graph gives back as many references as it has been given, in pieces of any size, and not one more. */
static void test_counts(void **state)
{
    static const unsigned gives[][2] = {{1, 1}, {2, 3}, {3, 2}, {1, 7}, {7, 1}};
    CUcontext c = ctx_begin();

    (void)state;
    for (size_t i = 0; i < sizeof(gives) / sizeof(gives[0]); i++) {
        const unsigned sum = gives[i][0] + gives[i][1];

        for (unsigned first = 1; first <= sum; first++) {
            CUuserObject o = make(1);
            CUgraph g;

            OK(cuGraphCreate(&g, 0));
            OK(cuGraphRetainUserObject(g, o, gives[i][0], 0));
            OK(cuGraphRetainUserObject(g, o, gives[i][1], 0));
            OK(cuUserObjectRelease(o, 1));
            IS(cuGraphReleaseUserObject(g, o, sum + 1), INVALID_VALUE);
            OK(cuUserObjectRetain(o, 1)); /* the graph keeps it: the program may have one again */
            OK(cuUserObjectRelease(o, 1));
            IS(cuUserObjectRelease(o, 1), INVALID_VALUE);
            assert_int_equal(ended, 0);
            OK(cuGraphReleaseUserObject(g, o, first));
            if (first < sum) {
                IS(cuGraphReleaseUserObject(g, o, sum - first + 1), INVALID_VALUE);
                assert_int_equal(ended, 0);
                OK(cuGraphReleaseUserObject(g, o, sum - first));
            }
            assert_ended();
            OK(cuGraphDestroy(g));
            assert_int_equal(ended, 1);
        }
    }
    ctx_end(c);
}

/* References of many calls are counted, whatever number they come to. */
static void test_many(void **state)
{
    const unsigned quarter = 1u << 30;
    CUcontext c = ctx_begin();
    CUuserObject o = make(1);
    CUgraph g;

    (void)state;
    OK(cuGraphCreate(&g, 0));
    for (int i = 0; i < 4; i++)
        OK(cuGraphRetainUserObject(g, o, quarter, 0));
    OK(cuGraphRetainUserObject(g, o, 1, 0));
    OK(cuUserObjectRelease(o, 1));
    OK(cuGraphReleaseUserObject(g, o, 1));
    assert_not_ended();
    for (int i = 0; i < 4; i++) {
        assert_not_ended();
        OK(cuGraphReleaseUserObject(g, o, quarter));
    }
    assert_ended();
    OK(cuGraphDestroy(g));
    ctx_end(c);
}

/* A program can give a graph no more references than it has; a refusal changes nothing on either side. */
static void test_moved(void **state)
{
    CUcontext c = ctx_begin();
    CUuserObject o = make(2);
    CUgraph g;

    (void)state;
    OK(cuGraphCreate(&g, 0));
    IS(cuGraphRetainUserObject(g, o, 3, CU_GRAPH_USER_OBJECT_MOVE), INVALID_VALUE);
    IS(cuGraphReleaseUserObject(g, o, 1), INVALID_VALUE);
    OK(cuGraphRetainUserObject(g, o, 1, CU_GRAPH_USER_OBJECT_MOVE));
    IS(cuGraphRetainUserObject(g, o, 2, CU_GRAPH_USER_OBJECT_MOVE), INVALID_VALUE);
    IS(cuGraphReleaseUserObject(g, o, 2), INVALID_VALUE);
    IS(cuUserObjectRelease(o, 2), INVALID_VALUE);
    OK(cuUserObjectRelease(o, 1));
    assert_not_ended();
    OK(cuGraphReleaseUserObject(g, o, 1));
    assert_ended();
    OK(cuGraphDestroy(g));
    ctx_end(c);
}

struct holders {
    CUuserObject o;
    CUgraph g, copy;
    CUgraphExec x;
};

static void let_go(struct holders *h, unsigned which)
{
    switch (which) {
    case 0:
        OK(cuUserObjectRelease(h->o, 2));
        break;
    case 1:
        OK(cuGraphDestroy(h->g));
        break;
    case 2:
        OK(cuGraphDestroy(h->copy));
        break;
    default:
        OK(cuGraphExecDestroy(h->x));
        break;
    }
}

/* The program, a graph, its clone and its executable graph let go in each of the 24 orders: the last one ends it. */
static void test_orders(void **state)
{
    CUcontext c = ctx_begin();

    (void)state;
    for (unsigned code = 0; code < 256; code++) {
        const unsigned order[4] = {code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6};
        struct holders h = {.o = make(2)};
        unsigned seen = 0;

        for (int i = 0; i < 4; i++)
            seen |= 1u << order[i];
        if (seen != 15) { /* no permutation */
            OK(cuUserObjectRelease(h.o, 2));
            assert_ended();
            continue;
        }
        OK(cuGraphCreate(&h.g, 0));
        OK(cuGraphRetainUserObject(h.g, h.o, 2, 0));
        OK(cuGraphClone(&h.copy, h.g));
        OK(cuGraphInstantiateWithFlags(&h.x, h.g, 0));
        for (int i = 0; i < 4; i++) {
            assert_not_ended();
            let_go(&h, order[i]);
        }
        assert_ended();
    }
    ctx_end(c);
}

const struct CMUnitTest guser_tests[] = {cmocka_unit_test(test_counts), cmocka_unit_test(test_many),
                                         cmocka_unit_test(test_moved), cmocka_unit_test(test_orders)};
const size_t n_guser_tests = sizeof(guser_tests) / sizeof(guser_tests[0]);
