/* SPDX-License-Identifier: MIT */
/*
 * Handlers of the driver API, by area: context/, code/, memory/ and this folder. Their prototypes
 * are generated (vgp_worker.h); this header has the functions shared between areas, and the
 * filters.
 */
#ifndef WRK_CALLS_H
#define WRK_CALLS_H

#include "graph/graph.h"
#include "vgp_worker.h"

/* ---- the filters of this floor ---- */

/* Counts device memory in front of the provider's allocation functions, even without a limit: NVML
 * shows each client's usage. */
void wrk_memory_filter(struct wrk_worker *w, struct vgp_provider *table, const struct vgp_provider *below);
/* Bookkeeping of interprocess handles in front of the calls that end the shared objects. */
void wrk_ipc_filter(struct wrk_worker *w, struct vgp_provider *table, const struct vgp_provider *below);
/* The same for pools shared between processes. */
void wrk_pool_filter(struct wrk_worker *w, struct vgp_provider *table, const struct vgp_provider *below);

/* ---- context/ ---- */

/* Makes a green context of the primary context; `base`: the guest's handle of that, 0: it is not retained. */
CUresult wrk_green_make(struct wrk_call *c, const struct vgp_args_vgpGreenCtxCreate *a, uint64_t base,
                        CUcontext base_ctx);
/*
 * Green contexts of a primary context that is about to end. _leave() removes them from the client;
 * the rest ends on the waiter that ends the primary context: _end() before that, _gone() after it.
 * To be freed; NULL: none, or no memory.
 */
struct wrk_greens_left;
struct wrk_greens_left *wrk_greens_leave(struct wrk_worker *w, uint64_t base);
void wrk_greens_end(const struct wrk_greens_left *left);
void wrk_greens_gone(const struct wrk_greens_left *left);
/* Drops streams, events, modules etc. of a context that ends; `context`: its handle. */
void wrk_drop_owned(struct wrk_worker *w, uint64_t context);

/* ---- memory/ ---- */

/* A call may have used memory that is not accounted by calls: the next usage query must not be
 * cached. */
void wrk_provider_took(void);
/* Drops IPC state of an ended context, both opened and exported. */
void wrk_ipc_context_gone(struct wrk_worker *w, CUcontext ctx);
/*
 * For a call of the provider that needs a context, made for a client that has none current: makes one of the client's
 * contexts current, or the device's primary context, retained until it is returned (which may take half a second); while
 * that is ending, one made for the call.
 * Whatever this answers, wrk_context_return() is to be called. OUT_OF_MEMORY: the quota.
 */
struct wrk_lent_context {
    int retained;   /* device; -1: none */
    CUcontext made; /* NULL: none */
};
CUresult wrk_context_lend(struct wrk_worker *w, int device, struct wrk_lent_context *lent);
void wrk_context_return(struct wrk_worker *w, const struct wrk_lent_context *lent);
/* Notes a new pool that may be exported, which one without handle types may not; if out of memory it cannot be. */
void wrk_share_note_pool(CUmemoryPool pool, uint32_t handle_types);

/* ---- wrk_call_nvml.c ---- */

/* A text of the host's NVML, by the function that gives it: terminated, empty where there is none; room: bytes, not 0. */
void wrk_nvml_text(const char *function, char *to, size_t room);
/* VGP_NVML_*, once a text was asked for. */
uint32_t wrk_nvml_flags(const struct wrk_worker *w);
/* The provider's cuDriverGetVersion. */
int wrk_cuda_version(void);
/* Memory of this process on all devices according to the host's NVML, bytes; 0: unknown. */
uint64_t wrk_nvml_own_memory(void);

/* ---- code/ ---- */

/* Makes *map by the provider's function for a->form, or changes the address in it. The arrays are those of the
 * call with room for the highest rank: the provider reads as many elements as the rank says. */
CUresult wrk_tensor_map_encode(struct wrk_call *c, const struct vgp_args_vgpTensorMapEncode *a,
                               const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                               const uint32_t *steps, const int32_t *lower, const int32_t *upper,
                               CUtensorMap *map);
/* Drops the texture objects of a context that ends. */
void wrk_textures_end(struct wrk_worker *w, uint64_t context);
/* Ends the link states of a context that is about to end and is current. */
void wrk_links_end(struct wrk_worker *w, uint64_t context);

