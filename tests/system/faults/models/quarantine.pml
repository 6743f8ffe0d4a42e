// SPDX-License-Identifier: MIT
/*
 * Quarantine of a slot in the guest's driver (kernel/vgpu_drv/vgpu_client.c, vgpu_vq.c): a client whose end
 * the device does not confirm keeps its slot and its pinned pages until it does.
 *
 * The broker kills the worker and reaps it when the kernel lets it; DESTROY is answered "ended" then, or
 * "stuck" when that takes too long, with "ended" later. The driver gives slot and pages away on "ended", or when
 * the device was reset, which the broker answers only when no worker is left, or with those that are stuck
 * cut off. A page is used by the worker at any time until it has ended.
 *
 * The worker writing into a page that was given back is an assertion that fails; a slot that stays out of
 * use though its worker has ended is an invalid end state.
 *
 * Mutations, each of which must be found: -DSILENCE_FREES (after timeout_ms the pages are given back),
 * -DSTUCK_FREES ("stuck" counts as an answer), -DFORGOTTEN (a late "ended" is dropped).
 */
mtype = { ENDED, STUCK };
chan answers = [2] of { mtype };

bool destroy = false;    /* the request is in the queue */
bool killed = false, alive = true;
bool pages = true;       /* pinned */
bool slot_free = false;
bool zombie = false;     /* the process has ended, the slot has not */

active proctype worker()
{
    do
    :: alive -> assert(pages) /* writes into pinned memory */
        if
        :: killed -> alive = false; break /* when the kernel lets it, be it never soon */
        :: true
        fi
    od
}

active proctype broker()
{
    destroy;
    killed = true;
    if
    :: !alive -> answers!ENDED
    :: true -> answers!STUCK; /* it took too long */
        !alive;               /* reaped at last */
        answers!ENDED
    fi
}

active proctype driver()
{
    mtype m;

    destroy = true; /* the process closes its file */
    if
    :: answers?m
    :: true -> /* timeout_ms of silence; a PING has shown that the device lives */
        zombie = true;
#ifdef SILENCE_FREES
        pages = false;
#endif
        answers?m
    fi;
    if
    :: m == ENDED -> pages = false; slot_free = true
    :: m == STUCK ->
        zombie = true;
#ifdef STUCK_FREES
        pages = false;
#endif
#ifndef FORGOTTEN
        answers?ENDED;
        pages = false;
        slot_free = true
#endif
    fi;
    zombie = false;
    slot_free
}
