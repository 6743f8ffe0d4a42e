/* SPDX-License-Identifier: MIT */
/* A request at the control socket that is refused changes nothing: no limit, and nothing that the status shows. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "guest.h"
#include "proc.h"

#define ROOM 8192u

/* Limits and status, without the time that has passed. */
static void look(const struct broker *b, const char *control, pid_t worker, char *out)
{
    static char text[64 << 10];
    char request[64], *at;
    size_t used;
    ssize_t n;

    used = (size_t)snprintf(out, ROOM, "%s", control_ask(control, "get", 3));
    snprintf(request, sizeof(request), "get client %d", (int)worker);
    used += (size_t)snprintf(out + used, ROOM - used, "%s", control_ask(control, request, strlen(request)));
    n = broker_status(b->pid, text, sizeof(text) - 1);
    assert_true(n > 0);
    text[n] = '\0';
    for (char *line = strtok_r(text, "\n", &at); line; line = strtok_r(NULL, "\n", &at)) {
        const char *now = strstr(line, " gpu-memory ");

        if (strncmp(line, "limit ", 6) && now)
            used += (size_t)snprintf(out + used, ROOM - used, "%s\n", now);
        else if (!strncmp(line, "share ", 6) || !strncmp(line, "books ", 6))
            used += (size_t)snprintf(out + used, ROOM - used, "%.20s\n", line);
    }
}

static void refusals(const char *option, const char *value)
{
    /* %d: the worker of the client */
    static const char *const requests[] = {
        "set client-weight 5 client 1",
        "set client-cap 5 client 1",
        "set client-priority 1 client 1",
        "set client-streams 5 client 1",
        "set weight 5 client %d",
        "set cap 5 client %d",
        "set vram-quota 1G client %d",
        "set pin-quota 1G client %d",
        "set blob-quota 1G client %d",
        "set max-clients 5 client %d",
        "set start-rate 5 client %d",
        "set client-weight 0 client %d",
        "set client-weight 1001",
        "set client-cap 101",
        "set client-priority 3 client %d",
        "set weight 0",
        "set cap 101",
        "set client-streams 1x",
        "set vram-quota 1X",
        "set client-handles 63",
        "set client-threads 31 client %d",
        "set client-memory 1",
    };
    char control[120] = "/tmp/vgb-control-XXXXXX", request[100], before[ROOM], after[ROOM];
    const char *extra[] = {"--control", control, "--log", "/dev/null", option, value, NULL};
    struct broker b;
    struct guest g;

    assert_non_null(mkdtemp(control));
    strcat(control, "/c");
    assert_int_equal(broker_start(&b, extra), 0);
    assert_int_equal(guest_connect(&g, b.sock, "refused"), 0);
    assert_int_equal(guest_context(&g), 0);
    const pid_t worker = worker_of_client(b.pid);

    look(&b, control, worker, before);
    for (unsigned i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        const char *said;

        snprintf(request, sizeof(request), requests[i], (int)worker);
        said = control_ask(control, request, strlen(request));
        if (!said || strncmp(said, "error: ", 7))
            fail_msg("\"%s\" is answered \"%s\"", request, said ? said : "");
        look(&b, control, worker, after);
        if (strcmp(before, after))
            fail_msg("\"%s\" has changed\n%s\nto\n%s", request, before, after);
    }
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
    *strrchr(control, '/') = '\0';
    assert_int_equal(rmdir(control), 0);
}

static void test_refused(void **state)
{
    (void)state;
    refusals(NULL, NULL);
}

static void test_refused_while_paced(void **state)
{
    (void)state;
    refusals("--weight", "200");
}

static void test_refused_where_nothing_is_paced(void **state)
{
    (void)state;
    refusals("--pacing", "stop");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_refused_while_paced),
        cmocka_unit_test(test_refused_where_nothing_is_paced),
    };

    return cmocka_run_group_tests_name("refused", tests, NULL, NULL);
}
