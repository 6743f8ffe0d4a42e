/* SPDX-License-Identifier: MIT */
/* What the broker does for workers that share: tokens, domains, kinds, ends, quota, odd messages. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "clients.h"
#include "share_test.h"
#include "vgb_fd.h"

static const struct brk_client_ops one_vm, another_vm;

static unsigned descriptors(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 4096; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void test_memory(void **state)
{
    uint8_t t1[VGB_TOKEN], t2[VGB_TOKEN];
    unsigned before = descriptors();
    struct worker a, b;
    struct stat st, st2;
    int fd, fd2;

    (void)state;
    start(&a, &one_vm, 0);
    start(&b, &one_vm, 0);
    assert_int_equal(make(&a, VGB_SHARE_MEMORY, 3 * VGP_PAGE, t1, &fd), VGPU_S_OK);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, 3 * VGP_PAGE);
    assert_int_equal(ftruncate(fd, VGP_PAGE), -1); /* sealed */
    assert_int_equal(ftruncate(fd, 9 * VGP_PAGE), -1);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    assert_int_equal(open_it(&b, VGB_SHARE_MEMORY, t1, &fd2), VGPU_S_OK);
    assert_int_equal(fstat(fd2, &st2), 0);
    assert_true(st.st_ino == st2.st_ino);
    close(fd2);
    close(fd);
    assert_int_equal(make(&a, VGB_SHARE_MEMORY, 3 * VGP_PAGE, t2, &fd), VGPU_S_OK);
    assert_memory_not_equal(t1, t2, VGB_TOKEN);
    close(fd);
    /* The exporter drops it: clients that opened it may still drop it, no client can open it. */
    assert_true(drop(&a, t1));
    assert_int_equal(open_it(&a, VGB_SHARE_MEMORY, t1, &fd), VGPU_S_INVALID);
    assert_int_equal(open_it(&b, VGB_SHARE_MEMORY, t1, &fd), VGPU_S_INVALID);
    assert_int_equal(brk_share_count(), 2);
    assert_true(drop(&b, t1));
    assert_int_equal(brk_share_count(), 1);
    assert_false(drop(&b, t1)); /* once too often: such a worker is ended */
    assert_false(drop(&b, t2)); /* never opened */
    end(&a);
    assert_int_equal(brk_share_count(), 0);
    end(&b);
    assert_int_equal(descriptors(), before);
}

/* Tokens of another VM, of another kind, and invented ones are all the same: nothing. */
static void test_strangers(void **state)
{
    uint8_t t[VGB_TOKEN], guess[VGB_TOKEN];
    struct worker a, b;
    int fd;

    (void)state;
    start(&a, &one_vm, 0);
    start(&b, &another_vm, 0);
    assert_int_equal(make(&a, VGB_SHARE_MEMORY, VGP_PAGE, t, &fd), VGPU_S_OK);
    close(fd);
    assert_int_equal(open_it(&b, VGB_SHARE_MEMORY, t, &fd), VGPU_S_INVALID);
    assert_int_equal(fd, -1);
    for (uint32_t kind = VGB_SHARE_FD; kind < VGB_SHARE_KINDS; kind++)
        assert_int_equal(open_it(&a, kind, t, &fd), VGPU_S_INVALID);
    for (unsigned bit = 0; bit < 8 * VGB_TOKEN; bit++) {
        memcpy(guess, t, sizeof(guess));
        guess[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(open_it(&a, VGB_SHARE_MEMORY, guess, &fd), VGPU_S_INVALID);
    }
    memset(guess, 0, sizeof(guess));
    assert_int_equal(open_it(&a, VGB_SHARE_MEMORY, guess, &fd), VGPU_S_INVALID);
    assert_false(drop(&b, t));
    end(&b);
    end(&a);
    assert_int_equal(brk_share_count(), 0);
}

static void test_odd_messages(void **state)
{
    static const struct {
        uint32_t type, kind;
        uint64_t length;
    } bad[] = {
        {VGB_M_SHARE_NEW, 0, VGP_PAGE},
        {VGB_M_SHARE_NEW, VGB_SHARE_KINDS, VGP_PAGE},
        {VGB_M_SHARE_NEW, UINT32_MAX, VGP_PAGE},
        {VGB_M_SHARE_NEW, VGB_SHARE_MEMORY, 0},
        {VGB_M_SHARE_NEW, VGB_SHARE_MEMORY, 1},
        {VGB_M_SHARE_NEW, VGB_SHARE_MEMORY, VGP_PAGE + 1},
        {VGB_M_SHARE_NEW, VGB_SHARE_FD, UINT64_C(1) << 47},
        {VGB_M_SHARE_NEW, VGB_SHARE_FD, UINT64_MAX - VGP_PAGE + 1},
        {VGB_M_SHARE_NEW, VGB_SHARE_EVENT, 2 * VGP_PAGE},
        {VGB_M_SHARE_NEW, VGB_SHARE_PAYLOAD, UINT64_MAX},
        {VGB_M_SHARE_OPEN, 0, 0},
        {VGB_M_SHARE_OPEN, VGB_SHARE_KINDS, 0},
    };
    struct worker a;

    (void)state;
    start(&a, &one_vm, 0);
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct vgb_msg m = {.type = bad[i].type, .flags = bad[i].kind, .length = bad[i].length};

        assert_false(brk_share_message(&a.client, &m));
    }
    end(&a);
    assert_int_equal(brk_share_count(), 0);
}

