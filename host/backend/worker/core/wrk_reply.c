/* SPDX-License-Identifier: MIT */
#include "core.h"

#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vgb_fd.h"

void wrk_wake_guest(struct wrk_worker *w, bool always)
{
    struct vgp_window_shared *s = w->win.shared;

    /* Pairs with the guest: store guest_sleeps, fence, read the published reply. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&s->guest_sleeps, __ATOMIC_RELAXED) && !always)
        return;
    __atomic_exchange_n(&s->guest_sleeps, 0, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&s->wake_seq, 1, __ATOMIC_SEQ_CST);
    if (w->wake_fd >= 0)
        vgb_eventfd_signal(w->wake_fd);
    else
        syscall(SYS_futex, &s->wake_seq, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void wrk_reply_send(struct wrk_worker *w, uint32_t slot, uint32_t seq, CUresult result, const void *payload,
                    uint32_t size, uint32_t flags)
{
    if (slot >= VGP_REPLY_SLOTS)
        return; /* VGP_NO_REPLY; other values were refused with the record */
    uint8_t *at = w->win.base + w->win.reply_offset + (size_t)slot * VGP_REPLY_SLOT_SIZE;
    struct vgp_reply *reply = (struct vgp_reply *)at;
    const uint32_t most = VGP_REPLY_SLOT_SIZE - sizeof(*reply);

    if (size > most)
        size = most;
    if (size)
        memcpy(at + sizeof(*reply), payload, size);
    reply->result = (int32_t)result;
    reply->size = size;
    reply->flags = flags;
    __atomic_store_n(&reply->seq, seq, __ATOMIC_RELEASE);
    wrk_wake_guest(w, false);
}
