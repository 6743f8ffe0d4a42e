/* SPDX-License-Identifier: MIT */
/*
 * What a call does to the device's work, and to the state of its client, as the description says (`effect=`, `makes`,
 * `changes`, `ends`): for code that must treat a kind of call alike and names none. docs/state.md is the same as a page.
 */
#ifndef VGP_FACTS_H
#define VGP_FACTS_H

#include <stdbool.h>
#include <stdint.h>

/* What a call does to work on the device. 0 is the most cautious answer: what an unknown call gets. */
enum vgp_effect {
    VGP_EFFECT_ANY = 0,  /* may leave work behind, in any stream */
    VGP_EFFECT_NONE,     /* puts nothing into a stream, depends on none, tells nothing of one */
    VGP_EFFECT_COMPLETE, /* all that it does is complete when it returns */
    VGP_EFFECT_ASKS,     /* as COMPLETE; success says that work before it is complete */
    VGP_EFFECT_WAITS,    /* as ASKS; returns when it is, with the errors of what was posted before */
    /* The rest puts work into the stream that it names, or into the legacy stream. */
    VGP_EFFECT_ORDERS,  /* work that occupies no engine and touches no memory of the program */
    VGP_EFFECT_CALLS,   /* a function of the program */
    VGP_EFFECT_SIGNALS, /* waits for words in memory, or writes them; occupies no engine */
    VGP_EFFECT_RUNS,    /* kernels, copies, fills: what the time share counts */
};

#define VGP_FACT_EFFECT 0x0fu        /* enum vgp_effect */
#define VGP_FACT_RECORDS 0x10u       /* an event is recorded: vgp_facts.records */
#define VGP_FACT_ENDS_CONTEXT 0x20u  /* a context ends, and what is in it */
#define VGP_FACT_MAKES_CONTEXT 0x40u /* a context begins */
#define VGP_FACT_ENDS_STREAM 0x80u   /* a stream ends, not what is in it */

/* A byte for each call: VGP_FACT_*. Indexed by numbers below the length alone: use the functions. */
extern const uint8_t vgp_fact_bits[];
extern const uint16_t vgp_fact_bits_length;

static inline unsigned vgp_facts(uint16_t call)
{
    return call < vgp_fact_bits_length ? vgp_fact_bits[call] : 0;
}

static inline enum vgp_effect vgp_effect(uint16_t call)
{
    return (enum vgp_effect)(vgp_facts(call) & VGP_FACT_EFFECT);
}

/* Puts nothing into a stream that is not complete when it returns. */
static inline bool vgp_leaves_nothing(uint16_t call)
{
    enum vgp_effect e = vgp_effect(call);

    return e >= VGP_EFFECT_NONE && e <= VGP_EFFECT_WAITS;
}

/* Its success says that work before it is complete. */
static inline bool vgp_tells_completion(uint16_t call)
{
    return vgp_effect(call) == VGP_EFFECT_ASKS || vgp_effect(call) == VGP_EFFECT_WAITS;
}

/* Puts work into a stream that reads or writes memory of the program, now or later. */
static inline bool vgp_touches_memory(uint16_t call)
{
    return vgp_effect(call) >= VGP_EFFECT_SIGNALS;
}

/* Kinds of state: those of handles (enum vgp_handle_type), and what has no handle. */
enum vgp_kind {
    VGP_KIND_MEMORY = 64, /* an allocation, by its address */
    VGP_KIND_RESERVATION, /* reserved addresses */
    VGP_KIND_MAPPING,     /* an allocation mapped at an address */
    VGP_KIND_REGION,      /* memory of the guest, by number when it ends, by device address when it begins */
    VGP_KIND_TEXTURE_OBJECT, /* a texture or surface object, by its number */
    VGP_KIND_CONDITION,      /* a condition of a graph, by its number */
    VGP_KIND_RESOURCE,       /* a part of a device's resources, by its number */
    VGP_KIND_JIT_LOG,        /* what a compilation said, by number */
};

/* Where a number of a call is. */
struct vgp_place {
    uint8_t where;   /* 0: nowhere; 1: in the arguments; 2: in the reply */
    uint8_t size;    /* bytes */
    uint16_t offset; /* in the fixed part */
};

struct vgp_state {
    uint8_t kind;        /* enum vgp_handle_type or enum vgp_kind */
    bool ends;           /* else it begins */
    struct vgp_place at; /* nowhere: the call does not name it by one number */
};

struct vgp_call_facts {
    uint16_t number;
    const struct vgp_state *states;
    uint32_t states_count;
    struct vgp_place records;  /* the event that is recorded */
    struct vgp_place external; /* not 0: its event is a node of the graph that a stream captures */
    struct vgp_place
        verdict; /* in the reply of a call that succeeds with details of a failure: not 0, nothing was done */
    /* Memory that the reply tells: its address, and its length in bytes, which is the product of one or two numbers. */
    struct vgp_place range, range_length[2];
};

/* NULL: there is no such call. */
const struct vgp_call_facts *vgp_call_facts(uint16_t call);

/* The number there, 0 where it is nowhere. fixed, reply: the fixed parts of arguments and reply, or NULL. */
uint64_t vgp_place_get(struct vgp_place at, const void *fixed, const void *reply);

/* The call makes an object of the kind. */
bool vgp_makes(uint16_t call, unsigned kind);
/* The object of the kind that it ends; nowhere: it ends none. */
struct vgp_place vgp_ends(uint16_t call, unsigned kind);

#endif
