/* SPDX-License-Identifier: MIT */
/* What a worker is given and what it is kept from, seen from outside: real broker, test provider. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "testprov.h"
#include "vgb_fd.h"
#include "vgp_calls.h"
#include "vgp_sock.h"

static char log_name[64];

/* A broker whose log can be read; `more`: options, NULL-terminated. */
static int start(struct broker *b, const char *const *more)
{
    int fd;

    snprintf(log_name, sizeof(log_name), "/tmp/vgb-confine-XXXXXX");
    fd = mkstemp(log_name);
    assert_true(fd >= 0);
    close(fd);
    return broker_start_logged(b, log_name, more);
}

static void stop_broker(struct broker *b)
{
    assert_int_equal(broker_stop(b), 0);
    unlink(log_name);
}

/* A variable of the broker's that is not meant for workers is not there; nothing of a freed block is in the next one. */
static void test_environment(void **state)
{
    struct broker b;
    struct guest g;
    char all[8192];

    (void)state;
    setenv("CONFINE_SECRET_TOKEN", "secret", 1);
    setenv("CUDA_INJECTION64_PATH", "/nonexistent", 1);
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    assert_int_equal(start(&b, NULL), 0);
    assert_int_equal(guest_connect(&g, b.sock, "environ"), 0);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(guest_memset(&g, 0, VALUE_ENVIRON, 0, 0), 0);
    guest_printed(&g, all, sizeof(all));
    assert_non_null(strstr(all, "CUDA_DEVICE_ORDER"));
    assert_non_null(strstr(all, "CUDA_MPS_PIPE_DIRECTORY"));
    assert_null(strstr(all, "CONFINE_SECRET_TOKEN"));
    assert_null(strstr(all, "CUDA_INJECTION"));
    assert_null(strstr(all, "\nHOME\n"));
    assert_null(strstr(all, "\nPATH\n"));
    assert_non_null(strstr(all, "GLIBC_TUNABLES"));
    assert_non_null(strstr(all, "\nheap keeps 0\n"));
    guest_close(&g);
    stop_broker(&b);
    unsetenv("CONFINE_SECRET_TOKEN");
    unsetenv("CUDA_INJECTION64_PATH");
    unsetenv("CUDA_DEVICE_ORDER");
}

/* The text of a failed assert reaches the program, on its standard error, and not our log. */
static void test_assert_text(void **state)
{
    struct broker b;
    struct guest g;
    char text[4096];
    uint64_t where = 99;

    (void)state;
    assert_int_equal(start(&b, NULL), 0);
    assert_int_equal(guest_connect(&g, b.sock, "assert"), 0);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(guest_memset(&g, 0, VALUE_ASSERT, 0, 0), 0);
    assert_true(guest_notification(&g, VGP_NOTIFY_PRINT, &where, text, 3000));
    assert_int_equal(where, VGP_PRINT_STDERR);
    assert_string_equal(text, "assertion failed on the device\n");
    assert_false(file_has(log_name, "assertion failed"));
    guest_close(&g);
    stop_broker(&b);
}

static bool ends_with(struct broker *b, int status)
{
    int is = 0;

    waitpid(b->pid, &is, 0);
    b->pid = 0;
    broker_stop(b);
    return WIFEXITED(is) && WEXITSTATUS(is) == status;
}

/* A GPU whose kernels reach all memory of the worker is refused, with what to do, unless allowed. */
static void test_hmm(void **state)
{
    static const char *const allow[] = {"--allow-hmm", NULL};
    struct broker b;

    (void)state;
    setenv("VGPU_TEST_HMM", "1", 1);
    assert_int_equal(start(&b, NULL), -1);
    assert_true(ends_with(&b, 3));
    assert_true(file_has(log_name, "uvm_disable_hmm=1"));
    unlink(log_name);
    assert_int_equal(start(&b, allow), 0);
    stop_broker(&b);
    unsetenv("VGPU_TEST_HMM");
}

