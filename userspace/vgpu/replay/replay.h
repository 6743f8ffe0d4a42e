/* SPDX-License-Identifier: MIT */
/*
 * vgpu replay: reads a recording (protocol/vgp_recording.h), sends its calls to a worker and
 * compares the replies. A recording is untrusted input: replay_file.c checks all of it before the first
 * call is sent, and again as it is read.
 */
#ifndef VGPU_REPLAY_H
#define VGPU_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "vgp_calls.h"
#include "../../../protocol/vgp_facts.h"
#include "../../../protocol/vgp_fields.h"
#include "../../../protocol/vgp_recording.h"
#include "../../../lib/link/link.h"

#define REPLAY_SLOTS LNK_MAX_SLOTS
#define REPLAY_REGIONS 4096 /* maximum number registered at a time */

/* ---- replay_file.c: the file ---- */

/* A checked event. Pointers refer to the reader's buffer and are valid until the next event. */
struct replay_event {
    uint64_t at; /* offset in the file, bytes */
    uint16_t type;
    uint64_t serial;
    /* CALL */
    const struct vgp_record *record;
    const uint8_t *args;
    uint32_t args_size;
    /* REPLY */
    const struct vgp_event_reply *reply;
    const uint8_t *payload;
    const struct vgp_record *call;       /* header of the answered call */
    const struct vgp_args_vgpCopy *copy; /* its arguments, for a vgpCopy */
    /* Bytes of a CALL from staging or a REPLY to staging or host memory; data of NOTIFY, HOST_*. */
    const uint8_t *data;
    uint32_t data_size;
    const struct vgp_event_notify *notify;
    const struct vgp_event_done *done;
    const struct vgp_event_host *host;
    const struct vgp_event_end *end;
};

/* A call whose reply has not yet occurred in the recording. */
struct replay_open {
    uint64_t serial; /* 0: the slot is free */
    struct vgp_record record;
    struct vgp_args_vgpCopy copy;
};

struct replay_file {
    FILE *f;
    const char *path;
    uint64_t size, at;
    struct vgp_recording_header header;
    uint8_t *buffer;
    uint64_t calls;
    bool ended; /* the END event was read */
    struct replay_open open[REPLAY_SLOTS];
    struct {
        uint32_t id;
        uint64_t length;
    } regions[REPLAY_REGIONS];
    unsigned region_count;
    char why[256]; /* error text with the offset */
};

/* Opens the file and reads the header. False: f->why is the error. */
bool replay_file_open(struct replay_file *f, const char *path);
/* Returns to the first event. */
bool replay_file_rewind(struct replay_file *f);
/* Reads the next event. 1: an event; 0: the end; -1: invalid file, f->why has place and reason.
 * `partial`: a truncated file ends after its last complete event. */
int replay_file_next(struct replay_file *f, struct replay_event *e, bool partial);
void replay_file_close(struct replay_file *f);
/* Returns the number of bytes of a copy's packed side: rows times width; 0 on overflow. */
uint64_t replay_copy_bytes(const struct vgp_args_vgpCopy *c);

/* ---- replay_map.c: translation of objects and addresses ---- */

struct replay_range {
    uint64_t from, size, to; /* recorded start, size in bytes, start in this replay */
};
struct replay_ranges {
    struct replay_range *items; /* sorted by `from`, disjoint */
    size_t count, room;
};
struct replay_pair {
    uint64_t from, to;
};
struct replay_pairs {
    struct replay_pair *items; /* hash table with open addressing; from 0: free slot */
    size_t used, room;
};
struct replay_map {
    struct replay_ranges live, freed;
    struct replay_pairs handles;
    struct replay_pairs textures; /* numbers of texture and surface objects, as passed to kernels */
    bool moved;                   /* an address differs */
    uint64_t ranges, elsewhere;   /* number of ranges; number of those at another address */
    uint64_t data_words;          /* number of data words treated as addresses */
};
/* Keys are never 0; a later entry of a key replaces an earlier one. */
void replay_pairs_add(struct replay_pairs *p, uint64_t from, uint64_t to);
bool replay_pairs_find(const struct replay_pairs *p, uint64_t from, uint64_t *to);
/* Maps memory of the recorded worker at `from` to `to` in this replay. */
void replay_map_add(struct replay_map *m, uint64_t from, uint64_t size, uint64_t to);
void replay_map_free(struct replay_map *m, uint64_t from);
/* Returns the translated address; *known: the value is a known address. */
uint64_t replay_map_address(const struct replay_map *m, uint64_t from, bool *known);
void replay_map_handle_add(struct replay_map *m, uint64_t from, uint64_t to);
uint64_t replay_map_handle(const struct replay_map *m, uint64_t from);
/*
 * Translates aligned words that are known addresses; `skew`: number of bytes before the first
 * aligned word.
 */
uint64_t replay_map_words(const struct replay_map *m, uint8_t *bytes, uint64_t size, unsigned skew);

/* ---- replay_result.c: differences ---- */