/* One client cannot take what all of them need. */
static void test_bounds(void **state)
{
    unsigned before = descriptors(), made = 0;
    uint8_t first[VGB_TOKEN], t[VGB_TOKEN];
    struct worker a, b;
    int fd;

    (void)state;
    start(&a, &one_vm, 0);
    start(&b, &one_vm, 0);
    assert_int_equal(make(&a, VGB_SHARE_PAYLOAD, 0, first, &fd), VGPU_S_OK);
    while (make(&a, VGB_SHARE_PAYLOAD, 0, t, &fd) == VGPU_S_OK)
        made++;
    assert_int_equal(made, 1023); /* MADE_MAX of brk_share.c, with the first */
    assert_int_equal(make(&b, VGB_SHARE_MEMORY, VGP_PAGE, t, &fd), VGPU_S_OK); /* others can */
    close(fd);
    assert_true(drop(&a, first));
    assert_int_equal(make(&a, VGB_SHARE_PAYLOAD, 0, t, &fd), VGPU_S_OK);
    end(&a);
    end(&b);
    assert_int_equal(brk_share_count(), 0);
    assert_int_equal(descriptors(), before);
}

static void test_payload(void **state)
{
    struct vgb_msg m = {.type = VGB_M_SHARE_OPEN, .flags = VGB_SHARE_PAYLOAD};
    uint8_t t[VGB_TOKEN], want[VGB_PAYLOAD];
    struct worker a, b;
    int fd;

    (void)state;
    memset(want, 0x5a, sizeof(want));
    start(&a, &one_vm, 0);
    start(&b, &one_vm, 0);
    assert_int_equal(make(&a, VGB_SHARE_PAYLOAD, 100, t, &fd), VGPU_S_OK);
    assert_int_equal(fd, -1);
    memcpy(m.share.token, t, VGB_TOKEN);
    assert_int_equal(ask(&b, &m, &fd), VGPU_S_OK);
    assert_memory_equal(m.share.payload, want, sizeof(want));
    end(&a);
    assert_int_equal(open_it(&b, VGB_SHARE_PAYLOAD, t, &fd), VGPU_S_INVALID);
    end(&b);
    assert_int_equal(brk_share_count(), 0);
}

/* What is shared by descriptor lives as long as anybody has it. */
static void test_descriptor(void **state)
{
    uint8_t t[VGB_TOKEN];
    struct worker a, b, c;
    int fd;

    (void)state;
    start(&a, &one_vm, 0);
    start(&b, &one_vm, 0);
    start(&c, &one_vm, 0);
    assert_int_equal(make(&a, VGB_SHARE_FD, 2 * VGP_PAGE, t, &fd), VGPU_S_OK);
    close(fd);
    assert_int_equal(open_it(&b, VGB_SHARE_FD, t, &fd), VGPU_S_OK);
    close(fd);
    end(&a);
    assert_int_equal(open_it(&c, VGB_SHARE_FD, t, &fd), VGPU_S_OK);
    close(fd);
    assert_int_equal(open_it(&c, VGB_SHARE_FD, t, &fd), VGPU_S_OK); /* twice: dropped twice */
    close(fd);
    end(&b);
    assert_true(drop(&c, t));
    assert_int_equal(brk_share_count(), 1);
    assert_true(drop(&c, t));
    assert_int_equal(brk_share_count(), 0);
    end(&c);
}

