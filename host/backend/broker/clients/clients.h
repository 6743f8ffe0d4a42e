/* SPDX-License-Identifier: MIT */
/* Clients: lifetime, quota shares, memory regions, pacing, and objects shared between clients. */
#ifndef BRK_CLIENTS_H
#define BRK_CLIENTS_H

#include "workers/workers.h"

/* ---- brk_client.c ---- */

enum brk_client_state {
    BRK_C_CLEARING, /* its window is being cleared: no worker yet */
    BRK_C_WAITING,  /* for a worker of the pool */
    BRK_C_STARTING, /* START was sent */
    BRK_C_SERVING,
    BRK_C_DEAD,   /* the worker is gone; the client can only be destroyed */
    BRK_C_ENDING, /* brk_client_destroy() was called */
};

struct brk_client;
/* Callbacks into the client's transport. All of them are required. */
struct brk_client_ops {
    void (*created)(struct brk_client *c, uint32_t status); /* status != OK: the client is freed */
    void (*mapped)(struct brk_client *c, uint32_t region, uint32_t status, uint64_t va);
    void (*unmapped)(struct brk_client *c, uint32_t region, uint32_t status);
    void (*wake)(struct brk_client *c);
    void (*dead)(struct brk_client *c, uint32_t reason);
    /* The killed worker did not exit in time, or the window is not cleared in time. Pending
     * requests are answered; at most `ended` follows. */
    void (*stuck)(struct brk_client *c);
    void (*ended)(struct brk_client *c); /* the worker is reaped; the client is freed after this */
};

/* State of a region that the worker's mapper maps. Regions that the worker maps itself have none:
 * the broker relies on the worker's answers. */
enum brk_region_state {
    BRK_R_RUNS,    /* more runs are to come */
    BRK_R_ASKED,   /* all runs were sent; the worker chooses the place */
    BRK_R_PLACING, /* the mapper maps it */
    BRK_R_PLACED,  /* mapped; the worker has not confirmed it yet */
    BRK_R_MAPPED,
    BRK_R_TAKING,  /* the mapper unmaps it */
    BRK_R_FAILING, /* the mapper unmaps it after a failure to map */
};

struct brk_client_region {
    struct brk_client_region *next;
    uint32_t id;
    uint32_t flags;
    uint64_t va, length, done;
    bool complete, unmapping;
    bool by_mapper, refused; /* refused: the worker will not place it either */
    enum brk_region_state state;
    struct vgb_plan plan;
    uint32_t ncalls; /* calls in the plan, until the mapper has finished them */
    uint64_t place;  /* address in the worker */
};

/* How brk_pace.c throttles a worker that is ahead of its share. */
enum brk_brake {
    BRK_FREE,
    BRK_LAST,    /* lowest scheduling priority: only idle processor time */
    BRK_STOPPED, /* stopped with SIGSTOP */
};

/* State of a client's turns (brk_turns.c). With pacing by SIGSTOP, only clients with a priority report
 * their work. */
struct brk_turn {
    uint32_t number; /* number of the last TURN */
    uint32_t work;   /* enum vgb_work, as reported by the worker */
    bool open, closing;
    uint64_t since_ns; /* last change of `work` */
    uint64_t told_ns;  /* time of the last TURN */
    uint64_t bound_ns; /* its bound, ns of work at once */
    /* time with work in flight, or with other clients stopped on its behalf */
    uint64_t used_ns;
};

/* Shared objects of one client: made, with a descriptor, held from other clients, bytes made. */
struct brk_share_tally {
    unsigned made, fds, holds;
    uint64_t bytes;
};

