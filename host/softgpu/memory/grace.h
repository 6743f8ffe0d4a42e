/* SPDX-License-Identifier: MIT */
/*
 * Grace periods: memory that was freed is reused only when no thread can still access it.
 *
 * A thread that looks an address up and then uses it does both between sg_grace_enter() and
 * sg_grace_leave(). A thread removes an allocation from the table and then calls sg_grace_wait(). When that
 * returns, every thread that may have looked it up before is done with it; later threads do not
 * find it. A kernel calls sg_grace_pass() between its time slices to declare that it holds no checked
 * address, so a kernel that never ends does not block sg_grace_wait().
 */
#ifndef SG_MEMORY_GRACE_H
#define SG_MEMORY_GRACE_H

/* Pairs may lie inside of each other. Nothing in between may wait for another thread. */
void sg_grace_enter(void);
void sg_grace_leave(void);
/* Inside of the outermost pair only; costs next to nothing when nobody waits. */
void sg_grace_pass(void);
/* Of the calling thread's own section nothing is waited for. */
void sg_grace_wait(void);

#endif
