/* SPDX-License-Identifier: MIT */
/*
 * vgpu-backend, the broker: the ground that everything stands on. One thread, one epoll loop, no lock. The broker
 * never loads a CUDA library and never looks at a ring: it owns the workers, the quotas and the two
 * transports (vhost-user for a VM, unix sockets for programs of this host).
 */
#ifndef BRK_BASE_H
#define BRK_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "vgb_log.h"
#include "vgb_msg.h"
#include "vgp_ring.h"
#include <linux/types.h>

#include "vgpu_device.h"

/* ---- loop.c ---- */

struct brk_source {
    int fd;
    void (*ready)(struct brk_source *s, uint32_t events); /* EPOLL*; may free the source */
};
int brk_loop_init(void);
/* 0 or -errno. `events`: EPOLLIN, EPOLLOUT. */
__attribute__((warn_unused_result)) int brk_loop_add(struct brk_source *s, uint32_t events);
void brk_loop_change(struct brk_source *s, uint32_t events);
/* Before the descriptor is closed. */
void brk_loop_del(struct brk_source *s);
/* Handles one event or waits timeout_ms (-1: for ever). False: a signal ends the broker. */
bool brk_loop_once(int timeout_ms);
void brk_loop_stop(void);

/* ---- config.c: what the command line said; constant while clients are served ---- */

enum brk_gpu { BRK_GPU_AUTO, BRK_GPU_SOFT, BRK_GPU_NVIDIA };

#define BRK_POOL_DEFAULT 2u
#define BRK_POOL_MAX 16u

struct brk_options {
    const char *vhost_user; /* path, NULL = none */
    const char *listen;
    int listen_fd;          /* -1 = none */
    int vhost_fd;           /* SOCK_STREAM; -1 = none */
    bool vhost_connected;   /* vhost_fd is QEMU's connection, not a listening socket */
    int ready_fd;           /* -1 = none */
    enum brk_gpu gpu;
    char provider[4096];
    char worker[4096];
    uint64_t vram_quota, pin_quota; /* 0 = no limit */
    uint32_t max_clients;
    uint64_t window_size;
    unsigned pool;
    unsigned long_call_ms;      /* a question may wait for a call of the provider, at most */
    unsigned start_rate;        /* workers a second, 0 = no limit */
    uint64_t blob_quota;        /* bytes of all clients, 0 = no limit */
    struct vgb_limits limits;   /* of each client */
    unsigned minor; /* workers speak version 1.minor of the protocol */
    const char *log;
    enum vgb_log_level log_level;
    const char *sandbox; /* mode of the workers: enforce, log, off */
    bool allow_hmm;
    const char *shm; /* folder, NULL: none */
    uint64_t jit_cache;        /* bytes of compiled code that the provider may keep, 0: none */
    const char *jit_cache_dir; /* where it stays, NULL: gone with this process */
    int cache_fd;              /* the folder of it, -1: none */
};
extern struct brk_options brk_opt;

/* Exit codes. */
#define BRK_EXIT_ERROR 1
#define BRK_EXIT_USAGE 2
#define BRK_EXIT_NO_GPU 3

/* ---- quota.c: of the whole VM (or host session) ---- */

struct brk_quota_pool {
    uint64_t limit; /* 0 = none */
    uint64_t used;
};
/* Changes one holder's share from `from` to `to`; false: over the limit, nothing changed. */
bool brk_quota_move(struct brk_quota_pool *q, uint64_t from, uint64_t to);
/* The same without asking: what is in use already changes hands. */
void brk_quota_force(struct brk_quota_pool *q, uint64_t from, uint64_t to);
extern struct brk_quota_pool brk_vram, brk_pins, brk_blobs;

/* A token bucket: `rate` a second, `burst` at once. */
struct brk_bucket {
    unsigned rate, burst; /* rate 0: no limit */
    uint64_t tokens;      /* in nanoseconds: one is 1e9 / rate */
    uint64_t at_ns;       /* when `tokens` was right */
};
/* Full. */
void brk_bucket_init(struct brk_bucket *b, unsigned rate, unsigned burst);
/* Takes one: 0; or how many nanoseconds until there is one, nothing taken. */
uint64_t brk_bucket_take(struct brk_bucket *b, uint64_t now_ns);

/* ---- listen.c ---- */

/* A listening unix socket at `path` (a stale one is replaced); -errno. `type` SOCK_*. */
int brk_listen_unix(const char *path, int type);

#endif
