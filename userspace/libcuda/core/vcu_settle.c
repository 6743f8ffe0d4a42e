/* SPDX-License-Identifier: MIT */
/* The calls that owed waits need. vcu_wait.c decides; see wait.h. */
#include "core.h"

#include "vgp_guest.h"

_Atomic uint64_t vcu_waits_owed;

/*
 * Another thread may have to perform the wait, or to mark it: its records are then sent in the name
 * of the thread that owes the wait, as a record names the per-thread stream by the thread's number.
 * A thread that has ended since may have given its number to a new thread; the worker's stream is
 * the same.
 */
static uint32_t act_for(uint32_t thread)
{
    struct vcu_thread *t = vcu_thread();
    uint32_t own = t->number;

    t->settling = true;
    t->number = thread;
    return own;
}

static void act_for_self(uint32_t own)
{
    vcu_thread()->number = own;
    vcu_thread()->settling = false;
}

/* Its error belongs to the next wait, like that of any earlier work. */
void vcu_settle_wait(const struct vcu_owed *owed)
{
    CUresult r;
    bool borrowed;
    int none = 0;
    uint32_t own = act_for(owed->thread);

    r = vcu_context_borrow(owed->context, &borrowed);
    if (r == CUDA_SUCCESS) {
        r = owed->recorded ? vgp_call_cuEventSynchronize(owed->event)
                           : vgp_call_cuStreamSynchronize((CUstream)(uintptr_t)owed->stream);
        vcu_context_return(borrowed);
    }
    act_for_self(own);
    if (r != CUDA_SUCCESS)
        atomic_compare_exchange_strong(&vcu.ring.async_error, &none, (int)r);
    atomic_fetch_add_explicit(&vcu_waits_owed, 1, memory_order_relaxed);
}

bool vcu_mark_wait(struct vcu_owed *owed)
{
    CUresult r = CUDA_SUCCESS;
    uint32_t own = act_for(owed->thread);

    if (owed->event == NULL)
        r = vgp_call_cuEventCreate(&owed->event, CU_EVENT_DISABLE_TIMING);
    if (r == CUDA_SUCCESS)
        r = vgp_call_cuEventRecord((struct vgp_intent){0}, owed->event, (CUstream)(uintptr_t)owed->stream);
    else
        owed->event = NULL;
    act_for_self(own);
    owed->recorded = r == CUDA_SUCCESS;
    return owed->recorded;
}

CUresult vcu_ask_legacy(void)
{
    return vgp_call_cuStreamQuery(CU_STREAM_LEGACY);
}