/* A provider that does not start: which call gave what, and what to do. */
static void test_provider_refuses(void **state)
{
    static const char *const cases[][2] = {
        {"100", "nvidia-smi"}, {"304", "--sandbox=log"}, {"802", "fabricmanager"},   {"803", "reboot"},
        {"804", "forward"},    {"34", "stub"},           {"999", "nvidia-modprobe"}, {"2", "gave 2"}};
    struct broker b;

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char gave[32];

        snprintf(gave, sizeof(gave), "cuInit gave %s", cases[i][0]);
        setenv("VGPU_TEST_BROKEN", cases[i][0], 1);
        assert_int_equal(start(&b, NULL), -1);
        assert_true(ends_with(&b, 3));
        assert_true(file_has(log_name, gave));
        assert_true(file_has(log_name, cases[i][1]));
        unlink(log_name);
    }
    unsetenv("VGPU_TEST_BROKEN");
}

/* A link of /proc/PID/ns, or (what: NULL) the user; pid 0: this process's. */
static void ask_proc(pid_t pid, const char *what, char *text, size_t size)
{
    char path[64];
    struct stat st;
    ssize_t n = 0;

    snprintf(path, sizeof(path), pid ? "/proc/%d%s%s" : "/proc/self%.0d%s%s", (int)pid, what ? "/ns/" : "",
             what ? what : "");
    if (what)
        n = readlink(path, text, size - 1);
    else if (!stat(path, &st))
        n = snprintf(text, size, "%u", st.st_uid);
    text[n > 0 ? n : 0] = '\0';
}

/* True if what a worker is said to have it has, and what it has is said. */
static bool layers_match(const char *layers, pid_t worker)
{
    static const struct {
        const char *word, *link;
    } rows[] = {{"user namespace", "user"}, {"mount namespace", "mnt"}, {"network namespace", "net"},
                {"ipc namespace", "ipc"},   {"uts namespace", "uts"},   {"user id", NULL}};
    char mine[64], its[64];

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ask_proc(0, rows[i].link, mine, sizeof(mine));
        ask_proc(worker, rows[i].link, its, sizeof(its));
        if (its[0] && (strstr(layers, rows[i].word) != NULL) != (strcmp(mine, its) != 0))
            return false;
    }
    return true;
}

/* The same of some worker of the broker: one that is still starting has entered nothing yet. */
static void check_layers(const char *layers, pid_t broker)
{
    pid_t list[16];

    for (int i = 0; i < 6000; i++) {
        for (unsigned k = 0, n = workers_of(broker, list, 16); k < n && k < 16; k++)
            if (layers_match(layers, list[k]))
                return;
        usleep(10000);
    }
    fail_msg("no worker has the layers that it is said to have");
}

/* Anybody who may connect may ask for the layers; anything else of that type is refused. */
static void test_info(void **state)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    const uint32_t ask[2] = {VGP_SOCK_INFO, 0};
    struct vgp_sock_info m;
    struct broker b;

    (void)state;
    assert_int_equal(start(&b, NULL), 0);
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", b.sock);
    for (int bad = 0; bad < 2; bad++) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
        assert_int_equal(send(fd, ask, 4, 0), 4);
        assert_int_equal(recv(fd, &m, sizeof(m), 0), sizeof(m));
        assert_int_equal(m.type, VGP_SOCK_INFO);
        assert_non_null(strstr(m.sandbox, "no capabilities"));
        check_layers(m.sandbox, b.pid);
        if (bad) {
            assert_int_equal(send(fd, ask, 8, 0), 8);
            assert_int_equal(recv(fd, &m, sizeof(m), 0), 0);
        }
        close(fd);
    }
    stop_broker(&b);
}

