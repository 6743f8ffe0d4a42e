/* SPDX-License-Identifier: MIT */
/* Which sockets a worker may connect to, with and without MPS: real broker, test provider. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "testprov.h"
#include "vgp_calls.h"

static char log_name[64];

/* A broker whose log can be read; `more`: options, NULL-terminated. */
static int start(struct broker *b, const char *const *more)
{
    int fd;

    snprintf(log_name, sizeof(log_name), "/tmp/vgb-confine-XXXXXX");
    fd = mkstemp(log_name);
    assert_true(fd >= 0);
    close(fd);
    return broker_start_logged(b, log_name, more);
}

static void stop_broker(struct broker *b)
{
    assert_int_equal(broker_stop(b), 0);
    unlink(log_name);
}

/* A socket that is connected to by anybody, and one of the same name without a file. */
static void listen_at(const char *path, int fds[2])
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = (size_t)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);

    for (int i = 0; i < 2; i++) {
        fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fds[i] >= 0);
        if (i) { /* "@" in the test provider */
            memmove(a.sun_path + 1, a.sun_path, n);
            a.sun_path[0] = '\0';
        }
        assert_int_equal(bind(fds[i], (struct sockaddr *)&a, size + (socklen_t)i), 0);
        assert_int_equal(listen(fds[i], 8), 0);
    }
    assert_int_equal(chmod(path, 0666), 0);
}

/* What the test provider reaches of them; 0: all that it says is as `want`. */
static void connections(const char *const *more, const char *want)
{
    struct broker b;
    struct guest g;
    char all[8192];

    assert_int_equal(start(&b, more), 0);
    assert_int_equal(guest_connect(&g, b.sock, "mps"), 0);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(guest_memset(&g, 0, VALUE_CONNECT, 0, 0), 0);
    guest_printed(&g, all, sizeof(all));
    assert_string_equal(all, want);
    guest_close(&g);
    stop_broker(&b);
}

/* A worker connects to MPS where that is asked for, and never to anything else. */
static void test_mps(void **state)
{
    static const char *const log_mode[] = {"--sandbox", "log", NULL};
    const char none[] = "MPS: no socket\nother: no socket\nabstract: no socket\nnetwork: no socket\n(end)\n";
    char dir[2][40] = {"/tmp/vgb-mps-XXXXXX", "/tmp/vgb-other-XXXXXX"}, path[2][128];
    int fds[2][2];
    struct broker b;

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_non_null(mkdtemp(dir[i]));
        assert_int_equal(chmod(dir[i], 0755), 0);
        snprintf(path[i], sizeof(path[i]), "%s/control", dir[i]);
        listen_at(path[i], fds[i]);
    }
    setenv("VGPU_TEST_OTHER_SOCKET", path[1], 1);
    unsetenv("CUDA_MPS_PIPE_DIRECTORY");
    connections(NULL, none);
    setenv("CUDA_MPS_PIPE_DIRECTORY", "/nonexistent/mps", 1);
    connections(NULL, none);
    setenv("CUDA_MPS_PIPE_DIRECTORY", path[0], 1); /* no folder */
    connections(NULL, none);
    setenv("CUDA_MPS_PIPE_DIRECTORY", dir[0], 1);
    connections(log_mode,
                "MPS: connected\nother: connected\nabstract: connected\nnetwork: a socket\n(end)\n");
    if (start(&b, NULL)) {
        assert_true(file_has(log_name, "connect to other services than MPS"));
        print_message("not run: mps: this host gives workers no namespaces\n");
    } else {
        assert_true(file_has(log_name, "seccomp with MPS"));
        stop_broker(&b);
        connections(
            NULL,
            "MPS: connected\nother: no connection\nabstract: no connection\nnetwork: no socket\n(end)\n");
    }
    unsetenv("CUDA_MPS_PIPE_DIRECTORY");
    unsetenv("VGPU_TEST_OTHER_SOCKET");
    for (int i = 0; i < 2; i++) {
        close(fds[i][0]);
        close(fds[i][1]);
        unlink(path[i]);
        rmdir(dir[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mps)};

    return cmocka_run_group_tests_name("mps", tests, NULL, NULL);
}
