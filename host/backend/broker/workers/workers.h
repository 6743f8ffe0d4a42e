/* SPDX-License-Identifier: MIT */
/* The worker processes: started ahead, watched, ended, reaped. They know clients by name only. */
#ifndef BRK_WORKERS_H
#define BRK_WORKERS_H

#include <signal.h>
#include <sys/wait.h>

#include "base/base.h"
#include "vgb_plan.h"

#ifndef P_PIDFD /* of waitid(), in older C libraries */
#define P_PIDFD 3
#endif

/* ---- pool.c: worker processes ---- */

struct brk_client;
enum brk_proc_state { BRK_PROC_STARTING, BRK_PROC_READY, BRK_PROC_ASSIGNED, BRK_PROC_KILLED };

struct brk_proc {
    struct brk_source sock;   /* messages */
    struct brk_source pidfd;  /* its end */
    struct brk_source output; /* what it prints: output.c */
    struct brk_proc *next;
    pid_t pid;
    enum brk_proc_state state;
    struct brk_client *client;
    uint64_t since_ns;         /* of the state */
    bool busy;                 /* it says that a call of its provider takes long */
    uint64_t busy_until_ns;    /* when it said so last that none does any more; 0: never */
    struct brk_warden *warden; /* of its mapper; NULL: it has none */
    bool ended;                /* its mapper is still there, and so is its memory */
    bool lost_mapper;          /* the mapper ended first */
    bool layers_known;         /* it has said which layers its sandbox has */
    uint32_t dead_reason;      /* what it said itself */
    char dead_text[VGB_MSG_TEXT];
    bool held;                       /* ended, but a debugger keeps it from being reaped */
    struct brk_out *out, **out_tail; /* messages that could not be sent at once: out.c */
    struct brk_out_fd *out_fds;
    unsigned nout, nout_fds;
    bool out_later;     /* not for want of room in the socket: the tick tries again */
    unsigned flying;    /* descriptors in its socket: those of what was sent since that was last seen empty */
    unsigned unread;    /* bytes in the socket, at least, unless it has read */
    uint64_t unread_ns; /* while descriptors wait for it: when it was last seen to have read */
    char line[1024];    /* of its output, so far */
    size_t line_size;
};

/* The layers of the sandbox that the latest worker said are in force; empty: none has said yet. */
const char *brk_pool_sandbox(void);
/* The variables of our environment that are meant for workers; allocated, NULL-terminated. */
char **brk_worker_environment(void);
/* output.c: the end that the worker writes its output to, for the caller to close; the loop reads the other one from
 * now on. -1, errno. */
int brk_output_open(struct brk_proc *p);
/* Takes what is left of it; may be called twice. */
void brk_output_close(struct brk_proc *p);
/* Who has the workers: clients. Called by the pool, from the loop or from the tick. */
struct brk_pool_users {
    /* The longest-waiting client without a worker, or NULL. */
    struct brk_client *(*waiting)(void);
    /* Refuses those that waited too long; true while others wait. */
    bool (*expire)(uint64_t now_ns);
    /* What the first worker's provider is: the software GPU, and with how much device memory, and its name. NULL, or why it cannot
     * be served. May be NULL. */
    const char *(*provider)(bool soft, uint64_t memory, const char *name);
    /* The client that waited has this worker now. */
    void (*ready)(struct brk_client *c, struct brk_proc *p);
    /* Its number. May be NULL. */
    unsigned (*slot)(const struct brk_client *c);
    /* Key of its part of the log. May be NULL. */
    int (*lines)(const struct brk_client *c);
    /* A message that is not about the worker itself. */
    void (*message)(struct brk_client *c, const struct vgb_msg *m);
    /* Its mapper has come back: from mapping this region, or the region is taken away (`taken`). */
    void (*mapper_done)(struct brk_client *c, uint32_t region, bool taken);
    /* It is reaped. `said`: the reason is the worker's own. */
    void (*gone)(struct brk_client *c, uint32_t reason, const char *text, bool said);
    /* True: an answer of this worker is overdue, it is ended. *waits: one is expected. */
    bool (*silent)(const struct brk_client *c, const struct brk_proc *p, uint64_t now_ns, bool *waits);
    /* Its worker was killed and is still there. True: look again soon. */
    bool (*unreaped)(struct brk_client *c, const struct brk_proc *p, uint64_t now_ns);
};
/* Starts the pool. False: not even one worker could be started. */
bool brk_pool_init(const struct brk_pool_users *users);
void brk_pool_fini(void);
/* brk_opt.start_rate or max_clients is new. */
void brk_pool_rate_changed(void);
/* A started worker for the client, or NULL: the client waits; users->ready() comes later. */
struct brk_proc *brk_pool_take(struct brk_client *c);
/* Copies the message; descriptors are duplicated when it cannot be sent at once. */
void brk_proc_send(struct brk_proc *p, const struct vgb_msg *m, const int *fds, unsigned nfds);
/* Sends what waits for the worker, as far as that goes now. */
void brk_proc_flush(struct brk_proc *p);
/* SIGKILL, by its pidfd: the process id may be another process's by now. */
void brk_proc_kill(struct brk_proc *p);
/* The number of its client; -1: it has none. */
int brk_proc_slot(const struct brk_proc *p);
/* The key of that client's part of the log, brk_lines_of(); -1: it has none. */
int brk_proc_lines(const struct brk_proc *p);
/* Who has it; NULL: no client has. */
const struct brk_pool_users *brk_proc_users(const struct brk_proc *p);
/* Handles what the worker has sent, at most `max` messages. */
void brk_proc_drain(struct brk_proc *p, unsigned max);
/* Deadlines (vgb_deadline.h), restarts after failures. Returns when to call it again, ms; -1: with
 * the next event. */
