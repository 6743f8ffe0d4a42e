/* SPDX-License-Identifier: MIT */
/* Translates the numbers in a recorded call's arguments: handles, addresses, tokens, textures. */
#include <stdlib.h>
#include <string.h>

#include "replay/replay.h"
#include "base/vgpu_cli.h"

const struct replay_layout *replay_layout_find(const struct replay_run *r, uint64_t handle)
{
    for (size_t i = r->layout_count; i > 0; i--) { /* handles are reused: the newest counts */
        if (r->layouts[i - 1].handle == handle)
            return &r->layouts[i - 1];
    }
    return NULL;
}

void replay_layout_set(struct replay_run *r, uint64_t handle, const uint32_t *params, uint32_t count)
{
    struct replay_layout *l = (struct replay_layout *)replay_layout_find(r, handle);
    uint32_t *copy = vgpu_cli_alloc(count * sizeof(*params));

    memcpy(copy, params, count * sizeof(*params));
    if (l != NULL) {
        free(l->params);
    } else {
        if (r->layout_count == r->layout_room) {
            r->layout_room = r->layout_room == 0 ? 64 : 2 * r->layout_room;
            r->layouts = realloc(r->layouts, r->layout_room * sizeof(*r->layouts));
            if (r->layouts == NULL)
                vgpu_cli_die("out of memory");
        }
        l = &r->layouts[r->layout_count++];
    }
    *l = (struct replay_layout){handle, (uint16_t)count, copy};
}

/*
 * Replaces opaque bytes issued by the recorded worker; of equal ones the newest counts. False:
 * unknown.
 */
static bool patch_opaque(const struct replay_run *r, uint8_t *bytes, uint32_t size)
{
    for (size_t i = r->opaque_count; i > 0; i--) {
        const struct replay_opaque *o = &r->opaque[i - 1];

        if (o->size == size && memcmp(bytes, o->recorded, size) == 0) {
            memcpy(bytes, o->here, size);
            return true;
        }
    }
    return false;
}

/* A tensor map passed to a kernel is recognised by its bytes. */
static void patch_tensor_maps(const struct replay_run *r, uint8_t *params, uint32_t size)
{
    for (uint32_t at = 0; r->opaque_count != 0 && at + 128 <= size; at += 64)
        patch_opaque(r, params + at, 128);
}

/*
 * Replaces texture and surface objects. A driver may number them from 1, so a small number is
 * replaced only in a parameter of 8 bytes (`alone`); without a known layout only large numbers are.
 */
static void patch_textures(struct replay_run *r, uint8_t *params, uint32_t size, bool alone)
{
    for (uint32_t at = 0; r->map.textures.used != 0 && at + 8 <= size; at += 8) {
        uint64_t v;

        memcpy(&v, params + at, 8);
        if ((alone || v >> 32 != 0) && replay_pairs_find(&r->map.textures, v, &v))
            memcpy(params + at, &v, 8);
    }
}

/* Replaces addresses in kernel parameters: words of parameters that can hold an address. */
static void patch_params(struct replay_run *r, uint64_t func, uint8_t *params, uint32_t size)
{
    const struct replay_layout *l = replay_layout_find(r, func);

    patch_tensor_maps(r, params, size);
    if (l == NULL) {
        patch_textures(r, params, size, false);
        replay_map_words(&r->map, params, size, 0);
        return;
    }
    for (uint32_t i = 0; i < l->count; i++) {
        uint32_t at = l->params[i] >> 16, n = l->params[i] & 0xffff, skew = (8 - at % 8) % 8;

        if (n < 8 + skew || at > size || n > size - at)
            continue;
        patch_textures(r, params + at + skew, n - skew, n == 8);
        replay_map_words(&r->map, params + at, n, skew);
    }
}

static void patch_words(uint8_t *p, uint64_t count, const struct replay_run *r, uint8_t meaning)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t v;
        bool known;

        memcpy(&v, p + 8 * i, 8);
        v = meaning == VGP_MEANS_HANDLE ? replay_map_handle(&r->map, v)
                                        : replay_map_address(&r->map, v, &known);
        memcpy(p + 8 * i, &v, 8);
    }
}

bool replay_patch(struct replay_run *r, uint16_t call, uint8_t *args)
{
    const struct vgp_call_fields *f = vgp_fields_of(call);
    uint64_t at = f->args_fixed, func = 0, dst = 0;
    bool own = true;

    if (call == VGP_vgpLaunch)
        func = ((const struct vgp_args_vgpLaunch *)(const void *)args)->func;
    else if (call == VGP_vgpGraphKernelNode)
        func = ((const struct vgp_args_vgpGraphKernelNode *)(const void *)args)->func;
    else if (call == VGP_vgpCopy)
        dst = ((const struct vgp_args_vgpCopy *)(const void *)args)->dst;
    for (uint32_t i = 0; i < f->in_count; i++) {
        const struct vgp_field *x = &f->in[i];
        bool words = (x->meaning == VGP_MEANS_HANDLE || x->meaning == VGP_MEANS_ADDR) && x->size == 8;
        uint32_t n;

        if (x->form < VGP_FORM_ARRAY) {
            if (words)
                patch_words(args + x->offset, 1, r, x->meaning);
            continue;
        }
        memcpy(&n, args + x->offset, sizeof(n));
        if (words)
            patch_words(args + at, n, r, x->meaning);
        else if (x->meaning == VGP_MEANS_OPAQUE && n != 0)
            own &= patch_opaque(r, args + at, n);
        else if (x->meaning == VGP_MEANS_WORDS && call != VGP_vgpCopy)
            patch_params(r, func, args + at, n);
        else if (x->meaning == VGP_MEANS_WORDS && !r->options.keep_words)
            r->map.data_words += replay_map_words(&r->map, args + at, n, replay_skew(dst));
        at += vgp_pad_to_8((uint64_t)n * x->size);
    }
    return own;
}
