/* SPDX-License-Identifier: MIT */
/*
 * External semaphores as seen by another API: shared code of the cases of stream/extsem.c,
 * graph/extsem.c and graph/operations.c.
 */
#ifndef OTHER_API_H
#define OTHER_API_H

#include "conform.h"

#include "../../../../lib/extsem/extsem.h"

/* A semaphore for CUDA, with the other API's end. */
struct cf_sem {
    CUexternalSemaphore cuda;
    int fd;                       /* an eventfd, else -1 */
    struct vgp_extsem_page *page; /* of a counter, else NULL */
};

/* Creates a semaphore from an eventfd; ends the case if it cannot be imported. */
void cf_sem_event(struct cf_sem *s);
/* Creates a counter in a memfd, sealed or not. Descriptor; -1: not supported by the system. */
int cf_counter(bool sealed, size_t size, struct vgp_extsem_page **page);
void cf_sem_counter(struct cf_sem *s);
/* Signals from the other API: a binary semaphore, or a counter to a value. */
void cf_sem_set(struct cf_sem *s, uint64_t value);
/* Queries from the other API whether the binary semaphore is set. */
bool cf_sem_is_set(const struct cf_sem *s);
uint64_t cf_sem_value(const struct cf_sem *s);
void cf_sem_end(struct cf_sem *s);

/* Operations on a single semaphore. */
CUresult cf_sem_signal(struct cf_sem *s, uint64_t value, CUstream stream);
CUresult cf_sem_wait(struct cf_sem *s, uint64_t value, CUstream stream);
CUexternalSemaphore cf_sem_import(CUexternalSemaphoreHandleType type, int fd, CUresult *r);

/* Ends the process with a wait outstanding; how: exit, _exit or kill. */
bool cf_sem_leave(const char *how);

#endif
