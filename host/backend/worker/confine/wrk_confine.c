/* SPDX-License-Identifier: MIT */
/* Identity of a worker: a user id per VM if the broker is root, its own namespaces where the host
 * allows them, no capabilities. Runs while the process is single-threaded. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "confine.h"
#include "vgb_log.h"
#include "vgb_msg.h"

#define NUMBERED_MAX 1000 /* maximum number of files from VGPU_SOFT_PROFILE */

void wrk_layer_add(struct wrk_sandbox *s, const char *fmt, ...)
{
    size_t n = strlen(s->layers);
    va_list ap;

    if (n && n + 2 < sizeof(s->layers))
        n += (size_t)snprintf(s->layers + n, sizeof(s->layers) - n, ", ");
    va_start(ap, fmt);
    vsnprintf(s->layers + n, sizeof(s->layers) - n, fmt, ap);
    va_end(ap);
}

/* ---- capabilities ---- */

static void drop_bounding_set(void)
{
    /* The kernel may have more capabilities than the headers used for the build: EINVAL ends them. */
    for (unsigned long cap = 0; cap < 64; cap++) {
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) && errno == EINVAL)
            break;
    }
}

int wrk_confine_rights(struct wrk_sandbox *s, char *err, size_t err_size)
{
    struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct d[2];

    memset(d, 0, sizeof(d));
    drop_bounding_set();
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (syscall(SYS_capset, &h, d) || syscall(SYS_capget, &h, d) || d[0].permitted || d[1].permitted ||
        d[0].effective || d[1].effective || d[0].inheritable || d[1].inheritable) {
        snprintf(err, err_size, "capabilities were not dropped: %s", strerror(errno));
        return -1;
    }
    wrk_layer_add(s, "no capabilities");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
        snprintf(err, err_size, "no_new_privs: %s", strerror(errno));
        return -1;
    }
    wrk_layer_add(s, "no new privileges");
    /* Otherwise sibling workers could open its memory, and a crash could write a core file. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) || prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0) {
        snprintf(err, err_size, "the process stays dumpable: %s", strerror(errno));
        return -1;
    }
    wrk_layer_add(s, "not dumpable");
    /* Reset by a change of user. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return 0;
}

/* ---- the user ---- */

/*
 * Opens a file that the provider will write to, and that will not be reached by another user or in
 * another view of the files; the variable then names the open file. `numbered`: a new one, with a
 * number behind the name if there is one already. `uid`: gets the file.
 */
static void keep_open(const char *variable, int flags, bool numbered, uid_t uid)
{
    const char *path = getenv(variable);
    struct stat st;
    char name[4200];
    int fd = -1;

    if (!path || !*path || !strcmp(path, "stderr"))
        return;
    for (int i = 0; i < (numbered ? NUMBERED_MAX : 1); i++) {
        int n = i ? snprintf(name, sizeof(name), "%s.%d", path, i) : snprintf(name, sizeof(name), "%s", path);

        fd = n < (int)sizeof(name) ? open(name, flags | O_CREAT | O_CLOEXEC, 0600) : -1;
        if (fd >= 0 || errno != EEXIST)
            break;
    }
    if (fd < 0)
        return; /* the provider reports the reason */
    /* A device (/dev/null, a terminal) stays whose it is. */
    if (uid != geteuid() && !fstat(fd, &st) && S_ISREG(st.st_mode) && fchown(fd, uid, (gid_t)uid))
        vgb_log(VGB_DEBUG, "%s: %s", path, strerror(errno));
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    setenv(variable, name, 1);
}

