/* SPDX-License-Identifier: MIT */
/*
 * Grace periods: freed memory is reused only once no thread can still access it.
 *
 * A thread looks up an address and uses it between sg_grace_enter() and sg_grace_leave(). A thread
 * that frees memory removes the allocation from the table and then calls sg_grace_wait(). When that
 * returns, every thread that may have found the allocation before is done with it; later look-ups
 * do not find it. A kernel calls sg_grace_pass() between its time slices to declare that it holds
 * no checked address, so a kernel that never ends does not block sg_grace_wait().
 */
#ifndef SG_MEMORY_GRACE_H
#define SG_MEMORY_GRACE_H

/* Pairs may nest. Nothing in between may wait for another thread. */
void sg_grace_enter(void);
void sg_grace_leave(void);
/* Inside the outermost pair only; costs next to nothing if no thread waits. */
void sg_grace_pass(void);
/* Does not wait for the calling thread's own section. */
void sg_grace_wait(void);

#endif
