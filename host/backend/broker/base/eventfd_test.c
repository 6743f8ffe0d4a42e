/* SPDX-License-Identifier: MIT */
/* An eventfd whose counter is filled just when the broker signals it: poll(2) says that there is room (linked with --wrap). */
#define _GNU_SOURCE
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"

int __real_poll(struct pollfd *fds, nfds_t n, int ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms);
static bool filled;

int __wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
    const uint64_t full = UINT64_MAX - 1;
    int r = __real_poll(fds, n, ms);

    if (filled && write(fds->fd, &full, sizeof(full)) != sizeof(full))
        return -1;
    filled = false;
    return r;
}

static uint64_t counter(int fd)
{
    uint64_t n = 0;

    assert_int_equal(read(fd, &n, sizeof(n)), sizeof(n));
    return n;
}

static void test_filled_meanwhile(void **state)
{
    int fd = eventfd(0, EFD_CLOEXEC);

    (void)state;
    alarm(20); /* else for ever */
    for (int i = 0; i < 3; i++) {
        brk_eventfd_signal(fd);
        brk_eventfd_signal(fd);
        assert_int_equal(counter(fd), 2);
        filled = true;
        brk_eventfd_signal(fd);
        assert_int_equal(counter(fd), UINT64_MAX - 1);
    }
    alarm(0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_filled_meanwhile)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
