/* SPDX-License-Identifier: MIT */
/* Reads a recording. The file is not trusted: each event is checked by itself and against the
 * preceding events, so that the rest of the replay may rely on it. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "replay/replay.h"

static int refuse_file(struct replay_file *f, uint64_t at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static int refuse_file(struct replay_file *f, uint64_t at, const char *fmt, ...)
{
    int n = snprintf(f->why, sizeof(f->why), "%s: byte %llu: ", f->path, (unsigned long long)at);
    va_list ap;

    va_start(ap, fmt);
    if (n > 0 && (size_t)n < sizeof(f->why))
        vsnprintf(f->why + n, sizeof(f->why) - (size_t)n, fmt, ap);
    va_end(ap);
    return -1;
}

bool replay_file_open(struct replay_file *f, const char *path)
{
    struct stat st;

    memset(f, 0, sizeof(*f));
    f->path = path;
    f->f = fopen(path, "rbe");
    if (f->f == NULL || fstat(fileno(f->f), &st) != 0) {
        snprintf(f->why, sizeof(f->why), "%s: %s", path, strerror(errno));
        return false;
    }
    if (!S_ISREG(st.st_mode)) {
        snprintf(f->why, sizeof(f->why), "%s: not a file", path);
        return false;
    }
    f->size = (uint64_t)st.st_size;
    f->buffer = malloc(VGP_EVENT_MAX);
    if (f->buffer == NULL) {
        snprintf(f->why, sizeof(f->why), "out of memory");
        return false;
    }
    if (fread(&f->header, 1, sizeof(f->header), f->f) != sizeof(f->header) ||
        memcmp(f->header.magic, VGP_RECORDING_MAGIC, sizeof(f->header.magic)) != 0)
        return refuse_file(f, 0, "this is no recording") == 0;
    if (f->header.version != VGP_RECORDING_VERSION)
        return refuse_file(f, 8, "form %u of a recording; this vgpu reads form %u", f->header.version,
                           VGP_RECORDING_VERSION) == 0;
    if (f->header.protocol_major != VGP_VERSION_MAJOR)
        return refuse_file(f, 12, "the calls are of protocol %u, this vgpu speaks %u",
                           f->header.protocol_major, VGP_VERSION_MAJOR) == 0;
    if (f->header.reply_slots == 0 || f->header.reply_slots > REPLAY_SLOTS)
        return refuse_file(f, 24, "%u reply slots; there may be 1 to %u", f->header.reply_slots,
                           REPLAY_SLOTS) == 0;
    f->header.program[sizeof(f->header.program) - 1] = '\0';
    for (char *p = f->header.program; *p != '\0'; p++) {
        if (*p < 0x20 || *p > 0x7e)
            *p = '?';
    }
    f->at = sizeof(f->header);
    return true;
}

bool replay_file_rewind(struct replay_file *f)
{
    memset(f->open, 0, sizeof(f->open));
    f->region_count = 0;
    f->calls = 0;
    f->ended = false;
    f->at = sizeof(f->header);
    return fseek(f->f, (long)f->at, SEEK_SET) == 0;
}

void replay_file_close(struct replay_file *f)
{
    if (f->f != NULL)
        fclose(f->f);
    free(f->buffer);
    f->f = NULL;
    f->buffer = NULL;
}

uint64_t replay_copy_bytes(const struct vgp_args_vgpCopy *c)
{
    uint64_t rows, total;

    if (c->height == 0 || c->depth == 0 || __builtin_mul_overflow(c->height, c->depth, &rows) ||
        __builtin_mul_overflow(rows, c->widthBytes, &total) || total > VGP_EVENT_MAX)
        return 0;
    return total;
}

/* True if one side of a small copy lies inside [0, room). */
static bool side_ok(const struct vgp_args_vgpCopy *c, uint64_t at, uint64_t pitch, uint64_t height,
                    uint64_t room)
{
    uint64_t rows, end;

    if (replay_copy_bytes(c) == 0)
        return false;
    if (__builtin_mul_overflow(c->depth - 1, height, &rows) ||
        __builtin_add_overflow(rows, c->height - 1, &rows) || __builtin_mul_overflow(rows, pitch, &end) ||
        __builtin_add_overflow(end, c->widthBytes, &end))
        return false;
    return vgp_range_ok(at, end, room);
}

/*
 * Checks variable parts: each has a count in the fixed part, at most the maximum of its
 * description.
 */
static bool parts_ok(const struct vgp_field *fields, uint32_t count, const uint8_t *fixed,
                     uint64_t fixed_size, uint64_t size)
{
    uint64_t at = fixed_size;

    if (size < fixed_size)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t n;

        if (fields[i].form < VGP_FORM_ARRAY)
            continue;
        memcpy(&n, fixed + fields[i].offset, sizeof(n));
        if (n > fields[i].max || (uint64_t)n * fields[i].size > size - at)
            return false;
        if (fields[i].form == VGP_FORM_STR && n != 0 && fixed[at + n - 1] != 0)
            return false;
        at += vgp_pad_to_8((uint64_t)n * fields[i].size);
        if (at > size) /* replies may omit the padding of the last part */
            at = size;
    }
    return true;
}

