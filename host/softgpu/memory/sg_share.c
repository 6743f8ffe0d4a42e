/* SPDX-License-Identifier: MIT */
/*
 * Sharing memory with other processes: the transport.
 *
 * The default transport is a sealed memfd whose name holds 128 random bits. The token contains the
 * process in which it is open and the descriptor there; another process opens it through /proc
 * (which the kernel allows to the same user) and compares the name.
 */
#define _GNU_SOURCE
#include "memory/share.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory/memory.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* The contents of a token of the default transport. */
struct place {
    uint8_t random[16];
    int32_t pid, fd;
    uint8_t zero[8];
};
_Static_assert(sizeof(struct place) == SG_SHARE_TOKEN, "one token");

static void name_of(const struct place *p, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "vgpu-soft-");

    for (unsigned i = 0; i < sizeof(p->random); i++)
        n += (size_t)snprintf(out + n, size - n, "%02x", p->random[i]);
}

static int own_create(void *arg, uint32_t kind, uint64_t bytes, uint8_t *token, uint32_t *holder)
{
    struct place p = {.pid = (int32_t)getpid()};
    char name[64];
    int copy = -1;

    (void)arg;
    (void)kind;
    if (getrandom(p.random, sizeof(p.random), 0) != (ssize_t)sizeof(p.random))
        return -1;
    name_of(&p, name, sizeof(name));
    p.fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (p.fd < 0)
        return -1;
    if (!ftruncate(p.fd, (off_t)bytes) && !fcntl(p.fd, F_ADD_SEALS, SEALS))
        copy = fcntl(p.fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0) {
        close(p.fd);
        return -1;
    }
    memcpy(token, &p, sizeof(p));
    *holder = (uint32_t)p.pid;
    return copy;
}

static int own_open(void *arg, uint32_t kind, const uint8_t *token, uint32_t *holder)
{
    char path[64], name[64], want[96], got[96];
    struct place p;
    ssize_t n;

    (void)arg;
    (void)kind;
    memcpy(&p, token, sizeof(p));
    name_of(&p, name, sizeof(name));
    snprintf(want, sizeof(want), "/memfd:%s (deleted)", name);
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", p.pid, p.fd);
    n = readlink(path, got, sizeof(got) - 1);
    if (n < 0)
        return -1;
    got[n] = '\0';
    *holder = (uint32_t)getpid();
    if (strcmp(got, want))
        return -1;
    int fd = open(path, O_RDWR | O_CLOEXEC);

    return fd >= 0 ? fd : errno == ENOENT ? -1 : -2;
}

static void own_close(void *arg, const uint8_t *token)
{
    struct place p;

    (void)arg;
    memcpy(&p, token, sizeof(p));
    if (p.pid == (int32_t)getpid())
        close(p.fd);
}

static int own_again(void *arg, const uint8_t *token)
{
    struct place p;

    (void)arg;
    memcpy(&p, token, sizeof(p));
    return p.pid == (int32_t)getpid() ? fcntl(p.fd, F_DUPFD_CLOEXEC, 3) : -1;
}

static bool own_gone(void *arg, uint32_t holder)
{
    (void)arg;
    return kill((pid_t)holder, 0) != 0 && errno == ESRCH;
}

static struct sg_share_ops ops = {own_create, own_open, own_close, own_again, own_gone};
static void *ops_arg;

void sg_set_share(const struct sg_share_ops *o, void *arg)
{
    ops = *o;
    ops_arg = arg;
}

int sg_share_create(uint32_t kind, uint64_t bytes, uint8_t *token, uint32_t *holder)
{
    uint32_t unused;

    return ops.create(ops_arg, kind, bytes, token, holder ? holder : &unused);
}

int sg_share_open(uint32_t kind, const uint8_t *token, uint64_t *bytes, uint32_t *holder)
{
    struct stat st;
    uint32_t unused;
    int fd = ops.open(ops_arg, kind, token, holder ? holder : &unused);

    if (fd < 0)
        return fd;
    int seals = fcntl(fd, F_GET_SEALS);

    if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) || st.st_size <= 0) {
        close(fd);
        ops.close(ops_arg, token);
        return -1;
    }
    *bytes = (uint64_t)st.st_size;
    return fd;
}

void sg_share_close(const uint8_t *token)
{
    ops.close(ops_arg, token);
}

bool sg_share_gone(uint32_t holder)
{
    return ops.gone && ops.gone(ops_arg, holder);
}

int sg_share_again(const uint8_t *token)
{
    return ops.again ? ops.again(ops_arg, token) : -1;
}

bool sg_share_gives_fds(void)
{
    return ops.again != NULL;
}

/* ---- memory shared by descriptor ---- */

static struct sg_share_tail *map_tail(int fd, uint64_t bytes, int prot)
{
    void *p = mmap(NULL, 4096, prot, MAP_SHARED, fd, (off_t)bytes);

    return p == MAP_FAILED ? NULL : p;
}

int sg_share_create_fd(const char *magic, uint64_t bytes, int device, uint8_t *token,
                       struct sg_share_tail *tail)
{
    struct sg_share_tail *page = NULL;
    int fd = sg_share_create(SG_SHARE_FD, bytes + 4096, token, NULL);

    if (fd < 0)
        return -1;
    memset(tail, 0, sizeof(*tail));
    memcpy(tail->magic, magic, sizeof(tail->magic));
    tail->bytes = bytes;
    tail->device = device;
    if (getrandom(tail->id, sizeof(tail->id), 0) == (ssize_t)sizeof(tail->id))
        page = map_tail(fd, bytes, PROT_READ | PROT_WRITE);
    if (!page) {
        close(fd);
        sg_share_close(token);
        return -1;
    }
    memcpy(page, tail, sizeof(*tail));
    munmap(page, 4096);
    return fd;
}

bool sg_share_look(int fd, const char *magic, struct sg_share_tail *tail)
{
    struct stat st;
    int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
    uint64_t bytes;

    errno = EINVAL;
    if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) || st.st_size < 4096 || st.st_size % 4096)
        return false;
    bytes = (uint64_t)st.st_size - 4096;
    struct sg_share_tail *page = map_tail(fd, bytes, PROT_READ);

    if (!page) {
        errno = ENOMEM;
        return false;
    }
    memcpy(tail, page, sizeof(*tail)); /* read once: other processes may write to it */
    munmap(page, 4096);
    return !memcmp(tail->magic, magic, sizeof(tail->magic)) && tail->bytes == bytes &&
           (unsigned)tail->device < sg_config.ndevices;
}
