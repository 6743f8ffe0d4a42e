/* SPDX-License-Identifier: MIT */
/*
 * Memory shared by two processes, and the transport that passes its descriptors.
 *
 * Used alone, the library passes descriptors through /proc, between processes of one user. Where
 * that is not allowed or not wanted, the loading program replaces the transport with
 * sg_set_share(). A token of 32 bytes names the memory; the exporting process gives the token to
 * the processes that may open it.
 */
#ifndef SG_SHARE_H
#define SG_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#define SG_SHARE_TOKEN 32

enum sg_share_kind {
    SG_SHARE_MEMORY = 1, /* can be opened while the creating process holds it */
    SG_SHARE_FD = 2,     /* can be opened while any process holds it */
    SG_SHARE_EVENT = 3,  /* as MEMORY; one page whose first words the transport writes, see below */
};

/*
 * Start of an event's page. The transport maintains `holders`: the numbers of the processes that
 * map the page; 0 marks a free slot. When a holder exits, the transport clears its slot, adds 1 to
 * `wake` and wakes all sleepers on that word (futex).
 */
#define SG_SHARE_HOLDERS 63
struct sg_share_head {
    _Atomic uint32_t wake;
    _Atomic uint32_t holders[SG_SHARE_HOLDERS];
};

struct sg_share_ops {
    /*
     * Creates zeroed memory of `bytes` bytes (a multiple of 4096), sealed against resizing. Returns
     * a descriptor that the caller closes, or -1: out of memory, or over the limit. Fills token,
     * and for EVENT also *holder, the caller's own number.
     */
    int (*create)(void *arg, uint32_t kind, uint64_t bytes, uint8_t *token, uint32_t *holder);
    /* Opens the memory behind a token, likewise. -1: no such memory, or no longer; -2: out of
       memory. */
    int (*open)(void *arg, uint32_t kind, const uint8_t *token, uint32_t *holder);
    /* Releases this process's use of the memory; once per create or open. Any thread. */
    void (*close)(void *arg, const uint8_t *token);
    /* Another descriptor of memory that this process created (kind FD). NULL: descriptors are
       not handed out. */
    int (*again)(void *arg, const uint8_t *token);
    /* True if that holder of an event has exited and the transport has not removed it. May be
       NULL. */
    bool (*gone)(void *arg, uint32_t holder);
};

/* Exported: replaces the transport. Must precede the first call that shares anything. */
void sg_set_share(const struct sg_share_ops *ops, void *arg);

/* Exported: reports that a holder of shared events has exited (runtime/sg_ipc_event.c). Any thread. */
void sg_share_holder_gone(void);

/* ---- for the files of this folder ---- */

int sg_share_create(uint32_t kind, uint64_t bytes, uint8_t *token, uint32_t *holder);
/* Also checks that the memory is sealed against resizing; *bytes: its length. */
int sg_share_open(uint32_t kind, const uint8_t *token, uint64_t *bytes, uint32_t *holder);
void sg_share_close(const uint8_t *token);
bool sg_share_gone(uint32_t holder);
/* -1: this transport does not hand out descriptors. */
int sg_share_again(const uint8_t *token);
/* True if the application may be given descriptors (sg_share_again() works). */
bool sg_share_gives_fds(void);

/*
 * Last page of memory that is shared by descriptor; it identifies the memory. bytes excludes this
 * page. Returns a descriptor, which the caller closes, or -1.
 */
struct sg_share_tail {
    char magic[8];
    uint64_t bytes;
    uint8_t id[16]; /* random */
    int32_t device;
    uint32_t zero[7];
};
int sg_share_create_fd(const char *magic, uint64_t bytes, int device, uint8_t *token,
                       struct sg_share_tail *tail);
/* Identifies a descriptor passed by the application. Returns false if it is not ours (errno
   EINVAL) or memory is exhausted (ENOMEM). */
bool sg_share_look(int fd, const char *magic, struct sg_share_tail *tail);
/*
 * (memory/sg_share_move.c) Replaces the pages of [base, base + len) with those of fd, after copying the current content.
 * Other threads may read and write the range meanwhile; no write is lost. Returns false, with
 * nothing changed, if out of memory. The caller serialises calls.
 */
bool sg_share_move(uint64_t base, uint64_t len, int fd);

#endif
