/* SPDX-License-Identifier: MIT */
/*
 * Plots: families of short stories about few objects. A plot is a list of acts in their usual
 * order, over handles shared by the acts, from which each act chooses. When a plot is played, acts
 * are dropped, swapped and repeated, and calls of the seed's mixture are interleaved. A seed plays
 * only some plots, each without some of its acts (swarm testing).
 */
#include "plot.h"

#include <string.h>

#define PLOTS_MAX 32u

static const struct seq_plot *const families[] = {seq_graph_plots, seq_other_plots};
static struct {
    const struct seq_plot *plot;
    unsigned first; /* index of its first act in the counts */
    uint32_t acts;  /* bits: acts used by this seed */
} plots[PLOTS_MAX];
static unsigned nplots, played[PLOTS_MAX], nplayed; /* played: by this seed */
static unsigned shares, noise;                      /* of this seed; shares: of 16 steps */
__thread struct seq_cast seq_cast;

void seq_plots_begin(unsigned (*counted)(const char *what))
{
    for (unsigned i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        for (const struct seq_plot *p = families[i]; p->name && nplots < PLOTS_MAX; p++) {
            plots[nplots].plot = p;
            for (unsigned k = 0; k < p->nacts; k++) {
                const unsigned at = counted(p->acts[k].what);

                if (k == 0)
                    plots[nplots].first = at;
            }
            nplots++;
        }
    }
}

void seq_plots_choose(void)
{
    static const unsigned of_steps[] = {0, 0, 1, 4, 12};

    shares = of_steps[seq_random(5)];
    noise = seq_random(3);
    for (unsigned i = 0; i < nplots; i++) {
        plots[i].acts = UINT32_MAX;
        for (unsigned k = seq_random(3); k; k--)
            plots[i].acts &= ~(1u << seq_random(plots[i].plot->nacts));
        if (seq_random(3) == 0)
            played[nplayed++] = i;
    }
}

/* Prepares a context of its own, or streams in the seed's. */
static bool cast_begin(bool alone)
{
    struct seq_cast *c = &seq_cast;

    memset(c, 0, sizeof(*c));
    c->context = seq_home();
    c->function = SEQ_ANY(function);
    c->memory = seq.memory[0];
    c->nodes = SEQ_CAST_NODES;
    if (alone) {
        if (cuCtxCreate_v2(&c->own, 0, 0) != CUDA_SUCCESS)
            return false;
        c->context = c->own;
        if (cuModuleLoadData(&c->module[0], seq_ptx) != CUDA_SUCCESS ||
            cuModuleGetFunction(&c->function, c->module[0], "store") != CUDA_SUCCESS ||
            cuModuleGetFunction(&c->fault, c->module[0], "fault") != CUDA_SUCCESS ||
            cuMemAlloc_v2(&c->memory, SEQ_BYTES) != CUDA_SUCCESS)
            return false;
    }
    if (cuCtxSetCurrent(c->context) != CUDA_SUCCESS)
        return false;
    for (unsigned i = 0; i < SEQ_CAST; i++) {
        if (cuStreamCreate(&c->stream[i], CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
            cuEventCreate(&c->event[i], 0) != CUDA_SUCCESS)
            return false;
    }
    return true;
}

/* Mostly destroys the remaining objects, as a seed plays many plots. */
static void cast_end(void)
{
    struct seq_cast *c = &seq_cast;

    seq_act_release();
    if (seq_random(2))
        seq_act_destroy_context();
    for (unsigned i = 0; i < SEQ_CAST; i++) {
        if (c->exec[i] && seq_random(8))
            cuGraphExecDestroy(c->exec[i]);
        if (c->graph[i] && seq_random(8))
            cuGraphDestroy(c->graph[i]);
        if (c->stream[i])
            cuStreamDestroy_v2(c->stream[i]);
        if (c->event[i])
            cuEventDestroy_v2(c->event[i]);
    }
    seq_act_destroy_context();
    cuCtxSetCurrent(seq_home());
}

/* Returns the order of acts for this run, as their numbers. */
static unsigned plot_order(unsigned i, uint8_t order[2 * SEQ_ACTS_MAX])
{
    unsigned n = 0;

    for (unsigned k = 0; k < plots[i].plot->nacts; k++) {
        unsigned times = plots[i].acts >> k & 1;

        if (times && seq_random(8) == 0)
            times = 2 * seq_random(2);
        while (times--)
            order[n++] = (uint8_t)k;
    }
    for (unsigned k = 0; k + 1 < n; k++) {
        const uint8_t first = order[k];

        if (seq_random(8) == 0) {
            order[k] = order[k + 1];
            order[k + 1] = first;
        }
    }
    return n;
}

unsigned seq_plot(void)
{
    uint8_t order[2 * SEQ_ACTS_MAX];
    unsigned i, n;

    if (!nplayed || seq_random(16) >= shares)
        return 0;
    i = played[seq_random(nplayed)];
    n = plot_order(i, order);
    if (!cast_begin(plots[i].plot->alone || seq_random(8) == 0))
        n = 0;
    for (unsigned k = 0; k < n; k++) {
        if (cuCtxSetCurrent(seq_cast.context) != CUDA_SUCCESS)
            cuCtxSetCurrent(seq_home());
        seq_count(plots[i].first + order[k], plots[i].plot->acts[order[k]].run());
        for (unsigned more = seq_random(2) ? seq_random(noise + 1) : 0; more; more--)
            seq_noise();
    }
    cast_end();
    return n + 1;
}