struct brk_client {
    struct brk_client *next;
    unsigned asked;    /* region requests that the worker has not answered */
    uint64_t asked_ns; /* start of the oldest wait for an answer, or the last answer */
    const struct brk_client_ops *ops;
    void *transport;
    unsigned slot;
    int lines; /* key of its log budget (brk_lines.c) */
    char label[VGPU_LABEL_LEN + 1];
    enum brk_client_state state;
    /* the guest driver has no PING and takes silence for loss of the device */
    bool impatient;
    /* the worker was killed and has not exited, or the window's file keeps its clearing waiting */
    bool stuck;
    unsigned tries;     /* workers started for this client */
    unsigned create_ms; /* maximum wait for a serving worker */
    uint64_t
        patience_ns; /* deadline for a cleared window, then for a serving worker; the client is refused after it */
    uint64_t ending_ns; /* time of brk_client_destroy() */
    struct brk_proc *proc;
    int window_fd, doorbell; /* duplicates owned by this structure */
    struct brk_source wake;  /* eventfd; fd -1: the worker wakes the client by futex */
    uint64_t window_offset, window_size;
    /* the window is a slice of a file with other clients' windows */
    bool slice;
    bool clean;                       /* window zeroed, and given to no worker since */
    bool clearing;                    /* waits for the clearing of the window, which uses window_fd */
    struct vgp_window_shared *shared; /* mapped header page */
    struct brk_client_region *regions;
    unsigned nregions;
    uint32_t ncalls;          /* mmap calls planned for all regions */
    uint64_t vram, pinned;    /* bytes charged to the quotas */
    uint64_t shared_over;     /* bytes charged beside vram: shared memory that it no longer reserves */
    uint64_t blobs;           /* bytes charged to the quota of images on their way */
    uint64_t wants;           /* device memory the worker waits for, bytes; 0: none */
    uint64_t wants_until_ns;  /* end of that wait; 0: until an ending client is gone */
    unsigned nfilling;        /* images its worker is filling (brk_images.c) */
    unsigned nstale;          /* images overdue to be filled and not reported since */
    uint64_t image_bytes;     /* bytes of memory handed out for images */
    bool image_lies;          /* an image it filled did not match its hash */
    uint32_t holder;          /* number as a holder of shared events; 0: not assigned */
    bool left_event;          /* dropped a shared event that other clients still hold */
    bool holder_gone;         /* VGB_M_HOLDER_GONE is to be sent */
    struct vgb_limits limits; /* enforced by its worker */
    struct brk_fair fair;     /* its share of the GPU */
    struct brk_turn turn;
    uint32_t priority;     /* higher values run first, up to their share */
    enum brk_brake brake;  /* brake applied to its worker */
    uint64_t braked_ns;    /* start of the present brake */
    uint64_t throttled_ns; /* total time braked, up to the last release */
    bool lowered;          /* the worker's threads were lowered to the lowest priority */
    uint64_t cpu_ns;       /* processor time of its worker, last reading for the totals */
    uint64_t begun_ns;     /* time of creation */
    uint64_t said[4];      /* last plausible counters read from the window (brk_totals.c) */
    bool behind;           /* stopped on behalf of a client of higher priority */
    uint64_t behind_ns;    /* time spent so in the current window */
    bool waited_known;
    uint64_t waited_ns; /* time the worker's threads waited for a processor, last reading */
    /* VGB_RESERVE_HELD messages allowed: one per quota set where there was none */
    unsigned reports;
    unsigned nshares;             /* shared objects made by this client */
    unsigned nshare_fds;          /* those with a descriptor */
    unsigned nholds;              /* held objects made by other clients */
    uint64_t shared_bytes;        /* bytes of the objects made */
    struct brk_share_tally tally; /* the four fields above, recounted (brk_books.c) */
    /* Images handed to its worker, and their number. */
    struct brk_image_hold *image_holds;
    unsigned nimage_holds;
};

struct brk_client_setup {
    const struct brk_client_ops *ops;
    void *transport;
    unsigned slot;
    int lines;         /* key of its log budget, brk_lines_of() */
    const char *label; /* at most VGPU_LABEL_LEN bytes, not necessarily terminated */
    int window_fd;     /* duplicated; zero-filled by the caller unless `events` is set */
    uint64_t window_offset, window_size;
    int doorbell;       /* duplicated */
    bool events;        /* slot of a VM: woken through ops->wake instead of a futex */
    bool impatient;     /* as in struct brk_client */
    unsigned create_ms; /* deadline for `created`, beside the clearing of the window */
};
/* Creates a client. NULL: *status has the reason, and no callback follows. */
struct brk_client *brk_client_create(const struct brk_client_setup *s, uint32_t *status);
/* Ends the client. ops->ended follows when the worker is gone, possibly before this returns. */
void brk_client_destroy(struct brk_client *c);
void brk_client_new_doorbell(struct brk_client *c, int fd);

/* ---- brk_window.c ---- */

/* To be called at the start, so that its descriptor is not taken later. False: no descriptor. */
bool brk_window_init(void);
/* Begins to zero the window, so that nothing of an earlier client is left. True: done(c, ok) follows,
 * from the loop. */
bool brk_window_clear(struct brk_client *c, void (*done)(struct brk_client *c, bool ok));
/* The same for a client that ends, which gives the memory back: nothing follows, and the client's
 * descriptor is taken. Without memory or a thread, and beyond --max-clients of
 * them, the slot is cleared for its next client only. */
void brk_window_give_back(struct brk_client *c);

