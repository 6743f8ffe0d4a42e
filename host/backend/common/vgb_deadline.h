/* SPDX-License-Identifier: MIT */
/*
 * All deadlines of the backend, in milliseconds, and their dependencies. The guest's driver waits
 * VGB_GUEST_MS for any answer; each request must be answered before that, even if the worker hangs
 * or the kernel cannot end it.
 */
#ifndef VGB_DEADLINE_H
#define VGB_DEADLINE_H

/* Default of vgpu_drv's parameter timeout_ms: the driver considers the device lost after this time
 * without an answer. */
#define VGB_GUEST_MS 10000

/* Maximum interval between the broker's checks while a deadline is pending. */
#define VGB_TICK_MS 250

/* Time for a client of a VM to get a serving worker; after it the request is refused. The clearing of
 * its window may take VGB_LONG_MS before where the guest's driver sends PING. */
#define VGB_CREATE_MS 7000

/* Time for the front end to map the windows; after it the device has none. */
#define VGB_SHMEM_MS 5000

/* Time for a worker to answer MAP and UNMAP; after it the worker is ended. */
#define VGB_ANSWER_MS 7000

/* The same while the worker reports a long provider call; default of --long-call. The guest's
 * driver waits twelve times VGB_GUEST_MS for a request to a device that answers PING. */
#define VGB_LONG_MS 100000

/*
 * Time to reap a worker killed while requests wait for it; after it they are answered VGPU_S_STUCK.
 */
#define VGB_GRACE_MS 2000

/* The same after a request to end it (CLIENT_DESTROY, or a reset, which blocks QEMU). */
#define VGB_REAP_MS 5000

/* The same for a client that has no worker yet: its window is being cleared. */
#define VGB_CLEAR_MS 4000

/*
 * Time for a worker to load the provider and become ready. No request waits this long: requests are
 * bounded by VGB_CREATE_MS, and the worker then serves the next request. NVIDIA's driver can take
 * seconds per GPU.
 */
#define VGB_START_MS 60000

/* Time for a program of this host (--listen) to get a worker; libcuda.so.1 has no deadline of its
 * own. */
#define VGB_LOCAL_CREATE_MS 70000

/* Time to reap all workers when the broker exits; after it the broker exits anyway. */
#define VGB_EXIT_MS 2000

_Static_assert(VGB_CREATE_MS + VGB_GRACE_MS + 2 * VGB_TICK_MS < VGB_GUEST_MS, "CREATE in time");
_Static_assert(VGB_LONG_MS + VGB_CREATE_MS + VGB_GRACE_MS + 2 * VGB_TICK_MS < 12 * VGB_GUEST_MS,
               "CREATE in time after a long clearing");
_Static_assert(VGB_SHMEM_MS < VGB_GUEST_MS, "requests that wait for the windows are refused in time");
_Static_assert(VGB_ANSWER_MS + VGB_GRACE_MS + 2 * VGB_TICK_MS < VGB_GUEST_MS, "PIN, UNPIN in time");
_Static_assert(VGB_LONG_MS + VGB_GRACE_MS + 2 * VGB_TICK_MS < 12 * VGB_GUEST_MS, "long calls in time");
_Static_assert(VGB_REAP_MS + 2 * VGB_TICK_MS < VGB_GUEST_MS, "DESTROY and reset in time");
_Static_assert(VGB_CLEAR_MS <= VGB_REAP_MS, "DESTROY and reset in time while a window is being cleared");
_Static_assert(VGB_START_MS + VGB_CREATE_MS < VGB_LOCAL_CREATE_MS, "a start that begins anew fits");

#define VGB_MS_TO_NS(ms) ((uint64_t)(ms)*UINT64_C(1000000))

#endif