static void test_event(void **state)
{
    uint8_t t[VGB_TOKEN];
    struct worker a, b;
    int fd;

    (void)state;
    start(&a, &one_vm, 0);
    start(&b, &one_vm, 0);
    assert_int_equal(make(&a, VGB_SHARE_EVENT, VGP_PAGE, t, &fd), VGPU_S_OK);
    struct vgb_event_head *head = mmap(NULL, VGP_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    assert_ptr_not_equal(head, MAP_FAILED);
    close(fd);
    assert_int_equal(open_it(&b, VGB_SHARE_EVENT, t, &fd), VGPU_S_OK);
    close(fd);
    assert_int_not_equal(a.client.holder, b.client.holder);
    assert_int_not_equal(b.client.holder, 0);
    head->holders[0] = a.client.holder;
    head->holders[3] = b.client.holder;
    head->holders[62] = b.client.holder;
    uint32_t wake = head->wake;

    end(&b);
    assert_int_equal(head->holders[0], a.client.holder);
    assert_int_equal(head->holders[3], 0);
    assert_int_equal(head->holders[62], 0);
    assert_int_not_equal(head->wake, wake);
    end(&a);
    assert_int_equal(head->holders[0], 0);
    munmap(head, VGP_PAGE);
    assert_int_equal(brk_share_count(), 0);
}

/* A thread of another holder, asleep on the event's page. */
struct sleeper {
    struct vgb_event_head *head;
    uint32_t seen;
    _Atomic pid_t tid;
    long result;
    int error;
};

static void *sleeper_main(void *arg)
{
    const struct timespec long_time = {30, 0};
    struct sleeper *s = arg;

    s->tid = (pid_t)syscall(SYS_gettid);
    s->result = syscall(SYS_futex, &s->head->wake, FUTEX_WAIT, s->seen, &long_time, NULL, 0);
    s->error = errno;
    return NULL;
}

static bool sleeper_sleeps(const struct sleeper *s)
{
    char path[64], state = 0;
    FILE *f;

    if (!s->tid)
        return false;
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)s->tid);
    f = fopen(path, "re");
    if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
        state = 0;
    if (f)
        fclose(f);
    return state == 'S';
}

