/* SPDX-License-Identifier: MIT */
/* Clients: their life, their share of the quotas, what they share with each other. */
#ifndef BRK_CLIENTS_H
#define BRK_CLIENTS_H

#include "workers/workers.h"

/* ---- client.c ---- */

enum brk_client_state {
    BRK_C_WAITING,  /* for a worker of the pool */
    BRK_C_STARTING, /* START was sent */
    BRK_C_SERVING,
    BRK_C_DEAD,   /* the worker is gone; only destruction is left */
    BRK_C_ENDING, /* destruction was asked for */
};

struct brk_client;
/* Callbacks into the transport of a client. None of them may be NULL. */
struct brk_client_ops {
    void (*created)(struct brk_client *c, uint32_t status); /* status != OK: the client is freed */
    void (*mapped)(struct brk_client *c, uint32_t region, uint32_t status, uint64_t va);
    void (*unmapped)(struct brk_client *c, uint32_t region, uint32_t status);
    void (*wake)(struct brk_client *c);
    void (*dead)(struct brk_client *c, uint32_t reason);
    /* The worker was killed and does not end: requests are answered, `ended` or nothing comes later. */
    void (*stuck)(struct brk_client *c);
    void (*ended)(struct brk_client *c); /* the worker is reaped; the client is freed after this */
};

/* One that the worker's mapper maps; the others are mapped by the worker, and its word counts. */
enum brk_region_state {
    BRK_R_RUNS,    /* not all of its runs are known */
    BRK_R_ASKED,   /* all were sent; the worker finds a place for it */
    BRK_R_PLACING, /* the mapper maps it */
    BRK_R_PLACED,  /* it has; the worker has not said that it knows */
    BRK_R_MAPPED,
    BRK_R_TAKING,  /* the mapper takes it away */
    BRK_R_FAILING, /* the same, because it could not be mapped */
};

struct brk_client_region {
    struct brk_client_region *next;
    uint32_t id;
    uint32_t flags;
    uint64_t va, length, done;
    bool complete, unmapping;
    bool by_mapper, refused; /* refused: its worker will not place it, either */
    enum brk_region_state state;
    struct vgb_plan plan;
    uint32_t ncalls; /* of the plan, until the mapper has come back from them */
    uint64_t place;  /* where its worker has it */
};

/* How a worker that is ahead of its share is kept back (pace.c). */
enum brk_brake {
    BRK_FREE,
    BRK_LAST,    /* it runs at the lowest priority, in what others leave */
    BRK_STOPPED, /* SIGSTOP */
};

/* Where it is with its turns (turns.c); with shares by stopping, only one that has a priority says what it does. */
struct brk_turn {
    uint32_t number; /* of the last TURN */
    uint32_t work;   /* enum vgb_work, as its worker says */
    bool open, closing;
    uint64_t since_ns; /* when `work` became so */
    uint64_t told_ns;  /* of the last TURN */
    uint64_t bound_ns; /* what that one said */
    uint64_t used_ns;  /* time in which it had work in flight; or in which others were stopped for it */
};

/* What a client has to do with shared objects. */
struct brk_share_tally {
    unsigned made, fds, holds;
    uint64_t bytes;
};

