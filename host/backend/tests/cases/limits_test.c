/* SPDX-License-Identifier: MIT */
/* Each limit of a client, tried to pass: the error, and the line that names the option. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/testing/range.h"
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "testprov.h"
#include "vgb_fd.h"
#include "vgp_calls.h"
#include "vgp_sock.h"
#include <linux/types.h>

#include "vgpu_device.h"

struct limited {
    struct broker b;
    struct guest g;
    char log[40];
};

static void begin(struct limited *l, const char *option, const char *value)
{
    const char *extra[] = {option, value, "--log", l->log, "--log-level", "debug", NULL};

    memset(l, 0, sizeof(*l));
    strcpy(l->log, "/tmp/vgb-log-XXXXXX");
    int fd = mkstemp(l->log);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(broker_start(&l->b, extra), 0);
    assert_int_equal(guest_connect(&l->g, l->b.sock, "limited"), 0);
    assert_int_equal(guest_context(&l->g), 0);
}

static bool log_has(const struct limited *l, const char *text)
{
    char line[1000];
    bool found = false;
    FILE *f = fopen(l->log, "r");

    while (f && fgets(line, sizeof(line), f))
        found |= strstr(line, text) != NULL;
    if (f)
        fclose(f);
    return found;
}

/* The option is on the log: the worker's lines take a moment to get there. */
static void finish(struct limited *l, const char *option)
{
    bool found = false;

    for (int i = 0; i < 6000 && !(found = log_has(l, option)); i++)
        usleep(10000);
    assert_true(found);
    guest_close(&l->g);
    assert_int_equal(broker_stop(&l->b), 0);
    unlink(l->log);
}

static int make_stream(struct guest *g, uint32_t index)
{
    struct vgp_args_cuStreamCreate a = {.phStream = VGP_HANDLE(VGP_H_STREAM, 1, index)};

    return guest_call(g, VGP_cuStreamCreate, &a, sizeof(a), NULL, NULL);
}

static int make_event(struct guest *g, uint32_t index, uint32_t generation)
{
    struct vgp_args_cuEventCreate a = {.phEvent = VGP_HANDLE(VGP_H_EVENT, generation, index)};

    return guest_call(g, VGP_cuEventCreate, &a, sizeof(a), NULL, NULL);
}

