/* SPDX-License-Identifier: MIT */
/* How much of a full control queue one wake-up of the broker serves; the token bucket; queued messages. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "vgb_fd.h"
#include "vu.h"

#define RAM_GPA 0x100000u
#define RAM_SIZE 0x40000u
#define RAM_UVA 0x7f0000000000ull
#define NUM 1024u

struct desc {
    uint64_t addr;
    uint32_t len;
    uint16_t flags, next;
};

struct fixture {
    uint8_t *ram;
    struct desc *desc;
    uint16_t *avail, *used;
    struct brk_vu_queue *q;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct brk_vu_payload_mem p = {.nregions = 1,
                                   .regions = {{.gpa = RAM_GPA, .size = RAM_SIZE, .uva = RAM_UVA}}};
    int fd = memfd_create("ram", MFD_CLOEXEC);

    assert_true(fd >= 0 && !ftruncate(fd, RAM_SIZE));
    f->ram = mmap(NULL, RAM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_null(brk_vu_mem_set(&brk_vu_dev.mem, &p, &fd));
    brk_vu_config_offer(&brk_vu_dev.config);
    f->q = &brk_vu_dev.queue[VGPU_VQ_CONTROL];
    memset(f->q, 0, sizeof(*f->q));
    f->q->kick.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    f->q->call = f->q->err = -1;
    f->q->num = NUM;
    f->q->addr =
        (struct brk_vu_payload_addr){.desc = RAM_UVA, .avail = RAM_UVA + 0x8000, .used = RAM_UVA + 0xa000};
    f->q->have_addr = f->q->started = f->q->enabled = true;
    brk_vu_queue_remap(f->q, &brk_vu_dev.mem);
    assert_non_null(f->q->used);
    f->desc = (void *)f->ram;
    f->avail = (void *)(f->ram + 0x8000);
    f->used = (void *)(f->ram + 0xa000);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    close(f->q->kick.fd);
    brk_vu_mem_clear(&brk_vu_dev.mem);
    munmap(f->ram, RAM_SIZE);
    free(f);
    return 0;
}

static bool kicked(const struct fixture *f)
{
    uint64_t n;

    return read(f->q->kick.fd, &n, sizeof(n)) == sizeof(n);
}

/* A full queue of the chain at descriptor 0: served in parts, each kicks for the next, none is lost. */
static void serve_all(struct fixture *f)
{
    unsigned parts = 0;

    for (unsigned i = 0; i < NUM; i++)
        f->avail[2 + i] = 0;
    f->avail[1] = NUM;
    do {
        uint16_t before = f->used[1];

        brk_vu_device_control();
        assert_true((uint16_t)(f->used[1] - before) <= 64);
        assert_true(++parts <= NUM);
    } while (kicked(f));
    assert_int_equal(f->used[1], NUM);
}

static void test_full_queue(void **state)
{
    struct fixture *f = *state;
    struct vgpu_cmd_hdr ping = {.type = VGPU_CMD_PING};

    memcpy(f->ram + 0x10000, &ping, sizeof(ping));
    f->desc[0] = (struct desc){RAM_GPA + 0x10000, sizeof(ping), 1, 1};
    f->desc[1] = (struct desc){RAM_GPA + 0x11000, sizeof(struct vgpu_resp_hdr), 2, 0};
    memset(f->ram + 0x11000, 0xff, 8);
    serve_all(f);
    assert_int_equal(f->ram[0x11000], VGPU_S_OK);
}

static void test_full_of_malformed(void **state)
{
    struct fixture *f = *state;

    f->desc[0] = (struct desc){RAM_GPA, 8, 1, 0}; /* a loop */
    serve_all(f);
}

/* A driver that asks again with the descriptors of a request that is not answered: memory for it has a bound. */
static void test_unanswered(void **state)
{
    /* A worker that answers nothing: what is sent to it goes nowhere. */
    static struct brk_proc proc = {.state = BRK_PROC_KILLED, .sock = {.fd = -1}};
    static struct brk_client client = {.proc = &proc, .state = BRK_C_DEAD};
    struct fixture *f = *state;
    struct {
        struct vgpu_cmd_pin pin;
        struct vgpu_pin_run run;
    } q = {.pin = {.hdr = {.type = VGPU_CMD_PIN}, .length = 4096, .nruns = 1},
           .run = {.addr = RAM_GPA, .len = 4096}};

    brk_pins.limit = 0;
    brk_vu_dev.slot[0].client = &client;
    f->desc[0] = (struct desc){RAM_GPA + 0x10000, sizeof(q), 1, 1};
    f->desc[1] = (struct desc){RAM_GPA + 0x11000, sizeof(struct vgpu_resp_pin), 2, 0};
    /* Those that are answered at once do not count; then come those that are not, with one too many. */
    for (unsigned i = 0; i <= 3 * BRK_VU_PENDING_MAX; i++) {
        bool answered = i < 2 * BRK_VU_PENDING_MAX, refused = i == 3 * BRK_VU_PENDING_MAX;
        uint16_t used = f->used[1];
        struct vgpu_resp_hdr r;

        client.state = answered ? BRK_C_DEAD : BRK_C_SERVING;
        q.pin.region = i;
        q.pin.va = (uint64_t)(i + 16) * 4096;
        memcpy(f->ram + 0x10000, &q, sizeof(q));
        f->avail[2 + f->avail[1] % NUM] = 0;
        f->avail[1]++;
        brk_vu_device_control();
        memcpy(&r, f->ram + 0x11000, sizeof(r));
        assert_int_equal((uint16_t)(f->used[1] - used), answered || refused);
        if (answered || refused)
            assert_int_equal(r.status, refused ? VGPU_S_NO_MEMORY : VGPU_S_WORKER);
    }
    brk_vu_dev.slot[0].client = NULL;
}

