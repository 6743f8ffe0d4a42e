/* SPDX-License-Identifier: MIT */
/*
 * The host's end of the guest channel. The guest is not trusted: every length is bounded, and an
 * unknown frame ends the machine.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "vm/guest_channel.h"
#include "base/vgpu_cli.h"

#define LOG_MAX 4000      /* maximum length of a line of the guest's log, bytes */
#define AFTER_END_MS 3000 /* time to drain the channel after QEMU ended without EXIT */

/* Bytes queued for the guest; the channel is written without blocking, so that output flows on
 * while the program does not read its input. */
struct out {
    char *data;
    size_t len, off, room;
};

/*
 * Standard output or error. A reader may stop reading, so our writes have a time limit and can be
 * interrupted by signals.
 */
struct sink {
    int fd;
    bool is_socket;
};

enum stop { STOP_NOT, STOP_TIMEOUT, STOP_SIGNAL };

struct relay {
    struct vgpu_cli_vm *vm;
    struct out out;
    struct sink sinks[3]; /* by descriptor, from 1 */
    int64_t end_ms;       /* deadline of --timeout, ms of CLOCK_MONOTONIC */
    enum stop stop;
    char frame[sizeof(struct vgpu_cli_frame) + VGPU_CHANNEL_DATA_MAX];
    size_t have; /* number of bytes of `frame` received */
    bool input_open;
    bool done;
    struct vgpu_cli_exit end;
};

static struct termios saved_terminal;
static bool terminal_is_raw;

static void restore_terminal(void)
{
    if (terminal_is_raw)
        tcsetattr(0, TCSANOW, &saved_terminal);
    terminal_is_raw = false;
}

static void make_terminal_raw(void)
{
    struct termios raw;

    if (tcgetattr(0, &saved_terminal) != 0)
        return;
    raw = saved_terminal;
    cfmakeraw(&raw);
    atexit(restore_terminal);
    terminal_is_raw = tcsetattr(0, TCSANOW, &raw) == 0;
}

static void queue_bytes(struct out *o, const void *data, size_t size)
{
    if (o->off == o->len)
        o->off = o->len = 0;
    if (o->len + size > o->room) {
        o->room = o->len + size + 65536;
        o->data = realloc(o->data, o->room);
        if (!o->data)
            vgpu_cli_die("out of memory");
    }
    memcpy(o->data + o->len, data, size);
    o->len += size;
}

static void queue_frame(struct out *o, uint32_t type, const void *data, size_t size)
{
    struct vgpu_cli_frame f = {.length = (uint32_t)size, .type = type};

    queue_bytes(o, &f, sizeof(f));
    if (size)
        queue_bytes(o, data, size);
}

static void flush_out(struct out *o, int fd)
{
    while (o->off < o->len) {
        ssize_t n = send(fd, o->data + o->off, o->len - o->off, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n <= 0)
            return; /* full, or closed: detected by the reading side */
        o->off += (size_t)n;
    }
}

static void queue_request(struct relay *r)
{
    struct vgpu_cli_vm *vm = r->vm;
    struct vgpu_cli_run run = {
        .version = VGPU_CHANNEL_VERSION,
        .flags = (vm->tty ? VGPU_RUN_TTY : 0) | (vgpu_cli_vm_has_net(vm) ? VGPU_RUN_NET : 0),
        .uid = getuid(),
        .gid = getgid(),
        .shares = (uint32_t)vm->shares.count,
        .argc = (uint32_t)vm->args.count,
        .envc = (uint32_t)vm->env.count,
    };
    const struct vgpu_cli_list *lists[] = {&vm->shares, &vm->args, &vm->env};
    const char *driver = strcmp(vm->gpu, "none") == 0 ? "" : vgpu_cli_path(VGPU_PART_DRIVER);
    struct out body = {0};
    struct winsize ws;

    if (vm->tty && ioctl(0, TIOCGWINSZ, &ws) == 0) {
        run.rows = ws.ws_row;
        run.columns = ws.ws_col;
    }
    queue_bytes(&body, &run, sizeof(run));
    queue_bytes(&body, driver, strlen(driver) + 1);
    queue_bytes(&body, vm->cwd, strlen(vm->cwd) + 1);
    for (int l = 0; l < 3; l++) {
        for (size_t i = 0; i < lists[l]->count; i++)
            queue_bytes(&body, lists[l]->items[i], strlen(lists[l]->items[i]) + 1);
    }
    if (body.len > VGPU_CHANNEL_FRAME_MAX)
        vgpu_cli_die("arguments and environment are too long for the guest");
    queue_frame(&r->out, VGPU_FRAME_RUN, body.data, body.len);
    free(body.data);
}

