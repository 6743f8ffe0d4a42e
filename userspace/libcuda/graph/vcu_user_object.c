/* SPDX-License-Identifier: MIT */
/* User objects: resources that graphs keep alive, with a destructor of the application. */
#include "graph.h"

#include "vgp_entry.h"
#include "vgp_guest.h"

CUresult vcu_cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
                                unsigned int initialRefcount, unsigned int flags)
{
    uint64_t handle, cookie;
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (object_out == NULL || destroy == NULL || initialRefcount == 0 || initialRefcount > INT32_MAX ||
        flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    handle = vgp_handle_mint(VGP_H_USER_OBJECT);
    if (handle == 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cookie = vcu_hostfunc_keep_object(destroy, ptr, handle, &res);
    if (cookie != 0) {
        vcu_handle_set_data(handle, VGP_H_USER_OBJECT, (void *)(uintptr_t)cookie);
        vcu_hostfunc_own(cookie, initialRefcount);
        res = vgp_call_vgpUserObjectCreate((CUuserObject)(uintptr_t)handle, cookie, initialRefcount, flags);
        vcu_hostfunc_kept(cookie, res);
    }
    if (res != CUDA_SUCCESS) {
        vgp_handle_drop(handle);
        return res;
    }
    *object_out = (CUuserObject)(uintptr_t)handle;
    return CUDA_SUCCESS;
}

CUresult vcu_user_object_check(CUuserObject object, unsigned count)
{
    CUresult res = vcu_check_init();

    if (res == CUDA_SUCCESS &&
        (!vgp_handle_live((uintptr_t)object, VGP_H_USER_OBJECT) || count == 0 || count > INT32_MAX))
        res = CUDA_ERROR_INVALID_VALUE;
    return res;
}

static void user_object_own(CUuserObject object, int64_t references)
{
    vcu_hostfunc_own((uintptr_t)vcu_handle_data((uintptr_t)object, VGP_H_USER_OBJECT), references);
}

CUresult vcu_user_object_retain(CUuserObject object, unsigned count)
{
    CUresult res = vgp_call_cuUserObjectRetain(object, count);

    if (res == CUDA_SUCCESS)
        user_object_own(object, count);
    return res;
}

/* Counted first: with the last reference, the destructor takes the handle. */
CUresult vcu_user_object_release(CUuserObject object, unsigned count)
{
    CUresult res;

    user_object_own(object, -(int64_t)count);
    res = vgp_call_cuUserObjectRelease(object, count);
    /* Without a worker, the program's references alone decide; the error is that of every call. */
    if (res != CUDA_SUCCESS && lnk_ring_dead(&vcu.ring) == CUDA_SUCCESS)
        user_object_own(object, count);
    return res;
}

CUresult vcu_graph_user_object(CUgraph graph, CUuserObject object, unsigned count, unsigned flags,
                               bool release)
{
    CUresult res = vcu_check_init();

    if (res == CUDA_SUCCESS && !vcu_graph_ok(graph))
        res = CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS)
        res = vcu_user_object_check(object, count);
    if (res == CUDA_SUCCESS)
        res = vgp_call_vgpGraphUserObject(graph, object, count, flags, release);
    if (res == CUDA_SUCCESS && !release && (flags & CU_GRAPH_USER_OBJECT_MOVE) != 0)
        user_object_own(object, -(int64_t)count);
    return res;
}
