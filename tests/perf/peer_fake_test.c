// SPDX-License-Identifier: MIT
/*
 * A library for the tests of peer.c and peers.py: each call returns success without any work.
 * PEER_FAKE=hang, PEER_FAKE=crash: cuMemcpyDtoH does not return, or ends the process.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOTHING(symbol) \
    int symbol(void); \
    int symbol(void) \
    { \
        return 0; \
    }
/* clang-format off */
NOTHING(cuInit) NOTHING(cuDevicePrimaryCtxRetain) NOTHING(cuCtxSetCurrent) NOTHING(cuCtxSynchronize)
NOTHING(cuMemGetInfo_v2) NOTHING(cuModuleLoadData) NOTHING(cuModuleGetFunction) NOTHING(cuModuleUnload)
NOTHING(cuLaunchKernel) NOTHING(cuMemAlloc_v2) NOTHING(cuMemFree_v2) NOTHING(cuMemHostAlloc) NOTHING(cuMemFreeHost)
NOTHING(cuMemcpyHtoD_v2) NOTHING(cuMemsetD8_v2) NOTHING(cuStreamCreate) NOTHING(cuStreamSynchronize)
NOTHING(cuStreamBeginCapture_v2) NOTHING(cuStreamEndCapture) NOTHING(cuEventCreate) NOTHING(cuEventRecord)
NOTHING(cuEventQuery) NOTHING(cuGraphInstantiateWithFlags) NOTHING(cuGraphLaunch)
    /* clang-format on */

    int cuMemcpyDtoH_v2(void);
int cuMemcpyDtoH_v2(void)
{
    const char *how = getenv("PEER_FAKE");

    if (how && !strcmp(how, "crash"))
        abort();
    while (how && !strcmp(how, "hang"))
        pause();
    return 0;
}
