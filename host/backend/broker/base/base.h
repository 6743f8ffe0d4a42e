/* SPDX-License-Identifier: MIT */
/*
 * Base of vgpu-backend, the broker: one thread, one epoll loop, no lock. The broker never loads a
 * CUDA library and never looks at a ring. It owns the workers, the quotas and the two transports
 * (vhost-user for a VM, unix sockets for programs of this host).
 */
#ifndef BRK_BASE_H
#define BRK_BASE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "vgb_log.h"
#include "vgb_msg.h"
#include "vgp_ring.h"
#include <linux/types.h>

#include "vgpu_device.h"

/* ---- brk_loop.c ---- */

struct brk_source {
    int fd;
    void (*ready)(struct brk_source *s, uint32_t events); /* EPOLL*; may free the source */
    struct brk_source *resting;                           /* next source paused by brk_accept() */
    uint64_t rests_until_ns;                              /* end of the pause; 0: not paused */
};
int brk_loop_init(void);
/* Watches s->fd for `events` (EPOLLIN, EPOLLOUT). 0 or -errno. */
__attribute__((warn_unused_result)) int brk_loop_add(struct brk_source *s, uint32_t events);
void brk_loop_change(struct brk_source *s, uint32_t events);
/* To be called before the descriptor is closed. */
void brk_loop_del(struct brk_source *s);
/* Handles one event or waits timeout_ms (-1: no limit). False: a signal asks the broker to exit. */
bool brk_loop_once(int timeout_ms);
void brk_loop_stop(void);
/*
 * Accepts a connection on the listening socket s: a close-on-exec, non-blocking descriptor; -1:
 * none now. A failure (no descriptor, no memory, a socket that was shut down) pauses s for a while,
 * because level-triggered epoll would report it again at once.
 */
int brk_accept(struct brk_source *s);
/* Pauses s for the same time. */
void brk_loop_rest(struct brk_source *s);

/* ---- brk_eventfd.c ---- */

/* Adds 1 to an eventfd shared with other processes, without waiting for room in its counter. To be
 * called by a single thread. */
void brk_eventfd_signal(int fd);
/* True if `name` (less than 64 bytes) is the kernel's name of the open file in /proc. Performs no
 * operation of the file. */
bool brk_is_named(int fd, const char *name);
/* Decided by the kernel's name of the file: an operation on a file of another kind could wait for the
 * process behind it. */
bool brk_is_eventfd(int fd);

/* ---- brk_peer.c: whose programs may connect ---- */

#define BRK_ANYBODY UINT32_MAX
/* Name or number of a user or group. */
bool brk_parse_user(const char *text, uint32_t *id);
bool brk_parse_group(const char *text, uint32_t *id);
/* Checks the peer's credentials as the kernel reports them: root, the broker's own user, and the
 * user or members of the group that brk_opt names. Every peer is allowed where it names neither. */
bool brk_peer_allowed(int fd);
/* brk_accept() for sockets that serve clients; the connection of a peer that is not allowed is
 * closed. */
int brk_accept_peer(struct brk_source *s);

/* ---- brk_unit.c ---- */

/* Text of an error about a path given on the command line. For a path that is not writable it lists
 * the writable folders where the service manager names them. Valid until the next call. */
const char *brk_unit_error(int error);

/* ---- brk_config.c: what the command line said; constant while clients are served ---- */

enum brk_gpu { BRK_GPU_AUTO, BRK_GPU_SOFT, BRK_GPU_NVIDIA };

/* Quotas of device memory, summed over the VMs of a host. */
enum brk_memory {
    BRK_MEMORY_ALONE,   /* not coordinated with other VMs */
    BRK_MEMORY_PROMISE, /* guaranteed: the sum of all quotas is at most the device memory */
    BRK_MEMORY_CEILING, /* overcommitted: refused once all device memory is taken */
};

/* How a client's share is enforced. */
enum brk_pacing {
    BRK_PACING_AUTO, /* STOP where the provider's time is processor time, else RING */
    BRK_PACING_STOP, /* measured as processor time by the kernel; the worker is stopped */
    /* turns: during its turn a worker takes a bounded amount of work off the ring */
    BRK_PACING_RING,
};

#define BRK_POOL_DEFAULT 2u
#define BRK_POOL_MAX 16u
#define BRK_POOL_LEARNT_DEFAULT 8u
#define BRK_POOL_LEARNT_MAX 64u

#define BRK_NAME_MAX 48 /* characters of --name */

