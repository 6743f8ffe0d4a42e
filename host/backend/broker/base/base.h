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
    struct brk_source *resting; /* the next one that brk_accept() has stopped looking at */
    uint64_t rests_until_ns;    /* 0: it is looked at */
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
/* Takes a connection of the listening socket s: a descriptor, not inherited and non-blocking; -1: none now. When
 * the broker or the host is out of descriptors or memory, which a level-triggered epoll would say again at once,
 * s is not looked at for a while. */
int brk_accept(struct brk_source *s);
/* Does not look at s for that while. */
void brk_loop_rest(struct brk_source *s);

/* ---- peer.c: whose programs may connect ---- */

#define BRK_ANYBODY UINT32_MAX
/* Name or number of a user or group. */
bool brk_parse_user(const char *text, uint32_t *id);
bool brk_parse_group(const char *text, uint32_t *id);
/* Asks the kernel who has connected: always root and our own user; of those that brk_opt names each, or anybody
 * where it names nobody. */
bool brk_peer_allowed(int fd);
/* brk_accept() of a socket that serves clients: one who may not is told so by the end of the connection. */
int brk_accept_peer(struct brk_source *s);

/* ---- unit.c ---- */

/* The text of an error about a path of the command line; of one that may not be written to, with the folders that may be,
 * where a service manager has named them. Valid until the next call. */
const char *brk_unit_error(int error);

/* ---- config.c: what the command line said; constant while clients are served ---- */

enum brk_gpu { BRK_GPU_AUTO, BRK_GPU_SOFT, BRK_GPU_NVIDIA };

/* Quotas of device memory, summed over the VMs of a host. */
enum brk_memory {
    BRK_MEMORY_ALONE,   /* nobody else is asked */
    BRK_MEMORY_PROMISE, /* all of it is there: promises add up to what there is, at most */
    BRK_MEMORY_CEILING, /* more may be promised than there is: it is refused when all is taken */
};

/* How a client is kept to its share. */
enum brk_pacing {
    BRK_PACING_AUTO, /* STOP where the provider's time is processor time, else RING */
    BRK_PACING_STOP, /* by the kernel's account; its worker is stopped */
    BRK_PACING_RING, /* turns: its worker takes work off the ring, a bounded amount, while it has the turn */
};

#define BRK_POOL_DEFAULT 2u
#define BRK_POOL_MAX 16u

#define BRK_NAME_MAX 48 /* characters of --name */

struct brk_options {
    const char *vhost_user;      /* path, NULL = none */
    char name[BRK_NAME_MAX + 1]; /* of the virtual machine, for log, status and metrics */
    char inherited[112];         /* path of an inherited socket, "": none, or it has none */
    const char *listen;
    int listen_fd;        /* -1 = none */
    int vhost_fd;         /* SOCK_STREAM; -1 = none */
    bool vhost_connected; /* vhost_fd is QEMU's connection, not a listening socket */
    int ready_fd;         /* -1 = none */
    enum brk_gpu gpu;
    char provider[4096];
    char worker[4096];
    uint64_t vram_quota, pin_quota; /* 0 = no limit */
    uint32_t max_clients;
    uint64_t window_size;
    unsigned pool;
    unsigned long_call_ms;              /* a question may wait for a call of the provider, at most */
    unsigned start_rate;                /* workers a second, 0 = no limit */
    uint64_t blob_quota;                /* bytes of all clients, 0 = no limit */
    struct vgb_limits limits;           /* of each client */
    uint32_t weight, cap;               /* of this VM among those of the host; cap in percent, 0: none */
    uint32_t client_weight, client_cap; /* of each client in this VM */
    uint32_t client_priority;           /* of each client: the highest goes first */
    enum brk_pacing pacing;             /* how shares are enforced */
    enum brk_memory memory;             /* what vram_quota means to the other VMs */
    unsigned memory_wait_ms;            /* how long an allocation waits when nothing is left */
    uint64_t gpu_memory;                /* of the devices, as the first worker says */
    bool pace;                          /* shares are enforced, be they equal */
    const char *arbiter;                /* file that the brokers of the host share, NULL: none */
    const char *control;                /* path of the control socket, NULL: none */
    unsigned minor;                     /* workers speak version 1.minor of the protocol */
    uint32_t peer_uid, peer_gid;        /* who may connect; BRK_ANYBODY: whom the socket's file lets */
    const char *status;                 /* path of another status socket, NULL: none */
    uint32_t status_uid;                /* who else may read that one; BRK_ANYBODY: nobody */
    const char *log;
    enum vgb_log_level log_level;
    enum vgb_log_format log_format;
    const char *sandbox; /* mode of the workers: enforce, log, off */
    bool allow_hmm;
    const char *cgroup;        /* "off", a folder, or NULL: where it is delegated */
    uint64_t cgroup_memory;    /* bytes, 0 = no limit */
    uint64_t cgroup_cpu;       /* percent of one processor, 0 = no limit */
    uint64_t cgroup_weight;    /* 1 to 10000, 0: as the kernel has it */
    uint64_t cgroup_pids;      /* 0: what the clients' threads add up to */
    int shm_fd;                /* the folder that is /dev/shm to workers, -1: none */
    uint64_t jit_cache;        /* bytes of compiled code that the provider may keep, 0: none */
    bool jit_cache_vm;         /* none, since its clients are a VM's and nobody has asked for it */
    const char *jit_cache_dir; /* where it stays, NULL: gone with this process */
    bool jit_cache_shm;        /* the library is given a folder in /dev/shm instead */
    uint64_t image_cache;      /* bytes of images that are kept for the next programs, 0: none */
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
    bool adjusted; /* set while running: what QEMU's properties say no longer counts */
};
#define BRK_PART_MAX (UINT64_C(1) << 48) /* bytes of one holder, with or without a limit: sums do not wrap */
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

