/* SPDX-License-Identifier: MIT */
/*
 * Writes a recording: every record when it is published, every reply when it is seen,
 * notifications, and the bytes that copies transfer through shared memory. protocol/vgp_recording.h
 * describes the format.
 *
 * The file is written with write(2) after every reply, so a killed process leaves everything up to
 * its last reply. An error or the limit ends the recording, never the program.
 */
#define _GNU_SOURCE
#include "record_int.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vgp_calls.h"
#include "trace.h"

#define LIMIT_DEFAULT (UINT64_C(1) << 30)
#define BUFFER (1u << 20)
#define END_ROOM (sizeof(struct vgp_event) + sizeof(struct vgp_event_end))

/* A call whose reply has not been seen: its header and the start of its arguments. */
struct open_call {
    uint64_t serial;
    struct vgp_record record;
    uint8_t args[128];
};

static struct {
    pthread_mutex_t lock;
    int fd;
    uint64_t limit, written; /* bytes; `written` includes buffered data */
    uint64_t calls;
    uint8_t *buffer;
    size_t used;
    struct open_call open[LNK_MAX_SLOTS];
    struct lnk_ring *ring;
} rec = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};
_Atomic bool lnk_record_on;
_Static_assert(sizeof(struct vgp_args_vgpCopy) <= sizeof(rec.open[0].args), "arguments are kept");

/* ---- the file ------------------------------------------------------------------------------- */

static bool write_all(const void *data, size_t size)
{
    const uint8_t *p = data;
    int saved = errno; /* recording must not change the application's errno */

    while (size != 0) {
        ssize_t n = write(rec.fd, p, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            dprintf(STDERR_FILENO, "vgpu: VGPU_RECORD: the recording ends here: %s\n", strerror(errno));
            errno = saved;
            return false;
        }
        p += n;
        size -= (size_t)n;
    }
    errno = saved;
    return true;
}

static void flush_buffer(void)
{
    if (rec.used != 0 && !write_all(rec.buffer, rec.used))
        atomic_store(&lnk_record_on, false);
    rec.used = 0;
}

static void append_bytes(const void *data, size_t size)
{
    if (size > BUFFER - rec.used)
        flush_buffer();
    if (size > BUFFER) {
        if (!write_all(data, size))
            atomic_store(&lnk_record_on, false);
    } else if (size != 0) {
        memcpy(rec.buffer + rec.used, data, size);
        rec.used += size;
    }
    rec.written += size;
}

static void finish_file(enum vgp_end_reason reason)
{
    struct vgp_event e = {.size = END_ROOM, .type = VGP_EVENT_END};
    struct vgp_event_end end = {.reason = reason, .calls = rec.calls};

    append_bytes(&e, sizeof(e));
    append_bytes(&end, sizeof(end));
    flush_buffer();
    atomic_store(&lnk_record_on, false);
}

/* True if there is room for an event of this size; otherwise ends the recording with a message. */
static bool has_room(uint64_t size)
{
    if (!atomic_load(&lnk_record_on))
        return false;
    if (rec.written + size + END_ROOM <= rec.limit)
        return true;
    dprintf(STDERR_FILENO,
            "vgpu: VGPU_RECORD: the limit of %llu bytes is reached after %llu calls; the recording "
            "ends here\n",
            (unsigned long long)rec.limit, (unsigned long long)rec.calls);
    finish_file(VGP_END_LIMIT);
    return false;
}

static void record_put(enum vgp_event_type type, uint64_t serial, const void *head, uint32_t head_size,
                       const void *body, uint32_t body_size)
{
    static const uint8_t zero[8];
    uint64_t exact = sizeof(struct vgp_event) + (uint64_t)head_size + body_size;
    struct vgp_event e = {.size = (uint32_t)vgp_pad_to_8(exact), .type = (uint16_t)type, .serial = serial};

    if (!has_room(e.size))
        return;
    append_bytes(&e, sizeof(e));
    append_bytes(head, head_size);
    append_bytes(body, body_size);
    append_bytes(zero, e.size - exact);
}

/* ---- data of a copy in shared memory
   ---------------------------------------------------------- */

