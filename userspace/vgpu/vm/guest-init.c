/* SPDX-License-Identifier: MIT */
/*
 * init of the guest that `vgpu vm run` boots: the only program in its initramfs, statically linked.
 *
 * It loads the modules for access to the host, mounts the host's root read-only over 9p under a
 * tmpfs overlay and the shared directories over it, loads vgpu_drv.ko, runs the requested program,
 * relays its input and output, reports its end and waits for power-off.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>
#include <dirent.h>
#include <grp.h>

#include "base/vgpu_cli.h"
#include "vm/guest_channel.h"
#include "vm/guest_net.h"

#define ROOT "/newroot"
#define NINEP "trans=virtio,version=9p2000.L,msize=524288,access=any,cache=loose"
#define PORT_WAIT_MS 10000 /* the port appears some ms after its module; later on an emulated CPU */

static int channel = -1; /* the virtio-serial port */
static struct vgpu_cli_run run;
static const char *driver, *cwd;
static char **shares, **args, **env;

static bool write_all(int fd, const void *data, size_t size)
{
    const char *p = data;

    while (size) {
        ssize_t n = write(fd, p, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}

static bool read_all(int fd, void *data, size_t size)
{
    char *p = data;

    while (size) {
        ssize_t n = read(fd, p, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}

static void send_frame(uint32_t type, const void *data, size_t size)
{
    struct vgpu_cli_frame f = {.length = (uint32_t)size, .type = type};
    char buf[sizeof(f) + 512];

    /* Small frames in a single write: each write is a trip through the emulated device. */
    if (size <= 512) {
        memcpy(buf, &f, sizeof(f));
        if (size)
            memcpy(buf + sizeof(f), data, size);
        write_all(channel, buf, sizeof(f) + size);
        return;
    }
    write_all(channel, &f, sizeof(f));
    write_all(channel, data, size);
}

__attribute__((format(printf, 1, 2))) static void note(const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (channel >= 0)
        send_frame(VGPU_FRAME_LOG, text, strlen(text));
    else
        fprintf(stderr, "vgpu init: %s\n", text);
}

/* Reports the end and stops the machine. The host may power it off once it has read the report. */
static void __attribute__((noreturn)) finish(uint32_t kind, uint32_t value)
{
    struct vgpu_cli_exit e = {.kind = kind, .value = value};

    kill(-1, SIGKILL);
    /* Unmounting writes back the shared directories' data in the page cache. */
    for (uint32_t i = run.shares; i-- > 0;) {
        char at[4200];

        snprintf(at, sizeof(at), ROOT "%s", shares[i]);
        for (int tries = 0; umount(at) != 0 && errno == EBUSY && tries < 50; tries++)
            usleep(10000);
    }
    sync();
    if (channel >= 0)
        send_frame(VGPU_FRAME_EXIT, &e, sizeof(e));
    reboot(RB_POWER_OFF);
    for (;;)
        pause();
}

static void must_mount(const char *source, const char *target, const char *type, unsigned long flags,
                       const char *options)
{
    if (mount(source, target, type, flags, options) == 0)
        return;
    note("cannot mount %s (%s) on %s: %s", source, type, target, strerror(errno));
    finish(VGPU_EXIT_INIT, (uint32_t)errno);
}

/* Loads a module file. Returns 0 or errno. */
static int load_module(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int err = 0;

    if (fd < 0)
        return errno;
    if (syscall(SYS_finit_module, fd, "", 0) != 0 && errno != EEXIST)
        err = errno;
    close(fd);
    return err;
}

/* /modules/order: a file name per line, dependencies first. */
static void load_modules(void)
{
    FILE *f = fopen("/modules/order", "re");
    char line[256], path[300];

    if (!f)
        return;
    while (fgets(line, sizeof(line), f)) {
        int err;

        line[strcspn(line, "\n")] = 0;
        snprintf(path, sizeof(path), "/modules/%s", line);
        err = load_module(path);
        if (err)
            note("cannot load %s: %s", line, strerror(err));
    }
    fclose(f);
}

/* Opens the port with our name, or returns -1. */
static int open_channel(void)
{
    struct dirent *e;
    int fd = -1;
    DIR *d = opendir("/sys/class/virtio-ports");

    while (d && fd < 0 && (e = readdir(d))) {
        char path[400], name[64] = "";
        FILE *f;

        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "/sys/class/virtio-ports/%s/name", e->d_name);
        f = fopen(path, "re");
        if (!f)
            continue;
        if (!fgets(name, sizeof(name), f))
            name[0] = 0;
        fclose(f);
        name[strcspn(name, "\n")] = 0;
        snprintf(path, sizeof(path), "/dev/%s", e->d_name);
        if (strcmp(name, VGPU_CHANNEL_NAME) == 0)
            fd = open(path, O_RDWR | O_CLOEXEC);
    }
    if (d)
        closedir(d);
    return fd;
}

/* Returns the next string of the RUN frame, which ends with a NUL added by the reader. */
static char *next_string(char **p, char *end)
{
    char *s = *p;

    if (s >= end) {
        note("the host's request is malformed");
        finish(VGPU_EXIT_INIT, EPROTO);
    }
    *p = s + strlen(s) + 1;
    return s;
}

static char **string_list(uint32_t n, char **p, char *end)
{
    char **list = calloc((size_t)n + 1, sizeof(*list));

    for (uint32_t i = 0; list && i < n; i++)
        list[i] = next_string(p, end);
    return list;
}

static void read_request(void)
{
    struct vgpu_cli_frame f;
    char *data, *p, *end;

    if (!read_all(channel, &f, sizeof(f)) || f.type != VGPU_FRAME_RUN || f.length < sizeof(run) ||
        f.length > VGPU_CHANNEL_FRAME_MAX)
        finish(VGPU_EXIT_INIT, EPROTO);
    data = malloc((size_t)f.length + 1);
    if (!data || !read_all(channel, data, f.length))
        finish(VGPU_EXIT_INIT, ENOMEM);
    data[f.length] = 0;
    memcpy(&run, data, sizeof(run));
    if (run.version != VGPU_CHANNEL_VERSION || run.argc == 0 || run.argc > f.length || run.envc > f.length ||
        run.shares > 64) {
        run.shares = 0;
        note("the initramfs does not fit this vgpu command: build both again");
        finish(VGPU_EXIT_INIT, EPROTO);
    }
    p = data + sizeof(run);
    end = data + f.length;
    driver = next_string(&p, end);
    cwd = next_string(&p, end);
    shares = string_list(run.shares, &p, end);
    args = string_list(run.argc, &p, end);
    env = string_list(run.envc, &p, end);
}

static void mount_root(void)
{
    mkdir("/lower", 0755);
    mkdir("/rw", 0755);
    mkdir(ROOT, 0755);
    must_mount("root", "/lower", "9p", MS_RDONLY, NINEP);
    must_mount("tmpfs", "/rw", "tmpfs", 0, "mode=755");
    mkdir("/rw/upper", 0755);
    mkdir("/rw/work", 0755);
    must_mount("overlay", ROOT, "overlay", 0, "lowerdir=/lower,upperdir=/rw/upper,workdir=/rw/work");
    must_mount("/dev", ROOT "/dev", NULL, MS_MOVE, NULL);
    must_mount("proc", ROOT "/proc", "proc", 0, NULL);
    must_mount("sysfs", ROOT "/sys", "sysfs", 0, NULL);
    must_mount("tmpfs", ROOT "/run", "tmpfs", 0, "mode=755");
    mkdir(ROOT "/dev/pts", 0755);
    mkdir(ROOT "/dev/shm", 01777);
    must_mount("devpts", ROOT "/dev/pts", "devpts", 0, "ptmxmode=0666,mode=620,gid=5");
    must_mount("tmpfs", ROOT "/dev/shm", "tmpfs", 0, "mode=1777");
    if (symlink("/proc/self/fd", ROOT "/dev/fd") || symlink("fd/0", ROOT "/dev/stdin") ||
        symlink("fd/1", ROOT "/dev/stdout") || symlink("fd/2", ROOT "/dev/stderr"))
        note("cannot make /dev/fd: %s", strerror(errno));
    for (uint32_t i = 0; i < run.shares; i++) {
        char tag[16], at[4200];

        snprintf(tag, sizeof(tag), "share%u", i);
        snprintf(at, sizeof(at), ROOT "%s", shares[i]);
        must_mount(tag, at, "9p", 0, NINEP);
    }
}

/* Logs the kernel's messages about our driver, for the reason of a failure. */
static void note_kernel_log(void)
{
    static char log[1 << 18];
    int n = klogctl(3 /* SYSLOG_ACTION_READ_ALL */, log, sizeof(log) - 1);

    for (char *save = NULL, *line = n > 0 ? strtok_r(log, "\n", &save) : NULL; line;
         line = strtok_r(NULL, "\n", &save)) {
        if (strstr(line, "vgpu"))
            note("%s", line);
    }
}

/* Opens the devices to all users of the guest; they are numbered without gaps and appear
 * together. */
static void open_nodes(void)
{
    char path[64], node[16], nvidia[64];

    for (unsigned i = 0; i < 64; i++) {
        snprintf(node, sizeof(node), "vgpu%u", i);
        snprintf(path, sizeof(path), ROOT "/dev/%s", node);
        if (access(path, F_OK) != 0)
            break;
        if (run.uid != 0 && chmod(path, 0666) != 0)
            note("cannot open /dev/%s to users: %s", node, strerror(errno));
        /* JAX does not try CUDA without the first of these. */
        snprintf(nvidia, sizeof(nvidia), ROOT "/dev/nvidia%u", i);
        if (symlink(node, nvidia) != 0 && errno != EEXIST)
            note("cannot make /dev/nvidia%u: %s", i, strerror(errno));
    }
}

/* Loads the GPU driver from the host's tree and opens its devices to all users of the guest. */
static void load_driver(void)
{
    char path[4200];
    int err;

    if (!driver[0])
        return;
    snprintf(path, sizeof(path), ROOT "%s", driver);
    err = load_module(path);
    if (err) {
        note("cannot load %s: %s", driver, strerror(err));
        note_kernel_log();
        finish(VGPU_EXIT_INIT, (uint32_t)err);
    }
    for (int i = 0; i < 3000 && access(ROOT "/dev/vgpu0", F_OK) != 0; i++)
        usleep(10000);
    if (access(ROOT "/dev/vgpu0", F_OK) != 0) {
        note("%s is loaded, but /dev/vgpu0 did not appear", driver);
        note_kernel_log();
        finish(VGPU_EXIT_INIT, ENODEV);
    }
    open_nodes();
}

struct program {
    pid_t pid;
    int in, out, err;                    /* own ends, -1: closed; terminal: in == out, err = -1 */
    char pending[VGPU_CHANNEL_DATA_MAX]; /* input that the program has not read yet */
    size_t pending_len, pending_off;
    bool eof; /* close `in` once pending is written */
};

/* Why the program was not started, reported to the host. */
struct failure {
    int error;
    char why[300];
};

/* Called by base/util.c; the program's process has nothing to clean up. */
void vgpu_cli_cleanup(void)
{
}

/* Becomes the program, in the child. Reports a failure over `report`. */
static void __attribute__((noreturn)) become_program(int report)
{
    struct vgpu_cli_list list = {.items = env, .count = run.envc};
    struct failure f = {.error = 0};
    bool there = false;
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (chroot(ROOT) == 0 && chdir(cwd) == 0 && setgroups(0, NULL) == 0 && setgid(run.gid) == 0 &&
        setuid(run.uid) == 0) {
        environ = env; /* the search for the program uses the program's PATH */
        there = true;
        execvp(args[0], args);
    }
    f.error = errno;
    snprintf(f.why, sizeof(f.why), "%s",
             there ? vgpu_cli_program_why_not(&list, args[0], f.error) : strerror(f.error));
    write_all(report, &f, sizeof(f));
    _exit(127);
}

static int open_terminal(int *slave)
{
    struct winsize ws = {.ws_row = run.rows, .ws_col = run.columns};
    int unlocked = 0, n = 0, fd = open(ROOT "/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    char path[64];

    if (fd < 0 || ioctl(fd, TIOCSPTLCK, &unlocked) || ioctl(fd, TIOCGPTN, &n))
        return -1;
    ioctl(fd, TIOCSWINSZ, &ws);
    snprintf(path, sizeof(path), ROOT "/dev/pts/%d", n);
    *slave = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    return *slave < 0 ? -1 : fd;
}

static void start_program(struct program *p)
{
    int in[2], out[2], err[2], report[2], slave = -1;
    struct failure failure;
    bool tty = run.flags & VGPU_RUN_TTY;

    if (pipe2(report, O_CLOEXEC))
        finish(VGPU_EXIT_INIT, (uint32_t)errno);
    if (tty) {
        p->in = p->out = open_terminal(&slave);
        p->err = -1;
        if (p->in < 0)
            finish(VGPU_EXIT_INIT, (uint32_t)errno);
    } else {
        if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
            finish(VGPU_EXIT_INIT, (uint32_t)errno);
        p->in = in[1];
        p->out = out[0];
        p->err = err[0];
        /* The program may run as another user and reopen /dev/stdout by name. */
        if (fchown(in[0], run.uid, run.gid) || fchown(out[1], run.uid, run.gid) ||
            fchown(err[1], run.uid, run.gid))
            note("cannot give the pipes away: %s", strerror(errno));
    }
    p->pid = fork();
    if (p->pid < 0)
        finish(VGPU_EXIT_INIT, (uint32_t)errno);
    if (p->pid == 0) {
        setsid();
        dup2(tty ? slave : in[0], 0);
        dup2(tty ? slave : out[1], 1);
        dup2(tty ? slave : err[1], 2);
        if (tty)
            ioctl(0, TIOCSCTTY, 0);
        become_program(report[1]);
    }
    if (tty) {
        close(slave);
    } else {
        close(in[0]);
        close(out[1]);
        close(err[1]);
    }
    close(report[1]);
    if (read_all(report[0], &failure, sizeof(failure))) {
        note("cannot run %s in %s: %s", args[0], cwd, failure.why);
        finish(VGPU_EXIT_EXEC, (uint32_t)failure.error);
    }
    close(report[0]);
    fcntl(p->in, F_SETFL, O_NONBLOCK);
}

/* Relays the pending data of an output pipe. False: end of file. */
static bool pass_output(int fd, uint32_t type)
{
    static char buf[VGPU_CHANNEL_DATA_MAX];
    ssize_t n = read(fd, buf, sizeof(buf));

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (n <= 0)
        return false;
    send_frame(type, buf, (size_t)n);
    return true;
}

static void pass_input(struct program *p)
{
    while (p->in >= 0 && p->pending_off < p->pending_len) {
        ssize_t n = write(p->in, p->pending + p->pending_off, p->pending_len - p->pending_off);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) { /* the program has closed its input */
            p->pending_len = 0;
            p->eof = true;
            break;
        }
        p->pending_off += (size_t)n;
    }
    p->pending_off = p->pending_len = 0;
    if (p->eof && p->in >= 0 && p->in != p->out) {
        close(p->in);
        p->in = -1;
    }
}

static void host_frame(struct program *p)
{
    struct vgpu_cli_frame f;
    uint32_t value = 0;

    if (!read_all(channel, &f, sizeof(f)) || f.length > sizeof(p->pending) ||
        !read_all(channel, p->pending, f.length)) {
        kill(-p->pid, SIGKILL); /* the host is gone or out of step: nobody awaits the result */
        reboot(RB_POWER_OFF);
    }
    memcpy(&value, p->pending, sizeof(value));
    switch (f.type) {
    case VGPU_FRAME_STDIN:
        p->pending_len = p->in >= 0 ? f.length : 0;
        p->pending_off = 0;
        break;
    case VGPU_FRAME_STDIN_EOF:
        p->eof = true;
        break;
    case VGPU_FRAME_SIGNAL:
        kill(-p->pid, (int)value);
        break;
    case VGPU_FRAME_WINSIZE: {
        struct winsize ws = {.ws_row = (unsigned short)(value & 0xffff),
                             .ws_col = (unsigned short)(value >> 16)};

        if (run.flags & VGPU_RUN_TTY)
            ioctl(p->in, TIOCSWINSZ, &ws);
        break;
    }
    }
    pass_input(p);
}

/* Relays until the program has ended and its output is passed on. Returns its wait status. */
static int relay_program(struct program *p, int signals)
{
    bool ended = false;
    int status = 0;

    for (;;) {
        /* While input is pending, no further frame is read: the host's side fills up. */
        short out_events = p->pending_len && p->in == p->out ? POLLIN | POLLOUT : POLLIN;
        struct pollfd fds[] = {
            {.fd = p->pending_len ? -1 : channel, .events = POLLIN},
            {.fd = p->out, .events = out_events},
            {.fd = p->err, .events = POLLIN},
            {.fd = signals, .events = POLLIN},
            {.fd = p->pending_len && p->in != p->out ? p->in : -1, .events = POLLOUT},
        };
        struct signalfd_siginfo si;
        int n = poll(fds, 5, ended ? 0 : -1);

        /* A descendant may keep the pipes open for ever: only the program's end counts. */
        if (ended && (n == 0 || (p->out < 0 && p->err < 0)))
            return status;
        if ((fds[1].revents & ~POLLOUT) && !pass_output(p->out, VGPU_FRAME_STDOUT))
            p->out = -1;
        if (fds[2].revents && !pass_output(p->err, VGPU_FRAME_STDERR))
            p->err = -1;
        if (fds[4].revents || (p->pending_len && p->in == p->out))
            pass_input(p);
        if (fds[0].revents && !ended)
            host_frame(p);
        if (ended && !fds[1].revents && !fds[2].revents)
            return status;
        if (fds[3].revents && read(signals, &si, sizeof(si)) == sizeof(si)) {
            int s;
            pid_t pid;

            while ((pid = waitpid(-1, &s, WNOHANG)) > 0) {
                if (pid == p->pid) {
                    ended = true;
                    status = s;
                }
            }
        }
    }
}

int main(void)
{
    static struct program p = {.in = -1, .out = -1, .err = -1};
    uint32_t version = VGPU_CHANNEL_VERSION;
    sigset_t chld;
    int signals, status;

    mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
    mount("proc", "/proc", "proc", 0, NULL);
    mount("sysfs", "/sys", "sysfs", 0, NULL);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    sigprocmask(SIG_BLOCK, &chld, NULL);
    signals = signalfd(-1, &chld, SFD_CLOEXEC);
    load_modules();
    for (int i = 0; i < PORT_WAIT_MS / 2 && (channel = open_channel()) < 0; i++)
        usleep(2000);
    if (channel < 0) {
        note("there is no virtio-serial port named " VGPU_CHANNEL_NAME);
        reboot(RB_POWER_OFF);
    }
    send_frame(VGPU_FRAME_HELLO, &version, sizeof(version));
    read_request();
    mount_root();
    load_driver();
    guest_net(ROOT, run.flags & VGPU_RUN_NET, note);
    start_program(&p);
    status = relay_program(&p, signals);
    if (WIFSIGNALED(status))
        finish(VGPU_EXIT_SIGNAL, (uint32_t)WTERMSIG(status));
    finish(VGPU_EXIT_STATUS, (uint32_t)WEXITSTATUS(status));
}
