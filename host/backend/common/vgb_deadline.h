/* SPDX-License-Identifier: MIT */
/*
 * All deadlines of the backend in one place, milliseconds, and how they depend on each other. The
 * guest's driver waits VGB_GUEST_MS for any answer; each request must be answered before that,
 * also when the worker hangs, and when the kernel cannot end it.
 */
#ifndef VGB_DEADLINE_H
#define VGB_DEADLINE_H

/* vgpu_drv's parameter timeout_ms, its default: silence for so long means that the device is lost. */
#define VGB_GUEST_MS 10000

/* The broker looks at deadlines at least so often while one runs. */
#define VGB_TICK_MS 250

/* A client of a VM has a serving worker by then, or the request is refused. */
#define VGB_CREATE_MS 7000

/* The front end has mapped the windows by then, or the device has none. */
#define VGB_SHMEM_MS 5000

/* A worker answers MAP and UNMAP by then, or it is ended. */
#define VGB_ANSWER_MS 7000

/* The same while the worker says that a call of the provider takes long; default of --long-call. The
 * guest's driver waits twelve times VGB_GUEST_MS for one request of a device that answers PING. */
#define VGB_LONG_MS 100000

/* A worker that was killed while requests wait for it is reaped by then, or they are answered
 * VGPU_S_STUCK. */
#define VGB_GRACE_MS 2000

/* The same when its end was asked for (CLIENT_DESTROY, a reset, which holds QEMU up). */
#define VGB_REAP_MS 5000

/* A worker has loaded the provider and is ready. No request waits for it so long: requests have
 * VGB_CREATE_MS, and the worker is there for the next one. NVIDIA's driver can take seconds per GPU. */
#define VGB_START_MS 60000

/* A program of this host (--listen) waits for its worker; libcuda.so.1 has no deadline of its own. */
#define VGB_LOCAL_CREATE_MS 70000

/* All workers are reaped at the end of the broker, or it ends without. */
#define VGB_EXIT_MS 2000

_Static_assert(VGB_CREATE_MS + VGB_GRACE_MS + 2 * VGB_TICK_MS < VGB_GUEST_MS, "CREATE in time");
_Static_assert(VGB_SHMEM_MS < VGB_GUEST_MS, "requests that wait for the windows are refused in time");
_Static_assert(VGB_ANSWER_MS + VGB_GRACE_MS + 2 * VGB_TICK_MS < VGB_GUEST_MS, "PIN, UNPIN in time");
_Static_assert(VGB_LONG_MS + VGB_GRACE_MS + 2 * VGB_TICK_MS < 12 * VGB_GUEST_MS, "long calls in time");
_Static_assert(VGB_REAP_MS + 2 * VGB_TICK_MS < VGB_GUEST_MS, "DESTROY and reset in time");
_Static_assert(VGB_START_MS + VGB_CREATE_MS < VGB_LOCAL_CREATE_MS, "a start that begins anew fits");

#define VGB_MS_TO_NS(ms) ((uint64_t)(ms)*UINT64_C(1000000))

#endif
