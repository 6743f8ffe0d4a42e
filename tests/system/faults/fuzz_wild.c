// SPDX-License-Identifier: MIT
/*
 * Well-formed calls with addresses, images and handles that do not belong to the client: refused,
 * and the worker lives.
 */
#include "fuzz.h"

#include <string.h>

static char detail[200];

/* Opens a client with the primary context of device 0 current. */
static const char *with_context(struct raw *r)
{
    struct vgp_args_vgpPrimaryCtxRetain retain = {.context = VGP_HANDLE(VGP_H_CONTEXT, 1, 1)};

    if (raw_open(r, fuzz_path))
        return "no client";
    if (raw_call(r, VGP_vgpPrimaryCtxRetain, &retain, sizeof(retain), NULL, 0))
        return "no context";
    r->context = retain.context;
    return NULL;
}

/* Addresses of the worker's own memory, passed as device memory: never read or written. */
static const char *wild_copies(void)
{
    static const uint64_t wild[] = {0x400000, 0x401000, 0x600000, 0x7fffffffe000, 0x7ffff7ff0000, 8};
    struct vgp_args_cuMemAlloc_v2 alloc = {.bytesize = 65536};
    struct vgp_ret_cuMemAlloc_v2 got = {0};
    struct raw r;
    const char *what = with_context(&r);

    if (!what && raw_call(&r, VGP_cuMemAlloc_v2, &alloc, sizeof(alloc), &got, sizeof(got)))
        what = "no memory";
    for (unsigned i = 0; !what && i < sizeof(wild) / sizeof(wild[0]); i++) {
        struct vgp_args_vgpCopy k = {.dstKind = VGP_COPY_DEVICE,
                                     .srcKind = VGP_COPY_DEVICE,
                                     .dst = got.dptr,
                                     .src = wild[i],
                                     .widthBytes = 64,
                                     .height = 1,
                                     .depth = 1,
                                     .when = VGP_WHEN_COMPLETE};
        if (raw_call(&r, VGP_vgpCopy, &k, sizeof(k), NULL, 0) == 0)
            what = "read from an address that is not device memory";
        k.dst = wild[i];
        k.src = got.dptr;
        if (!what && raw_call(&r, VGP_vgpCopy, &k, sizeof(k), NULL, 0) == 0)
            what = "write to an address that is not device memory";
        if (!what && raw_is_dead(&r))
            what = "the worker died of it";
    }
    raw_close(&r);
    return what;
}

/* Images that point elsewhere or claim more bytes than they have: refused, and the worker lives. */
static const char *wild_images(void)
{
    static const char *const names[] = {"wrapper", "fatbin", "elf", "second fatbin"};
    struct raw r;
    const char *what = with_context(&r);

    for (unsigned i = 0; !what && i < 4; i++) {
        struct {
            struct vgp_args_vgpModuleLoad a;
            uint8_t image[64];
        } load = {.a = {.module = VGP_HANDLE(VGP_H_MODULE, 1, 1 + i), .image_size = 64, .image_len = 64}};
        const uint64_t wrapper[] = {0x1466243b1ull, 0x400000, 0};
        const uint64_t fatbin[] = {0x00100001ba55ed50ull, 1ull << 40};
        const uint64_t elf[] = {0x10102464c457full, 0, 0, 0, 0, 1ull << 40, 0, 0x40ull << 48 | 4ull << 32};
        const uint64_t list[] = {0x00100001ba55ed50ull, 0, 0x00100001ba55ed50ull, 1ull << 40};
        const void *const image[] = {wrapper, fatbin, elf, list};
        const size_t size[] = {sizeof(wrapper), sizeof(fatbin), sizeof(elf), sizeof(list)};

        memcpy(load.image, image[i], size[i]);
        if (raw_call(&r, VGP_vgpModuleLoad, &load, sizeof(load), NULL, 0) != 200) {
            snprintf(detail, sizeof(detail), "%s: not refused as an invalid image", names[i]);
            what = detail;
        }
    }
    raw_close(&r);
    return what;
}

/* Texture references of another type, not destroyable by the client, or ended with their module. */
static const char *wild_texrefs(void)
{
    static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n.global .texref t;\n"
                              ".visible .entry k()\n{\nret;\n}\n";
    const uint64_t module = VGP_HANDLE(VGP_H_MODULE, 1, 1), ref = VGP_HANDLE(VGP_H_TEXTURE, 1, 1);
    struct {
        struct vgp_args_vgpModuleLoad a;
        uint8_t image[160];
    } load = {.a = {.module = module, .image_size = sizeof(ptx), .image_len = sizeof(ptx)}};
    struct {
        struct vgp_args_vgpModuleGetTexRef a;
        char name[8];
    } get = {.a = {.ref = ref, .module = module, .name_len = 2}, .name = "t"};
    struct vgp_args_cuTexRefSetArray bind = {.hTexRef = ref, .hArray = module, .Flags = 1};
    struct vgp_args_cuTexRefDestroy destroy = {.hTexRef = ref};
    struct vgp_args_cuTexRefGetFlags flags = {.hTexRef = module};
    struct vgp_args_cuModuleUnload unload = {.hmod = module};
    struct vgp_ret_cuTexRefGetFlags got;
    struct raw r;
    const char *what = with_context(&r);
    const size_t load_size = (sizeof(load.a) + sizeof(ptx) + 15) / 16 * 16;

    memcpy(load.image, ptx, sizeof(ptx));
    if (!what && raw_call(&r, VGP_vgpModuleLoad, &load, (uint32_t)load_size, NULL, 0))
        what = "no module";
    if (!what && raw_call(&r, VGP_vgpModuleGetTexRef, &get, sizeof(get), NULL, 0))
        what = "no reference";
    if (!what && raw_call(&r, VGP_cuTexRefSetArray, &bind, sizeof(bind), NULL, 0) != 400)
        what = "a module bound as an array";
    if (!what && raw_call(&r, VGP_cuTexRefDestroy, &destroy, sizeof(destroy), NULL, 0) != 1)
        what = "a module's reference destroyed";
    if (!what && raw_call(&r, VGP_cuTexRefGetFlags, &flags, sizeof(flags), &got, sizeof(got)) != 1)
        what = "a module taken for a reference";
    if (!what && raw_call(&r, VGP_cuModuleUnload, &unload, sizeof(unload), NULL, 0))
        what = "the module is not unloaded";
    flags.hTexRef = ref;
    if (!what && raw_call(&r, VGP_cuTexRefGetFlags, &flags, sizeof(flags), &got, sizeof(got)) != 1)
        what = "a reference outlives its module";
    if (!what && raw_is_dead(&r))
        what = "the worker died of it";
    raw_close(&r);
    return what;
}

void fuzz_wild(void)
{
    fuzz_result("wild_copies", wild_copies());
    fuzz_result("wild_images", wild_images());
    fuzz_result("wild_texrefs", wild_texrefs());
}
