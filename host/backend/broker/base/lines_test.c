/* SPDX-License-Identifier: MIT */
/* Parts of the log: who gets which, and what a flood in many of them leaves to others. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/testing/range.h"
#include "base.h"

static int listener;
static struct sockaddr_un at = {.sun_family = AF_UNIX};
static socklen_t at_size = sizeof(sa_family_t);

static int begin(void **state)
{
    (void)state;
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&at, at_size)) /* an abstract address of the kernel's choice */
        return -1;
    at_size = sizeof(at);
    return getsockname(listener, (struct sockaddr *)&at, &at_size) || listen(listener, 8) ? -1 : 0;
}

static void connect_once(void)
{
    int c = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (connect(c, (struct sockaddr *)&at, at_size))
        _exit(1);
    close(c);
}

static int accepted_key(void)
{
    int fd = accept(listener, NULL, NULL), key;

    assert_true(fd >= 0);
    key = brk_lines_key_of_peer(fd);
    close(fd);
    return key;
}

/* However often a program connects, its part stays; of several programs not all have one. */
static void test_peer(void **state)
{
    enum { CHILDREN = 8 };
    int first, others = 0;

    (void)state;
    connect_once();
    first = accepted_key();
    assert_true(first >= (int)BRK_LINES_SLOTS);
    for (unsigned i = 0; i < 300; i++) {
        connect_once();
        assert_int_equal(accepted_key(), first);
    }
    for (unsigned i = 0; i < CHILDREN; i++) {
        pid_t pid = fork();

        if (!pid) {
            connect_once();
            _exit(0);
        }
        others += accepted_key() != first;
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    assert_true(others > 0);
}

static unsigned lines_in_a_second(struct brk_lines *l, int key)
{
    unsigned n = 0;

    while (vgb_ratelimit_take(brk_lines_of(l, key), 5000000000u))
        n++;
    return n;
}

/* All parts of one user, or of the VM, flooded: others have as many lines as before. */
static void test_many_parts(void **state)
{
    static struct brk_lines l, m;
    const int user = BRK_LINES_SLOTS + 3 * BRK_LINES_PROCESSES, other = user + (int)BRK_LINES_PROCESSES;
    unsigned n = 0;

    (void)state;
    for (unsigned i = 0; i < BRK_LINES_PROCESSES; i++)
        n += lines_in_a_second(&l, user + (int)i);
    assert_int_equal(n, BRK_LINES_DOMAIN_TIMES * VGB_LOG_BURST);
    assert_int_equal(lines_in_a_second(&l, 7), VGB_LOG_BURST);
    for (unsigned i = n = 0; i < BRK_LINES_SLOTS; i++)
        n += lines_in_a_second(&m, (int)i);
    assert_int_equal(n, BRK_LINES_DOMAIN_TIMES * VGB_LOG_BURST);
    assert_int_equal(lines_in_a_second(&m, other), VGB_LOG_BURST);
    assert_int_equal(lines_in_a_second(&m, -1), VGB_LOG_BURST);
}

/* Every key has a part, and none that is another domain's. */
static void test_edges(void **state)
{
    static struct brk_lines l;
    const int last = BRK_LINES_SLOTS + (BRK_LINES_DOMAINS - 1) * BRK_LINES_PROCESSES - 1;

    (void)state;
    for (int key = -1; key <= last; key++) {
        const struct vgb_ratelimit *part = brk_lines_of(&l, key);

        assert_uint_in_range(part - l.part, 0, BRK_LINES_SLOTS + BRK_LINES_PROCESSES);
        if (key >= 0)
            assert_uint_in_range(part->whole - l.domain, key < (int)BRK_LINES_SLOTS ? 0 : 1,
                                 BRK_LINES_DOMAINS - 1);
        else
            assert_ptr_equal(part->whole, &l.whole);
    }
    assert_ptr_equal(brk_lines_of(&l, last)->whole, &l.domain[BRK_LINES_DOMAINS - 1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_peer),
        cmocka_unit_test(test_many_parts),
        cmocka_unit_test(test_edges),
    };

    return cmocka_run_group_tests_name("lines", tests, begin, NULL);
}
