/* SPDX-License-Identifier: MIT */
/*
 * Memory shared by two processes: how its descriptors are passed.
 *
 * Used alone, the library passes them itself through /proc, between processes of one user. Where that is
 * not allowed or not wanted, the program that loads the library does it: sg_set_share(). A token
 * of 32 bytes names the memory; the exporting process gives it to the processes that may open it.
 */
#ifndef SG_SHARE_H
#define SG_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#define SG_SHARE_TOKEN 32

enum sg_share_kind {
    SG_SHARE_MEMORY = 1, /* can be opened while its maker holds it */
    SG_SHARE_FD = 2,     /* can be opened while anybody holds it */
    SG_SHARE_EVENT = 3,  /* as MEMORY; one page, whose first words the transport writes, see below */
};

/*
 * The start of the page of an event. The transport keeps `holders`: the numbers of those who have
 * the page, 0: free place. When one has gone it takes the number out, adds 1 to `wake` and wakes all
 * that sleep on it (futex).
 */
#define SG_SHARE_HOLDERS 63
struct sg_share_head {
    _Atomic uint32_t wake;
    _Atomic uint32_t holders[SG_SHARE_HOLDERS];
};

struct sg_share_ops {
    /*
     * Makes memory of that many bytes (a multiple of 4096), zeroes, sealed in its length. A
     * descriptor that the caller closes, or -1: no memory, or no more is allowed. token is filled;
     * *holder too for EVENT: the caller's own number.
     */
    int (*create)(void *arg, uint32_t kind, uint64_t bytes, uint8_t *token, uint32_t *holder);
    /* The memory behind a token, likewise; -1: there is none (any more), -2: no memory. */
    int (*open)(void *arg, uint32_t kind, const uint8_t *token, uint32_t *holder);
    /* This process does not use it any more; once per create or open. Any thread. */
    void (*close)(void *arg, const uint8_t *token);
    /* One more descriptor of what this process has made (kind FD); NULL: nobody asks for it. */
    int (*again)(void *arg, const uint8_t *token);
    /* Has that holder of an event gone without the transport having taken it out? May be NULL. */
    bool (*gone)(void *arg, uint32_t holder);
};

/* Exported: replaces the transport, before the first call that shares anything. */
void sg_set_share(const struct sg_share_ops *ops, void *arg);

/* Exported: a holder of shared events has gone (runtime/ipc_event.c). Any thread. */
void sg_share_holder_gone(void);

/* ---- for the files of this folder ---- */

int sg_share_create(uint32_t kind, uint64_t bytes, uint8_t *token, uint32_t *holder);
/* Also checks that the memory cannot shrink or grow; *bytes: its length. */
int sg_share_open(uint32_t kind, const uint8_t *token, uint64_t *bytes, uint32_t *holder);
void sg_share_close(const uint8_t *token);
bool sg_share_gone(uint32_t holder);
/* -1: this transport does not give it. */
int sg_share_again(const uint8_t *token);
/* True when descriptors are given to the application (sg_share_again() works). */
bool sg_share_gives_fds(void);

/*
 * What is shared by descriptor ends in a page that says what it is. bytes: without that page.
 * A descriptor, which the caller closes, or -1.
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
/* Identifies a descriptor of the application; false: not one of ours (errno is EINVAL), or no memory to look (ENOMEM). */
bool sg_share_look(int fd, const char *magic, struct sg_share_tail *tail);
/*
 * Puts the pages of fd, filled with what is there, in the place of [base, base + len), which may be
 * read and written by other threads meanwhile: nothing of it is lost. False: no memory, nothing has
 * changed. One at a time; the caller sees to that.
 */
bool sg_share_move(uint64_t base, uint64_t len, int fd);

#endif
