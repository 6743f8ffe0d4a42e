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
    if (cookie != 0)
        res = vgp_call_vgpUserObjectCreate((CUuserObject)(uintptr_t)handle, cookie, initialRefcount, flags);
    if (res != CUDA_SUCCESS) {
        vcu_hostfunc_cancel(cookie);
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

CUresult vcu_graph_user_object(CUgraph graph, CUuserObject object, unsigned count, unsigned flags,
                               bool release)
{
    CUresult res = vcu_check_init();

    if (res == CUDA_SUCCESS && !vcu_graph_ok(graph))
        res = CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS)
        res = vcu_user_object_check(object, count);
    return res != CUDA_SUCCESS ? res : vgp_call_vgpGraphUserObject(graph, object, count, flags, release);
}