/* A holder that sleeps on the page is woken when another one goes: it need not look by itself. */
static void test_event_wakes(void **state)
{
    uint8_t t[VGB_TOKEN];
    struct sleeper s = {0};
    struct worker a, b;
    pthread_t thread;
    int fd;

    (void)state;
    start(&a, &one_vm, 0);
    start(&b, &one_vm, 0);
    assert_int_equal(make(&a, VGB_SHARE_EVENT, VGP_PAGE, t, &fd), VGPU_S_OK);
    s.head = mmap(NULL, VGP_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(s.head, MAP_FAILED);
    close(fd);
    assert_int_equal(open_it(&b, VGB_SHARE_EVENT, t, &fd), VGPU_S_OK);
    close(fd);
    s.head->holders[0] = a.client.holder;
    s.seen = s.head->wake;
    assert_int_equal(pthread_create(&thread, NULL, sleeper_main, &s), 0);
    for (unsigned ms = 0; ms < 20000 && !sleeper_sleeps(&s); ms++)
        usleep(1000);
    assert_true(sleeper_sleeps(&s));
    end(&a);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(s.result, 0); /* woken, neither timed out nor too late to sleep */
    end(&b);
    munmap(s.head, VGP_PAGE);
    assert_int_equal(brk_share_count(), 0);
}

/* A taken-over worker enters numbers of others, of nobody, and its own where it has left: nobody waits for those. */
static void test_event_numbers(void **state)
{
    uint8_t t[VGB_TOKEN], t2[VGB_TOKEN];
    struct worker a, b, third, evil;
    int fd;

    (void)state;
    start(&a, &one_vm, 0);
    start(&b, &one_vm, 0);
    start(&third, &one_vm, 0);
    start(&evil, &one_vm, 0);
    assert_int_equal(make(&third, VGB_SHARE_EVENT, VGP_PAGE, t2, &fd), VGPU_S_OK); /* it has a number */
    close(fd);
    assert_int_equal(make(&a, VGB_SHARE_EVENT, VGP_PAGE, t, &fd), VGPU_S_OK);
    struct vgb_event_head *head = mmap(NULL, VGP_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    assert_ptr_not_equal(head, MAP_FAILED);
    close(fd);
    assert_int_equal(open_it(&b, VGB_SHARE_EVENT, t, &fd), VGPU_S_OK);
    close(fd);
    for (int leaves = 0; leaves < 2; leaves++) {
        assert_int_equal(open_it(&evil, VGB_SHARE_EVENT, t, &fd), VGPU_S_OK);
        close(fd);
        if (leaves)
            assert_true(drop(&evil, t)); /* and keeps the page */
        head->holders[0] = a.client.holder;
        head->holders[1] = b.client.holder;
        head->holders[2] = third.client.holder;
        head->holders[3] = 0xdeadbeef;
        head->holders[62] = evil.client.holder;
        uint32_t wake = head->wake;

        end(&evil);
        assert_int_equal(head->holders[0], a.client.holder);
        assert_int_equal(head->holders[1], b.client.holder);
        assert_int_equal(head->holders[2], 0);
        assert_int_equal(head->holders[3], 0);
        assert_int_equal(head->holders[62], 0);
        assert_int_not_equal(head->wake, wake);
        start(&evil, &one_vm, 0);
    }
    end(&evil);
    end(&b);
    end(&a);
    end(&third);
    munmap(head, VGP_PAGE);
    assert_int_equal(brk_share_count(), 0);
}

/* How many times the worker is told that a holder of its events has gone. */
static unsigned heard_gone(struct worker *w)
{
    unsigned n = 0, nfds = 0;
    struct vgb_msg m;

    for (; vgb_msg_recv(w->sock, &m, NULL, &nfds, MSG_DONTWAIT) == 1; n++)
        assert_int_equal(m.type, VGB_M_HOLDER_GONE);
    return n;
}

/*
 * A client that goes may have recorded in the name of other holders: all who had an event with it are told, once; so
 * they are when its worker, which may write to the page until then, is reaped.
 */
static void test_event_records(void **state)
{
    uint8_t t[VGB_TOKEN], t2[VGB_TOKEN], t3[VGB_TOKEN];
    struct worker a, b, stranger, evil;
    int fd;

    (void)state;
    start(&a, &one_vm, 0);
    start(&b, &one_vm, 0);
    start(&stranger, &one_vm, 0);
    start(&evil, &one_vm, 0);
    assert_int_equal(make(&stranger, VGB_SHARE_EVENT, VGP_PAGE, t3, &fd), VGPU_S_OK);
    close(fd);
    assert_int_equal(make(&a, VGB_SHARE_EVENT, VGP_PAGE, t2, &fd), VGPU_S_OK);
    close(fd);
    assert_int_equal(make(&a, VGB_SHARE_EVENT, VGP_PAGE, t, &fd), VGPU_S_OK);
    struct vgb_event_head *head = mmap(NULL, VGP_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    assert_ptr_not_equal(head, MAP_FAILED);
    close(fd);
    assert_int_equal(open_it(&b, VGB_SHARE_EVENT, t, &fd), VGPU_S_OK);
    close(fd);
    assert_int_equal(open_it(&evil, VGB_SHARE_EVENT, t, &fd), VGPU_S_OK);
    close(fd);
    assert_int_equal(open_it(&evil, VGB_SHARE_EVENT, t2, &fd), VGPU_S_OK);
    close(fd);
    head->holders[5] = evil.client.holder;
    brk_share_client_gone(&evil.client); /* its program has ended */
    assert_int_equal(head->holders[5], 0);
    assert_int_equal(heard_gone(&a), 1);
    assert_int_equal(heard_gone(&b), 1);
    assert_int_equal(heard_gone(&stranger), 0);
    assert_int_equal(heard_gone(&evil), 0);

    head->holders[5] = evil.client.holder;
    end(&evil); /* its worker has */
    assert_int_equal(head->holders[5], 0);
    assert_int_equal(heard_gone(&a), 1);
    assert_int_equal(heard_gone(&b), 1);
    end(&stranger);
    end(&b);
    assert_int_equal(heard_gone(&a), 1);
    end(&a);
    munmap(head, VGP_PAGE);
    assert_int_equal(brk_share_count(), 0);
}

/* The maker pays while it has the memory, then those who still have it pay together. */
static void test_quota(void **state)
{
    const uint64_t mib = 1 << 20;
    uint8_t t[VGB_TOKEN], t2[VGB_TOKEN];
    struct worker a, b;
    int fd;

    (void)state;
    brk_vram.limit = 10 * mib;
    start(&a, &one_vm, 4 * mib);
    start(&b, &one_vm, 0);
    assert_int_equal(make(&a, VGB_SHARE_MEMORY, 5 * mib, t, &fd), VGPU_S_QUOTA); /* not reserved */
    assert_int_equal(make(&a, VGB_SHARE_MEMORY, 3 * mib, t, &fd), VGPU_S_OK);
    close(fd);
    assert_int_equal(make(&a, VGB_SHARE_MEMORY, 3 * mib, t2, &fd), VGPU_S_QUOTA); /* not twice */
    assert_int_equal(brk_vram.used, 4 * mib);
    for (unsigned i = 0; i < 3; i++) { /* what it has dropped it may share anew */
        assert_true(drop(&a, t));
        assert_int_equal(make(&a, VGB_SHARE_MEMORY, 3 * mib, t, &fd), VGPU_S_OK);
        close(fd);
    }
    assert_int_equal(open_it(&b, VGB_SHARE_MEMORY, t, &fd), VGPU_S_OK);
    close(fd);
    assert_int_equal(brk_vram.used, 4 * mib); /* the one who opens it is not charged */
    end(&a);
    assert_int_equal(brk_vram.used, 3 * mib);
    assert_false(brk_quota_move(&brk_vram, 0, 8 * mib));
    assert_true(drop(&b, t));
    assert_int_equal(brk_vram.used, 0);
    end(&b);
    brk_vram.limit = 0;
}

/* As the worker's message to the broker; what is granted. */
static uint32_t reserve(struct worker *w, uint64_t bytes)
{
    struct vgb_msg m = {.type = VGB_M_RESERVE, .flags = VGB_RESERVE_DEVICE, .value = bytes};
    unsigned n = 0;

    w->client.state = BRK_C_SERVING;
    brk_client_message(&w->client, &m);
    assert_int_equal(vgb_msg_recv(w->sock, &m, NULL, &n, MSG_DONTWAIT), 1);
    assert_int_equal(m.type, VGB_M_GRANT);
    if (m.status == VGPU_S_OK)
        assert_int_equal(m.value, bytes);
    return m.status;
}

/* A worker that reserves less than it shares does not leave the rest to others. */
static void test_reserves_less(void **state)
{
    const uint64_t mib = 1 << 20, rounding = 2 * VGP_PAGE;
    uint8_t t[VGB_TOKEN];
    struct worker a, b;
    int fd;

    (void)state;
    brk_vram.limit = 10 * mib;
    start(&a, &one_vm, 8 * mib);
    start(&b, &one_vm, 0);
    assert_int_equal(make(&a, VGB_SHARE_MEMORY, 8 * mib, t, &fd), VGPU_S_OK);
    close(fd);
    assert_int_equal(reserve(&a, 0), VGPU_S_OK);
    assert_int_equal(brk_vram.used, 8 * mib - rounding);
    assert_int_equal(reserve(&b, 8 * mib), VGPU_S_QUOTA);
    assert_int_equal(reserve(&a, 8 * mib), VGPU_S_OK); /* charged once */
    assert_int_equal(brk_vram.used, 8 * mib);
    assert_int_equal(reserve(&a, mib), VGPU_S_OK);
    assert_int_equal(brk_vram.used, 8 * mib - rounding);
    assert_true(drop(&a, t));
    assert_int_equal(brk_vram.used, mib);
    assert_int_equal(reserve(&b, 8 * mib), VGPU_S_OK);
    assert_int_equal(reserve(&b, 0), VGPU_S_OK);

    /* Others hold it: they are charged, and nobody twice. */
    assert_int_equal(reserve(&a, 8 * mib), VGPU_S_OK);
    assert_int_equal(make(&a, VGB_SHARE_MEMORY, 8 * mib, t, &fd), VGPU_S_OK);
    close(fd);
    assert_int_equal(open_it(&b, VGB_SHARE_MEMORY, t, &fd), VGPU_S_OK);
    close(fd);
    assert_int_equal(reserve(&a, 0), VGPU_S_OK);
    assert_true(drop(&a, t));
    assert_int_equal(brk_vram.used, 8 * mib);
    assert_true(drop(&b, t));
    assert_int_equal(brk_vram.used, 0);

    /* Its worker is yet to be reaped: it has the memory until then. */
    assert_int_equal(reserve(&a, 8 * mib), VGPU_S_OK);
    assert_int_equal(make(&a, VGB_SHARE_MEMORY, 8 * mib, t, &fd), VGPU_S_OK);
    close(fd);
    assert_int_equal(reserve(&a, 0), VGPU_S_OK);
    a.client.state = BRK_C_ENDING;
    brk_share_client_gone(&a.client);
    assert_int_equal(brk_vram.used, 8 * mib - rounding);
    brk_quota_move(&brk_vram, a.client.shared_over, 0);
    end(&a);
    end(&b);
    assert_int_equal(brk_vram.used, 0);
    brk_vram.limit = 0;
}

/* As many as it gets. */
static unsigned make_all(struct worker *w, uint32_t kind)
{
    uint8_t t[VGB_TOKEN];
    unsigned n = 0;
    int fd;

    while (n < 100000 && make(w, kind, kind == VGB_SHARE_PAYLOAD ? 0 : VGP_PAGE, t, &fd) == VGPU_S_OK) {
        vgb_close(&fd);
        n++;
    }
    return n;
}

/* Things that take descriptors leave half of those to clients, and one client leaves others what they need. */
static void test_few_descriptors(void **state)
{
    enum { LIMIT = 256, ONE = LIMIT / 16 };
    static struct worker w[9];
    unsigned n, opened = 0;
    struct rlimit was, now;
    int more[LIMIT];

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    now = (struct rlimit){LIMIT, was.rlim_max};
    for (unsigned i = 0; i < 9; i++)
        start(&w[i], &one_vm, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(make_all(&w[i], VGB_SHARE_EVENT), ONE);
    assert_int_equal(make_all(&w[8], VGB_SHARE_EVENT), 0);
    assert_true(make_all(&w[8], VGB_SHARE_PAYLOAD) > ONE); /* that takes none */
    while (opened < LIMIT && (more[opened] = dup(0)) >= 0)
        opened++;
    assert_true(opened >= LIMIT / 4); /* the rest of the half is this test's own and the workers' sockets */
    for (n = 0; n < opened; n++)
        close(more[n]);
    end(&w[0]); /* gives them back */
    start(&w[0], &one_vm, 0);
    assert_int_equal(make_all(&w[0], VGB_SHARE_EVENT), ONE);
    for (unsigned i = 0; i < 9; i++)
        end(&w[i]);
    assert_int_equal(brk_share_count(), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),          cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_odd_messages),    cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_payload),         cmocka_unit_test(test_descriptor),
        cmocka_unit_test(test_event),           cmocka_unit_test(test_event_numbers),
        cmocka_unit_test(test_event_wakes),     cmocka_unit_test(test_event_records),
        cmocka_unit_test(test_quota),           cmocka_unit_test(test_reserves_less),
        cmocka_unit_test(test_few_descriptors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
