/* SPDX-License-Identifier: MIT */
/*
 * vgpu-backend, the broker, inside. One thread, one epoll loop, no lock. It never loads a CUDA
 * library and never looks at a ring: it owns the workers, the quotas and the two transports
 * (vhost-user for a VM, unix sockets for programs of this host).
 */
#ifndef VGB_BROKER_H
#define VGB_BROKER_H

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

struct vgb_source {
    int fd;
    void (*ready)(struct vgb_source *s, uint32_t events); /* EPOLL*; may free the source */
};
int vgb_loop_init(void);
/* 0 or -errno. `events`: EPOLLIN, EPOLLOUT. */
int vgb_loop_add(struct vgb_source *s, uint32_t events);
void vgb_loop_change(struct vgb_source *s, uint32_t events);
/* Before the descriptor is closed. */
void vgb_loop_del(struct vgb_source *s);
/* Handles one event or waits timeout_ms (-1: for ever). False: a signal ends the broker. */
bool vgb_loop_once(int timeout_ms);
void vgb_loop_stop(void);

/* ---- options.c ---- */

enum vgb_gpu { VGB_GPU_AUTO, VGB_GPU_SOFT, VGB_GPU_NVIDIA };

#define VGB_POOL_DEFAULT 2u
#define VGB_POOL_MAX 16u

struct vgb_options {
    const char *vhost_user; /* path, NULL = none */
    const char *listen;
    int listen_fd;          /* -1 = none */
    int ready_fd;           /* -1 = none */
    enum vgb_gpu gpu;
    char provider[4096];
    char worker[4096];
    uint64_t vram_quota, pin_quota; /* 0 = no limit */
    uint32_t max_clients;
    uint64_t window_size;
    unsigned pool;
    unsigned minor; /* workers speak version 1.minor of the protocol */
    const char *log;
    enum vgb_log_level log_level;
    bool no_sandbox;
};
extern struct vgb_options vgb_opt;

/* Exit codes. */
#define VGB_EXIT_ERROR 1
#define VGB_EXIT_USAGE 2
#define VGB_EXIT_NO_GPU 3

/* Parses the command line; -1 = go on, else the exit code. */
int vgb_options_parse(int argc, char **argv, struct vgb_options *o);
/* "512M", "24G", "1048576" -> bytes; false: not a size. */
bool vgb_parse_size(const char *text, uint64_t *bytes);
/* Decides which provider to use; starts `vgpu-worker --probe` for that. 0 or an exit code. */
int vgb_choose_provider(struct vgb_options *o);

/* ---- quota.c: of the whole VM (or host session) ---- */

struct vgb_quota_pool {
    uint64_t limit; /* 0 = none */
    uint64_t used;
};
/* Changes one holder's share from `from` to `to`; false: over the limit, nothing changed. */
bool vgb_quota_move(struct vgb_quota_pool *q, uint64_t from, uint64_t to);
/* The same without asking: what is in use already changes hands. */
void vgb_quota_force(struct vgb_quota_pool *q, uint64_t from, uint64_t to);
extern struct vgb_quota_pool vgb_vram, vgb_pins;

/* ---- pool.c: worker processes ---- */

struct vgb_client;
enum vgb_proc_state { VGB_PROC_STARTING, VGB_PROC_READY, VGB_PROC_ASSIGNED, VGB_PROC_KILLED };

struct vgb_proc {
    struct vgb_source sock;  /* messages */
    struct vgb_source pidfd; /* its end */
    struct vgb_proc *next;
    pid_t pid;
    enum vgb_proc_state state;
    struct vgb_client *client;
    uint64_t since_ns;      /* of the state */
    uint32_t dead_reason;   /* what it said itself */
    char dead_text[VGB_MSG_TEXT];
    struct vgb_out *out, **out_tail; /* messages that did not fit into the socket */
    unsigned nout;
};

/* Starts the pool. False: not even one worker could be started. */
bool vgb_pool_init(void);
void vgb_pool_fini(void);
/* A started worker for the client, or NULL: the client waits; vgb_client_worker_ready() later. */
struct vgb_proc *vgb_pool_take(struct vgb_client *c);
/* Copies the message; descriptors are duplicated when it cannot be sent at once. */
void vgb_proc_send(struct vgb_proc *p, const struct vgb_msg *m, const int *fds, unsigned nfds);
void vgb_proc_kill(struct vgb_proc *p);
/* Once per second while needed: timeouts, restarts after failures. Returns the next timeout, ms. */
int vgb_pool_tick(void);
/* A worker has been ready at least once; or the provider does not work (fatal). */
bool vgb_pool_works(void);
bool vgb_pool_broken(void);

/* ---- client.c ---- */

enum vgb_client_state {
    VGB_C_WAITING,  /* for a worker of the pool */
    VGB_C_STARTING, /* START was sent */
    VGB_C_SERVING,
    VGB_C_DEAD,     /* the worker is gone; only destruction is left */
    VGB_C_ENDING,   /* destruction was asked for */
};

