/* SPDX-License-Identifier: MIT */
/* Worker processes: started ahead, watched, ended, reaped. struct brk_client is opaque here. */
#ifndef BRK_WORKERS_H
#define BRK_WORKERS_H

#include <signal.h>
#include <sys/wait.h>

#include "base/base.h"
#include "vgb_plan.h"

#ifndef P_PIDFD /* of waitid(), in older C libraries */
#define P_PIDFD 3
#endif

/* ---- brk_pool.c: worker processes ---- */

struct brk_client;
struct brk_pool_users;
enum brk_proc_state { BRK_PROC_STARTING, BRK_PROC_READY, BRK_PROC_ASSIGNED, BRK_PROC_KILLED };

struct brk_proc {
    struct brk_source sock;   /* messages */
    struct brk_source pidfd;  /* readable when it exits */
    struct brk_source output; /* its standard output and error: brk_output.c */
    struct brk_proc *next;
    pid_t pid;
    enum brk_proc_state state;
    struct brk_client *client;
    const struct brk_pool_users *users; /* callbacks while it has a client; NULL: the pool has none */
    uint64_t since_ns;                  /* time of the last change of `state` */
    bool busy;                          /* it reported a long provider call */
    uint64_t busy_until_ns;             /* when it last reported the end of long calls; 0: never */
    struct brk_warden *warden;          /* supervises its mapper; NULL: no mapper */
    bool ended;                         /* it has exited, but its mapper still keeps the memory */
    bool lost_mapper;                   /* the mapper ended first */
    bool layers_known;                  /* it reported the layers of its sandbox */
    uint32_t dead_reason;               /* reported by the worker itself */
    char dead_text[VGB_MSG_TEXT];
    bool held;                       /* exited, but a debugger prevents reaping */
    struct brk_out *out, **out_tail; /* messages waiting to be sent: brk_out.c */
    struct brk_out_fd *out_fds;
    unsigned nout, nout_fds;
    bool out_later;     /* not blocked by the socket's room: retried by the tick */
    unsigned flying;    /* descriptors in its socket: sent since it was last seen empty */
    unsigned unread;    /* lower bound of bytes in the socket, unless it has read */
    uint64_t unread_ns; /* while descriptors wait: time of its last observed read */
    char line[1024];    /* incomplete line of its output */
    size_t line_size;
};

/* Sandbox layers in force, as reported by the latest worker; empty: no report yet. */
const char *brk_pool_sandbox(void);
/* The broker's environment variables meant for workers; allocated, NULL-terminated. */
char **brk_worker_environment(void);
/* brk_output.c: creates the pipe for the worker's output and watches the read end. Returns the write
 * end, to be closed by the caller, or -1 with errno. */
int brk_output_open(struct brk_proc *p);
/* Reads the remaining output and closes it; may be called twice. */
void brk_output_close(struct brk_proc *p);
/*
 * Callbacks of the workers' user, the client layer. Called by the pool from the loop or the tick.
 */
struct brk_pool_users {
    /* The longest-waiting client without a worker, or NULL. */
    struct brk_client *(*waiting)(void);
    /* Refuses clients that waited too long; true while any still wait. */
    bool (*expire)(uint64_t now_ns);
    /* Reports the first worker's provider: whether it is the software GPU, its device memory in
     * bytes, its name. NULL, or why it cannot be served. Optional. */
    const char *(*provider)(bool soft, uint64_t memory, const char *name);
    /* A waiting client got this worker. */
    void (*ready)(struct brk_client *c, struct brk_proc *p);
    /* Number of the client. Optional. */
    unsigned (*slot)(const struct brk_client *c);
    /* Key of the client's log budget. Optional. */
    int (*lines)(const struct brk_client *c);
    /* Handles messages that are not about the worker itself. */
    void (*message)(struct brk_client *c, const struct vgb_msg *m);
    /* The mapper has finished mapping this region or, if `taken`, unmapping it. */
    void (*mapper_done)(struct brk_client *c, uint32_t region, bool taken);
    /* The worker was reaped. `said`: the reason was reported by the worker itself. */
    void (*gone)(struct brk_client *c, uint32_t reason, const char *text, bool said);
    /* True: an answer of this worker is overdue, and the pool ends it. *waits: an answer is
     * expected. */
    bool (*silent)(const struct brk_client *c, const struct brk_proc *p, uint64_t now_ns, bool *waits);
    /* The killed worker was not reaped yet. True: check again soon. */
    bool (*unreaped)(struct brk_client *c, const struct brk_proc *p, uint64_t now_ns);
};
/* Starts the pool. False: not even one worker could be started. */
bool brk_pool_init(const struct brk_pool_users *users);
void brk_pool_fini(void);
/* brk_opt.start_rate or .max_clients has changed. */
void brk_pool_rate_changed(void);
/* Takes a started worker for the client. NULL: the client waits, and users->ready() follows. */
struct brk_proc *brk_pool_take(struct brk_client *c);
/* Sends or queues a copy of the message; descriptors are duplicated when it is queued. */
void brk_proc_send(struct brk_proc *p, const struct vgb_msg *m, const int *fds, unsigned nfds);
/* Sends as many of the worker's queued messages as possible now. */
void brk_proc_flush(struct brk_proc *p);
/* Sends SIGKILL through the pidfd: the process id may have been reused. */
void brk_proc_kill(struct brk_proc *p);
/* Number of its client; -1: no client. */
int brk_proc_slot(const struct brk_proc *p);
/* Key of that client's log budget, brk_lines_of(); -1: no client. */
int brk_proc_lines(const struct brk_proc *p);
/* Handles at most `max` messages of the worker. */
void brk_proc_drain(struct brk_proc *p, unsigned max);
/* Checks deadlines (vgb_deadline.h) and restarts workers after failures. Returns the time until the
 * next call, ms; -1: with the next event. */
