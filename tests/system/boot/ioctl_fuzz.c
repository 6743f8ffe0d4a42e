// SPDX-License-Identifier: MIT
/*
 * ioctl_fuzz SEED STEPS: random use of the driver's device: ioctls with good, odd and bad
 * arguments, mappings at any offset and writes into them, forked children that use its descriptors,
 * closing in any order. Equal seeds make equal steps. A call may fail, but must not hang (an alarm
 * ends the program) or succeed with bad arguments. The caller checks the kernel's log.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "vgpu_ioctl.h"

#define DEVICE "/dev/vgpu0"
#define FILES 4
#define MAPS 8
#define DMABUFS 6
#define PAGES 64u       /* pages of memory pinned in parts */
#define CREATES_MAX 16u /* each starts a process on the host */
#define LIMIT_S 900     /* for an emulated processor under load, s */

static struct file {
    int fd; /* -1: closed */
    bool created;
    struct vgpu_create_client client;
    uint32_t region[4];
} file[FILES];
static struct {
    uint8_t *p;
    size_t n;
} map[MAPS];
static int dmabuf[DMABUFS]; /* -1: none */
static uint8_t *memory;
static uint64_t state;
static unsigned creates, calls, done, wrong;

static uint64_t random64(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static unsigned below(unsigned n)
{
    return (unsigned)(random64() >> 33) % n;
}

static uint64_t odd(void)
{
    static const uint64_t list[] = {
        0,          1,          4095,       4096,      4097,       1u << 30,         UINT32_MAX,
        1ull << 32, 1ull << 44, 1ull << 47, INT64_MAX, UINT64_MAX, UINT64_MAX - 4095};

    return below(4) ? list[below(sizeof(list) / sizeof(list[0]))] : random64();
}

static void bad(const char *what)
{
    wrong++;
    printf("seed's step %u: %s\n", calls, what);
}

static int call(int fd, unsigned long request, void *arg)
{
    int r = ioctl(fd, request, arg);

    calls++;
    done += r >= 0;
    return r;
}

static void create(struct file *f)
{
    struct vgpu_create_client c = {0};
    bool odd_one = below(4) == 0;

    if (creates >= CREATES_MAX && !odd_one)
        return;
    if (odd_one) {
        c.flags = (uint32_t)random64() | 1;
        c.reserved[below(2)] = odd();
    } else {
        creates++;
    }
    if (call(f->fd, VGPU_IOCTL_CREATE_CLIENT, &c))
        return;
    if (odd_one)
        bad("CREATE with flags that do not exist");
    if (f->created)
        bad("a second CREATE");
    f->created = true;
    f->client = c;
}

static void pin(struct file *f)
{
    unsigned first = below(PAGES), n = 1 + below(PAGES - first);
    struct vgpu_pin p = {.addr = (uintptr_t)memory + first * 4096ull, .length = n * 4096ull};
    bool fine = true;

    switch (below(8)) {
    case 0:
        p.addr = odd(), fine = false;
        break;
    case 1:
        p.length = odd(), fine = false;
        break;
    case 2:
        p.flags = (uint32_t)random64() | 2, fine = false;
        break;
    case 3:
        p.flags = VGPU_PIN_FLAG_READONLY;
        break;
    case 4:
        p.reserved[below(2)] = odd() | 1, fine = false;
        break;
    default:
        break;
    }
    if (call(f->fd, VGPU_IOCTL_PIN, &p))
        return;
    if (!f->created)
        bad("PIN before CREATE");
    if (!fine && (p.flags & ~VGPU_PIN_FLAG_READONLY || p.length % 4096 || p.addr % 4096 || p.reserved[0] ||
                  p.reserved[1]))
        bad("PIN of what cannot be pinned");
    f->region[below(4)] = p.region;
}

static void unpin(struct file *f)
{
    struct vgpu_unpin u = {.region = below(3) ? f->region[below(4)] : (uint32_t)odd(),
                           .flags = below(8) ? 0 : 1};

    if (!call(f->fd, VGPU_IOCTL_UNPIN, &u) && (u.flags || !f->created))
        bad("UNPIN of nothing");
}

/* Exports part of a region, of this file or of another. */
static void export(struct file *f)
{
    struct vgpu_export e = {.region = f->region[below(4)],
                            .offset = below(PAGES) * 4096ull,
                            .length = (1 + below(PAGES)) * 4096ull};
    bool fine = true;
    unsigned i = below(DMABUFS);

    switch (below(8)) {
    case 0:
        e.region = below(2) ? file[below(FILES)].region[below(4)] : (uint32_t)odd();
        break;
    case 1:
        e.offset = odd();
        break;
    case 2:
        e.length = odd();
        break;
    case 3:
        e.flags = (uint32_t)random64() | 1, fine = false;
        break;
    case 4:
        e.reserved[below(2)] = odd() | 1, fine = false;
        break;
    default:
        break;
    }
    if (call(f->fd, VGPU_IOCTL_EXPORT, &e))
        return;
    if (!f->created || !fine || e.length == 0 || e.length % 4096 || e.offset % 4096 ||
        e.length > PAGES * 4096ull || e.offset > PAGES * 4096ull)
        bad("EXPORT of what cannot be exported");
    if (lseek(e.fd, 0, SEEK_END) != (off_t)e.length)
        bad("a dma-buf of another size");
    if (dmabuf[i] >= 0)
        close(dmabuf[i]);
    dmabuf[i] = e.fd;
}

static void import(struct file *f)
{
    struct vgpu_import m = {.addr = (uintptr_t)memory,
                            .length = (1 + below(8)) * 4096ull,
                            .offset = below(8) * 4096ull,
                            .fd = dmabuf[below(DMABUFS)]};
    bool fine = true;

    switch (below(8)) {
    case 0:
        m.fd = below(2) ? f->fd : (int32_t)odd();
        break;
    case 1:
        m.offset = odd();
        break;
    case 2:
        m.length = odd();
        break;
    case 3:
        m.addr = odd();
        break;
    case 4:
        m.flags = below(2) ? VGPU_PIN_FLAG_READONLY : (uint32_t)random64() | 2;
        fine = m.flags == VGPU_PIN_FLAG_READONLY;
        break;
    case 5:
        m.reserved[below(2)] = odd() | 1, fine = false;
        break;
    default:
        break;
    }
    if (call(f->fd, VGPU_IOCTL_IMPORT, &m))
        return;
    if (!f->created || !fine || m.length == 0 || m.length % 4096 || m.offset % 4096 || m.addr % 4096)
        bad("IMPORT of what cannot be imported");
    f->region[below(4)] = m.region;
}

/* Maps, writes and closes a dma-buf, concurrently with the clients. */
static void use_dmabuf(void)
{
    unsigned i = below(DMABUFS);
    volatile uint8_t *p;

    calls++;
    if (dmabuf[i] < 0)
        return;
    if (below(3) == 0) {
        close(dmabuf[i]);
        dmabuf[i] = -1;
        return;
    }
    p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, below(8) ? MAP_SHARED : MAP_PRIVATE, dmabuf[i],
             (off_t)(below(4) * 4096));
    if (p == MAP_FAILED)
        return;
    done++;
    p[below(4096)] = (uint8_t)random64();
    munmap((void *)p, 4096);
}