/* ---- fair.c: shares of the processors by weight and cap ---- */

#define BRK_WEIGHT_DEFAULT 100u
#define BRK_WEIGHT_MAX 1000u
#define BRK_PRIORITY_MAX 2u
#define BRK_FAIR_NONE UINT64_MAX   /* nobody wants any */
#define BRK_FAIR_CALM 3u           /* windows in which one wants little, until it wants none */
#define BRK_FAIR_SLACK_NS 4000000u /* lead, in own processor time, that is let pass */
#define BRK_FAIR_FAR 4u            /* times as much is not let pass at all */

/* One that has a share: a client among those of its VM, or a VM among those of the host. */
struct brk_fair {
    uint32_t weight;    /* 1 to BRK_WEIGHT_MAX */
    uint32_t cap;       /* percent, 0: none */
    uint64_t used_ns;   /* processor time, the latest reading */
    uint64_t vtime;     /* what it used, divided by its weight */
    uint64_t window_ns; /* used in this window */
    int64_t credit_ns;  /* of the cap */
    unsigned calm;      /* windows since it did */
    bool wants;         /* it uses what it can get */
    bool ahead, over;   /* of its weight; of its cap */
    bool far;           /* so far ahead that it shall not even have what others leave */
    bool held;          /* ahead or over */
    bool was_held;      /* in this window */
};
/* Its processor time is used_ns now; returns what it used since the last time. */
uint64_t brk_fair_charge(struct brk_fair *f, uint64_t used_ns);
/* A window of window_ns has ended, in which its threads waited for a processor for waited_ns. */
void brk_fair_window(struct brk_fair *f, uint64_t waited_ns, uint64_t window_ns, uint64_t floor);
/* One that does not want any is never behind `floor`, the virtual time of the slowest that does. */
void brk_fair_join(struct brk_fair *f, uint64_t floor);
void brk_fair_weight(struct brk_fair *f, uint32_t weight, uint64_t floor);
/* Decides whether it leads the slowest by too much; updates `held`. */
void brk_fair_hold(struct brk_fair *f, uint64_t slowest, uint64_t slack_ns);
/* It may use rate_ns more under its cap, and save up burst_ns; to be followed by brk_fair_hold(). */
void brk_fair_cap(struct brk_fair *f, uint64_t rate_ns, uint64_t burst_ns);
/* Processors were idle while it was held: its lead cost nobody anything. */
void brk_fair_forgive(struct brk_fair *f, uint64_t slowest);

/* ---- arbiter.c: the VMs of one host, by a file that their brokers share ---- */

/* Joins; NULL, or what is wrong with it. */
const char *brk_arbiter_open(const char *path);
/* What this broker's VM has used, for the others. */
void brk_arbiter_publish(const struct brk_fair *vm, uint64_t now_ns);
/* The virtual time of the slowest other VM that wants processors, or BRK_FAIR_NONE. */
uint64_t brk_arbiter_slowest(uint64_t now_ns);
/* Whether work of this broker's VM is in flight, and how many other VMs have said so. */
void brk_arbiter_busy(bool busy);
unsigned brk_arbiter_others_busy(uint64_t now_ns);
/* Takes `bytes` of the device memory that the VMs share, `total`, for this one, instead of what it had. False: the
 * others have too much; nothing changed. */
