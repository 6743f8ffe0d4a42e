/* SPDX-License-Identifier: MIT */
/*
 * The transport without a VM: a SOCK_SEQPACKET connection to the broker, a memfd as window, an
 * eventfd as doorbell, a futex in the window to sleep on. protocol/vgp_sock.h is the contract.
 */
#define _GNU_SOURCE
#include "transport.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "mapped.h"

#include "../../kernel/vgpu_drv/uapi/vgpu_device.h"
#include "../../protocol/vgp_ring.h"
#include "../../protocol/vgp_sock.h"
#include "../clock/clock.h"

/* A futex does not see the broker hang up: look at the connection this often. */
#define SLICE_NS 100000000
/* Time limit for the broker's answer, ms; later it counts as dead (starting a worker may load
   CUDA). */
#define ANSWER_MS 30000
/* While the kernel has no memory to receive it: 1 ms apart. */
#define RECEIVE_TRIES 1000

static void explain_failure(struct lnk_transport *t, const char *what, const char *where, int error)
{
    const char *hint = "";

    if (error == ENOENT || error == ECONNREFUSED)
        hint = "; start one with: vgpu-backend --listen PATH";
    else if (error == EACCES || error == EPERM)
        hint = "; this user may not write to that socket";
    else if (error == ETIMEDOUT)
        hint = "; the backend does not answer";
    snprintf(t->why, sizeof(t->why), "%s %.150s: %s%s", what, where, strerror(error), hint);
}

static void sock_close(struct lnk_transport *t)
{
    if (t->window != NULL)
        munmap(t->window, t->window_size);
    if (t->bell_fd >= 0)
        close(t->bell_fd);
    if (t->fd >= 0)
        close(t->fd);
    t->window = NULL;
    t->fd = t->bell_fd = -1;
}

/* Receives a message with at most two descriptors; unexpected descriptors are closed. */
static int receive_message(int sock, void *buf, size_t cap, size_t *got, int fds[2])
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct iovec iov = {buf, cap};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.space,
                         .msg_controllen = sizeof(control.space)};
    struct pollfd p = {.fd = sock, .events = POLLIN};
    int n_fds = 0;
    ssize_t n;

    fds[0] = fds[1] = -1;
    do {
        n = poll(&p, 1, ANSWER_MS);
    } while (n < 0 && errno == EINTR);
    if (n == 0)
        return -ETIMEDOUT;
    /* The kernel is out of memory: the answer is still queued and would be mistaken for the next
       one. */
    for (int tries = 0;; tries++) {
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
        if (n >= 0 || (errno != EINTR && errno != ENOMEM && errno != ENOBUFS) || tries == RECEIVE_TRIES)
            break;
        if (errno != EINTR)
            usleep(1000);
    }
    if (n < 0)
        return -errno;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c != NULL; c = CMSG_NXTHDR(&msg, c)) {
        size_t count;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
            if (n_fds < 2)
                fds[n_fds++] = fd;
            else
                close(fd);
        }
    }
    if (n == 0)
        return -ECONNRESET;
    *got = (size_t)n;
    return 0;
}

static int map_window(struct lnk_transport *t, int fd, uint64_t size)
{
    off_t real = lseek(fd, 0, SEEK_END);
    int seals = fcntl(fd, F_GET_SEALS);
    void *p;

    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
        return -EPROTO; /* it could shrink under us: a SIGBUS in the application */
    if (size < VGP_WINDOW_MIN || size > (1ull << 32) || real < 0 || (uint64_t)real < size)
        return -EPROTO;
    p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return -errno;
    madvise(p, size, MADV_DONTFORK); /* a forked child must not access the parent's window */
    t->window = p;
    t->window_size = size;
    return 0;
}

