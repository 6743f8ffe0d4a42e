/* SPDX-License-Identifier: MIT */
/*
 * Memory registered by the program is written by both sides without any call. Changes are found by
 * comparison with a snapshot: a change found before work is sent was made by the program; a change
 * found when no work is pending was made by the device; a change found when the program begins to
 * wait may be from either. While work is pending, the destinations of copies that have not been
 * waited for are excluded; writes of a kernel to such memory while the program sends more work are
 * attributed to the program. docs/replay.md describes the consequences.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mapped.h"
#include "record_int.h"

#include "vgp_calls.h"
#include "../../protocol/vgp_facts.h"
#include "../../protocol/vgp_fields.h"

/* Comparing much memory for each launch would stall the program: memory beyond this limit is not
   tracked. */
#define FOLLOWED_MAX (UINT64_C(256) << 20)
#define GRAIN 4096u
#define STREAMS 64
#define EVENTS 256
#define COPIES 256

struct region {
    struct region *next;
    uint32_t id;
    uint64_t va, length;
    uint8_t *shadow; /* NULL: not followed */
};

/* A stream with work that the program has not waited for. */
struct busy {
    uint64_t stream, context;
    uint32_t thread; /* counts for the per-thread default stream only */
    uint64_t works;  /* ever sent to it */
};

/* All of this is under the recorder's lock. */
static lnk_record_put_fn put_event;
static struct region *regions;
static uint64_t followed;
static struct busy busy[STREAMS];
static unsigned busy_count;
static bool lost_count; /* more streams than fit: only a wait for everything counts */
static struct {
    uint64_t event, works;
    struct busy on;
} recorded[EVENTS];
static unsigned next_recorded;
static struct {
    uint64_t from, to, stream, context;
} copies[COPIES]; /* to host memory, under way */
static unsigned copy_count;
static unsigned captures; /* a captured copy is not under way, however often its graph is launched */

/* ---- regions -------------------------------------------------------------------------------- */

static void region_add(uint32_t id, uint64_t va, uint64_t length)
{
    struct region *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return;
    *r = (struct region){.next = regions, .id = id, .va = va, .length = length};
    if (length <= FOLLOWED_MAX - followed)
        r->shadow = calloc(1, length); /* both sides of a replay start with zeros */
    if (r->shadow != NULL)
        followed += length;
    else
        dprintf(STDERR_FILENO,
                "vgpu: VGPU_RECORD: %llu bytes of registered memory are not "
                "followed: what the program writes there is not in the recording\n",
                (unsigned long long)length);
    regions = r;
}

/* Drops the copies of an idle stream, or those into memory that is unregistered. */
static void forget_copies(const struct busy *of, const struct region *into)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < copy_count; i++) {
        bool gone = of != NULL ? copies[i].stream == of->stream && copies[i].context == of->context
                               : copies[i].from < into->va + into->length && into->va < copies[i].to;

        if (!gone)
            copies[kept++] = copies[i];
    }
    copy_count = kept;
}

static void region_drop(uint32_t id)
{
    for (struct region **pp = &regions, *r; (r = *pp) != NULL; pp = &r->next) {
        if (r->id == id) {
            *pp = r->next;
            forget_copies(NULL, r); /* the address may be reused */
            if (r->shadow != NULL)
                followed -= r->length;
            free(r->shadow);
            free(r);
            return;
        }
    }
}

static struct region *region_at(uint64_t address, uint64_t size)
{
    struct region *r = regions;

    while (r != NULL && !(address >= r->va && vgp_range_ok(address - r->va, size, r->length)))
        r = r->next;
    return r;
}

void lnk_record_mem_start(lnk_record_put_fn put)
{
    put_event = put;
}

bool lnk_record_mem_holds(uint64_t address, uint64_t size)
{
    return region_at(address, size) != NULL;
}

void lnk_record_mem_known(uint64_t address, uint64_t size)
{
    struct region *r = region_at(address, size);

    if (r != NULL && r->shadow != NULL)
        memcpy(r->shadow + (address - r->va), (const void *)(uintptr_t)address, size);
}

static void put_pieces(enum vgp_event_type type, struct region *r, uint64_t from, uint64_t to)
{
    while (from < to) {
        uint32_t n = to - from < VGP_HOST_PIECE ? (uint32_t)(to - from) : VGP_HOST_PIECE;
        struct vgp_event_host head = {.region = r->id, .size = n, .offset = from};

        memcpy(r->shadow + from, (const void *)(uintptr_t)(r->va + from), n);
        put_event(type, 0, &head, sizeof(head), r->shadow + from, n);
        from += n;
    }
}

