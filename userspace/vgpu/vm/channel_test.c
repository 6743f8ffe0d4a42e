/* SPDX-License-Identifier: MIT */
/*
 * The host's end of the guest channel against a guest that sends arbitrary data. Each case runs in
 * a child, since a guest that violates the protocol ends the command with VGPU_CLI_FAILED.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "vm/guest_channel.h"
#include "base/vgpu_cli.h"
#include "trace/events.h"

/*
 * ENDED_BY + signal number: exit status of a child in place of ending by that signal; otherwise
 * unused.
 */
#define ENDED_BY 20

struct bytes {
    char data[4 * VGPU_CHANNEL_DATA_MAX];
    size_t len;
};

static void put(struct bytes *b, uint32_t type, const void *data, uint32_t length, size_t really)
{
    struct vgpu_cli_frame f = {.length = length, .type = type};

    memcpy(b->data + b->len, &f, sizeof(f));
    b->len += sizeof(f);
    if (really)
        memcpy(b->data + b->len, data, really);
    b->len += really;
}

/* Runs the relay on the guest's data. Returns its exit status, -1 when it hangs; `out`: its
 * standard output. */
static int relay_on(const struct bytes *said, char *out, size_t out_size)
{
    int pair[2], pipe_fd[2], status, fill[2];
    pid_t pid;
    ssize_t n;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(pipe(pipe_fd), 0);
    assert_int_equal(pipe(fill), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        static struct vgpu_cli_vm vm = {.gpu = "none", .cwd = "/", .console = "/dev/null"};

        alarm(10);
        close(pair[1]);
        dup2(fill[0], 0);
        dup2(pipe_fd[1], 1);
        dup2(open("/dev/null", O_WRONLY), 2);
        vm.channel = pair[0];
        vm.signals = vgpu_cli_signals();
        vgpu_cli_add(&vm.args, "program");
        status = vgpu_cli_relay(&vm);
        _exit(WIFSIGNALED(status) ? ENDED_BY + WTERMSIG(status) : WEXITSTATUS(status));
    }
    close(pair[0]);
    close(pipe_fd[1]);
    assert_int_equal(write(pair[1], said->data, said->len), said->len);
    shutdown(pair[1], SHUT_WR);
    n = read(pipe_fd[0], out, out_size - 1);
    out[n > 0 ? n : 0] = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(pair[1]);
    close(pipe_fd[0]);
    close(fill[0]);
    close(fill[1]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int end_with(uint32_t kind, uint32_t value)
{
    struct vgpu_cli_exit e = {.kind = kind, .value = value};
    struct bytes b = {.len = 0};
    char out[64];

    put(&b, VGPU_FRAME_EXIT, &e, sizeof(e), sizeof(e));
    return relay_on(&b, out, sizeof(out));
}

static void test_ends(void **state)
{
    (void)state;
    assert_int_equal(end_with(VGPU_EXIT_STATUS, 0), 0);
    assert_int_equal(end_with(VGPU_EXIT_STATUS, 255), 255);
    assert_int_equal(end_with(VGPU_EXIT_STATUS, 0x10007), 7);
    assert_int_equal(end_with(VGPU_EXIT_SIGNAL, SIGSEGV), ENDED_BY + SIGSEGV);
    assert_int_equal(end_with(VGPU_EXIT_EXEC, ENOENT), VGPU_CLI_NOT_FOUND);
    assert_int_equal(end_with(VGPU_EXIT_EXEC, EACCES), VGPU_CLI_CANNOT_RUN);
    assert_int_equal(end_with(VGPU_EXIT_INIT, ENODEV), VGPU_CLI_FAILED);
    assert_int_equal(end_with(77, 0), VGPU_CLI_FAILED);
}

/* When vgpu ends as the program did, it must neither stop nor keep running. */
static void test_end_signals(void **state)
{
    static const int others[] = {SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGCHLD, SIGCONT, SIGURG, SIGWINCH};

    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_int_equal(end_with(VGPU_EXIT_SIGNAL, (uint32_t)others[i]), 128 + others[i]);
    assert_int_equal(end_with(VGPU_EXIT_SIGNAL, 0), 128);
    assert_int_equal(end_with(VGPU_EXIT_SIGNAL, 0x7f), 255);
    assert_int_equal(end_with(VGPU_EXIT_SIGNAL, 0x80000000u + SIGSTOP), 128 + SIGSTOP);
    assert_int_equal(end_with(VGPU_EXIT_SIGNAL, SIGTERM), ENDED_BY + SIGTERM);
}

static void test_output(void **state)
{
    struct vgpu_cli_exit e = {.kind = VGPU_EXIT_STATUS, .value = 3};
    struct bytes b = {.len = 0};
    char out[64];

    (void)state;
    put(&b, VGPU_FRAME_STDOUT, "hello ", 6, 6);
    put(&b, VGPU_FRAME_STDERR, "not here", 8, 8);
    put(&b, VGPU_FRAME_STDOUT, "", 0, 0);
    put(&b, VGPU_FRAME_LOG, "text", 4, 4);
    put(&b, VGPU_FRAME_EXIT, &e, sizeof(e), sizeof(e));
    put(&b, VGPU_FRAME_STDOUT, "late", 4, 4);
    assert_int_equal(relay_on(&b, out, sizeof(out)), 3);
    assert_string_equal(out, "hello ");
}

/*
 * Runs the relay on the guest's data while its output is not read. Returns its status, -1 when it
 * hangs. `sig`: sent to the relay when `full` has no room.
 */
static int relay_said(const struct bytes *b, int output, int error, long timeout_s, int sig, int full)
{
    int pair[2], fill[2], status;
    pid_t pid;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(pipe(fill), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        static struct vgpu_cli_vm vm = {.gpu = "none", .cwd = "/", .console = "/dev/null"};

        alarm(20);
        close(pair[1]);
        dup2(fill[0], 0);
        dup2(output, 1);
        dup2(error, 2);
        vm.channel = pair[0];
        vm.timeout_s = timeout_s;
        vm.signals = vgpu_cli_signals();
        vgpu_cli_add(&vm.args, "program");
        status = vgpu_cli_relay(&vm);
        _exit(WIFSIGNALED(status) ? ENDED_BY + WTERMSIG(status) : WEXITSTATUS(status));
    }
    close(pair[0]);
    assert_int_equal(write(pair[1], b->data, b->len), b->len);
    struct pollfd room = {.fd = full, .events = POLLOUT};

    for (int i = 0; sig && i < 10000 && poll(&room, 1, 0) > 0; i++)
        usleep(1000);
    if (sig)
        kill(pid, sig);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(pair[1]);
    close(fill[0]);
    close(fill[1]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int relay_unread(int output, int error, long timeout_s, int sig)
{
    static const char text[VGPU_CHANNEL_DATA_MAX];
    static struct bytes b;

    b.len = 0;
    for (int i = 0; i < 3; i++) /* more than a pipe holds */
        put(&b, VGPU_FRAME_STDOUT, text, VGPU_CHANNEL_DATA_MAX, VGPU_CHANNEL_DATA_MAX);
    return relay_said(&b, output, error, timeout_s, sig, output);
}

static void test_unread(void **state)
{
    int pipe_fd[2], other[2], sockets[2], small = 4096;
    int null = open("/dev/null", O_WRONLY);

    (void)state;
    assert_int_equal(pipe(pipe_fd), 0);
    assert_int_equal(pipe(other), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    assert_int_equal(setsockopt(sockets[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    assert_int_equal(relay_unread(pipe_fd[1], null, 1, 0), VGPU_CLI_TIMEOUT);
    assert_int_equal(fcntl(pipe_fd[1], F_GETFL) & O_NONBLOCK, 0); /* the open file is shared */
    assert_int_equal(relay_unread(pipe_fd[1], pipe_fd[1], 1, 0), VGPU_CLI_TIMEOUT);
    assert_int_equal(relay_unread(sockets[1], null, 1, 0), VGPU_CLI_TIMEOUT);
    assert_int_equal(relay_unread(other[1], null, 0, SIGTERM), ENDED_BY + SIGTERM);
    for (int i = 0; i < 2; i++) {
        close(pipe_fd[i]);
        close(other[i]);
    }
    close(sockets[0]);
    close(sockets[1]);
    close(null);
}

/*
 * Same for vgpu's own messages: the guest fills standard error completely, then violates the
 * protocol.
 */
static void test_unread_words(void **state)
{
    static char text[VGPU_CHANNEL_DATA_MAX];
    static struct bytes b;
    int null = open("/dev/null", O_WRONLY), error[2], terminal;
    size_t room;

    (void)state;
    assert_int_equal(pipe(error), 0);
    room = (size_t)fcntl(error[1], F_GETPIPE_SZ);
    b.len = 0;
    for (size_t n; room; room -= n) {
        n = room < sizeof(text) ? room : sizeof(text);
        put(&b, VGPU_FRAME_STDERR, text, (uint32_t)n, n);
    }
    put(&b, 99, "x", 1, 1);
    assert_int_equal(relay_said(&b, null, error[1], 1, 0, -1), VGPU_CLI_FAILED);
    close(error[0]);
    close(error[1]);
    /* Without a time limit a signal ends the relay. */
    assert_int_equal(pipe(error), 0);
    assert_int_equal(relay_said(&b, null, error[1], 0, SIGTERM, error[1]), VGPU_CLI_FAILED);
    close(error[0]);
    close(error[1]);
    /* A terminal has less room than the message needs. */
    terminal = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0 && !grantpt(terminal) && !unlockpt(terminal));
    error[1] = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    assert_true(error[1] >= 0);
    memset(text, 'a', sizeof(text));
    b.len = 0;
    for (int i = 0; i < 30; i++)
        put(&b, VGPU_FRAME_LOG, text, 3901, 3901);
    assert_int_equal(relay_said(&b, null, error[1], 1, 0, -1), VGPU_CLI_TIMEOUT);
    close(error[1]);
    close(terminal);
    close(null);
}

/* Lengths at the limit and above it by 1. */
static void test_length_limit(void **state)
{
    struct vgpu_cli_exit e = {.kind = VGPU_EXIT_STATUS, .value = 0};
    static char data[VGPU_CHANNEL_DATA_MAX + 1];
    static struct bytes b;
    char out[64];

    (void)state;
    b.len = 0;
    put(&b, VGPU_FRAME_STDERR, data, VGPU_CHANNEL_DATA_MAX, VGPU_CHANNEL_DATA_MAX);
    put(&b, VGPU_FRAME_EXIT, &e, sizeof(e), sizeof(e));
    assert_int_equal(relay_on(&b, out, sizeof(out)), 0);
    b.len = 0;
    put(&b, VGPU_FRAME_STDERR, data, VGPU_CHANNEL_DATA_MAX + 1, VGPU_CHANNEL_DATA_MAX + 1);
    put(&b, VGPU_FRAME_EXIT, &e, sizeof(e), sizeof(e));
    assert_int_equal(relay_on(&b, out, sizeof(out)), VGPU_CLI_FAILED);
    b.len = 0;
    put(&b, VGPU_FRAME_STDOUT, NULL, UINT32_MAX, 0);
    assert_int_equal(relay_on(&b, out, sizeof(out)), VGPU_CLI_FAILED);
}

static void test_malformed(void **state)
{
    struct bytes b = {.len = 0};
    char out[64];

    (void)state;
    put(&b, 99, "x", 1, 1); /* unknown type */
    assert_int_equal(relay_on(&b, out, sizeof(out)), VGPU_CLI_FAILED);
    b.len = 0;
    put(&b, VGPU_FRAME_RUN, "x", 1, 1); /* a frame of the other direction */
    assert_int_equal(relay_on(&b, out, sizeof(out)), VGPU_CLI_FAILED);
    b.len = 0;
    put(&b, VGPU_FRAME_EXIT, "xxxx", 4, 4); /* EXIT frame too short */
    assert_int_equal(relay_on(&b, out, sizeof(out)), VGPU_CLI_FAILED);
    b.len = 0;
    put(&b, VGPU_FRAME_STDOUT, "x", 5, 1); /* ends in the middle of a frame */
    assert_int_equal(relay_on(&b, out, sizeof(out)), VGPU_CLI_FAILED);
    b.len = 0;
    assert_int_equal(relay_on(&b, out, sizeof(out)), VGPU_CLI_FAILED); /* no data at all */
}

/* Waits for HELLO on the guest's data. Returns the enum, or 100 + the child's exit status. */
static int hello_on(const void *data, size_t len, bool close_it)
{
    int pair[2], status;
    pid_t pid;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        static struct vgpu_cli_vm vm;
        int value;

        alarm(10);
        close(pair[1]);
        dup2(open("/dev/null", O_WRONLY), 2);
        vm.channel = pair[0];
        vm.signals = vgpu_cli_signals();
        _exit(50 + (int)vgpu_cli_wait_hello(&vm, 300, &value));
    }
    close(pair[0]);
    assert_int_equal(write(pair[1], data, len), len);
    if (close_it)
        close(pair[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!close_it)
        close(pair[1]);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status) < 100 ? WEXITSTATUS(status) - 50 : WEXITSTATUS(status);
}

static void test_hello(void **state)
{
    uint32_t good[] = {4, VGPU_FRAME_HELLO, VGPU_CHANNEL_VERSION};
    uint32_t version[] = {4, VGPU_FRAME_HELLO, VGPU_CHANNEL_VERSION + 1};
    uint32_t type[] = {4, VGPU_FRAME_STDOUT, VGPU_CHANNEL_VERSION};
    uint32_t length[] = {8, VGPU_FRAME_HELLO, VGPU_CHANNEL_VERSION};

    (void)state;
    assert_int_equal(hello_on(good, sizeof(good), false), VGPU_HELLO_OK);
    assert_int_equal(hello_on(good, 7, false), VGPU_HELLO_TIMEOUT);
    assert_int_equal(hello_on(good, 0, true), VGPU_HELLO_DEAD);
    assert_int_equal(hello_on(version, sizeof(version), false), VGPU_CLI_FAILED);
    assert_int_equal(hello_on(type, sizeof(type), false), VGPU_CLI_FAILED);
    assert_int_equal(hello_on(length, sizeof(length), false), VGPU_CLI_FAILED);
}

/* Runs `run` in a child and reads its standard error. Returns its exit status. */
static int said_by(int (*run)(const char *path), const char *path, char *text, size_t room)
{
    int out[2], status;
    size_t have = 0;
    ssize_t n;

    assert_int_equal(pipe(out), 0);
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(60);
        dup2(out[1], 2);
        close(out[0]);
        close(out[1]);
        exit(run(path));
    }
    close(out[1]);
    while ((n = read(out[0], text + have, room - 1 - have)) > 0)
        have += (size_t)n;
    text[have] = '\0';
    close(out[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int show(const char *path)
{
    vgpu_cli_show_tail(path, 5);
    vgpu_cli_say("guest: \x1b[2J\xc2\x9b"
                 "1A %s",
                 "\xc3\xa4");
    return 0;
}

/* The tails of a guest's console and log contain no terminal control characters. */
static void test_harmless(void **state)
{
    const char *console = "first\n\x1b]0;title\x07 \xc2\x9b"
                          "2J\xc3\xa4\x7f\n";
    char path[] = "/tmp/vgpu-tail-XXXXXX", text[400];
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, console, strlen(console)), strlen(console));
    close(fd);
    assert_int_equal(said_by(show, path, text, sizeof(text)), 0);
    assert_string_equal(text, "    first\n    ?]0;title? ??2J\xc3\xa4?\nvgpu: guest: ?[2J??1A \xc3\xa4\n");
    unlink(path);
}

/* With --verbose QEMU's log is vgpu's own standard error: reading a pipe would not end. */
static void test_tail_of_a_pipe(void **state)
{
    char text[400];

    (void)state;
    assert_int_equal(said_by(show, "/dev/stderr", text, sizeof(text)), 0);
    assert_string_equal(text, "vgpu: guest: ?[2J??1A \xc3\xa4\n");
}

/* Clean-up after a failed boot: vgpu's files are removed, the user's log and /dev/stderr stay. */
static void test_drop_logs(void **state)
{
    struct vgpu_cli_vm vm = {0};
    char log[] = "/tmp/vgpu-log-XXXXXX", console[] = "/tmp/vgpu-console-XXXXXX";
    int l = mkstemp(log), c = mkstemp(console);

    (void)state;
    assert_true(l >= 0 && c >= 0);
    vm.console = console; /* as with --verbose: no log of QEMU */
    vgpu_cli_vm_drop_logs(&vm);
    assert_int_equal(access(console, F_OK), 0);
    vm.qemu_log = log;
    vm.keep_log = console;
    vgpu_cli_vm_drop_logs(&vm);
    assert_int_equal(access(console, F_OK), 0);
    assert_int_equal(access(log, F_OK), -1);
    vm.keep_log = NULL;
    vgpu_cli_vm_drop_logs(&vm);
    assert_int_equal(access(console, F_OK), -1);
    close(l);
    close(c);
}

static int ctl(const char *path)
{
    char *argv[] = {"ctl", "--socket", (char *)path, "get", NULL};

    return vgpu_cli_ctl(4, argv);
}

/* A backend that was taken over accepts no connection: clients get an error. */
static void test_deaf_backend(void **state)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char dir[] = "/tmp/vgpu-deaf-XXXXXX", text[400];
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), filling = -1;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(a.sun_path, sizeof(a.sun_path), "%s/s", dir);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(fd, 0), 0);
    for (int i = 0; i < 4; i++) {
        filling = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (connect(filling, (struct sockaddr *)&a, sizeof(a)))
            break;
    }
    assert_int_equal(said_by(ctl, a.sun_path, text, sizeof(text)), VGPU_CLI_FAILED);
    assert_non_null(strstr(text, a.sun_path));
    close(filling);
    close(fd);
    unlink(a.sun_path);
    rmdir(dir);
}

/* Returns VmHWM, KiB. */
static long peak_kib(void)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[200];
    long kib = -1;

    while (f && fgets(line, sizeof(line), f))
        sscanf(line, "VmHWM: %ld", &kib);
    if (f)
        fclose(f);
    return kib;
}

#define EVENT \
    "{\"type\":\"call\",\"time\":1,\"pid\":1,\"tid\":1,\"call\":\"cuInit\",\"args\":\"\",\"result\":\"CUDA_SUCCESS\",\"code\":0,\"us\":1.000}\n"
#define PEAK_KIB 100000

/*
 * The file read by `vgpu trace --vm` may have been written by the guest: any size, without a
 * newline.
 */
static void test_trace_without_lines(void **state)
{
    static char much[100000];
    struct vgpu_cli_events events;
    char path[] = "/tmp/vgpu-events-XXXXXX";
    int fd = mkstemp(path), status;
    pid_t pid;

    (void)state;
    assert_true(fd >= 0);
    memset(much, 'x', sizeof(much) - 1);
    assert_true(dprintf(fd, EVENT "%s\n" EVENT, much) > 0);
    vgpu_cli_events_read(&events, path);
    assert_int_equal(events.count, 2);
    assert_int_equal(events.odd, 1);
    assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct rlimit most = {(rlim_t)1 << 30, (rlim_t)1 << 30};

        setrlimit(RLIMIT_AS, &most);
        alarm(120);
        vgpu_cli_events_read(&events, path);
        _exit(events.count != 2 || peak_kib() > PEAK_KIB);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(fd);
    unlink(path);
}

/* Reasons that all begin alike, the same ones many times, and more of them than are printed. */
static void test_trace_of_reasons(void **state)
{
    enum { KINDS = 1000, TIMES = 150000, LENGTH = 4000 };
    static char text[KINDS + 1][LENGTH + 8], out[(KINDS + 9) * (LENGTH + 64)];
    struct vgpu_cli_events events = {.count = KINDS + TIMES + 2};
    struct vgpu_cli_event *e;
    clock_t began;
    FILE *f;

    (void)state;
    e = events.list = calloc(events.count, sizeof(*events.list));
    assert_non_null(e);
    for (size_t i = 0; i < events.count; i++) {
        const size_t k = i < KINDS ? i : i < KINDS + TIMES ? KINDS - 1 : KINDS;

        memset(text[k], 'x', LENGTH);
        snprintf(text[k] + LENGTH, sizeof(text[k]) - LENGTH, "%zu.", k);
        e[i] =
            (struct vgpu_cli_event){.type = VGPU_EVENT_REFUSAL, .call = (char[]){"cuFly"}, .text = text[k]};
    }
    f = fmemopen(out, sizeof(out), "w");
    assert_non_null(f);
    began = clock();
    vgpu_cli_events_totals(&events, NULL, 0, f);
    assert_true(clock() - began < 4 * CLOCKS_PER_SEC);
    fclose(f);
    for (size_t k = 0; k < 2; k++) {
        const char *at = strstr(out, k ? "x999." : "x0.");

        assert_non_null(at);
        assert_null(strstr(at + 1, k ? "x999." : "x0."));
    }
    assert_null(strstr(out, "x1000."));
    assert_non_null(strstr(out, "and others"));
    free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_end_signals),
        cmocka_unit_test(test_output),
        cmocka_unit_test(test_unread),
        cmocka_unit_test(test_length_limit),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_hello),
        cmocka_unit_test(test_harmless),
        cmocka_unit_test(test_tail_of_a_pipe),
        cmocka_unit_test(test_drop_logs),
        cmocka_unit_test(test_deaf_backend),
        cmocka_unit_test(test_unread_words),
        cmocka_unit_test(test_trace_without_lines),
        cmocka_unit_test(test_trace_of_reasons),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    print_message("userspace/vgpu/channel: %d passed, %d failed, 0 skipped\n",
                  (int)(sizeof(tests) / sizeof(tests[0])) - failed, failed);
    return failed != 0;
}
