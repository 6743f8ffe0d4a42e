/* SPDX-License-Identifier: MIT */
/* The control socket: each limit changed while a client is served, and requests that nobody should send. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
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
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "testprov.h"
#include "vgb_fd.h"
#include "vgp_calls.h"

struct shared {
    struct broker b;
    struct guest g;
    char control[120], log[40];
};

static int connect_control(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct timeval limit = {.tv_sec = 60};

    snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (connect(fd, (struct sockaddr *)&a, sizeof(a))) {
        close(fd);
        return -1;
    }
    return fd;
}

static const char *ask_bytes(const char *path, const void *bytes, size_t n)
{
    const char *answer = control_ask(path, bytes, n);

    assert_non_null(answer);
    return answer;
}

static const char *ask(const struct shared *s, const char *request)
{
    return ask_bytes(s->control, request, strlen(request));
}

#define assert_ok(s, request) assert_string_equal(ask(s, request), "ok\n")
#define assert_refused(s, request) assert_int_equal(strncmp(ask(s, request), "error: ", 7), 0)

static void begin(struct shared *s, const char *option, const char *value)
{
    static const char *extra[12] = {"--control"};
    unsigned n = 1;

    memset(s, 0, sizeof(*s));
    strcpy(s->log, "/tmp/vgb-log-XXXXXX");
    strcpy(s->control, "/tmp/vgb-control-XXXXXX");
    int fd = mkstemp(s->log);
    assert_true(fd >= 0);
    close(fd);
    assert_non_null(mkdtemp(s->control));
    strcat(s->control, "/c");
    extra[n++] = s->control;
    extra[n++] = "--log";
    extra[n++] = s->log;
    extra[n++] = "--log-level";
    extra[n++] = "info";
    if (option) {
        extra[n++] = option;
        extra[n++] = value;
    }
    extra[n] = NULL;
    assert_int_equal(broker_start(&s->b, extra), 0);
    assert_int_equal(guest_connect(&s->g, s->b.sock, "changed"), 0);
    assert_int_equal(guest_context(&s->g), 0);
}

static void finish(struct shared *s)
{
    guest_close(&s->g);
    assert_int_equal(broker_stop(&s->b), 0);
    unlink(s->log);
    assert_int_equal(access(s->control, F_OK), -1); /* its socket goes with it */
    *strrchr(s->control, '/') = '\0';
    assert_int_equal(rmdir(s->control), 0);
}

static int make_stream(struct guest *g, uint32_t index)
{
    struct vgp_args_cuStreamCreate a = {.phStream = VGP_HANDLE(VGP_H_STREAM, 1, index)};

    return guest_call(g, VGP_cuStreamCreate, &a, sizeof(a), NULL, NULL);
}

static int make_event(struct guest *g, uint32_t index)
{
    struct vgp_args_cuEventCreate a = {.phEvent = VGP_HANDLE(VGP_H_EVENT, 1, index)};

    return guest_call(g, VGP_cuEventCreate, &a, sizeof(a), NULL, NULL);
}

static uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* A worker looks at what its broker has sent between two calls, not at once: tries again while `busy`. */
#define RETRY(r, busy, call) \
    for (uint64_t end_ = now_ms() + 60000; ((r) = (call)) == (busy) && now_ms() < end_;) \
    usleep(1000)

