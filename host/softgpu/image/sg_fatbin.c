/* SPDX-License-Identifier: MIT */
/*
 * The fat binary container: chooses the PTX to run, or a cubin for its metadata, and unpacks it.
 * NVIDIA does not document the format; this relies on observations of files made by nvcc 11 to 13:
 *
 *   container  u32 0xBA55ED50, u16 version 1, u16 header size, u64 bytes that follow the header
 *   entry      u16 kind (1 PTX, 2 ELF), u16 0x0101, u32 header size, u64 payload size,
 *              u32 compressed size (0: stored), u32 options offset, u16 minor, u16 major,
 *              u32 architecture, u32 name offset, u32 name length, u64 flags, u64 0,
 *              u64 uncompressed size; then the options, then the payload
 *   flags      0x2000 LZ4 (one raw block), 0x8000 zstd (one frame)
 */
#include <lz4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "image/image.h"

#define FATBIN_MAGIC 0xBA55ED50u
#define FATBIN_HEADER 16u
#define ENTRY_HEADER 64u
#define ENTRY_HEADER_MAX 4096u /* known headers have 64 to 112 bytes */
#define KIND_PTX 1
#define KIND_ELF 2
#define FLAG_LZ4 0x2000u
#define FLAG_ZSTD 0x8000u

struct entry {
    unsigned kind, arch;
    const uint8_t *payload;
    uint64_t payload_size;
    uint32_t packed_size;
    uint64_t flags, full_size;
};

static uint16_t get16(const uint8_t *p)
{
    uint16_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static uint32_t get32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static uint64_t get64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

/* Reads the entry at *pos and advances; false when it does not fit into size bytes. */
static bool next_entry(const uint8_t *data, uint64_t size, uint64_t *pos, struct entry *e)
{
    const uint8_t *p = data + *pos;
    uint64_t left = size - *pos;

    if (left < ENTRY_HEADER)
        return false;
    uint32_t header = get32(p + 4);

    e->kind = get16(p);
    e->payload_size = get64(p + 8);
    e->packed_size = get32(p + 16);
    e->arch = get32(p + 28);
    e->flags = get64(p + 40);
    e->full_size = get64(p + 56);
    if (header < ENTRY_HEADER || header > ENTRY_HEADER_MAX || header > left ||
        e->payload_size > left - header || e->packed_size > e->payload_size)
        return false;
    e->payload = p + header;
    *pos += header + e->payload_size;
    return true;
}

/* Prefers the highest target that the device has, then the lowest above it. */
static bool better_target(unsigned arch, unsigned than, unsigned cc)
{
    if (!than)
        return true;
    if (arch <= cc)
        return than > cc || arch > than;
    return than > cc && arch < than;
}

/*
 * Shrinks a buffer to the image's length plus at most an eighth. Not with realloc(): if mremap() is
 * refused, as in workers, realloc() keeps large blocks as they are.
 */
static CUresult drop_padding(struct sg_image *img, uint64_t unpacked)
{
    char *text;

    if (unpacked - img->len <= unpacked / 8)
        return CUDA_SUCCESS;
    text = malloc(img->len + 1);
    if (!text) {
        sg_image_free(img);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(text, img->text, img->len + 1);
    free(img->text);
    img->text = text;
    return CUDA_SUCCESS;
}

static CUresult unpack_entry(const struct entry *e, struct sg_unpack *u, struct sg_image *out)
{
    uint64_t full = e->full_size && e->packed_size ? e->full_size : e->payload_size;
    bool ok;

    if (full > SG_PTX_TEXT_MAX)
        return sg_fail(CUDA_ERROR_INVALID_IMAGE, "fat binary: code of %llu bytes is too large",
                       (unsigned long long)full);
    if (full > u->left)
        return sg_fail(CUDA_ERROR_INVALID_IMAGE, "fat binaries: all code together is larger than %u bytes",
                       SG_PTX_TEXT_MAX);
    u->left -= full;
    out->text = malloc(full + 1);
    if (!out->text)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!e->packed_size) {
        memcpy(out->text, e->payload, full);
        ok = true;
    } else if (e->flags & FLAG_ZSTD) {
        ok = ZSTD_decompress(out->text, full, e->payload, e->packed_size) == full;
    } else if ((e->flags & FLAG_LZ4) && e->packed_size <= LZ4_MAX_INPUT_SIZE) {
        ok = LZ4_decompress_safe((const char *)e->payload, out->text, (int)e->packed_size, (int)full) ==
             (int)full;
    } else {
        ok = false;
    }
    if (!ok) {
        sg_image_free(out);
        return sg_fail(CUDA_ERROR_INVALID_IMAGE, "fat binary: code for sm_%u does not unpack (flags 0x%llx)",
                       e->arch, (unsigned long long)e->flags);
    }
    out->text[full] = '\0';
    out->is_elf = e->kind == KIND_ELF;
    out->len = out->is_elf ? full : strlen(out->text); /* the size counts a NUL and padding */
    out->target = e->arch;
    return drop_padding(out, full);
}

static void note_target(char *has, size_t cap, const struct entry *e)
{
    size_t n = strlen(has);

    snprintf(has + n, cap - n, "%s%s %u", n ? ", " : "", e->kind == KIND_PTX ? "PTX" : "SASS", e->arch);
}

CUresult sg_fatbin_load(const uint8_t *data, size_t max, int cc, struct sg_unpack *u, struct sg_image *out)
{
    struct entry e, best = {0}, sass = {0};
    uint64_t size, pos;

    memset(out, 0, sizeof(*out));
    if (max < FATBIN_HEADER || get32(data) != FATBIN_MAGIC || get16(data + 4) != 1 ||
        get16(data + 6) < FATBIN_HEADER)
        return sg_fail(CUDA_ERROR_INVALID_IMAGE, "fat binary: header is not one that is known");
    pos = get16(data + 6);
    size = get64(data + 8);
    if (pos > max || size > max - pos)
        return sg_fail(CUDA_ERROR_INVALID_IMAGE, "fat binary: truncated");
    size += pos;
    while (pos < size) {
        if (!next_entry(data, size, &pos, &e))
            return sg_fail(CUDA_ERROR_INVALID_IMAGE, "fat binary: an entry is malformed");
        if (e.kind != KIND_PTX && e.kind != KIND_ELF)
            continue; /* LTO-IR and future kinds: cannot run here */
        note_target(out->has, sizeof(out->has), &e);
        out->native |= e.kind == KIND_ELF && e.arch / 10 == (unsigned)cc / 10 && e.arch <= (unsigned)cc;
        if (e.kind == KIND_PTX && better_target(e.arch, best.arch, (unsigned)cc))
            best = e;
        if (e.kind == KIND_ELF && better_target(e.arch, sass.arch, (unsigned)cc))
            sass = e;
    }
    out->shadowed = best.arch > (unsigned)cc && sass.payload && sass.arch <= (unsigned)cc;
    if (!best.payload)
        best = sass; /* can be looked at, not run */
    if (!best.payload)
        return sg_fail(CUDA_ERROR_NO_BINARY_FOR_GPU,
                       "fat binary has neither PTX, which is all that this device runs, nor SASS");
    out->is_elf = best.kind == KIND_ELF;
    return out->is_elf && u->ptx_only ? CUDA_SUCCESS : unpack_entry(&best, u, out);
}
