/* SPDX-License-Identifier: MIT */
/* Device memory of several VMs on one GPU: promises that are kept, ceilings that are met, waiting for memory. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "vgp_calls.h"

static char folder[40], table[60], control[60];

static int start(struct broker *b, const char *policy, const char *quota, const char *wait, bool with_control)
{
    const char *extra[] = {"--arbiter",
                           table,
                           "--memory-policy",
                           policy,
                           "--vram-quota",
                           quota,
                           "--memory-wait",
                           wait,
                           "--log",
                           "/dev/null",
                           with_control ? "--control" : NULL,
                           control,
                           NULL};

    memset(b, 0, sizeof(*b));
    return broker_start(b, extra);
}

static void client(struct broker *b, struct guest *g)
{
    assert_int_equal(guest_connect(g, b->sock, "tenant"), 0);
    assert_int_equal(guest_context(g), 0);
}

static const char *set_quota(const char *value)
{
    static char text[300];
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(a.sun_path, sizeof(a.sun_path), "%s", control);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    int n = snprintf(text, sizeof(text), "set vram-quota %s", value);
    assert_int_equal(send(fd, text, (size_t)n, MSG_NOSIGNAL), n);
    ssize_t got = recv(fd, text, sizeof(text) - 1, 0);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    return text;
}

/* Promises add up to what there is; who would make them more does not start, and cannot grow. */
static void test_promise(void **state)
{
    struct broker a, b, c;
    struct guest g;
    uint64_t p;

    (void)state;
    assert_int_equal(start(&a, "promise", "600M", "0", true), 0);
    assert_int_equal(start(&b, "promise", "600M", "0", false), -1);
    assert_int_equal(broker_stop(&b), 3);
    assert_int_equal(start(&b, "promise", "400M", "0", false), 0);
    assert_int_equal(strncmp(set_quota("700M"), "error: ", 7), 0);
    assert_string_equal(set_quota("624M"), "ok\n"); /* 1024 in all */
    assert_int_equal(strncmp(set_quota("0"), "error: ", 7), 0);
    assert_string_equal(set_quota("500M"), "ok\n");
    /* What was promised is there, whatever the others with ceilings take. */
    assert_int_equal(start(&c, "ceiling", "1G", "0", false), 0);
    client(&c, &g);
    assert_int_equal(guest_alloc(&g, 200 << 20, &p), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_alloc(&g, 100 << 20, &p), 0);
    guest_close(&g);
    assert_int_equal(broker_stop(&c), 0);
    client(&b, &g);
    assert_int_equal(guest_alloc(&g, 390 << 20, &p), 0);
    guest_close(&g);
    /* A broker that is killed promises nothing any more. */
    kill(a.pid, SIGKILL);
    broker_stop(&a);
    unlink(control);
    assert_int_equal(start(&a, "promise", "624M", "0", false), 0);
    assert_int_equal(broker_stop(&a), 0);
    assert_int_equal(broker_stop(&b), 0);
}

/* More may be given out than there is; an allocation when all is taken fails at once, and succeeds when some is back. */
static void test_ceiling(void **state)
{
    struct broker a, b;
    struct guest g, h;
    uint64_t p, q;

    (void)state;
    assert_int_equal(start(&a, "ceiling", "800M", "0", false), 0);
    assert_int_equal(start(&b, "ceiling", "800M", "0", false), 0);
    client(&a, &g);
    client(&b, &h);
    assert_int_equal(guest_alloc(&g, 700 << 20, &p), 0);
    assert_int_equal(guest_alloc(&h, 700 << 20, &q), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_alloc(&h, 200 << 20, &q), 0);
    assert_int_equal(guest_free(&h, q), 0);
    assert_int_equal(guest_free(&g, p), 0);
    /* A worker gives its reservation back before it sleeps. */
    int r = CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < 6000 && r == CUDA_ERROR_OUT_OF_MEMORY; i++) {
        r = guest_alloc(&h, 700 << 20, &q);
        if (r)
            usleep(10000);
    }
    assert_int_equal(r, 0);
    assert_int_equal(guest_alloc(&h, 200 << 20, &p), CUDA_ERROR_OUT_OF_MEMORY); /* its own ceiling */
    guest_close(&g);
    guest_close(&h);
    assert_int_equal(broker_stop(&a), 0);
    assert_int_equal(broker_stop(&b), 0);
}

/* One that is told to wait gets the memory when another VM gives it back. */
static void test_wait(void **state)
{
    struct vgp_args_cuMemAlloc_v2 args = {.bytesize = 700 << 20};
    struct broker a, b;
    struct guest g, h;
    uint64_t p;

    (void)state;
    assert_int_equal(start(&a, "ceiling", "800M", "0", false), 0);
    assert_int_equal(start(&b, "ceiling", "800M", "60", false), 0);
    client(&a, &g);
    client(&b, &h);
    assert_int_equal(guest_alloc(&g, 700 << 20, &p), 0);
    guest_submit(&h, VGP_cuMemAlloc_v2, 0, &args, sizeof(args), NULL, 0);
    assert_int_equal(guest_wait(&h, 0, NULL, NULL, 1000), -1); /* no answer yet */
    assert_int_equal(guest_free(&g, p), 0);
    assert_int_equal(guest_wait(&h, 0, NULL, NULL, 60000), 0);
    guest_close(&g);
    guest_close(&h);
    assert_int_equal(broker_stop(&a), 0);
    assert_int_equal(broker_stop(&b), 0);
}

static int setup(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/vgb-policy-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(table, sizeof(table), "%s/arbiter", folder);
    snprintf(control, sizeof(control), "%s/control", folder);
    return setenv("VGPU_TEST_MEMORY", "1024", 1);
}

static int teardown(void **state)
{
    (void)state;
    unlink(table);
    unlink(control);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_promise),
        cmocka_unit_test(test_ceiling),
        cmocka_unit_test(test_wait),
    };

    return cmocka_run_group_tests_name("memory policy", tests, setup, teardown);
}
