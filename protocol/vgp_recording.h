/* SPDX-License-Identifier: MIT */
/*
 * Format of a recording: a file with the records that a process sent to its worker and the answers,
 * for `vgpu replay` to send to another worker and compare. Written by libcuda (VGPU_RECORD), a file
 * per process. docs/replay.md is the reference page.
 *
 *   struct vgp_recording_header
 *   events: struct vgp_event, then data according to its type, each a multiple of 8 bytes
 *   the last event is VGP_EVENT_END; a file without it is truncated
 *
 * All fields little-endian, padding zero. CALL events are in the order of the ring. Events follow
 * all events that they depend on: a REPLY follows every call sent before the reply was read, a call
 * follows every reply that the program had read by then. A single thread that processes the events
 * in order can therefore wait for each reply where it stands.
 *
 * Readers trust nothing: sizes are bounded by the limits below, and by the file.
 */
#ifndef VGP_RECORDING_H
#define VGP_RECORDING_H

#include <stdint.h>

#define VGP_RECORDING_MAGIC "VGPUREC\n"
#define VGP_RECORDING_VERSION 1u
#define VGP_EVENT_MAX (2u << 20)   /* maximum size of an event with its header, bytes */
#define VGP_HOST_PIECE (64u << 10) /* maximum bytes of host memory in an event */

/*
 * The magic has no NUL. Compilers that support the attribute warn of such an initialiser without
 * it.
 */
#if defined(__has_attribute)
#if __has_attribute(nonstring)
#define VGP_NO_NUL __attribute__((nonstring))
#endif
#endif
#ifndef VGP_NO_NUL
#define VGP_NO_NUL
#endif

struct vgp_recording_header {
    char magic[8] VGP_NO_NUL;
    uint32_t version;
    uint16_t protocol_major, protocol_minor; /* version of the recorded worker */
    uint64_t staging_size;                   /* upper bound of the offsets of copies, bytes */
    uint32_t reply_slots;                    /* maximum number of calls in flight */
    uint32_t pid;
    char program[32]; /* NUL-terminated name of the process */
    uint64_t padding[8];
};
_Static_assert(sizeof(struct vgp_recording_header) == 128, "recording header");

enum vgp_event_type {
    /* a record as in the ring (struct vgp_record), padded to 8; for a vgpCopy from staging then its
     * source bytes, rows packed */
    VGP_EVENT_CALL = 1,
    /* struct vgp_event_reply, the payload padded to 8; for a complete vgpCopy to staging or host
     * memory then its result bytes, rows packed */
    VGP_EVENT_REPLY = 2,
    VGP_EVENT_NOTIFY = 3,    /* struct vgp_event_notify, then its data */
    VGP_EVENT_HOST_DONE = 4, /* struct vgp_event_done: a host function has ended */
    /*
     * Bytes of registered memory: struct vgp_event_host, then the bytes. WRITE: written by the
     * program before the following call. RESULT: written by the device by the time the preceding
     * reply was read. EITHER: written by program or device before the program began to wait with
     * the following call.
     */
    VGP_EVENT_HOST_WRITE = 5,
    VGP_EVENT_HOST_RESULT = 6,
    VGP_EVENT_END = 7, /* struct vgp_event_end */
    VGP_EVENT_HOST_EITHER = 8,
};

struct vgp_event {
    uint32_t size;   /* bytes of the event including this header, multiple of 8 */
    uint16_t type;   /* enum vgp_event_type */
    uint16_t flags;  /* 0 */
    uint64_t serial; /* CALL and REPLY: number of the call, from 1; else 0 */
};

struct vgp_event_reply {
    int32_t result;   /* CUresult */
    uint32_t payload; /* bytes of the reply's payload */
    uint32_t data;    /* bytes that follow the padded payload */
    uint32_t dead;    /* non-zero: the worker had ended before; left-over state */
};

struct vgp_event_notify {
    uint32_t type; /* enum vgp_notify_type */
    uint32_t size; /* bytes that follow */
    uint64_t cookie;
};

struct vgp_event_done {
    uint32_t slot, sequence;
};

struct vgp_event_host {
    uint32_t region; /* region number given to vgpRegionRegister */
    uint32_t size;   /* bytes that follow, at most VGP_HOST_PIECE */
    uint64_t offset; /* offset in the region, bytes */
};

enum vgp_end_reason {
    VGP_END_EXIT = 1,  /* the process ended */
    VGP_END_LIMIT = 2, /* the file reached its size limit */
    VGP_END_ERROR = 3, /* the file could not be written */
};

struct vgp_event_end {
    uint32_t reason; /* enum vgp_end_reason */
    uint32_t padding;
    uint64_t calls; /* CALL events in the file */
};

static inline uint64_t vgp_pad_to_8(uint64_t n)
{
    return (n + 7) & ~UINT64_C(7);
}

/* Offset of row i (of height * depth rows) in a strided copy's source or destination, bytes. */
static inline uint64_t vgp_copy_row(uint64_t i, uint64_t pitch, uint64_t side_height, uint64_t height)
{
    return ((i / height) * side_height + i % height) * pitch;
}

#endif
