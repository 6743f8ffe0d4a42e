/* SPDX-License-Identifier: MIT */
/*
 * Kernel launches. Errors that the driver API reports at once are checked here: the launch returns
 * them and nothing is sent. All other errors surface at the next synchronisation, as on a GPU.
 * Parameters are packed by the layout that came with the function, never guessed.
 */
#include "../memory/memory.h"
#include "launch.h"

#include <stdlib.h>
#include <string.h>

#include "../../../lib/attribute/attribute.h"
#include "vgp_entry.h"
#include "vgp_guest.h"

/*
 * Result of a launch of a CUkernel with an impossible grid or block. The runtime launches CUkernel
 * handles and passes the driver's result on unchanged (measured for every code from 1 to 999 with
 * libcudart 13.0); its users see cudaErrorInvalidConfiguration, so the driver returns that code
 * there. Launches of a CUfunction get the documented CUDA_ERROR_INVALID_VALUE.
 */
#define INVALID_CONFIGURATION ((CUresult)9)

static CUresult check_geometry(const int *dev, const struct vcu_launch *l, const char **why)
{
    uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];

    *why = "a dimension of the grid or of the block is zero";
    for (int i = 0; i < 3; i++) {
        if (l->grid[i] == 0 || l->block[i] == 0)
            return CUDA_ERROR_INVALID_VALUE;
    }
    *why = "the grid is larger than the device allows";
    for (int i = 0; i < 3; i++) {
        if (l->grid[i] > (unsigned)dev[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i])
            return CUDA_ERROR_INVALID_VALUE;
    }
    *why = "the block is larger than the device allows";
    for (int i = 0; i < 3; i++) {
        if (l->block[i] > (unsigned)dev[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i])
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (threads > (unsigned)dev[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK])
        return CUDA_ERROR_INVALID_VALUE;
    *why = "";
    return CUDA_SUCCESS;
}

/* Registers are given to whole warps, eight to a thread at a time. */
static bool registers_fit(const int *dev, const struct vcu_func *f, uint64_t threads)
{
    int registers = f->attributes[CU_FUNC_ATTRIBUTE_NUM_REGS];
    uint64_t each =
        f->attribute_count > CU_FUNC_ATTRIBUTE_NUM_REGS && registers > 0 ? (unsigned)registers : 0;

    return (each + 7) / 8 * 8 * ((threads + 31) / 32 * 32) <=
           (uint64_t)dev[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK];
}

CUresult vcu_launch_check(const int *dev, const struct vcu_func *f, bool kernel, const struct vcu_launch *l,
                          const char **why)
{
    uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
    int func_threads = f->attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
    int dynamic = f->attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES];
    CUresult res = check_geometry(dev, l, why);

    if (res != CUDA_SUCCESS)
        return kernel ? INVALID_CONFIGURATION : res;
    *why = "more dynamic shared memory than the function may use "
           "(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)";
    if (f->attribute_count > CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && dynamic >= 0 &&
        l->shared > (unsigned)dynamic)
        return CUDA_ERROR_INVALID_VALUE;
    *why = "more threads per block than the function's registers or launch bounds allow";
    if (f->attribute_count > CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK && func_threads > 0 &&
        threads > (unsigned)func_threads)
        return registers_fit(dev, f, threads) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    *why = "";
    return CUDA_SUCCESS;
}

/*
 * The buffer that `extra` names. Its size is that of the parameters up to the end of the last one,
 * without padding: NVIDIA's driver reports "too many resources requested for launch" for any other.
 */
