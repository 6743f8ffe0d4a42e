/* SPDX-License-Identifier: MIT */
/* Driver API: names and descriptions of results. */
#include "sg_int.h"

static const struct {
    CUresult code;
    const char *name, *text;
} results[] = {
#define R(code, text) {code, #code, text}
    R(CUDA_SUCCESS, "no error"),
    R(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    R(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    R(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    R(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    R(CUDA_ERROR_PROFILER_DISABLED, "profiler disabled while using external profiling tool"),
    R(CUDA_ERROR_PROFILER_NOT_INITIALIZED,
      "profiler not initialized: call cudaProfilerInitialize()"),
    R(CUDA_ERROR_PROFILER_ALREADY_STARTED, "profiler already started"),
    R(CUDA_ERROR_PROFILER_ALREADY_STOPPED, "profiler already stopped"),
    R(CUDA_ERROR_STUB_LIBRARY, "CUDA driver is a stub library"),
    R(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, "API call requires a newer CUDA driver"),
    R(CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable"),
    R(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    R(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    R(CUDA_ERROR_DEVICE_NOT_LICENSED, "device doesn't have valid Grid license"),
    R(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    R(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    R(CUDA_ERROR_CONTEXT_ALREADY_CURRENT, "context already current"),
    R(CUDA_ERROR_MAP_FAILED, "mapping of buffer object failed"),
    R(CUDA_ERROR_UNMAP_FAILED, "unmapping of buffer object failed"),
    R(CUDA_ERROR_ARRAY_IS_MAPPED, "array is mapped"),
    R(CUDA_ERROR_ALREADY_MAPPED, "resource already mapped"),
    R(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    R(CUDA_ERROR_ALREADY_ACQUIRED, "resource already acquired"),
    R(CUDA_ERROR_NOT_MAPPED, "resource not mapped"),
    R(CUDA_ERROR_NOT_MAPPED_AS_ARRAY, "resource not mapped as array"),
    R(CUDA_ERROR_NOT_MAPPED_AS_POINTER, "resource not mapped as pointer"),
    R(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered"),
    R(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit is not supported on this architecture"),
    R(CUDA_ERROR_CONTEXT_ALREADY_IN_USE,
      "exclusive-thread device already in use by a different thread"),
    R(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "peer access is not supported between these two devices"),
    R(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    R(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, "invalid OpenGL or DirectX context"),
    R(CUDA_ERROR_NVLINK_UNCORRECTABLE, "uncorrectable NVLink error detected during the execution"),
    R(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "PTX JIT compiler library not found"),
    R(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
      "the provided PTX was compiled with an unsupported toolchain."),
    R(CUDA_ERROR_JIT_COMPILATION_DISABLED, "PTX JIT compilation was disabled"),
    R(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY,
      "the provided execution affinity is not supported"),
    R(CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC,
      "the provided PTX contains unsupported call to cudaDeviceSynchronize"),
    R(CUDA_ERROR_CONTAINED, "Invalid access on peer GPU memory over nvlink or a hardware error"),
    R(CUDA_ERROR_INVALID_SOURCE, "device kernel image is invalid"),
    R(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    R(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "shared object symbol not found"),
    R(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "shared object initialization failed"),
    R(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS"),
    R(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    R(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    R(CUDA_ERROR_LOSSY_QUERY,
      "attempted introspection would be semantically lossy"),
    R(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    R(CUDA_ERROR_NOT_READY, "device not ready"),
    R(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    R(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    R(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    R(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING, "launch uses incompatible texturing mode"),
    R(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    R(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
    R(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "cannot set while device is active in this process"),
    R(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    R(CUDA_ERROR_ASSERT, "device-side assert triggered"),
    R(CUDA_ERROR_TOO_MANY_PEERS, "peer mapping resources exhausted"),
    R(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
      "part or all of the requested memory range is already mapped"),
    R(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
      "pointer does not correspond to a registered memory region"),
    R(CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error"),
    R(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered"),
    R(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    R(CUDA_ERROR_INVALID_ADDRESS_SPACE,
      "operation not supported on global/shared address space"),
    R(CUDA_ERROR_INVALID_PC, "invalid program counter"),
    R(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    R(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in cooperative launch"),
    R(CUDA_ERROR_TENSOR_MEMORY_LEAK, "a tensor memory leak was detected"),
    R(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    R(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    R(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized"),
    R(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
      "system has unsupported display driver / cuda driver combination"),
    R(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
      "forward compatibility was attempted on non supported HW"),
    R(CUDA_ERROR_MPS_CONNECTION_FAILED, "MPS client failed to connect to the MPS control daemon or "
                                        "the MPS server"),
    R(CUDA_ERROR_MPS_RPC_FAILURE, "the remote procedural call between the MPS server and the MPS "
                                  "client failed"),
    R(CUDA_ERROR_MPS_SERVER_NOT_READY, "MPS server is not ready to accept new MPS client requests"),
    R(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED,
      "the hardware resources required to create MPS client have been exhausted"),
    R(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED,
      "the hardware resources required to support device connections have been exhausted"),
    R(CUDA_ERROR_MPS_CLIENT_TERMINATED, "the MPS client has been terminated by the server"),
    R(CUDA_ERROR_CDP_NOT_SUPPORTED,
      "is using CUDA Dynamic Parallelism, but the current configuration, like MPS, does not "
      "support it"),
    R(CUDA_ERROR_CDP_VERSION_MISMATCH,
      "unsupported interaction between different versions of CUDA Dynamic Parallelism"),
    R(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    R(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
      "operation failed due to a previous error during capture"),
    R(CUDA_ERROR_STREAM_CAPTURE_MERGE,
      "operation would result in a merge of separate capture sequences"),
    R(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began"),
    R(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
    R(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
      "dependency created on uncaptured work in another stream"),
    R(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
      "operation would make the legacy stream depend on a capturing blocking stream"),
    R(CUDA_ERROR_CAPTURED_EVENT,
      "operation not permitted on an event last recorded in a capturing stream"),
    R(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
      "attempt to terminate a thread-local capture sequence from another thread"),
    R(CUDA_ERROR_TIMEOUT, "wait operation timed out"),
    R(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
      "the graph update was not performed because it included changes which violated constraints "
      "specific to instantiated graph update"),
    R(CUDA_ERROR_EXTERNAL_DEVICE,
      "an async error has occurred in external entity outside of CUDA"),
    R(CUDA_ERROR_INVALID_CLUSTER_SIZE,
      "a kernel launch error has occurred due to cluster misconfiguration"),
    R(CUDA_ERROR_FUNCTION_NOT_LOADED, "the function handle is not loaded when calling an API that "
                                      "requires a loaded function"),
    R(CUDA_ERROR_INVALID_RESOURCE_TYPE,
      "one or more resources passed in are not valid resource types for the operation"),
    R(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
      "one or more resources are insufficient or non-applicable for the operation"),
    R(CUDA_ERROR_KEY_ROTATION, "an error happened during key rotation"),
    R(CUDA_ERROR_UNKNOWN, "unknown error"),
#undef R
};

CUresult CUDAAPI cuGetErrorName(CUresult error, const char **pStr)
{
    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        if (results[i].code == error) {
            *pStr = results[i].name;
            return CUDA_SUCCESS;
        }
    }
    *pStr = NULL; /* documented */
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char **pStr)
{
    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        if (results[i].code == error) {
            *pStr = results[i].text;
            return CUDA_SUCCESS;
        }
    }
    *pStr = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}