/* Packs the rows of one side of a copy. NULL: out of memory, or nothing to pack. */
static uint8_t *pack_rows(const struct vgp_args_vgpCopy *a, const uint8_t *from, uint64_t pitch,
                          uint64_t side_height, uint32_t *size)
{
    uint64_t rows = a->height * a->depth, total = rows * a->widthBytes;
    uint8_t *packed;

    *size = 0;
    if (total == 0 || total > VGP_EVENT_MAX / 2 || rows > total)
        return NULL;
    packed = malloc(total);
    if (packed == NULL)
        return NULL;
    for (uint64_t i = 0; i < rows; i++)
        memcpy(packed + i * a->widthBytes, from + vgp_copy_row(i, pitch, side_height, a->height),
               a->widthBytes);
    *size = (uint32_t)total;
    return packed;
}

/* The bytes that a completed copy has written to memory visible to this process. */
static uint8_t *copied_rows(const struct vgp_args_vgpCopy *a, uint32_t *size)
{
    const uint8_t *at;

    *size = 0;
    if (a->when != VGP_WHEN_COMPLETE)
        return NULL;
    if (a->dstKind == VGP_COPY_STAGING)
        at = rec.ring->staging + a->dst;
    else if (a->dstKind == VGP_COPY_HOST &&
             lnk_record_mem_holds(
                 a->dst, vgp_copy_row(a->height * a->depth - 1, a->dstPitch, a->dstHeight, a->height) +
                             a->widthBytes))
        at = (const uint8_t *)(uintptr_t)a->dst;
    else
        return NULL;
    return pack_rows(a, at, a->dstPitch, a->dstHeight, size);
}

/* ---- taps of the ring ------------------------------------------------------------------------- */

/* Under the ring's lock, before the record can be seen by the worker. */
static void on_call(struct lnk_ring *r, const struct vgp_record *record)
{
    const struct vgp_args_vgpCopy *copy = (const void *)(record + 1);
    uint8_t *data = NULL;
    uint32_t size = 0;

    if (!atomic_load_explicit(&lnk_record_on, memory_order_relaxed))
        return;
    pthread_mutex_lock(&rec.lock);
    lnk_record_mem_call(record);
    if (record->call == VGP_vgpCopy && copy->srcKind == VGP_COPY_STAGING)
        data = pack_rows(copy, r->staging + copy->src, copy->srcPitch, copy->srcHeight, &size);
    if (record->reply_slot < LNK_MAX_SLOTS) {
        struct open_call *o = &rec.open[record->reply_slot];
        uint32_t args = record->size - (uint32_t)sizeof(*record);

        o->serial = rec.calls + 1;
        o->record = *record;
        memset(o->args, 0, sizeof(o->args));
        memcpy(o->args, record + 1, args < sizeof(o->args) ? args : sizeof(o->args));
    }
    record_put(VGP_EVENT_CALL, rec.calls + 1, record, record->size, data, size);
    rec.calls++;
    free(data);
    pthread_mutex_unlock(&rec.lock);
}

static void on_reply(struct lnk_ring *r, uint32_t slot, CUresult result, const void *payload, uint32_t size,
                     bool dead)
{
    static const uint8_t zero[8];
    struct open_call *o = &rec.open[slot];
    struct vgp_event_reply head = {.result = (int32_t)result, .payload = size, .dead = dead};
    uint32_t padded = (uint32_t)vgp_pad_to_8(size);
    uint8_t *data = NULL, *body;

    (void)r;
    if (!atomic_load_explicit(&lnk_record_on, memory_order_relaxed))
        return;
    pthread_mutex_lock(&rec.lock);
    if (o->record.call == VGP_vgpCopy && result == CUDA_SUCCESS)
        data = copied_rows((const void *)o->args, &head.data);
    body = malloc((size_t)padded + head.data + 1);
    if (body != NULL) {
        memcpy(body, payload == NULL ? zero : payload, payload == NULL ? 0 : size);
        memset(body + size, 0, padded - size);
        memcpy(body + padded, data == NULL ? zero : data, head.data);
        record_put(VGP_EVENT_REPLY, o->serial, &head, sizeof(head), body, padded + head.data);
        if (head.data != 0 &&
            ((const struct vgp_args_vgpCopy *)(const void *)o->args)->dstKind == VGP_COPY_HOST) {
            const struct vgp_args_vgpCopy *a = (const void *)o->args;

            for (uint64_t i = 0; i < a->height * a->depth; i++)
                lnk_record_mem_known(a->dst + vgp_copy_row(i, a->dstPitch, a->dstHeight, a->height),
                                     a->widthBytes);
        }
    }
    free(body);
    free(data);
    lnk_record_mem_reply(&o->record, result);
    if (atomic_load(&lnk_record_on))
        flush_buffer();
    pthread_mutex_unlock(&rec.lock);
}