struct replay_options {
    double tolerance; /* relative tolerance of floats in copied data; 0: bytes must be equal */
    bool doubles;     /* those floats are 64 bits wide */
    bool keep_words;  /* data words are never treated as addresses */
    bool partial;
    uint64_t move;      /* bytes to allocate before the first allocation */
    unsigned show;      /* maximum number of listed differences */
    int64_t timeout_ms; /* time limit of a reply, ms */
    FILE *json;         /* output for JSON lines, or NULL */
    FILE *out;
};

struct replay_varied {
    const char *call, *field;
    uint64_t count;
};
struct replay_totals {
    uint64_t calls, replies, equal, different, silent, timing, skipped, unseen;
    uint64_t host_results, texts;
    struct replay_varied varied[128]; /* results that may differ and did differ */
    unsigned varied_count;
    uint64_t shown;
};
struct replay_run;

/* Counts and lists a difference. */
void replay_differs(struct replay_run *r, uint64_t serial, uint16_t call, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Compares the reply of a call and records changed numbers. */
void replay_compare(struct replay_run *r, const struct replay_event *e, CUresult result,
                    const uint8_t *payload, uint32_t size);
/* Compares bytes read from the device; true: equal. `what` names them. */
bool replay_compare_bytes(struct replay_run *r, uint64_t serial, uint16_t call, const char *what,
                          const uint8_t *recorded, const uint8_t *here, uint64_t size);
void replay_print(struct replay_run *r);

/* ---- replay_run.c ---- */

struct replay_region {
    struct lnk_shared_memory memory;
    uint32_t recorded;
    uint64_t recorded_va;
    uint8_t *known; /* contents when their writer was last known */
    bool used;
};
/* Bytes written by either the recorded program or its device: attributed to the program unless the
 * device has written them in this replay. */
struct replay_either {
    struct replay_either *next;
    uint64_t serial; /* serial of the call that followed; 0: none yet */
    uint16_t call;
    uint32_t region, size;
    uint64_t offset;
    uint8_t bytes[];
};
struct replay_host_run {
    uint64_t cookie;
    uint32_t slot, sequence;
    bool released, taken;
};
struct replay_layout {
    uint64_t handle;
    uint16_t count;
    uint32_t *params; /* offset << 16 | size */
};
struct replay_run {
    struct replay_file file;
    struct replay_options options;
    struct replay_totals totals;
    struct replay_map map;
    struct lnk_transport transport;
    struct lnk_ring ring;
    struct replay_call {
        struct lnk_call call;
        uint64_t serial;
        bool used;
        uint8_t fixed[128]; /* start of the recorded arguments */
    } open[REPLAY_SLOTS];
    struct replay_region regions[REPLAY_REGIONS];
    struct replay_opaque {
        uint32_t size;
        uint8_t recorded[128], here[128];
    } * opaque; /* opaque bytes, translated only as a whole: tensor maps, tokens */
    size_t opaque_count;
    /*
     * either: bytes of unknown writer; asked: host functions requested by this worker, oldest
     * first.
     */
    struct replay_either *either;
    struct replay_host_run *asked;
    size_t asked_count, asked_room;
    struct replay_pairs host_runs; /* recorded slot and sequence -> those of this replay */
    struct replay_layout *layouts;
    size_t layout_count, layout_room;
    char *text[2]; /* output of kernels: recorded, replayed */
    size_t text_size[2];
    uint64_t *late[2]; /* errors of calls that had returned: recorded, replayed */
    size_t late_count[2];
    char detail[256]; /* the worker's latest message */
    bool dead;
};
/* Runs the replay. 0: all equal; 1: differences; negative: failed, after a message. */
int replay_run(struct replay_run *r);
/* Returns the layout of a function's parameters; NULL: unknown. */
const struct replay_layout *replay_layout_find(const struct replay_run *r, uint64_t handle);
void replay_layout_set(struct replay_run *r, uint64_t handle, const uint32_t *params, uint32_t count);
/* Returns the number of bytes from ADDRESS to the next multiple of 8. */
static inline unsigned replay_skew(uint64_t address)
{
    return (unsigned)(8 - address % 8) % 8;
}

/*
 * Translates the arguments of CALL in place for sending. False: they contain a token of another
 * process.
 */
bool replay_patch(struct replay_run *r, uint16_t call, uint8_t *args);

/* ---- replay_host.c: memory written by both sides ---- */

bool replay_region_new(struct replay_run *r, struct vgp_args_vgpRegionRegister *a);
void replay_region_end(struct replay_run *r, uint32_t recorded);
struct replay_region *replay_region_find(struct replay_run *r, uint32_t recorded);
/* Processes an event about a region's bytes; serial, call: those of the preceding call. */
void replay_host_event(struct replay_run *r, const struct replay_event *e, uint64_t serial, uint16_t call);
/* Notes that the device's state of registered memory is known. */
void replay_host_known(struct replay_run *r, uint64_t recorded, uint64_t size);
/* Called before a call: `either` bytes that were written before the previous call are settled. */
void replay_host_settle(struct replay_run *r, uint64_t serial, uint16_t call);
/* Called when an awaited event does not arrive: attributes `either` bytes that the device has not
 * written to the program. */
void replay_host_apply(struct replay_run *r);
/* Returns the address of recorded host memory in this replay; NULL: none. */
uint8_t *replay_host_at(struct replay_run *r, uint64_t recorded, uint64_t size);

#endif
