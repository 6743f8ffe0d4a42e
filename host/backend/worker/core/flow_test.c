/* SPDX-License-Identifier: MIT */
/* Work in flight: how much is let through, when it is counted off, what the broker is told in turns. */
#define _GNU_SOURCE
#include "core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/testing/range.h"
#include "vgp_calls.h"
#include "vgpu_device.h"

#define STREAM(n) ((CUstream)(uintptr_t)(0x10000 + (n)))
#define CONTEXT(n) ((CUcontext)(uintptr_t)(0x20000 + (n)))
#define MS UINT64_C(1000000)
enum { EVENTS = 4096 };

static struct wrk_worker w;
static struct vgp_window_shared shared;
static int broker; /* its end of the worker's socket */

/* The provider: events in the order in which they are made; those recorded before `done` are complete. */
static struct {
    bool live;
    unsigned recorded;
    CUcontext ctx; /* in which it was made, and is recorded */
} event[EVENTS];
static unsigned nevents, live, records, done;
static CUresult fault; /* the answer to every question, when it is an error */
static CUstream captured;
static CUstream foreign; /* of another context: no event is recorded there */
static bool foreign_idle;
static bool all_foreign;         /* all streams are */
static unsigned capturing;       /* of those, the first ones that capture */
static CUcontext without_legacy; /* a capture there makes use of the legacy stream an error */

static CUresult event_create(CUevent *e, unsigned flags)
{
    assert_true(flags & CU_EVENT_DISABLE_TIMING);
    assert_true(nevents < EVENTS - 1);
    event[++nevents].live = true;
    event[nevents].ctx = w.current;
    live++;
    *e = (CUevent)(uintptr_t)nevents;
    return CUDA_SUCCESS;
}

static CUresult event_record(CUevent e, CUstream s)
{
    assert_true(event[(uintptr_t)e].live);
    assert_ptr_equal(event[(uintptr_t)e].ctx, w.current);
    assert_ptr_not_equal(s, captured);
    if (all_foreign || (foreign && s == foreign))
        return CUDA_ERROR_INVALID_HANDLE;
    event[(uintptr_t)e].recorded = ++records;
    return CUDA_SUCCESS;
}

