/* SPDX-License-Identifier: MIT */
/*
 * The private channel between the broker and one worker: a SOCK_SEQPACKET pair, messages of one
 * fixed size, file descriptors as SCM_RIGHTS. Both ends come from the same build, so there is no
 * version; but the broker does not trust the worker: it takes no descriptors from it but with MAPPER, which is
 * sent before the provider is loaded, checks every field, and ends a worker that says something that its state
 * does not allow.
 */
#ifndef VGB_MSG_H
#define VGB_MSG_H

#include <stddef.h>
#include <stdint.h>

enum vgb_msg_type {
    /* worker -> broker */
    VGB_M_READY =
        1, /* provider loaded; status 0 or CUresult, value = devices, text = provider, flags VGB_READY_*,
                        * offset = bytes of device memory */
    VGB_M_SERVING = 2, /* the window header is written, the ring is served */
    /* answer to the last MAP of a region: status (enum vgpu_status), va. By the mapper, value as in UNMAPPED when
     * status is not 0 */
    VGB_M_MAPPED = 3,
    /* answer to UNMAP: status. By the mapper: value = what it is told, to take the memory away; answer: TAKEN */
    VGB_M_UNMAPPED = 4,
    /* value = bytes this worker wants reserved in total, length = the fewest that do; flags = VGB_RESERVE_* */
    VGB_M_RESERVE = 5,
    VGB_M_DEAD = 6,      /* the worker ends: reason (enum vgpu_dead_reason), text */
    VGB_M_ASK_USAGE = 7, /* who uses the GPU how much? */
    /* Something that other workers of the same VM may open: flags = enum vgb_share_kind, length =
     * bytes of memory (or of device memory that it stands for), share.payload. Answer: SHARED. */
    VGB_M_SHARE_NEW = 8,
    VGB_M_SHARE_OPEN = 9,  /* share.token, flags = kind; answer: SHARED */
    VGB_M_SHARE_DROP = 10, /* share.token: one NEW or OPEN less; answer: SHARED */
    VGB_M_SANDBOX = 11,    /* before READY: text = the layers of the sandbox that are in force */
    VGB_M_BUSY =
        12, /* status 1: a call of the provider takes long, answers may wait for it; 0: none does now */
    VGB_M_WORK = 13, /* by turns: status = enum vgb_work, flags = number of the last TURN */
    VGB_M_MAPPER =
        14, /* before SANDBOX: value = process id of the mapper, fds: its listener, /proc/self/maps */
    VGB_M_PLACE =
        15, /* all runs of a region that the mapper maps are known: va = its place; value = what the mapper
                        * is told when it asks what to do. Answer: PLACED; then MAPPED follows */
    /* broker -> worker */
    VGB_M_START = 16,    /* fds: window, doorbell [, wake]; offset, length = slice of the window;
                         * value = quota of device memory; limits */
    VGB_M_MAP = 17,      /* fds as the runs say; region, va, length, offset, flags, runs */
    VGB_M_UNMAP = 18,    /* region */
    VGB_M_GRANT = 19,    /* answer to RESERVE: status 0 or VGPU_S_QUOTA, value = now reserved */
    VGB_M_DOORBELL = 20, /* fds: the doorbell to use from now on */
    /* answer to ASK_USAGE: nruns = rows of uses[], of length clients with a context; va = bytes and
     * offset = processor time of all of them; value = quota of device memory, 0 = none */
    VGB_M_USAGE = 21,
    /* answer to SHARE_NEW, SHARE_OPEN and SHARE_DROP (status only): status; value = the worker's number, as holder of events;
     * length; share; fds: the memory, which the broker itself has made (none for PAYLOAD) */
    VGB_M_SHARED = 22,
    /* limits that have changed: value = quota of device memory, limits. Where a quota is new, the worker
     * reserves what it has (VGB_RESERVE_HELD) */
    VGB_M_LIMITS = 23,
    /* by turns: status 1: the worker may put work into streams, value = nanoseconds of it at once (0: any); 0: it
     * may not, and says at once how it is (WORK), again when that changes; flags = number of this message */
    VGB_M_TURN = 24,
    VGB_M_PLACED = 25, /* region: the mapper has asked for every call, or given up */
    VGB_M_TAKEN = 26,  /* region: nothing of it is mapped any more, its place is the worker's */
    /* answer to IMAGE_ASK: status 0: fds: the image, sealed, with a NUL behind it. Else VGPU_S_INVALID; with value not 0
     * fds: memory for it, of that number, to be filled and then told of (IMAGE_FILLED) */
    VGB_M_IMAGE = 27,
    /* worker -> broker */
    VGB_M_IMAGE_ASK = 28, /* has the broker this image? image.hash, length. Answer: IMAGE */
    VGB_M_IMAGE_FILLED =
        29, /* value = number of the memory; status 0: it is complete, 1: it will never be. No answer */
    /* broker -> worker */
    VGB_M_HOLDER_GONE = 30, /* a client that had events which this one has, too, has ended. No answer */
    VGB_M_BLOBS_WANTED =
        31, /* another client was refused room for images: what does not move is given up. No answer */
};

/* The user id of the workers of a root broker with that process id: above what systemd-nspawn hands
 * out, one for each broker. */
#define VGB_WORKER_UID(broker) (0x70000000u + (uint32_t)(broker))
/* Where a container maps 65536 user ids only: out of those for services without an account. */
#define VGB_UID_LOW 61184u
#define VGB_UID_LOW_COUNT 4336u
#define VGB_WORKER_UID_LOW(broker) (VGB_UID_LOW + (uint32_t)(broker) % VGB_UID_LOW_COUNT)