/* Decodes launch attributes; NOT_SUPPORTED for attributes that are not plain data. */
#define WRK_LAUNCH_ATTRIBUTES_MAX 33u /* 32 on the wire, plus one encoded as a flag */
CUresult wrk_launch_attributes(struct wrk_call *c, CUlaunchAttribute *attrs, const uint32_t *ids, uint32_t n,
                               const void *values, uint32_t value_bytes);

/* JIT options in the provider's form, with room for the two logs. */
#define WRK_JIT_OPTIONS 32u
struct wrk_jit {
    unsigned n;
    CUjit_option options[WRK_JIT_OPTIONS + 4];
    void *values[WRK_JIT_OPTIONS + 4];
};
/* Copies options with plain numeric values; INVALID_VALUE for all else. */
CUresult wrk_jit_options(struct wrk_call *c, struct wrk_jit *j, const uint32_t *ids, uint32_t n,
                         const uint64_t *values, uint32_t nvalues);
/* Adds a log buffer, which must stay valid as long as the provider may write to it. */
void wrk_jit_log(struct wrk_jit *j, bool error, char *buffer, uint32_t size);

/* Checks an image from the wire and adds padding behind it; *copy is to be freed by the caller. *size becomes what lies at
 * *image then: of several fat binaries, that of what points to them.
 * INVALID_IMAGE, with a detail for the trace, if it claims more bytes than were sent. */
CUresult wrk_image_take(struct wrk_call *c, const void **image, uint64_t *size, bool is_blob, void **copy);

/* ---- what the steps of calls need (vgp_worker.c) ---- */

/* wrk_call_session.c: a device's attribute as the guest is shown it. */
int wrk_attribute_shown(uint32_t attribute, int value);

/* code/wrk_call_module.c: notes what the two below then store; *out has room for the call's maximum, the result is the number. */
CUresult wrk_function_describe(CUfunction f);
/*
 * NVIDIA's driver knows a kernel's parameters where a context is current (seen with 580); the program may have none.
 */
CUresult wrk_kernel_describe(struct wrk_call *c, CUkernel k, int device);
uint32_t wrk_function_attributes(int32_t *out);
uint32_t wrk_param_layout(uint32_t *out);

/* code/wrk_call_load.c, code/wrk_call_jit.c: the call is deferred, and makes the handle, which is reserved, when it lands. */
struct wrk_load;
/* Checks the image and takes it over. */
CUresult wrk_load_new(struct wrk_call *c, uint64_t handle, unsigned type, const void *image, uint64_t size,
                      bool is_blob, struct wrk_load **out);
/* want_logs: the reply has them. */
CUresult wrk_load_plain(struct wrk_call *c, uint64_t handle, unsigned type, const void *image, uint64_t size,
                        bool is_blob, bool want_logs);
/* Takes the load over. log: id of the logs, of `info` and `error` bytes. */
CUresult wrk_load_jit(struct wrk_call *c, struct wrk_load *load, const uint32_t *ids, uint32_t n,
                      const uint64_t *values, uint32_t nvalues, uint32_t log, uint32_t info, uint32_t error);
/* A log of a completed load, *total bytes; NULL and 0: not wanted. which: 0 info, 1 error. */
CUresult wrk_jit_log_text(uint32_t id, uint32_t which, const char **text, uint32_t *total);
void wrk_jit_log_drop(uint32_t id); /* 0 or unknown: nothing */

/* code/wrk_call_texture.c: surface 0: a texture object, 1: a surface object. */
bool wrk_texture_known(uint64_t object, uint32_t surface);
CUresult wrk_texture_destroyed(struct wrk_worker *w, uint64_t object, uint32_t surface);

/* code/wrk_call_link.c: the result of a link that no call is about, *size bytes, and a log, *total bytes; NULL and 0: none. */
CUresult wrk_link_result(struct wrk_call *c, uint64_t state, const uint8_t **result, uint64_t *size);
CUresult wrk_link_log(struct wrk_call *c, uint64_t state, uint32_t which, const char **text, uint32_t *total);

/* context/wrk_call_stream.c */
CUresult wrk_memory_operations_known(const CUstreamBatchMemOpParams *list, uint32_t n);
/* The addresses are device addresses; sizes in bytes; actual: where the device writes the size, 0: nowhere. */
CUmemDecompressParams wrk_decompression(uint64_t src, uint64_t src_bytes, uint64_t dst, uint64_t dst_bytes,
                                        uint64_t actual, uint32_t algorithm);
