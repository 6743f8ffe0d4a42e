/* SPDX-License-Identifier: MIT */
/* Calls that the library makes ahead of a call of the program: for room in a stream, and to send data
 * that is larger than a record. */
#include "core.h"

#include "../../../lib/sha256/sha256.h"
#include "vgp_guest.h"

/* ---- room ---- */

/* Resets the counts of streams that are idle or destroyed. */
static void look_for_idle(uint32_t context, uint32_t but)
{
    for (int i = 0; i < 4; i++) {
        uint64_t stream = 0;
        uint32_t place = vcu_room_suspect(context, but, &stream);

        if (place == UINT32_MAX)
            return;
        if (!vgp_handle_live(stream, VGP_H_STREAM) ||
            vgp_call_cuStreamQuery((CUstream)(uintptr_t)stream) != CUDA_ERROR_NOT_READY)
            vcu_room_idle(place, context);
    }
}

void vcu_make_room(uint64_t stream, uint32_t place, uint32_t context)
{
    uint32_t marked;

    look_for_idle(context, place);
    marked = vcu_room_mark_begin(place);
    vgp_call_vgpStreamThrottle((CUstream)(uintptr_t)stream); /* errors are for the work itself */
    vcu_room_mark_end(place, context, marked);
}

/*
 * ---- data that is larger than a record: images of programs ----
 *
 * The hash of an image is offered first: if the backend has the image, no byte of it is sent.
 */

_Atomic uint64_t vcu_image_bytes_sent, vcu_image_bytes_spared;

/* A recording must contain the data that its replay needs. */
static bool may_offer(uint64_t size)
{
    return (vcu.worker_features & VGP_FEATURE_IMAGES) != 0 && vcu.worker_minor >= 7 &&
           size >= VGP_BLOB_OFFER && vcu.ring.tap == NULL;
}

/* True: the worker has all of it. Errors are for the call that sends or uses it. */
static bool offer_image(uint32_t id, const void *data, uint64_t size)
{
    uint8_t hash[SHA_256_BYTES];
    uint32_t there = 0;

    if (!may_offer(size))
        return false;
    sha_256(data, size, hash);
    return vgp_call_vgpBlobOffer(id, size, hash, sizeof(hash), &there) == CUDA_SUCCESS && there == 1;
}

static CUresult send_pieces(uint32_t id, const uint8_t *p, uint64_t size)
{
    for (uint64_t done = 0; done < size;) {
        uint32_t part = size - done < VGP_BLOB_CHUNK ? (uint32_t)(size - done) : VGP_BLOB_CHUNK;
        CUresult res = vgp_call_vgpBlobAppend(id, size, p + done, part);

        if (res != CUDA_SUCCESS) {
            if (done != 0)
                vgp_call_vgpBlobDrop(id);
            return res;
        }
        done += part;
        atomic_fetch_add_explicit(&vcu_image_bytes_sent, part, memory_order_relaxed);
    }
    return CUDA_SUCCESS;
}

CUresult vcu_blob_send(const void *data, uint64_t size, uint32_t *blob_id)
{
    static _Atomic uint32_t last_id;
    uint32_t id = atomic_fetch_add(&last_id, 1) + 1;
    CUresult res = CUDA_SUCCESS;

    if (size > VGP_BLOB_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (id == 0)
        id = atomic_fetch_add(&last_id, 1) + 1;
    if (offer_image(id, data, size))
        atomic_fetch_add_explicit(&vcu_image_bytes_spared, size, memory_order_relaxed);
    else
        res = send_pieces(id, data, size);
    if (res == CUDA_SUCCESS)
        *blob_id = id;
    return res;
}
