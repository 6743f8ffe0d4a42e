/* SPDX-License-Identifier: MIT */
/* Steps of fuzz_dispatch that single calls seldom make together: images by their hashes, captures of calls without a reply. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dispatch.h"
#include "lib/sha256/sha256.h"
#include "vgb_fd.h"
#include "vgb_msg.h"
#include "vgp_calls.h"
#include "vgp_fields.h"
#include "vgpu_device.h"

#define PIECE 32768u

/* PTX of a module, and blanks. */
static const uint8_t *large_image(void)
{
    static uint8_t large[FZ_IMAGE_SIZE + 1];

    if (!large[0]) {
        memset(large, ' ', FZ_IMAGE_SIZE);
        memcpy(large, fz_image, strlen(fz_image));
    }
    return large;
}

static uint8_t image_answer; /* to the next question for an image; the input decides */

void fz_answer_image(int broker, const struct vgb_msg *m)
{
    const unsigned how = image_answer % 8;
    struct vgb_msg a = {.type = VGB_M_IMAGE, .length = m->length, .status = how < 4 ? 0 : VGPU_S_INVALID};
    int fd = how == 7 ? -1 : memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd >= 0 && ftruncate(fd, (off_t)(m->length < 2 * FZ_IMAGE_SIZE ? m->length : 0) + (how != 3)))
        _exit(0);
    if (how < 4) { /* kept: rightly, with other bytes, not sealed, too short */
        if (pwrite(fd, large_image() + (how == 1), FZ_IMAGE_SIZE, 0) < 0)
            _exit(0);
        if (how == 3 && ftruncate(fd, FZ_IMAGE_SIZE))
            _exit(0);
        if (how != 2)
            fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    } else if (how < 7) {
        a.value = 17 + how;
    }
    vgb_msg_send(broker, &a, fd >= 0 ? &fd : NULL, fd >= 0, 0);
    vgb_close(&fd);
}

/* Offers an image by its hash or a wrong hash, then sends some or all of its bytes, even if it is already
   known. */
void fz_offer(void)
{
    static struct {
        struct vgp_args_vgpBlobAppend a;
        uint8_t data[PIECE];
    } append;
    struct {
        struct vgp_args_vgpBlobOffer a;
        uint8_t hash[SHA_256_BYTES];
    } o = {.a = {.blobId = 1 + fz_byte() % 4, .totalSize = FZ_IMAGE_SIZE, .hash_len = SHA_256_BYTES}};
    uint32_t b = fz_byte(), slot = fz_byte() % 64, pieces = b >> 4 & 3;

    sha_256(large_image(), FZ_IMAGE_SIZE, o.hash);
    image_answer = b & 1 ? (uint8_t)fz_byte() : 0;
    o.hash[0] ^= b & 2;
    if ((b & 12) == 12)
        o.a.totalSize = fz_number(8);
    fz_put(VGP_vgpBlobOffer, &o, sizeof(o), slot, 0);
    if (b & 128)
        fz_replied(slot);
    for (uint32_t i = 0; i < pieces; i++) {
        const uint32_t at = i * PIECE, n = FZ_IMAGE_SIZE - at < PIECE ? FZ_IMAGE_SIZE - at : PIECE;

        append.a =
            (struct vgp_args_vgpBlobAppend){.blobId = o.a.blobId, .totalSize = FZ_IMAGE_SIZE, .data_len = n};
        memcpy(append.data, large_image() + at, n);
        fz_put(VGP_vgpBlobAppend, &append, (uint32_t)sizeof(append.a) + n, VGP_NO_REPLY, 0);
    }
}

/* A stream captures calls without a reply, and mostly ends its capture; refused calls invalidate it. */
void fz_capture(void)
{
    static const uint16_t posts[] = {
        VGP_vgpLaunch,         VGP_cuMemsetD8Async,   VGP_cuMemsetD32Async,       VGP_vgpCopy,
        VGP_cuEventRecord,     VGP_cuStreamWaitEvent, VGP_cuMemFreeAsync,         VGP_vgpCapturedHostFunc,
        VGP_vgpStreamMemOps,   VGP_cuGraphLaunch,     VGP_cuEventRecordWithFlags, VGP_cuStreamWaitValue32_v2,
        VGP_cuStreamDestroy_v2};
    uint32_t b = fz_byte(), slot = fz_byte() % 64;
    const uint64_t ctx = fz_context();
    struct vgp_args_vgpStreamBeginCapture begin = {.stream = fz_pick(VGP_H_STREAM, ROLE_USE)};
    const struct vgp_args_vgpStreamEndCapture end = {.stream = begin.stream};

    if (b & 1)
        begin.graph = fz_pick(VGP_H_GRAPH, ROLE_USE);
    fz_put(VGP_vgpStreamBeginCapture, &begin, sizeof(begin), slot, ctx);
    if (!fz_replied(slot))
        return;
    fz_posting = true;
    for (uint32_t i = 0; i < (b >> 1) % 8; i++) {
        const uint32_t which = fz_byte();

        fz_call(which < 224 ? posts[which % (sizeof(posts) / sizeof(posts[0]))]
                            : call_numbers[(fz_byte() | fz_byte() << 8) % n_call_numbers]);
    }
    fz_posting = false;
    if (b >= 240)
        return;
    fz_put(VGP_vgpStreamEndCapture, &end, sizeof(end), slot, ctx);
    if (fz_replied(slot))
        fz_learn(vgp_fields_of(VGP_vgpStreamEndCapture), slot);
}

void fz_map(int broker, int guest_memory, uint32_t id, uint32_t b)
{
    struct vgb_msg m = {.type = VGB_M_MAP,
                        .region = id,
                        .va = FZ_REGION_VA + id * 65536ull,
                        .nruns = 2,
                        .length = 32768,
                        .flags = b & 1 ? VGB_MAP_READONLY : 0};

    for (unsigned i = 0; i < 2; i++)
        m.runs[i] = (struct vgb_run){.page = 4096, .offset = (id * 4 + i) * 16384ull, .length = 16384};
    if (b & 2)
        m.va = FZ_REGION_VA; /* over another one */
    if (b & 4)
        m.runs[1].length = fz_number(8);
    vgb_msg_send(broker, &m, &guest_memory, 1, 0);
}

const struct handle_field *fz_handle_of(uint16_t call, const char *name)
{
    for (const struct handle_field *f = handle_fields; f->call; f++) {
        if (f->call == call && !strcmp(f->name, name))
            return f;
    }
    return NULL;
}
