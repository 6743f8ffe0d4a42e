/* SPDX-License-Identifier: MIT */
/*
 * Broker side of a worker's mapper (worker/confine/wrk_mapper.c). The mapper is given jobs to map or
 * unmap, asks for each call of mmap(2), and is allowed exactly the expected calls, in order. It is
 * not trusted: a range counts as unmapped when the kernel's list of mappings no longer has it. An
 * event handles a few requests, or a part of that list, so that neither a long list of runs nor of
 * mappings delays other work.
 */
#define _GNU_SOURCE
#include "workers.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vgb_fd.h"

#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP /* Linux 6.6 */
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif

#define QUESTIONS_MAX 64u /* requests of a mapper per event */
#define AGAIN_MAX 16u     /* maximum repetitions of a call after an interrupting signal */
#define FILES_MAX 256u    /* files given to a mapper over its life */
#define FILE_FIRST 3u     /* their first descriptor number */
#define READS_MAX 16u     /* reads of a list of mappings per event, a page each */
#define STILL_MAPPED "guest memory that was taken away is still mapped"

struct job {
    struct job *next;
    uint32_t region;
    bool take;
    uint64_t value, place;
    struct vgb_call *calls; /* own */
    uint32_t n, asked;      /* asked: calls allowed so far */
    unsigned again;
};

/* A file in the mapper's descriptor table; its number is never reused. */
struct file {
    dev_t dev;
    ino_t ino;
    bool read_only;
    int fd; /* to be installed when the mapper waits; -1: installed */
};

struct brk_warden {
    struct brk_source listener, pidfd;
    const struct brk_warden_ops *ops;
    void *arg;
    pid_t pid;
    int maps;
    bool listens, gone, killed;
    bool waits;  /* the mapper waits for work, ... */
    uint64_t id; /* ... in the request with this id */
    struct job *jobs, **tail;
    struct brk_look *look;  /* verification of the first job's unmapping */
    struct brk_source more; /* always ready while it runs */
    struct file files[FILES_MAX];
    unsigned nfiles, nset; /* nset: installed files */
};

static struct vgb_ratelimit limit;

#define WARDEN_OF(s, member) ((struct brk_warden *)((char *)(s)-offsetof(struct brk_warden, member)))

static void warden_bad(struct brk_warden *w, const char *why)
{
    if (!w->killed)
        w->ops->bad(w->arg, why);
}

/* ---- the mappings that the kernel has ---- */

struct procmap_query { /* Linux 6.11 */
    uint64_t size, flags, addr, start, end, vma_flags, page_size, offset, inode;
    uint32_t major, minor, name_size, build_id_size;
    uint64_t name, build_id;
};
#define PROCMAP_QUERY_CALL _IOWR('f', 17, struct procmap_query)
#define PROCMAP_COVERING_OR_NEXT 0x10u
#define PROCMAP_FILE_BACKED 0x20u

/* Checks a line of maps. 1: a file is mapped within the range; 0: none; -1: malformed line. */
static int maps_line(const char *line, uint64_t at, uint64_t end)
{
    unsigned long long from, to, offset, inode;
    unsigned major, minor;
    char rights[8];

    if (sscanf(line, "%llx-%llx %7s %llx %x:%x %llu", &from, &to, rights, &offset, &major, &minor, &inode) !=
        7)
        return -1;
    return inode && from < end && to > at;
}

void brk_look_begin(struct brk_look *l, int maps, uint64_t at, uint64_t length)
{
    l->maps = maps;
    l->at = at;
    l->end = at + length;
    l->offset = 0;
    l->have = 0;
}

int brk_look_on(struct brk_look *l)
{
    char *line = l->text, *next;
    ssize_t n = pread(l->maps, l->text + l->have, sizeof(l->text) - 1 - l->have, l->offset);

    if (n <= 0)
        return n < 0 || l->have ? -1 : 0;
    l->offset += n;
    l->have += (size_t)n;
    l->text[l->have] = '\0';
    for (; (next = strchr(line, '\n')); line = next + 1) {
        *next = '\0';
        int r = maps_line(line, l->at, l->end);

        if (r)
            return r;
    }
    l->have -= (size_t)(line - l->text);
    memmove(l->text, line, l->have);
    return l->have == sizeof(l->text) - 1 ? -1 : BRK_LOOK_MORE;
}

int brk_maps_ask(int maps, uint64_t at, uint64_t length)
{
    struct procmap_query q = {
        .size = sizeof(q), .flags = PROCMAP_COVERING_OR_NEXT | PROCMAP_FILE_BACKED, .addr = at};

    if (!ioctl(maps, PROCMAP_QUERY_CALL, &q))
        return q.start < at + length;
    return errno == ENOENT ? 0 : BRK_LOOK_MORE;
}

