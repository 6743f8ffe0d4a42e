// SPDX-License-Identifier: MIT
/* Memory and events of two processes: cuIpc*. */
#include "peer.h"

#include <unistd.h>

#define LAZY CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
#define WORDS 10000u

/* Starts the second process first, as CUDA does not survive its fork. */
static void begin(struct peer *p)
{
    CUcontext c;

    peer_start(p);
    NEED(cuInit(0));
    NEED(cuDevicePrimaryCtxRetain(&c, 0));
    NEED(cuCtxSetCurrent(c));
}

static CUresult open_there(struct peer *p, const CUipcMemHandle *h, uint64_t flags, uint64_t *addr)
{
    struct peer_msg m = {.op = P_OPEN_MEM, .a = flags};

    memcpy(m.data, h, sizeof(*h));
    CUresult r = peer_ask(p, &m, -1);
    *addr = m.value;
    return r;
}

static bool filled_there(struct peer *p, uint64_t addr, unsigned n, unsigned v)
{
    uint64_t yes = 0;

    return peer_do(p, P_FILLED, addr, n, v, &yes) == CUDA_SUCCESS && yes;
}

static void fill_there(struct peer *p, uint64_t addr, unsigned n, unsigned v)
{
    NEED(peer_do(p, P_FILL, addr, n, v, NULL));
    NEED(peer_do(p, P_STREAM_SYNC, 0, 0, 0, NULL));
}