static void wait_for(struct file *f)
{
    struct vgpu_wait w = {.seen = below(2) ? odd() : f->client.wake_seq,
                          .flags = below(8) ? 0 : (uint32_t)odd()};
    struct timespec now;

    /* Shortly from now, or in the past; always finite. */
    clock_gettime(CLOCK_MONOTONIC, &now);
    w.deadline_ns =
        below(2) ? (int64_t)below(1000) : now.tv_sec * 1000000000ll + now.tv_nsec + (int64_t)below(2000000);
    if (!call(f->fd, VGPU_IOCTL_WAIT, &w) && !f->created)
        bad("WAIT before CREATE");
}

static void raw(struct file *f)
{
    uint64_t block[16];
    unsigned nr = below(8);

    for (unsigned i = 0; i < 16; i++)
        block[i] = odd();
    /*
     * Any number, size and direction; the buffer has the largest size, or the pointer is invalid.
     */
    if (nr == 4)
        nr = 5; /* WAIT with such a deadline may never end */
    call(f->fd, _IOC(below(4), below(4) ? VGPU_IOCTL_MAGIC : below(256), nr, below(129)),
         below(4) ? (void *)block : (void *)(uintptr_t)odd());
}

static void map_it(struct file *f)
{
    unsigned i = below(MAPS);
    uint64_t at = below(3) == 0 ? odd() & ~4095ull
                  : below(2)    ? f->client.window_offset + below(4) * 4096ull
                                : f->client.doorbell_offset;
    size_t n = below(3) == 0 ? (size_t)(odd() & 0xfffffff) : 4096ull << below(8);

    if (map[i].p)
        munmap(map[i].p, map[i].n);
    map[i].p = mmap(NULL, n, PROT_READ | (below(4) ? PROT_WRITE : 0) | (below(16) ? 0 : PROT_EXEC),
                    below(8) ? MAP_SHARED : MAP_PRIVATE, f->fd, (off_t)at);
    calls++;
    if (map[i].p == MAP_FAILED) {
        map[i].p = NULL;
        return;
    }
    if (!f->created)
        bad("a mapping before CREATE");
    map[i].n = n;
    done++;
}

