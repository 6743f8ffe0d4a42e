/* SPDX-License-Identifier: MIT */
/* A broker that a service manager has started: sockets as descriptors, readiness, watchdog, end. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "vgb_fd.h"
#include "vm.h"

#define LONG_MS 20000 /* for what comes; never waited for in full when it works */

struct manager {
    char dir[64], path[96], notify_path[96];
    int notify; /* where the broker's states arrive */
    int fds[3]; /* become 3, 4, 5 of the broker; -1: none */
    const char *listen_fds, *watchdog_usec;
    bool other_pid; /* LISTEN_PID is somebody else's */
    pid_t pid;
};

static int unix_socket(const char *path, int type)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

    snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    if (type != SOCK_DGRAM)
        assert_int_equal(listen(fd, 4), 0);
    return fd;
}

static int set_up(void **state)
{
    struct manager *m = calloc(1, sizeof(*m));

    snprintf(m->dir, sizeof(m->dir), "/tmp/vgb-inherit-XXXXXX");
    if (!mkdtemp(m->dir))
        return -1;
    snprintf(m->path, sizeof(m->path), "%s/s", m->dir);
    snprintf(m->notify_path, sizeof(m->notify_path), "%s/notify", m->dir);
    m->notify = unix_socket(m->notify_path, SOCK_DGRAM);
    for (int i = 0; i < 3; i++)
        m->fds[i] = -1;
    *state = m;
    return 0;
}

static int tear_down(void **state)
{
    struct manager *m = *state;
    char other[128];

    if (m->pid > 0) {
        kill(m->pid, SIGKILL);
        waitpid(m->pid, NULL, 0);
    }
    for (int i = 0; i < 3; i++)
        vgb_close(&m->fds[i]);
    close(m->notify);
    unlink(m->path);
    unlink(m->notify_path);
    snprintf(other, sizeof(other), "%s/other", m->dir);
    unlink(other);
    rmdir(m->dir);
    free(m);
    return 0;
}

/* In the broker's process: the manager's descriptors and variables, as systemd leaves them. */
static void become(struct manager *m, const char *const *options)
{
    const char *base = getenv("BACKEND_DIR"), *argv[16];
    char exe[600], provider[600], pid[16];
    int n = 0, high[3];

    snprintf(exe, sizeof(exe), "%s/vgpu-backend", base);
    snprintf(provider, sizeof(provider), "%s/tests/libtestprov.so", base);
    snprintf(pid, sizeof(pid), "%d", (int)getpid() + (m->other_pid ? 1 : 0));
    for (int i = 0; i < 3; i++)
        high[i] = m->fds[i] < 0 ? -1 : fcntl(m->fds[i], F_DUPFD_CLOEXEC, 100);
    for (int i = 0; i < 3; i++) {
        if (high[i] >= 0)
            dup2(high[i], 3 + i);
        else
            close(3 + i);
    }
    if (m->listen_fds) {
        setenv("LISTEN_PID", pid, 1);
        setenv("LISTEN_FDS", m->listen_fds, 1);
    }
    setenv("NOTIFY_SOCKET", m->notify_path, 1);
    if (m->watchdog_usec)
        setenv("WATCHDOG_USEC", m->watchdog_usec, 1);
    argv[n++] = exe;
    argv[n++] = "--provider";
    argv[n++] = provider;
    argv[n++] = "--log";
    argv[n++] = getenv("V") ? "-" : "/dev/null";
    for (; *options && n < 15; options++)
        argv[n++] = strcmp(*options, "SOCKET") ? *options : m->path;
    argv[n] = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!getenv("V"))
        dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), 2);
    execv(exe, (char *const *)(uintptr_t)argv);
    _exit(127);
}

static void start(struct manager *m, const char *const *options)
{
    m->pid = fork();
    if (!m->pid)
        become(m, options);
    assert_true(m->pid > 0);
}

