/* SPDX-License-Identifier: MIT */
/* A thread that makes all calls of the provider about one linker. */
#ifndef WRK_LINK_THREAD_H
#define WRK_LINK_THREAD_H

/*
 * NVIDIA's linker keeps state of its thread: a CUlinkState that was made on one thread, completed on another and
 * destroyed on the first ended the process in the next cuLinkCreate (driver 580). Nothing of CUDA's documentation says
 * so, and programs use one thread as a rule; a worker would use the dispatcher and its waiters.
 */
struct wrk_link_thread;

/* NULL: no memory, or no further thread. */
struct wrk_link_thread *wrk_link_thread_start(void);
/* Runs fn(arg) there and waits for its end; here when t is NULL. One caller at a time. */
void wrk_link_thread_run(struct wrk_link_thread *t, void (*fn)(void *arg), void *arg);
/* Waits for its end. NULL is allowed. */
void wrk_link_thread_end(struct wrk_link_thread *t);

#endif