CASE(ipc_memory, CF_ALONE)
{
    CUipcMemHandle h, again;
    CUdeviceptr p = 0;
    struct peer peer;
    uint64_t q = 0, q2 = 0;
    size_t size = 0;

    begin(&peer);
    NEED(cuMemAlloc(&p, WORDS * 4));
    NEED(cf_fill(p, WORDS, 5, NULL));
    OK("get", cuIpcGetMemHandle(&h, p));
    OK("get_again", cuIpcGetMemHandle(&again, p));
    cf_true("same_handle", !memcmp(&h, &again, sizeof(h)));
    cf_true("kept", cf_filled(p, WORDS, 5));
    OK("open", open_there(&peer, &h, LAZY, &q));
    cf_true("seen_there", filled_there(&peer, q, WORDS, 5));
    fill_there(&peer, q, WORDS, 900);
    cf_true("seen_here", cf_filled(p, WORDS, 900));
    OK("fill_here", cf_fill(p, WORDS, 33, NULL));
    NEED(cuCtxSynchronize());
    cf_true("seen_there_again", filled_there(&peer, q, WORDS, 33));
    OK("open_twice", open_there(&peer, &h, LAZY, &q2));
    cf_true("same_address", q == q2);
    OK("close", peer_do(&peer, P_CLOSE_MEM, q, 0, 0, NULL));
    cf_true("still_there", filled_there(&peer, q, WORDS, 33));
    OK("close_last", peer_do(&peer, P_CLOSE_MEM, q, 0, 0, NULL));
    RC("close_once_more", peer_do(&peer, P_CLOSE_MEM, q, 0, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    cf_true("unaffected", cf_filled(p, WORDS, 33));
    OK("open_later", open_there(&peer, &h, LAZY, &q));
    cf_true("seen_later", filled_there(&peer, q, WORDS, 33));
    OK("range", cuMemGetAddressRange(NULL, &size, p));
    cf_u64("size", size, WORDS * 4);
    OK("close_later", peer_do(&peer, P_CLOSE_MEM, q, 0, 0, NULL));
    OK("free", cuMemFree(p));
    RC_IN("open_freed", open_there(&peer, &h, LAZY, &q), CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE,
          CUDA_ERROR_MAP_FAILED);
    peer_end(&peer, false);
}

/* After cuMemFree has returned, no other process can open the memory. */
CASE(ipc_memory_freed, CF_ALONE)
{
    unsigned opened = 0, failed = 0;
    struct peer peer;
    uint64_t q = 0;

    begin(&peer);
    for (unsigned i = 0; i < 100; i++) {
        CUipcMemHandle h;
        CUdeviceptr p = 0;

        if (cuMemAlloc(&p, WORDS * 4) != CUDA_SUCCESS || cuIpcGetMemHandle(&h, p) != CUDA_SUCCESS ||
            cf_fill(p, WORDS, i, NULL) != CUDA_SUCCESS || cuMemFree(p) != CUDA_SUCCESS)
            failed++;
        else if (open_there(&peer, &h, LAZY, &q) == CUDA_SUCCESS)
            opened++;
    }
    cf_u64("failed", failed, 0);
    cf_u64("opened", opened, 0);
    peer_end(&peer, false);
}

/* Sizes around pages, in both directions. */
CASE(ipc_memory_sizes, CF_ALONE)
{
    static const unsigned words[] = {1, 127, 1024, 1025, 5000, 600000};
    struct peer peer;
    char name[32];

    begin(&peer);
    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct peer_msg m = {.op = P_ALLOC, .a = words[i] * 4u};
        CUipcMemHandle h;
        CUdeviceptr p = 0, mine = 0;
        uint64_t q = 0;
        bool ok = cuMemAlloc(&p, words[i] * 4u) == CUDA_SUCCESS && cuIpcGetMemHandle(&h, p) == CUDA_SUCCESS &&
                  cf_fill(p, words[i], i, NULL) == CUDA_SUCCESS && cuCtxSynchronize() == CUDA_SUCCESS &&
                  open_there(&peer, &h, LAZY, &q) == CUDA_SUCCESS && filled_there(&peer, q, words[i], i);

        ok = ok && peer_ask(&peer, &m, -1) == CUDA_SUCCESS;
        uint64_t theirs = m.value;
        fill_there(&peer, theirs, words[i], 70 + i);
        m = (struct peer_msg){.op = P_GET_MEM, .a = theirs};
        ok = ok && peer_ask(&peer, &m, -1) == CUDA_SUCCESS;
        memcpy(&h, m.data, sizeof(h));
        ok = ok && cuIpcOpenMemHandle(&mine, h, LAZY) == CUDA_SUCCESS && cf_filled(mine, words[i], 70 + i) &&
             cuIpcCloseMemHandle(mine) == CUDA_SUCCESS &&
             peer_do(&peer, P_CLOSE_MEM, q, 0, 0, NULL) == CUDA_SUCCESS &&
             peer_do(&peer, P_FREE, theirs, 0, 0, NULL) == CUDA_SUCCESS && cuMemFree(p) == CUDA_SUCCESS;
        snprintf(name, sizeof(name), "words_%u", words[i]);
        cf_true(name, ok);
    }
    peer_end(&peer, false);
}

CASE(ipc_memory_errors, CF_ALONE)
{
    CUipcMemHandle h;
    CUdeviceptr p = 0, q = 0, managed = 0;
    struct peer peer;
    uint64_t there = 0;

    begin(&peer);
    NEED(cuMemAlloc(&p, 100000));
    RC("null_handle", cuIpcGetMemHandle(NULL, p), CUDA_ERROR_INVALID_VALUE);
    RC_IN("get_nothing", cuIpcGetMemHandle(&h, 0x1234), CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_HANDLE);
    NEED(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    RC_IN("get_managed", cuIpcGetMemHandle(&h, managed), CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_HANDLE);
    NEED(cuMemFree(managed));
    OK("get", cuIpcGetMemHandle(&h, p));
    RC("open_here", cuIpcOpenMemHandle(&q, h, LAZY), CUDA_ERROR_INVALID_CONTEXT);
    RC("open_null", cuIpcOpenMemHandle(NULL, h, LAZY), CUDA_ERROR_INVALID_VALUE);
    RC("close_own", cuIpcCloseMemHandle(p), CUDA_ERROR_INVALID_VALUE);
    RC("flags_0", open_there(&peer, &h, 0, &there), CUDA_ERROR_INVALID_VALUE);
    RC("flags_2", open_there(&peer, &h, 2, &there), CUDA_ERROR_INVALID_VALUE);
    OK("open", open_there(&peer, &h, LAZY, &there));
    RC("free_opened", peer_do(&peer, P_FREE, there, 0, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("close_inside", peer_do(&peer, P_CLOSE_MEM, there + 512, 0, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    OK("reset", peer_do(&peer, P_RESET, 0, 0, 0, NULL));
    RC("close_after_reset", peer_do(&peer, P_CLOSE_MEM, there, 0, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    OK("open_after_reset", open_there(&peer, &h, LAZY, &there));
    OK("free", cuMemFree(p));
    peer_end(&peer, false);
}

/* Handles never given out; a driver may do anything with them, the worker refuses. */
CASE(ipc_memory_invented, CF_ALONE | CF_UB)
{
    CUipcMemHandle h, bad;
    CUdeviceptr p = 0;
    struct peer peer;
    uint64_t there = 0;
    unsigned refused = 0;

    begin(&peer);
    NEED(cuMemAlloc(&p, 100000));
    NEED(cuIpcGetMemHandle(&h, p));
    memset(&bad, 0, sizeof(bad));
    RC("zeroes", open_there(&peer, &bad, LAZY, &there), CUDA_ERROR_INVALID_VALUE); /* driver 580 */
    memset(&bad, 0xff, sizeof(bad));
    RC("ones", open_there(&peer, &bad, LAZY, &there), CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < sizeof(h) * 8; i++) { /* each single bit of a valid handle */
        bad = h;
        bad.reserved[i / 8] ^= (char)(1 << i % 8);
        there = 0;
        CUresult r = open_there(&peer, &bad, LAZY, &there);
        if (r == CUDA_SUCCESS)
            peer_do(&peer, P_CLOSE_MEM, there, 0, 0, NULL);
        refused += r != CUDA_SUCCESS;
    }
    cf_true("bits_of_the_token", refused >= 256);
    OK("good_one", open_there(&peer, &h, LAZY, &there));
    peer_end(&peer, false);
}

static uint64_t capable(CUdeviceptr p)
{
    unsigned yes = 9;

    NEED(cuPointerGetAttribute(&yes, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, p));
    return yes;
}

/* The exporter ends in either way: a process that has the memory open keeps it. */
static void exporter_goes(bool by_kill)
{
    struct peer_msg m = {.op = P_ALLOC, .a = WORDS * 4};
    CUipcMemHandle h;
    CUdeviceptr p = 0, q = 0;
    struct peer peer;

    begin(&peer);
    NEED(peer_ask(&peer, &m, -1));
    uint64_t theirs = m.value;
    fill_there(&peer, theirs, WORDS, 17);
    m = (struct peer_msg){.op = P_GET_MEM, .a = theirs};
    NEED(peer_ask(&peer, &m, -1));
    memcpy(&h, m.data, sizeof(h));
    OK("open", cuIpcOpenMemHandle(&p, h, LAZY));
    /* Only the owner can export the memory. */
    cf_u64("capable", capable(p), 0);
    RC("hand_on", cuIpcGetMemHandle(&h, p), CUDA_ERROR_INVALID_VALUE);
    NEED(cuMemAlloc(&q, 4096));
    cf_u64("own_capable", capable(q), 1);
    NEED(cuMemFree(q));
    peer_end(&peer, by_kill);
    cf_true("kept", cf_filled(p, WORDS, 17));
    OK("fill", cf_fill(p, WORDS, 18, NULL));
    cf_true("usable", cf_filled(p, WORDS, 18));
    OK("close", cuIpcCloseMemHandle(p));
    RC_IN("open_later", cuIpcOpenMemHandle(&q, h, LAZY), CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE,
          CUDA_ERROR_MAP_FAILED);
}

CASE(ipc_exporter_exits, CF_ALONE | CF_UB)
{
    exporter_goes(false);
}

CASE(ipc_exporter_killed, CF_ALONE | CF_UB)
{
    exporter_goes(true);
}

/*
 * Freed while another process has it open: that process keeps the memory, and new memory does not
 * appear there.
 */
CASE(ipc_freed_while_open, CF_ALONE | CF_UB)
{
    CUipcMemHandle h;
    CUdeviceptr p = 0, q = 0;
    struct peer peer;
    uint64_t there = 0;

    begin(&peer);
    NEED(cuMemAlloc(&p, WORDS * 4));
    NEED(cf_fill(p, WORDS, 5, NULL));
    NEED(cuIpcGetMemHandle(&h, p));
    NEED(open_there(&peer, &h, LAZY, &there));
    OK("free", cuMemFree(p));
    NEED(cuMemAlloc(&q, WORDS * 4));
    NEED(cf_fill(q, WORDS, 1000, NULL));
    NEED(cuCtxSynchronize());
    cf_true("kept", filled_there(&peer, there, WORDS, 5));
    OK("close", peer_do(&peer, P_CLOSE_MEM, there, 0, 0, NULL));
    cf_true("mine", cf_filled(q, WORDS, 1000));
    peer_end(&peer, false);
}

/* Exporting a handle does not wait for work on the memory, and loses none of its results. */
CASE(ipc_get_while_busy, CF_ALONE)
{
    CUipcMemHandle h;
    CUdeviceptr p = 0;
    CUstream s;
    struct peer peer;
    uint64_t there = 0;

    begin(&peer);
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&p, 600000 * 4));
    (void)cf_func("k_fill");
    struct cf_gate *g = cf_gate_put(s);
    NEED(cf_fill(p, 600000, 1, s));
    OK("get", cuIpcGetMemHandle(&h, p));
    OK("open", open_there(&peer, &h, LAZY, &there));
    cf_gate_open(g);
    OK("sync", cuStreamSynchronize(s));
    cf_true("seen_there", filled_there(&peer, there, 600000, 1));
    OK("close", peer_do(&peer, P_CLOSE_MEM, there, 0, 0, NULL));
    OK("free", cuMemFree(p));
    peer_end(&peer, false);
}

/* ---- events ---- */

#define INTERPROCESS (CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING)

static CUresult open_event_there(struct peer *p, const CUipcEventHandle *h, uint64_t *event)
{
    struct peer_msg m = {.op = P_OPEN_EVENT};

    memcpy(m.data, h, sizeof(*h));
    CUresult r = peer_ask(p, &m, -1);
    *event = m.value;
    return r;
}

CASE(ipc_event, CF_ALONE)
{
    CUipcEventHandle h;
    CUevent e, timed;
    CUstream s;
    struct peer peer;
    uint64_t there = 0;
    float ms;

    begin(&peer);
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    RC("with_timing", cuEventCreate(&e, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
    OK("create", cuEventCreate(&e, INTERPROCESS));
    NEED(cuEventCreate(&timed, 0));
    RC("null", cuIpcGetEventHandle(NULL, e), CUDA_ERROR_INVALID_VALUE);
    RC_IN("not_interprocess", cuIpcGetEventHandle(&h, timed), CUDA_ERROR_INVALID_HANDLE,
          CUDA_ERROR_INVALID_VALUE);
    OK("get", cuIpcGetEventHandle(&h, e));
    OK("open", open_event_there(&peer, &h, &there));
    OK("never_recorded", peer_do(&peer, P_QUERY, there, 0, 0, NULL));
    RC("elapsed", cuEventElapsedTime(&ms, e, e), CUDA_ERROR_INVALID_HANDLE);

    struct cf_gate *g = cf_gate_put(s);
    OK("record", cuEventRecord(e, s));
    RC("pending_here", cuEventQuery(e), CUDA_ERROR_NOT_READY);
    RC("pending_there", peer_do(&peer, P_QUERY, there, 0, 0, NULL), CUDA_ERROR_NOT_READY);
    peer_send(&peer, P_EVENT_SYNC, there);
    cf_true("waits", !peer_answered(&peer, 300));
    cf_gate_open(g);
    OK("waited", peer_answer(&peer, NULL));
    OK("sync_here", cuEventSynchronize(e));
    OK("done_there", peer_do(&peer, P_QUERY, there, 0, 0, NULL));

    /* ... and recorded there, waited for here. */
    NEED(peer_do(&peer, P_GATE, 0, 0, 0, NULL));
    OK("record_there", peer_do(&peer, P_RECORD, there, 0, 0, NULL));
    RC("pending_here_2", cuEventQuery(e), CUDA_ERROR_NOT_READY);
    OK("stream_waits", cuStreamWaitEvent(s, e, 0));
    RC("stream_busy", cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    OK("another_stream", cuStreamSynchronize(0));
    NEED(peer_do(&peer, P_GATE_OPEN, 0, 0, 0, NULL));
    OK("stream_sync", cuStreamSynchronize(s));
    OK("event_sync", cuEventSynchronize(e));
    OK("destroy_there", peer_do(&peer, P_END_EVENT, there, 0, 0, NULL));
    OK("destroy", cuEventDestroy(e));
    NEED(cuCtxSynchronize());
    /* Destruction of the event may be noticed with a delay; until then a process may open it. */
    CUresult opened;
    for (int i = 0; (opened = open_event_there(&peer, &h, &there)) == CUDA_SUCCESS && i < 1000; i++) {
        NEED(peer_do(&peer, P_END_EVENT, there, 0, 0, NULL));
        usleep(1000);
    }
    if (!cf_real()) /* a GPU's driver still opens it */
        RC_IN("open_destroyed", opened, CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE,
              CUDA_ERROR_MAP_FAILED);
    peer_end(&peer, false);
}

/* Work in two processes on the same memory, in turns ordered by events only. */
CASE(ipc_ping_pong, CF_ALONE)
{
    CUipcEventHandle h;
    CUipcMemHandle mh;
    CUevent mine, theirs;
    CUdeviceptr p = 0;
    CUstream s;
    struct peer peer;
    uint64_t there = 0, my_event_there = 0;
    unsigned good = 0;

    begin(&peer);
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&p, WORDS * 4));
    NEED(cuIpcGetMemHandle(&mh, p));
    NEED(open_there(&peer, &mh, LAZY, &there));
    NEED(cuEventCreate(&mine, INTERPROCESS));
    NEED(cuIpcGetEventHandle(&h, mine));
    NEED(open_event_there(&peer, &h, &my_event_there));
    struct peer_msg m = {.op = P_NEW_EVENT, .a = INTERPROCESS};
    NEED(peer_ask(&peer, &m, -1));
    uint64_t their_event = m.value;
    m = (struct peer_msg){.op = P_GET_EVENT, .a = their_event};
    NEED(peer_ask(&peer, &m, -1));
    memcpy(&h, m.data, sizeof(h));
    OK("open", cuIpcOpenEventHandle(&theirs, h));
    CUfunction add = cf_func("k_add");
    unsigned n = WORDS, one = 1;
    void *params[] = {&p, &n, &one};
    for (unsigned i = 0; i < 20; i++) {
        NEED(peer_do(&peer, P_WAIT_EVENT, my_event_there, 0, 0, NULL));
        NEED(peer_do(&peer, P_FILL, there, WORDS, 100 * i, NULL));
        NEED(peer_do(&peer, P_RECORD, their_event, 0, 0, NULL));
        NEED(cuStreamWaitEvent(s, theirs, 0));
        NEED(cf_launch(add, (WORDS + 127) / 128, 128, 0, s, params));
        NEED(cuEventRecord(mine, s));
        if (i % 4 == 3) {
            NEED(cuStreamSynchronize(s));
            good += cf_filled(p, WORDS, 100 * i + 1);
        }
    }
    cf_u64("good", good, 5);
    peer_end(&peer, false);
}

/* The process that should record the end dies: the waiters continue. */
CASE(ipc_recorder_killed, CF_ALONE | CF_UB)
{
    CUipcEventHandle h;
    CUevent e;
    CUstream s;
    struct peer peer;
    uint64_t there = 0;

    begin(&peer);
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&e, INTERPROCESS));
    NEED(cuIpcGetEventHandle(&h, e));
    NEED(open_event_there(&peer, &h, &there));
    NEED(peer_do(&peer, P_GATE, 0, 0, 0, NULL));
    NEED(peer_do(&peer, P_RECORD, there, 0, 0, NULL));
    NEED(cuStreamWaitEvent(s, e, 0));
    RC("pending", cuEventQuery(e), CUDA_ERROR_NOT_READY);
    peer_end(&peer, true);
    OK("sync", cuEventSynchronize(e));
    OK("stream_sync", cuStreamSynchronize(s));
    OK("query", cuEventQuery(e));
    OK("record", cuEventRecord(e, s));
    OK("sync_again", cuEventSynchronize(e));
}

CASE(ipc_event_errors, CF_ALONE | CF_UB)
{
    CUipcEventHandle h, bad;
    CUipcMemHandle mh;
    CUdeviceptr p = 0;
    CUevent e, other;
    struct peer peer;
    uint64_t there = 0;
    int yes = 0;

    begin(&peer);
    OK("attribute", cuDeviceGetAttribute(&yes, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 0));
    cf_u64("supported", (uint64_t)yes, 1);
    NEED(cuEventCreate(&e, INTERPROCESS));
    NEED(cuIpcGetEventHandle(&h, e));
    RC("open_null", cuIpcOpenEventHandle(NULL, h), CUDA_ERROR_INVALID_VALUE);
    RC("open_here", cuIpcOpenEventHandle(&other, h), CUDA_ERROR_INVALID_CONTEXT);
    memset(&bad, 0x5a, sizeof(bad));
    RC("invented", open_event_there(&peer, &bad, &there), CUDA_ERROR_INVALID_HANDLE);
    NEED(cuMemAlloc(&p, 4096));
    NEED(cuIpcGetMemHandle(&mh, p));
    memcpy(&bad, &mh, sizeof(bad));
    RC("memory", open_event_there(&peer, &bad, &there), CUDA_ERROR_INVALID_HANDLE);
    memcpy(&mh, &h, sizeof(mh));
    RC("event_as_memory", open_there(&peer, &mh, LAZY, &there), CUDA_ERROR_INVALID_VALUE);
    OK("open", open_event_there(&peer, &h, &there));
    struct peer_msg m = {.op = P_GET_EVENT, .a = there};
    RC("get_of_opened", peer_ask(&peer, &m, -1), CUDA_ERROR_INVALID_HANDLE);
    RC("destroyed_twice", (cuEventDestroy(e), cuEventDestroy(e)), CUDA_ERROR_INVALID_HANDLE);
    peer_end(&peer, false);
}
