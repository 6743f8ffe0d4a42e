/* SPDX-License-Identifier: MIT */
/*
 * vgpu vm list, vgpu vm stop: this user's machines started by `vgpu vm`. Each has a file "vm" in
 * its private folder, locked by its process: a file without a lock was left by a killed process.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/vgpu_cli.h"

#define MACHINES_MAX 1000
#define STOP_MS 15000 /* the process ends QEMU, backend and workers first */

/* Properties listed for a machine, in the order of the table; each is a line of its file. */
enum { F_NAME, F_GPU, F_CPUS, F_MEMORY, F_PORTS, F_PROGRAM, FIELDS };

struct machine {
    pid_t pid;
    uid_t owner; /* owner of its file */
    char *folder;
    char *field[FIELDS];
};

static const char *name_of(const struct vgpu_cli_vm *vm)
{
    return vm->name ? vm->name : vgpu_cli_format("%d", (int)getpid());
}

/* Arguments and names may contain anything, and root reads other users' files: makes them a single
 * line without terminal control characters. */
static void make_harmless(char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < 32 || (unsigned char)*text >= 127)
            *text = '?';
    }
}

static void put_text(FILE *f, const char *text)
{
    char *copy = vgpu_cli_format("%s", text);

    make_harmless(copy);
    fputs(copy, f);
    free(copy);
}

/*
 * Returns a pidfd of the process, which must belong to the owner of the file that names it; -1:
 * none. Any user can write a file with any process id, and root would end that process.
 */
static int open_process(pid_t pid, uid_t owner)
{
    char path[32];
    struct stat st;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);

    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    if (fd >= 0 && (stat(path, &st) || st.st_uid != owner)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/*
 * Opens the file of a machine, which must belong to the owner of the folder; -1: invalid. A link in
 * place of the folder could make another user's file, or that of another machine, apply to the
 * process in the link's name.
 */
static int open_file(const char *folder)
{
    int dir = open(folder, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_DIRECTORY);
    int fd = dir < 0 ? -1 : openat(dir, "vm", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat of, st;

    if (fd >= 0 && (fstat(dir, &of) || fstat(fd, &st) || !S_ISREG(st.st_mode) || of.st_uid != st.st_uid)) {
        close(fd);
        fd = -1;
    }
    if (dir >= 0)
        close(dir);
    return fd;
}

/* A free lock means that the process has ended or is ending. */
static bool is_over(const char *folder)
{
    int fd = open_file(folder);
    bool over = fd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0;

    if (fd >= 0)
        close(fd);
    return over;
}

static bool read_machine(struct machine *m)
{
    int fd = open_file(m->folder);
    struct stat st;
    char line[4096];
    FILE *f;
    int process;

    if (fd < 0)
        return false;
    if (fstat(fd, &st) || (st.st_uid != geteuid() && geteuid() != 0) || flock(fd, LOCK_SH | LOCK_NB) == 0 ||
        !(f = fdopen(fd, "re"))) {
        close(fd);
        return false;
    }
    process = open_process(m->pid, st.st_uid);
    if (process < 0) {
        fclose(f);
        return false;
    }
    close(process);
    m->owner = st.st_uid;
    for (int i = 0; i < FIELDS; i++) {
        if (!fgets(line, sizeof(line), f))
            line[0] = 0;
        line[strcspn(line, "\n")] = 0;
        make_harmless(line);
        m->field[i] = vgpu_cli_format("%s", line);
    }
    fclose(f);
    return true;
}

static int by_pid(const void *a, const void *b)
{
    return ((const struct machine *)a)->pid - ((const struct machine *)b)->pid;
}

/* Finds all running machines, in the order of process ids. */
static size_t find_machines(struct machine *list)
{
    const char *base = vgpu_cli_temp_base();
    DIR *d = opendir(base);
    struct dirent *e;
    size_t n = 0;

    while (d && n < MACHINES_MAX && (e = readdir(d))) {
        struct machine m = {0};
        int pid = 0;

        if (sscanf(e->d_name, VGPU_CLI_TEMP_PREFIX "%d.", &pid) != 1 || pid <= 0)
            continue;
        m.pid = pid;
        m.folder = vgpu_cli_format("%s/%s", base, e->d_name);
        if (read_machine(&m))
            list[n++] = m;
        else
            free(m.folder);
    }
    if (d)
        closedir(d);
    qsort(list, n, sizeof(*list), by_pid);
    return n;
}

void vgpu_cli_vm_register(const struct vgpu_cli_vm *vm)
{
    struct machine *list = vgpu_cli_alloc(MACHINES_MAX * sizeof(*list));
    size_t n = vm->name ? find_machines(list) : 0;
    const char *dir = vgpu_cli_temp_dir();
    char *path = vgpu_cli_format("%s/vm.new", dir), *final = vgpu_cli_format("%s/vm", dir);
    int fd;
    FILE *f;

    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i].field[F_NAME], vm->name) == 0)
            vgpu_cli_die("--name %s: a machine of that name runs, process %d", vm->name, (int)list[i].pid);
    }
    free(list);
    /*
     * Locked before it gets its name and while this process lives: the descriptor is never closed.
     */
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    f = fd >= 0 && flock(fd, LOCK_EX) == 0 ? fdopen(fd, "we") : NULL;
    if (!f)
        vgpu_cli_die("%s: %s", path, strerror(errno));
    fprintf(f, "%s\n%s\n%ld\n%ld\n", name_of(vm), vm->gpu, vm->cpus, vm->memory_mb);
    for (size_t i = 0; i < vm->ports.count; i++)
        fprintf(f, "%s%s", i ? "," : "", vm->ports.items[i]);
    fputc('\n', f);
    for (size_t i = 0; i < vm->args.count; i++) {
        put_text(f, i ? " " : "");
        put_text(f, vm->args.items[i]);
    }
    fputc('\n', f);
    if (fflush(f) || rename(path, final))
        vgpu_cli_die("%s: %s", final, strerror(errno));
    free(path);
    free(final);
}