/* ---- files ---- */

int brk_warden_file(struct brk_warden *w, int fd, bool read_only)
{
    struct stat st;
    char path[40];
    int copy;

    if (fstat(fd, &st))
        return -1;
    for (unsigned i = 0; i < w->nfiles; i++) {
        const struct file *f = &w->files[i];

        if (f->dev == st.st_dev && f->ino == st.st_ino && f->read_only == read_only)
            return (int)(FILE_FIRST + i);
    }
    if (w->nfiles == FILES_MAX) {
        vgb_log_limited(&limit, VGB_WARN, "mapper %d: the memory of the guest has changed too often",
                        (int)w->pid);
        return -1;
    }
    /* A mapping of a file open for writing can be made writable later, whatever its protection. A
     * lease of the file's owner (fcntl(2), F_SETLEASE) would hold the loop for 45 seconds. */
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    copy = read_only ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0) {
        vgb_log_limited(&limit, VGB_WARN, "memory of the guest cannot be opened %s: %s",
                        read_only ? "for reading alone, so what a program may only read is not pinned"
                                  : "again",
                        strerror(errno));
        return -1;
    }
    w->files[w->nfiles] = (struct file){st.st_dev, st.st_ino, read_only, copy};
    return (int)(FILE_FIRST + w->nfiles++);
}

/* Done while the mapper waits in its request, so that it cannot influence the numbers. */
static bool files_put(struct brk_warden *w)
{
    for (; w->nset < w->nfiles; w->nset++) {
        struct seccomp_notif_addfd a = {.id = w->id,
                                        .flags = SECCOMP_ADDFD_FLAG_SETFD,
                                        .srcfd = (uint32_t)w->files[w->nset].fd,
                                        .newfd = FILE_FIRST + w->nset};

        if (ioctl(w->listener.fd, SECCOMP_IOCTL_NOTIF_ADDFD, &a) < 0)
            return false;
        brk_foreign_close(w->files[w->nset].fd); /* QEMU, its table and the mapper may have gone since */
        w->files[w->nset].fd = -1;
    }
    return true;
}

/* ---- jobs ---- */

static void job_free(struct job *j)
{
    free(j->calls);
    free(j);
}

/* False: the request is gone, because a signal interrupted it (it will be repeated) or the mapper
 * has ended. */
static bool question_answer(struct brk_warden *w, uint64_t id, int64_t value, int error, uint32_t flags)
{
    struct seccomp_notif_resp r = {.id = id, .val = value, .error = error, .flags = flags};

    return !ioctl(w->listener.fd, SECCOMP_IOCTL_NOTIF_SEND, &r);
}

/* Begins the next job if the mapper waits for work. */
static void job_begin(struct brk_warden *w)
{
    struct job *j = w->jobs;

    if (!j || !w->waits || w->killed || w->look)
        return;
    w->waits = false;
    if (!files_put(w)) {
        if (errno != ENOENT) /* otherwise its request is repeated */
            warden_bad(w, "its mapper cannot be given the guest's memory");
        return;
    }
    question_answer(w, w->id, (int64_t)j->value, 0, 0);
}

static bool job_add(struct brk_warden *w, struct job *j)
{
    if (w->killed || w->gone) {
        job_free(j);
        return false;
    }
    *w->tail = j;
    w->tail = &j->next;
    job_begin(w);
    return true;
}

bool brk_warden_place(struct brk_warden *w, uint32_t region, uint64_t value, uint64_t place,
                      struct vgb_plan *plan)
{
    struct job *j = calloc(1, sizeof(*j));

    if (!j)
        return false;
    *j = (struct job){.region = region, .value = value, .place = place, .calls = plan->list, .n = plan->n};
    plan->list = NULL;
    vgb_plan_drop(plan);
    return job_add(w, j);
}

bool brk_warden_take(struct brk_warden *w, uint32_t region, uint64_t value, uint64_t place, uint64_t length)
{
    struct job *j = calloc(1, sizeof(*j));
    struct vgb_call *c = malloc(sizeof(*c));

    if (!j || !c) {
        free(j);
        free(c);
        return false;
    }
    *c = (struct vgb_call){.length = length, .file = VGB_CALL_NO_FILE, .prot = PROT_NONE};
    *j = (struct job){.region = region, .take = true, .value = value, .place = place, .calls = c, .n = 1};
    return job_add(w, j);
}