/* Workers of one broker share /dev/shm with each other alone, or there is none. */
static void test_shm(void **state)
{
    struct broker b[2];
    struct guest g[3];
    char text[4096], want[] = "shm 1\n";
    char logs[2][64];

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(start(&b[i], NULL), 0);
        memcpy(logs[i], log_name, sizeof(log_name));
    }
    for (int i = 0; i < 3; i++) {
        struct vgp_args_vgpDeviceGetAttribute q = {.attribute = CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED};
        const void *p;

        assert_int_equal(guest_connect(&g[i], b[i / 2].sock, "shm"), 0);
        assert_int_equal(guest_context(&g[i]), 0);
        assert_int_equal(guest_call(&g[i], VGP_vgpDeviceGetAttribute, &q, sizeof(q), &p, NULL), 0);
        int supported = ((const struct vgp_ret_vgpDeviceGetAttribute *)p)->value;
        int r = guest_memset(&g[i], 0, VALUE_SHM, 0, 0);

        assert_int_equal(supported, r == 0);
        if (r) {
            print_message("not run: shm: this host gives workers no mount namespace\n");
            continue;
        }
        want[4] = (char)(i == 1 ? '2' : '1');
        assert_true(guest_notification(&g[i], VGP_NOTIFY_PRINT, NULL, text, 3000));
        assert_string_equal(text, want);
    }
    /* However much a worker writes there, the host's memory is not filled. */
    if (want[4] == '1' && guest_memset(&g[2], 0, VALUE_SHM, 100, 0) == 0) {
        unsigned filled = 100;

        assert_true(guest_notification(&g[2], VGP_NOTIFY_PRINT, NULL, text, 3000));
        assert_int_equal(sscanf(text, "filled %u", &filled), 1);
        assert_true(filled > 0 && filled <= 64);
    }
    assert_int_not_equal(access("/dev/shm/vgpu-test", F_OK), 0);
    for (int i = 0; i < 3; i++)
        guest_close(&g[i]);
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof(text), "/dev/shm/vgpu-backend.%ld", (long)b[i].pid);
        assert_int_equal(broker_stop(&b[i]), 0);
        assert_int_not_equal(access(text, F_OK), 0); /* nothing is left behind */
        unlink(logs[i]);
    }
}

/* Status lines of a worker, of each of its threads. */
static void check_status(const char *path, unsigned *threads)
{
    FILE *f = fopen(path, "r");
    char line[300];
    unsigned long value;
    unsigned seen = 0;
    int n;

    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, "CapPrm: %lx", &value) == 1 || sscanf(line, "CapEff: %lx", &value) == 1 ||
            sscanf(line, "CapInh: %lx", &value) == 1 || sscanf(line, "CapAmb: %lx", &value) == 1) {
            assert_int_equal(value, 0);
            seen++;
        } else if (sscanf(line, "NoNewPrivs: %d", &n) == 1) {
            assert_int_equal(n, 1);
            seen++;
        } else if (sscanf(line, "Seccomp: %d", &n) == 1) {
            assert_int_equal(n, 2);
            seen++;
        } else if (sscanf(line, "Uid: %d", &n) == 1) {
            assert_int_not_equal(n, 0);
            seen++;
        }
    }
    fclose(f);
    assert_int_equal(seen, 7);
    (*threads)++;
}

/* Each thread is in the sandbox, also those that the provider and the capture of its output start. */
static void test_threads(void **state)
{
    struct broker b;
    struct guest g;
    char path[300];
    struct dirent *e;
    unsigned threads = 0;

    (void)state;
    assert_int_equal(start(&b, NULL), 0);
    assert_int_equal(guest_connect(&g, b.sock, "threads"), 0);
    pid_t w = worker_of_client(b.pid);
    assert_true(w > 0);
    snprintf(path, sizeof(path), "/proc/%d/task", (int)w);
    DIR *d = opendir(path);
    assert_non_null(d);
    while ((e = readdir(d))) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "/proc/%d/task/%.20s/status", (int)w, e->d_name);
        check_status(path, &threads);
    }
    closedir(d);
    assert_true(threads >= 2);
    assert_true(file_has(log_name, "no capabilities"));
    assert_true(file_has(log_name, "seccomp"));
    guest_close(&g);
    stop_broker(&b);
}

/* Where a mapping with this name starts, 0: there is none, or it may not be looked at. */
static unsigned long address_of(pid_t pid, const char *name)
{
    unsigned long low = 0, is;
    char path[64], line[500];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    f = fopen(path, "r");
    while (f && !low && fgets(line, sizeof(line), f)) {
        if (strstr(line, name) && sscanf(line, "%lx-", &is) == 1)
            low = is;
    }
    if (f)
        fclose(f);
    return low;
}

/* True if the process was given this word: a worker that had to change its memory layout was executed twice. */
static bool has_word(pid_t pid, const char *word)
{
    char path[64], line[4000];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    f = fopen(path, "r");
    assert_non_null(f);
    const size_t n = fread(line, 1, sizeof(line), f);

    fclose(f);
    return memmem(line, n, word, strlen(word)) != NULL;
}