static int sock_open(struct lnk_transport *t, const char *where)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct vgp_sock_hello hello = {
        .type = VGP_SOCK_HELLO,
        .version_major = VGP_VERSION_MAJOR,
        .version_minor = VGP_VERSION_MINOR,
    };
    union {
        uint32_t type;
        struct vgp_sock_welcome welcome;
        struct vgp_sock_refused refused;
    } answer;
    const char *step = "connect to";
    int fds[2] = {-1, -1};
    size_t n = 0;
    int rc = -ENAMETOOLONG;

    if (strlen(where) >= sizeof(addr.sun_path))
        goto fail;
    strcpy(addr.sun_path, where);
    t->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (t->fd < 0 || connect(t->fd, (struct sockaddr *)&addr, sizeof(addr)) != 0) {
        rc = -errno;
        goto fail;
    }
    strncpy(hello.label, program_invocation_short_name, sizeof(hello.label) - 1);
    step = "greet";
    if (send(t->fd, &hello, sizeof(hello), MSG_NOSIGNAL) != (ssize_t)sizeof(hello)) {
        rc = -errno;
        goto fail;
    }
    memset(&answer, 0, sizeof(answer));
    rc = receive_message(t->fd, &answer, sizeof(answer), &n, fds);
    if (rc != 0)
        goto fail;
    if (n >= sizeof(answer.refused) && answer.type == VGP_SOCK_REFUSED) {
        answer.refused.text[sizeof(answer.refused.text) - 1] = '\0';
        snprintf(t->why, sizeof(t->why), "the backend refuses: %s", answer.refused.text);
        rc = answer.refused.status == VGPU_S_QUOTA ? -EUSERS : -ECONNREFUSED;
        goto close_all;
    }
    step = "set up the window of";
    rc = -EPROTO;
    if (n < sizeof(answer.welcome) || answer.type != VGP_SOCK_WELCOME || fds[0] < 0 || fds[1] < 0)
        goto fail;
    rc = map_window(t, fds[0], answer.welcome.window_size);
    if (rc != 0)
        goto fail;
    close(fds[0]);
    t->bell_fd = fds[1];
    return 0;

fail:
    explain_failure(t, step, where, -rc);
close_all:
    if (fds[0] >= 0)
        close(fds[0]);
    if (fds[1] >= 0)
        close(fds[1]);
    sock_close(t);
    return rc;
}

static uint32_t *wake_word(struct lnk_transport *t)
{
    return &((struct vgp_window_shared *)t->window)->wake_seq;
}

static uint64_t sock_seen(struct lnk_transport *t)
{
    return __atomic_load_n(wake_word(t), __ATOMIC_ACQUIRE);
}

static bool hung_up(struct lnk_transport *t)
{
    struct pollfd p = {.fd = t->fd, .events = 0};

    return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

static int sock_wait(struct lnk_transport *t, uint64_t seen, int64_t deadline_ns)
{
    for (;;) {
        int64_t slice = SLICE_NS;
        struct timespec ts;

        if (__atomic_load_n(wake_word(t), __ATOMIC_ACQUIRE) != (uint32_t)seen)
            return 0;
        if (deadline_ns >= 0) {
            int64_t left = deadline_ns - (int64_t)clk_now_ns();

            if (left <= 0)
                return hung_up(t) ? -ENODEV : -ETIMEDOUT;
            if (left < slice)
                slice = left;
        }
        ts.tv_sec = slice / 1000000000;
        ts.tv_nsec = slice % 1000000000;
        if (syscall(SYS_futex, wake_word(t), FUTEX_WAIT, (uint32_t)seen, &ts, NULL, 0) == 0)
            return 0;
        if (errno == EAGAIN)
            return 0;
        if (errno == ETIMEDOUT && hung_up(t))
            return -ENODEV;
    }
}

static void sock_doorbell(struct lnk_transport *t)
{
    uint64_t one = 1;
    ssize_t n;

    do {
        n = write(t->bell_fd, &one, sizeof(one));
    } while (n < 0 && errno == EINTR);
}

static void lock_requests(struct lnk_transport *t)
{
    int expected = 0;

    while (!atomic_compare_exchange_weak(&t->lock, &expected, 1)) {
        expected = 0;
        usleep(100); /* rare: two threads pin memory at the same time */
    }
}

/* Sends MAP or UNMAP and waits for MAPPED. */
static int request_mapping(struct lnk_transport *t, const struct vgp_sock_map *map, int fd,
                           uint64_t *worker_va)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = {(void *)map, sizeof(*map)};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    struct vgp_sock_mapped mapped;
    int fds[2];
    size_t n = 0;
    int rc = 0;

    if (fd >= 0) {
        struct cmsghdr *c = &control.align;

        memset(&control, 0, sizeof(control));
        msg.msg_control = control.space;
        msg.msg_controllen = sizeof(control.space);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof(int));
    }
    lock_requests(t);
    if (sendmsg(t->fd, &msg, MSG_NOSIGNAL) < 0) {
        rc = -errno;
    } else {
        do {
            rc = receive_message(t->fd, &mapped, sizeof(mapped), &n, fds);
            for (int i = 0; i < 2; i++) {
                if (fds[i] >= 0)
                    close(fds[i]);
            }
            /* Answers to abandoned requests may still arrive. */
        } while (rc == 0 && t->given_up != 0 && mapped.region != map->region && t->given_up--);
        if (rc != 0 && rc != -ECONNRESET) {
            struct vgp_sock_map undo = {.type = VGP_SOCK_UNMAP, .region = map->region};

            t->given_up++;
            /* The region stays unknown to the program: its end is not waited for. */
            if (map->type == VGP_SOCK_MAP && send(t->fd, &undo, sizeof(undo), MSG_NOSIGNAL) > 0)
                t->given_up++;
        }
    }
    atomic_store(&t->lock, 0);
    if (rc != 0)
        return rc;
    if (n < sizeof(mapped) || mapped.type != VGP_SOCK_MAPPED || mapped.region != map->region)
        return -EPROTO;
    if (mapped.status == VGPU_S_QUOTA)
        return -EDQUOT;
    if (mapped.status != 0)
        return -ENOMEM;
    if (worker_va != NULL)
        *worker_va = mapped.worker_va;
    return 0;
}