int brk_pool_tick(void);
/* A worker has been ready at least once; or the provider does not work (fatal). */
bool brk_pool_works(void);
bool brk_pool_broken(void);

/* ---- warden.c: what mappers do ---- */

struct brk_warden_ops {
    void (*bad)(void *arg, const char *why); /* no honest worker does this; it shall be killed */
    void (*done)(void *arg, uint32_t region, bool taken);
    void (*gone)(void *arg); /* the mapper has ended; may free the warden */
};
/* Takes over the two descriptors of VGB_M_MAPPER, unless it returns NULL: they are not what they should be. */
struct brk_warden *brk_warden_new(const struct brk_warden_ops *ops, void *arg, pid_t pid, const int *fds);
void brk_warden_free(struct brk_warden *w);
pid_t brk_warden_pid(const struct brk_warden *w);
bool brk_warden_gone(const struct brk_warden *w);
/* SIGKILL; nothing is done any more. */
void brk_warden_kill(struct brk_warden *w);
/* Until it has ended, so long at most. */
void brk_warden_wait(struct brk_warden *w, int ms);
/* The number that this file has in the mapper's table; -1: it cannot be given to it, which is logged. */
int brk_warden_file(struct brk_warden *w, int fd, bool read_only);
/* Has the mapper make the calls of the plan at `place`; takes the list over. `value`: what it is told. False: no memory,
 * or it is being ended. */
bool brk_warden_place(struct brk_warden *w, uint32_t region, uint64_t value, uint64_t place,
                      struct vgb_plan *plan);
/* Has it take away what is there, and sees whether that was done. */
bool brk_warden_take(struct brk_warden *w, uint32_t region, uint64_t value, uint64_t place, uint64_t length);
/* By /proc/PID/maps, open: 1: a file is mapped in the range; 0: none; -1: that cannot be read. */
#define BRK_LOOK_MORE 2
/* BRK_LOOK_MORE: this kernel (before Linux 6.11) has to be asked for the text. */
int brk_maps_ask(int maps, uint64_t at, uint64_t length);
struct brk_look {
    int maps;
    uint64_t at, end;
    off_t offset;
    size_t have;
    char text[16384];
};
void brk_look_begin(struct brk_look *l, int maps, uint64_t at, uint64_t length);
/* Reads once. BRK_LOOK_MORE: there is more to read. */
int brk_look_on(struct brk_look *l);

/* ---- spawn.c ---- */

/* A socket of two ends, the second one for the worker. False, errno; what is open is the caller's to close. */
bool brk_spawn_pair(int pair[2]);
/* Starts a worker process with this socket and output. 0, or an error number. */
int brk_spawn(int sock, int output, pid_t *pid);
/* A spare one may have been killed from outside, its end not handled yet: it is of no use. */
bool brk_proc_has_ended(const struct brk_proc *p);
/* How it ended, in words. */
void brk_proc_describe_end(const siginfo_t *si, char *text, size_t size);

/* ---- group.c ---- */

