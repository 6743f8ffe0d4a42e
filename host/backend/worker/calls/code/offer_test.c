/* SPDX-License-Identifier: MIT */
/* What the broker sends for an image is the client's only if it cannot change and has the hash. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "calls/calls.h"
#include "lib/sha256/sha256.h"
#include "vgb_fd.h"
#include "vgp_worker.h"
#include <linux/types.h>

#include "vgpu_device.h"

#define SIZE ((size_t)VGP_BLOB_OFFER + 4096)
#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW)

static struct wrk_memory memory;
static struct wrk_worker *w; /* another for each test: a waiter thread of the last one's still uses that */
static int broker;
static uint8_t image[SIZE + 1], hash[SHA_256_BYTES];
static struct vgp_window_shared shared;
static uint8_t slot[VGP_REPLY_SLOT_SIZE] __attribute__((aligned(64))), result[WRK_BOUNCE_SLOT];

static CUresult set_current(CUcontext c)
{
    (void)c;
    return CUDA_SUCCESS;
}

static int setup(void **state)
{
    int pair[2];

    (void)state;
    w = calloc(1, sizeof(*w));
    if (!w)
        return -1;
    memset(&memory, 0, sizeof(memory));
    w->memory = &memory;
    memory.bounce.base = result;
    w->images = true;
    w->wake_fd = -1;
    w->win.base = slot;
    w->win.shared = &shared;
    wrk_provider.cuCtxSetCurrent = set_current;
    w->doorbell = eventfd(0, EFD_CLOEXEC);
    wrk_waits_init(&w->waits);
    wrk_quota_init(w, 0);
    memset(image, 'i', SIZE);
    sha_256(image, SIZE, hash);
    if (w->doorbell < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair))
        return -1;
    w->sock = pair[0];
    broker = pair[1];
    return 0;
}

/* Mappings of the broker's images in this process. */
static unsigned images_mapped(void)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char line[400];
    unsigned n = 0;

    assert_non_null(f);
    while (fgets(line, sizeof(line), f))
        n += strstr(line, "/memfd:image") != NULL;
    fclose(f);
    return n;
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(images_mapped(), 0); /* whatever became of an image, it is not held any more */
    close(w->doorbell);
    close(w->sock);
    close(broker);
    return 0;
}

