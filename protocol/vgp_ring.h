/* SPDX-License-Identifier: MIT */
/*
 * The client window: memory shared between one guest process (libcuda) and its worker.
 *
 * One window per guest process: in a VM a slice of the device's shared-memory BAR, over the
 * unix-socket transport a memfd of its own. The format does not depend on the transport. The peer
 * can write any byte at any time: each value is read once and bounded, and a second read is never
 * trusted to match.
 *
 *   offset 0   struct vgp_window_shared (one page)
 *   ring       call records, guest -> worker
 *   replies    reply slots, worker -> guest
 *   notify     notification records, worker -> guest (host functions, device printf, trace details)
 *   staging    raw bytes of memory copies; owned by the guest, lent to the worker by a record
 *
 * All fields little-endian. The reference page is docs/protocol.md.
 */
#ifndef VGP_RING_H
#define VGP_RING_H

#include <stdint.h>

#define VGP_MAGIC 0x57504756u /* "VGPW" */
#define VGP_VERSION_MAJOR 1   /* must be equal on both sides */
#define VGP_VERSION_MINOR 13  /* the lower version of the two sides is used */

#define VGP_PAGE 4096u
#define VGP_WINDOW_MIN (4u << 20)
#define VGP_WINDOW_DEFAULT (16u << 20)

/* Defaults of the layout, which the worker chooses and writes to the header. */
#define VGP_RING_SIZE (1u << 20) /* power of two */
#define VGP_REPLY_SLOTS 64u      /* maximum calls with a reply in flight; further threads wait */
#define VGP_REPLY_SLOT_SIZE 4096u
#define VGP_NOTIFY_SIZE (256u << 10) /* power of two */
/* The staging area takes the rest of the window. */

/* maximum size of a record with its header; larger data is sent as a blob */
#define VGP_RECORD_MAX (72u << 10)
#define VGP_BLOB_CHUNK (64u << 10) /* data bytes of a vgpBlobAppend */
#define VGP_BLOB_OFFER (64u << 10) /* minimum size of an image whose hash is offered */
/* maximum size of a blob, far above the images of whole libraries */
#define VGP_BLOB_MAX (1u << 30)

/*
 * Maximum number of concurrent host functions in the guest. Each run has a slot and a sequence
 * number. Its end is reported twice: in host_done, which the waiting thread of the worker polls
 * independently of the dispatcher, and by a record, which wakes a sleeping dispatcher.
 */
#define VGP_HOST_RUNS 512u
#define VGP_HOST_DONE_OFFSET 2048u

/*
 * Words that signal completion of an event or stream that was queried and not complete
 * (vgpEventWatch, vgpStreamWatch). The call passes a word and a sequence value. The worker stores
 * the value on completion, or the value with VGP_WATCH_ASK when it stops watching or an error
 * occurs; only a call can determine the state then. Any other content means that nothing is known.
 */
#define VGP_WATCHES 64u
#define VGP_WATCH_ASK 0x80000000u /* sequence values are non-zero and below it */
#define VGP_WATCH_OFFSET 768u

/*
 * Staging bytes per copy: requested by the worker (staging_piece; whole pages) within these bounds.
 * Small pieces stay in the caches of a provider that copies by processor; a driver that stages
 * again has fixed costs per piece.
 */
#define VGP_PIECE_MIN (16u << 10)
#define VGP_PIECE_DEFAULT (128u << 10)
#define VGP_PIECE_LARGE (512u << 10)
#define VGP_PIECE_MAX (1u << 20)

/* past_caches: copy with non-temporal stores if the provider can. Affects only speed. */
#define VGP_PAST_TO_STAGING (1u << 0)
#define VGP_PAST_FROM_STAGING (1u << 1)

/* Worker states (worker_state). */
enum vgp_worker_state {
    VGP_WORKER_STARTING = 0,
    VGP_WORKER_RUNNING = 1, /* polls the ring: no doorbell needed */
    VGP_WORKER_IDLE = 2,    /* sleeps or is about to: ring the doorbell after publishing */
    VGP_WORKER_DEAD = 3,    /* no further replies; the client can only be destroyed */
};

/* Header page. Each cache line has a single writer: "guest" is libcuda, "worker" the worker (or the
 * broker after the worker's end, for worker_state = DEAD and dead_*). */