struct brk_options {
    const char *vhost_user;      /* path, NULL = none */
    char name[BRK_NAME_MAX + 1]; /* name of the virtual machine in log, status and metrics */
    char inherited[112];         /* path of an inherited socket; "": none, or unnamed */
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
    unsigned pool;         /* workers started ahead; 0: none */
    unsigned pool_max;     /* the same where clients came in bursts lately */
    unsigned long_call_ms; /* maximum wait of a request for a long provider call */
    unsigned start_rate;   /* workers a second, 0 = no limit */
    /* bytes of images on their way, all clients; 0 = no limit */
    uint64_t blob_quota;
    struct vgb_limits limits;           /* of each client */
    uint32_t weight, cap;               /* share of this VM on the host; cap in percent, 0: none */
    uint32_t client_weight, client_cap; /* default share of a client within this VM */
    uint32_t client_priority;           /* default priority of a client; higher runs first */
    enum brk_pacing pacing;             /* how shares are enforced */
    enum brk_memory memory;             /* meaning of vram_quota towards other VMs */
    unsigned memory_wait_ms;            /* maximum wait of an allocation when no memory is left */
    uint64_t gpu_memory;                /* bytes of all devices, as reported by the first worker */
    bool pace;                          /* shares are enforced, even if all are equal */
    const char *arbiter;                /* file that the brokers of the host share, NULL: none */
    const char *control;                /* path of the control socket, NULL: none */
    unsigned minor;                     /* workers speak version 1.minor of the protocol */
    /* allowed peer; BRK_ANYBODY: any the socket's file mode permits */
    uint32_t peer_uid, peer_gid;
    const char *status;  /* path of an additional status socket, NULL: none */
    uint32_t status_uid; /* additional user allowed to read it; BRK_ANYBODY: none */
    const char *log;
    enum vgb_log_level log_level;
    enum vgb_log_format log_format;
    const char *sandbox; /* mode of the workers: enforce, log, off */
    bool allow_hmm;
    const char *cgroup;        /* "off", a folder, or NULL: the delegated group, if any */
    uint64_t cgroup_memory;    /* bytes, 0 = no limit */
    uint64_t cgroup_cpu;       /* percent of one processor, 0 = no limit */
    uint64_t cgroup_weight;    /* 1 to 10000, 0: the kernel's default */
    uint64_t cgroup_pids;      /* 0: sum of the clients' thread limits */
    int shm_fd;                /* folder mounted as /dev/shm in workers, -1: none */
    uint64_t jit_cache;        /* bytes of compiled code that the provider may keep, 0: none */
    bool jit_cache_vm;         /* off by default because the clients are a VM's */
    const char *jit_cache_dir; /* where the cache persists, NULL: discarded at exit */
    bool jit_cache_shm;        /* the library gets a folder in /dev/shm instead */
    uint64_t image_cache;      /* bytes of images kept for later programs, 0: none */
    int cache_fd;              /* folder of the code cache, -1: none */
};
extern struct brk_options brk_opt;

/* Exit codes. */
#define BRK_EXIT_ERROR 1
#define BRK_EXIT_USAGE 2
#define BRK_EXIT_NO_GPU 3

/* ---- brk_quota.c: of the whole VM (or host session) ---- */

struct brk_quota_pool {
    uint64_t limit; /* 0 = none */
    uint64_t used;
    bool adjusted; /* set at run time: overrides the limit in QEMU's properties */
};
/* maximum bytes of one holder, even without a limit: sums cannot wrap */
#define BRK_PART_MAX (UINT64_C(1) << 48)
/* Changes the charge of one holder from `from` to `to`, bytes; false: over the limit, nothing
 * changed. */
bool brk_quota_move(struct brk_quota_pool *q, uint64_t from, uint64_t to);
/* The same without a check, for memory already in use. */
void brk_quota_force(struct brk_quota_pool *q, uint64_t from, uint64_t to);
extern struct brk_quota_pool brk_vram, brk_pins, brk_blobs;

/* Token bucket: `rate` tokens a second, at most `burst` at once. */
struct brk_bucket {
    unsigned rate, burst; /* rate 0: no limit */
    uint64_t tokens;      /* in nanoseconds: one token is 1e9 / rate */
    uint64_t at_ns;       /* time of the last update of `tokens` */
};
/* Initializes a full bucket. */
void brk_bucket_init(struct brk_bucket *b, unsigned rate, unsigned burst);
/* Takes a token and returns 0, or returns the nanoseconds until the next token is available. */
uint64_t brk_bucket_take(struct brk_bucket *b, uint64_t now_ns);
/* True while at least half of the burst is left. */
bool brk_bucket_half(struct brk_bucket *b, uint64_t now_ns);

/* ---- brk_fair.c: shares of the processors by weight and cap ---- */