/* Kills all processes of the worker's group. Before the worker is reaped: until then the number is its own. */
void brk_group_kill(pid_t worker);
/* Reaps those of them that are children of the broker, now or by brk_groups_left(). After the worker was reaped. */
void brk_group_leave(pid_t worker);
/* True: some have not ended yet. */
bool brk_groups_left(void);

/* ---- shm.c ---- */

#define BRK_WORKER_SHM_FD 5 /* the number that workers know it by */

/* Makes the folder that workers see as /dev/shm, into brk_opt.shm_fd; -1: this host has none to give. */
void brk_shm_start(void);
/* Lets go of it: the workers have the rest. */
void brk_shm_stop(void);

/* ---- bounded.c ---- */

/* An empty folder in memory that takes so much and no more; -1, errno. Gone with its last descriptor. */
int brk_bounded_folder(uint64_t bytes, unsigned entries);

/* ---- tree.c ---- */

/* Removes what is in the folder, looking at so many entries at most. False: something is left. */
bool brk_tree_empty(int fd, unsigned most);
struct brk_tree_limits {
    uint64_t bytes;
    unsigned entries;
    uid_t owner; /* of what is copied; another one than this process's user takes root's rights */
};
/* Makes the second folder like the first: files and folders only, what does not fit is left out. */
void brk_tree_copy(int from, int to, const struct brk_tree_limits *limits);

/* ---- cache.c ---- */

#define BRK_WORKER_CACHE_FD 4 /* the number that workers know it by */
#define BRK_SHM_CACHE "jit"   /* --jit-cache-path shm: its name in the workers' /dev/shm */

#define BRK_CACHE_DEFAULT UINT64_MAX /* of brk_options.jit_cache, until it is chosen */

/* Whether workers share compiled code, where no option has said so. False: a folder is given for what is not kept. */
bool brk_cache_choose(struct brk_options *o);
/* The folder for compiled code, as the options say, into brk_opt.cache_fd. 0, or an exit code, the reason logged. */
int brk_cache_start(void);
/* Begins to empty it when it is full: after a worker has ended. */
void brk_cache_check(void);
/* Goes on with emptying it. True: it is not done yet. */
bool brk_cache_tick(void);
/* It goes, copied to --jit-cache-dir; after the last worker. */
void brk_cache_stop(void);
/* Makes workers the owners of an open folder: their user id, which is ours unless we are root. */
uid_t brk_give_to_workers(int fd);

/* ---- out.c: messages that could not be sent to a worker at once ---- */

/* Sends the message now. 0, or an error; brk_out_waits(): an error after which the message can be sent later. */
int brk_out_send(struct brk_proc *p, const struct vgb_msg *m, const int *fds, unsigned nfds);
bool brk_out_waits(int error);
/* Descriptors wait for the worker, in its socket or for room there; as seen by brk_out_look(). */
bool brk_out_holds(const struct brk_proc *p);
/* Sees whether the worker has read. */
void brk_out_look(struct brk_proc *p, uint64_t now_ns);

/* Copies message and descriptors. NULL, or what is wrong with the worker ("does not ..."). */
const char *brk_out_push(struct brk_proc *p, const struct vgb_msg *m, const int *fds, unsigned nfds);
/* Too many wait for all workers together. */
bool brk_out_over(void);
/* Sends what can be sent; 0: nothing is left, else the error. */
int brk_out_flush(struct brk_proc *p);
/* After a send, with its result: has the loop (room in the socket) or the tick (other errors) try again. Returns the error
 * if the message can never be sent, else 0. */
int brk_out_sent(struct brk_proc *p, int error);
void brk_out_drop(struct brk_proc *p);

/* ---- cgroup.c ---- */

/* Of all workers together; 0: no limit. */
struct brk_cgroup_limits {
    uint64_t pids, memory;
    uint64_t cpu;    /* percent of one processor */
    uint64_t weight; /* of processors, as the kernel counts it: 1 to 10000 */
};

/* Once, before the first worker. False: what the options ask for cannot be had; it is on the log. */
bool brk_cgroup_start(void);
/* A group below `parent`, with its limits (memory 0: none). NULL, or what is wrong. */
const char *brk_cgroup_make(const char *parent, const struct brk_cgroup_limits *l);
/* False: there is a group, and the worker is not in it. */
bool brk_cgroup_add(pid_t pid);
/* What was done, as one of the layers. */
const char *brk_cgroup_summary(void);
/* When the last worker has ended. */
void brk_cgroup_stop(void);

#endif
