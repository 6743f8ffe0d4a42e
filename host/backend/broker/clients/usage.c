/* SPDX-License-Identifier: MIT */
/*
 * Who uses the GPU how much, for NVML. A worker asks; it gets the clients of this broker alone: the
 * processes of one VM, or of one host session. Their pids and memory are what their window headers
 * say, so a process can lie about itself; the processor time is the kernel's.
 */
#include "clients.h"

#include <string.h>
#include <time.h>

static uint64_t cpu_of(pid_t pid)
{
    struct timespec ts;
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &ts))
        return 0; /* it has just ended */
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Its mapper runs while it is asked to map something, and is the kernel's business all the time; one that was taken over
 * pays for what else it does. */
uint64_t brk_usage_cpu(const struct brk_proc *p)
{
    uint64_t ns = cpu_of(p->pid);

    return p->warden && !brk_warden_gone(p->warden) ? ns + cpu_of(brk_warden_pid(p->warden)) : ns;
}

static uint64_t add(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

/* Adds one client to the answer; those that have used no context are not shown. */
static void add_client(struct brk_client *c, struct vgb_msg *m)
{
    struct vgb_use use;

    if (!c->shared || !c->proc || c->state != BRK_C_SERVING ||
        !__atomic_load_n(&c->shared->has_context, __ATOMIC_RELAXED))
        return;
    use.pid = __atomic_load_n(&c->shared->guest_pid, __ATOMIC_RELAXED);
    use.worker = (uint32_t)c->proc->pid;
    use.memory = __atomic_load_n(&c->shared->memory_used, __ATOMIC_RELAXED);
    use.cpu_ns = brk_usage_cpu(c->proc);
    m->va = add(m->va, use.memory);
    m->offset = add(m->offset, use.cpu_ns);
    m->length++;
    if (use.pid && m->nruns < VGB_MSG_RUNS)
        m->uses[m->nruns++] = use;
}

void brk_usage_answer(struct brk_proc *p, struct brk_client *first)
{
    struct vgb_msg m = {.type = VGB_M_USAGE, .value = brk_vram.limit};

    for (struct brk_client *c = first; c; c = c->next)
        add_client(c, &m);
    brk_proc_send(p, &m, NULL, 0);
}
