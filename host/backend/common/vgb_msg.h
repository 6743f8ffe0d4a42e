/* SPDX-License-Identifier: MIT */
/*
 * Private channel between the broker and a worker: a SOCK_SEQPACKET pair, messages of a fixed size,
 * file descriptors as SCM_RIGHTS. Both ends come from the same build, so the protocol has no
 * version. The broker does not trust the worker: it accepts descriptors only with MAPPER, which is
 * sent before the provider is loaded, checks every field, and ends a worker that sends a message
 * not allowed in its state.
 */
#ifndef VGB_MSG_H
#define VGB_MSG_H

#include <stddef.h>
#include <stdint.h>

enum vgb_msg_type {
    /* worker -> broker */
    /* provider loaded: status = 0 or CUresult, value = number of devices, text = provider, flags =
     * VGB_READY_*, offset = device memory, bytes */
    VGB_M_READY = 1,
    VGB_M_SERVING = 2, /* the window header is written and the ring is served */
    /* answer to the last MAP of a region: status (enum vgpu_status), va. For a region of the mapper
     * with status != 0: value as in UNMAPPED */
    VGB_M_MAPPED = 3,
    /*
     * answer to UNMAP: status. For a region of the mapper: value = address of the unmapping job for
     * the mapper; answer: TAKEN
     */
    VGB_M_UNMAPPED = 4,
    /* value = total reservation wanted, bytes; length = the least that suffices; flags =
     * VGB_RESERVE_* */
    VGB_M_RESERVE = 5,
    VGB_M_DEAD = 6,      /* the worker is exiting: reason (enum vgpu_dead_reason), text */
    VGB_M_ASK_USAGE = 7, /* asks for the GPU usage of all clients; answer: USAGE */
    /*
     * creates an object that other workers of the same VM may open: flags = enum vgb_share_kind,
     * length = bytes of memory (or of the device memory it represents), share.payload. Answer:
     * SHARED
     */
    VGB_M_SHARE_NEW = 8,
    VGB_M_SHARE_OPEN = 9,  /* share.token, flags = kind; answer: SHARED */
    VGB_M_SHARE_DROP = 10, /* share.token: drops a reference from NEW or OPEN; answer: SHARED */
    VGB_M_SANDBOX = 11,    /* before READY: text = the layers of the sandbox that are in force */
    /* status 1: a long provider call is in progress and may delay answers; 0: none is */
    VGB_M_BUSY = 12,
    /* pacing by turns: status = enum vgb_work, flags = number of the last TURN */
    VGB_M_WORK = 13,
    /*
     * before SANDBOX: value = process id of the mapper; fds: its seccomp listener, /proc/self/maps
     */
    VGB_M_MAPPER = 14,
    /*
     * all runs of a region for the mapper are known: va = its place; value = address of the job for
     * the mapper, given to it when it asks for work. Answer: PLACED; MAPPED follows
     */
    VGB_M_PLACE = 15,
    /* broker -> worker */
    /* fds: window, doorbell [, wake]; offset, length = slice of the window; value = quota of device
     * memory, bytes; limits */
    VGB_M_START = 16,
    VGB_M_MAP = 17,   /* fds indexed by the runs; region, va, length, offset, flags, runs */
    VGB_M_UNMAP = 18, /* region */
    /* answer to RESERVE: status 0 or VGPU_S_QUOTA, value = bytes reserved now */
    VGB_M_GRANT = 19,
    VGB_M_DOORBELL = 20, /* fds: the new doorbell */
    /*
     * answer to ASK_USAGE: nruns = rows of uses[], length = number of clients with a context; va =
     * bytes, offset = processor time (ns), both summed over those clients; value = quota of device
     * memory, 0 = none
     */
    VGB_M_USAGE = 21,
    /*
     * answer to SHARE_NEW, SHARE_OPEN and SHARE_DROP (status only): status; value = the worker's
     * number as a holder of events; length; share; fds: memory created by the broker (none for
     * PAYLOAD)
     */
    VGB_M_SHARED = 22,
    /* changed limits: value = quota of device memory, limits. Where a quota is new, the worker
     * reserves the memory it already has (VGB_RESERVE_HELD) */
    VGB_M_LIMITS = 23,
    /*
     * pacing by turns: status 1: the worker may put work into streams, value = maximum work at
     * once, ns (0: unlimited); status 0: it may not, and reports its state (WORK) now and at each
     * change; flags = number of this message
     */
    VGB_M_TURN = 24,
    VGB_M_PLACED = 25, /* region: the mapper has asked for every call, or has failed */
    VGB_M_TAKEN = 26,  /* region: fully unmapped; its place belongs to the worker again */
    /*
     * answer to IMAGE_ASK. Status 0: fds: the sealed image, followed by a NUL. Otherwise
     * VGPU_S_INVALID; if value != 0, fds: memory number `value`, to be filled with the image and
     * reported by IMAGE_FILLED
     */
    VGB_M_IMAGE = 27,
    /* worker -> broker */
    VGB_M_IMAGE_ASK = 28, /* asks for an image: image.hash, length. Answer: IMAGE */
    VGB_M_IMAGE_FILLED =
        29, /* value = number of the memory; status 0: complete, 1: will never be. No answer */
    /* broker -> worker */
    /* another holder of this client's shared events has ended. No answer */
    VGB_M_HOLDER_GONE = 30,
    /* another client was refused room for images: drop stalled transfers. No answer */
    VGB_M_BLOBS_WANTED = 31,
};