struct brk_client {
    struct brk_client *next;
    unsigned asked;    /* region requests that the worker has not answered */
    uint64_t asked_ns; /* since when there are any, or the last answer */
    const struct brk_client_ops *ops;
    void *transport;
    unsigned slot;
    int lines; /* its part of the log (lines.c) */
    char label[VGPU_LABEL_LEN + 1];
    enum brk_client_state state;
    bool impatient;       /* its driver takes silence for the end of the device, and has no PING */
    bool stuck;           /* its worker was killed and does not end */
    unsigned tries;       /* workers that were started for it */
    uint64_t patience_ns; /* until then it has a serving worker, or is refused */
    uint64_t ending_ns;   /* of brk_client_destroy() */
    struct brk_proc *proc;
    int window_fd, doorbell; /* own duplicates */
    struct brk_source wake;  /* eventfd; fd -1 = the worker wakes by futex */
    uint64_t window_offset, window_size;
    bool slice;                       /* the file holds the windows of other clients too */
    struct vgp_window_shared *shared; /* mapping of the header page */
    struct brk_client_region *regions;
    unsigned nregions;
    uint32_t ncalls;          /* of all of them */
    uint64_t vram, pinned;    /* shares of the quotas */
    uint64_t blobs;           /* share of the quota of images */
    uint64_t wants;           /* share of vram that its worker waits for, 0: none */
    uint64_t wants_until_ns;  /* 0: it waits for a client that ends */
    unsigned nfilling;        /* images that its worker fills (images.c) */
    unsigned nstale;          /* that it has filled too slowly, and has not spoken of since */
    uint64_t image_bytes;     /* of all that it was given memory for */
    bool image_lies;          /* the bytes of one did not have its hash */
    uint32_t holder;          /* number among holders of shared events, 0: none yet */
    bool left_event;          /* it has given up a shared event that others still have */
    bool holder_gone;         /* to be told so: VGB_M_HOLDER_GONE */
    struct vgb_limits limits; /* kept by its worker */
    struct brk_fair fair;     /* its share of the GPU */
    struct brk_turn turn;
    uint32_t priority;     /* the highest goes first, up to its share */
    enum brk_brake brake;  /* on its worker, which is ahead of its share */
    uint64_t braked_ns;    /* since when, if it is */
    uint64_t throttled_ns; /* for which it was, until it ran again */
    bool lowered;          /* its worker's threads have had the lowest priority */
    uint64_t cpu_ns;       /* of its worker, the latest reading for totals */
    uint64_t begun_ns;     /* when it was created */
    uint64_t said[4];      /* totals.c: what its window has said that can be */
    bool behind;           /* stopped for one of higher priority */
    uint64_t behind_ns;    /* so, in this window */
    bool waited_known;
    uint64_t waited_ns;           /* what its worker's threads had waited for processors */
    unsigned reports;             /* how often it may say what it has: a quota was set where there was none */
    unsigned nshares;             /* that it has made */
    unsigned nshare_fds;          /* of these with a descriptor */
    unsigned nholds;              /* of what others have made */
    uint64_t shared_bytes;        /* of what it has made */
    struct brk_share_tally tally; /* the same, counted anew (books.c) */
    /* Images that its worker was given, and how many. */
    struct brk_image_hold *image_holds;
    unsigned nimage_holds;
};

struct brk_client_setup {
    const struct brk_client_ops *ops;
    void *transport;
    unsigned slot;
    int lines;         /* key of its part of the log, brk_lines_of() */
    const char *label; /* at most VGPU_LABEL_LEN bytes, need not be terminated */
    int window_fd;     /* duplicated */
    uint64_t window_offset, window_size;
    int doorbell;       /* duplicated */
    bool events;        /* a slot of a VM: wake through ops->wake instead of a futex */
    bool impatient;     /* as in struct brk_client */
    unsigned create_ms; /* deadline for `created` */
};
/* NULL: *status says why; no callback comes then. */
struct brk_client *brk_client_create(const struct brk_client_setup *s, uint32_t *status);
/* ops->ended comes when the worker is gone, perhaps before this returns. */
void brk_client_destroy(struct brk_client *c);
void brk_client_new_doorbell(struct brk_client *c, int fd);

/* ---- regions.c ---- */

struct brk_map {
    uint32_t region, flags; /* BRK_MAP_* */
    uint64_t va, length, offset;
    const struct brk_map_run *runs;
    unsigned nruns;
};
struct brk_map_run {
    int fd;
    uint64_t offset, length;
};
/* VGPU_S_OK: handed to the worker; ops->mapped comes unless VGB_MAP_MORE is set. */
uint32_t brk_client_map(struct brk_client *c, const struct brk_map *m);
/* VGPU_S_OK: ops->unmapped comes. */
uint32_t brk_client_unmap(struct brk_client *c, uint32_t region);
/* PLACE, MAPPED and UNMAPPED. False: no honest worker says this. */
bool brk_region_message(struct brk_client *c, const struct vgb_msg *m);
/* What the pool calls. */
void brk_region_mapper_done(struct brk_client *c, uint32_t region, bool taken);
/* The client's worker has ended, and its memory is given back. */
void brk_regions_gone(struct brk_client *c);