static void keep_files(struct wrk_sandbox *s, uid_t uid)
{
    int fd;

    keep_open("VGPU_SOFT_LOG", O_WRONLY | O_APPEND, false, uid);
    keep_open("VGPU_SOFT_PROFILE", O_RDWR | O_EXCL, true, uid);
    if (!strchr(s->provider, '/'))
        return;
    fd = open(s->provider, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        snprintf(s->own_path, sizeof(s->own_path), "/proc/self/fd/%d", fd);
}

/* The provider's path if it can still be opened, else the file opened before. */
static void find_provider(struct wrk_sandbox *s)
{
    int fd;

    if (!s->own_path[0])
        return;
    fd = open(s->provider, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    else
        s->provider = s->own_path;
}

static bool become_user(uid_t id)
{
    return !setgroups(0, NULL) && !setresgid(id, id, id) && !setresuid(id, id, id);
}

/* ---- namespaces ---- */

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    size_t n = strlen(text);
    bool ok = fd >= 0 && write(fd, text, n) == (ssize_t)n;

    if (fd >= 0)
        close(fd);
    return ok;
}

/* Enters a user namespace that maps this user only. */
static bool own_user_namespace(void)
{
    char uid[64], gid[64];

    snprintf(uid, sizeof(uid), "%u %u 1", geteuid(), geteuid());
    snprintf(gid, sizeof(gid), "%u %u 1", getegid(), getegid());
    /* After a change of user the files under /proc/self belong to root, unless: */
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    if (unshare(CLONE_NEWUSER))
        return false;
    write_file("/proc/self/setgroups", "deny");
    return write_file("/proc/self/uid_map", uid) && write_file("/proc/self/gid_map", gid);
}

static const struct {
    int flag;
    const char *name;
} kinds[] = {{CLONE_NEWNS, "mount"}, {CLONE_NEWNET, "network"}, {CLONE_NEWIPC, "ipc"}, {CLONE_NEWUTS, "uts"}};

/* Enters the namespaces not entered yet; returns the set entered. */
static int own_namespaces(int have)
{
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (!(have & kinds[i].flag) && !unshare(kinds[i].flag))
            have |= kinds[i].flag;
    }
    return have;
}

/* ---- the private view of the files ---- */

#define VIEW_MAX 128
#define VIEW_AT "/tmp" /* where the view is assembled, hiding the previous content */

struct view {
    unsigned n;
    struct {
        int fd;
        bool folder, writable;
        char path[512];
    } list[VIEW_MAX];
};

static void collect_view(void *arg, const char *path, enum wrk_access access)
{
    struct view *v = arg;
    struct stat st;
    int fd;

    /*
     * /proc is mounted whole: access to other processes is limited by Landlock and by the user id.
     */
    if (v->n == VIEW_MAX || strlen(path) >= sizeof(v->list[0].path) || !strncmp(path, "/proc/", 6) ||
        !strcmp(path, "/dev/shm")) /* make_shm() */
        return;
    fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return;
    v->list[v->n].fd = fd;
    v->list[v->n].folder = !fstat(fd, &st) && S_ISDIR(st.st_mode);
    v->list[v->n].writable = access != WRK_READ;
    snprintf(v->list[v->n].path, sizeof(v->list[0].path), "%s", path);
    v->n++;
}

