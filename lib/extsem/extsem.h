/* SPDX-License-Identifier: MIT */
/*
 * External semaphores: operating-system objects that another API, or another process, shares with
 * CUDA through a file descriptor. libcuda and the software GPU both use this code, each in the
 * process that owns the descriptors. docs/semaphores.md lists the kinds of descriptors and their
 * meaning.
 */
#ifndef VGP_EXTSEM_H
#define VGP_EXTSEM_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A counter in a memfd: a timeline semaphore for programs without a DRM device. The file starts
 * with this structure, is at least as long, and is sealed against shrinking (F_SEAL_SHRINK). To
 * signal: raise `value` (it never falls), increment `changes`, FUTEX_WAKE all on `changes`. To
 * wait: read `changes`, look at `value`, FUTEX_WAIT on `changes`; the futex is a shared one.
 */
struct vgp_extsem_page {
    uint32_t magic;        /* VGP_EXTSEM_MAGIC */
    uint32_t version;      /* 1 */
    uint64_t value;        /* the counter, atomic */
    uint32_t changes;      /* the futex word, atomic */
    uint32_t reserved[11]; /* 0 */
};
#define VGP_EXTSEM_MAGIC 0x53545056u /* "VPTS" */
_Static_assert(sizeof(struct vgp_extsem_page) == 64, "the layout that docs/semaphores.md describes");

struct vgp_extsem;

/*
 * Creates a semaphore from a descriptor: a counter if timeline, else a binary semaphore. On success
 * (0) the descriptor is closed and *out has one reference. Otherwise a negative errno, and *why is
 * a constant text: -EBADF not a descriptor, -EINVAL not usable as such a semaphore, -EOPNOTSUPP a
 * DRM object that no device of this machine accepts, others from the operating system.
 */
int vgp_extsem_import(int fd, bool timeline, struct vgp_extsem **out, const char **why);
void vgp_extsem_get(struct vgp_extsem *s);
void vgp_extsem_put(struct vgp_extsem *s); /* s may be NULL */

/* False: it can only be waited for (only its creator signals the fence of a sync_file). */
bool vgp_extsem_can_signal(const struct vgp_extsem *s);

/* Binary: sets it. Timeline: raises it to `value`. 0; 1: the counter was already there or
   beyond; or a negative errno. Does not block. */
int vgp_extsem_signal(struct vgp_extsem *s, uint64_t value);

/* Binary: waits until it is set, and resets it. Timeline: waits until it is >= `value`. Waits at
   most `milliseconds`. 1: success; 0: timeout; or a negative errno. */
int vgp_extsem_wait(struct vgp_extsem *s, uint64_t value, int milliseconds);

#endif
