/* SPDX-License-Identifier: MIT */
/*
 * Entry points of unsupported features: argument checks and results, the same as those of a driver
 * on a device without the feature. Each is called after the check of the library or the context and
 * returns the call's result; with NOT_SUPPORTED, *why is a constant that names the missing feature.
 */
#ifndef CUA_ABSENT_H
#define CUA_ABSENT_H

#include <cuda.h>
#include <stdbool.h>

/* known: the device exists. */
CUresult cua_device_luid(bool known, const char *luid, const unsigned *mask, const char **why);
CUresult cua_device_nvscisync(bool known, const void *list, int flags, const char **why);
/*
 * Library options that bring a table of unified functions and data with neither: INVALID_IMAGE, after all other checks
 * (driver 580). Some programs pass options without values, or with NULL, which is no table.
 */
CUresult cua_library_tables(unsigned n, const CUlibraryOption *options, void *const *values);
CUresult cua_flush_rdma_writes(CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope,
                               const char **why);
CUresult cua_launch_multi_device(const CUDA_LAUNCH_PARAMS *list, unsigned n, unsigned flags,
                                 const char **why);
/* As documented, the result is always the same since CUDA 12. */
CUresult cua_profiler_initialize(const char **why);

/*
 * cuDeviceRegisterAsyncNotification: the only notification reports that a budget of device memory
 * was exceeded. Here a quota refuses the allocation instead, so callbacks are stored and never
 * called.
 */
CUresult cua_notification_register(bool known, CUdevice device, CUasyncCallback fn,
                                   CUasyncCallbackHandle *out);
CUresult cua_notification_unregister(bool known, CUdevice device, CUasyncCallbackHandle handle);

/* cuCheckpointProcess*: only the calling process is known, and it is always running. */
CUresult cua_checkpoint_state(int pid, CUprocessState *state, const char **why);
CUresult cua_checkpoint_lock(int pid, const char **why);
/* Checkpoint, restore and unlock: the documented result for a process that is not locked or
   checkpointed. */
CUresult cua_checkpoint_other(int pid, const char **why);
CUresult cua_checkpoint_restore_thread(int pid, const int *tid, const char **why);

#endif