#define BRK_WEIGHT_DEFAULT 100u
#define BRK_WEIGHT_MAX 1000u
#define BRK_PRIORITY_MAX 2u
#define BRK_FAIR_NONE UINT64_MAX   /* no competing demand */
#define BRK_FAIR_CALM 3u           /* windows of little use after which demand counts as none */
#define BRK_FAIR_SLACK_NS 4000000u /* tolerated lead, processor time, ns */
#define BRK_FAIR_FAR 4u            /* multiple of the tolerated lead that counts as `far` */

/* Scheduling entity with a share: a client within its VM, or a VM within the host. */
struct brk_fair {
    uint32_t weight;    /* 1 to BRK_WEIGHT_MAX */
    uint32_t cap;       /* percent, 0: none */
    uint64_t used_ns;   /* processor time, the latest reading */
    uint64_t vtime;     /* virtual time: used time divided by the weight */
    uint64_t window_ns; /* time used in the current window */
    int64_t credit_ns;  /* remaining credit of the cap */
    unsigned calm;      /* windows since it last wanted more */
    bool wants;         /* has demand: uses all the time it can get */
    bool ahead, over;   /* ahead of its weight; over its cap */
    bool far;           /* so far ahead that it gets not even idle time */
    bool held;          /* ahead or over */
    bool was_held;      /* was held in the current window */
};
/*
 * Charges processor time: used_ns is the present reading. Returns the increase since the last call.
 */
uint64_t brk_fair_charge(struct brk_fair *f, uint64_t used_ns);
/* Ends a window of window_ns in which its threads waited waited_ns for a processor. */
void brk_fair_window(struct brk_fair *f, uint64_t waited_ns, uint64_t window_ns, uint64_t floor);
/* Raises the virtual time of an entity without demand to `floor`, the virtual time of the slowest
 * entity with demand. */
void brk_fair_join(struct brk_fair *f, uint64_t floor);
void brk_fair_weight(struct brk_fair *f, uint32_t weight, uint64_t floor);
/* Decides whether its lead over the slowest is too large; updates `held`. */
void brk_fair_hold(struct brk_fair *f, uint64_t slowest, uint64_t slack_ns);
/* Adds rate_ns to the credit of the cap, up to burst_ns; to be followed by brk_fair_hold(). */
void brk_fair_cap(struct brk_fair *f, uint64_t rate_ns, uint64_t burst_ns);
/* Forgives the lead of a held entity after processors were idle: it took nothing from other
 * entities. */
void brk_fair_forgive(struct brk_fair *f, uint64_t slowest);

/* ---- brk_arbiter.c: the VMs of one host, by a file that their brokers share ---- */

/* Opens the shared file and joins. NULL, or an error text. */
const char *brk_arbiter_open(const char *path);
/* Publishes the usage of this broker's VM to the other brokers. */
void brk_arbiter_publish(const struct brk_fair *vm, uint64_t now_ns);
/* The virtual time of the slowest other VM that wants processors, or BRK_FAIR_NONE. */
uint64_t brk_arbiter_slowest(uint64_t now_ns);
/* Publishes whether this VM has work in flight; counts the other VMs that do. */
void brk_arbiter_busy(bool busy);
unsigned brk_arbiter_others_busy(uint64_t now_ns);
/* Sets this VM's part of the device memory that the VMs share (`total`) to `bytes`. False: the
 * other VMs hold too much; nothing changed. */
bool brk_arbiter_commit(uint64_t bytes, uint64_t total);
/* The same without a check. */
void brk_arbiter_commit_force(uint64_t bytes);
void brk_arbiter_close(void);

/* ---- brk_limits.c: the limits that have a name, an option and a value that can be changed ---- */

enum brk_limit_id {
    BRK_L_VRAM,
    BRK_L_PIN,
    BRK_L_BLOBS,
    BRK_L_CLIENTS,
    BRK_L_RATE,
    /* per client; enforced by its worker */
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
    const char *name; /* name of the option, without the dashes */
    uint64_t low, high;
    bool none; /* 0 is allowed and means no limit */
    bool size; /* bytes */
};
/* True for limits that can be set per client; true for shares. */
bool brk_limit_is_client(enum brk_limit_id id);
bool brk_limit_is_share(enum brk_limit_id id);
extern const struct brk_limit brk_limits[BRK_L_COUNT];
/* The limit of that name, or BRK_L_COUNT. */
enum brk_limit_id brk_limit_find(const char *name);
/* Parses text such as "512M" as a value of this limit. False: `want` (80 bytes) gets the allowed
 * range. */
