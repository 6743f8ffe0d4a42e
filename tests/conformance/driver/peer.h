/* SPDX-License-Identifier: MIT */
/*
 * A second process for the cases of memory/ipc.c and memory/share.c: started by exec before the
 * first process calls cuInit, it serves one request at a time. Requests and answers have the same
 * size; a descriptor may be attached.
 */
#ifndef PEER_H
#define PEER_H

#include "conform.h"

#include <sys/types.h>

enum peer_op {
    P_INIT,       /* cuInit, primary context of device 0 */
    P_ALLOC,      /* a = bytes -> value = address */
    P_GET_MEM,    /* a = address -> data = handle */
    P_OPEN_MEM,   /* data = handle, a = flags -> value = address */
    P_CLOSE_MEM,  /* a = address */
    P_FREE,       /* a = address */
    P_FILL,       /* a = address, b = words, c = first -> k_fill on the stream, without a wait */
    P_FILLED,     /* same arguments -> value: true if the data is there */
    P_NEW_EVENT,  /* a = flags -> value */
    P_GET_EVENT,  /* a = event -> data = handle */
    P_OPEN_EVENT, /* data = handle -> value = event */
    P_RECORD,     /* a = event */
    P_QUERY,      /* a = event */
    P_EVENT_SYNC, /* a = event */
    P_WAIT_EVENT, /* a = event: the stream waits */
    P_END_EVENT,  /* a = event */
    P_GATE,       /* the stream is busy from now on */
    P_GATE_OPEN,
    P_STREAM_SYNC,
    P_IMPORT,         /* the descriptor, as physical memory -> value = handle */
    P_MAP,            /* a = handle, b = bytes -> value = address */
    P_UNMAP,          /* a = address, b = bytes */
    P_RELEASE,        /* a = handle */
    P_IMPORT_POOL,    /* the descriptor -> value = pool */
    P_IMPORT_POINTER, /* a = pool, data = CUmemPoolPtrExportData -> value = address */
    P_FREE_ASYNC,     /* a = address */
    P_END_POOL,       /* a = pool */
    P_RESET,          /* the primary context is released and retained again */
    P_EXIT,
};

struct peer_msg {
    uint32_t op;
    uint32_t result; /* CUresult */
    uint64_t a, b, c, value;
    unsigned char data[64];
};

struct peer {
    int sock;
    pid_t pid;
};

/* Starts the second process; ends the case on failure. */
void peer_start(struct peer *p);
/*
 * Sends a request; m holds the answer afterwards. Returns the result of the call; 999 (unknown):
 * the process has ended.
 */
CUresult peer_ask(struct peer *p, struct peer_msg *m, int fd);
/* The same for requests without data; value may be NULL. */
CUresult peer_do(struct peer *p, enum peer_op op, uint64_t a, uint64_t b, uint64_t c, uint64_t *value);
/* Sends a request whose answer is read later by peer_answer(). */
void peer_send(struct peer *p, enum peer_op op, uint64_t a);
CUresult peer_answer(struct peer *p, uint64_t *value);
/* True if an answer arrives within ms milliseconds. */
bool peer_answered(struct peer *p, int ms);
/* Ends the process by exit, or by SIGKILL. */
void peer_end(struct peer *p, bool kill);
/* Main function of the second process. */
bool peer_main(const char *fd);

#endif