static void test_bucket(void **state)
{
    struct brk_bucket b;
    uint64_t now = 1000000000, wait;

    (void)state;
    brk_bucket_init(&b, 10, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(brk_bucket_take(&b, now), 0);
    wait = brk_bucket_take(&b, now);
    assert_int_equal(wait, 100000000);
    assert_true(brk_bucket_take(&b, now + wait - 1) > 0);
    assert_int_equal(brk_bucket_take(&b, now + wait), 0);
    assert_true(brk_bucket_take(&b, now) > 0); /* a clock that goes back gives nothing */
    now += UINT64_C(1) << 62;                  /* a long time fills it, no further */
    for (int i = 0; i < 3; i++)
        assert_int_equal(brk_bucket_take(&b, now), 0);
    assert_true(brk_bucket_take(&b, now) > 0);
    brk_bucket_init(&b, 0, 0);
    assert_int_equal(brk_bucket_take(&b, now), 0); /* no limit */
}

static unsigned open_fds(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 1000; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Messages that wait for a worker share descriptors of one file, and each worker has few. */
static void test_queued_descriptors(void **state)
{
    struct brk_proc p = {.sock = {.fd = -1}};
    struct vgb_msg m = {.type = VGB_M_MAP};
    int file = memfd_create("a", MFD_CLOEXEC), pair[2], fds[VGB_MSG_FDS], events[VGB_MSG_FDS];
    unsigned before, n = 0;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    for (unsigned i = 0; i < VGB_MSG_FDS; i++) {
        fds[i] = file;
        events[i] = eventfd(0, EFD_CLOEXEC);
    }
    before = open_fds();
    for (unsigned i = 0; i < 1000; i++)
        assert_null(brk_out_push(&p, &m, fds, VGB_MSG_FDS));
    assert_int_equal(open_fds(), before + 1);
    while (!brk_out_push(&p, &m, events, VGB_MSG_FDS))
        assert_true(++n < 100);
    assert_true(open_fds() <= before + 40);
    while (!brk_out_push(&p, &m, NULL, 0))
        assert_true(++n < 10000);
    p.sock.fd = pair[0];
    assert_true(brk_out_waits(brk_out_flush(&p))); /* nobody reads */
    unsigned got = VGB_FD_MAX;
    int came[VGB_FD_MAX];
    assert_int_equal(vgb_msg_recv(pair[1], &m, came, &got, 0), 1);
    assert_int_equal(got, VGB_MSG_FDS);
    vgb_close_all(came, got);
    brk_out_drop(&p);
    assert_int_equal(p.nout, 0);
    assert_int_equal(p.nout_fds, 0);
    close(pair[0]);
    close(pair[1]);
    close(file);
    vgb_close_all(events, VGB_MSG_FDS);
}

/* A front end may set what was offered or less; each field by itself, at its limit and beside it. */
static void test_config(void **state)
{
    const struct vgpu_config offer = {.magic = VGPU_CONFIG_MAGIC,
                                      .abi_version = VGPU_DEVICE_ABI_VERSION,
                                      .max_clients = 16,
                                      .max_pin_runs = VGPU_MAX_PIN_RUNS,
                                      .window_size = 16 << 20,
                                      .vram_quota = 1000,
                                      .pin_quota = 0};
    const struct {
        uint32_t clients, runs, window;
        uint64_t vram, pins;
        bool good;
    } cases[] = {
        {16, VGPU_MAX_PIN_RUNS, 16 << 20, 1000, 0, true},
        {1, 1, VGP_WINDOW_MIN, 1, 1, true},
        {16, VGPU_MAX_PIN_RUNS, 1u << 30, 999, UINT64_MAX, true},
        {0, 1, 16 << 20, 1, 0, false},
        {17, 1, 16 << 20, 1, 0, false},
        {1, 0, 16 << 20, 1, 0, false},
        {1, VGPU_MAX_PIN_RUNS + 1, 16 << 20, 1, 0, false},
        {1, 1, VGP_WINDOW_MIN / 2, 1, 0, false},
        {1, 1, (16 << 20) + 4096, 1, 0, false},
        {1, 1, 2u << 30, 1, 0, false},
        {1, 1, 0, 1, 0, false},
        {1, 1, 16 << 20, 1001, 0, false},
        {1, 1, 16 << 20, 0, 0, false}, /* none: more than any */
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct vgpu_config set = offer;

        set.max_clients = cases[i].clients;
        set.max_pin_runs = cases[i].runs;
        set.window_size = cases[i].window;
        set.vram_quota = cases[i].vram;
        set.pin_quota = cases[i].pins;
        const char *wrong = brk_vu_config_check(&offer, &set);

        if (cases[i].good != !wrong)
            fail_msg("case %u: %s", i, wrong ? wrong : "accepted");
        set.reserved[i % 3] = 1;
        assert_non_null(brk_vu_config_check(&offer, &set));
    }
    struct vgpu_config other = offer;

    other.magic++;
    assert_non_null(brk_vu_config_check(&offer, &other));
    other = offer;
    other.abi_version++;
    assert_non_null(brk_vu_config_check(&offer, &other));
}

int main(void)
{
    brk_opt.max_clients = 64;
    brk_opt.window_size = 16 << 20;
#define T(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_full_queue),
        T(test_full_of_malformed),
        T(test_unanswered),
        cmocka_unit_test(test_config),
        cmocka_unit_test(test_bucket),
        cmocka_unit_test(test_queued_descriptors),
    };

    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
