/* SPDX-License-Identifier: MIT */
/* Interface between inject.so and the tests that arm it: a page of a file. */
#ifndef INJECT_H
#define INJECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Kinds of calls; page.py has the same numbers. */
enum inject_kind {
    INJECT_MEMORY = 1, /* malloc, calloc, realloc, aligned_alloc, posix_memalign: ENOMEM */
    INJECT_MAPPING,    /* mmap: ENOMEM */
    INJECT_SOCKET,     /* socket, socketpair, accept4: EMFILE */
    INJECT_DESCRIPTOR, /* eventfd, memfd_create, pipe2, pidfd_open: EMFILE; ftruncate: ENOSPC */
    INJECT_PROCESS,    /* posix_spawn: EAGAIN */
    INJECT_THREAD,     /* pthread_create: EAGAIN */
    INJECT_WATCH,      /* epoll_ctl that adds: ENOSPC */
    INJECT_SEND,       /* sendmsg, send: ENOBUFS */
    INJECT_RECEIVE,    /* recvmsg, recv: ENOMEM */
    INJECT_OPEN,       /* open: EMFILE */
    INJECT_PROVIDER,   /* a call of the provider (fail_provider.c): CUDA_ERROR_OUT_OF_MEMORY */
    INJECT_KINDS
};

/* All zero: nothing fails. */
struct inject_page {
    atomic_uint kind;       /* enum inject_kind that fails */
    atomic_uint left;       /* calls of the kind until one fails, including it; 0: none */
    atomic_uint fired;      /* calls that have failed */
    atomic_int live;        /* allocated memory blocks, in all processes that map the page */
    atomic_ulong low, high; /* only calls from code in [low, high) count; low 0: all */
    atomic_uint calls[INJECT_KINDS];
};

/* For other preloaded code: true if this call of `kind` is to fail. */
bool inject_hit(unsigned kind);

#endif