static CUresult parse_extra(const struct vcu_func *f, void **extra, const void **data, uint32_t *size)
{
    const void *buffer = NULL;
    const size_t *length = NULL;

    for (unsigned i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[i + 1];
        else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            length = extra[i + 1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (length == NULL || (*length != 0 && buffer == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    if (*length != f->param_bytes || *length > VCU_MAX_PARAM_BYTES)
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    *data = buffer;
    *size = (uint32_t)*length;
    return CUDA_SUCCESS;
}

CUresult vcu_launch_pack(const struct vcu_func *f, void **params, void **extra, uint8_t *buffer,
                         const void **data, uint32_t *size)
{
    *data = buffer;
    *size = f->param_bytes;
    if (params != NULL && extra != NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (extra != NULL)
        return parse_extra(f, extra, data, size);
    if (f->param_count == 0)
        return CUDA_SUCCESS;
    if (params == NULL || f->param_bytes > VCU_MAX_PARAM_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    memset(buffer, 0, f->param_bytes); /* gaps between parameters */
    for (uint32_t i = 0; i < f->param_count; i++) {
        if (params[i] == NULL)
            return CUDA_ERROR_INVALID_VALUE;
        memcpy(buffer + f->params[i].offset, params[i], f->params[i].size);
    }
    return CUDA_SUCCESS;
}

/* Whether the grid suits the function's clusters is an error of the launch itself. */
static bool needs_clusters(const struct vcu_func *f)
{
    return f->attribute_count > CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH &&
           (f->attributes[CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET] ||
            f->attributes[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH]);
}

bool vcu_launch_sure(const struct vcu_func *f, const _Atomic bool *before)
{
    return (atomic_load_explicit(&f->launched, memory_order_relaxed) ||
            atomic_load_explicit(before, memory_order_relaxed)) &&
           !needs_clusters(f);
}

#define BLOCK_ANY UINT64_MAX

/* Of a block that vcu_launch_check() accepts; never 0. */
static uint64_t block_shape(const uint32_t block[3])
{
    return (uint64_t)block[0] << 32 | (uint64_t)block[1] << 16 | block[2];
}

bool vcu_block_known(const struct vcu_func *f, const uint32_t block[3])
{
    const uint64_t known = atomic_load_explicit(&f->block, memory_order_relaxed);

    return known == BLOCK_ANY || known == block_shape(block);
}

void vcu_block_accepted(struct vcu_func *f, const uint32_t block[3])
{
    const uint64_t shape = block_shape(block);
    uint64_t known = 0;

    if (!atomic_compare_exchange_strong(&f->block, &known, shape) && known != shape)
        atomic_store_explicit(&f->block, BLOCK_ANY, memory_order_relaxed);
}

static CUresult launch_submit(const char *call, CUfunction func, struct vcu_launch *l, void **params,
                              void **extra)
{
    uint8_t small[1024], *buffer = small;
    VCU_FUNC_HELD struct vcu_func *f = NULL;
    struct vcu_context *c;
    struct vgp_intent intent = {0};
    struct vgp_submit s;
    const char *why;
    const void *data;
    uint64_t context;
    uint32_t size;
    bool reply;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    f = vcu_func_find_in(func, &context);
    if (f == NULL)
        return VCU_REFUSE(CUDA_ERROR_INVALID_HANDLE, call, "the function handle is not live");
    if (!vcu_stream_ok(l->stream))
        return VCU_REFUSE(vcu_stream_error(l->stream), call, "the stream handle is not live");
    if (!vcu_stream_own(l->stream))
        return VCU_REFUSE(CUDA_ERROR_INVALID_HANDLE, call, "the stream belongs to another context");
    if (context != 0 && context != vcu_owner_context())
        return VCU_REFUSE(CUDA_ERROR_INVALID_HANDLE, call, "%s belongs to another context", f->name);
    c = vcu_context_find(NULL);
    res = vcu_launch_check(vcu.devices[c->device].attributes, f,
                           VGP_HANDLE_TYPE((uintptr_t)func) == VGP_H_KERNEL, l, &why);
    if (res != CUDA_SUCCESS)
        return VCU_REFUSE(res, call, "%s: %s", f->name, why);
    if (f->param_bytes > sizeof(small)) {
        buffer = malloc(f->param_bytes);
        if (buffer == NULL)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    res = vcu_launch_pack(f, params, extra, buffer, &data, &size);
    if (res != CUDA_SUCCESS) {
        if (buffer != small)
            free(buffer);
        return VCU_REFUSE(res, call, "%s: kernelParams and extra do not fit its %u parameters", f->name,
                          f->param_count);
    }
    /* The driver loads or compiles a function at its first launch, which therefore shows whether
     * there is code for this GPU at all. Later launches do not wait. */
    if (!atomic_load_explicit(&f->launched, memory_order_relaxed) || needs_clusters(f) ||
        !vcu_block_known(f, l->block))
        l->flags |= VGP_LAUNCH_REPLY;
    reply = (l->flags & VGP_LAUNCH_REPLY) != 0;
    intent.posted = !reply && vcu_capture_post(l->stream);
    res = vgp_send_vgpLaunch(&s, reply, intent, func, l->grid[0], l->grid[1], l->grid[2], l->block[0],
                             l->block[1], l->block[2], l->shared, l->stream, l->flags, l->attribute_ids,
                             l->attributes, l->attribute_values,
                             l->attributes * (uint32_t)sizeof(l->attribute_values[0]), data, size);
    if (buffer != small)
        free(buffer);
    if (res == CUDA_SUCCESS && reply)
        res = vgp_recv_vgpLaunch(&s);
    if (res == CUDA_SUCCESS && reply) {
        atomic_store_explicit(&f->launched, true, memory_order_relaxed);
        vcu_block_accepted(f, l->block);
    }
    /* CUDA_LAUNCH_BLOCKING: the launch waits for the kernel, and returns its errors. A capture runs nothing. */
    if (__builtin_expect(vcu.launch_blocking, 0) && res == CUDA_SUCCESS && !vcu_stream_captured(l->stream))
        res = vgp_call_cuStreamSynchronize(l->stream);
    return res;
}

CUresult vcu_cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                            unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                            unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra)
{
    struct vcu_launch l = {
        .grid = {gridDimX, gridDimY, gridDimZ},
        .block = {blockDimX, blockDimY, blockDimZ},
        .shared = sharedMemBytes,
        .stream = vcu_stream(hStream),
    };

    return launch_submit("cuLaunchKernel", f, &l, kernelParams, extra);
}

CUresult vcu_cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                       unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                       unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                       void **kernelParams)
{
    struct vcu_launch l = {
        .grid = {gridDimX, gridDimY, gridDimZ},
        .block = {blockDimX, blockDimY, blockDimZ},
        .shared = sharedMemBytes,
        .stream = vcu_stream(hStream),
        /* COOPERATIVE_LAUNCH_TOO_LARGE is an error of the launch itself. */
        .flags = VGP_LAUNCH_COOPERATIVE | VGP_LAUNCH_REPLY,
    };

    return launch_submit("cuLaunchCooperativeKernel", f, &l, kernelParams, NULL);
}

/* Checks an attribute that names an event, which is recorded behind the launch: see record_events(). */
static CUresult check_event(const CUlaunchAttribute *a, CUstream stream)
{
    const CUevent event = *att_event(a);
    const struct vcu_context *c = vcu_context_find(NULL);
    CUresult res;

    if (!vgp_handle_live((uintptr_t)event, VGP_H_EVENT))
        return VCU_REFUSE(CUDA_ERROR_INVALID_HANDLE, "cuLaunchKernelEx",
                          "the event of launch attribute %s is not live", att_object_name(a->id));
    if (c != NULL && vcu.devices[c->device].attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] <
                         att_event_capability(a->id))
        return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, "cuLaunchKernelEx",
                          "launch attribute %s is of compute capability %d.0", att_object_name(a->id),
                          att_event_capability(a->id));
    res = att_event_flags(a) != 0 ? CUDA_ERROR_INVALID_VALUE : vcu_event_launch_ok(event, stream);
    return res == CUDA_SUCCESS
               ? res
               : VCU_REFUSE(res, "cuLaunchKernelEx", "the event of launch attribute %s cannot be recorded so",
                            att_object_name(a->id));
}

/* Copies the attributes. Those that name events are not sent; that of a graph node is refused, as it is
 * not plain data. */
static CUresult take_attributes(const CUlaunchConfig *config, struct vcu_launch *l)
{
    if (config->numAttrs > VCU_MAX_LAUNCH_ATTRIBUTES || (config->numAttrs != 0 && config->attrs == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *a = &config->attrs[i];

        if (a->id == CU_LAUNCH_ATTRIBUTE_IGNORE || !att_launch_active(a))
            continue;
        if (att_event(a) != NULL) {
            CUresult res = check_event(a, config->hStream);

            if (res != CUDA_SUCCESS)
                return res;
            continue;
        }
        if (att_launch_class(a->id) == ATT_OBJECT)
            return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, "cuLaunchKernelEx",
                              "launch attribute %s is not served", att_object_name(a->id));
        if (att_launch_class(a->id) != ATT_PLAIN)
            return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, "cuLaunchKernelEx",
                              "launch attribute %d is unknown or not for launches", (int)a->id);
        if (a->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && a->value.cooperative != 0)
            l->flags |= VGP_LAUNCH_COOPERATIVE | VGP_LAUNCH_REPLY;
        if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION ||
            a->id == CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION)
            l->flags |= VGP_LAUNCH_REPLY; /* INVALID_CLUSTER_SIZE is an error of the launch */
        l->attribute_ids[l->attributes] = a->id;
        memcpy(&l->attribute_values[l->attributes], &a->value, sizeof(a->value));
        l->attributes++;
    }
    return CUDA_SUCCESS;
}

/* Records the events of a launch behind its kernel: cuda.h lets a dependent wait until it is complete. */
static CUresult record_events(const CUlaunchConfig *config)
{
    CUresult res = CUDA_SUCCESS;

    for (unsigned i = 0; res == CUDA_SUCCESS && i < config->numAttrs; i++) {
        const CUevent *event = att_event(&config->attrs[i]);

        if (event != NULL)
            res = vcu_cuEventRecordWithFlags(*event, config->hStream, 0);
    }
    return res;
}

CUresult vcu_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
    uint32_t ids[VCU_MAX_LAUNCH_ATTRIBUTES];
    CUlaunchAttributeValue values[VCU_MAX_LAUNCH_ATTRIBUTES];
    struct vcu_launch l = {.attribute_ids = ids, .attribute_values = values};
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (config == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    l.grid[0] = config->gridDimX;
    l.grid[1] = config->gridDimY;
    l.grid[2] = config->gridDimZ;
    l.block[0] = config->blockDimX;
    l.block[1] = config->blockDimY;
    l.block[2] = config->blockDimZ;
    l.shared = config->sharedMemBytes;
    l.stream = vcu_stream(config->hStream);
    res = take_attributes(config, &l);
    if (res != CUDA_SUCCESS)
        return res;
    res = launch_submit("cuLaunchKernelEx", f, &l, kernelParams, extra);
    return res == CUDA_SUCCESS ? record_events(config) : res;
}

/* ---- clusters ------------------------------------------------------------------------------- */

CUresult vcu_clusters_ask(const char *call, int *out, CUfunction func, const CUlaunchConfig *config,
                          uint32_t what)
{
    uint32_t ids[VCU_MAX_LAUNCH_ATTRIBUTES];
    CUlaunchAttributeValue values[VCU_MAX_LAUNCH_ATTRIBUTES];
    struct vcu_launch l = {.attribute_ids = ids, .attribute_values = values};
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (out == NULL || config == NULL || (what == 0 && func == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    if (!vcu_func_ok(func))
        return VCU_REFUSE(CUDA_ERROR_INVALID_HANDLE, call, "the function handle is not live");
    if (!vcu_stream_ok(vcu_stream(config->hStream)))
        return VCU_REFUSE(vcu_stream_error(vcu_stream(config->hStream)), call,
                          "the stream handle is not live");
    res = take_attributes(config, &l);
    if (res != CUDA_SUCCESS)
        return res;
    return vgp_call_vgpOccupancyClusters(
        func, what, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
        config->blockDimY, config->blockDimZ, config->sharedMemBytes, vcu_stream(config->hStream), ids,
        l.attributes, values, l.attributes * (uint32_t)sizeof(values[0]), out);
}
