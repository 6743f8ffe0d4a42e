/* SPDX-License-Identifier: MIT */
/*
 * Processes, signals and temporary files. All started processes end with vgpu: by the clean-up at a
 * regular exit, by the kernel (PR_SET_PDEATHSIG) when vgpu is killed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/vgpu_cli.h"

#define CHILDREN_MAX 8 /* backend, QEMU, program; more would be a bug in vgpu */

extern char **environ;

static pid_t children[CHILDREN_MAX];
static char *temp_dir;
static pid_t owner; /* process that made the folder; its forks never clean up */

bool vgpu_cli_sends_on(const struct signalfd_siginfo *si)
{
    if (si->ssi_signo == SIGCHLD || si->ssi_signo == SIGWINCH)
        return false;
    /* The hangup of a terminal is told to the first process of its session only (ssh -t, xterm -e). */
    return si->ssi_code != SI_KERNEL || (si->ssi_signo == SIGHUP && getsid(0) == getpid());
}

int vgpu_cli_signals(void)
{
    sigset_t set;
    int fd;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGWINCH);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        vgpu_cli_die("signalfd: %s", strerror(errno));
    return fd;
}

/*
 * Limits of the removal of a folder: a guest that may write to it could nest and add files without
 * end. The rest stays.
 */
#define LEVELS_MAX 64u
#define ENTRIES_MAX 100000u

struct removal {
    dev_t device;
    unsigned left; /* number of entries that may still be removed */
};

static void remove_below(struct removal *r, int folder, unsigned levels);

static void remove_entry(struct removal *r, int folder, const char *name, unsigned levels)
{
    int fd;

    if (unlinkat(folder, name, 0) == 0 || !levels)
        return;
    fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    remove_below(r, fd, levels - 1);
    unlinkat(folder, name, AT_REMOVEDIR);
}

/* Removes the contents of `folder` and closes it. */
static void remove_below(struct removal *r, int folder, unsigned levels)
{
    struct stat st;
    struct dirent *e;
    DIR *d;

    if (fstat(folder, &st) != 0 || st.st_dev != r->device || !(d = fdopendir(folder))) {
        close(folder); /* another file system is not vgpu's own */
        return;
    }
    while (r->left && (e = readdir(d))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        r->left--;
        remove_entry(r, folder, e->d_name, levels);
    }
    closedir(d);
}

/*
 * Removes a folder of this user. By descriptors, not by paths: a guest that may write to it could
 * replace a folder in it by a link to a folder of the host.
 */
static void remove_tree(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct removal r = {.left = ENTRIES_MAX};
    struct stat st;

    if (fd < 0)
        return;
    if (fstat(fd, &st) != 0 || st.st_uid != geteuid()) {
        close(fd);
        return;
    }
    r.device = st.st_dev;
    remove_below(&r, fd, LEVELS_MAX);
    rmdir(path);
}

/* Folders are named vgpu-run.PID.XXXXXX; a folder without its process was left by a killed vgpu. */
static void sweep_processes(const char *base)
{
    DIR *d = opendir(base);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        int pid = 0;
        char *path;

        if (sscanf(e->d_name, VGPU_CLI_TEMP_PREFIX "%d.", &pid) != 1 || pid <= 0 || kill(pid, 0) == 0 ||
            errno != ESRCH)
            continue;
        path = vgpu_cli_format("%s/%s", base, e->d_name);
        remove_tree(path);
        free(path);
    }
    if (d)
        closedir(d);
}

const char *vgpu_cli_temp_base(void)
{
    const char *const bases[] = {getenv("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm"};

    for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
        /* Unix socket addresses are limited to 107 bytes, too few for a deep TMPDIR. */
        if (bases[i] && bases[i][0] == '/' && strlen(bases[i]) <= 60 && access(bases[i], W_OK | X_OK) == 0)
            return bases[i];
    }
    return "/tmp";
}

const char *vgpu_cli_temp_dir(void)
{
    const char *base = vgpu_cli_temp_base();

    if (temp_dir)
        return temp_dir;
    sweep_processes(base);
    temp_dir = vgpu_cli_format("%s/" VGPU_CLI_TEMP_PREFIX "%d.XXXXXX", base, (int)getpid());
    owner = getpid();
    if (!mkdtemp(temp_dir)) {
        int err = errno;

        temp_dir = NULL;
        vgpu_cli_die("cannot make a folder in %s: %s", base, strerror(err));
    }
    return temp_dir;
}