struct vgp_window_shared {
    /* line 0, worker: written before the guest gets the window, magic last */
    uint32_t magic;
    uint16_t version_major, version_minor;
    uint64_t features; /* VGP_FEATURE_* */
    uint64_t window_size;
    uint32_t ring_offset, ring_size;
    uint32_t reply_offset, reply_slot_size;
    uint32_t reply_slots, notify_offset;
    uint32_t notify_size;
    uint32_t staging_piece; /* preferred staging bytes per copy; 0: unspecified (older workers) */
    uint64_t padding1;

    /* line 1, worker (continues line 0) */
    uint64_t staging_offset;
    uint64_t staging_size;
    uint64_t padding2[6];

    /* line 2, guest: producer of the ring */
    /* total bytes written, multiple of 16; position = tail & (ring_size - 1) */
    uint64_t ring_tail;
    uint64_t padding3[7];

    /* line 3, guest: consumer of notifications; sleep flag */
    uint64_t notify_head;
    /* non-zero: a thread sleeps or is about to; to be woken after publishing */
    uint32_t guest_sleeps;
    uint32_t guest_pid;   /* pid claimed by the process, for process lists only; 0: not listed */
    uint32_t past_caches; /* VGP_PAST_*: hint for subsequent copies; older guests: 0 */
    uint32_t padding4;
    uint64_t padding5[5];

    /* line 4, worker: consumer of the ring */
    uint64_t ring_head;    /* total bytes consumed, which the guest may overwrite */
    uint32_t worker_state; /* enum vgp_worker_state */
    uint32_t padding6;
    uint64_t calls;  /* records taken; this and the next three are for lists only */
    uint64_t waits;  /* records with a reply slot */
    uint64_t errors; /* calls that failed on execution */
    uint64_t copied; /* bytes copied to, from and on the device */
    uint64_t padding7[2];

    /* line 5, worker: producer of notifications; the futex word of the socket transport */
    uint64_t notify_tail;
    uint32_t wake_seq; /* incremented before each wake-up */
    uint32_t padding8;
    uint64_t padding9[6];

    /* line 6.., worker or broker: state at the end */
    int32_t sticky_result; /* CUresult that every further call returns, 0 = none */
    uint32_t dead_reason;  /* enum vgpu_dead_reason of the device ABI */
    uint64_t memory_used;  /* worker: device memory of this client, bytes; for lists only */
    uint32_t has_context;  /* worker: non-zero once the client has used a context */
    uint32_t padding10;
    uint64_t padding12[5];
    char dead_text[256]; /* one line for the trace, NUL-terminated */
    uint8_t padding11[VGP_WATCH_OFFSET - (7 * 64 + 256)];

    /* worker: see VGP_WATCHES */
    uint32_t watch[VGP_WATCHES];
    uint8_t padding13[VGP_HOST_DONE_OFFSET - VGP_WATCH_OFFSET - 4 * VGP_WATCHES];

    /* last lines, guest: host_done[slot] = sequence of the host-function run that ended last */
    uint32_t host_done[VGP_HOST_RUNS];
};
_Static_assert(sizeof(struct vgp_window_shared) == VGP_PAGE, "window header layout");
_Static_assert(__builtin_offsetof(struct vgp_window_shared, host_done) == VGP_HOST_DONE_OFFSET, "host_done");
_Static_assert(__builtin_offsetof(struct vgp_window_shared, watch) == VGP_WATCH_OFFSET, "watch");
_Static_assert(__builtin_offsetof(struct vgp_window_shared, staging_offset) == 64, "line 1");
_Static_assert(__builtin_offsetof(struct vgp_window_shared, ring_tail) == 128, "line 2");
_Static_assert(__builtin_offsetof(struct vgp_window_shared, notify_head) == 192, "line 3");
_Static_assert(__builtin_offsetof(struct vgp_window_shared, ring_head) == 256, "line 4");
_Static_assert(__builtin_offsetof(struct vgp_window_shared, notify_tail) == 320, "line 5");
_Static_assert(__builtin_offsetof(struct vgp_window_shared, sticky_result) == 384, "line 6");

/*
 * A call record. Records are 16-byte aligned, contiguous, and never wrap: if a record does not fit
 * before the end of the ring, a record with call = VGP_CALL_PAD fills the rest. The fixed argument
 * structure of the call follows the header, then its variable parts, each padded to 8 bytes.
 *
 * Publishing: write the record, store-release ring_tail, full fence, read worker_state; IDLE: ring
 * the doorbell. The doorbell can be skipped if ring_head, read after that, equals ring_tail, or is
 * unchanged since the doorbell was rung last: the worker has taken nothing since, so it will read
 * ring_tail again.
 *
 * The worker: store IDLE, full fence, read ring_tail again, sleep only if it has not moved.
 */