/* Start and end of the first copy that overlaps [from, to). Returns false if there is none. */
static bool next_copy(uint64_t from, uint64_t to, uint64_t *start, uint64_t *end)
{
    bool found = false;

    for (unsigned i = 0; i < copy_count; i++) {
        if (copies[i].from < to && from < copies[i].to && (!found || copies[i].from < *start)) {
            *start = copies[i].from;
            *end = copies[i].to;
            found = true;
        }
    }
    return found;
}

/* Writes the changes between two offsets, as a run per grain; adjacent grains are joined. */
static void diff_region(enum vgp_event_type type, struct region *r, uint64_t from, uint64_t to)
{
    const uint8_t *now = (const uint8_t *)(uintptr_t)r->va;
    uint64_t start = 0, end = 0; /* the run that is not written yet */

    for (uint64_t at = from; at < to;) {
        uint64_t stop = (at / GRAIN + 1) * GRAIN, a = at, b;

        if (stop > to)
            stop = to;
        if (memcmp(now + at, r->shadow + at, stop - at) != 0) {
            /* The device may write the old value again meanwhile. */
            for (b = stop; a < stop && now[a] == r->shadow[a]; a++)
                ;
            while (b > a && now[b - 1] == r->shadow[b - 1])
                b--;
            if (a == b) {
                at = stop;
                continue;
            }
            if (end != a) {
                put_pieces(type, r, start, end);
                start = a;
            }
            end = b;
        }
        at = stop;
    }
    put_pieces(type, r, start, end);
}

static void look_at_regions(enum vgp_event_type type)
{
    for (struct region *r = regions; r != NULL; r = r->next) {
        uint64_t at = r->va, end = r->va + r->length, skip_from = 0, skip_to = 0;

        if (r->shadow == NULL || !lnk_memory_mapped((const void *)(uintptr_t)r->va, r->length))
            continue;
        while (type != VGP_EVENT_HOST_RESULT && next_copy(at, end, &skip_from, &skip_to)) {
            if (skip_from > at)
                diff_region(type, r, at - r->va, skip_from - r->va);
            at = skip_to;
        }
        if (at < end)
            diff_region(type, r, at - r->va, end - r->va);
    }
}

/* ---- pending work
   ----------------------------------------------------------------------------- */

/* The stream that a call names: its value is in the fixed arguments. False: it names none. */
static bool stream_of(const struct vgp_record *record, uint64_t *stream)
{
    const struct vgp_call_fields *f = vgp_fields_of(record->call);

    *stream = 0;
    for (uint32_t i = 0; f != NULL && i < f->in_count; i++) {
        if (f->in[i].meaning == VGP_MEANS_HANDLE && f->in[i].form == VGP_FORM_FIXED &&
            (strcmp(f->in[i].name, "stream") == 0 || strcmp(f->in[i].name, "hStream") == 0)) {
            memcpy(stream, (const uint8_t *)(record + 1) + f->in[i].offset, 8);
            return true;
        }
    }
    return false;
}

static bool same_work(const struct busy *b, const struct vgp_record *record, uint64_t stream)
{
    return b->stream == stream && b->context == record->context &&
           (stream != 2 || b->thread == record->thread);
}

static struct busy *find_busy(const struct vgp_record *record, uint64_t stream)
{
    for (unsigned i = 0; i < busy_count; i++) {
        if (same_work(&busy[i], record, stream))
            return &busy[i];
    }
    return NULL;
}

static void note_busy(const struct vgp_record *record, uint64_t stream)
{
    static uint64_t works;
    struct busy *b = find_busy(record, stream);

    if (b == NULL && busy_count == STREAMS) {
        lost_count = true;
        return;
    }
    if (b == NULL) {
        b = &busy[busy_count++];
        *b = (struct busy){stream, record->context, record->thread, 0};
    }
    b->works = ++works;
}

static void end_busy(struct busy *b)
{
    if (b == NULL)
        return;
    forget_copies(b, NULL);
    *b = busy[--busy_count];
}

static void note_event(const struct vgp_record *record, uint64_t event, uint64_t stream)
{
    struct busy *b = find_busy(record, stream);

    recorded[next_recorded].event = event;
    recorded[next_recorded].works = b == NULL ? 0 : b->works;
    recorded[next_recorded].on = (struct busy){stream, record->context, record->thread, 0};
    next_recorded = (next_recorded + 1) % EVENTS;
}