/* Shares [va, va + length) that is already mapped from fd. */
static int map_fd(struct lnk_transport *t, int fd, void *va, uint64_t length, struct lnk_shared_memory *m)
{
    struct vgp_sock_map map = {
        .type = VGP_SOCK_MAP,
        .region = atomic_fetch_add(&t->next_region, 1),
        .va = (uintptr_t)va,
        .length = length,
    };
    int rc = request_mapping(t, &map, fd, &m->worker_va);

    if (rc != 0) {
        snprintf(t->why, sizeof(t->why), "the backend could not map %llu bytes: %s%s",
                 (unsigned long long)length, strerror(-rc), rc == -EDQUOT ? LNK_PIN_QUOTA : "");
        return rc;
    }
    m->va = va;
    m->length = length;
    m->region = map.region;
    m->kept = 0;
    return 0;
}

static int make_memfd(uint64_t length)
{
    int fd = memfd_create("vgpu-pinned", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int rc;

    if (fd < 0)
        return -errno;
    if (ftruncate(fd, (off_t)length) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
        rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

static int sock_alloc_shared(struct lnk_transport *t, void *hint, uint64_t length,
                             struct lnk_shared_memory *m)
{
    struct sysinfo si;
    void *p;
    int fd, rc;

    /* A memfd may be larger than the machine's memory; pinned memory must not. */
    if (sysinfo(&si) == 0 && length / si.mem_unit > si.totalram)
        return -ENOMEM;
    fd = make_memfd(length);
    if (fd < 0)
        return fd;
    p = mmap(hint, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        rc = -errno;
        close(fd);
        return rc;
    }
    madvise(p, length, MADV_DONTFORK);
    rc = map_fd(t, fd, p, length, m);
    close(fd);
    if (rc != 0)
        munmap(p, length);
    return rc;
}

static bool note_shared(const struct lnk_mapping *p, void *arg)
{
    *(bool *)arg = p->access[3] == 's';
    return p->access[3] != 's';
}

static int copy_to(int fd, const uint8_t *va, uint64_t length)
{
    for (uint64_t done = 0; done < length;) { /* write(2) reports bad addresses, memcpy would crash */
        ssize_t n = pwrite(fd, va + done, length - done, (off_t)done);

        if (n > 0)
            done += (uint64_t)n;
        else if (n == 0 || errno != EINTR)
            return n < 0 && errno == EFAULT ? -EFAULT : -ENOMEM;
    }
    return 0;
}

/*
 * Existing memory: whole pages are replaced by pages of a memfd with the same contents, at the same
 * address. (Whole pages only: other threads may write to neighbouring data in a shared page
 * meanwhile. The caller has promised not to write to the range during the call.) Shared memory is
 * left unchanged: other mappings of it, in this or other processes, would no longer refer to the
 * same memory.
 */
static int sock_share(struct lnk_transport *t, void *va, uint64_t length, bool read_only,
                      struct lnk_shared_memory *m)
{
    bool shared = false;
    struct stat st;
    int fd, rc;
    void *p;

    if (read_only)
        return -EOPNOTSUPP;
    lnk_each_mapping(va, length, note_shared, &shared);
    if (shared)
        return -EOPNOTSUPP;
    fd = make_memfd(length);
    if (fd < 0) /* each region keeps a descriptor: the process has reached its limit */
        return fd == -EMFILE || fd == -ENFILE ? -EOPNOTSUPP : fd;
    rc = fstat(fd, &st) != 0 ? -errno : copy_to(fd, va, length);
    if (rc == 0)
        rc = map_fd(t, fd, va, length, m);
    if (rc != 0) {
        close(fd);
        return rc;
    }
    p = mmap(va, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    if (p == MAP_FAILED) {
        struct vgp_sock_map map = {.type = VGP_SOCK_UNMAP, .region = m->region};

        rc = -errno;
        request_mapping(t, &map, -1, NULL);
        close(fd);
        return rc;
    }
    madvise(p, length, MADV_DONTFORK);
    m->kept = fd + 1;
    m->inode = st.st_ino;
    return 0;
}

struct kept_file {
    int fd;
    struct stat st;
};

/*
 * Makes the same pages private. They are first mapped elsewhere: a mapping that fails in place
 * would have removed the old one. Nothing is copied, so concurrent writes of other threads are not
 * lost.
 */
static bool make_private(const struct lnk_mapping *p, void *arg)
{
    const struct kept_file *file = arg;
    uint64_t length = p->end - p->start;
    int prot = (p->access[0] == 'r' ? PROT_READ : 0) | (p->access[1] == 'w' ? PROT_WRITE : 0) |
               (p->access[2] == 'x' ? PROT_EXEC : 0);
    void *new;

    /* The program may have unmapped the memory and mapped other memory there. */
    if (p->access[3] != 's' || p->inode != file->st.st_ino || p->major != major(file->st.st_dev) ||
        p->minor != minor(file->st.st_dev))
        return true;
    new = mmap(NULL, length, prot, MAP_PRIVATE, file->fd, (off_t)p->offset);
    if (new != MAP_FAILED &&
        mremap(new, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)(uintptr_t)p->start) == MAP_FAILED)
        munmap(new, length);
    return true;
}

static int sock_unshare(struct lnk_transport *t, struct lnk_shared_memory *m, bool unmap)
{
    struct vgp_sock_map map = {.type = VGP_SOCK_UNMAP, .region = m->region};
    struct kept_file file = {.fd = m->kept - 1};
    int rc = request_mapping(t, &map, -1, NULL);

    /* A program that closes all descriptors has closed this one, too, and may have reused its
       number. */
    if (m->kept != 0 && fstat(file.fd, &file.st) == 0 && file.st.st_ino == m->inode) {
        if (!unmap)
            lnk_each_mapping(m->va, m->length, make_private, &file);
        close(file.fd);
    }
    m->kept = 0;
    if (unmap)
        munmap(m->va, m->length);
    return rc;
}

static void sock_forked(struct lnk_transport *t)
{
    close(t->fd);
    close(t->bell_fd);
    t->fd = t->bell_fd = -1;
}

const struct lnk_transport_ops lnk_transport_sock = {
    .name = "socket",
    .open = sock_open,
    .seen = sock_seen,
    .wait = sock_wait,
    .doorbell = sock_doorbell,
    .alloc_shared = sock_alloc_shared,
    .share = sock_share,
    .unshare = sock_unshare,
    .forked = sock_forked,
    .close = sock_close,
};