static void job_done(struct brk_warden *w, const char *wrong)
{
    struct job *j = w->jobs;

    if (wrong) {
        warden_bad(w, wrong);
        return;
    }
    w->jobs = j->next;
    w->tail = w->jobs ? w->tail : &w->jobs;
    w->ops->done(w->arg, j->region, j->take);
    job_free(j);
}

static void look_end(struct brk_warden *w)
{
    if (!w->look)
        return;
    brk_loop_del(&w->more);
    vgb_close(&w->more.fd);
    free(w->look);
    w->look = NULL;
}

/* Processes a part of a list of up to 65,530 mappings, which takes a second as a whole. */
static void on_more(struct brk_source *s, uint32_t events)
{
    struct brk_warden *w = WARDEN_OF(s, more);
    int have = BRK_LOOK_MORE;

    (void)events;
    for (unsigned i = 0; i < READS_MAX && have == BRK_LOOK_MORE && !w->killed; i++)
        have = brk_look_on(w->look);
    if (have == BRK_LOOK_MORE && !w->killed)
        return;
    look_end(w);
    if (w->killed)
        return;
    job_done(w, have ? STILL_MAPPED : NULL);
    job_begin(w);
}

static void look_begin(struct brk_warden *w, const struct job *j)
{
    struct brk_look *look = malloc(sizeof(*look));

    w->more = (struct brk_source){.fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK), .ready = on_more};
    if (!look || w->more.fd < 0 || brk_loop_add(&w->more, EPOLLIN)) {
        vgb_close(&w->more.fd);
        free(look);
        warden_bad(w, "nobody can look whether it has taken the guest's memory away");
        return;
    }
    brk_look_begin(look, w->maps, j->place, j->calls[0].length);
    w->look = look;
}

/* The mapper has finished the first job. */
static void job_end(struct brk_warden *w)
{
    struct job *j = w->jobs;
    int have = 0;

    if (!j->asked && j->again++ < AGAIN_MAX) /* without any call: it may have missed the job */
        return;
    if (j->take && j->asked != j->n) {
        job_done(w, "its mapper does not take the guest's memory away");
        return;
    }
    if (j->take)
        have = brk_maps_ask(w->maps, j->place, j->calls[0].length);
    if (have == BRK_LOOK_MORE)
        look_begin(w, j);
    else
        job_done(w, have ? STILL_MAPPED : NULL);
}

static bool call_matches(const struct job *j, uint32_t i, const struct seccomp_notif *q)
{
    uint64_t args[6];

    if (i >= j->n)
        return false;
    vgb_call_arguments(&j->calls[i], j->place, args);
    for (unsigned k = 0; k < 6; k++) {
        if (args[k] != q->data.args[k])
            return false;
    }
    return true;
}

static void on_mmap(struct brk_warden *w, const struct seccomp_notif *q)
{
    struct job *j = w->waits ? NULL : w->jobs;
    bool next = j && call_matches(j, j->asked, q);
    /* A signal may have interrupted the answer: the request is repeated, and the same call is
     * idempotent. */
    bool again = j && !next && j->asked && call_matches(j, j->asked - 1, q) && j->again++ < AGAIN_MAX;

    if (!next && !again) {
        question_answer(w, q->id, 0, -EPERM, 0);
        warden_bad(w, "its mapper asked for memory that is not its client's to map");
    } else if (question_answer(w, q->id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE) && next) {
        j->asked++;
    }
}

/* A request that stays pending would be reported for ever. */
static bool question_lost(struct brk_warden *w)
{
    warden_bad(w, "nobody can take what its mapper asks");
    return false;
}

/* Answers a request. False: none pending. */
static bool question_next(struct brk_warden *w)
{
    struct pollfd f = {.fd = w->listener.fd, .events = POLLIN};
    struct seccomp_notif q;
    int n = poll(&f, 1, 0);

    if (n < 0 && errno != EINTR)
        return question_lost(w);
    /* The receive could block if the process ended since, but the request is pending and has no
     * other reader. */
    if (n != 1 || !(f.revents & POLLIN))
        return false;
    memset(&q, 0, sizeof(q));
    if (ioctl(w->listener.fd, SECCOMP_IOCTL_NOTIF_RECV, &q)) {
        if (errno != EINTR && errno != ENOENT) /* ENOENT: it was interrupted, or has ended */
            return question_lost(w);
        return errno == EINTR;
    }
    if (q.pid != (uint32_t)w->pid) {
        warden_bad(w, "its mapper has made a process");
    } else if (q.data.nr == SYS_mmap) {
        on_mmap(w, &q);
    } else if (q.data.nr == SYS_getppid) {
        bool had = !w->waits && w->jobs && w->id;

        w->waits = true;
        w->id = q.id;
        if (had)
            job_end(w);
        job_begin(w);
    }
    return true;
}