#define VGP_CALL_PAD 0xffffu
#define VGP_NO_REPLY 0xffffffffu
struct vgp_record {
    uint32_t size;       /* bytes of the whole record including the header, multiple of 16 */
    uint16_t call;       /* number of the call */
    uint16_t flags;      /* 0 */
    uint32_t reply_slot; /* index, or VGP_NO_REPLY */
    uint32_t reply_seq;  /* value that the worker stores in the slot with the reply */
    uint64_t context;    /* handle of the calling thread's current context, 0 = none */
    uint32_t thread;     /* guest thread number for per-thread default streams; dense, from 0 */
    uint32_t padding;
};
_Static_assert(sizeof(struct vgp_record) == 32, "record header");

/*
 * A reply slot. The guest owns a slot from putting it into a record until it has read the reply.
 * The worker writes the payload, then result and size, then store-releases seq. After a full fence
 * it reads guest_sleeps; if non-zero it swaps it to 0, increments wake_seq and wakes the guest. A
 * guest thread about to sleep sets guest_sleeps to 1, issues a full fence, checks its slot and
 * worker_state again, and sleeps in the transport with the wake_seq read before.
 */
struct vgp_reply {
    uint32_t seq;
    int32_t result; /* CUresult of the call, or of the context's sticky error */
    uint32_t size;  /* payload bytes after this header */
    uint32_t flags; /* VGP_REPLY_* */
};
#define VGP_REPLY_DETAIL (1u << 0) /* a NOTIFY_DETAIL record about this call was queued before it */

/* A notification record: 16-byte aligned, never wraps; VGP_NOTIFY_PAD fills the rest as in the
 * ring. */
struct vgp_notify {
    uint32_t size; /* whole record, multiple of 16 */
    uint16_t type; /* enum vgp_notify_type */
    uint16_t flags;
    uint64_t cookie; /* HOST_FUNC: the guest's callback id; PRINT: VGP_PRINT_STDOUT or _STDERR */
    /* then: text bytes (PRINT, DETAIL: u32 length, then the bytes), or for HOST_FUNC: u32 status,
     * u32 slot, u32 sequence (only the status from a worker of version 1.0) */
};
enum vgp_notify_type {
    VGP_NOTIFY_PAD = 0xffff,
    VGP_NOTIFY_HOST_FUNC = 1, /* run the callback, store host_done, send vgpHostFuncFinished */
    /* text printed by a kernel: printf for standard output, assert for standard error */
    VGP_NOTIFY_PRINT = 2,
    VGP_NOTIFY_DETAIL = 3, /* reason of a refused call or failed kernel, for the trace */
    /* the last reference to the host function or user object was dropped */
    VGP_NOTIFY_RELEASED = 5,
    /* an asynchronous call failed: cookie = call number << 32 | CUresult */
    VGP_NOTIFY_ASYNC_ERROR = 4,
    /* the same for a captured call, which invalidates its capture (1.7) */
    VGP_NOTIFY_CAPTURE_LOST = 6,
    /* the same for a posted node: its graph fails with the error (1.8) */
    VGP_NOTIFY_GRAPH_FAILED = 7,
};

#define VGP_PRINT_STDOUT 0u
#define VGP_PRINT_STDERR 1u

/*
 * Handles on the wire: minted by the guest, per client. Value = type << 56 | generation << 32 |
 * index. The generation is never 0, so no handle equals the special stream values 0, 1 and 2. An
 * index is reused only with another generation. The application sees the same value as its
 * CUstream, CUevent, ...
 */
enum vgp_handle_type {
    VGP_H_CONTEXT = 1,
    VGP_H_STREAM = 2,
    VGP_H_EVENT = 3,
    VGP_H_MODULE = 4,
    VGP_H_FUNCTION = 5,
    VGP_H_LIBRARY = 6,
    VGP_H_KERNEL = 7,
    VGP_H_GRAPH = 8,
    VGP_H_GRAPH_NODE = 9,
    VGP_H_GRAPH_EXEC = 10,
    VGP_H_MEM_POOL = 11,
    VGP_H_LINK = 12,
    VGP_H_ARRAY = 13,
    VGP_H_MIPMAPPED_ARRAY = 14,
    VGP_H_TEXTURE = 15,
    VGP_H_SURFACE = 16,
    VGP_H_ALLOCATION = 17, /* CUmemGenericAllocationHandle */
    VGP_H_USER_OBJECT = 18,
    VGP_H_GREEN = 20,         /* CUgreenCtx */
    VGP_H_RESOURCE_DESC = 21, /* CUdevResourceDesc */
    VGP_H_TYPES = 32,
};
#define VGP_HANDLE_INDEX_MAX (1u << 20) /* live objects of one type in one client */
/*
 * Graphs and nodes are created by both sides, as the provider also creates them (captures, clones,
 * child graphs). Indices below this value are minted by the worker, the rest (since 1.8) by the
 * guest.
 */