bool brk_limit_parse(enum brk_limit_id id, const char *text, uint64_t *value, char *want);
uint64_t brk_limit_get(const struct brk_options *o, enum brk_limit_id id);
void brk_limit_put(struct brk_options *o, enum brk_limit_id id, uint64_t value);
/* The same for limits enforced by a worker. */
uint64_t brk_limit_of_client(const struct vgb_limits *l, enum brk_limit_id id);
void brk_limit_to_client(struct vgb_limits *l, enum brk_limit_id id, uint64_t value);
/* "512M", "24G", "1048576" -> bytes; false: not a size. */
bool brk_parse_size(const char *text, uint64_t *bytes);

/* ---- brk_listen.c ---- */

/* Mode of a socket for its owner alone; access for other users is the owner's decision. */
#define BRK_LISTEN_OWNER 0600
#define BRK_LISTEN_QUEUE 64 /* connections that wait for accept(2) */
/* Creates a listening unix socket at `path`, replacing one whose listening process has ended. `type`:
 * SOCK_*; `mode`: of its file. Descriptor or -errno. */
int brk_listen_unix(const char *path, int type, mode_t mode);

/* ---- brk_lines.c ---- */

#define BRK_LINES_SLOTS VGPU_MAX_CLIENTS /* budgets for the VM's clients */
#define BRK_LINES_PROCESSES 256u         /* budgets for local programs */
#define BRK_LINES_DOMAINS 16u            /* the VM, and the users of the host */
/* total line rate of all clients, as a multiple of the rate of a single client */
#define BRK_LINES_TIMES 8u
#define BRK_LINES_DOMAIN_TIMES 4u /* the same for a domain */
struct brk_lines {
    struct vgb_ratelimit whole, domain[BRK_LINES_DOMAINS], part[BRK_LINES_SLOTS + BRK_LINES_PROCESSES + 1];
};
/* Log budget for a key: a slot of the VM, a key from brk_lines_key_of_peer(), or -1 for lines that
 * belong to no client. */
struct vgb_ratelimit *brk_lines_of(struct brk_lines *l, int key);
/*
 * Key of a connected peer, by its user and process as the kernel reports them. A program that
 * reconnects keeps its budget, and no number of processes lets a single user take more than half of
 * all lines.
 */
int brk_lines_key_of_peer(int fd);

/* ---- brk_lock.c ---- */

/* Locks the file of a descriptor against other processes until brk_lock_drop() or the end of this process,
 * also if children with its descriptors stay. One lock at a time. 0, or -errno: EWOULDBLOCK if another has it. */
int brk_lock_take(int fd);
void brk_lock_drop(void);

/* ---- brk_thread.c ---- */

/* Starts a joinable thread with all signals blocked and a stack of stack_bytes. 0 or -errno. */
int brk_thread_create(pthread_t *t, size_t stack_bytes, void *(*fn)(void *), void *arg);
/* Runs fn() beside the loop, for a system call that may hold it up: in a child process that shares the
 * address space and the descriptors, with a small stack (64 KiB) and all signals blocked. False: no
 * thread. */
bool brk_thread_start(void *(*fn)(void *), void *arg);
/* To be called last: ends the broker by _exit(2) if some of these calls do not return. */
void brk_thread_leave(int status);

/* ---- brk_task.c ---- */

struct brk_task {
    void (*run)(struct brk_task *t);  /* beside the loop, as of brk_thread_start() */
    void (*done)(struct brk_task *t); /* in the loop, after run(); may free the task */
    struct brk_task *next;            /* list of tasks whose run() has returned */
};
/* False: out of descriptors or memory; the next brk_task_start() tries again. */
bool brk_task_init(void);
/* False: not started, and done() is not called. */
bool brk_task_start(struct brk_task *t);

/* ---- brk_foreign.c ---- */

/* Closes a descriptor received from a peer, without waiting for the close. */
void brk_foreign_close(int fd);
void brk_foreign_close_all(const int *fds, unsigned n);
/* Closes an accepted connection with all that is queued in it, and sets *sock to -1. */
void brk_foreign_end(int *sock);
/* Has the kernel refuse descriptors on a UNIX socket, or on the connections of a listening one. False:
 * not before Linux 6.16. */
bool brk_foreign_refuse(int sock);
/* True if too many descriptors wait to be closed for more to be accepted. */
bool brk_foreign_crowded(void);
/* True if they are so many that clients of other users would soon get none: no connection is accepted, and
 * a client that sends another such descriptor ends. */
bool brk_foreign_full(void);
/* True for a file in memory, whose close waits for no other process. */
bool brk_foreign_is_memory(int fd);

#endif