/* Program, libraries and stack are at other addresses in each worker. */
static void test_random_addresses(void **state)
{
    static const char *const what[] = {"vgpu-worker", "libc.so", "[stack]"};
    static const char *const pool[] = {"--pool", "4", NULL};
    struct broker b;
    pid_t list[16];
    unsigned n = 0;

    (void)state;
    assert_int_equal(start(&b, pool), 0);
    for (int i = 0; i < 3000 && n < 4; i++) {
        usleep(10000);
        n = workers_of(b.pid, list, 16);
        for (unsigned k = 0; k < n && k < 16; k++) {
            if (!address_of(list[k], "libtestprov"))
                n = 0;
        }
    }
    if (n < 4) {
        stop_broker(&b);
        print_message("not run: random_addresses: the maps of workers cannot be read\n");
        skip();
    }
    for (unsigned k = 0; k < 3; k++) {
        for (unsigned i = 1; i < n; i++)
            assert_int_not_equal(address_of(list[0], what[k]), address_of(list[i], what[k]));
    }
    assert_true(has_word(list[0], "--provider"));
#ifndef __SANITIZE_THREAD__
    assert_false(has_word(list[0], "--layout-set"));
#endif
    stop_broker(&b);
}

/* After its start a worker has no descriptor of its window, of which others' may be in the file. */
static void test_no_window_descriptor(void **state)
{
    struct broker b;
    struct guest g;
    char path[300], to[300];
    unsigned count = 0;

    (void)state;
    assert_int_equal(start(&b, NULL), 0);
    assert_int_equal(guest_connect(&g, b.sock, "window"), 0);
    pid_t w = worker_of_client(b.pid);
    for (int fd = 0; fd < 64; fd++) {
        snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)w, fd);
        ssize_t n = readlink(path, to, sizeof(to) - 1);

        if (n <= 0)
            continue;
        to[n] = '\0';
        count++;
        assert_null(strstr(to, "vgpu-window"));
    }
    if (!count) {
        guest_close(&g);
        stop_broker(&b);
        print_message("not run: no_window_descriptor: /proc/PID/fd of workers cannot be read\n");
        skip();
    }
    guest_close(&g);
    stop_broker(&b);
}

static bool copy_file(const char *from, const char *to)
{
    char buf[1 << 16];
    FILE *in = fopen(from, "r"), *out = fopen(to, "w");
    size_t n;
    bool ok = in && out;

    while (ok && (n = fread(buf, 1, sizeof(buf), in)) > 0)
        ok = fwrite(buf, 1, n, out) == n;
    if (in)
        fclose(in);
    if (out)
        ok &= !fclose(out);
    return ok;
}

/* A provider in a folder that only the broker's user may enter, which the worker's may not be. */
static void test_private_provider(void **state)
{
    char dir[] = "/tmp/vgb-private-XXXXXX", from[600], to[64];
    const char *const extra[] = {"--provider", to, NULL};
    struct broker b;
    struct guest g;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(from, sizeof(from), "%s/tests/libtestprov.so", getenv("BACKEND_DIR"));
    snprintf(to, sizeof(to), "%s/private.so", dir);
    assert_true(copy_file(from, to));
    assert_int_equal(start(&b, extra), 0);
    assert_int_equal(guest_connect(&g, b.sock, "private"), 0);
    assert_int_equal(guest_context(&g), 0);
    guest_close(&g);
    stop_broker(&b);
    unlink(to);
    rmdir(dir);
}

/* A driver whose libraries are in a folder that neither the loader nor the policy knows. */
static void test_driver_elsewhere(void **state)
{
    static const char *const parts[][2] = {{"libtestprov.so", "libcuda.so.1"},
                                           {"testnvml.so", "libnvidia-ml.so.1"}};
    char dir[] = "/tmp/vgb-driver-XXXXXX", from[600], to[2][64];
    const char *const extra[] = {"--provider", to[0], NULL};
    struct broker b;
    struct guest g;
    const void *p;
    uint32_t size = 0;

    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chmod(dir, 0755), 0);
    for (unsigned i = 0; i < 2; i++) {
        snprintf(from, sizeof(from), "%s/tests/%s", getenv("BACKEND_DIR"), parts[i][0]);
        snprintf(to[i], sizeof(to[i]), "%s/%s", dir, parts[i][1]);
        assert_true(copy_file(from, to[i]));
    }
    assert_int_equal(start(&b, extra), 0);
    assert_int_equal(guest_connect(&g, b.sock, "driver"), 0);
    assert_int_equal(guest_context(&g), 0);
    guest_submit(&g, VGP_vgpNvmlInfo, 0, NULL, 0, NULL, 0);
    assert_int_equal(guest_wait(&g, 0, &p, &size, 60000), 0);
    assert_non_null(memmem(p, size, "123.45", 6));
    guest_close(&g);
    stop_broker(&b);
    for (unsigned i = 0; i < 2; i++)
        unlink(to[i]);
    rmdir(dir);
}