struct vgb_client;
/* What the transport of a client is told. None of them may be NULL. */
struct vgb_client_ops {
    void (*created)(struct vgb_client *c, uint32_t status); /* status != OK: the client is freed */
    void (*mapped)(struct vgb_client *c, uint32_t region, uint32_t status, uint64_t va);
    void (*unmapped)(struct vgb_client *c, uint32_t region, uint32_t status);
    void (*wake)(struct vgb_client *c);
    void (*dead)(struct vgb_client *c, uint32_t reason);
    void (*ended)(struct vgb_client *c); /* the worker is reaped; the client is freed after this */
};

struct vgb_client_region {
    struct vgb_client_region *next;
    uint32_t id;
    uint32_t flags;
    uint64_t va, length, done;
    bool complete, unmapping;
};

struct vgb_client {
    struct vgb_client *next;
    unsigned asked;        /* region requests that the worker has not answered */
    uint64_t asked_ns;     /* since when there are any, or the last answer */
    const struct vgb_client_ops *ops;
    void *transport;
    unsigned slot;
    char label[VGPU_LABEL_LEN + 1];
    enum vgb_client_state state;
    struct vgb_proc *proc;
    int window_fd, doorbell; /* own duplicates */
    struct vgb_source wake;  /* eventfd; fd -1 = the worker wakes by futex */
    uint64_t window_offset, window_size;
    bool slice;              /* the file holds the windows of other clients too */
    struct vgp_window_shared *shared; /* mapping of the header page */
    struct vgb_client_region *regions;
    unsigned nregions;
    uint64_t vram, pinned;   /* shares of the quotas */
    uint64_t wants;          /* share of vram that its worker waits for, 0: none */
    uint32_t holder;         /* number among holders of shared events, 0: none yet */
    unsigned nshares;        /* that it has made */
    unsigned nholds;         /* of what others have made */
    uint64_t shared_bytes;   /* of what it has made */
};

struct vgb_client_setup {
    const struct vgb_client_ops *ops;
    void *transport;
    unsigned slot;
    const char *label; /* at most VGPU_LABEL_LEN bytes, need not be terminated */
    int window_fd;     /* duplicated */
    uint64_t window_offset, window_size;
    int doorbell;      /* duplicated */
    bool events;       /* a slot of a VM: wake through ops->wake instead of a futex */
};
/* NULL: *status says why; no callback comes then. */
struct vgb_client *vgb_client_create(const struct vgb_client_setup *s, uint32_t *status);
/* ops->ended comes when the worker is gone, perhaps before this returns. */
void vgb_client_destroy(struct vgb_client *c);

struct vgb_map {
    uint32_t region, flags; /* VGB_MAP_* */
    uint64_t va, length, offset;
    const struct vgb_map_run *runs;
    unsigned nruns;
};
struct vgb_map_run {
    int fd;
    uint64_t offset, length;
};
/* VGPU_S_OK: handed to the worker; ops->mapped comes unless VGB_MAP_MORE is set. */
uint32_t vgb_client_map(struct vgb_client *c, const struct vgb_map *m);
/* VGPU_S_OK: ops->unmapped comes. */
uint32_t vgb_client_unmap(struct vgb_client *c, uint32_t region);
void vgb_client_new_doorbell(struct vgb_client *c, int fd);

/* Called by the pool. */
void vgb_client_worker_ready(struct vgb_client *c, struct vgb_proc *p);
void vgb_client_message(struct vgb_client *c, const struct vgb_msg *m);
void vgb_client_worker_gone(struct vgb_client *c, uint32_t reason, const char *text);
/* The longest-waiting client without a worker, or NULL. */
struct vgb_client *vgb_client_waiting(void);
unsigned vgb_client_count(void);

/* ---- share.c: what one worker has made and others may open ---- */

/* SHARE_NEW, SHARE_OPEN, SHARE_DROP. False: no honest worker says this. */
bool vgb_share_message(struct vgb_client *c, const struct vgb_msg *m);
/* The client's worker has ended: it holds nothing any more. */
void vgb_share_client_gone(struct vgb_client *c);
unsigned vgb_share_count(void);

/* ---- usage.c ---- */

/* Tells a worker about the clients in the list. */
void vgb_usage_answer(struct vgb_proc *p, struct vgb_client *first);

/* ---- sock.c ---- */

/* 0 or an exit code, the reason logged. */
int vgb_sock_start(const char *path, int fd);
void vgb_sock_stop(void);

/* ---- vu_*.c ---- */
int vgb_vu_start(const char *path);
void vgb_vu_stop(void);

/* A listening unix socket at `path` (a stale one is replaced); -errno. `type` SOCK_*. */
int vgb_listen_unix(const char *path, int type);

#endif
