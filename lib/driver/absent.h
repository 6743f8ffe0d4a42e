/* SPDX-License-Identifier: MIT */
/*
 * Entry points of what is not offered: the checks of their arguments and their answers, which are those of
 * a driver on a device without the feature. Each is called after the check of the library or the context
 * and returns the call's result; with NOT_SUPPORTED, *why is a constant that says what is missing.
 */
#ifndef CUA_ABSENT_H
#define CUA_ABSENT_H

#include <cuda.h>
#include <stdbool.h>

/* known: there is such a device. */
CUresult cua_device_luid(bool known, const char *luid, const unsigned *mask, const char **why);
CUresult cua_flush_rdma_writes(CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope,
                               const char **why);
CUresult cua_launch_multi_device(const CUDA_LAUNCH_PARAMS *list, unsigned n, unsigned flags,
                                 const char **why);
/* Documented: since CUDA 12 this is always the answer. */
CUresult cua_profiler_initialize(const char **why);

/*
 * cuDeviceRegisterAsyncNotification: the only notification is of a budget of device memory that was
 * exceeded. A quota refuses the allocation instead, so a callback is remembered and never called.
 */
CUresult cua_notification_register(bool known, CUdevice device, CUasyncCallback fn,
                                   CUasyncCallbackHandle *out);
CUresult cua_notification_unregister(bool known, CUdevice device, CUasyncCallbackHandle handle);

/* cuCheckpointProcess*: only the calling process is known, and it always runs. */
CUresult cua_checkpoint_state(int pid, CUprocessState *state, const char **why);
CUresult cua_checkpoint_lock(int pid, const char **why);
/* Checkpoint, restore and unlock: documented for a process that is not locked or checkpointed. */
CUresult cua_checkpoint_other(int pid, const char **why);
CUresult cua_checkpoint_restore_thread(int pid, const int *tid, const char **why);

#endif
