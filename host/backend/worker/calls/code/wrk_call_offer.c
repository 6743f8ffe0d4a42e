/* SPDX-License-Identifier: MIT */
/*
 * Images offered by the client by hash. The broker's image of that hash is mapped and hashed before
 * it is used for the client, so that neither the broker nor another worker controls the code loaded
 * here. Hashing a large image takes long, so it is done on a waiter.
 */
#define _GNU_SOURCE
#include "../calls.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/sha256/sha256.h"
#include <linux/types.h>

#include "vgpu_device.h"

#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW)

struct offer {
    uint32_t id;
    uint64_t size;
    uint8_t *data; /* mapping of `size` bytes and a NUL; NULL: passed to a blob */
    bool right;
    uint8_t hash[SHA_256_BYTES];
};

static CUresult finish_offer(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    struct offer *o = (struct offer *)(uintptr_t)wait->arg[0];
    uint8_t hash[SHA_256_BYTES];

    (void)w;
    if (r != CUDA_SUCCESS)
        return r;
#ifdef MADV_POPULATE_READ
    /* otherwise a fault every few pages; Linux 5.14 */
    madvise(o->data, o->size + 1, MADV_POPULATE_READ);
#endif
    sha_256(o->data, o->size, hash);
    o->right = o->data[o->size] == 0 && !memcmp(hash, o->hash, sizeof(hash));
    return CUDA_SUCCESS;
}

/* None of this is an error of the client: if the image is missing, its bytes follow. */
static CUresult land_offer(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    struct offer *o = (struct offer *)(uintptr_t)wait->arg[0];
    struct vgp_ret_vgpBlobOffer *ret = wrk_bounce_result(w, wait->slot);

    if (r == CUDA_SUCCESS && !o->right)
        vgb_log(VGB_ERROR, "client %s: an image that the broker keeps is not what its hash says", w->label);
    if (r == CUDA_SUCCESS && ret) {
        *ret = (struct vgp_ret_vgpBlobOffer){0};
        ret->there = o->right && wrk_blob_given(w, o->id, o->size, o->data);
        if (ret->there)
            o->data = NULL;
        wait->buffer = ret;
        wait->payload = sizeof(*ret);
    }
    if (o->data)
        munmap(o->data, o->size + 1);
    free(o);
    return r;
}

/* Maps the broker's descriptor, which must be immutable; NULL: not usable. */
static uint8_t *map_sealed(int fd, uint64_t size)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;
    void *p;

    if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) || (uint64_t)st.st_size != size + 1)
        return NULL;
    p = mmap(NULL, size + 1, PROT_READ, MAP_PRIVATE, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Takes the descriptor over. False: the client has to send the bytes. */
static bool start_check(struct wrk_call *c, const struct vgp_args_vgpBlobOffer *a, const void *hash, int fd)
{
    uint8_t *data = map_sealed(fd, a->totalSize);
    struct offer *o = data ? calloc(1, sizeof(*o)) : NULL;
    struct wrk_wait *wait = o ? wrk_wait_long(c, finish_offer, land_offer) : NULL;

    close(fd);
    if (!wait) {
        if (data)
            munmap(data, a->totalSize + 1);
        free(o);
        return false;
    }
    *o = (struct offer){.id = a->blobId, .size = a->totalSize, .data = data};
    memcpy(o->hash, hash, sizeof(o->hash));
    wait->arg[0] = (uintptr_t)o;
    wrk_wait_start(c, wait);
    return true;
}

CUresult wrk_do_vgpBlobOffer(struct wrk_call *c, const struct vgp_args_vgpBlobOffer *a, const void *hash,
                             struct vgp_ret_vgpBlobOffer *r)
{
    struct vgb_msg m;
    int fd;

    if (a->hash_len != SHA_256_BYTES || a->totalSize < VGP_BLOB_OFFER || a->totalSize > VGP_BLOB_MAX)
        return wrk_malformed(c, "an image of %llu bytes with a hash of %u", (unsigned long long)a->totalSize,
                             a->hash_len);
    if (wrk_blob_known(c->w, a->blobId))
        return wrk_malformed(c, "blob %u is there already", a->blobId);
    r->there = 0;
    /* An image too large is refused with a reason when its bytes arrive. */
    if (!c->w->images || (wrk_client_limits.image && a->totalSize > wrk_client_limits.image))
        return CUDA_SUCCESS;
    fd = wrk_control_image(c->w, hash, a->totalSize, &m);
    if (fd < 0)
        return CUDA_SUCCESS;
    if (m.status == VGPU_S_OK)
        start_check(c, a, hash, fd);
    else if (!wrk_blob_fill(c->w, a->blobId, a->totalSize, fd, m.value))
        wrk_control_image_filled(c->w, m.value, false);
    return CUDA_SUCCESS;
}