/* ---- brk_regions.c ---- */

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
/* VGPU_S_OK: sent to the worker; ops->mapped follows unless VGB_MAP_MORE is set. */
uint32_t brk_client_map(struct brk_client *c, const struct brk_map *m);
/* VGPU_S_OK: ops->unmapped follows. */
uint32_t brk_client_unmap(struct brk_client *c, uint32_t region);
/* Handles PLACE, MAPPED and UNMAPPED. False: protocol violation by the worker. */
bool brk_region_message(struct brk_client *c, const struct vgb_msg *m);
/* Called by the pool. */
void brk_region_mapper_done(struct brk_client *c, uint32_t region, bool taken);
/* Releases the regions of a client whose worker has ended. */
void brk_regions_gone(struct brk_client *c);

/* Called by the pool. */
extern const struct brk_pool_users brk_client_users;

/* ---- for brk_watch.c ---- */

void brk_client_worker_ready(struct brk_client *c, struct brk_proc *p);
void brk_client_message(struct brk_client *c, const struct vgb_msg *m);
/* `said`: the reason was reported by the worker itself. */
void brk_client_worker_gone(struct brk_client *c, uint32_t reason, const char *text, bool said);
/* The killed worker has not exited in time. */
void brk_client_stuck(struct brk_client *c);
/* Refuses clients that waited too long for a worker; true while any still wait. */
bool brk_client_expire(uint64_t now_ns);
/* The longest-waiting client without a worker, or NULL. */
struct brk_client *brk_client_waiting(void);

/* ---- brk_client_list.c ---- */

/* Head of the list of all clients, linked by `next`. */
struct brk_client *brk_client_first(void);
unsigned brk_client_count(void);
/* Appends a client, which is in no list. */
void brk_client_list(struct brk_client *c);
/* Takes a client out of the list. */
void brk_client_unlist(struct brk_client *c);

/* ---- brk_pace.c: shares, those of the software GPU by processor time ---- */

/* Tells whether the provider is the software GPU, whose time is processor time. */
void brk_pace_provider(bool soft);
/* brk_opt.weight, .cap or .pace has changed. */
void brk_pace_changed(void);
/* True while shares are enforced. */
bool brk_pace_works(void);
/* Called when a worker begins to serve the client. */
void brk_pace_client(struct brk_client *c);
void brk_pace_client_set(struct brk_client *c, uint32_t weight, uint32_t cap);
void brk_pace_priority(struct brk_client *c, uint32_t priority);
/* Handles WORK. False: protocol violation by the worker. */
bool brk_pace_message(struct brk_client *c, const struct vgb_msg *m);
/* Called when the client's worker has ended or is being ended. */
void brk_pace_gone(struct brk_client *c);
/* True if workers wait for a turn from the start. */
bool brk_pace_by_turns(void);
void brk_pace_stop(void);

/* ---- brk_turns.c: shares of any GPU; for brk_pace.c, with the same meanings ---- */

/* Creates the timer of the pacing code, to be armed by the caller; `tick` runs from the loop.
 * False: no timer, already logged. */
bool brk_share_timer(struct brk_source *timer, void (*tick)(struct brk_source *timer, uint32_t events));
bool brk_turns_work(void);
void brk_turns_client(struct brk_client *c);
bool brk_turns_message(struct brk_client *c, const struct vgb_msg *m);
void brk_turns_changed(void);
void brk_turns_client_set(struct brk_client *c, uint32_t weight, uint32_t cap);
void brk_turns_gone(struct brk_client *c);
void brk_turns_stop(void);

/* ---- brk_adjust.c: limits that are changed while clients are served ---- */

/* Sets a limit for all clients, or for the client whose worker is `pid` (not 0). NULL, or an error
 * text. Usage above a new limit stays; the limit refuses new requests only. */
const char *brk_adjust(enum brk_limit_id id, uint64_t value, pid_t pid);
/* Called when a worker begins to serve the client: what has changed since its START. */
void brk_adjust_serves(struct brk_client *c);
/* Promises the VM `bytes` of device memory; NULL, or the reason for refusal. */
const char *brk_adjust_promise(uint64_t bytes);
/* The client whose worker is `pid`, or NULL. */
struct brk_client *brk_adjust_find(pid_t pid);

/* ---- brk_share.c: objects of a worker that other workers may open ---- */

/* Handles SHARE_NEW, SHARE_OPEN and SHARE_DROP. False: protocol violation by the worker. */
bool brk_share_message(struct brk_client *c, const struct vgb_msg *m);
/* Charge of a client that reserves `vram` bytes. What it shares exists whatever it says, so it is
 * charged with a quota at least. */