int brk_pool_tick(void);
struct brk_pool_figures {
    unsigned ready, target; /* workers that wait for a client; those that are to wait */
    uint64_t misses;        /* clients for which none was ready */
};
void brk_pool_figures(struct brk_pool_figures *f);
/* works: a worker was ready at least once. broken: the provider does not work, which is fatal. */
bool brk_pool_works(void);
bool brk_pool_broken(void);

/* ---- brk_warden.c: what mappers do ---- */

struct brk_warden_ops {
    /* protocol violation: the worker is to be killed */
    void (*bad)(void *arg, const char *why);
    void (*done)(void *arg, uint32_t region, bool taken);
    void (*gone)(void *arg); /* the mapper has ended; may free the warden */
};
/* Takes over the two descriptors of VGB_M_MAPPER. NULL: they are not of the expected kind and stay
 * the caller's. */
struct brk_warden *brk_warden_new(const struct brk_warden_ops *ops, void *arg, pid_t pid, const int *fds);
void brk_warden_free(struct brk_warden *w);
pid_t brk_warden_pid(const struct brk_warden *w);
bool brk_warden_gone(const struct brk_warden *w);
/* Kills the mapper; no further job is run. */
void brk_warden_kill(struct brk_warden *w);
/* Waits up to `ms` for the mapper to exit. */
void brk_warden_wait(struct brk_warden *w, int ms);
/* Number of this file in the mapper's descriptor table; -1: it cannot be installed there, already
 * logged. */
int brk_warden_file(struct brk_warden *w, int fd, bool read_only);
/* Has the mapper make the calls of the plan at `place`; takes the list over. `value`: the job's
 * address that the mapper is told. False: no memory, or the mapper is being ended. */
bool brk_warden_place(struct brk_warden *w, uint32_t region, uint64_t value, uint64_t place,
                      struct vgb_plan *plan);
/* Has the mapper unmap the range, and verifies the result. */
bool brk_warden_take(struct brk_warden *w, uint32_t region, uint64_t value, uint64_t place, uint64_t length);
/* Result of a look through an open /proc/PID/maps. 1: a file is mapped in the range; 0: none; -1:
 * unreadable; BRK_LOOK_MORE: not finished. */
#define BRK_LOOK_MORE 2
/* Asks by ioctl. BRK_LOOK_MORE: this kernel (before Linux 6.11) provides only the text. */
int brk_maps_ask(int maps, uint64_t at, uint64_t length);
struct brk_look {
    int maps;
    uint64_t at, end;
    off_t offset;
    size_t have;
    char text[16384];
};
void brk_look_begin(struct brk_look *l, int maps, uint64_t at, uint64_t length);
/* Reads once. BRK_LOOK_MORE: more is left to read. */
int brk_look_on(struct brk_look *l);

/* ---- brk_spawn.c ---- */

/* Creates a socket pair, the second end for the worker. False with errno; open ends are left to the
 * caller to close. */
bool brk_spawn_pair(int pair[2]);
/* Starts a worker process with this socket and output. 0, or an errno value. */
int brk_spawn(int sock, int output, pid_t *pid);
/* Starts a worker and watches it. NULL with a message in `why`. */
struct brk_proc *brk_proc_start(void (*message)(struct brk_source *s, uint32_t events),
                                void (*ended)(struct brk_source *s, uint32_t events), char *why,
                                size_t why_size);
/* True if the process has exited and the event was not handled yet, such as a spare worker killed
 * from outside. */
bool brk_proc_has_ended(const struct brk_proc *p);
/* Describes its exit as text. */
void brk_proc_describe_end(const siginfo_t *si, char *text, size_t size);

/* ---- brk_footprint.c ---- */

/* Memory of the process that it shares with none, bytes; a guess where it may not be read. */
uint64_t brk_footprint_of(pid_t pid);
/* Memory that the host could give to new processes, or what is left of the control groups' limits
 * if that is less, bytes; as of the last second. 0: unknown. */
uint64_t brk_footprint_available(uint64_t now_ns);
/* Processors of the host, as of the first call. */
unsigned brk_footprint_processors(void);

/* ---- brk_group.c ---- */

/* Kills all processes of the worker's group. To be called before the worker is reaped: until then
 * the group number cannot be reused. */