/* What a worker that has turns is about. */
enum vgb_work {
    VGB_WORK_NONE = 0,  /* nothing in flight, and nothing to do */
    VGB_WORK_BUSY = 1,  /* work is in flight */
    VGB_WORK_WAITS = 2, /* nothing in flight: work waits for a turn */
};

#define VGB_START_TURNS 1u /* START: no work before a TURN */

#define VGB_START_IMAGES 2u /* START: the broker keeps images */

#define VGB_READY_SOFT 1u /* the provider works in this process's time: the software GPU */

/* GRANT with VGPU_S_QUOTA: reason = what refuses it. */
#define VGB_REFUSED_QUOTA 0u /* the quota of this VM */
#define VGB_REFUSED_GPU 1u   /* the memory that all VMs of the GPU have together */

#define VGB_RESERVE_DEVICE 0u /* device memory */
#define VGB_RESERVE_BLOBS 1u  /* images on their way (host memory) */
#define VGB_RESERVE_HELD 2u   /* device memory that it has already; once after LIMITS */

/* What one client may have of the host; 0 = no limit. Kept by its worker. */
struct vgb_limits {
    uint64_t memory;      /* bytes of private memory, beyond what an idle worker has */
    uint64_t blobs;       /* bytes of images on their way, of all clients: the worker asks for its share */
    uint64_t printf_fifo; /* bytes of the buffer for printf of kernels */
    uint32_t threads;     /* of the worker, the provider's own ones too */
    uint32_t streams;     /* alive at the same time */
    uint32_t handles;     /* objects of all types alive at the same time */
    uint32_t compile_s;   /* processor time of one call that compiles or links, seconds */
    uint32_t queue;       /* calls that put work into streams, not complete */
    uint32_t time_s;      /* seconds in which some of its work ends, if there is any */
    uint64_t image;       /* bytes of one image, or of what one linker is given */
};

#define VGB_TOKEN 32   /* bytes, random */
#define VGB_PAYLOAD 64 /* bytes: a CUipcMemHandle or CUipcEventHandle */

#define VGB_IMAGE_HASH 32 /* bytes: SHA-256 */

struct vgb_image_words {
    uint8_t hash[VGB_IMAGE_HASH];
};

enum vgb_share_kind {
    VGB_SHARE_MEMORY = 1,  /* sealed memory; can be opened while its maker holds it */
    VGB_SHARE_FD = 2,      /* sealed memory; can be opened while anybody holds it */
    VGB_SHARE_EVENT = 3,   /* one page, as MEMORY; see struct vgb_event_head */
    VGB_SHARE_PAYLOAD = 4, /* no memory here: bytes that a provider gave and will understand */
    VGB_SHARE_KINDS
};

/*
 * How the page of an event starts (the software GPU's memory/share.h): a futex, and the numbers of those
 * who have the page. When a worker ends the broker takes its number out, so that nobody waits for it.
 */
struct vgb_event_head {
    uint32_t wake;
    uint32_t holders[63];
};

struct vgb_share_words {
    uint8_t token[VGB_TOKEN];
    uint8_t payload[VGB_PAYLOAD];
};

#define VGB_MAP_READONLY (1u << 0)  /* no write access */
#define VGB_MAP_MORE (1u << 1)      /* further runs of this region follow */
#define VGB_MAP_BY_MAPPER (1u << 2) /* no descriptors: the mapper has them */

#define VGB_MSG_RUNS 64 /* runs of one message; a longer list takes several */
#define VGB_MSG_FDS 8   /* vhost-user passes at most 8 memory regions */
#define VGB_MSG_TEXT 256

struct vgb_run {
    uint32_t file;   /* index into the descriptors of this message; BY_MAPPER: the mapper's number */
    uint32_t page;   /* bytes of a page of the file: 4096, or more for huge pages */
    uint64_t offset; /* in the file, page aligned */
    uint64_t length; /* bytes, page aligned */
};

/* One client that has used a context. */
struct vgb_use {
    uint32_t pid;    /* in the guest, as the process itself says; not 0 */
    uint32_t worker; /* pid of its worker on the host */
    uint64_t memory; /* bytes */
    uint64_t cpu_ns; /* of its worker */
};

struct vgb_msg {
    uint32_t type; /* enum vgb_msg_type */
    uint32_t status;
    uint32_t region;
    uint32_t flags;
    uint32_t reason;
    uint32_t nruns;
    uint64_t va;
    uint64_t length;
    uint64_t offset;
    uint64_t value;
    char text[VGB_MSG_TEXT]; /* NUL-terminated by the receiver */
    union {
        struct vgb_run runs[VGB_MSG_RUNS];
        struct vgb_use uses[VGB_MSG_RUNS]; /* USAGE */
        struct vgb_share_words share;      /* SHARE_*, SHARED */
        struct vgb_limits limits;          /* START, LIMITS */
        struct vgb_image_words image;      /* IMAGE_ASK */
    };
};

/* Sends one message with nfds descriptors (<= VGB_MSG_FDS; the caller keeps its own). `flags` as
 * sendmsg(2). 0 or -errno. */
int vgb_msg_send(int sock, const struct vgb_msg *m, const int *fds, unsigned nfds, int flags);

/*
 * Receives one message. *nfds: in, the most descriptors wanted (0: none are taken); out, how many
 * came, all close-on-exec and owned by the caller. 1 = a message, 0 = the peer closed, -EPROTO = a
 * message of another size or with too many descriptors (nothing is kept open), other -errno.
 */
int vgb_msg_recv(int sock, struct vgb_msg *m, int *fds, unsigned *nfds, int flags);

#endif