unsigned brk_client_count(void);

/* What the pool calls. */
extern const struct brk_pool_users brk_client_users;

/* ---- for watch.c ---- */

void brk_client_worker_ready(struct brk_client *c, struct brk_proc *p);
void brk_client_message(struct brk_client *c, const struct vgb_msg *m);
/* `said`: the reason is the worker's own. */
void brk_client_worker_gone(struct brk_client *c, uint32_t reason, const char *text, bool said);
/* Its worker was killed and does not end in time. */
void brk_client_stuck(struct brk_client *c);
/* Refuses those that waited too long for a worker; true while others wait. */
bool brk_client_expire(uint64_t now_ns);
/* The longest-waiting client without a worker, or NULL. */
struct brk_client *brk_client_waiting(void);
/* The list of all clients, by `next`. */
struct brk_client *brk_client_first(void);

/* ---- pace.c: shares, those of the software GPU by processor time ---- */

/* A timer for who shares, to be armed by the caller; `tick` is called from the loop. False: there is none, and it has been
 * said. */
bool brk_share_timer(struct brk_source *timer, void (*tick)(struct brk_source *timer, uint32_t events));
/* Which provider the workers have: the software GPU, or one whose time is not processor time. */
void brk_pace_provider(bool soft);
/* brk_opt's weight, cap or `pace` is new. */
void brk_pace_changed(void);
/* Shares are enforced. */
bool brk_pace_works(void);
/* A worker has begun to serve the client. */
void brk_pace_client(struct brk_client *c);
void brk_pace_client_set(struct brk_client *c, uint32_t weight, uint32_t cap);
void brk_pace_priority(struct brk_client *c, uint32_t priority);
/* WORK. False: no honest worker says this. */
bool brk_pace_message(struct brk_client *c, const struct vgb_msg *m);
/* Its worker has ended, or will. */
void brk_pace_gone(struct brk_client *c);
/* Workers are to wait for turns from their start on. */
bool brk_pace_by_turns(void);
void brk_pace_stop(void);

/* ---- turns.c: shares of any GPU; for pace.c, with the same meanings ---- */

bool brk_turns_work(void);
void brk_turns_client(struct brk_client *c);
bool brk_turns_message(struct brk_client *c, const struct vgb_msg *m);
void brk_turns_changed(void);
void brk_turns_client_set(struct brk_client *c, uint32_t weight, uint32_t cap);
void brk_turns_gone(struct brk_client *c);
void brk_turns_stop(void);

/* ---- adjust.c: limits that are changed while clients are served ---- */

/* A new value for all, or for the client whose worker is `pid` (not 0). NULL, or what is wrong. What is in use
 * already stays: a limit below it refuses new work only. */
const char *brk_adjust(enum brk_limit_id id, uint64_t value, pid_t pid);
/* Promises the VM so much device memory; NULL, or why not. */
const char *brk_adjust_promise(uint64_t bytes);
/* The client whose worker that is, or NULL. */
struct brk_client *brk_adjust_find(pid_t pid);

/* ---- share.c: what one worker has made and others may open ---- */

/* SHARE_NEW, SHARE_OPEN, SHARE_DROP. False: no honest worker says this. */
bool brk_share_message(struct brk_client *c, const struct vgb_msg *m);
/* The client's worker has ended: it holds nothing any more. */
void brk_share_client_gone(struct brk_client *c);
unsigned brk_share_count(void);
/* Counts them anew, for each client into its `tally`, and the bytes that count here. NULL, or which count of this file
 * is wrong. */
const char *brk_share_tally(uint64_t *charged);

