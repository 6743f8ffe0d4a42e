/* SPDX-License-Identifier: MIT */
/* Several clients hold room for images and another one finds none: real brokers and workers, as in
 * limits_test.c. */
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
#include "vgp_calls.h"

#define WANTED "another client wants room for images"

/* Sends the first bytes of an image and never the rest. */
static void begin_image(struct guest *g, uint64_t total)
{
    struct vgp_args_vgpBlobAppend a = {.blobId = 1, .totalSize = total, .data_len = 16};
    static const uint8_t bytes[16];

    guest_submit(g, VGP_vgpBlobAppend, VGP_NO_REPLY, &a, sizeof(a), bytes, sizeof(bytes));
    assert_int_equal(guest_context(g), 0); /* the broker has seen the image by then */
}

static unsigned lines_with(const char *path, const char *text)
{
    FILE *f = fopen(path, "re");
    char line[2000];
    unsigned n = 0;

    while (f && fgets(line, sizeof(line), f))
        n += strstr(line, text) != NULL;
    if (f)
        fclose(f);
    return n;
}

/* Every client that holds room is asked to release it: any one of them may be stuck. */
static void test_all_are_asked(void **state)
{
    char log[] = "/tmp/vgb-log-XXXXXX";
    const char *extra[] = {"--blob-quota", "64M", "--log", log, "--log-level", "debug", NULL};
    struct guest holds[2], none;
    struct broker b = {0};
    int fd = mkstemp(log);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(broker_start(&b, extra), 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(guest_connect(&holds[i], b.sock, i ? "second" : "first"), 0);
        begin_image(&holds[i], 16 << 20);
    }
    assert_int_equal(guest_connect(&none, b.sock, "none"), 0);
    assert_int_equal(lines_with(log, WANTED), 0);
    begin_image(&none, 30 << 20);
    for (int i = 0; i < 6000 && lines_with(log, WANTED) < 2; i++)
        usleep(10000);
    assert_int_equal(lines_with(log, WANTED), 2);
    guest_close(&none);
    guest_close(&holds[1]);
    guest_close(&holds[0]);
    assert_int_equal(broker_stop(&b), 0);
    unlink(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_are_asked)};

    return cmocka_run_group_tests_name("images_room", tests, NULL, NULL);
}