/* Attributes of streams whose value is plain data. */
bool wrk_stream_attribute(uint32_t id);

/* context/wrk_call_green.c: keeps a resource and returns its number; asked: the answer to a query, whose number is given again. */
uint64_t wrk_resource_keep(const CUdevResource *r, bool asked);
/* The resource of a number, until the next one is kept; NULL: unknown, as the guest is told. */
const CUdevResource *wrk_resource_kept(struct wrk_call *c, uint64_t id);
CUresult wrk_resources_kept(struct wrk_call *c, CUdevResource *out, const uint64_t *ids, uint32_t n);
/* From five words for each group; out: as many groups. */
CUresult wrk_resource_groups(struct wrk_call *c, CU_DEV_SM_RESOURCE_GROUP_PARAMS *out, const uint32_t *words,
                             uint32_t nwords);
/* Upper bound of multiprocessor numbers, whatever the provider reports. */
uint16_t wrk_resource_narrow(unsigned n);

/* memory/wrk_call_vmm.c, memory/wrk_call_ipc.c */
uint32_t wrk_allocation_handle_types(struct wrk_call *c, uint64_t handle);
/* The broker's token, VGB_TOKEN bytes, of memory or of a pool made to be exported; NULL: it was not. */
const uint8_t *wrk_allocation_token(struct wrk_call *c, uint64_t handle);
const uint8_t *wrk_pool_token(CUmemoryPool pool);
/* memory/wrk_call_ipc.c, where the broker keeps the provider's handles: each puts the guest's handle in the place of the provider's;
 * open_kept opens memory by a handle of the guest. */
CUresult wrk_ipc_give_memory(struct wrk_call *c, CUdeviceptr p, CUipcMemHandle *handle);
CUresult wrk_ipc_give_event(struct wrk_call *c, CUevent event, CUipcEventHandle *handle);
/* Puts the provider's handle in the place of the guest's; the token is wrk_ipc_event_opened()'s, which returns the result r
 * of opening it. */
CUresult wrk_ipc_event_real(struct wrk_call *c, CUipcEventHandle *handle, uint8_t token[VGB_TOKEN]);
CUresult wrk_ipc_event_opened(struct wrk_call *c, const uint8_t token[VGB_TOKEN], const CUevent *event,
                              CUresult r);
CUresult wrk_ipc_open_kept(struct wrk_call *c, const CUipcMemHandle *handle, uint32_t flags, CUdeviceptr *p);
/* Bytes of the allocation around an address; 0: none. */
uint64_t wrk_allocation_size(CUdeviceptr p);
/* Memory of the host's processors is not counted by any quota, and what is exported by anything but
 * the broker's memory could leave the VM: both are refused, whatever the provider can do. */
CUresult wrk_memory_prop_check(struct wrk_call *c, uint32_t handle_types, uint32_t location);

/* memory/wrk_call_multicast.c */
CUmulticastObjectProp wrk_multicast_prop(uint32_t devices, uint64_t size, uint64_t flags);
/* An object that other processes could open would leave the VM. */
CUresult wrk_multicast_prop_check(struct wrk_call *c, uint64_t handle_types);
/* INVALID_VALUE unless the handle is a multicast object of the client. */
CUresult wrk_multicast_check(struct wrk_call *c, uint64_t handle);
void wrk_multicast_added(struct wrk_call *c, uint64_t handle, int32_t device);
void wrk_multicast_unbound(struct wrk_call *c, uint64_t handle, int32_t device, uint64_t offset,
                           uint64_t size);

/* ---- context/wrk_call_watch.c: events and streams that the guest has asked for; dispatcher ---- */

/* Number of watches not complete at the last poll. */
extern unsigned wrk_watches;
/* Time of the last poll. */
extern uint64_t wrk_watched_ns;
/*
 * Answers a query with `a`; of work that is not complete it stores the completion in `word` of the
 * window as `sequence`. Ends a watch of another object that uses the word.
 */
CUresult wrk_watch_begin(struct wrk_call *c, uint64_t handle, uint32_t word, uint32_t sequence,
                         struct wrk_answer a);
/* Polls watches and tells the guest of complete ones. True while any are left. */
bool wrk_watches_poll(struct wrk_worker *w, uint64_t now);
/* Before the dispatcher sleeps: ends all watches; the guest has to ask again. */
void wrk_watches_end(struct wrk_worker *w);

#endif
