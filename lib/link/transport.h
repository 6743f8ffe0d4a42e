/* SPDX-License-Identifier: MIT */
/*
 * How libcuda reaches its worker. Two implementations: /dev/vgpuN (a VM) and a unix socket (one
 * host, no VM). Everything above this header is the same for both.
 */
#ifndef LNK_TRANSPORT_H
#define LNK_TRANSPORT_H

#include <stdint.h>
#include <stdbool.h>
#include <stddef.h>

struct lnk_transport;

/* A piece of host memory that the worker maps too. */
struct lnk_shared_memory {
    void *va;           /* page aligned */
    uint64_t length;    /* bytes, page aligned */
    uint32_t region;    /* id on the wire */
    uint64_t worker_va; /* where the worker has it; == va when that was free there */
    int kept;           /* socket, of share: the file that the pages are in, + 1; 0 = none */
    uint64_t inode;     /* ... and which file that is */
};

/* All functions return 0 or a negative errno value, and write a text to t->why on failure. */
struct lnk_transport_ops {
    const char *name;
    /* Connects, starts the worker and maps the window. `where` is a path. */
    int (*open)(struct lnk_transport *t, const char *where);
    /* The wake-up counter to pass to wait; to be read before "I sleep" is announced. */
    uint64_t (*seen)(struct lnk_transport *t);
    /*
     * Sleeps until the wake-up counter differs from `seen`, `deadline_ns` (CLOCK_MONOTONIC,
     * negative = none) passes (-ETIMEDOUT), or the worker is gone (-ENODEV).
     */
    int (*wait)(struct lnk_transport *t, uint64_t seen, int64_t deadline_ns);
    void (*doorbell)(struct lnk_transport *t);
    /* New zeroed memory, shared with the worker; at `hint` if that is free there (NULL: anywhere). */
    int (*alloc_shared)(struct lnk_transport *t, void *hint, uint64_t length, struct lnk_shared_memory *m);
    /* Shares existing memory of the process; -EOPNOTSUPP where the transport cannot, which changes nothing. */
    int (*share)(struct lnk_transport *t, void *va, uint64_t length, bool read_only,
                 struct lnk_shared_memory *m);
    /* Ends the sharing, and unmaps the memory when `unmap`; what is not unmapped is private to the process again. */
    int (*unshare)(struct lnk_transport *t, struct lnk_shared_memory *m, bool unmap);
    /*
     * A dma-buf of `length` bytes of shared memory from `offset` on, both whole pages: a new descriptor, which
     * keeps the pages whatever becomes of the sharing. NULL where the transport has none.
     */
    int (*export_dmabuf)(struct lnk_transport *t, const struct lnk_shared_memory *m, uint64_t offset,
                         uint64_t length, int *fd);
    /*
     * Shares the first `length` bytes (whole pages) of a dma-buf. `va` is reserved memory of that length: nothing
     * is mapped there, the worker has the pages at that address if it is free there. The descriptor stays the
     * caller's. NULL where the transport has none.
     */
    int (*import_dmabuf)(struct lnk_transport *t, int fd, void *va, uint64_t length, bool read_only,
                         struct lnk_shared_memory *m);
    /* In the child of a fork: lets go of what would keep the parent's worker alive. */
    void (*forked)(struct lnk_transport *t);
    void (*close)(struct lnk_transport *t);
};

struct lnk_transport {
    const struct lnk_transport_ops *ops;
    void *window;
    uint64_t window_size;
    int fd;              /* device or socket */
    int bell_fd;         /* socket: eventfd */
    volatile void *bell; /* device: address of the doorbell word */
    void *bell_page;
    uint32_t bell_value;
    _Atomic uint64_t known_seq; /* device: latest wake-up counter that any thread has seen */
    _Atomic uint32_t next_region;
    unsigned given_up; /* answers to MAP and UNMAP that nobody waits for any more; under `lock` */
    _Atomic int lock;  /* socket: one request at a time */
    bool dmabuf;       /* device: the driver exports and imports dma-bufs */
    unsigned number;   /* of the place that it was opened at */
    char why[384];     /* what went wrong, for people */
};

extern const struct lnk_transport_ops lnk_transport_dev;
extern const struct lnk_transport_ops lnk_transport_sock;

/* As many as the guest driver has numbers for. */
#define LNK_PLACES_MAX 64

/* Where a backend can be reached. */
struct lnk_place {
    const struct lnk_transport_ops *ops;
    unsigned number; /* N of /dev/vgpuN, or the position in VGPU_SOCKET */
    char path[256];
};

/*
 * Lists the places in the order in which their devices are numbered: those of $VGPU_SOCKET if set (several are
 * separated by ':'), else every /dev/vgpuN, else $XDG_RUNTIME_DIR/vgpu.sock or /run/vgpu/vgpu.sock. Returns how
 * many there are; only what exists is listed, but for VGPU_SOCKET.
 */
unsigned lnk_places(struct lnk_place list[LNK_PLACES_MAX]);

/* Opens one place. 0, or a negative errno value and a text in t->why. */
int lnk_transport_open_at(struct lnk_transport *t, const struct lnk_place *place);

/* -ENODEV, with t->why listing what was looked for: what there is to say when lnk_places() finds none. */
int lnk_transport_none(struct lnk_transport *t);

/* Opens the first place. */
int lnk_transport_open(struct lnk_transport *t);

/*
 * A software GPU has no identity of its own: each backend's says the same. One at another place than 0 gets the
 * number of the place into its UUID and its PCI domain, so that the devices of a process differ. Other devices
 * keep what they have. `bus_id` is "dddd:bb:ss.f"; `domain` is the attribute.
 */
void lnk_identify(unsigned number, const char *provider, uint8_t uuid[16], char *bus_id, int *domain);

#endif