uint64_t brk_share_charge(const struct brk_client *c, uint64_t vram);
/* Charges the client anew after a change of its reservation or of what it shares. */
void brk_share_settle(struct brk_client *c);
/* Drops everything held by a client whose worker has ended. */
void brk_share_client_gone(struct brk_client *c);
unsigned brk_share_count(void);
/* Recounts shared objects into each client's `tally`, and the bytes charged into *charged. NULL, or
 * the name of the counter of brk_share.c that is wrong. */
const char *brk_share_tally(uint64_t *charged);

/* ---- brk_waited.c: for brk_pace.c ---- */

/* Number of threads per worker to inspect in a round over `workers` workers. */
unsigned brk_waited_most(unsigned workers);
/*
 * Total time that the first *most threads of a process have spent waiting for a processor since
 * their start, ns. *most: out, number of threads inspected. Exited threads and those later in the
 * list are not counted.
 */
uint64_t brk_waited(pid_t pid, unsigned *most);

/* ---- brk_images.c: images of programs, kept for the next ones ---- */

/* Handles IMAGE_ASK and IMAGE_FILLED. False: protocol violation by the worker. */
bool brk_images_message(struct brk_client *c, const struct vgb_msg *m);
/* The client's worker has ended or is being ended: drops its unfilled images; filled ones are still
 * checked. */
void brk_images_client_gone(struct brk_client *c);
/* The client's worker has ended and no longer maps any image. */
void brk_images_worker_gone(struct brk_client *c);
/* Checks a piece of the filled images. Returns timeout_ms, or 0 if more is left to check. */
int brk_images_tick(int timeout_ms);
/* Drops all images. */
void brk_images_stop(void);
/* Maximum number of descriptors used by images; 0 without --image-cache. */
unsigned brk_images_descriptors(void);
struct brk_images_state {
    uint64_t bytes, count;    /* in the cache now */
    uint64_t hits, hit_bytes; /* handed to workers since the start of the broker */
    /* requests not served; images added; images evicted for newer ones */
    uint64_t misses, kept, evicted;
    uint64_t refused; /* filled images whose bytes did not match the announced hash */
};
extern struct brk_images_state brk_images;

/* ---- brk_usage.c ---- */

/* Processor time of a worker and its mapper, ns; 0: it has just exited. */
uint64_t brk_usage_cpu(const struct brk_proc *p);
/* Answers ASK_USAGE with the clients of the list. */
void brk_usage_answer(struct brk_proc *p, struct brk_client *first);

/* ---- brk_books.c ---- */

struct brk_books {
    /* ending: clients whose worker is yet to be reaped */
    unsigned clients, ending, regions, shares;
};
/* Counts what is held. NULL, or the account that differs from it, which is a bug of the broker. */
const char *brk_books_wrong(struct brk_books *b);
/* Logs such a difference as an error. */
void brk_books_log(void);

/* ---- brk_totals.c ---- */

/* Usage of one client since its creation. */
struct brk_use {
    uint64_t calls, waits, errors; /* records: total, with a reply, failed on execution */
    uint64_t copied;               /* bytes */
    uint64_t cpu_ns, throttled_ns;
};
/* Totals since the start of the broker. */
struct brk_totals {
    /* created; refused by --max-clients or for lack of memory */
    uint64_t clients, clients_refused;
    uint64_t memory_refused; /* reservations of device memory over a quota */
    uint64_t workers_lost;   /* workers that ended while serving a client */
    struct brk_use gone;     /* summed over clients that are gone */
};
extern struct brk_totals brk_totals;
void brk_totals_use(struct brk_client *c, struct brk_use *u);
void brk_totals_add(struct brk_use *sum, const struct brk_use *u);
/* Adds the usage of a client that is about to be freed. */
void brk_totals_gone(struct brk_client *c);

/* ---- brk_status.c ---- */

#define BRK_STATUS_NAME "vgpu-backend.status." /* followed by the process id */
#define BRK_STATUS_MAX 131072u
/*
 * Serves the list of clients to the broker's user and root. Lines: "backend PID SOCKET"; "limit
 * NAME VALUE" for each limit; for each client served "client WORKER-PID GUEST-PID BYTES LABEL" and,
 * where shares are enforced, "share WORKER-PID WEIGHT CAP MILLISECONDS"; "use WORKER-PID NAME VALUE
 * ..." and "vm NAME VALUE" with the usage of clients and VM; "books" with what is held and whether
 * all accounts agree with it. Readers skip unknown lines. A failure while serving is logged and
 * affects nothing else. False: --status cannot be served; the reason is logged.
 */
bool brk_status_start(void);
/* Sets the device name reported by the provider, "" until the first worker is ready, and whether
 * the provider is the software GPU. */
void brk_status_provider(bool soft, const char *name);
void brk_status_stop(void);

#endif