int vgpu_cli_vm_list(int argc, char **argv)
{
    struct machine *list = vgpu_cli_alloc(MACHINES_MAX * sizeof(*list));
    size_t n;

    if (argc > 1) {
        if (strcmp(argv[1], "--help") != 0)
            vgpu_cli_wrong("vm list: '%s' is not understood; see `vgpu vm list --help`", argv[1]);
        printf("usage: vgpu vm list\n"
               "The virtual machines of this user that `vgpu vm run` and `vgpu vm shell` have started.\n");
        return 0;
    }
    n = find_machines(list);
    printf("%-16s %8s %-7s %5s %10s %-12s %s\n", "NAME", "PID", "GPU", "CPUS", "MEMORY MB", "PORTS",
           "PROGRAM");
    for (size_t i = 0; i < n; i++) {
        char **f = list[i].field;

        printf("%-16s %8d %-7s %5s %10s %-12s %s\n", f[F_NAME], (int)list[i].pid, f[F_GPU], f[F_CPUS],
               f[F_MEMORY], *f[F_PORTS] ? f[F_PORTS] : "-", f[F_PROGRAM]);
    }
    return 0;
}

static bool stop_one(const struct machine *m)
{
    int64_t end = vgpu_cli_now_ms() + STOP_MS;
    int process = open_process(m->pid, m->owner);

    if (process >= 0 && syscall(SYS_pidfd_send_signal, process, SIGTERM, NULL, 0) && errno != ESRCH) {
        vgpu_cli_say("%s: %s", m->field[F_NAME], strerror(errno));
        close(process);
        return false;
    }
    if (process >= 0)
        close(process);
    while (!is_over(m->folder)) {
        if (vgpu_cli_now_ms() > end) {
            vgpu_cli_say("%s has not ended after %d s: kill -KILL %d ends it in any case", m->field[F_NAME],
                         STOP_MS / 1000, (int)m->pid);
            return false;
        }
        poll(NULL, 0, 10);
    }
    return true;
}

int vgpu_cli_vm_stop(int argc, char **argv)
{
    struct machine *list = vgpu_cli_alloc(MACHINES_MAX * sizeof(*list));
    size_t n = find_machines(list);
    bool ok = true;

    if (argc < 2)
        vgpu_cli_wrong("vm stop: which machine? see `vgpu vm stop --help`");
    if (strcmp(argv[1], "--help") == 0) {
        printf(
            "usage: vgpu vm stop NAME|PID... | --all\n"
            "Ends virtual machines that `vgpu vm list` shows, as Ctrl-C at their terminal would, and waits for\n"
            "their end: QEMU, backend and workers are gone then. Their `vgpu vm run` dies by SIGTERM.\n"
            "\n"
            "  --all   all of them\n");
        return 0;
    }
    if (strcmp(argv[1], "--all") == 0) {
        if (argc > 2)
            vgpu_cli_wrong("vm stop: --all and nothing else; see `vgpu vm stop --help`");
        for (size_t i = 0; i < n; i++)
            ok &= stop_one(&list[i]);
        return ok ? 0 : VGPU_CLI_FAILED;
    }
    for (int a = 1; a < argc; a++) {
        if (argv[a][0] == '-')
            vgpu_cli_wrong("vm stop: '%s' is not understood; see `vgpu vm stop --help`", argv[a]);
    }
    for (int a = 1; a < argc; a++) {
        bool found = false;

        for (size_t i = 0; i < n; i++) {
            char pid[16];

            snprintf(pid, sizeof(pid), "%d", (int)list[i].pid);
            if (strcmp(argv[a], list[i].field[F_NAME]) != 0 && strcmp(argv[a], pid) != 0)
                continue;
            found = true;
            ok &= stop_one(&list[i]);
        }
        if (!found) {
            vgpu_cli_say("%s: no such machine runs; see `vgpu vm list`", argv[a]);
            ok = false;
        }
    }
    return ok ? 0 : VGPU_CLI_FAILED;
}
