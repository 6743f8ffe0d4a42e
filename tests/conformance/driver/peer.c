// SPDX-License-Identifier: MIT
#include "peer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- messages ---- */

static bool put(int sock, const struct peer_msg *m, int fd)
{
    struct iovec iov = {(void *)(uintptr_t)m, sizeof(*m)};
    union {
        char buf[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } ctl;
    struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    if (fd >= 0) {
        memset(&ctl, 0, sizeof(ctl));
        mh.msg_control = ctl.buf;
        mh.msg_controllen = sizeof(ctl.buf);
        struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    }
    do
        n = sendmsg(sock, &mh, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(*m);
}

static bool get(int sock, struct peer_msg *m, int *fd)
{
    struct iovec iov = {m, sizeof(*m)};
    union {
        char buf[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } ctl;
    struct msghdr mh = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf)};
    ssize_t n;

    *fd = -1;
    do
        n = recvmsg(sock, &mh, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&mh) : NULL;
    if (c && c->cmsg_type == SCM_RIGHTS)
        memcpy(fd, CMSG_DATA(c), sizeof(*fd));
    return n == (ssize_t)sizeof(*m);
}

/* ---- the first process ---- */

void peer_start(struct peer *p)
{
    int pair[2];
    char number[16];

    cf_need_true("socketpair", !socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
    fflush(stdout);
    p->pid = fork();
    if (p->pid == 0) {
        close(pair[0]);
        snprintf(number, sizeof(number), "%d", pair[1]);
        execl("/proc/self/exe", "conform", "--mode", "peer", number, (char *)NULL);
        _exit(127);
    }
    close(pair[1]);
    p->sock = pair[0];
    cf_need_true("fork", p->pid > 0);
    NEED(peer_do(p, P_INIT, 0, 0, 0, NULL));
}

CUresult peer_ask(struct peer *p, struct peer_msg *m, int fd)
{
    int none;

    if (!put(p->sock, m, fd) || !get(p->sock, m, &none))
        return CUDA_ERROR_UNKNOWN;
    return (CUresult)m->result;
}

CUresult peer_do(struct peer *p, enum peer_op op, uint64_t a, uint64_t b, uint64_t c, uint64_t *value)
{
    struct peer_msg m = {.op = op, .a = a, .b = b, .c = c};
    CUresult r = peer_ask(p, &m, -1);

    if (value)
        *value = m.value;
    return r;
}

void peer_send(struct peer *p, enum peer_op op, uint64_t a)
{
    struct peer_msg m = {.op = op, .a = a};

    cf_need_true("send", put(p->sock, &m, -1));
}

CUresult peer_answer(struct peer *p, uint64_t *value)
{
    struct peer_msg m;
    int none;

    if (!get(p->sock, &m, &none))
        return CUDA_ERROR_UNKNOWN;
    if (value)
        *value = m.value;
    return (CUresult)m.result;
}

bool peer_answered(struct peer *p, int ms)
{
    struct pollfd f = {.fd = p->sock, .events = POLLIN};
    struct timespec now;
    int64_t end = 0, left = ms;
    int r;

    do { /* signals must not extend the time */
        r = poll(&f, 1, (int)left);
        clock_gettime(CLOCK_MONOTONIC, &now);
        int64_t at = now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
        end = end ? end : at + ms;
        left = end > at ? end - at : 0;
    } while (r < 0 && errno == EINTR && left);
    return r == 1;
}

void peer_end(struct peer *p, bool by_kill)
{
    struct peer_msg m = {.op = P_EXIT};

    if (by_kill)
        kill(p->pid, SIGKILL);
    else
        put(p->sock, &m, -1);
    cf_child_status(p->pid);
    close(p->sock);
}

/* ---- the second process ---- */

static CUstream stream;
static struct cf_gate *gate;

static CUresult init(void)
{
    CUcontext c;
    CUresult r = cuInit(0);

    if (r == CUDA_SUCCESS)
        r = cuDevicePrimaryCtxRetain(&c, 0);
    if (r == CUDA_SUCCESS)
        r = cuCtxSetCurrent(c);
    return r == CUDA_SUCCESS ? cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) : r;
}

static CUresult reset(void)
{
    CUresult r = cuDevicePrimaryCtxRelease(0);

    cf_module_forget();
    return r == CUDA_SUCCESS ? init() : r;
}

static CUresult map(uint64_t handle, uint64_t bytes, uint64_t *value)
{
    CUmemAccessDesc d = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                         .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr p = 0;
    CUresult r = cuMemAddressReserve(&p, bytes, 0, 0, 0);

    if (r == CUDA_SUCCESS)
        r = cuMemMap(p, bytes, 0, handle, 0);
    if (r == CUDA_SUCCESS)
        r = cuMemSetAccess(p, bytes, &d, 1);
    *value = p;
    return r;
}

static CUresult events(struct peer_msg *m)
{
    CUevent e = (CUevent)(uintptr_t)m->a;
    CUipcEventHandle h;
    CUresult r;

    switch (m->op) {
    case P_NEW_EVENT:
        r = cuEventCreate(&e, (unsigned)m->a);
        m->value = (uintptr_t)e;
        return r;
    case P_GET_EVENT:
        r = cuIpcGetEventHandle(&h, e);
        memcpy(m->data, &h, sizeof(h));
        return r;
    case P_OPEN_EVENT:
        memcpy(&h, m->data, sizeof(h));
        r = cuIpcOpenEventHandle(&e, h);
        m->value = (uintptr_t)e;
        return r;
    case P_RECORD:
        return cuEventRecord(e, stream);
    case P_QUERY:
        return cuEventQuery(e);
    case P_EVENT_SYNC:
        return cuEventSynchronize(e);
    case P_WAIT_EVENT:
        return cuStreamWaitEvent(stream, e, 0);
    case P_END_EVENT:
        return cuEventDestroy(e);
    case P_GATE:
        gate = cf_gate_put(stream);
        return CUDA_SUCCESS;
    case P_GATE_OPEN:
        cf_gate_open(gate);
        return CUDA_SUCCESS;
    default:
        return cuStreamSynchronize(stream);
    }
}

static CUresult descriptors(struct peer_msg *m, int fd)
{
    CUmemPoolPtrExportData ptr;
    CUresult r;

    switch (m->op) {
    case P_IMPORT:
        return cuMemImportFromShareableHandle((CUmemGenericAllocationHandle *)&m->value,
                                              (void *)(uintptr_t)fd,
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    case P_MAP:
        return map(m->a, m->b, &m->value);
    case P_UNMAP:
        r = cuMemUnmap(m->a, m->b);
        return r == CUDA_SUCCESS ? cuMemAddressFree(m->a, m->b) : r;
    case P_RELEASE:
        return cuMemRelease(m->a);
    case P_IMPORT_POOL:
        return cuMemPoolImportFromShareableHandle((CUmemoryPool *)&m->value, (void *)(uintptr_t)fd,
                                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    case P_IMPORT_POINTER:
        memcpy(&ptr, m->data, sizeof(ptr));
        return cuMemPoolImportPointer((CUdeviceptr *)&m->value, (CUmemoryPool)(uintptr_t)m->a, &ptr);
    case P_FREE_ASYNC:
        r = cuMemFreeAsync(m->a, stream);
        return r == CUDA_SUCCESS ? cuStreamSynchronize(stream) : r;
    default:
        return cuMemPoolDestroy((CUmemoryPool)(uintptr_t)m->a);
    }
}

static CUresult carry_out(struct peer_msg *m, int fd)
{
    CUipcMemHandle h;
    CUresult r;

    switch (m->op) {
    case P_INIT:
        return init();
    case P_RESET:
        return reset();
    case P_ALLOC:
        return cuMemAlloc((CUdeviceptr *)&m->value, m->a);
    case P_FREE:
        return cuMemFree(m->a);
    case P_GET_MEM:
        r = cuIpcGetMemHandle(&h, m->a);
        memcpy(m->data, &h, sizeof(h));
        return r;
    case P_OPEN_MEM:
        memcpy(&h, m->data, sizeof(h));
        return cuIpcOpenMemHandle((CUdeviceptr *)&m->value, h, (unsigned)m->a);
    case P_CLOSE_MEM:
        return cuIpcCloseMemHandle(m->a);
    case P_FILL:
        return cf_fill(m->a, (unsigned)m->b, (unsigned)m->c, stream);
    case P_FILLED:
        m->value = cf_filled(m->a, (unsigned)m->b, (unsigned)m->c);
        return CUDA_SUCCESS;
    case P_IMPORT:
    case P_MAP:
    case P_UNMAP:
    case P_RELEASE:
    case P_IMPORT_POOL:
    case P_IMPORT_POINTER:
    case P_FREE_ASYNC:
    case P_END_POOL:
        return descriptors(m, fd);
    default:
        return events(m);
    }
}

bool peer_main(const char *number)
{
    int sock = atoi(number), fd;
    struct peer_msg m;

    while (get(sock, &m, &fd) && m.op != P_EXIT) {
        m.result = carry_out(&m, fd);
        if (fd >= 0)
            close(fd);
        if (!put(sock, &m, -1))
            break;
    }
    return true;
}