static int file(size_t size, int seals)
{
    int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_int_equal(write(fd, image, size), size);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

/* The client's offer, to which the broker says this. Is the image there? */
static bool offered(uint32_t id, uint32_t status, uint64_t number, int fd)
{
    static uint32_t sequence;
    struct vgb_msg says = {.type = VGB_M_IMAGE, .status = status, .value = number};
    struct vgp_args_vgpBlobOffer a = {.blobId = id, .totalSize = SIZE, .hash_len = SHA_256_BYTES};
    struct vgp_record rec = {.reply_slot = 0, .reply_seq = ++sequence};
    struct wrk_call c = {.w = w, .rec = &rec};
    struct vgp_ret_vgpBlobOffer r = {0};
    const struct vgp_reply *reply = (const void *)slot;

    assert_int_equal(vgb_msg_send(broker, &says, &fd, fd >= 0, 0), 0);
    assert_int_equal(wrk_do_vgpBlobOffer(&c, &a, hash, &r), CUDA_SUCCESS);
    assert_false(c.malformed);
    if (c.deferred) {
        struct pollfd bell = {.fd = w->doorbell, .events = POLLIN};
        uint64_t n;

        wrk_waits_hand_over(w);
        assert_int_equal(poll(&bell, 1, 60000), 1);
        assert_int_equal(read(w->doorbell, &n, sizeof(n)), sizeof(n));
        wrk_waits_land(w);
        assert_int_equal(reply->seq, sequence);
        memcpy(&r, reply + 1, sizeof(r));
    }
    vgb_close(&fd);
    assert_int_equal(r.there, wrk_blob_known(w, id) && status == VGPU_S_OK);
    return wrk_blob_known(w, id);
}

static bool broker_hears(uint32_t type, uint32_t status, uint64_t value)
{
    struct vgb_msg m;
    unsigned none = 0;

    do {
        if (vgb_msg_recv(broker, &m, NULL, &none, MSG_DONTWAIT) != 1)
            return false;
    } while (m.type == VGB_M_IMAGE_ASK || m.type == VGB_M_BUSY);
    return m.type == type && m.status == status && m.value == value;
}

static void test_right(void **state)
{
    struct wrk_call c = {.w = w};
    const void *p;

    (void)state;
    assert_true(offered(1, VGPU_S_OK, 0, file(SIZE + 1, SEALS)));
    assert_int_equal(memory.blobs.bytes, 0);
    assert_int_equal(images_mapped(), 1);
    assert_int_equal(wrk_blob_take(&c, 1, SIZE, &p), CUDA_SUCCESS);
    assert_memory_equal(p, image, SIZE + 1);
    wrk_blob_call_done(w);
    assert_false(wrk_blob_known(w, 1));
    assert_int_equal(memory.blobs.bytes, 0);
}

static void test_wrong(void **state)
{
    (void)state;
    image[SIZE / 2] ^= 1; /* other bytes */
    assert_false(offered(1, VGPU_S_OK, 0, file(SIZE + 1, SEALS)));
    image[SIZE / 2] ^= 1;
    image[SIZE] = 'x'; /* no end behind it */
    assert_false(offered(2, VGPU_S_OK, 0, file(SIZE + 1, SEALS)));
    image[SIZE] = 0;
    /* It could be changed after it was hashed, or cut. */
    assert_false(offered(3, VGPU_S_OK, 0, file(SIZE + 1, F_SEAL_SHRINK | F_SEAL_GROW)));
    assert_false(offered(4, VGPU_S_OK, 0, file(SIZE + 1, F_SEAL_WRITE | F_SEAL_GROW)));
    assert_false(offered(5, VGPU_S_OK, 0, file(SIZE, SEALS)));
    assert_false(offered(6, VGPU_S_OK, 0, open("/dev/zero", O_RDONLY | O_CLOEXEC)));
    assert_false(offered(7, VGPU_S_OK, 0, -1));
    assert_false(offered(8, VGPU_S_INVALID, 0, -1));
    assert_int_equal(memory.blobs.bytes, 0);
}

/* A miss: the bytes go into the broker's memory, which hears when they are complete. */
static void test_filled(void **state)
{
    int fd = file(SIZE + 1, F_SEAL_SHRINK | F_SEAL_GROW), look = dup(fd);
    uint8_t got[SIZE];

    (void)state;
    assert_true(offered(1, VGPU_S_INVALID, 17, fd));
    assert_int_equal(memory.blobs.bytes, SIZE);
    for (size_t at = 0; at < SIZE; at += 4096) {
        assert_false(broker_hears(VGB_M_IMAGE_FILLED, 0, 17));
        image[at] = 'n';
        assert_int_equal(wrk_blob_append(w, 1, SIZE, image + at, 4096), CUDA_SUCCESS);
    }
    assert_true(broker_hears(VGB_M_IMAGE_FILLED, 0, 17));
    assert_int_equal(pread(look, got, SIZE, 0), SIZE);
    assert_memory_equal(got, image, SIZE);
    wrk_blob_drop(w, 1);
    assert_int_equal(memory.blobs.bytes, 0);
    assert_false(broker_hears(VGB_M_IMAGE_FILLED, 1, 17));
    close(look);
}

static void test_given_up(void **state)
{
    (void)state;
    assert_true(offered(1, VGPU_S_INVALID, 17, file(SIZE + 1, F_SEAL_SHRINK | F_SEAL_GROW)));
    wrk_blob_drop(w, 1);
    assert_true(broker_hears(VGB_M_IMAGE_FILLED, 1, 17));
    assert_int_equal(memory.blobs.bytes, 0);
    for (uint32_t i = 0; i < WRK_BLOBS_MAX; i++) /* no room for it */
        assert_int_equal(wrk_blob_append(w, 100 + i, 10, "x", 1), CUDA_SUCCESS);
    assert_false(offered(2, VGPU_S_INVALID, 18, file(SIZE + 1, F_SEAL_SHRINK | F_SEAL_GROW)));
    assert_true(broker_hears(VGB_M_IMAGE_FILLED, 1, 18));
    assert_false(offered(3, VGPU_S_OK, 0, file(SIZE + 1, SEALS)));
    for (uint32_t i = 0; i < WRK_BLOBS_MAX; i++)
        wrk_blob_drop(w, 100 + i);
}

static void test_malformed(void **state)
{
    struct vgp_args_vgpBlobOffer a = {.blobId = 1, .totalSize = SIZE, .hash_len = SHA_256_BYTES - 1};
    struct wrk_call c = {.w = w};
    struct vgp_ret_vgpBlobOffer r;

    (void)state;
    wrk_do_vgpBlobOffer(&c, &a, hash, &r);
    assert_true(c.malformed);
    a.hash_len = SHA_256_BYTES;
    for (unsigned i = 0; i < 2; i++) {
        c.malformed = false;
        a.totalSize = i ? VGP_BLOB_OFFER - 1 : (uint64_t)VGP_BLOB_MAX + 1;
        wrk_do_vgpBlobOffer(&c, &a, hash, &r);
        assert_true(c.malformed);
    }
    c.malformed = false;
    a.totalSize = SIZE;
    assert_int_equal(wrk_blob_append(w, 1, SIZE, image, 16), CUDA_SUCCESS);
    wrk_do_vgpBlobOffer(&c, &a, hash, &r); /* of a blob that is on its way */
    assert_true(c.malformed);
    wrk_blob_drop(w, 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {T(test_right), T(test_wrong), T(test_filled), T(test_given_up),
                                       T(test_malformed)};

    return cmocka_run_group_tests_name("offer", tests, NULL, NULL);
}