#define VGP_HANDLE_GUEST_FIRST (1u << 19)
#define VGP_HANDLE(type, gen, index) \
    ((uint64_t)(type) << 56 | (uint64_t)((gen)&0xffffffu) << 32 | (uint32_t)(index))
#define VGP_HANDLE_TYPE(h) ((unsigned)((uint64_t)(h) >> 56))
#define VGP_HANDLE_GEN(h) ((uint32_t)((uint64_t)(h) >> 32) & 0xffffffu)
#define VGP_HANDLE_INDEX(h) ((uint32_t)(uint64_t)(h))

/* vgpCopy: kind of source and destination. */
enum vgp_copy_kind {
    VGP_COPY_DEVICE = 0,  /* a device address */
    VGP_COPY_INLINE = 1,  /* source only: bytes in the record */
    VGP_COPY_STAGING = 2, /* an offset in the staging area */
    VGP_COPY_HOST = 3,    /* a guest address inside a region shared by PIN or MAP */
    VGP_COPY_REPLY = 4,   /* destination only: bytes in the reply (at most VGP_COPY_REPLY_MAX) */
    /* the handle of an array; its pitch is VGP_COPY_AT(x, y, z), its height 0 */
    VGP_COPY_ARRAY = 5,
};
#define VGP_COPY_REPLY_MAX 4032u
/* Position in an array: byte in the row (below 2^24), row (below 2^20), slice or layer (below
 * 2^20). */
#define VGP_COPY_AT(x, y, z) ((uint64_t)(x) | (uint64_t)(y) << 24 | (uint64_t)(z) << 44)
#define VGP_COPY_AT_X(at) ((at)&0xffffffu)
#define VGP_COPY_AT_Y(at) ((at) >> 24 & 0xfffffu)
#define VGP_COPY_AT_Z(at) ((at) >> 44)

/* vgpCopy and vgpLaunch: time of the reply. */
enum vgp_copy_when {
    VGP_WHEN_NEVER = 0,  /* no reply slot */
    VGP_WHEN_ISSUED = 1, /* after the call was issued to the provider */
    /* after completion of the copy: staging may be reused and results are available */
    VGP_WHEN_COMPLETE = 2,
};

/* vgpLaunch flags. */
#define VGP_LAUNCH_COOPERATIVE (1u << 0)
#define VGP_LAUNCH_REPLY (1u << 1) /* reply when issued; otherwise asynchronous */

/* vgpTensorMapEncode: the function to call. */
enum vgp_tensor_map {
    VGP_TMAP_TILED = 0,
    VGP_TMAP_IM2COL = 1,
    VGP_TMAP_IM2COL_WIDE = 2,
    /* `old` is the map; the result is the map with another address */
    VGP_TMAP_REPLACE_ADDRESS = 3,
};

/* Maximum size of the log kept by the worker for a link or load, bytes. */
#define VGP_JIT_LOG_MAX (1u << 20)

/* vgpDevResource: owner of the resources. */
enum vgp_resource_of {
    VGP_RESOURCE_DEVICE = 0,
    VGP_RESOURCE_CONTEXT = 1,
    VGP_RESOURCE_GREEN = 2,
};

/* vgpGraphList: objects to list. */
enum vgp_graph_list {
    VGP_LIST_NODES = 0,        /* of a graph */
    VGP_LIST_ROOTS = 1,        /* nodes of a graph that have no dependencies */
    VGP_LIST_EDGES = 2,        /* of a graph */
    VGP_LIST_DEPENDENCIES = 3, /* of a node */
    VGP_LIST_DEPENDENTS = 4,   /* of a node */
};
/* Operation of a call on a graph node. */
enum vgp_node_op {
    VGP_NODE_ADD = 0,     /* to a graph, after dependencies */
    VGP_NODE_SET = 1,     /* sets parameters of a node */
    VGP_NODE_EXEC = 2,    /* sets parameters of a node's counterpart in an executable graph */
    VGP_NODE_CAPTURE = 3, /* copies only: adds the next node of a capturing stream */
    VGP_NODE_NAME = 4,    /* as ADD; `target` is the new node's guest-minted handle (1.8) */
    VGP_NODE_POST = 5,    /* as NAME, without a reply slot (1.8) */
};
/* Operation on external semaphores. */
enum vgp_extsem_op {
    VGP_EXTSEM_NONE = 0,
    VGP_EXTSEM_SIGNAL = 1,
    VGP_EXTSEM_WAIT = 2,
};
#define VGP_LIST_MAX 160u /* maximum entries of a reply */
/* maximum dependencies of a call; more are added by further calls */
#define VGP_DEPENDENCIES_MAX 2048u
#define VGP_HOST_NODES_UNKNOWN 0xffffffffu

