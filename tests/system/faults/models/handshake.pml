// SPDX-License-Identifier: MIT
/*
 * Sleeping and waking between libcuda and its worker (docs/protocol.md, "Sleeping"), both directions.
 *
 *   libcuda  lib/link/lnk_ring.c: publish_tail(), the wait for a reply; lnk_transport_sock.c, lnk_transport_dev.c
 *   worker   host/backend/worker/main/wrk_loop.c: sleep_until_rung(); wrk_reply.c: wake()
 *
 * Two threads of the guest make CALLS calls each. Both memories are those of x86 and ARM: a processor may
 * delay its own store (one entry of a store buffer for each shared word) until a full fence. A lost wake-up
 * is a state in which somebody sleeps for ever: spin reports an invalid end state.
 *
 * Mutations, each of which must be found: -DNO_GUEST_FENCE (between ring_tail and worker_state),
 * -DNO_WORKER_FENCE (between IDLE and ring_tail), -DNO_LOOK (the worker sleeps without looking at the ring
 * again), -DNO_REPLY_FENCE (between reply and guest_sleeps), -DNO_SLEEP_FENCE (between guest_sleeps and the
 * reply), -DNO_SEEN (the guest sleeps with the wake_seq of after its look), -DONE_WAKE (one sleeper is woken,
 * not all of them), -DNO_HEAD (the guest rings once for ever), -DOWN_HEAD (it counts as rung for what was taken already).
 */
#ifndef CALLS
#define CALLS 1
#endif
#define THREADS 2
#define RUNNING 0
#define IDLE 1

/* What memory holds, and for each word with a racing store what its writer alone sees. */
byte tail = 0, tail_b = 0;      /* ring_tail: stored by libcuda under the ring's lock */
byte state = RUNNING, state_b = RUNNING; /* worker_state */
byte done[THREADS], done_b[THREADS];     /* reply slots: calls answered */
byte sleeps = 0, sleeps_b[THREADS];      /* guest_sleeps */
byte wake_seq = 0;
byte taken = 0, taken_b = 0;    /* ring_head */
byte rung = 255;                /* libcuda's, under the lock: ring_head when it rang last */
bool bell = false;              /* the eventfd */
bool asleep[THREADS];           /* in the futex, or in the driver's WAIT */
bool locked = false;            /* the ring's lock */

/* A delayed store reaches memory at any time; a fence is the moment by which it has. */
active proctype buffers()
{
end:
    do
    :: atomic { tail != tail_b -> tail = tail_b }
    :: atomic { state != state_b -> state = state_b }
    :: atomic { taken != taken_b -> taken = taken_b }
    :: atomic { done[0] != done_b[0] -> done[0] = done_b[0] }
    :: atomic { done[1] != done_b[1] -> done[1] = done_b[1] }
    :: atomic { sleeps_b[0] -> sleeps = 1; sleeps_b[0] = 0 }
    :: atomic { sleeps_b[1] -> sleeps = 1; sleeps_b[1] = 0 }
    od
}

proctype guest(byte me)
{
    byte n = 0, seen, h;

    do
    :: n == CALLS -> break
    :: n < CALLS ->
        n++;
        /* publish_tail(); the lock's own fences are not counted on: a release is no full fence */
        atomic { !locked -> locked = true }
        tail_b++;
#ifndef NO_GUEST_FENCE
        tail == tail_b;
#endif
        if
        :: state == IDLE ->
            h = taken;
            if
#ifdef NO_HEAD
            :: rung == 255 -> rung = 0; bell = true
#else
#ifdef OWN_HEAD
            :: rung != h ->
#else
            :: rung != h && h != tail_b ->
#endif
                rung = h; bell = true
#endif
            :: else
            fi
        :: else
        fi;
        tail == tail_b; /* the next holder of the lock sees it: a release */
        locked = false;
        /* the reply */
        do
        :: done[me] >= n -> break
        :: done[me] < n ->
#ifndef NO_SEEN
            seen = wake_seq;
#endif
            sleeps_b[me] = 1;
#ifndef NO_SLEEP_FENCE
            sleeps_b[me] == 0;
#endif
            if
            :: done[me] >= n -> break
            :: else
            fi;
#ifdef NO_SEEN
            seen = wake_seq;
#endif
            /* futex_wait(wake_seq, seen): looks and sleeps in one step */
            if
            :: atomic { wake_seq == seen -> asleep[me] = true }
                asleep[me] == false
            :: wake_seq != seen
            fi
        od
    od
}

active proctype worker()
{
    byte head = 0, who;
    byte served[THREADS];

end:
    do
    :: head < tail ->
        /* The records of the two threads may be in the ring in any order. */
        if
        :: served[0] < CALLS && head < tail -> who = 0
        :: served[1] < CALLS && head < tail -> who = 1
        fi;
        head++;
        taken_b = head;
        served[who]++;
        done_b[who]++;
#ifndef NO_REPLY_FENCE
        done[who] == done_b[who];
#endif
        if
        :: sleeps ->
            atomic { sleeps = 0 }
            wake_seq++;
#ifdef ONE_WAKE
            if
            :: asleep[0] -> asleep[0] = false
            :: asleep[1] -> asleep[1] = false
            :: !asleep[0] && !asleep[1]
            fi
#else
            atomic { asleep[0] = false; asleep[1] = false }
#endif
        :: else
        fi
    :: head == tail ->
        state_b = IDLE;
#ifndef NO_WORKER_FENCE
        state == state_b && taken == taken_b;
#endif
        if
#ifndef NO_LOOK
        :: head != tail
        :: head == tail ->
#else
        :: true ->
#endif
end_idle:
            bell
        fi;
        state_b = RUNNING;
        bell = false
    od
}

init
{
    atomic {
        run guest(0);
        run guest(1)
    }
}
