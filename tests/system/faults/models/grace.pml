// SPDX-License-Identifier: MIT
/*
 * Grace periods of the software GPU (host/softgpu/memory/sg_grace.c): memory is given away only when no
 * thread can be using it.
 *
 * Two readers look the allocation up and use it, ROUNDS times; the second one passes between two uses
 * (sg_grace_pass). Two threads free an allocation each: take it out of the table, wait, give it away. The
 * stores that may be delayed until a fence are those of `since` and of the table's entry.
 *
 * An access to memory that was given away is an assertion that fails; a waiter that sleeps for ever is an
 * invalid end state.
 *
 * Mutations, each of which must be found: -DNO_ENTER_FENCE (between `since` and the look into the table),
 * -DNO_RELEASE (the period is counted before
 * the table's entry is seen to be gone), -DLATE_WAITER (`waiters` is counted
 * after the look that decides: nobody tells it), -DNO_WAIT (the memory is given away at once).
 */
#ifndef ROUNDS
#define ROUNDS 1
#endif

byte period = 1;
byte since[2], since_b[2];  /* memory, and what the reader has stored */
bool table[2] = true, table_b[2] = true;
bool given[2];              /* the memory is somebody else's */
byte waiters = 0;
bool lock = false;
bool woken[2];

active proctype buffers()
{
end:
    do
    :: atomic { since[0] != since_b[0] -> since[0] = since_b[0] }
    :: atomic { since[1] != since_b[1] -> since[1] = since_b[1] }
    :: atomic { table[0] != table_b[0] -> table[0] = table_b[0] }
    :: atomic { table[1] != table_b[1] -> table[1] = table_b[1] }
    od
}

inline enter(me)
{
    p = period;
    since_b[me] = p;
#ifndef NO_ENTER_FENCE
    since[me] == since_b[me]
#endif
}

inline leave(me)
{
    since[me] == since_b[me]; /* atomic_store(): everything before it is done */
    since_b[me] = 0;
    since[me] == 0;
    /* tell() */
    if
    :: waiters > 0 ->
        atomic { !lock -> lock = true }
        atomic { woken[0] = true; woken[1] = true }
        lock = false
    :: else
    fi
}

inline use(which)
{
    if
    :: table[which] -> assert(!given[which]) /* looked up; used a step later */
        assert(!given[which])
    :: else
    fi
}

proctype reader(byte me; bool pass)
{
    byte n = 0, p;

    do
    :: n == ROUNDS -> break
    :: n < ROUNDS ->
        n++;
        enter(me);
        if
        :: true -> use(0)
        :: true -> use(1)
        fi;
        if
        :: pass && since_b[me] != period ->
            leave(me);
            enter(me);
            use(0)
        :: else
        fi;
        leave(me)
    od
}

proctype releaser(byte which)
{
    byte next;
    bool before;

    table_b[which] = false; /* under the table's lock */
#ifndef NO_RELEASE
    table[which] == table_b[which]; /* atomic_fetch_add() is a release */
#endif
    atomic { period++; next = period }
#ifndef NO_WAIT
    before = (since[0] && since[0] < next);
    before = before || (since[1] && since[1] < next);
    if
    :: !before -> goto over
    :: else
    fi;
    atomic { !lock -> lock = true }
#ifndef LATE_WAITER
    waiters++;
#endif
    do
    :: true ->
        before = (since[0] && since[0] < next);
        before = before || (since[1] && since[1] < next);
        if
        :: !before -> break
        :: else
        fi;
#ifdef LATE_WAITER
        waiters++;
#endif
        /* pthread_cond_wait(): gives the lock back and sleeps in one step */
        atomic { woken[which] = false; lock = false }
        woken[which];
        atomic { !lock -> lock = true }
#ifdef LATE_WAITER
        waiters--
#endif
    od;
#ifndef LATE_WAITER
    waiters--;
#endif
    lock = false;
over:
#endif
    given[which] = true
}

init
{
    atomic {
        run reader(0, false);
        run reader(1, true);
        run releaser(0);
        run releaser(1)
    }
}