/*
 * The open file may be shared with other programs, so O_NONBLOCK is set on a new open file: pipes
 * and terminals can be reopened. Files that cannot (a pipe of another user, for instance) are
 * written when poll() reports room, in pieces that fit into it.
 */
static void sink_open(struct sink *s, int fd)
{
    char path[32];
    struct stat st;

    *s = (struct sink){.fd = fd};
    if (fstat(fd, &st) != 0)
        return;
    s->is_socket = S_ISSOCK(st.st_mode);
    if (!S_ISFIFO(st.st_mode) && !isatty(fd))
        return;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    s->fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (s->fd < 0)
        s->fd = fd;
}

/* True: a signal requests the end of vgpu. */
static bool handle_signals(struct relay *r)
{
    struct signalfd_siginfo si;
    struct winsize ws;

    while (read(r->vm->signals, &si, sizeof(si)) == sizeof(si)) {
        switch (si.ssi_signo) {
        case SIGINT:
        case SIGTERM:
        case SIGHUP:
            r->end.value = si.ssi_signo;
            return true;
        case SIGWINCH:
            /* Not before the request, which contains the size at that time. */
            if (r->out.data && r->vm->tty && ioctl(0, TIOCGWINSZ, &ws) == 0) {
                uint16_t size[2] = {ws.ws_row, ws.ws_col};

                queue_frame(&r->out, VGPU_FRAME_WINSIZE, size, sizeof(size));
            }
            break;
        }
    }
    return false;
}

/* Waits until bytes can be written. False: vgpu is to end. */
static bool sink_wait(struct relay *r, const struct sink *s)
{
    while (r->stop == STOP_NOT) {
        struct pollfd fds[] = {{.fd = s->fd, .events = POLLOUT}, {.fd = r->vm->signals, .events = POLLIN}};
        int64_t left = r->end_ms - vgpu_cli_now_ms();

        poll(fds, 2, left > 1000000 ? 1000000 : left > 0 ? (int)left : 0);
        if (fds[1].revents && handle_signals(r))
            r->stop = STOP_SIGNAL;
        else if (fds[0].revents)
            return true;
        else if (left <= 0)
            r->stop = STOP_TIMEOUT;
    }
    return false;
}

static void write_fully(struct relay *r, const struct sink *s, const char *data, size_t size)
{
    while (size && sink_wait(r, s)) {
        size_t piece = size < PIPE_BUF ? size : PIPE_BUF;
        ssize_t n =
            s->is_socket ? send(s->fd, data, piece, MSG_DONTWAIT | MSG_NOSIGNAL) : write(s->fd, data, piece);

        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            return; /* the reader is gone; the program goes on, as with a closed terminal */
        data += n;
        size -= (size_t)n;
    }
}

static struct relay relay;

/* Prints vgpu's own messages: a guest that has filled standard error could block these as well. */
static void print_words(const char *text, size_t size)
{
    write_fully(&relay, &relay.sinks[2], text, size);
}

