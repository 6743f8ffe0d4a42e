/* SPDX-License-Identifier: MIT */
/* Each limit, changed while a client waits for a worker, while the worker starts, and while it serves. The test provides the
 * workers (linked with --wrap). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "clients.h"
#include "vgb_fd.h"

#define WINDOW ((uint64_t)VGP_PAGE)
#define IDLE (UINT64_C(512) << 20) /* memory of a worker that its limit does not count */

enum when { WAITING, STARTING, SERVING, WHENS };

static struct brk_proc proc;
static int worker; /* the worker's end of the socket */

struct brk_proc *__wrap_brk_pool_take(struct brk_client *c);
void __wrap_brk_proc_kill(struct brk_proc *p);

/* There is no worker yet: brk_client_worker_ready() brings it. */
struct brk_proc *__wrap_brk_pool_take(struct brk_client *c)
{
    (void)c;
    return NULL;
}

void __wrap_brk_proc_kill(struct brk_proc *p)
{
    (void)p;
}

static void on_status(struct brk_client *c, uint32_t status)
{
    (void)c;
    assert_int_equal(status, VGPU_S_OK);
}

static void on_client(struct brk_client *c)
{
    (void)c;
}

static const struct brk_client_ops ops = {
    .created = on_status, .wake = on_client, .stuck = on_client, .ended = on_client};

static struct brk_client *create_client(void)
{
    struct brk_client_setup s = {.ops = &ops, .label = "waits", .window_size = WINDOW, .create_ms = 60000};
    struct brk_client *c;
    uint32_t status;

    s.window_fd = memfd_create("window", MFD_CLOEXEC);
    s.doorbell = eventfd(0, EFD_CLOEXEC);
    assert_int_equal(ftruncate(s.window_fd, WINDOW), 0);
    c = brk_client_create(&s, &status);
    assert_non_null(c);
    assert_int_equal(c->state, BRK_C_WAITING);
    close(s.window_fd);
    close(s.doorbell);
    return c;
}

/* A process that stands for the worker, with its limit of memory. */
static void bring_worker(struct brk_client *c)
{
    const struct rlimit r = {IDLE + brk_opt.limits.memory, IDLE + brk_opt.limits.memory};
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    proc = (struct brk_proc){.sock.fd = pair[0], .state = BRK_PROC_ASSIGNED, .client = c};
    worker = pair[1];
    const pid_t test = getpid();
    proc.pid = fork();
    if (!proc.pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* the test may fail, also before this call */
        while (getppid() == test)
            pause();
        _exit(0);
    }
    assert_true(proc.pid > 0);
    assert_int_equal(prlimit(proc.pid, RLIMIT_DATA, &r, NULL), 0);
    brk_client_worker_ready(c, &proc);
    assert_int_equal(c->state, BRK_C_STARTING);
}

static void serve(struct brk_client *c)
{
    const struct vgb_msg serving = {.type = VGB_M_SERVING};

    brk_client_message(c, &serving);
    assert_int_equal(c->state, BRK_C_SERVING);
}

static void leave(struct brk_client *c)
{
    brk_client_destroy(c);
    kill(proc.pid, SIGKILL);
    waitpid(proc.pid, NULL, 0);
    brk_client_worker_gone(c, VGPU_DEAD_KILLED, "the worker was killed", true);
    close(worker);
    close(proc.sock.fd);
}

/* The limits that the worker was told last, and in how many messages. */
static unsigned told(struct vgb_limits *l)
{
    int fds[VGB_MSG_FDS];
    unsigned n = VGB_MSG_FDS, messages = 0;
    struct vgb_msg m;

    while (vgb_msg_recv(worker, &m, fds, &n, MSG_DONTWAIT) == 1) {
        vgb_close_all(fds, n);
        n = VGB_MSG_FDS;
        if (m.type != VGB_M_START && m.type != VGB_M_LIMITS)
            continue;
        *l = m.limits;
        messages++;
    }
    return messages;
}

static uint64_t memory_limit(void)
{
    struct rlimit r;

    assert_int_equal(prlimit(proc.pid, RLIMIT_DATA, NULL, &r), 0);
    assert_true(r.rlim_cur == r.rlim_max);
    return r.rlim_cur - IDLE;
}

static void brings_limits(enum brk_limit_id id, enum when when)
{
    const uint64_t value = brk_limits[id].low + 1;
    struct brk_client *c;
    struct vgb_limits l;

    memset(&brk_opt.limits, 0, sizeof(brk_opt.limits));
    for (unsigned i = 0; i < BRK_L_COUNT; i++) {
        if (brk_limit_is_client((enum brk_limit_id)i) || i == BRK_L_BLOBS)
            brk_limit_put(&brk_opt, (enum brk_limit_id)i, brk_limits[i].low + 2);
    }
    c = create_client();
    if (when == WAITING)
        assert_null(brk_adjust(id, value, 0));
    bring_worker(c);
    if (when == STARTING)
        assert_null(brk_adjust(id, value, 0));
    serve(c);
    if (when == SERVING)
        assert_null(brk_adjust(id, value, 0));
    assert_int_equal(told(&l), when == WAITING || id == BRK_L_CLIENT_PRIORITY ? 1 : 2);
    assert_memory_equal(&l, &brk_opt.limits, sizeof(l));
    assert_memory_equal(&c->limits, &brk_opt.limits, sizeof(l));
    assert_int_equal(memory_limit(), brk_opt.limits.memory);
    assert_int_equal(c->priority, brk_opt.client_priority);
    assert_int_equal(brk_limit_get(&brk_opt, id), value);
    /* And for the client alone. */
    if (brk_limit_is_client(id)) {
        assert_null(brk_adjust(id, brk_limits[id].low, proc.pid));
        assert_int_equal(id == BRK_L_CLIENT_PRIORITY ? c->priority : brk_limit_of_client(&c->limits, id),
                         brk_limits[id].low);
        assert_int_equal(memory_limit(), c->limits.memory);
        assert_int_equal(brk_limit_get(&brk_opt, id), value);
    }
    leave(c);
}

static void test_each_limit(void **state)
{
    (void)state;
    for (unsigned id = 0; id < BRK_L_COUNT; id++) {
        if (id != BRK_L_BLOBS && (!brk_limit_is_client((enum brk_limit_id)id) || brk_limit_is_share(id)))
            continue;
        for (enum when when = WAITING; when < WHENS; when++)
            brings_limits((enum brk_limit_id)id, when);
    }
}

static void test_priority(void **state)
{
    (void)state;
    brk_pace_provider(true);
    for (enum when when = WAITING; when < WHENS; when++)
        brings_limits(BRK_L_CLIENT_PRIORITY, when);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_limit), cmocka_unit_test(test_priority)};

    brk_opt.max_clients = 8;
    if (brk_loop_init())
        return 1;
    return cmocka_run_group_tests_name("adjust", tests, NULL, NULL);
}