static const struct lnk_tap tap = {.call = on_call, .reply = on_reply};

void lnk_record_notify(uint16_t type, uint64_t cookie, const uint8_t *data, uint32_t size)
{
    struct vgp_event_notify head = {.type = type, .size = size, .cookie = cookie};

    pthread_mutex_lock(&rec.lock);
    record_put(VGP_EVENT_NOTIFY, 0, &head, sizeof(head), data, size);
    if (type == VGP_NOTIFY_HOST_FUNC)
        lnk_record_mem_function(false);
    pthread_mutex_unlock(&rec.lock);
}

void lnk_record_host_done(uint32_t slot, uint32_t sequence)
{
    struct vgp_event_done done = {slot, sequence};

    pthread_mutex_lock(&rec.lock);
    lnk_record_mem_function(true);
    record_put(VGP_EVENT_HOST_DONE, 0, &done, sizeof(done), NULL, 0);
    pthread_mutex_unlock(&rec.lock);
}

/* ---- start and end ---------------------------------------------------------------------------- */

/* Bytes, with K, M or G behind it; 0: it cannot be understood. */
static uint64_t limit_from(const char *text)
{
    static const char units[] = "KMG";
    char *end;
    uint64_t n;

    if (text == NULL || *text == '\0')
        return LIMIT_DEFAULT;
    n = strtoull(text, &end, 10);
    if (end == text || *text == '-' || n > UINT64_C(1) << 30)
        return 0;
    for (unsigned i = 0; i < 3; i++) {
        if (end[0] == units[i] && end[1] == '\0')
            return n << (10 * (i + 1));
    }
    return *end == '\0' ? n : 0;
}

/* Creates a file; never reuses an existing file, which may belong to another process of the same
   program. */
static int create_file(const char *pattern)
{
    char path[1024], pid[24];
    size_t n = 0;
    int fd;

    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    for (const char *p = pattern; *p != '\0' && n < sizeof(path) - 64; p++) {
        if (p[0] == '%' && p[1] == 'p') {
            n += (size_t)snprintf(path + n, sizeof(pid), "%s", pid);
            p++;
        } else {
            path[n++] = *p;
        }
    }
    path[n] = '\0';
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST) {
        snprintf(path + n, sizeof(path) - n, ".%s", pid);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    if (fd < 0)
        dprintf(STDERR_FILENO, "vgpu: VGPU_RECORD: cannot create %s: %s\n", path, strerror(errno));
    return fd;
}

void lnk_record_start(struct lnk_ring *r)
{
    struct vgp_recording_header h = {
        .magic = VGP_RECORDING_MAGIC,
        .version = VGP_RECORDING_VERSION,
        .protocol_major = r->shared->version_major,
        .protocol_minor = r->shared->version_minor,
        .staging_size = r->staging_size,
        .reply_slots = r->slot_count,
        .pid = (uint32_t)getpid(),
    };
    const char *path = secure_getenv("VGPU_RECORD");

    if (path == NULL || *path == '\0')
        return;
    snprintf(h.program, sizeof(h.program), "%s", program_invocation_short_name);
    rec.limit = limit_from(getenv("VGPU_RECORD_LIMIT"));
    if (rec.limit == 0) {
        dprintf(STDERR_FILENO,
                "vgpu: VGPU_RECORD_LIMIT: %s is no size: a number, with K, M or G; "
                "nothing is recorded\n",
                getenv("VGPU_RECORD_LIMIT"));
        return;
    }
    rec.buffer = malloc(BUFFER);
    rec.fd = rec.buffer == NULL ? -1 : create_file(path);
    if (rec.fd < 0 || !lnk_ring_tap(r, &tap))
        return;
    rec.ring = r;
    lnk_record_mem_start(record_put);
    atomic_store(&lnk_record_on, true);
    append_bytes(&h, sizeof(h));
}

void lnk_record_end(void)
{
    pthread_mutex_lock(&rec.lock);
    if (atomic_load(&lnk_record_on))
        finish_file(VGP_END_EXIT);
    pthread_mutex_unlock(&rec.lock);
}

void lnk_record_forked(void)
{
    if (rec.fd >= 0)
        close(rec.fd);
    rec.fd = -1;
    atomic_store(&lnk_record_on, false);
}