static int exit_status(struct manager *m)
{
    int status = -1;

    waitpid(m->pid, &status, 0);
    m->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* Waits for a state, over others. */
static bool said(struct manager *m, const char *state)
{
    struct pollfd p = {.fd = m->notify, .events = POLLIN};
    char text[200];

    while (poll(&p, 1, LONG_MS) == 1) {
        ssize_t n = recv(m->notify, text, sizeof(text) - 1, 0);

        if (n < 0)
            return false;
        text[n] = '\0';
        if (!strcmp(text, state))
            return true;
    }
    return false;
}

static const char *const none[] = {NULL};

static void serves_vhost(struct manager *m, struct vm *v)
{
    struct guest g;

    snprintf(v->b.sock, sizeof(v->b.sock), "%s", m->path);
    v->b.pid = m->pid;
    if (v->sock < 0)
        assert_int_equal(vm_connect(v), 0);
    assert_int_equal(vm_run(v), 0);
    assert_int_equal(vm_create(v, 0), VGPU_S_OK);
    vm_as_guest(v, 0, &g);
    assert_int_equal(vm_ping(&g), 0);
}

static void test_activation(void **state)
{
    struct manager *m = *state;
    struct vm v = {.sock = -1};
    struct stat st;

    m->fds[0] = unix_socket(m->path, SOCK_STREAM);
    m->listen_fds = "1";
    start(m, none);
    /* Before it is ready: the kernel keeps the connection until the broker takes it. */
    serves_vhost(m, &v);
    assert_true(said(m, "READY=1"));
    kill(m->pid, SIGTERM);
    assert_true(said(m, "STOPPING=1"));
    assert_int_equal(exit_status(m), 0);
    assert_int_equal(stat(m->path, &st), 0); /* the manager's, who starts us again by it */
    v.b.pid = 0;
    close(v.sock);
    /* The next one is served by the same socket. */
    v = (struct vm){.sock = -1};
    start(m, none);
    serves_vhost(m, &v);
    close(v.sock);
}

/* What the status says of the socket and the machine, by the path of --status. */
static void named(struct manager *m, const char *const *options, const char *name)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char text[65536], want[200];
    ssize_t n;
    int s;

    m->fds[0] = unix_socket(m->path, SOCK_STREAM);
    m->listen_fds = "1";
    start(m, options);
    assert_true(said(m, "READY=1"));
    s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", options[1]);
    assert_int_equal(connect(s, (struct sockaddr *)&a, sizeof(a)), 0);
    n = recv(s, text, sizeof(text) - 1, 0);
    assert_true(n > 0);
    text[n] = '\0';
    snprintf(want, sizeof(want), "backend %d %s\nname %s\n", (int)m->pid, m->path, name);
    assert_int_equal(strncmp(text, want, strlen(want)), 0);
    close(s);
    kill(m->pid, SIGTERM);
    assert_int_equal(exit_status(m), 0);
    vgb_close(&m->fds[0]);
    unlink(m->path);
}

/* A machine whose socket is inherited has the socket's name, or the one of --name. */
static void test_name(void **state)
{
    struct manager *m = *state;
    char status[128];
    const char *const by_socket[] = {"--status", status, NULL};
    const char *const given[] = {"--status", status, "--name", "vm1", NULL};
    static const char *const wrong[] = {"--socket-path", "SOCKET", "--name", "a b", NULL};

    snprintf(status, sizeof(status), "%s/status", m->dir);
    named(m, by_socket, "s");
    named(m, given, "vm1");
    m->listen_fds = NULL;
    start(m, wrong);
    assert_int_equal(exit_status(m), 2);
}

static void test_activation_with_both_kinds(void **state)
{
    struct manager *m = *state;
    struct vm v = {.sock = -1};
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char other[128];
    int s;

    snprintf(other, sizeof(other), "%s/other", m->dir);
    m->fds[0] = unix_socket(other, SOCK_SEQPACKET);
    m->fds[1] = unix_socket(m->path, SOCK_STREAM);
    m->listen_fds = "2";
    start(m, none);
    assert_true(said(m, "READY=1"));
    serves_vhost(m, &v);
    s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    snprintf(a.sun_path, sizeof(a.sun_path), "%.100s", other);
    assert_int_equal(connect(s, (struct sockaddr *)&a, sizeof(a)), 0);
    close(s);
    close(v.sock);
}

static void test_connected_socket(void **state)
{
    static const char *const options[] = {"--fd", "3", NULL};
    struct manager *m = *state;
    struct vm v = {.sock = -1};
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    m->fds[0] = pair[1];
    v.sock = pair[0];
    start(m, options);
    vgb_close(&m->fds[0]);
    serves_vhost(m, &v);
    close(v.sock);
    assert_int_equal(exit_status(m), 0); /* nobody can follow: it ends with QEMU */
}