static CUresult event_query(CUevent e)
{
    assert_true(event[(uintptr_t)e].live);
    if (fault != CUDA_SUCCESS)
        return fault;
    return event[(uintptr_t)e].recorded <= done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult stream_query(CUstream s)
{
    assert_true(s == foreign || (all_foreign && s >= STREAM(capturing)));
    assert_ptr_not_equal(s, captured);
    return foreign_idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult event_destroy(CUevent e)
{
    assert_true(event[(uintptr_t)e].live); /* once */
    event[(uintptr_t)e].live = false;
    live--;
    return CUDA_SUCCESS;
}

static CUresult set_current(CUcontext ctx)
{
    (void)ctx;
    return CUDA_SUCCESS;
}

static CUresult is_capturing(CUstream s, CUstreamCaptureStatus *status)
{
    if (s == CU_STREAM_LEGACY && without_legacy && w.current == without_legacy)
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *status = s == captured || (all_foreign && s < STREAM(capturing)) ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                                                      : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

static void end_contexts(void)
{
    for (unsigned i = 0; i < 4; i++)
        wrk_flow_context_ends(&w, CONTEXT(i), NULL);
}

static int setup(void **state)
{
    int pair[2];

    (void)state;
    memset(&w, 0, sizeof(w));
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return -1;
    w.sock = pair[0];
    broker = pair[1];
    w.win.shared = &shared;
    w.current = CONTEXT(0);
    memset(&wrk_provider, 0, sizeof(wrk_provider));
    wrk_provider.cuEventCreate = event_create;
    wrk_provider.cuEventRecord = event_record;
    wrk_provider.cuEventQuery = event_query;
    wrk_provider.cuEventDestroy_v2 = event_destroy;
    wrk_provider.cuCtxSetCurrent = set_current;
    wrk_provider.cuStreamIsCapturing = is_capturing;
    wrk_provider.cuStreamQuery = stream_query;
    memset(event, 0, sizeof(event));
    memset(&wrk_client_limits, 0, sizeof(wrk_client_limits));
    nevents = live = records = done = 0;
    wrk_captures = 0;
    captured = foreign = NULL;
    foreign_idle = all_foreign = false;
    without_legacy = NULL;
    fault = CUDA_SUCCESS;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    wrk_flow_turns_end();
    end_contexts();
    assert_int_equal(live, 0);
    assert_true(wrk_flow_may(&w, VGP_vgpLaunch, VGP_F_FILLS));
    assert_int_equal(wrk_flow_patience(&w), UINT64_MAX);
    close(w.sock);
    close(broker);
    return 0;
}

static void issue(uint16_t number, CUstream stream)
{
    const struct vgp_record rec = {.call = number};
    static struct wrk_call c;

    c = (struct wrk_call){.w = &w, .rec = &rec, .stream = stream};
    wrk_flow_issued(&c);
}

static bool may(uint16_t number)
{
    return wrk_flow_may(&w, number, VGP_F_FILLS);
}

/* As many as may go, at most `most`. */
static unsigned issue_some(uint16_t number, unsigned most)
{
    unsigned n = 0;

    while (n < most && may(number)) {
        issue(number, STREAM(1));
        n++;
    }
    return n;
}

static unsigned issue_all(unsigned most)
{
    return issue_some(VGP_vgpLaunch, most);
}

/* What the broker has heard: the state, -1: nothing. */
static int heard(uint32_t *number)
{
    struct vgb_msg m;
    unsigned n = 0;

    if (vgb_msg_recv(broker, &m, NULL, &n, MSG_DONTWAIT) != 1)
        return -1;
    assert_int_equal(m.type, VGB_M_WORK);
    *number = m.flags;
    return (int)m.status;
}

static void expect_heard(int state, uint32_t number)
{
    uint32_t is = 0;

    assert_int_equal(heard(&is), state);
    if (state >= 0)
        assert_int_equal(is, number);
}

/* --client-queue: so many calls in flight, not one more, and again as many as have ended. */
static void test_queue(void **state)
{
    (void)state;
    wrk_client_limits.queue = 64;
    assert_int_equal(issue_all(1000), 64);
    assert_false(may(VGP_vgpLaunch));
    assert_uint_in_range(wrk_flow_patience(&w), 1, 10 * MS);
    assert_true(wrk_flow_may(&w, VGP_vgpPing, 0)); /* what fills no stream goes on */
    for (unsigned round = 0; round < 3; round++) {
        done = records - 3; /* all but three marks; each stands for as many calls as any other */
        unsigned n = issue_all(1000);
        assert_int_equal(n, 64 - 3 * (64 / 16));
        assert_false(may(VGP_vgpLaunch));
    }
    done = records;
    assert_int_equal(issue_all(1000), 64);
    done = records;
}

static void operations(uint64_t *issued, uint64_t *ended)
{
    *issued = *ended = 0;
}

/* With a time limit no more goes to a driver than it takes without waiting; one that counts its operations may wait. */
static void test_queue_of_driver(void **state)
{
    (void)state;
    assert_int_equal(issue_all(4096), 4096); /* no limit */
    done = records;
    wrk_client_limits.time_s = 1;
    wrk_flow_look(&w, true);
    done = records;
    wrk_flow_look(&w, true);
    assert_int_equal(issue_all(4096), 512);
    wrk_provider.sg_operations = operations;
    assert_int_equal(issue_all(1024), 1024);
    wrk_provider.sg_operations = NULL;
    wrk_client_limits.time_s = 0;
}

/* The dispatcher is in long calls: that is no time for which the process was stopped. */
static void test_time_limit_in_long_calls(void **state)
{
    struct wrk_stall s = {0};
    pid_t child = fork();
    int status;

    (void)state;
    if (!child) {
        wrk_client_limits.time_s = 1;
        issue(VGP_cuMemsetD8Async, STREAM(1));
        for (unsigned i = 0; i < 4; i++) {
            for (unsigned k = 0; k < 3; k++) {
                wrk_stall_look(&s, 1, vgb_now_ns(), 0);
                if (i)
                    usleep(200000);
            }
            wrk_flow_look(&w, true);
        }
        _exit(77); /* more than a second has passed, in three calls */
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

/* Events are used again, and streams that end or come in numbers keep none. */
static void test_events(void **state)
{
    (void)state;
    wrk_client_limits.queue = 64;
    for (unsigned i = 0; i < 1000; i++) {
        issue(VGP_vgpLaunch, STREAM(i % 300));
        wrk_flow_stream_ends(&w, STREAM(i % 300));
        wrk_flow_stream_ends(&w, STREAM(i % 300)); /* nothing is left of it */
        done = records;
    }
    assert_int_equal(records, 1000);
    assert_uint_in_range(nevents, 1, 128);
}

/* A context that ends takes its work with it, and no other's. */
static void test_contexts(void **state)
{
    (void)state;
    wrk_client_limits.queue = 64;
    for (unsigned i = 0; i < 64; i++) {
        w.current = CONTEXT(i % 2);
        assert_true(may(VGP_vgpLaunch));
        issue(VGP_vgpLaunch, STREAM(i % 2));
    }
    assert_false(may(VGP_vgpLaunch));
    wrk_flow_context_ends(&w, CONTEXT(3), NULL);
    assert_false(may(VGP_vgpLaunch));
    wrk_flow_context_ends(&w, CONTEXT(0), NULL);
    w.current = CONTEXT(1);
    assert_int_equal(issue_all(1000), 32);
    wrk_flow_context_ends(&w, CONTEXT(1), NULL);
    assert_int_equal(live, 0);
    assert_int_equal(issue_all(1000), 64);
    /* Without a context there is nothing to count. */
    done = records;
    w.current = NULL;
    assert_int_equal(issue_all(200), 200);
    w.current = (CUcontext)-1;
    assert_int_equal(issue_all(200), 200);
}

/* Events that wait to be used again end with their own context, and with no other. */
static void test_spare_events(void **state)
{
    unsigned made;

    (void)state;
    wrk_client_limits.queue = 64;
    for (unsigned i = 0; i < 64; i++) {
        w.current = CONTEXT(i % 2);
        issue(VGP_vgpLaunch, STREAM(i % 2));
    }
    done = records;
    assert_true(may(VGP_vgpLaunch)); /* which counts off what is complete */
    assert_int_not_equal(live, 0);
    wrk_flow_context_ends(&w, CONTEXT(0), NULL);
    for (unsigned i = 1; i <= nevents; i++)
        assert_int_equal(event[i].live, event[i].ctx == CONTEXT(1));
    made = nevents;
    w.current = CONTEXT(1);
    issue(VGP_vgpLaunch, STREAM(1));
    assert_int_equal(nevents, made);
    done = records;
}

/* What a graph gets is not work, and no event is recorded there. */
static void test_capture(void **state)
{
    (void)state;
    wrk_client_limits.queue = 64;
    issue(VGP_vgpLaunch, STREAM(1));
    assert_true(wrk_flow_may(&w, VGP_vgpStreamBeginCapture,
                             0)); /* what it has got before is marked while it may be */
    assert_int_equal(records, 1);
    wrk_captures = 1;
    captured = STREAM(1);
    assert_int_equal(issue_all(200), 200);
    assert_int_equal(records, 1);
    captured = NULL;
    wrk_captures = 0;
    assert_int_equal(issue_all(1000), 63);
    done = records;
}

/* Whether a stream captures is its own context's to say. */
static void test_capture_in_other_context(void **state)
{
    (void)state;
    wrk_client_limits.queue = 66;
    wrk_captures = 1;
    without_legacy = CONTEXT(0);
    w.current = CONTEXT(1);
    for (unsigned i = 0; i < 66; i++)
        issue(VGP_vgpLaunch, CU_STREAM_LEGACY);
    w.current = CONTEXT(0);
    assert_false(may(VGP_vgpLaunch));
    assert_int_equal(records, 17);
    usleep(5000);
    assert_false(may(VGP_vgpLaunch));
    done = records;
    assert_true(may(VGP_vgpLaunch));
    wrk_captures = 0;
}

/* Work without an event is known by its stream: what a capture gets waits neither for the capture's end to
 * look there, nor for work of the stream that captures. */
static void test_capture_beside_work(void **state)
{
    (void)state;
    foreign = STREAM(9);
    wrk_client_limits.queue = 4;
    for (unsigned i = 0; i < 4; i++)
        issue(VGP_vgpLaunch, foreign);
    assert_true(wrk_flow_may(&w, VGP_vgpStreamBeginCapture, 0));
    wrk_captures = 1;
    captured = STREAM(1);
    assert_false(may(VGP_vgpLaunch));
    captured = foreign;
    assert_true(may(VGP_vgpLaunch));
    captured = NULL;
    wrk_captures = 0;
    assert_int_equal(issue_all(1000), 4);
    done = records;
    assert_false(may(VGP_vgpLaunch)); /* it counts again */
    captured = STREAM(1);
    wrk_captures = 1;
    assert_false(may(VGP_vgpLaunch));
    foreign_idle = true;
    assert_true(may(VGP_vgpLaunch)); /* though a stream captures */
    captured = NULL;
    wrk_captures = 0;
}

/* Work of streams that are kept capturing adds up to as much as is in flight beside it, and a stream's more. */
static void test_captures_add_up(void **state)
{
    unsigned n = 0;

    (void)state;
    all_foreign = true;
    wrk_captures = 1;
    wrk_client_limits.queue = 64;
    for (capturing = 0; capturing < 20; capturing++) { /* the work of stream n before its capture */
        for (unsigned i = 0; i < 64 && may(VGP_vgpLaunch); i++, n++)
            issue(VGP_vgpLaunch, STREAM(capturing));
    }
    assert_int_equal(n, 64 * 2);
    wrk_captures = capturing = 0;
    foreign_idle = true;
}

/* Turns: closed, nothing that takes time of the GPU is let through; the broker hears what there is, once, and an answer
 * to each of its questions. */
static void test_turns(void **state)
{
    (void)state;
    wrk_flow_look(&w, true);
    expect_heard(-1, 0);
    wrk_flow_turn(&w, false, 0, 5);
    wrk_flow_look(&w, false);
    expect_heard(VGB_WORK_NONE, 5);
    wrk_flow_look(&w, false);
    wrk_flow_look(&w, true);
    expect_heard(-1, 0);
    wrk_flow_turn(&w, false, 0, 6);
    wrk_flow_look(&w, false);
    expect_heard(VGB_WORK_NONE, 6); /* the same again: it was asked for */
    assert_true(may(VGP_cuEventRecord));
    assert_true(may(VGP_cuStreamWaitEvent));
    assert_false(may(VGP_vgpLaunch));
    assert_int_equal(wrk_flow_patience(&w), UINT64_MAX); /* until the turn comes */
    wrk_flow_look(&w, false);
    expect_heard(VGB_WORK_WAITS, 6);
    wrk_flow_turn(&w, true, 0, 7);
    assert_int_equal(wrk_flow_patience(&w), 0);
    assert_true(may(VGP_vgpLaunch));
    issue(VGP_vgpLaunch, STREAM(1));
    expect_heard(VGB_WORK_BUSY, 7); /* at once */
    issue(VGP_vgpLaunch, STREAM(1));
    wrk_flow_look(&w, true);
    expect_heard(-1, 0);
    wrk_flow_turn(&w, false, 0, 8);
    wrk_flow_look(&w, false);
    expect_heard(VGB_WORK_BUSY, 8);
    done = records;
    wrk_flow_look(&w, true);
    expect_heard(VGB_WORK_NONE, 8);
    wrk_flow_turns_end();
    assert_true(may(VGP_vgpLaunch));
    issue(VGP_vgpLaunch, STREAM(1));
    wrk_flow_look(&w, true);
    expect_heard(-1, 0);
    done = records;
}

/* A turn's bound, in estimated time: work that is not known counts as a millisecond. No other test here has copies, so
 * what they cost is not known. */
static void test_bound(void **state)
{
    (void)state;
    wrk_flow_turn(&w, true, 10 * MS, 1);
    assert_int_equal(issue_some(VGP_vgpCopy, 1000), 10);
    assert_false(may(VGP_vgpCopy));
    assert_true(may(VGP_cuEventRecord));
    assert_uint_in_range(wrk_flow_patience(&w), 1, 10 * MS);
    end_contexts();
    wrk_flow_turn(&w, true, MS / 2, 2);
    assert_int_equal(issue_some(VGP_vgpCopy, 1000), 1); /* one always may: it could never begin */
    end_contexts();
    wrk_flow_turn(&w, true, 0, 3);
    assert_int_equal(issue_some(VGP_vgpCopy, 1000), 1000);
}

static void launch(uint64_t func, uint32_t grid)
{
    const struct vgp_args_vgpLaunch a = {.func = func, .gridX = grid, .gridY = 1, .gridZ = 1};
    const struct vgp_record rec = {.call = VGP_vgpLaunch};
    static struct wrk_call c;

    c = (struct wrk_call){
        .w = &w, .rec = &rec, .stream = STREAM(1), .args = (const void *)&a, .args_size = sizeof(a)};
    wrk_flow_issued(&c);
}

/* Number of such launches that a turn of 10 ms admits. */
static unsigned launches(uint64_t func, uint32_t grid, uint32_t turn)
{
    static struct vgp_args_vgpLaunch a;
    unsigned n = 0;

    a = (struct vgp_args_vgpLaunch){.func = func, .gridX = grid, .gridY = 1, .gridZ = 1};
    wrk_flow_turn(&w, true, 10 * MS, turn);
    w.ring.args = (uint8_t *)&a;
    w.ring.args_size = sizeof(a);
    for (; n < 1000 && may(VGP_vgpLaunch); n++)
        launch(func, grid);
    end_contexts();
    return n;
}

/* Costs are learnt per kernel and grid; an unknown launch is assumed to take 1 ms. */
static void test_costs(void **state)
{
    (void)state;
    wrk_flow_turn(&w, true, 0, 1);
    launch(101, 8);
    usleep(30000);
    done = records;
    wrk_flow_look(&w, true);
    assert_int_equal(launches(101, 8, 2), 1); /* its cost of 30 ms exceeds the turn */
    assert_int_equal(launches(102, 8, 3), 10);
    assert_int_equal(launches(101, 9, 4), 10);
}

/* An error is no end: what it was answered for is in flight until its context ends. Nothing else waits for it. */
static void test_error(void **state)
{
    (void)state;
    wrk_client_limits.queue = 64;
    assert_int_equal(issue_all(1000), 64);
    fault = CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_int_equal(issue_all(64), 64); /* of another context, say */
    assert_true(may(VGP_vgpLaunch));
    assert_int_equal(live, nevents); /* no event was let go of */
    fault = CUDA_SUCCESS;
    wrk_client_limits.queue = 128;
    assert_int_equal(issue_all(1000), 128); /* then what nobody could tell is asked again: it is in flight */
    assert_false(may(VGP_vgpLaunch));
    done = records;
    assert_true(may(VGP_vgpLaunch));
}

/* ... not for places of marks either, when there are as many as the table has. */
static void test_error_in_all(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3000 && may(VGP_vgpLaunch); i++) {
        w.current = CONTEXT(i % 2);
        issue(VGP_vgpLaunch, STREAM(i));
        wrk_flow_stream_ends(&w, STREAM(i));
    }
    assert_false(may(VGP_vgpLaunch));
    fault = CUDA_ERROR_ILLEGAL_ADDRESS;
    w.current = CONTEXT(2);
    assert_true(may(VGP_vgpLaunch));
    assert_uint_in_range(live, 0, 2);
    issue(VGP_vgpLaunch, STREAM(1));
    fault = CUDA_SUCCESS;
    done = records;
    wrk_client_limits.queue = 64;
    /* They count again only as what nobody can tell; with the contexts they are gone, once. */
    assert_true(may(VGP_vgpLaunch));
    wrk_flow_context_ends(&w, CONTEXT(0), NULL);
    wrk_flow_context_ends(&w, CONTEXT(1), NULL);
    wrk_flow_context_ends(&w, CONTEXT(2), NULL);
    assert_int_equal(live, 0);
    assert_int_equal(issue_all(1000), 64);
    done = records;
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {T(test_queue),
                                       T(test_time_limit_in_long_calls),
                                       T(test_queue_of_driver),
                                       T(test_events),
                                       T(test_contexts),
                                       T(test_capture),
                                       T(test_capture_beside_work),
                                       T(test_capture_in_other_context),
                                       T(test_captures_add_up),
                                       T(test_turns),
                                       T(test_bound),
                                       T(test_error),
                                       T(test_error_in_all),
                                       T(test_spare_events),
                                       T(test_costs)};

    return cmocka_run_group_tests_name("flow", tests, NULL, NULL);
}