/* Nothing was sent after the latest record of this event: its stream is idle. */
static void event_passed(uint64_t event)
{
    for (unsigned i = 0; i < EVENTS; i++) {
        unsigned k = (next_recorded + EVENTS - 1 - i) % EVENTS;
        struct vgp_record as = {.context = recorded[k].on.context, .thread = recorded[k].on.thread};
        struct busy *b;

        if (recorded[k].event != event)
            continue;
        b = find_busy(&as, recorded[k].on.stream);
        if (b != NULL && b->works == recorded[k].works)
            end_busy(b);
        return;
    }
}

static bool is_work(const struct vgp_record *record)
{
    return vgp_touches_memory(record->call) || vgp_effect(record->call) == VGP_EFFECT_CALLS;
}

static void note_copy(const struct vgp_record *record, const struct vgp_args_vgpCopy *a)
{
    uint64_t extent =
        vgp_copy_row(a->height * a->depth - 1, a->dstPitch, a->dstHeight, a->height) + a->widthBytes;

    if (a->dstKind != VGP_COPY_HOST || copy_count == COPIES || captures != 0)
        return;
    copies[copy_count].stream = a->stream;
    copies[copy_count].context = record->context;
    copies[copy_count].from = a->dst;
    copies[copy_count++].to = a->dst + extent;
}

/*
 * A host function is about to run: its stream stands still. If only one stream has work, changes so
 * far were made by the device, and changes until the function ends by the program.
 */
void lnk_record_mem_function(bool ended)
{
    if (regions != NULL && (ended || (busy_count <= 1 && !lost_count)))
        look_at_regions(ended ? VGP_EVENT_HOST_WRITE : VGP_EVENT_HOST_RESULT);
}

void lnk_record_mem_call(const struct vgp_record *record)
{
    const uint8_t *args = (const uint8_t *)(record + 1);
    bool streamed;
    uint64_t stream;

    if (record->call == VGP_vgpRegionRegister) {
        const struct vgp_args_vgpRegionRegister *a = (const void *)args;

        region_add(a->region, a->va, a->length);
    } else if (record->call == VGP_vgpRegionUnregister) {
        region_drop(((const struct vgp_args_vgpRegionUnregister *)(const void *)args)->region);
    } else if (record->call == VGP_vgpStreamBeginCapture) {
        captures++;
    } else if (record->call == VGP_vgpStreamEndCapture && captures != 0) {
        captures--;
    }
    if (regions == NULL)
        return;
    streamed = stream_of(record, &stream);
    if (is_work(record)) {
        look_at_regions(VGP_EVENT_HOST_WRITE);
        note_busy(record, stream);
        if (record->call == VGP_vgpCopy)
            note_copy(record, (const void *)args);
    } else if (vgp_tells_completion(record->call) && (busy_count != 0 || lost_count)) {
        look_at_regions(VGP_EVENT_HOST_EITHER); /* a flag that a kernel waits for, or a kernel's result */
    } else if (vgp_facts(record->call) & VGP_FACT_RECORDS && streamed) {
        note_event(record, vgp_place_get(vgp_call_facts(record->call)->records, args, NULL), stream);
    }
}

/* An open call stores only the start of its arguments, which contains the handles. */
void lnk_record_mem_reply(const struct vgp_record *record, CUresult result)
{
    const uint8_t *args = (const uint8_t *)(record + 1);
    bool was_busy = busy_count != 0 || lost_count;
    uint64_t value;

    if (regions == NULL || result != CUDA_SUCCESS || !was_busy)
        return;
    memcpy(&value, args, sizeof(value));
    if (vgp_facts(record->call) & VGP_FACT_WAITS_ALL) {
        busy_count = 0;
        lost_count = false;
    } else if (vgp_tells_completion(record->call)) { /* a stream or an event, by its handle */
        if (VGP_HANDLE_TYPE(value) == VGP_H_EVENT)
            event_passed(value);
        else
            end_busy(find_busy(record, value));
    } else if (record->call == VGP_vgpCopy &&
               ((const struct vgp_args_vgpCopy *)(const void *)args)->when == VGP_WHEN_COMPLETE) {
        end_busy(find_busy(record, ((const struct vgp_args_vgpCopy *)(const void *)args)->stream));
    } else {
        return;
    }
    if (busy_count == 0 && !lost_count) {
        copy_count = 0;
        look_at_regions(VGP_EVENT_HOST_RESULT);
    }
}