static bool region_call(struct replay_file *f, const struct vgp_record *r, const uint8_t *args)
{
    if (r->call == VGP_vgpRegionRegister) {
        const struct vgp_args_vgpRegionRegister *a = (const void *)args;

        if (f->region_count == REPLAY_REGIONS || a->length == 0 || a->length > UINT64_C(1) << 40 ||
            a->va % VGP_PAGE != 0 || a->length % VGP_PAGE != 0 || a->va + a->length < a->va)
            return false;
        for (unsigned i = 0; i < f->region_count; i++) {
            if (f->regions[i].id == a->region)
                return false;
        }
        f->regions[f->region_count].id = a->region;
        f->regions[f->region_count++].length = a->length;
    } else if (r->call == VGP_vgpRegionUnregister) {
        const struct vgp_args_vgpRegionUnregister *a = (const void *)args;

        for (unsigned i = 0; i < f->region_count; i++) {
            if (f->regions[i].id == a->region) {
                f->regions[i] = f->regions[--f->region_count];
                break;
            }
        }
    }
    return true;
}

static int check_call(struct replay_file *f, struct replay_event *e, const uint8_t *body, uint64_t size)
{
    const struct vgp_record *r = (const void *)body;
    const struct vgp_call_fields *fields;
    uint64_t want = 0;

    if (e->serial != f->calls + 1)
        return refuse_file(f, e->at, "call %llu follows call %llu", (unsigned long long)e->serial,
                           (unsigned long long)f->calls);
    if (size < sizeof(*r) || r->size < sizeof(*r) || r->size % 16 != 0 || r->size > VGP_RECORD_MAX ||
        r->size > size || r->flags != 0 || r->padding != 0)
        return refuse_file(f, e->at, "call %llu: its record has no proper header",
                           (unsigned long long)e->serial);
    fields = vgp_fields_of(r->call);
    if (fields == NULL)
        return refuse_file(f, e->at, "call %llu has number %#x, which this vgpu does not know",
                           (unsigned long long)e->serial, r->call);
    e->record = r;
    e->args = body + sizeof(*r);
    e->args_size = r->size - (uint32_t)sizeof(*r);
    e->data = body + r->size;
    e->data_size = (uint32_t)(size - r->size);
    if (!parts_ok(fields->in, fields->in_count, e->args, fields->args_fixed, e->args_size))
        return refuse_file(f, e->at, "call %llu, %s: its arguments do not fit its record",
                           (unsigned long long)e->serial, fields->name);
    if (r->reply_slot != VGP_NO_REPLY && r->reply_slot >= f->header.reply_slots)
        return refuse_file(f, e->at, "call %llu, %s: reply slot %u of %u", (unsigned long long)e->serial,
                           fields->name, r->reply_slot, f->header.reply_slots);
    if (r->call == VGP_vgpCopy) {
        const struct vgp_args_vgpCopy *c = (const void *)e->args;

        if ((c->srcKind == VGP_COPY_STAGING &&
             !side_ok(c, c->src, c->srcPitch, c->srcHeight, f->header.staging_size)) ||
            (c->dstKind == VGP_COPY_STAGING &&
             !side_ok(c, c->dst, c->dstPitch, c->dstHeight, f->header.staging_size)))
            return refuse_file(f, e->at, "call %llu, vgpCopy: outside of the staging area",
                               (unsigned long long)e->serial);
        if (c->srcKind == VGP_COPY_STAGING)
            want = replay_copy_bytes(c);
    }
    if (vgp_pad_to_8(want) != e->data_size)
        return refuse_file(f, e->at, "call %llu, %s: %u bytes of data, there should be %llu",
                           (unsigned long long)e->serial, fields->name, e->data_size,
                           (unsigned long long)want);
    e->data_size = (uint32_t)want;
    if (!region_call(f, r, e->args))
        return refuse_file(f, e->at, "call %llu, %s: no memory that could be registered",
                           (unsigned long long)e->serial, fields->name);
    if (r->reply_slot != VGP_NO_REPLY) {
        struct replay_open *o = &f->open[r->reply_slot];

        o->serial = e->serial;
        o->record = *r;
        if (r->call == VGP_vgpCopy)
            memcpy(&o->copy, e->args, sizeof(o->copy));
    }
    f->calls++;
    return 1;
}