/* Copies work where the driver registers no memory, and the log says that they are slower, and the code. */
static void test_nothing_pinned(void **state)
{
    static const char data[16] = "fifteen letters";
    struct vgp_args_vgpCopy in = {.dstKind = VGP_COPY_DEVICE,
                                  .srcKind = VGP_COPY_INLINE,
                                  .widthBytes = sizeof(data),
                                  .height = 1,
                                  .depth = 1,
                                  .data_len = sizeof(data)};
    struct vgp_args_vgpCopy out = {.dstKind = VGP_COPY_REPLY,
                                   .srcKind = VGP_COPY_DEVICE,
                                   .widthBytes = sizeof(data),
                                   .height = 1,
                                   .depth = 1,
                                   .when = VGP_WHEN_COMPLETE};
    struct broker b;
    struct guest g;
    const void *p;

    (void)state;
    setenv("VGPU_TEST_NO_PIN", "1", 1);
    assert_int_equal(start(&b, NULL), 0);
    assert_int_equal(guest_connect(&g, b.sock, "pin"), 0);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(guest_alloc(&g, 4096, &in.dst), 0);
    out.src = in.dst;
    guest_submit(&g, VGP_vgpCopy, VGP_NO_REPLY, &in, sizeof(in), data, sizeof(data));
    assert_int_equal(guest_call(&g, VGP_vgpCopy, &out, sizeof(out), &p, NULL), 0);
    assert_memory_equal((const char *)p + sizeof(struct vgp_ret_vgpCopy), data, sizeof(data));
    for (int i = 0; i < 3000 && !file_has(log_name, "memory for staging are not pinned"); i++)
        usleep(10000); /* the broker writes the lines of its workers */
    assert_true(
        file_has(log_name, "memory for results are not pinned: cuMemHostRegister gives CUDA error 304"));
    assert_true(
        file_has(log_name, "memory for staging are not pinned: cuMemHostRegister gives CUDA error 304"));
    guest_close(&g);
    stop_broker(&b);
    unsetenv("VGPU_TEST_NO_PIN");
}

static void test_modes(void **state)
{
    static const char *const log_mode[] = {"--sandbox", "log", NULL};
    static const char *const off[] = {"--sandbox", "off", NULL};
    struct broker b;
    struct guest g;

    (void)state;
    assert_int_equal(start(&b, log_mode), 0);
    assert_int_equal(guest_connect(&g, b.sock, "log"), 0);
    assert_int_equal(guest_context(&g), 0);
    /* ptrace: made, and named in the log. */
    guest_memset(&g, 0, VALUE_SYSCALL, 0, 0);
    for (int i = 0; i < 3000 && !file_has(log_name, "would refuse ptrace"); i++)
        usleep(10000);
    assert_true(file_has(log_name, "would refuse ptrace"));
    assert_true(file_has(log_name, "sandbox of the workers: logs only"));
    guest_close(&g);
    stop_broker(&b);
    assert_int_equal(start(&b, off), 0);
    assert_int_equal(guest_connect(&g, b.sock, "off"), 0);
    assert_true(file_has(log_name, "sandbox of the workers: off"));
    guest_close(&g);
    stop_broker(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_assert_text),
        cmocka_unit_test(test_hmm),
        cmocka_unit_test(test_provider_refuses),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_shm),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_random_addresses),
        cmocka_unit_test(test_no_window_descriptor),
        cmocka_unit_test(test_private_provider),
        cmocka_unit_test(test_driver_elsewhere),
        cmocka_unit_test(test_nothing_pinned),
        cmocka_unit_test(test_modes),
    };

    return cmocka_run_group_tests_name("confine", tests, NULL, NULL);
}
