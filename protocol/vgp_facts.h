/* SPDX-License-Identifier: MIT */
/*
 * Effect of each call on the device's work and on the state of its client, from the description
 * (`effect=`, `makes`, `changes`, `ends`). For code that handles kinds of calls without listing
 * calls. docs/state.md is the same as a page.
 */
#ifndef VGP_FACTS_H
#define VGP_FACTS_H

#include <stdbool.h>
#include <stdint.h>

/* Effect of a call on work on the device. 0, the most cautious value, is used for unknown calls. */
enum vgp_effect {
    VGP_EFFECT_ANY = 0, /* may leave work in any stream */
    /* neither puts work into a stream, nor depends on a stream, nor tells its state */
    VGP_EFFECT_NONE,
    VGP_EFFECT_COMPLETE, /* all its work is complete when it returns */
    VGP_EFFECT_ASKS,     /* as COMPLETE; success means that earlier work is complete */
    /* as ASKS; blocks until then and returns the errors of earlier posted calls */
    VGP_EFFECT_WAITS,
    /* The following put work into the stream they name, or else into the legacy stream. */
    VGP_EFFECT_ORDERS,  /* work that occupies no engine and touches no memory of the program */
    VGP_EFFECT_CALLS,   /* runs a host function of the program */
    VGP_EFFECT_SIGNALS, /* waits for, or writes, words in memory; occupies no engine */
    VGP_EFFECT_RUNS,    /* kernels, copies, fills: charged to the time share */
};

#define VGP_FACT_EFFECT 0x0fu        /* enum vgp_effect */
#define VGP_FACT_RECORDS 0x10u       /* an event is recorded: vgp_facts.records */
#define VGP_FACT_ENDS_CONTEXT 0x20u  /* a context ends, with its objects */
#define VGP_FACT_MAKES_CONTEXT 0x40u /* a context begins */
#define VGP_FACT_ENDS_STREAM 0x80u   /* a stream ends, but not its work */
#define VGP_FACT_RUNS_GRAPH 0x100u   /* runs an executable graph, which may allocate memory */
#define VGP_FACT_WAITS_ALL 0x200u    /* waits for all work of the current context */
/* Posted, without work and without an object: no failure that a program could be told of. */
#define VGP_FACT_CANNOT_FAIL 0x400u

/*
 * VGP_FACT_* of each call, indexed by numbers below the length; to be read through the functions.
 */
extern const uint16_t vgp_fact_bits[];
extern const uint16_t vgp_fact_bits_length;

static inline unsigned vgp_facts(uint16_t call)
{
    return call < vgp_fact_bits_length ? vgp_fact_bits[call] : 0;
}

static inline enum vgp_effect vgp_effect(uint16_t call)
{
    return (enum vgp_effect)(vgp_facts(call) & VGP_FACT_EFFECT);
}

/* True if the call leaves no incomplete work in a stream when it returns. */
static inline bool vgp_leaves_nothing(uint16_t call)
{
    enum vgp_effect e = vgp_effect(call);

    return e >= VGP_EFFECT_NONE && e <= VGP_EFFECT_WAITS;
}

/* True if success of the call means that earlier work is complete. */
static inline bool vgp_tells_completion(uint16_t call)
{
    return vgp_effect(call) == VGP_EFFECT_ASKS || vgp_effect(call) == VGP_EFFECT_WAITS;
}

/* True if the call puts work into a stream that accesses memory of the program, now or later. */
static inline bool vgp_touches_memory(uint16_t call)
{
    return vgp_effect(call) >= VGP_EFFECT_SIGNALS;
}

/* Kinds of state: handle types (enum vgp_handle_type), and state without a handle. */
enum vgp_kind {
    VGP_KIND_MEMORY = 64, /* an allocation, by its address */
    VGP_KIND_RESERVATION, /* reserved addresses */
    VGP_KIND_MAPPING,     /* an allocation mapped at an address */
    /* guest memory, by device address when it begins, by number when it ends */
    VGP_KIND_REGION,
    VGP_KIND_TEXTURE_OBJECT, /* a texture or surface object, by its number */
    VGP_KIND_CONDITION,      /* a condition of a graph, by its number */
    VGP_KIND_RESOURCE,       /* a part of a device's resources, by its number */
    VGP_KIND_JIT_LOG,        /* log of a compilation, by number */
};

/* Location of a number in a call. */
struct vgp_place {
    uint8_t where;   /* 0: nowhere; 1: in the arguments; 2: in the reply */
    uint8_t size;    /* bytes */
    uint16_t offset; /* offset in the fixed part */
};

struct vgp_state {
    uint8_t kind;        /* enum vgp_handle_type or enum vgp_kind */
    bool ends;           /* true: the object ends; false: it begins */
    struct vgp_place at; /* nowhere: the call does not identify it by a single number */
};

#define VGP_SCALES_MAX 4

struct vgp_call_facts {
    uint16_t number;
    const struct vgp_state *states;
    uint32_t states_count;
    struct vgp_place records; /* the recorded event */
    /* non-zero: the event becomes a node of the graph that a stream captures */
    struct vgp_place external;
    struct vgp_place
        /*
         * in the reply of calls that succeed with details of a failure; non-zero: nothing was done
         */
        verdict;
    /* Memory returned in the reply: its address, and its length in bytes as the product of one or
     * two numbers. */
    struct vgp_place range, range_length[2];
    /* Arguments on which the duration of the work depends; those from the first "nowhere" on are unused. */
    struct vgp_place scales[VGP_SCALES_MAX];
};

/* NULL: no such call. */
const struct vgp_call_facts *vgp_call_facts(uint16_t call);

/* Reads the number at a location; 0 if nowhere. fixed, reply: the fixed parts of arguments and
 * reply, or NULL. */
uint64_t vgp_place_get(struct vgp_place at, const void *fixed, const void *reply);

/* True if the call creates an object of the kind. */
bool vgp_makes(uint16_t call, unsigned kind);
/* Location of the object of the kind that the call ends; nowhere: none. */
struct vgp_place vgp_ends(uint16_t call, unsigned kind);

#endif