static void on_question(struct brk_source *s, uint32_t events)
{
    struct brk_warden *w = WARDEN_OF(s, listener);

    if (events & EPOLLIN) {
        for (unsigned i = 0; i < QUESTIONS_MAX && !w->killed && question_next(w); i++)
            ;
    }
    /* its exit is reported by the other source */
    if (w->killed || events & (EPOLLHUP | EPOLLERR)) {
        if (w->listens)
            brk_loop_del(&w->listener);
        w->listens = false;
    }
}

/* ---- its life ---- */

static void on_mapper_exit(struct brk_source *s, uint32_t events)
{
    struct brk_warden *w = WARDEN_OF(s, pidfd);

    (void)events;
    /* Its memory is released, even if a debugger delays reaping. */
    waitid(P_PIDFD, (id_t)w->pidfd.fd, NULL, WEXITED | WNOHANG);
    brk_loop_del(&w->pidfd);
    w->gone = true;
    w->ops->gone(w->arg); /* which may free it */
}

/* Checks that these are a mapper's descriptors. */
static bool descriptors_fit(const int *fds, int pidfd)
{
    char path[40], target[64];
    struct statfs fs;
    siginfo_t si;
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
    n = readlink(path, target, sizeof(target) - 1);
    target[n > 0 ? n : 0] = '\0';
    return !strcmp(target, "anon_inode:seccomp notify") && !fstatfs(fds[1], &fs) &&
           fs.f_type == PROC_SUPER_MAGIC &&
           /* a child of this process */
           !waitid(P_PIDFD, (id_t)pidfd, &si, WEXITED | WNOHANG | WNOWAIT);
}

static bool warden_watch(struct brk_warden *w)
{
    if (brk_loop_add(&w->pidfd, EPOLLIN))
        return false;
    w->listens = !brk_loop_add(&w->listener, EPOLLIN);
    if (!w->listens)
        brk_loop_del(&w->pidfd);
    return w->listens;
}

struct brk_warden *brk_warden_new(const struct brk_warden_ops *ops, void *arg, pid_t pid, const int *fds)
{
    struct brk_warden *w = calloc(1, sizeof(*w));
    int pidfd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

    if (!w || pidfd < 0 || !descriptors_fit(fds, pidfd)) {
        free(w);
        vgb_close(&pidfd);
        return NULL;
    }
    fcntl(pidfd, F_SETFD, FD_CLOEXEC);
    *w = (struct brk_warden){.listener = {.fd = fds[0], .ready = on_question},
                             .pidfd = {.fd = pidfd, .ready = on_mapper_exit},
                             .ops = ops,
                             .arg = arg,
                             .pid = pid,
                             .maps = fds[1]};
    w->tail = &w->jobs;
    /* Runs the mapper on the answering processor, which takes a third of the time per run. */
    ioctl(w->listener.fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
    if (!warden_watch(w)) {
        syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
        waitid(P_PIDFD, (id_t)pidfd, NULL, WEXITED);
        close(pidfd);
        free(w);
        return NULL;
    }
    return w;
}

pid_t brk_warden_pid(const struct brk_warden *w)
{
    return w->pid;
}

bool brk_warden_gone(const struct brk_warden *w)
{
    return w->gone;
}

void brk_warden_kill(struct brk_warden *w)
{
    if (w->killed)
        return;
    w->killed = true;
    syscall(SYS_pidfd_send_signal, w->pidfd.fd, SIGKILL, NULL, 0);
}

void brk_warden_wait(struct brk_warden *w, int ms)
{
    struct pollfd f = {.fd = w->pidfd.fd, .events = POLLIN};

    if (!w->gone && poll(&f, 1, ms) == 1)
        waitid(P_PIDFD, (id_t)w->pidfd.fd, NULL, WEXITED | WNOHANG);
}

void brk_warden_free(struct brk_warden *w)
{
    struct job *next;

    look_end(w);
    if (w->listens)
        brk_loop_del(&w->listener);
    if (!w->gone)
        brk_loop_del(&w->pidfd);
    for (; w->jobs; w->jobs = next) {
        next = w->jobs->next;
        job_free(w->jobs);
    }
    for (unsigned i = w->nset; i < w->nfiles; i++)
        brk_foreign_close(w->files[i].fd);
    close(w->listener.fd);
    close(w->pidfd.fd);
    close(w->maps);
    free(w);
}
