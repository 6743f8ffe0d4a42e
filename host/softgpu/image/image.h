/* SPDX-License-Identifier: MIT */
/* Images: fat binaries, cubins, objects and archives. Selects and unpacks the PTX to run. */
#ifndef SG_IMAGE_H
#define SG_IMAGE_H

#include <stdlib.h>

#include "base/base.h"
#include "ptx/ptx.h"

/* ---- images (image/sg_fatbin.c, image/sg_elf.c, image/sg_image.c) ---- */

/* The PTX text chosen from an image or, if it has none, the cubin that was chosen for its
   metadata. */
struct sg_image {
    char *text;      /* malloc'd, NUL-terminated */
    size_t len;      /* length without the NUL */
    bool is_elf;     /* text is a cubin of len bytes */
    uint32_t target; /* target from the container; 0: the image was bare PTX */
    bool shadowed;   /* the PTX is for newer devices only, and the image has SASS for this device */
    bool native;     /* the image has SASS that runs on a GPU of the requested capability */
    char has[256];   /* summary of the image's contents, for messages */
};

/*
 * Chooses and unpacks the PTX of a fat binary, cubin or PTX text of at most max bytes (SIZE_MAX:
 * unknown, the caller's API has no size). Without PTX it chooses the cubin nearest to cc, for its
 * metadata. 0, 200, 209 (neither), 2 or 218 (empty text).
 */
CUresult sg_image_load(const void *image, size_t max, int cc, struct sg_image *out);
/* Links n images with PTX into one; names[i] is the name of image i in messages. 0, 2 or 218. */
CUresult sg_image_link(const struct sg_image *img, const char *const *names, uint32_t n,
                       struct sg_image *out);
static inline void sg_image_free(struct sg_image *img)
{
    free(img->text);
    img->text = NULL;
    img->len = 0;
}

/*
 * Checks that a device of capability cc may run this PTX. NVIDIA's driver compiles PTX for the same
 * or a newer capability only: 209 for a container, 218 for text, and a log line that names the
 * profile to try. PTX that replaces SASS which a GPU would run is accepted regardless of its
 * target. (image/sg_target.c)
 */
CUresult sg_image_check_target(const struct sg_image *img, int cc);
/* A library has queried the capability announced by VGPU_SOFT_LIBRARY_CC: PTX for targets up to
   it is accepted from now on. */
void sg_image_library_asked(void);
/* Limit on the unpacked size of the containers of a load or link. */
struct sg_unpack {
    /* bytes left, for kept and discarded data; SG_PTX_TEXT_MAX: nothing unpacked yet */
    uint64_t left;
    bool ptx_only; /* skip SASS: out->is_elf is set without a text */
};
/* The same for a container; data starts with 0xBA55ED50. */
CUresult sg_fatbin_load(const uint8_t *data, size_t max, int cc, struct sg_unpack *u, struct sg_image *out);

/*
 * Calls fn for each fat binary in a host object, or in the objects of an archive. Stops at the
 * first non-zero result and returns it. CUDA_ERROR_INVALID_IMAGE: not an object or archive, or
 * truncated.
 */
typedef CUresult sg_container_fn(const uint8_t *data, size_t n, void *arg);
CUresult sg_object_each(const void *data, size_t n, sg_container_fn *fn, void *arg);
CUresult sg_archive_each(const void *data, size_t n, sg_container_fn *fn, void *arg);

struct sg_elf_info {
    uint64_t size; /* bytes covered by headers, tables and sections */
    uint32_t sm;   /* e.g. 90 */
    bool is_cubin;
};
bool sg_elf_is(const void *data, size_t max);
/* Bounds-checked scan of an ELF64 file. Returns false if it is malformed. max may be SIZE_MAX. */
bool sg_elf_scan(const void *data, size_t max, struct sg_elf_info *out);

#endif