/* The process by which the kernel knows a listening socket. */
static pid_t listener_of(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct ucred peer = {0};
    socklen_t size = sizeof(peer);

    snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    assert_int_equal(connect(s, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(getsockopt(s, SOL_SOCKET, SO_PEERCRED, &peer, &size), 0);
    close(s);
    return peer.pid;
}

/* Whoever made the socket of --fd may have ended: the broker listens itself, so that no other one takes its path.
 * A service manager's socket remains the manager's. */
static void test_listener_of_socket(void **state)
{
    static const char *const fd[] = {"--fd", "3", NULL};
    struct manager *m = *state;

    m->fds[0] = unix_socket(m->path, SOCK_SEQPACKET);
    start(m, fd);
    assert_true(said(m, "READY=1"));
    assert_int_equal(listener_of(m->path), m->pid);
    kill(m->pid, SIGTERM);
    assert_int_equal(exit_status(m), 0);
    vgb_close(&m->fds[0]);
    unlink(m->path);
    m->fds[0] = unix_socket(m->path, SOCK_SEQPACKET);
    m->listen_fds = "1";
    start(m, none);
    assert_true(said(m, "READY=1"));
    assert_int_equal(listener_of(m->path), getpid());
}

static void test_watchdog(void **state)
{
    struct manager *m = *state;

    m->fds[0] = unix_socket(m->path, SOCK_STREAM);
    m->listen_fds = "1";
    m->watchdog_usec = "200000";
    start(m, none);
    assert_true(said(m, "READY=1"));
    for (int i = 0; i < 5; i++) /* an idle broker says it again and again */
        assert_true(said(m, "WATCHDOG=1"));
}

static void test_refused(void **state)
{
    static const char *const fd[] = {"--fd", "3", NULL};
    static const char *const twice[] = {"--fd", "3", "--fd", "4", NULL};
    static const char *const path_too[] = {"--fd", "3", "--socket-path", "SOCKET", NULL};
    static const char *const listen_too[] = {"--fd", "4", "--listen", "SOCKET", NULL};
    static const char *const absent[] = {"--fd", "5", NULL};
    struct manager *m = *state;
    struct {
        const char *const *options;
        const char *listen_fds;
        bool other_pid;
    } rows[] = {
        {twice, NULL, false}, /* two of a kind: 3 and 4 are both SOCK_STREAM here */
        {path_too, NULL, false}, {absent, NULL, false},
        {path_too, "1", false},  {none, "2", false}, /* by activation, the same */
        {none, "3", false},                          /* 5 is not open */
        {none, "17", false},     {none, "-1", false},
        {none, "1x", false},     {none, "1", true}, /* meant for another process: nothing to listen on */
        {none, "0", false},      {none, "", false},
    };

    m->fds[0] = unix_socket(m->path, SOCK_STREAM);
    m->fds[1] = dup(m->fds[0]);
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        m->listen_fds = rows[i].listen_fds;
        m->other_pid = rows[i].other_pid;
        start(m, rows[i].options);
        if (exit_status(m) != 2)
            fail_msg("row %u was not refused", i);
    }
    m->listen_fds = NULL;
    vgb_close(&m->fds[0]);
    vgb_close(&m->fds[1]);
    m->fds[0] = open("/dev/null", O_RDWR | O_CLOEXEC); /* no socket */
    start(m, fd);
    assert_int_equal(exit_status(m), 2);
    vgb_close(&m->fds[0]);
    m->fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* whose clients nobody has checked */
    start(m, fd);
    assert_int_equal(exit_status(m), 2);
    vgb_close(&m->fds[0]);
    m->fds[0] = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    start(m, fd);
    assert_int_equal(exit_status(m), 2);
    m->fds[1] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0); /* does not listen */
    start(m, listen_too);
    assert_int_equal(exit_status(m), 2);
}

static void test_manager_that_is_gone(void **state)
{
    static const char *const options[] = {"--socket-path", "SOCKET", NULL};
    struct manager *m = *state;
    struct vm v = {.sock = -1};

    /* Nobody reads, nobody is there, no address: the GPU is served all the same. */
    snprintf(m->notify_path + strlen(m->notify_path), 8, "-gone");
    m->watchdog_usec = "1000";
    start(m, options);
    snprintf(v.b.sock, sizeof(v.b.sock), "%s", m->path);
    for (int i = 0; i < LONG_MS / 10 && vm_connect(&v); i++) {
        vgb_close(&v.sock);
        usleep(10000);
    }
    assert_true(v.sock >= 0);
    serves_vhost(m, &v);
    close(v.sock);
    kill(m->pid, SIGTERM);
    assert_int_equal(exit_status(m), 0);
    m->notify_path[strlen(m->notify_path) - 5] = '\0';
}

/* Does a program of that user get an answer of the broker, by a socket whose file is everybody's? */
static bool answered(const struct broker *b, bool vhost, uid_t user)
{
    pid_t pid = fork();
    int status;

    if (!pid) {
        struct vm v = {.b = *b, .sock = -1};
        struct guest g;

        if (setresgid(user, user, user) || setresuid(user, user, user))
            _exit(2);
        if (vhost)
            _exit(vm_connect(&v) || vm_ask(&v, BRK_VU_GET_FEATURES) == UINT64_MAX);
        _exit(guest_connect(&g, b->sock, "peer") != 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
    return !WEXITSTATUS(status);
}

/* Of both kinds of socket, with --peer-uid: one user's programs, and ours. */
static void test_peer(void **state)
{
    static const char *const program[] = {"--peer-uid", "4242", NULL};
    static const char *const machine[] = {"--vhost-user", "SOCKET", "--peer-uid", "4242", NULL};

    (void)state;
    if (geteuid()) {
        print_message("not run: peer: programs of other users take root\n");
        skip();
    }
    for (int vhost = 0; vhost < 2; vhost++) {
        struct broker b = {0};

        assert_int_equal(broker_start(&b, vhost ? machine : program), 0);
        assert_int_equal(chmod(b.dir, 0755), 0);
        assert_int_equal(chmod(b.sock, 0777), 0);
        bool other = answered(&b, vhost, 4343), named = answered(&b, vhost, 4242),
             root = answered(&b, vhost, 0);
        assert_int_equal(broker_stop(&b), 0);
        assert_false(other);
        assert_true(named && root);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_activation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_activation_with_both_kinds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_connected_socket, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_listener_of_socket, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_watchdog, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_manager_that_is_gone, set_up, tear_down),
        cmocka_unit_test(test_peer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