static void leave(int sig)
{
    (void)sig;
    _exit(0);
}

/*
 * Writes to memory that may be the ring: the worker may end, but nothing else. In a child, which
 * may fault.
 */
static void touch(void)
{
    unsigned i = below(MAPS);
    pid_t pid;

    if (!map[i].p)
        return;
    calls++;
    if (below(4)) {
        mprotect(map[i].p, 4096, PROT_READ);
        madvise(map[i].p, map[i].n, (int)below(20));
        return;
    }
    pid = fork(); /* has no such mapping: the driver's mappings are not inherited */
    if (pid == 0) {
        signal(SIGSEGV, leave); /* a handler keeps the kernel's log clean */
        signal(SIGBUS, leave);
        ((volatile uint8_t *)map[i].p)[below(4096)] = (uint8_t)random64();
        _exit(0);
    }
    if (pid > 0)
        waitpid(pid, NULL, 0);
}

static void child(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        for (int i = 0; i < 6; i++) {
            struct file *f = &file[below(FILES)];
            struct vgpu_query q = {0};

            if (f->fd < 0)
                continue;
            call(f->fd, VGPU_IOCTL_QUERY, &q);
            raw(f);
            unpin(f);
            export(f);
            import(f);
            use_dmabuf();
        }
        _exit(0);
    }
    if (pid > 0)
        waitpid(pid, NULL, 0);
}

static void step(void)
{
    struct file *f = &file[below(FILES)];
    struct vgpu_query q = {0};

    if (f->fd < 0) {
        memset(f, 0, sizeof(*f));
        f->fd = open(DEVICE, O_RDWR | O_CLOEXEC);
        return;
    }
    switch (below(30)) {
    case 0:
    case 1:
        create(f);
        break;
    case 2:
    case 3:
    case 4:
    case 5:
        pin(f);
        break;
    case 6:
    case 7:
    case 8:
        unpin(f);
        break;
    case 9:
    case 10:
        wait_for(f);
        break;
    case 11:
    case 12:
    case 13:
        map_it(f);
        break;
    case 14:
        touch();
        break;
    case 15:
        child();
        break;
    case 16: /* rare, as closing starts the end of a process on the host */
        if (below(6) == 0) {
            close(f->fd);
            f->fd = -1;
        }
        break;
    case 24:
    case 25:
        export(f);
        break;
    case 26:
    case 27:
        import(f);
        break;
    case 28:
        use_dmabuf();
        break;
    case 17:
        call(f->fd, VGPU_IOCTL_QUERY, &q);
        break;
    default:
        raw(f);
        break;
    }
}

int main(int argc, char **argv)
{
    unsigned steps = argc == 3 ? (unsigned)atoi(argv[2]) : 0;

    if (!steps) {
        fprintf(stderr, "usage: ioctl_fuzz SEED STEPS\n");
        return 2;
    }
    state = strtoull(argv[1], NULL, 0) * 0x9e3779b97f4a7c15ull + 1;
    memory = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < FILES; i++)
        file[i].fd = -1;
    for (int i = 0; i < DMABUFS; i++)
        dmabuf[i] = -1;
    alarm(LIMIT_S);
    for (unsigned i = 0; i < steps; i++)
        step();
    for (int i = 0; i < FILES; i++) {
        if (file[i].fd >= 0)
            close(file[i].fd);
    }
    printf("%u calls, %u succeeded, %u clients, %u wrong\n", calls, done, creates, wrong);
    return wrong != 0;
}
