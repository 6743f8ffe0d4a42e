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
    bool stops;  /* its end was requested */
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

static bool read_machine(struct machine *m, bool own)
{
    int fd = open_file(m->folder);
    struct stat st;
    char line[4096];
    FILE *f;
    int process;

    if (fd < 0)
        return false;
    if (fstat(fd, &st) || (st.st_uid == geteuid()) != own || flock(fd, LOCK_SH | LOCK_NB) == 0 ||
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

/* Adds the machines of this user, or those of the others. A process runs a single machine. */
static size_t add_machines(struct machine *list, size_t n, bool own)
{
    const char *base = vgpu_cli_temp_base();
    DIR *d = opendir(base);
    struct dirent *e;

    while (d && n < MACHINES_MAX && (e = readdir(d))) {
        struct machine m = {0};
        size_t same = 0;
        int pid = 0;

        if (sscanf(e->d_name, VGPU_CLI_TEMP_PREFIX "%d.", &pid) != 1 || pid <= 0)
            continue;
        while (same < n && list[same].pid != pid)
            same++;
        if (same < n)
            continue;
        m.pid = pid;
        m.folder = vgpu_cli_format("%s/%s", base, e->d_name);
        if (read_machine(&m, own))
            list[n++] = m;
        else
            free(m.folder);
    }
    if (d)
        closedir(d);
    return n;
}

/*
 * Finds all running machines, in the order of process ids. For root also those of other users, who
 * may have as many as they like: after its own, which have room in any case.
 */
static size_t find_machines(struct machine *list, bool all)
{
    size_t n = add_machines(list, 0, true);

    if (all && geteuid() == 0)
        n = add_machines(list, n, false);
    qsort(list, n, sizeof(*list), by_pid);
    return n;
}

void vgpu_cli_vm_register(const struct vgpu_cli_vm *vm)
{
    struct machine *list = vgpu_cli_alloc(MACHINES_MAX * sizeof(*list));
    size_t n = vm->name ? find_machines(list, false) : 0;
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
    n = find_machines(list, true);
    printf("%-16s %8s %-7s %5s %10s %-12s %s\n", "NAME", "PID", "GPU", "CPUS", "MEMORY MB", "PORTS",
           "PROGRAM");
    for (size_t i = 0; i < n; i++) {
        char **f = list[i].field;

        printf("%-16s %8d %-7s %5s %10s %-12s %s\n", f[F_NAME], (int)list[i].pid, f[F_GPU], f[F_CPUS],
               f[F_MEMORY], *f[F_PORTS] ? f[F_PORTS] : "-", f[F_PROGRAM]);
    }
    return 0;
}

/* Requests the end of a machine. True: its end can be waited for. */
static bool begin_stop(struct machine *m)
{
    int process = open_process(m->pid, m->owner);

    m->stops = process < 0 || !syscall(SYS_pidfd_send_signal, process, SIGTERM, NULL, 0) || errno == ESRCH;
    if (!m->stops)
        vgpu_cli_say("%s: %s", m->field[F_NAME], strerror(errno));
    if (process >= 0)
        close(process);
    return m->stops;
}

/* Waits for the end of a machine whose end was requested, until `end`, ms. */
static bool wait_stop(const struct machine *m, int64_t end)
{
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

/* True if the machine has that name or process id. */
static bool is_meant(const struct machine *m, const char *word)
{
    char pid[16];

    snprintf(pid, sizeof(pid), "%d", (int)m->pid);
    return strcmp(word, m->field[F_NAME]) == 0 || strcmp(word, pid) == 0;
}

/* Requests the end of the machines of that name or process id; of other users', if this user has none. */
static bool begin_stop_named(struct machine *list, size_t n, const char *word, bool *ok)
{
    bool found = false;

    for (int others = 0; others < 2 && !found; others++) {
        for (size_t i = 0; i < n; i++) {
            if ((list[i].owner != geteuid()) != others || !is_meant(&list[i], word))
                continue;
            found = true;
            *ok &= begin_stop(&list[i]);
        }
    }
    return found;
}

int vgpu_cli_vm_stop(int argc, char **argv)
{
    const bool all = argc > 1 && strcmp(argv[1], "--all") == 0;
    struct machine *list;
    bool ok = true;
    int64_t end;
    size_t n;

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
    if (all && argc > 2)
        vgpu_cli_wrong("vm stop: --all and nothing else; see `vgpu vm stop --help`");
    for (int a = 1; a < argc && !all; a++) {
        if (argv[a][0] == '-')
            vgpu_cli_wrong("vm stop: '%s' is not understood; see `vgpu vm stop --help`", argv[a]);
    }
    list = vgpu_cli_alloc(MACHINES_MAX * sizeof(*list));
    n = find_machines(list, true);
    for (size_t i = 0; i < n && all; i++)
        ok &= begin_stop(&list[i]);
    for (int a = 1; a < argc && !all; a++) {
        if (!begin_stop_named(list, n, argv[a], &ok)) {
            vgpu_cli_say("%s: no such machine runs; see `vgpu vm list`", argv[a]);
            ok = false;
        }
    }
    /* One limit for all: machines of other users need not end. */
    end = vgpu_cli_now_ms() + STOP_MS;
    for (size_t i = 0; i < n; i++)
        ok &= !list[i].stops || wait_stop(&list[i], end);
    return ok ? 0 : VGPU_CLI_FAILED;
}