/* Runs between fork and exec: async-signal-safe calls only. */
static void __attribute__((noreturn)) child(const struct vgpu_cli_spawn *s, pid_t parent, int report)
{
    sigset_t none;
    int err, fd;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(VGPU_CLI_FAILED);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (!s->foreground) {
        /*
         * A process group of its own: Ctrl-C in the terminal reaches vgpu, which ends all processes
         * in order.
         */
        setpgid(0, 0);
        fd = open("/dev/null", O_RDONLY);
        if (fd >= 0)
            dup2(fd, 0);
    }
    if (s->log) {
        fd = open(s->log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
        if (fd >= 0) {
            dup2(fd, 1);
            dup2(fd, 2);
        }
    } else if (!s->foreground) {
        dup2(2, 1); /* the program's standard output is not for their messages */
    }
    for (int i = 0; i < 2; i++) {
        if (s->keep_fd[i] >= 0)
            fcntl(s->keep_fd[i], F_SETFD, 0);
    }
    if (s->prepare)
        s->prepare(s->prepare_arg);
    execvpe(s->argv[0], s->argv, s->env ? s->env : environ);
    err = errno;
    if (write(report, &err, sizeof(err)) < 0)
        _exit(VGPU_CLI_FAILED);
    _exit(VGPU_CLI_CANNOT_RUN);
}

pid_t vgpu_cli_spawn(const struct vgpu_cli_spawn *s)
{
    int report[2], err = 0, slot = 0;
    pid_t pid, parent = getpid();

    while (slot < CHILDREN_MAX && children[slot])
        slot++;
    if (slot == CHILDREN_MAX || pipe2(report, O_CLOEXEC))
        vgpu_cli_die("cannot start %s: %s", s->argv[0], strerror(errno));
    fflush(NULL);
    pid = fork();
    if (pid < 0)
        vgpu_cli_die("cannot start %s: %s", s->argv[0], strerror(errno));
    if (pid == 0)
        child(s, parent, report[1]);
    close(report[1]);
    if (read(report[0], &err, sizeof(err)) == sizeof(err)) {
        close(report[0]);
        waitpid(pid, NULL, 0);
        return -err;
    }
    close(report[0]);
    children[slot] = pid;
    return pid;
}

static bool reap_child(pid_t pid, int wait_ms)
{
    int64_t end = vgpu_cli_now_ms() + wait_ms;

    for (;;) {
        pid_t r = waitpid(pid, NULL, WNOHANG);

        if (r == pid || (r < 0 && errno == ECHILD))
            return true;
        if (vgpu_cli_now_ms() >= end)
            return false;
        poll(NULL, 0, 2);
    }
}

static void forget_child(pid_t pid)
{
    for (int i = 0; i < CHILDREN_MAX; i++) {
        if (children[i] == pid)
            children[i] = 0;
    }
}

bool vgpu_cli_reap(pid_t pid, int *status)
{
    pid_t r;

    do {
        r = waitpid(pid, status, 0);
    } while (r < 0 && errno == EINTR);
    forget_child(pid);
    return r == pid;
}

void vgpu_cli_stop(pid_t *pid, int grace_ms)
{
    if (*pid <= 0)
        return;
    if (!reap_child(*pid, 0)) {
        kill(*pid, SIGTERM);
        if (!reap_child(*pid, grace_ms)) {
            kill(*pid, SIGKILL);
            waitpid(*pid, NULL, 0);
        }
    }
    forget_child(*pid);
    *pid = 0;
}

void vgpu_cli_cleanup(void)
{
    if (owner && owner != getpid())
        return;
    /* In reverse order of starting: the program or QEMU before the backend that serves it. */
    for (int i = CHILDREN_MAX - 1; i >= 0; i--) {
        pid_t pid = children[i];

        vgpu_cli_stop(&pid, 2000);
    }
    if (temp_dir)
        remove_tree(temp_dir);
    temp_dir = NULL;
}

void vgpu_cli_exit_as(int wait_status)
{
    struct rlimit none = {0, 0};
    sigset_t set;

    fflush(NULL);
    vgpu_cli_cleanup();
    if (!WIFSIGNALED(wait_status))
        exit(WEXITSTATUS(wait_status));
    /* The program has dumped its core, if any; vgpu must not dump another. */
    setrlimit(RLIMIT_CORE, &none);
    signal(WTERMSIG(wait_status), SIG_DFL);
    sigfillset(&set);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    raise(WTERMSIG(wait_status));
    exit(128 + WTERMSIG(wait_status));
}

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return ok;
}

bool vgpu_cli_own_mounts(unsigned long propagation)
{
    char uid[40], gid[40];

    snprintf(uid, sizeof(uid), "%u %u 1\n", (unsigned)geteuid(), (unsigned)geteuid());
    snprintf(gid, sizeof(gid), "%u %u 1\n", (unsigned)getegid(), (unsigned)getegid());
    if (unshare(CLONE_NEWNS) == 0)
        return mount(NULL, "/", NULL, MS_REC | propagation, NULL) == 0;
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_file("/proc/self/setgroups", "deny") &&
           write_file("/proc/self/uid_map", uid) && write_file("/proc/self/gid_map", gid) &&
           mount(NULL, "/", NULL, MS_REC | propagation, NULL) == 0;
}
