/* SPDX-License-Identifier: MIT */
/* Messages that wait for a worker: who closes what they carry. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "workers.h"

void __real_brk_foreign_close(int fd);
void __wrap_brk_foreign_close(int fd);

static ino_t closed; /* by what waits for nobody and for no pages */
static unsigned times;

void __wrap_brk_foreign_close(int fd)
{
    struct stat st;

    if (!fstat(fd, &st))
        closed = st.st_ino;
    times++;
    __real_brk_foreign_close(fd);
}

/* A client's file waits in two messages: its last close may be the one here, and its pages may be many. */
static void test_last_close(void **state)
{
    struct brk_proc p = {.pid = 1};
    struct vgb_msg m = {.type = VGB_M_MAP};
    int fd = memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct stat st;

    (void)state;
    assert_true(fd >= 0 && !fstat(fd, &st));
    assert_null(brk_out_push(&p, &m, &fd, 1));
    assert_null(brk_out_push(&p, &m, &fd, 1));
    close(fd);
    assert_int_equal(times, 0);
    brk_out_drop(&p);
    assert_int_equal(times, 1);
    assert_int_equal(closed, st.st_ino);
    assert_int_equal(p.nout, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_last_close),
    };

    return cmocka_run_group_tests_name("out_close", tests, NULL, NULL);
}
