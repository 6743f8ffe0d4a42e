/* SPDX-License-Identifier: MIT */
/* Shared by the parts of api_test: PTX kernels, gates, and assertions on results. */
#ifndef SG_DRV_TEST_H
#define SG_DRV_TEST_H

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>
#undef cuGetProcAddress

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define OK(call) assert_int_equal((call), CUDA_SUCCESS)
#define IS(call, code) assert_int_equal((call), CUDA_ERROR_##code)

extern const char test_ptx[]; /* kernels: fill, oob, spin, late, dynsh, bounded; see the text */

/* A host function that blocks its stream until the gate is opened. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool open, reached;
};
#define GATE_INIT \
    { \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false \
    }
void CUDA_CB gate_wait(void *gate);
void gate_open(struct gate *g);
void gate_await(struct gate *g); /* returns once a stream waits at the gate */

/* Creates a fresh context for the test and makes it current; destroys it. */
CUcontext ctx_begin(void);
void ctx_end(CUcontext c);
CUfunction get_kernel(CUmodule *m, const char *name);
void launch_fill(CUfunction f, CUdeviceptr p, uint32_t value, uint32_t n, CUstream s);

/* Asserts that body leaves as many live resources as there were. Earlier work may release resources late, in detached
 * threads, and spoil a round; a leak occurs in every round. */
void books_kept(void (*body)(void *arg), void *arg);

void test_ended_is_current(void **state); /* api/device/context_test.c */
void test_ends_during_load(void **state);
void test_linker(void **state); /* api/code/link_test.c */
void test_linker_inputs(void **state);
void test_linker_sum(void **state);
int devices_main(void); /* runs in the child process that test_devices() starts */
void test_devices(void **state);
int newer_main(void);    /* the same for test_newer_target() */
int clusters_main(void); /* the same for test_clusters() */
int green_main(void);    /* the same for test_green() */
void test_green(void **state);
void test_green_ends(void **state);
int branch_main(void); /* api/graph/branch_test.c */
/* Runs this program again with these options in the environment and expects it to print "right". */
void test_alone(const char *options, const char *argument);

extern const struct CMUnitTest memory_tests[], array_tests[], tex_tests[], stream_tests[], thread_tests[],
    watch_tests[], graph_tests[], gnode_tests[], gbranch_tests[], glifetime_tests[], gwork_tests[],
    library_tests[], nested_tests[], occupancy_tests[], module_tests[], stale_tests[], at_once_tests[],
    target_tests[], staged_tests[], guser_tests[];
extern const size_t n_memory_tests, n_array_tests, n_tex_tests, n_stream_tests, n_thread_tests, n_watch_tests,
    n_graph_tests, n_gnode_tests, n_gbranch_tests, n_glifetime_tests, n_gwork_tests, n_library_tests,
    n_nested_tests, n_occupancy_tests, n_module_tests, n_stale_tests, n_at_once_tests, n_target_tests,
    n_staged_tests, n_guser_tests;

#endif
