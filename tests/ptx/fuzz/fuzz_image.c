/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer target: input of cuModuleLoadData (image/sg_image.c, image/sg_fatbin.c, image/sg_elf.c).
 *
 * Input: one byte that chooses the device's compute capability, then the image. The image is copied
 * to a block of exactly its size, so that AddressSanitizer sees each byte read beyond its end.
 * The wrapper that nvcc puts around a fat binary carries a host pointer, which only the process
 * itself can make: an input that looks like one is passed over.
 */
#include "image/image.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* No context: the message of a refusal is the thread's own. */
CUresult sg_current_raw(struct sg_ctx **out)
{
    *out = NULL;
    return CUDA_ERROR_INVALID_CONTEXT;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int ccs[] = {75, 80, 90, 120, 130};
    static const uint8_t wrapper[] = {0xb1, 0x43, 0x62, 0x46};
    struct sg_elf_info elf;
    struct sg_image img;
    uint8_t *copy;
    int cc;

    if (size < 2)
        return 0;
    cc = ccs[data[0] % 5];
    data++;
    size--;
    if (size >= sizeof(wrapper) && !memcmp(data, wrapper, sizeof(wrapper)))
        return -1; /* not a case: do not keep it */
    copy = malloc(size);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    if (sg_image_load(copy, size, cc, &img) == CUDA_SUCCESS) {
        /* Guarantees of a successful load. */
        if (!img.text || (!img.is_elf && strlen(img.text) != img.len))
            abort();
        sg_image_free(&img);
    }
    if (sg_elf_is(copy, size) && sg_elf_scan(copy, size, &elf) && elf.size > size)
        abort();
    free(copy);
    return 0;
}