static void test_streams(void **state)
{
    struct limited l;

    (void)state;
    begin(&l, "--client-streams", "8");
    for (uint32_t i = 1; i <= 8; i++)
        assert_int_equal(make_stream(&l.g, i), 0);
    assert_int_equal(make_stream(&l.g, 9), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(make_event(&l.g, 1, 1), 0); /* nothing else is refused */
    finish(&l, "--client-streams");
}

static void test_handles(void **state)
{
    struct limited l;
    int r = 0;

    (void)state;
    begin(&l, "--client-handles", "64");
    for (uint32_t i = 1; i <= 64 && !r; i++)
        r = make_event(&l.g, i, 1);
    assert_int_equal(r, CUDA_ERROR_OUT_OF_MEMORY); /* the context is one */
    struct vgp_args_cuEventDestroy_v2 d = {.hEvent = VGP_HANDLE(VGP_H_EVENT, 1, 5)};
    assert_int_equal(guest_call(&l.g, VGP_cuEventDestroy_v2, &d, sizeof(d), NULL, NULL), 0);
    assert_int_equal(make_event(&l.g, 5, 2), 0); /* room again */
    assert_int_equal(make_event(&l.g, 900, 1), CUDA_ERROR_OUT_OF_MEMORY);
    finish(&l, "--client-handles");
}

/* Most threads of a process of the broker's. */
static unsigned most_threads(pid_t broker)
{
    pid_t w[8];
    unsigned most = 0, n = workers_of(broker, w, 8);

    for (unsigned i = 0; i < n && i < 8; i++) {
        char path[40], line[100];
        unsigned have;

        snprintf(path, sizeof(path), "/proc/%d/status", (int)w[i]);
        FILE *f = fopen(path, "re");

        while (f && fgets(line, sizeof(line), f))
            if (sscanf(line, "Threads: %u", &have) == 1 && have > most)
                most = have;
        if (f)
            fclose(f);
    }
    return most;
}

/* More calls that wait than there may be threads: the rest is answered by the threads that there are. */
static void test_threads(void **state)
{
    enum { CALLS = 40, THREADS = 32 };
    struct vgp_args_cuStreamSynchronize a = {.hStream = 0};
    struct limited l;

    (void)state;
    begin(&l, "--client-threads", "32");
    assert_int_equal(guest_memset(&l.g, 0, VALUE_BUSY, 4000, 0), 0);
    uint32_t first = l.g.seq + 1;
    for (uint32_t i = 0; i < CALLS; i++)
        guest_submit(&l.g, VGP_cuStreamSynchronize, i, &a, sizeof(a), NULL, 0);
    for (int i = 0; i < 6000 && !log_has(&l, "threads: the limit of 32"); i++)
        usleep(10000);
    assert_true(log_has(&l, "threads: the limit of 32"));
    assert_int_equal(most_threads(l.b.pid), THREADS);
    for (uint32_t i = 0; i < CALLS; i++) {
        l.g.seq = first + i;
        assert_int_equal(guest_wait(&l.g, i, NULL, NULL, 60000), 0);
    }
    finish(&l, "--client-threads");
}

static void test_memory(void **state)
{
    struct limited l;
    uint64_t p;

    (void)state;
    if (no_data_limits("limits_test: memory"))
        skip();
    /* The provider of the tests has its device memory from malloc. */
    begin(&l, "--client-memory", "72M"); /* 8 of them are the stack of a waiting thread */
    assert_int_equal(guest_alloc(&l.g, 16 << 20, &p), 0);
    assert_int_equal(guest_alloc(&l.g, 32 << 20, &p), 0);
    assert_int_equal(guest_alloc(&l.g, 32 << 20, &p), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_alloc(&l.g, 1 << 20, &p), 0);
    finish(&l, "--client-memory");
}

/* Requests that are more than the quota by themselves, and with what is there; each is counted and named. */
static void test_vram(void **state)
{
    struct limited l;
    uint64_t p;

    (void)state;
    begin(&l, "--vram-quota", "16M");
    assert_int_equal(guest_alloc(&l.g, 13 << 20, &p), 0); /* 14 as drivers round */
    assert_false(log_has(&l, "--vram-quota"));
    assert_int_equal(guest_alloc(&l.g, 4 << 20, &p), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_alloc(&l.g, 64 << 20, &p), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_alloc(&l.g, 1 << 19, &p), 0);
    for (int i = 0; i < 6000 && !log_has(&l, "bytes of device memory: the limit of 16777216"); i++)
        usleep(10000);
    assert_true(log_has(&l, "the limit of 16777216 is met")); /* the guest hears it, too */
    assert_true(log_has(&l, "device memory refused, 18874368 bytes"));
    assert_true(log_has(&l, "device memory refused, 81788928 bytes"));
    finish(&l, "the limit is --vram-quota");
}

static void test_pins(void **state)
{
    struct vgp_sock_map m = {.type = VGP_SOCK_MAP, .region = 1, .va = 0x123400000000, .length = 2 << 20};
    int fd = memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct vgp_sock_mapped answer = {0};
    struct limited l;
    unsigned nfds = 0;

    (void)state;
    begin(&l, "--pin-quota", "1M");
    assert_int_equal(ftruncate(fd, (off_t)m.length), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_int_equal(vgb_send_fds(l.g.sock, &m, sizeof(m), &fd, 1, 0), sizeof(m));
    assert_int_equal(vgb_recv_fds(l.g.sock, &answer, sizeof(answer), NULL, &nfds, 0), sizeof(answer));
    assert_int_equal(answer.status, VGPU_S_QUOTA);
    close(fd);
    finish(&l, "the limit is --pin-quota");
}

static void test_clients(void **state)
{
    struct limited l;
    struct guest other;

    (void)state;
    begin(&l, "--max-clients", "1");
    assert_int_equal(guest_connect(&other, l.b.sock, "other"), -1);
    assert_non_null(strstr(other.refused, "--max-clients"));
    guest_close(&other);
    finish(&l, "--max-clients");
}

static void append(struct guest *g, uint32_t id, uint64_t total)
{
    struct vgp_args_vgpBlobAppend a = {.blobId = id, .totalSize = total, .data_len = 16};
    static const uint8_t bytes[16];

    guest_submit(g, VGP_vgpBlobAppend, VGP_NO_REPLY, &a, sizeof(a), bytes, sizeof(bytes));
}

/* Images on their way count for all clients together, and what is dropped is there for others. */
static void test_blobs(void **state)
{
    struct limited l;
    struct guest other;
    struct vgp_args_vgpBlobDrop d = {.blobId = 1};

    (void)state;
    begin(&l, "--blob-quota", "32M");
    assert_int_equal(guest_connect(&other, l.b.sock, "other"), 0);
    append(&l.g, 1, 24 << 20);
    assert_int_equal(make_event(&l.g, 1, 1), 0);
    assert_false(log_has(&l, "--blob-quota"));
    append(&other, 1, 20 << 20);
    /* The broker says it, and after it the worker, whose line the broker has to write yet. */
    for (int i = 0; i < 6000 && !log_has(&l, "bytes of module images"); i++)
        usleep(10000);
    assert_true(log_has(&l, "bytes of module images"));
    assert_true(log_has(&l, "the limit is --blob-quota"));
    assert_int_equal(ftruncate(open(l.log, O_WRONLY | O_CLOEXEC), 0), 0);
    guest_submit(&l.g, VGP_vgpBlobDrop, VGP_NO_REPLY, &d, sizeof(d), NULL, 0);
    assert_int_equal(make_event(&l.g, 2, 1), 0);
    append(&other, 2, 16 << 20);
    assert_int_equal(guest_context(&other), 0);
    assert_false(log_has(&l, "--blob-quota"));
    append(&other, 3, 16 << 20);
    append(&other, 4, 16 << 20);
    assert_int_equal(make_event(&other, 1, 1), 0);
    guest_close(&other);
    finish(&l, "--blob-quota");
}

/* Programs that never send the rest of their images leave some room, however many they are. */
static void test_blob_shares(void **state)
{
    struct guest other;
    struct limited l;

    (void)state;
    begin(&l, "--blob-quota", "64M");
    assert_int_equal(guest_connect(&other, l.b.sock, "other"), 0);
    append(&l.g, 1, 40 << 20); /* counts as 48, in whole grains */
    assert_int_equal(guest_context(&l.g), 0);
    append(&other, 1, 12 << 20);
    assert_int_equal(guest_context(&other), 0);
    assert_false(log_has(&l, "--blob-quota"));
    append(&other, 2, 1 << 20);                         /* there are four more */
    finish(&l, "another client wants room for images"); /* its worker says, which has the most */
    guest_close(&other);
}

static void test_printf(void **state)
{
    struct limited l;
    struct vgp_args_cuCtxSetLimit a = {.limit = CU_LIMIT_PRINTF_FIFO_SIZE, .value = 1 << 20};

    (void)state;
    begin(&l, "--client-printf", "1M");
    assert_int_equal(guest_call(&l.g, VGP_cuCtxSetLimit, &a, sizeof(a), NULL, NULL), 0);
    a.value++;
    assert_int_equal(guest_call(&l.g, VGP_cuCtxSetLimit, &a, sizeof(a), NULL, NULL),
                     CUDA_ERROR_OUT_OF_MEMORY);
    finish(&l, "--client-printf");
}

static int load_module(struct guest *g, uint32_t index, const char *image, uint32_t size)
{
    struct vgp_args_vgpModuleLoad a = {
        .module = VGP_HANDLE(VGP_H_MODULE, 1, index), .image_size = size, .image_len = size};

    guest_submit(g, VGP_vgpModuleLoad, 0, &a, sizeof(a), image, size);
    return guest_wait(g, 0, NULL, NULL, 60000);
}

/* Images inside of a record, images sent ahead, and what a linker is given in pieces. */
static void test_image(void **state)
{
    static char image[8192] = "a module";
    struct vgp_args_vgpLinkCreate l = {.state = VGP_HANDLE(VGP_H_LINK, 1, 1)};
    struct vgp_args_vgpLinkAdd add = {.state = l.state, .data_size = 3000, .data_len = 3000, .name_len = 1};
    struct limited k;

    (void)state;
    begin(&k, "--client-image", "4096");
    assert_int_equal(load_module(&k.g, 1, image, 4096), 0);
    assert_int_equal(load_module(&k.g, 2, image, 4097), CUDA_ERROR_OUT_OF_MEMORY);
    append(&k.g, 1, 4097);
    struct vgp_args_vgpModuleLoad a = {
        .module = VGP_HANDLE(VGP_H_MODULE, 1, 3), .image_size = 4097, .image_blob = 1};
    assert_int_equal(guest_call(&k.g, VGP_vgpModuleLoad, &a, sizeof(a), NULL, NULL),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_call(&k.g, VGP_vgpLinkCreate, &l, sizeof(l), NULL, NULL), 0);
    for (int i = 0; i < 2; i++) {
        guest_submit(&k.g, VGP_vgpLinkAdd, 0, &add, sizeof(add), image, 3008);
        assert_int_equal(guest_wait(&k.g, 0, NULL, NULL, 60000), i ? CUDA_ERROR_OUT_OF_MEMORY : 0);
    }
    finish(&k, "--client-image");
}

/* A compiler that does not end uses up its time, and its client with it. Others do not notice. */
static void test_compile_time(void **state)
{
    struct limited l;
    struct guest other;

    (void)state;
    begin(&l, "--client-compile-time", "1");
    assert_int_equal(guest_connect(&other, l.b.sock, "other"), 0);
    assert_int_equal(guest_context(&other), 0);
    assert_int_equal(load_module(&l.g, 1, "burns", 6), -2);
    assert_int_equal(l.g.s->dead_reason, VGPU_DEAD_KILLED);
    assert_non_null(strstr(l.g.s->dead_text, "--client-compile-time"));
    assert_int_equal(make_event(&other, 1, 1), 0);
    guest_close(&other);
    finish(&l, "--client-compile-time");
}

/* Work beyond the bound stays on the ring: nothing of it is refused, and nothing is lost. */
static void test_queue(void **state)
{
    struct vgp_args_cuMemsetD8Async a = {.uc = VALUE_BUSY, .N = 4000};
    struct limited l;

    (void)state;
    begin(&l, "--client-queue", "64");
    for (int i = 0; i < 64; i++) {
        a.N = i ? 4000 : 1;
        assert_int_equal(guest_call(&l.g, VGP_cuMemsetD8Async, &a, sizeof(a), NULL, NULL), 0);
    }
    guest_submit(&l.g, VGP_cuMemsetD8Async, 0, &a, sizeof(a), NULL, 0);
    for (int i = 0; i < 6000 && !log_has(&l, "--client-queue"); i++)
        usleep(10000);
    assert_int_equal(guest_wait(&l.g, 0, NULL, NULL, 60000), 0); /* when the first ones have ended */
    finish(&l, "--client-queue");
}

/* Work that never ends: the client does. One that has none, or whose work ends, may stay for ever. */
static void test_time_limit(void **state)
{
    struct limited l;
    struct guest idle;

    (void)state;
    begin(&l, "--client-time-limit", "1");
    assert_int_equal(guest_connect(&idle, l.b.sock, "idle"), 0);
    assert_int_equal(guest_context(&idle), 0);
    assert_int_equal(guest_memset(&idle, 0, VALUE_BUSY, 10, 0), 0);
    assert_int_equal(guest_memset(&l.g, 0, VALUE_BUSY, 3600000, 0), 0);
    assert_true(guest_wait_dead(&l.g, 60000));
    assert_int_equal(l.g.s->dead_reason, VGPU_DEAD_KILLED);
    assert_non_null(strstr(l.g.s->dead_text, "--client-time-limit"));
    assert_int_equal(guest_memset(&idle, 0, VALUE_BUSY, 10, 0), 0);
    guest_close(&idle);
    finish(&l, "--client-time-limit");
}

/* Clients that come and go start no more workers than the rate says: they wait, and are served. */
static void test_start_rate(void **state)
{
    const char *extra[] = {"--start-rate", "1",  "--max-clients", "2",    "--pool", "0",
                           "--log",        NULL, "--log-level",   "info", NULL};
    struct limited l = {.log = "/tmp/vgb-log-XXXXXX"};

    (void)state;
    int fd = mkstemp(l.log);
    assert_true(fd >= 0);
    close(fd);
    extra[7] = l.log;
    assert_int_equal(broker_start(&l.b, extra), 0);
    /* Four are the burst. A machine on which a start takes a second is not held back by the rate. */
    for (int i = 0; i < 12; i++) {
        assert_int_equal(guest_connect(&l.g, l.b.sock, "short"), 0);
        if (log_has(&l, "--start-rate"))
            break;
        if (i < 11)
            guest_close(&l.g);
    }
    finish(&l, "--start-rate");
}

/* ---- spare workers that are killed while they are handed out ---- */

static int connect_only(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    return fd;
}

/* The type of the broker's first message on a connection, 0: none came. */
static uint32_t first_message(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    uint8_t buf[512];
    int fds[4];
    unsigned nfds = 4;
    uint32_t type = 0;

    if (poll(&p, 1, 20000) == 1 && vgb_recv_fds(fd, buf, sizeof(buf), fds, &nfds, 0) >= 4) {
        memcpy(&type, buf, 4);
        vgb_close_all(fds, nfds);
    }
    return type;
}

static void test_killed_spares(void **state)
{
    struct vgp_sock_hello hello = {.type = VGP_SOCK_HELLO,
                                   .version_major = VGP_VERSION_MAJOR,
                                   .version_minor = VGP_VERSION_MINOR,
                                   .label = "spare"};
    struct broker b = {0};
    pid_t w[8];

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    for (int round = 0; round < 6; round++) {
        unsigned n = 0;
        int status;

        for (int i = 0; i < 1000 && (n = workers_of(b.pid, w, 8)) < 2; i++)
            usleep(10000);
        assert_true(n >= 2);
        usleep(100000); /* they are ready, most likely: else the round shows nothing */
        int fd = connect_only(b.sock);
        /* The request is there before the ends of the workers, which the broker sees after it. */
        kill(b.pid, SIGSTOP);
        assert_int_equal(waitpid(b.pid, &status, WUNTRACED), b.pid);
        assert_int_equal(send(fd, &hello, sizeof(hello), 0), sizeof(hello));
        for (unsigned i = 0; i < n && i < 8; i++)
            kill(w[i], round % 2 ? SIGSTOP : SIGKILL);
        kill(b.pid, SIGCONT);
        if (round % 2) { /* handed out, and killed before it serves */
            usleep(100000);
            for (unsigned i = 0; i < n && i < 8; i++)
                kill(w[i], SIGKILL);
        }
        assert_int_equal(first_message(fd), VGP_SOCK_WELCOME);
        close(fd);
    }
    assert_int_equal(broker_stop(&b), 0);
}

/* A worker that leaves at each start does not make the broker start workers for ever. */
static void with_bad_worker(struct broker *b, const char *what)
{
    static char path[600];
    static const char *const extra[] = {"--worker", path, "--log", "/dev/null", NULL};

    snprintf(path, sizeof(path), "%s/tests/badworker", getenv("BACKEND_DIR"));
    setenv("VGPU_TEST_BADWORKER", what, 1);
    assert_int_equal(broker_start(b, extra), 0);
    unsetenv("VGPU_TEST_BADWORKER");
}

static void test_leaving_worker(void **state)
{
    struct broker b = {0};
    struct guest g;

    (void)state;
    with_bad_worker(&b, "leaves");
    assert_int_equal(guest_connect(&g, b.sock, "left"), -1);
    assert_non_null(strstr(g.refused, "no worker could be started"));
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

/* A worker that never stops talking has its turn, and others have theirs. */
static void test_flooding_worker(void **state)
{
    struct vgp_sock_hello hello = {
        .type = VGP_SOCK_HELLO, .version_major = VGP_VERSION_MAJOR, .version_minor = VGP_VERSION_MINOR};
    struct broker b = {0};
    int fd[4];

    (void)state;
    with_bad_worker(&b, "flood");
    for (int i = 0; i < 4; i++) {
        fd[i] = connect_only(b.sock);
        assert_int_equal(send(fd[i], &hello, sizeof(hello), 0), sizeof(hello));
        assert_int_equal(first_message(fd[i]), VGP_SOCK_WELCOME);
    }
    for (int i = 0; i < 4; i++)
        close(fd[i]);
    assert_int_equal(broker_stop(&b), 0);
}

/* As many connections as may wait for their greeting, and one more: the oldest makes room for it. */
static void test_silent_connections(void **state)
{
    enum { SILENT = 64 }; /* GREETINGS_MAX of broker/transport/brk_sock.c */
    const struct timeval bound = {.tv_sec = 20};
    const uint32_t ask = VGP_SOCK_INFO;
    struct vgp_sock_info m;
    struct broker b = {0};
    int fd[SILENT + 1], again;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    for (int i = 0; i <= SILENT; i++) {
        fd[i] = connect_only(b.sock);
        setsockopt(fd[i], SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof(bound));
    }
    assert_int_equal(send(fd[SILENT], &ask, sizeof(ask), 0), sizeof(ask));
    assert_int_equal(recv(fd[SILENT], &m, sizeof(m), 0), sizeof(m));
    assert_true(recv(fd[0], &m, sizeof(m), 0) == 0 || errno == ECONNRESET);
    assert_int_equal(send(fd[1], &ask, sizeof(ask), 0), sizeof(ask));
    assert_int_equal(recv(fd[1], &m, sizeof(m), 0), sizeof(m)); /* the others stay */
    for (int i = 0; i <= SILENT; i++)
        close(fd[i]);
    /* They count no longer when the broker has seen that they are gone. */
    for (int i = 0;; i++) {
        again = connect_only(b.sock);
        if (send(again, &ask, sizeof(ask), MSG_NOSIGNAL) == sizeof(ask) &&
            recv(again, &m, sizeof(m), 0) == sizeof(m))
            break;
        close(again);
        assert_uint_in_range(i, 0, 1000);
        usleep(10000);
    }
    close(again);
    assert_int_equal(broker_stop(&b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vram),
        cmocka_unit_test(test_pins),
        cmocka_unit_test(test_clients),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_handles),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_blobs),
        cmocka_unit_test(test_blob_shares),
        cmocka_unit_test(test_printf),
        cmocka_unit_test(test_start_rate),
        cmocka_unit_test(test_image),
        cmocka_unit_test(test_compile_time),
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_time_limit),
        cmocka_unit_test(test_killed_spares),
        cmocka_unit_test(test_leaving_worker),
        cmocka_unit_test(test_flooding_worker),
        cmocka_unit_test(test_silent_connections),
    };

    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
