/* SPDX-License-Identifier: MIT */
/*
 * GPU usage of the clients, for NVML. A worker asks and gets the clients of this broker only: the
 * processes of a VM, or of a host session. Pids and memory come from the window headers, so a
 * process can misreport itself; the processor time comes from the kernel.
 */
#include "clients.h"

#include <string.h>
#include <time.h>

#include "vgb_sum.h"

static uint64_t cpu_of(pid_t pid)
{
    struct timespec ts;
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &ts))
        return 0; /* it has just exited */
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* The mapper normally runs only in system calls to map memory; the time of a compromised mapper is
 * charged, too. */
uint64_t brk_usage_cpu(const struct brk_proc *p)
{
    uint64_t ns = cpu_of(p->pid);

    return p->warden && !brk_warden_gone(p->warden) ? ns + cpu_of(brk_warden_pid(p->warden)) : ns;
}

/* Adds a client to the answer, unless it never used a context. */
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
    m->va = vgb_sum(m->va, use.memory);
    m->offset = vgb_sum(m->offset, use.cpu_ns);
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