static void test_values(void **state)
{
    struct shared s;
    struct stat st;

    (void)state;
    begin(&s, "--client-streams", "8");
    assert_int_equal(stat(s.control, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_string_equal(ask(&s, "get client-streams"), "ok\nclient-streams 8\n");
    assert_non_null(strstr(ask(&s, "get"), "\nmax-clients 64\n"));
    assert_ok(&s, "set client-streams 9\n");
    assert_string_equal(ask(&s, "get client-streams"), "ok\nclient-streams 9\n");
    assert_ok(&s, "set vram-quota 3G");
    assert_string_equal(ask(&s, "get vram-quota"), "ok\nvram-quota 3221225472\n");
    finish(&s);
}

static void test_streams(void **state)
{
    char request[100];
    struct shared s;
    int r;

    (void)state;
    begin(&s, "--client-streams", "4");
    for (uint32_t i = 1; i <= 4; i++)
        assert_int_equal(make_stream(&s.g, i), 0);
    assert_int_equal(make_stream(&s.g, 5), CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(&s, "set client-streams 5");
    RETRY(r, CUDA_ERROR_OUT_OF_MEMORY, make_stream(&s.g, 5));
    assert_int_equal(r, 0);
    /* Below what is in use: nothing is taken away, and what is new is refused. */
    assert_ok(&s, "set client-streams 2");
    assert_int_equal(make_stream(&s.g, 6), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_memset(&s.g, 0, VALUE_BUSY, 0, VGP_HANDLE(VGP_H_STREAM, 1, 5)), 0);
    /* For this client alone. */
    snprintf(request, sizeof(request), "set client-streams 100 client %d", (int)worker_of_client(s.b.pid));
    assert_ok(&s, request);
    RETRY(r, CUDA_ERROR_OUT_OF_MEMORY, make_stream(&s.g, 6));
    assert_int_equal(r, 0);
    assert_string_equal(ask(&s, "get client-streams"), "ok\nclient-streams 2\n");
    snprintf(request, sizeof(request), "get client-streams client %d", (int)worker_of_client(s.b.pid));
    assert_string_equal(ask(&s, request), "ok\nclient-streams 100\n");
    finish(&s);
}

static void test_handles(void **state)
{
    struct shared s;
    int r = 0;

    (void)state;
    begin(&s, "--client-handles", "64");
    for (uint32_t i = 1; i <= 64 && !r; i++)
        r = make_event(&s.g, i);
    assert_int_equal(r, CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(&s, "set client-handles 128");
    RETRY(r, CUDA_ERROR_OUT_OF_MEMORY, make_event(&s.g, 100));
    assert_int_equal(r, 0);
    finish(&s);
}

static void test_printf(void **state)
{
    struct vgp_args_cuCtxSetLimit a = {.limit = CU_LIMIT_PRINTF_FIFO_SIZE, .value = 2 << 20};
    struct shared s;
    int r;

    (void)state;
    begin(&s, "--client-printf", "1M");
    assert_int_equal(guest_call(&s.g, VGP_cuCtxSetLimit, &a, sizeof(a), NULL, NULL),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(&s, "set client-printf 2M");
    RETRY(r, CUDA_ERROR_OUT_OF_MEMORY, guest_call(&s.g, VGP_cuCtxSetLimit, &a, sizeof(a), NULL, NULL));
    assert_int_equal(r, 0);
    finish(&s);
}

/* Memory of the host: changed from outside. The provider of the tests has its device memory from malloc. */
static void test_memory(void **state)
{
    struct shared s;
    struct guest other;
    const char *said;
    uint64_t p;
    int r;

    (void)state;
    if (no_data_limits("control_test: memory"))
        skip();
    begin(&s, "--client-memory", "64M");
    assert_int_equal(guest_alloc(&s.g, 128 << 20, &p), CUDA_ERROR_OUT_OF_MEMORY);
    said = ask(&s, "set client-memory 512M");
    if (strcmp(said, "ok\n")) { /* a running worker's is the kernel's privilege: then for new clients */
        assert_non_null(strstr(said, "CAP_SYS_RESOURCE"));
        guest_close(&s.g);
        assert_int_equal(guest_connect(&s.g, s.b.sock, "new"), 0);
        assert_int_equal(guest_context(&s.g), 0);
    }
    RETRY(r, CUDA_ERROR_OUT_OF_MEMORY, guest_alloc(&s.g, 128 << 20, &p));
    assert_int_equal(r, 0);
    ask(&s, "set client-memory 64M");
    assert_int_equal(guest_connect(&other, s.b.sock, "less"), 0);
    assert_int_equal(guest_context(&other), 0);
    assert_int_equal(guest_alloc(&other, 128 << 20, &p), CUDA_ERROR_OUT_OF_MEMORY);
    guest_close(&other);
    finish(&s);
}

static void test_threads(void **state)
{
    struct shared s;

    (void)state;
    begin(&s, "--client-threads", "64");
    assert_refused(&s, "set client-threads 31");
    assert_ok(&s, "set client-threads 32");
    assert_int_equal(make_event(&s.g, 1), 0);
    finish(&s);
}

/* A quota where there was none: what is in use then counts, though it was never asked for. */
static void test_vram(void **state)
{
    uint64_t p, q, own;
    struct shared s;
    struct guest other;
    int r;

    (void)state;
    begin(&s, NULL, NULL);
    assert_int_equal(guest_alloc(&s.g, 32 << 20, &p), 0);
    assert_ok(&s, "set vram-quota 48M");
    assert_int_equal(guest_connect(&other, s.b.sock, "other"), 0);
    assert_int_equal(guest_context(&other), 0);
    /* Once the first has said what it has, there is no room for 32M. */
    for (uint64_t end = now_ms() + 60000; !(r = guest_alloc(&other, 32 << 20, &q)) && now_ms() < end;) {
        assert_int_equal(guest_free(&other, q), 0);
        usleep(1000);
    }
    assert_int_equal(r, CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_alloc(&other, 8 << 20, &q), 0);
    assert_ok(&s, "set vram-quota 256M");
    RETRY(r, CUDA_ERROR_OUT_OF_MEMORY, guest_alloc(&other, 32 << 20, &own));
    assert_int_equal(r, 0);
    /* Below what is in use: kept, and no more. */
    assert_ok(&s, "set vram-quota 16M");
    assert_int_equal(guest_alloc(&s.g, 1 << 20, &own), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(guest_free(&s.g, p), 0);
    assert_int_equal(guest_free(&other, q), 0);
    assert_ok(&s, "set vram-quota 0");
    RETRY(r, CUDA_ERROR_OUT_OF_MEMORY, guest_alloc(&s.g, 300 << 20, &own));
    assert_int_equal(r, 0);
    /* Again, and again: it may say what it has as often as it was asked. */
    for (int i = 0; i < 20; i++) {
        assert_ok(&s, "set vram-quota 900M");
        assert_ok(&s, "set vram-quota 0");
    }
    assert_int_equal(make_event(&s.g, 1), 0);
    assert_int_equal(make_event(&other, 1), 0);
    guest_close(&other);
    finish(&s);
}

static void test_clients(void **state)
{
    struct shared s;
    struct guest other;
    char line[1000];
    bool logged = false;

    (void)state;
    begin(&s, "--max-clients", "1");
    assert_int_equal(guest_connect(&other, s.b.sock, "more"), -1);
    assert_non_null(strstr(other.refused, "--max-clients"));
    guest_close(&other);
    FILE *f = fopen(s.log, "r");
    while (f && fgets(line, sizeof(line), f))
        logged |= strstr(line, "--max-clients") != NULL;
    fclose(f);
    assert_true(logged);
    assert_ok(&s, "set max-clients 2");
    assert_int_equal(guest_connect(&other, s.b.sock, "more"), 0);
    assert_ok(&s, "set max-clients 1"); /* both stay */
    assert_int_equal(make_event(&s.g, 1), 0);
    assert_int_equal(guest_context(&other), 0);
    guest_close(&other);
    finish(&s);
}

static void append(struct guest *g, uint32_t id, uint64_t total)
{
    struct vgp_args_vgpBlobAppend a = {.blobId = id, .totalSize = total, .data_len = 16};
    static const uint8_t bytes[16];

    guest_submit(g, VGP_vgpBlobAppend, VGP_NO_REPLY, &a, sizeof(a), bytes, sizeof(bytes));
}

static bool log_has(const struct shared *s, const char *text)
{
    char line[1000];
    bool found = false;
    FILE *f = fopen(s->log, "r");

    while (f && fgets(line, sizeof(line), f))
        found |= strstr(line, text) != NULL;
    if (f)
        fclose(f);
    return found;
}

static void test_blobs(void **state)
{
    struct shared s;

    (void)state;
    begin(&s, "--blob-quota", "64M");
    append(&s.g, 1, 24 << 20);
    assert_int_equal(make_event(&s.g, 1), 0);
    assert_false(log_has(&s, "--blob-quota"));
    assert_ok(&s, "set blob-quota 32M");
    append(&s.g, 2, 24 << 20);
    for (int i = 0; i < 6000 && !log_has(&s, "--blob-quota"); i++)
        usleep(10000);
    assert_true(log_has(&s, "--blob-quota"));
    finish(&s);
}

/* Starts beyond the rate wait; with another rate they do not. */
static void test_rate(void **state)
{
    struct shared s;
    struct guest g[8];

    (void)state;
    begin(&s, "--start-rate", "1");
    assert_ok(&s, "set start-rate 1000");
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(guest_connect(&g[i], s.b.sock, "quick"), 0);
    assert_false(log_has(&s, "--start-rate"));
    for (unsigned i = 0; i < 8; i++)
        guest_close(&g[i]);
    finish(&s);
}

static void test_pins(void **state)
{
    struct shared s;

    (void)state;
    begin(&s, "--pin-quota", "1M");
    assert_ok(&s, "set pin-quota 2M");
    assert_string_equal(ask(&s, "get pin-quota"), "ok\npin-quota 2097152\n");
    finish(&s);
}

/* By processor time only the software GPU can be shared; by turns, any. */
static void test_shares_elsewhere(void **state)
{
    struct shared s;

    (void)state;
    begin(&s, "--pacing", "stop");
    assert_refused(&s, "set weight 200");
    assert_refused(&s, "set client-cap 20");
    finish(&s);
    begin(&s, NULL, NULL);
    assert_ok(&s, "set weight 200");
    assert_ok(&s, "set client-cap 20");
    assert_ok(&s, "set client-priority 1");
    assert_string_equal(ask(&s, "get client-priority"), "ok\nclient-priority 1\n");
    finish(&s);
}

static void test_hostile(void **state)
{
    static const char *const requests[] = {
        "",
        " ",
        "\n",
        "set",
        "set client-streams",
        "set client-streams 1 2",
        "set client-streams 5 client",
        "set client-streams 5 client 0",
        "set client-streams 5 client -1",
        "set client-streams 5 client 99999999999",
        "set client-streams 5 client 1",
        "set client-streams 5 client 1 2",
        "get nothing",
        "get vram-quota client 1",
        "get get get",
        "set client-streams -1",
        "set client-streams 1x",
        "set client-streams 99999999999999999999",
        "set vram-quota 99999999999T",
        "set max-clients 0",
        "set max-clients 257",
        "set weight 0",
        "set weight 1001",
        "set cap 101",
        "set client-priority 3",
        "set client-image 4095",
        "set client-compile-time 86401",
        "set client-queue 63",
        "set client-time-limit 86401",
        "set nothing 1",
        "a b c d e f g h",
        "SET client-streams 5",
        "client 1",
        "get client",
        "set client-printf 4095",
        "set start-rate 10001",
    };
    char junk[5000];
    struct shared s;
    int open_ones[20], status;

    (void)state;
    begin(&s, NULL, NULL);
    for (unsigned i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        const char *said = *requests[i] ? ask(&s, requests[i]) : "error: ";

        if (strncmp(said, "error: ", 7))
            fail_msg("\"%s\" is answered \"%s\"", requests[i], said);
    }
    memset(junk, 'x', sizeof(junk));
    assert_int_equal(strncmp(ask_bytes(s.control, junk, sizeof(junk)), "error: ", 7), 0);
    assert_int_equal(strncmp(ask_bytes(s.control, junk, 256), "error: ", 7), 0);
    assert_int_equal(strncmp(ask_bytes(s.control, junk, 257), "error: ", 7), 0);
    memset(junk, 0, sizeof(junk));
    assert_int_equal(strncmp(ask_bytes(s.control, junk, 100), "error: ", 7), 0);
    assert_int_equal(strncmp(ask_bytes(s.control, "set max-clients 1\0", 18), "error: ", 7), 0);
    for (unsigned seed = 1; seed <= 300; seed++) {
        srand(seed);
        size_t n = 1 + (size_t)(rand() % 300);

        for (size_t i = 0; i < n; i++)
            junk[i] = (char)(seed % 2 ? rand() : "setg client0 9-\n"[rand() % 16]);
        assert_true(*ask_bytes(s.control, junk, n) != '\0');
    }
    /* Descriptors that nobody asked for are not taken. */
    int fd = connect_control(s.control), file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(vgb_send_fds(fd, "get", 3, &file, 1, 0), 3);
    assert_true(recv(fd, junk, sizeof(junk), 0) > 0);
    close(fd);
    close(file);
    /* Those that connect and say nothing: more than there is room for are closed, and room comes back. */
    for (unsigned i = 0; i < 20; i++)
        assert_true((open_ones[i] = connect_control(s.control)) >= 0);
    assert_int_equal(guest_context(&s.g), 0);
    for (unsigned i = 0; i < 20; i++)
        close(open_ones[i]);
    for (uint64_t end = now_ms() + 60000;;) {
        fd = connect_control(s.control);
        send(fd, "get", 3, MSG_NOSIGNAL);
        status = (int)recv(fd, junk, sizeof(junk), 0);
        close(fd);
        if (status > 0 || now_ms() > end)
            break;
    }
    assert_true(status > 0);
    /* One that never reads. */
    fd = connect_control(s.control);
    for (unsigned i = 0; i < 5000 && send(fd, "get", 3, MSG_NOSIGNAL | MSG_DONTWAIT) == 3; i++)
        ;
    assert_string_equal(ask(&s, "get weight"), "ok\nweight 100\n");
    close(fd);
    assert_int_equal(make_event(&s.g, 1), 0);
    finish(&s);
}

static void test_other_user(void **state)
{
    struct shared s;
    int is = 0;

    (void)state;
    if (geteuid()) {
        print_message("not run: other_user: this test is not root\n");
        skip();
    }
    begin(&s, NULL, NULL);
    *strrchr(s.control, '/') = '\0';
    assert_int_equal(chmod(s.control, 0755), 0);
    s.control[strlen(s.control)] = '/';
    pid_t child = fork();
    if (!child) {
        char text[100];
        int fd;

        if (setgroups(0, NULL) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
            _exit(77);
        fd = connect_control(s.control); /* the mode alone keeps it out */
        _exit(fd >= 0 && send(fd, "get", 3, MSG_NOSIGNAL) == 3 && recv(fd, text, sizeof(text), 0) > 0);
    }
    waitpid(child, &is, 0);
    assert_true(WIFEXITED(is));
    assert_int_equal(WEXITSTATUS(is), 0);
    /* Without the mode, the kernel still says who it is. */
    assert_int_equal(chmod(s.control, 0666), 0);
    child = fork();
    if (!child) {
        char text[100];
        int fd;

        if (setgroups(0, NULL) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
            _exit(77);
        fd = connect_control(s.control);
        _exit(fd >= 0 && send(fd, "get", 3, MSG_NOSIGNAL) == 3 && recv(fd, text, sizeof(text), 0) > 0);
    }
    waitpid(child, &is, 0);
    assert_true(WIFEXITED(is));
    assert_int_equal(WEXITSTATUS(is), 0);
    finish(&s);
}

/* The processor's time that a process uses in a second, in milliseconds. */
static long used_in_a_second(pid_t pid)
{
    struct timespec t[2];
    clockid_t clock;

    clock_getcpuclockid(pid, &clock);
    clock_gettime(clock, &t[0]);
    sleep(1);
    clock_gettime(clock, &t[1]);
    return (t[1].tv_sec - t[0].tv_sec) * 1000 + (t[1].tv_nsec - t[0].tv_nsec) / 1000000;
}

/* A connection that waits because no descriptor is left costs no processor, and is served later. Spinning shows in each second. */
static void test_no_descriptor(void **state)
{
    struct rlimit none, was;
    struct shared s;
    long used = 1000;

    (void)state;
    begin(&s, NULL, NULL);
    assert_int_equal(prlimit(s.b.pid, RLIMIT_NOFILE, NULL, &was), 0);
    none = (struct rlimit){3, was.rlim_max}; /* not 0, with which poll(2) refuses every call */
    assert_int_equal(prlimit(s.b.pid, RLIMIT_NOFILE, &none, NULL), 0);
    int fd = connect_control(s.control);
    assert_int_equal(send(fd, "get", 3, MSG_NOSIGNAL), 3);
    for (unsigned i = 0; used >= 100 && i < 5; i++)
        used = used_in_a_second(s.b.pid);
    assert_int_equal(prlimit(s.b.pid, RLIMIT_NOFILE, &was, NULL), 0);
    assert_true(recv(fd, &none, sizeof(none), 0) > 0 && used < 100);
    close(fd);
    finish(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_handles),       cmocka_unit_test(test_printf),
        cmocka_unit_test(test_memory),        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_vram),          cmocka_unit_test(test_clients),
        cmocka_unit_test(test_blobs),         cmocka_unit_test(test_rate),
        cmocka_unit_test(test_pins),          cmocka_unit_test(test_shares_elsewhere),
        cmocka_unit_test(test_hostile),       cmocka_unit_test(test_other_user),
        cmocka_unit_test(test_no_descriptor),
    };

    return cmocka_run_group_tests_name("control", tests, NULL, NULL);
}