/* Creates a mount point at this path of the view. */
static bool make_place(const char *path, bool folder)
{
    char at[600];
    int fd;

    snprintf(at, sizeof(at), "%s", path);
    for (char *p = at + sizeof(VIEW_AT); (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(at, 0755);
        *p = '/';
    }
    if (folder)
        return !mkdir(at, 0755) || errno == EEXIST;
    fd = open(at, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

struct attr { /* struct mount_attr of Linux 5.12 */
    uint64_t set, clear, propagation, userns_fd;
};
#define ATTR_RDONLY 1u
#define ATTR_NOSUID 2u
#define SYS_MOUNT_SETATTR 442
#define WITH_ALL_BELOW 0x8000 /* AT_RECURSIVE */

/* Makes it read-only, without set-user-id programs; `below`: including mounts inside. */
static bool make_read_only(const char *path, unsigned below)
{
    struct attr a = {.set = ATTR_RDONLY | ATTR_NOSUID};
    unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID;
    struct statvfs st;

    if (!syscall(SYS_MOUNT_SETATTR, AT_FDCWD, path, below, &a, sizeof(a)))
        return true;
    if (errno != ENOSYS || statvfs(path, &st))
        return false;
    /* Before Linux 5.12: this mount only, and its present flags must be repeated. */
    flags |= (st.f_flag & ST_NODEV ? MS_NODEV : 0) | (st.f_flag & ST_NOEXEC ? MS_NOEXEC : 0) |
             (st.f_flag & ST_NOATIME ? MS_NOATIME : 0) | (st.f_flag & ST_RELATIME ? MS_RELATIME : 0) |
             (st.f_flag & ST_NODIRATIME ? MS_NODIRATIME : 0);
    return !mount(NULL, path, NULL, flags, NULL);
}

static bool mount_one(const struct view *v, unsigned i)
{
    char from[32], to[600];
    struct stat st;

    snprintf(from, sizeof(from), "/proc/self/fd/%d", v->list[i].fd);
    snprintf(to, sizeof(to), VIEW_AT "%s", v->list[i].path);
    /*
     * Inside of a folder that is mounted there already it is there too: nothing is made in those.
     */
    if (!v->list[i].writable && !stat(to, &st))
        return true;
    return make_place(to, v->list[i].folder) && !mount(from, to, NULL, MS_BIND | MS_REC, NULL) &&
           (v->list[i].writable || make_read_only(to, WITH_ALL_BELOW));
}

/* /dev/shm is a link to a descriptor whose file system is mounted nowhere and cannot be mounted. */
static bool make_shm(const struct wrk_sandbox *s)
{
    return !s->has_shm || (make_place(VIEW_AT "/dev", true) && !symlink(s->shm, VIEW_AT "/dev/shm"));
}

/* Replaces the root by a small file system with only the paths a worker may use. */
static bool own_root(const struct wrk_sandbox *s)
{
    struct view *v = calloc(1, sizeof(*v));
    bool ok;

    if (!v)
        return false;
    wrk_sandbox_paths(s, collect_view, v);
    ok = !mount("vgpu", VIEW_AT, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755");
    if (ok) {
        ok = make_place(VIEW_AT "/proc", true) &&
             !mount("/proc", VIEW_AT "/proc", NULL, MS_BIND | MS_REC, NULL);
        for (unsigned i = 0; i < v->n && ok; i++)
            ok = mount_one(v, i);
        ok = ok && make_shm(s) && make_read_only(VIEW_AT, 0) && !chdir(VIEW_AT) &&
             !syscall(SYS_pivot_root, ".", ".") && !umount2(".", MNT_DETACH) && !chdir("/");
        if (!ok) {
            vgb_log(VGB_DEBUG, "no private view of the files: %s", strerror(errno));
            umount2(VIEW_AT, MNT_DETACH);
        }
    }
    for (unsigned i = 0; i < v->n; i++)
        close(v->list[i].fd);
    free(v);
    return ok;
}

static bool own_files(struct wrk_sandbox *s)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return false;
    s->has_shm = s->shm != NULL;

    bool view = own_root(s);

    s->has_shm &= view;
    return view;
}

bool wrk_confine(struct wrk_sandbox *s)
{
    const uid_t ids[] = {VGB_WORKER_UID(s->broker), VGB_WORKER_UID_LOW(s->broker)};
    bool root = geteuid() == 0, user = false, view = false;
    int have = 0;

    if (root) {
        keep_files(s, ids[0]);
        have = own_namespaces(0);
        if (have & CLONE_NEWNS)
            view = own_files(s);
        drop_bounding_set(); /* while still permitted */
        user = become_user(ids[0]) || become_user(ids[1]);
    } else {
        keep_files(s, geteuid());
    }
    if (user)
        wrk_layer_add(s, "user id %u", geteuid());
    else if (root)
        vgb_log(VGB_WARN, "this worker stays root: it may not become another user");
    if (own_user_namespace()) {
        wrk_layer_add(s, "user namespace");
        int more = own_namespaces(have);

        if (!view && more & CLONE_NEWNS)
            view = own_files(s);
        have = more;
    }
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (have & kinds[i].flag)
            wrk_layer_add(s, "%s namespace", kinds[i].name);
    }
    s->own_net = have & CLONE_NEWNET;
    if (view)
        wrk_layer_add(s, "private files");
    find_provider(s);
    return view;
}