/* vgpRegionRegister flags: CU_MEMHOSTREGISTER_* or CU_MEMHOSTALLOC_* bits relevant to the host. */
#define VGP_REGION_READONLY (1u << 0)

/* vgpHello's features: capabilities of the worker beyond version 1.0. */
#define VGP_FEATURE_NVML (UINT64_C(1) << 0) /* the calls 0x0700 to 0x0702 */
/* the backend keeps images: vgpBlobOffer is worthwhile */
#define VGP_FEATURE_IMAGES (UINT64_C(1) << 1)

/* vgpNvmlInfo flags. */
enum vgp_nvml_flags {
    VGP_NVML_HOST = 1 << 0,   /* the provider has an NVML, queried by vgpNvmlGet */
    VGP_NVML_MEMORY = 1 << 1, /* vgpNvmlUsage reports the memory in use */
    VGP_NVML_SHARED = 1 << 2, /* the memory in use includes that of other VMs */
};

/*
 * vgpNvmlGet: value to query from the host's NVML. Each comment gives the form of the answer: u =
 * unsigned int in `first`, uu = two of them, q = unsigned long long in `first`, s = `text`; +a =
 * the query takes `argument`.
 */
enum vgp_nvml_what {
    VGP_NVML_SERIAL = 1,             /* s */
    VGP_NVML_BRAND = 2,              /* u */
    VGP_NVML_UTILIZATION = 3,        /* uu: gpu, memory; percent */
    VGP_NVML_POWER_USAGE = 4,        /* u: mW */
    VGP_NVML_POWER_LIMIT = 5,        /* u: mW */
    VGP_NVML_POWER_LIMITS = 6,       /* uu: lowest, highest; mW */
    VGP_NVML_POWER_DEFAULT = 7,      /* u: mW */
    VGP_NVML_POWER_ENFORCED = 8,     /* u: mW */
    VGP_NVML_TEMPERATURE = 9,        /* u+a: sensor; degrees C */
    VGP_NVML_TEMPERATURE_LIMIT = 10, /* u+a: threshold; degrees C */
    VGP_NVML_FAN_SPEED = 11,         /* u: percent */
    VGP_NVML_CLOCK = 12,             /* u+a: clock; MHz */
    VGP_NVML_MAX_CLOCK = 13,         /* u+a: clock; MHz */
    VGP_NVML_PSTATE = 14,            /* u */
    VGP_NVML_COMPUTE_MODE = 15,      /* u */
    VGP_NVML_PERSISTENCE = 16,       /* u */
    VGP_NVML_DISPLAY_ACTIVE = 17,    /* u */
    VGP_NVML_DISPLAY_MODE = 18,      /* u */
    VGP_NVML_ECC_MODE = 19,          /* uu: current, pending */
    VGP_NVML_MIG_MODE = 20,          /* uu: current, pending */
    VGP_NVML_ARCHITECTURE = 21,      /* u */
    VGP_NVML_GPU_CORES = 22,         /* u */
    VGP_NVML_BUS_WIDTH = 23,         /* u: bits */
    VGP_NVML_PCIE_GEN = 24,          /* u */
    VGP_NVML_PCIE_WIDTH = 25,        /* u */
    VGP_NVML_PCIE_MAX_GEN = 26,      /* u */
    VGP_NVML_PCIE_MAX_WIDTH = 27,    /* u */
    VGP_NVML_VBIOS = 28,             /* s */
    VGP_NVML_ENERGY = 29,            /* q: mJ */
    VGP_NVML_CLOCK_REASONS = 30,     /* q: bits */
    VGP_NVML_PCI_IDS = 31,           /* uu: device and vendor id, subsystem id */
    VGP_NVML_WHATS = 32,
};

/* Overflow-free range check: [off, off + n) lies inside [0, len). */
static inline int vgp_range_ok(uint64_t off, uint64_t n, uint64_t len)
{
    return off <= len && n <= len - off;
}

#endif