/* User id of the workers of a root broker with process id `broker`: unique per broker, above the
 * range of systemd-nspawn. */
#define VGB_WORKER_UID(broker) (0x70000000u + (uint32_t)(broker))
/* In a container that maps only 65536 user ids: from the range for services without an account. */
#define VGB_UID_LOW 61184u
#define VGB_UID_LOW_COUNT 4336u
#define VGB_WORKER_UID_LOW(broker) (VGB_UID_LOW + (uint32_t)(broker) % VGB_UID_LOW_COUNT)

/* State of a worker under pacing by turns. */
enum vgb_work {
    VGB_WORK_NONE = 0,  /* nothing in flight, nothing to submit */
    VGB_WORK_BUSY = 1,  /* work is in flight */
    VGB_WORK_WAITS = 2, /* nothing in flight, work waits for a turn */
};

#define VGB_START_TURNS 1u /* START: submit no work before a TURN */

#define VGB_START_IMAGES 2u /* START: the broker keeps images */

/* the provider runs on this process's processor time: the software GPU */
#define VGB_READY_SOFT 1u

/* GRANT with VGPU_S_QUOTA: reason = the exhausted limit. */
#define VGB_REFUSED_QUOTA 0u /* the quota of this VM */
#define VGB_REFUSED_GPU 1u   /* the memory shared by all VMs of the GPU */

#define VGB_RESERVE_DEVICE 0u /* device memory */
#define VGB_RESERVE_BLOBS 1u  /* images in transit (host memory) */
#define VGB_RESERVE_HELD 2u   /* device memory already held; once after LIMITS */

/* Limits on host resources of one client, enforced by its worker; 0 = no limit. */
struct vgb_limits {
    uint64_t memory; /* bytes of private memory, beyond those of an idle worker */
    /* bytes of images in transit, all clients: the worker reserves its share */
    uint64_t blobs;
    uint64_t printf_fifo; /* bytes of the printf buffer of kernels */
    uint32_t threads;     /* threads of the worker, including the provider's own */
    uint32_t streams;     /* alive at the same time */
    uint32_t handles;     /* objects of all types alive at the same time */
    uint32_t compile_s;   /* processor time of a call that compiles or links, seconds */
    uint32_t queue;       /* incomplete calls that put work into streams */
    /* maximum time without any work completing while work is in flight, seconds */
    uint32_t time_s;
    uint64_t image; /* bytes of an image, or of all inputs of a linker */
};

#define VGB_TOKEN 32   /* bytes, random */
#define VGB_PAYLOAD 64 /* bytes: a CUipcMemHandle or CUipcEventHandle */

#define VGB_IMAGE_HASH 32 /* bytes: SHA-256 */

struct vgb_image_words {
    uint8_t hash[VGB_IMAGE_HASH];
};

enum vgb_share_kind {
    VGB_SHARE_MEMORY = 1,  /* sealed memory; can be opened while its creator holds it */
    VGB_SHARE_FD = 2,      /* sealed memory; can be opened while any client holds it */
    VGB_SHARE_EVENT = 3,   /* one page, as MEMORY; see struct vgb_event_head */
    VGB_SHARE_PAYLOAD = 4, /* no memory: opaque bytes of the provider */
    VGB_SHARE_KINDS
};

/*
 * Start of an event's page (the software GPU's memory/share.h): a futex, and the numbers of the
 * page's holders. When a worker ends, the broker removes its number so that no client waits for it.
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
#define VGB_MAP_BY_MAPPER (1u << 2) /* no descriptors in the message: the mapper has them */

#define VGB_MSG_RUNS 64 /* runs per message; longer lists are split */
#define VGB_MSG_FDS 8   /* the maximum number of memory regions in vhost-user */
#define VGB_MSG_TEXT 256

struct vgb_run {
    /* index into the descriptors of this message; BY_MAPPER: descriptor number in the mapper */
    uint32_t file;
    uint32_t page;   /* page size of the file, bytes: 4096, or larger for huge pages */
    uint64_t offset; /* in the file, page aligned */
    uint64_t length; /* bytes, page aligned */
};

/* Usage of a client that has used a context. */
struct vgb_use {
    uint32_t pid;    /* pid in the guest, as claimed by the process; not 0 */
    uint32_t worker; /* pid of its worker on the host */
    uint64_t memory; /* bytes */
    uint64_t cpu_ns; /* processor time of its worker */
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

/* Sends a message with nfds descriptors (<= VGB_MSG_FDS), which stay the caller's. `flags` as for
 * sendmsg(2). 0 or -errno. */
int vgb_msg_send(int sock, const struct vgb_msg *m, const int *fds, unsigned nfds, int flags);

/*
 * Receives a message. *nfds: in, maximum number of descriptors (0: none accepted); out, number
 * received, all close-on-exec and owned by the caller. 1 = a message, 0 = the peer closed, -EPROTO
 * = a message of another size or with too many descriptors (all are closed), other -errno.
 */
int vgb_msg_recv(int sock, struct vgb_msg *m, int *fds, unsigned *nfds, int flags);

#endif