/* Returns the relay, initialised by the first call. */
static struct relay *get_relay(struct vgpu_cli_vm *vm)
{
    if (relay.vm)
        return &relay;
    relay.vm = vm;
    relay.end_ms = INT64_MAX;
    sink_open(&relay.sinks[1], 1);
    sink_open(&relay.sinks[2], 2);
    vgpu_cli_print = print_words;
    return &relay;
}

enum vgpu_cli_hello vgpu_cli_wait_hello(struct vgpu_cli_vm *vm, int timeout_ms, int *value)
{
    struct {
        struct vgpu_cli_frame frame;
        uint32_t version;
    } hello;
    int64_t end = vgpu_cli_now_ms() + timeout_ms;
    struct relay *r = get_relay(vm);

    for (;;) {
        struct pollfd fds[] = {{.fd = vm->channel, .events = POLLIN}, {.fd = vm->signals, .events = POLLIN}};
        int64_t left = end - vgpu_cli_now_ms();
        ssize_t n;

        if (left <= 0)
            return VGPU_HELLO_TIMEOUT;
        poll(fds, 2, (int)left);
        if (r->stop == STOP_SIGNAL || handle_signals(r)) {
            *value = (int)r->end.value;
            return VGPU_HELLO_STOPPED;
        }
        if (!fds[0].revents)
            continue;
        n = recv(vm->channel, &hello, sizeof(hello), MSG_PEEK | MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return VGPU_HELLO_DEAD;
        if (n < (ssize_t)sizeof(hello)) {
            poll(NULL, 0, 1);
            continue;
        }
        recv(vm->channel, &hello, sizeof(hello), 0);
        if (hello.frame.type != VGPU_FRAME_HELLO || hello.frame.length != sizeof(hello.version) ||
            hello.version != VGPU_CHANNEL_VERSION)
            vgpu_cli_die("the initramfs does not fit this vgpu command: build both again");
        return VGPU_HELLO_OK;
    }
}

static void handle_frame(struct relay *r, const struct vgpu_cli_frame *f, const char *data)
{
    switch (f->type) {
    case VGPU_FRAME_STDOUT:
        write_fully(r, &r->sinks[1], data, f->length);
        break;
    case VGPU_FRAME_STDERR:
        write_fully(r, &r->sinks[2], data, f->length);
        break;
    case VGPU_FRAME_LOG:
        vgpu_cli_say("guest: %.*s", (int)(f->length < LOG_MAX ? f->length : LOG_MAX), data);
        break;
    case VGPU_FRAME_EXIT:
        if (f->length != sizeof(r->end))
            vgpu_cli_die("the guest's last message is malformed");
        memcpy(&r->end, data, sizeof(r->end));
        r->done = true;
        break;
    default:
        vgpu_cli_die("the guest sent an unknown message (%u)", f->type);
    }
}

/* Receives the channel's pending data. False: the channel is closed. */
static bool receive_bytes(struct relay *r)
{
    const size_t header = sizeof(struct vgpu_cli_frame);
    ssize_t n = recv(r->vm->channel, r->frame + r->have, sizeof(r->frame) - r->have, MSG_DONTWAIT);
    size_t at = 0;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0)
        return false;
    r->have += (size_t)n;
    while (!r->done && r->stop == STOP_NOT && r->have - at >= header) {
        struct vgpu_cli_frame f;

        memcpy(&f, r->frame + at, header);
        if (f.length > VGPU_CHANNEL_DATA_MAX)
            vgpu_cli_die("the guest sent a message that is too long (%u bytes)", f.length);
        if (r->have - at < header + f.length)
            break;
        handle_frame(r, &f, r->frame + at + header);
        at += header + f.length;
    }
    memmove(r->frame, r->frame + at, r->have - at);
    r->have -= at;
    return true;
}

static void pass_input(struct relay *r)
{
    char buf[VGPU_CHANNEL_DATA_MAX / 2];
    ssize_t n = read(0, buf, sizeof(buf));

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        r->input_open = false;
        queue_frame(&r->out, VGPU_FRAME_STDIN_EOF, NULL, 0);
        return;
    }
    queue_frame(&r->out, VGPU_FRAME_STDIN, buf, (size_t)n);
}