static int check_reply(struct replay_file *f, struct replay_event *e, const uint8_t *body, uint64_t size)
{
    const struct vgp_event_reply *h = (const void *)body;
    const struct vgp_call_fields *fields;
    struct replay_open *o = NULL;

    for (unsigned i = 0; i < f->header.reply_slots && o == NULL; i++) {
        if (f->open[i].serial == e->serial && e->serial != 0)
            o = &f->open[i];
    }
    if (o == NULL)
        return refuse_file(f, e->at, "a reply to call %llu, which waits for none",
                           (unsigned long long)e->serial);
    if (size < sizeof(*h) || h->payload > VGP_REPLY_SLOT_SIZE || h->data > VGP_EVENT_MAX || h->result < 0 ||
        h->result > 9999 || vgp_pad_to_8(sizeof(*h) + vgp_pad_to_8(h->payload) + h->data) != size)
        return refuse_file(f, e->at, "the reply to call %llu has wrong sizes", (unsigned long long)e->serial);
    fields = vgp_fields_of(o->record.call);
    e->reply = h;
    e->payload = body + sizeof(*h);
    e->data = e->payload + vgp_pad_to_8(h->payload);
    e->data_size = h->data;
    e->call = &o->record;
    e->copy = o->record.call == VGP_vgpCopy ? &o->copy : NULL;
    if (h->result == 0 && h->payload != 0 &&
        !parts_ok(fields->out, fields->out_count, e->payload, fields->ret_fixed, h->payload))
        return refuse_file(f, e->at, "the reply to call %llu, %s: results do not fit it",
                           (unsigned long long)e->serial, fields->name);
    if (h->data != 0 && (e->copy == NULL || h->data != replay_copy_bytes(e->copy) ||
                         (e->copy->dstKind != VGP_COPY_STAGING && e->copy->dstKind != VGP_COPY_HOST) ||
                         !side_ok(e->copy, e->copy->dst, e->copy->dstPitch, e->copy->dstHeight, UINT64_MAX)))
        return refuse_file(f, e->at, "the reply to call %llu carries data that the call did not ask for",
                           (unsigned long long)e->serial);
    o->serial = 0;
    return 1;
}

static int check_host(struct replay_file *f, struct replay_event *e, const uint8_t *body, uint64_t size)
{
    const struct vgp_event_host *h = (const void *)body;

    if (size < sizeof(*h) || h->size > VGP_HOST_PIECE || h->size == 0 ||
        vgp_pad_to_8(sizeof(*h) + h->size) != size)
        return refuse_file(f, e->at, "bytes of host memory with wrong sizes");
    for (unsigned i = 0; i < f->region_count; i++) {
        if (f->regions[i].id == h->region && vgp_range_ok(h->offset, h->size, f->regions[i].length)) {
            e->host = h;
            e->data = body + sizeof(*h);
            e->data_size = h->size;
            return 1;
        }
    }
    return refuse_file(f, e->at, "bytes of host memory %u, which is not registered there", h->region);
}

static int check_event(struct replay_file *f, struct replay_event *e, const uint8_t *body, uint64_t size)
{
    const struct vgp_event_notify *n = (const void *)body;

    switch (e->type) {
    case VGP_EVENT_CALL:
        return check_call(f, e, body, size);
    case VGP_EVENT_REPLY:
        return check_reply(f, e, body, size);
    case VGP_EVENT_NOTIFY:
        if (size < sizeof(*n) || n->size > VGP_NOTIFY_SIZE || vgp_pad_to_8(sizeof(*n) + n->size) != size)
            return refuse_file(f, e->at, "a notification with wrong sizes");
        e->notify = n;
        e->data = body + sizeof(*n);
        e->data_size = n->size;
        return 1;
    case VGP_EVENT_HOST_DONE:
        e->done = (const void *)body;
        if (size != sizeof(*e->done) || e->done->slot >= VGP_HOST_RUNS)
            return refuse_file(f, e->at, "the end of a host function with a slot that does not exist");
        return 1;
    case VGP_EVENT_HOST_WRITE:
    case VGP_EVENT_HOST_RESULT:
    case VGP_EVENT_HOST_EITHER:
        return check_host(f, e, body, size);
    case VGP_EVENT_END:
        e->end = (const void *)body;
        if (size != sizeof(*e->end) || e->end->calls != f->calls)
            return refuse_file(f, e->at, "the end does not fit what came before");
        f->ended = true;
        return 1;
    default:
        return refuse_file(f, e->at, "an event of type %u, which this vgpu does not know", e->type);
    }
}

int replay_file_next(struct replay_file *f, struct replay_event *e, bool partial)
{
    struct vgp_event h;

    memset(e, 0, sizeof(*e));
    e->at = f->at;
    if (f->at == f->size) {
        if (f->ended || partial)
            return 0;
        return refuse_file(f, f->at,
                           "cut off: the recorded program did not end, or was killed "
                           "(--partial replays what is there)");
    }
    if (f->ended)
        return refuse_file(f, f->at, "something follows the end");
    if (f->size - f->at < sizeof(h) && partial)
        return 0;
    if (f->size - f->at < sizeof(h) || fread(&h, 1, sizeof(h), f->f) != sizeof(h))
        return refuse_file(f, f->at, "cut off inside of an event");
    if (h.size < sizeof(h) || h.size % 8 != 0 || h.size > VGP_EVENT_MAX || h.flags != 0)
        return refuse_file(f, f->at, "an event of %u bytes, flags %#x", h.size, h.flags);
    if (h.size > f->size - f->at && partial)
        return 0;
    if (h.size > f->size - f->at || fread(f->buffer, 1, h.size - sizeof(h), f->f) != h.size - sizeof(h))
        return refuse_file(f, f->at, "cut off inside of an event of %u bytes", h.size);
    e->type = h.type;
    e->serial = h.serial;
    f->at += h.size;
    return check_event(f, e, f->buffer, h.size - sizeof(h));
}