void brk_group_kill(pid_t worker);
/* Reaps the group's processes that are children of the broker, now or in brk_groups_left(). To be
 * called after the worker was reaped. */
void brk_group_leave(pid_t worker);
/* True while some have not exited. */
bool brk_groups_left(void);

/* ---- brk_shm.c ---- */

#define BRK_WORKER_SHM_FD 5 /* descriptor number in the worker */

/* Creates the folder that workers see as /dev/shm and sets brk_opt.shm_fd; -1: not possible on this
 * host. */
void brk_shm_start(void);
/* Closes the broker's descriptor; running workers keep the folder. */
void brk_shm_stop(void);

/* ---- brk_bounded.c ---- */

/* Creates an empty in-memory folder bounded to `bytes` and `entries`. It vanishes with its last
 * descriptor. -1 with errno. */
int brk_bounded_folder(uint64_t bytes, unsigned entries);

/* ---- brk_tree.c ---- */

/* Removes the folder's content, visiting at most `most` entries. False: something is left. */
bool brk_tree_empty(int fd, unsigned most);
struct brk_tree_limits {
    uint64_t bytes;
    unsigned entries;
    uid_t owner; /* owner of the copies; another user than the process's own requires root */
};
/* Copies files and folders, nothing else, from the first folder to the second; leaves out what
 * exceeds the limits. */
void brk_tree_copy(int from, int to, const struct brk_tree_limits *limits);

/* ---- brk_cache.c ---- */

#define BRK_WORKER_CACHE_FD 4 /* descriptor number in the worker */
/* --jit-cache-path shm: name of the folder in the workers' /dev/shm */
#define BRK_SHM_CACHE "jit"

#define BRK_CACHE_DEFAULT UINT64_MAX /* brk_options.jit_cache before brk_cache_choose() */

/* Decides whether workers share compiled code where no option says so. False: a cache folder was
 * given although the cache is off. */
bool brk_cache_choose(struct brk_options *o);
/* Opens the folder for compiled code as the options say and sets brk_opt.cache_fd. 0, or an exit
 * code with the reason logged. */
int brk_cache_start(void);
/* Begins to empty the folder if it is full; called after a worker has ended. */
void brk_cache_check(void);
/* Continues to empty it. True: not finished. */
bool brk_cache_tick(void);
/* Copies the folder to --jit-cache-dir, if set, and drops it; called after the last worker has
 * ended. */
void brk_cache_stop(void);
/* Makes the workers' user the owner of an open folder; that is the broker's user unless it is root.
 * Returns the user id. */
uid_t brk_give_to_workers(int fd);

/* ---- brk_out.c: messages that could not be sent to a worker at once ---- */

/* Sends the message now. 0, or an error; brk_out_waits(): whether the message can be sent later
 * after that error. */
int brk_out_send(struct brk_proc *p, const struct vgb_msg *m, const int *fds, unsigned nfds);
bool brk_out_waits(int error);
/*
 * True if descriptors are in the worker's socket or queued for it, as of the last brk_out_look().
 */
bool brk_out_holds(const struct brk_proc *p);
/* Checks whether the worker has read its socket. */
void brk_out_look(struct brk_proc *p, uint64_t now_ns);

/*
 * Queues a copy of message and descriptors. NULL, or the worker's fault as text ("does not ...").
 */
const char *brk_out_push(struct brk_proc *p, const struct vgb_msg *m, const int *fds, unsigned nfds);
/* True if too many messages are queued for all workers together. */
bool brk_out_over(void);
/* Sends queued messages. 0: the queue is empty, else the error. */
int brk_out_flush(struct brk_proc *p);
/* To be called with the result of a send: schedules a retry by the loop (room in the socket) or the
 * tick (other errors). Returns the error if the message can never be sent, else 0. */
int brk_out_sent(struct brk_proc *p, int error);
void brk_out_drop(struct brk_proc *p);

/* ---- brk_cgroup.c ---- */

#define BRK_CGROUP_MOUNT "/sys/fs/cgroup"

/* Limits of all workers together; 0: no limit. */
struct brk_cgroup_limits {
    uint64_t pids, memory;
    uint64_t cpu;    /* percent of one processor */
    uint64_t weight; /* cpu.weight, 1 to 10000 */
};

/* Called once, before the first worker. False: the options ask for something unavailable; already
 * logged. */
bool brk_cgroup_start(void);
/* Creates a group below `parent` with these limits (memory 0: none). NULL, or an error text. */
const char *brk_cgroup_make(const char *parent, const struct brk_cgroup_limits *l);
/* False: a group exists, and the worker could not be added. */
bool brk_cgroup_add(pid_t pid);
/* What memory.max leaves of the workers' group, or else of the broker's, and of all groups around it
 * up to ROOT, bytes; page cache that can be dropped counts as left. UINT64_MAX: no limit is known. */
uint64_t brk_cgroup_memory_left(const char *root);
/* Describes the group, in the form of a sandbox layer. */
const char *brk_cgroup_summary(void);
/* Called when the last worker has ended. */
void brk_cgroup_stop(void);

#endif