static void __attribute__((noreturn)) guest_died(struct vgpu_cli_vm *vm)
{
    restore_terminal();
    vgpu_cli_stop(&vm->qemu, AFTER_END_MS);
    vgpu_cli_say("the virtual machine ended before the program did. QEMU's last words and the guest's:");
    if (vm->qemu_log)
        vgpu_cli_show_tail(vm->qemu_log, 10);
    vgpu_cli_show_tail(vm->console, 20);
    vgpu_cli_cleanup();
    exit(VGPU_CLI_FAILED);
}

/* Reading a terminal from a background job would stop vgpu. */
static bool may_read_input(void)
{
    return !isatty(0) || tcgetpgrp(0) == getpgrp();
}

static bool ends_a_process(uint32_t sig)
{
    switch (sig) {
    case 0:
    case SIGCHLD:
    case SIGCONT:
    case SIGURG:
    case SIGWINCH:
    case SIGSTOP:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
        return false;
    default:
        return sig <= (uint32_t)SIGRTMAX;
    }
}

static int end_status(const struct relay *r)
{
    switch (r->end.kind) {
    case VGPU_EXIT_STATUS:
        return (int)(r->end.value & 0xff) << 8;
    case VGPU_EXIT_SIGNAL:
        /*
         * vgpu ends by the program's signal, except by signals that stop a process or do not end
         * it.
         */
        return ends_a_process(r->end.value) ? (int)r->end.value : (int)((128 + (r->end.value & 0x7f)) << 8);
    case VGPU_EXIT_EXEC:
        return (r->end.value == ENOENT ? VGPU_CLI_NOT_FOUND : VGPU_CLI_CANNOT_RUN) << 8;
    default:
        return VGPU_CLI_FAILED << 8;
    }
}

static int timed_out(struct relay *r)
{
    restore_terminal();
    r->stop = STOP_NOT; /* the message is dropped if standard error is blocked too */
    vgpu_cli_say("--timeout: the program did not end within %ld s", r->vm->timeout_s);
    return VGPU_CLI_TIMEOUT << 8;
}

int vgpu_cli_relay(struct vgpu_cli_vm *vm)
{
    struct relay *r = get_relay(vm);

    r->end_ms = vm->timeout_s ? vgpu_cli_now_ms() + vm->timeout_s * 1000 : INT64_MAX;
    r->input_open = may_read_input();
    queue_request(r);
    if (!r->input_open)
        queue_frame(&r->out, VGPU_FRAME_STDIN_EOF, NULL, 0);
    if (vm->tty)
        make_terminal_raw();
    while (!r->done) {
        bool sending = r->out.off < r->out.len;
        struct pollfd fds[] = {
            {.fd = vm->channel, .events = sending ? POLLIN | POLLOUT : POLLIN},
            {.fd = vm->signals, .events = POLLIN},
            /* Input is read only as fast as the guest takes it. */
            {.fd = r->input_open && !sending ? 0 : -1, .events = POLLIN},
        };
        int64_t left = r->end_ms - vgpu_cli_now_ms();

        if (left <= 0 || r->stop == STOP_TIMEOUT)
            return timed_out(r);
        if (r->stop == STOP_NOT)
            poll(fds, 3, left > 1000000 ? 1000000 : (int)left);
        if (r->stop == STOP_SIGNAL || (fds[1].revents && handle_signals(r))) {
            restore_terminal();
            return (int)r->end.value;
        }
        if ((fds[0].revents & (POLLIN | POLLHUP | POLLERR)) && !receive_bytes(r))
            guest_died(vm);
        if (fds[2].revents)
            pass_input(r);
        flush_out(&r->out, vm->channel);
    }
    restore_terminal();
    return end_status(r);
}
