/* SPDX-License-Identifier: MIT */
/*
 * The transport between libcuda and its worker. There are two implementations: /dev/vgpuN (a VM)
 * and a unix socket (one host, no VM). The code above this header is the same for both.
 */
#ifndef LNK_TRANSPORT_H
#define LNK_TRANSPORT_H

#include <stdint.h>
#include <stdbool.h>
#include <stddef.h>

struct lnk_transport;

/* Memory of this process that the worker maps, too. */
struct lnk_shared_memory {
    void *va;           /* page aligned */
    uint64_t length;    /* bytes, page aligned */
    uint32_t region;    /* id on the wire */
    uint64_t worker_va; /* address in the worker; == va if that was free there */
    int kept;           /* socket, for share: 1 + the file that holds the pages; 0 = none */
    uint64_t inode;     /* inode of that file */
};

/* All functions return 0 or a negative errno value and set t->why on failure. */
struct lnk_transport_ops {
    const char *name;
    /* Connects, starts the worker and maps the window. `where` is a path. */
    int (*open)(struct lnk_transport *t, const char *where);
    /* The current wake-up counter, to pass to wait; read it before announcing a sleep. */
    uint64_t (*seen)(struct lnk_transport *t);
    /*
     * Sleeps until the wake-up counter differs from `seen`, `deadline_ns` (CLOCK_MONOTONIC,
     * negative = none) passes (-ETIMEDOUT), or the worker is gone (-ENODEV).
     */
    int (*wait)(struct lnk_transport *t, uint64_t seen, int64_t deadline_ns);
    void (*doorbell)(struct lnk_transport *t);
    /* Allocates zeroed memory shared with the worker; at `hint` if that is free there (NULL:
       anywhere). */
    int (*alloc_shared)(struct lnk_transport *t, void *hint, uint64_t length, struct lnk_shared_memory *m);
    /* Shares existing memory of the process. -EOPNOTSUPP, with nothing changed, if the transport
       cannot. */
    int (*share)(struct lnk_transport *t, void *va, uint64_t length, bool read_only,
                 struct lnk_shared_memory *m);
    /* Ends the sharing; with `unmap` also unmaps the memory, otherwise the memory is private
       again. */
    int (*unshare)(struct lnk_transport *t, struct lnk_shared_memory *m, bool unmap);
    /*
     * Exports `length` bytes of shared memory from `offset` on, both in whole pages, as a dma-buf:
     * a new descriptor, which keeps the pages even after the sharing ends. NULL if the transport
     * has no dma-bufs.
     */
    int (*export_dmabuf)(struct lnk_transport *t, const struct lnk_shared_memory *m, uint64_t offset,
                         uint64_t length, int *fd);
    /*
     * Shares the first `length` bytes (whole pages) of a dma-buf. `va` is reserved address space of
     * that length: nothing is mapped there; the worker maps the pages at that address if it is
     * free. The caller keeps the descriptor. NULL if the transport has no dma-bufs.
     */
    int (*import_dmabuf)(struct lnk_transport *t, int fd, void *va, uint64_t length, bool read_only,
                         struct lnk_shared_memory *m);
    /* Call in the child of a fork: releases resources that would keep the parent's worker alive. */
    void (*forked)(struct lnk_transport *t);
    void (*close)(struct lnk_transport *t);
};

/* Part of `why` where the broker's quota refuses shared memory (-EDQUOT); `vgpu doctor` looks for the option. */
#define LNK_PIN_QUOTA "; the VM's quota of pinned memory (vgpu-backend --pin-quota)"

struct lnk_transport {
    const struct lnk_transport_ops *ops;
    void *window;
    uint64_t window_size;
    int fd;              /* device or socket */
    int bell_fd;         /* socket: eventfd */
    volatile void *bell; /* device: the doorbell word */
    void *bell_page;
    uint32_t bell_value;
    _Atomic uint64_t known_seq; /* device: latest wake-up counter seen by any thread */
    _Atomic uint32_t next_region;
    unsigned given_up; /* outstanding replies to abandoned MAP and UNMAP requests; under `lock` */
    _Atomic int lock;  /* socket: one request at a time */
    bool dmabuf;       /* device: the driver exports and imports dma-bufs */
    unsigned number;   /* number of the place it was opened at */
    char why[384];     /* description of the last failure */
};

extern const struct lnk_transport_ops lnk_transport_dev;
extern const struct lnk_transport_ops lnk_transport_sock;

/* As many devices as the guest driver has numbers for. */
#define LNK_PLACES_MAX 64

/* An address of a backend. */
struct lnk_place {
    const struct lnk_transport_ops *ops;
    unsigned number; /* N of /dev/vgpuN, or the position in VGPU_SOCKET */
    char path[256];
};

/*
 * Lists the places in the numbering order of their devices: those of $VGPU_SOCKET if set (separated
 * by ':'), else every /dev/vgpuN, else $XDG_RUNTIME_DIR/vgpu.sock or /run/vgpu/vgpu.sock. Returns
 * their number. Only existing places are listed, except those of VGPU_SOCKET.
 */
unsigned lnk_places(struct lnk_place list[LNK_PLACES_MAX]);

/* Opens a place. 0, or a negative errno value and a text in t->why. */
int lnk_transport_open_at(struct lnk_transport *t, const struct lnk_place *place);

/* Returns -ENODEV and lists in t->why the places that were tried; used if lnk_places() finds
   none. */
int lnk_transport_none(struct lnk_transport *t);

/* Opens the first place. */
int lnk_transport_open(struct lnk_transport *t);

/*
 * Makes the identity of a software GPU unique: every backend's software GPU reports the same one.
 * At a place other than 0 the number of the place is put into its UUID and its PCI domain, so that
 * the devices of a process differ. Other devices are left unchanged. `bus_id` is "dddd:bb:ss.f";
 * `domain` is the attribute.
 */
void lnk_identify(unsigned number, const char *provider, uint8_t uuid[16], char *bus_id, int *domain);

#endif