/* ---- waited.c: for pace.c ---- */

/* Threads of each of so many workers that one round looks at. */
unsigned brk_waited_most(unsigned workers);
/* How long the first *most threads of a process have waited for a processor, all together, since they began, ns;
 * *most: how many it looked at. Threads that have ended, or come later in the list, are missing. */
uint64_t brk_waited(pid_t pid, unsigned *most);

/* ---- images.c: images of programs, kept for the next ones ---- */

/* IMAGE_ASK, IMAGE_FILLED. False: no honest worker says this. */
bool brk_images_message(struct brk_client *c, const struct vgb_msg *m);
/* The client's worker has ended, or will: drops its unfilled images; those already filled are still checked. */
void brk_images_client_gone(struct brk_client *c);
/* The client's worker has ended: it has no image mapped any more. */
void brk_images_worker_gone(struct brk_client *c);
/* Checks a piece of what was filled. timeout_ms, or 0: there is more to check. */
int brk_images_tick(int timeout_ms);
/* Gives all of them up. */
void brk_images_stop(void);
/* How many descriptors all images may have; 0 without --image-cache. */
unsigned brk_images_descriptors(void);
struct brk_images_state {
    uint64_t bytes, count;          /* kept now */
    uint64_t hits, hit_bytes;       /* given to workers since the broker began */
    uint64_t misses, kept, evicted; /* asked for in vain; taken in; given up for others */
    uint64_t refused;               /* whose bytes did not have the hash that was said */
};
extern struct brk_images_state brk_images;

/* ---- usage.c ---- */

/* Processor time of a worker and its mapper; 0: it has just ended. */
uint64_t brk_usage_cpu(const struct brk_proc *p);
/* Tells a worker about the clients in the list. */
void brk_usage_answer(struct brk_proc *p, struct brk_client *first);

/* ---- books.c ---- */

struct brk_books {
    unsigned clients, ending, regions, shares; /* ending: those whose worker is not reaped yet, but will be */
};
/* Counts what is held. NULL, or which account differs from what is held: a fault of this program. */
const char *brk_books_wrong(struct brk_books *b);
/* Logs it, as an error. */
void brk_books_log(void);

/* ---- totals.c ---- */

/* What one client has used since it began. */
struct brk_use {
    uint64_t calls, waits, errors; /* records: all, with a reply, failed when they were made */
    uint64_t copied;               /* bytes */
    uint64_t cpu_ns, throttled_ns;
};
/* Since the broker began. */
struct brk_totals {
    uint64_t clients, clients_refused; /* created; refused by --max-clients or for want of memory */
    uint64_t memory_refused;           /* reservations of device memory over a quota */
    uint64_t workers_lost;             /* that ended while they had a client */
    struct brk_use gone;               /* of the clients that are gone */
};
extern struct brk_totals brk_totals;
void brk_totals_use(struct brk_client *c, struct brk_use *u);
void brk_totals_add(struct brk_use *sum, const struct brk_use *u);
/* The client is about to be freed. */
void brk_totals_gone(struct brk_client *c);

/* ---- status.c ---- */

#define BRK_STATUS_NAME "vgpu-backend.status." /* and the process id */
#define BRK_STATUS_MAX 131072u
/* Lists the clients for the broker's user and root: "backend PID SOCKET", "limit NAME VALUE" for each limit, then
 * "client WORKER-PID GUEST-PID BYTES LABEL" and, where shares are enforced, "share WORKER-PID WEIGHT CAP
 * MILLISECONDS" for each client that is served, a line each; "use WORKER-PID NAME VALUE ..." and "vm NAME VALUE" with what
 * clients and VM have used; "books" with what is held, and whether all accounts agree with it. Readers pass over lines that they do not know. A failure is logged; all else works without it.
 * False: --status cannot be served; the reason is logged. */
bool brk_status_start(void);
/* The name of the device as the provider says, and whether it is the software GPU; "" until the first worker is ready. */
void brk_status_provider(bool soft, const char *name);
void brk_status_stop(void);

#endif