bool brk_arbiter_commit(uint64_t bytes, uint64_t total);
/* The same without asking. */
void brk_arbiter_commit_force(uint64_t bytes);
void brk_arbiter_close(void);

/* ---- limits.c: the limits that have a name, an option and a value that can be changed ---- */

enum brk_limit_id {
    BRK_L_VRAM,
    BRK_L_PIN,
    BRK_L_BLOBS,
    BRK_L_CLIENTS,
    BRK_L_RATE,
    /* of each client; kept by its worker */
    BRK_L_MEMORY,
    BRK_L_THREADS,
    BRK_L_STREAMS,
    BRK_L_HANDLES,
    BRK_L_PRINTF,
    BRK_L_IMAGE,
    BRK_L_COMPILE,
    BRK_L_QUEUE,
    BRK_L_TIME,
    /* shares */
    BRK_L_WEIGHT,
    BRK_L_CAP,
    BRK_L_CLIENT_WEIGHT,
    BRK_L_CLIENT_CAP,
    BRK_L_CLIENT_PRIORITY,
    BRK_L_COUNT
};
struct brk_limit {
    const char *name; /* of the option, without the dashes */
    uint64_t low, high;
    bool none; /* 0 is allowed, and is no limit */
    bool size; /* bytes */
};
/* Those that one client can have a value of its own of; those that are shares. */
bool brk_limit_is_client(enum brk_limit_id id);
bool brk_limit_is_share(enum brk_limit_id id);
extern const struct brk_limit brk_limits[BRK_L_COUNT];
/* The limit of that name, or BRK_L_COUNT. */
enum brk_limit_id brk_limit_find(const char *name);
/* "512M" as a value of this limit; false: `want` (of 80 bytes) gets what is allowed. */
bool brk_limit_parse(enum brk_limit_id id, const char *text, uint64_t *value, char *want);
uint64_t brk_limit_get(const struct brk_options *o, enum brk_limit_id id);
void brk_limit_put(struct brk_options *o, enum brk_limit_id id, uint64_t value);
/* The same for one of those that a worker keeps. */
uint64_t brk_limit_of_client(const struct vgb_limits *l, enum brk_limit_id id);
void brk_limit_to_client(struct vgb_limits *l, enum brk_limit_id id, uint64_t value);
/* "512M", "24G", "1048576" -> bytes; false: not a size. */
bool brk_parse_size(const char *text, uint64_t *bytes);

/* ---- listen.c ---- */

/* A listening unix socket at `path` (a stale one is replaced); -errno. `type` SOCK_*. */
int brk_listen_unix(const char *path, int type);

/* ---- lines.c ---- */

#define BRK_LINES_SLOTS VGPU_MAX_CLIENTS /* parts of the VM's clients */
#define BRK_LINES_PROCESSES 256u         /* parts of local programs */
#define BRK_LINES_DOMAINS 16u            /* the VM, and users of the host */
#define BRK_LINES_TIMES 8u        /* rate of all clients' lines together, as a multiple of one client's */
#define BRK_LINES_DOMAIN_TIMES 4u /* the same of a domain */
struct brk_lines {
    struct vgb_ratelimit whole, domain[BRK_LINES_DOMAINS], part[BRK_LINES_SLOTS + BRK_LINES_PROCESSES + 1];
};
/* The part with this key: a slot of the VM; what brk_lines_key_of_peer() gave; -1: what is no client's. */
struct vgb_ratelimit *brk_lines_of(struct brk_lines *l, int key);
/*
 * The key of whoever has connected, by user and process as the kernel says: a program that connects anew keeps its part, and
 * whatever processes a user starts, half of all lines are for others.
 */
int brk_lines_key_of_peer(int fd);

/* ---- foreign.c ---- */

/* Closes what somebody else has sent, without waiting for it. */
void brk_foreign_close(int fd);
void brk_foreign_close_all(const int *fds, unsigned n);
/* Closes an accepted connection with all that is queued in it, and sets *sock to -1. */
void brk_foreign_end(int *sock);
/* So many wait to be closed that nobody is to send more. */
bool brk_foreign_crowded(void);

#endif
