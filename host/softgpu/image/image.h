/* SPDX-License-Identifier: MIT */
/* Images: fat binaries, cubins, objects and archives. Selects and unpacks the PTX to run. */
#ifndef SG_IMAGE_H
#define SG_IMAGE_H

#include "base/base.h"
#include "ptx/ptx.h"

/* ---- images (image/fatbin.c, image/elf.c, image/image.c) ---- */

/* PTX text chosen out of an image; or, when it has none, the SASS that describes itself best. */
struct sg_image {
    char *text;      /* malloc'd, NUL-terminated */
    size_t len;      /* without the NUL */
    bool is_elf;     /* text is a cubin of len bytes */
    uint32_t target; /* from the container, 0 when the image was bare PTX */
    bool shadowed;   /* the PTX is for newer devices only, and there is SASS for this one */
    bool native;     /* a GPU of the capability that was asked for runs some SASS of it */
    char has[256];   /* what the image contains, for messages */
};

/*
 * Chooses and unpacks the PTX to run out of a fat binary, cubin or PTX text of at most max bytes
 * (SIZE_MAX: unknown, the caller's API has no size); without PTX the cubin that is nearest to cc,
 * for its metadata. 0, 200, 209 (neither), 2 or 218 (empty text).
 */
CUresult sg_image_load(const void *image, size_t max, int cc, struct sg_image *out);
/* Links n images that have PTX into one; names[i] is what messages call the i-th. 0, 2 or 218. */
CUresult sg_image_link(const struct sg_image *img, const char *const *names, uint32_t n,
                       struct sg_image *out);
void sg_image_free(struct sg_image *img);
/*
 * Whether a device of capability cc may run this PTX. NVIDIA's driver compiles PTX for the same or a newer capability
 * only: 209 for a container, 218 for text, and a line for the log that names the profile to try. PTX in place of
 * SASS that a GPU would run is taken whatever its target. (image/target.c)
 */
CUresult sg_image_check_target(const struct sg_image *img, int cc);
/* A library has queried the capability that VGPU_SOFT_LIBRARY_CC announces: PTX for targets up to it is
 * accepted. */
void sg_image_library_asked(void);
/* What the containers of one load, or of one link, may be unpacked to. */
struct sg_unpack {
    uint64_t left; /* bytes, of what is kept and what is not; SG_PTX_TEXT_MAX: nothing was unpacked yet */
    bool ptx_only; /* SASS is not wanted: out->is_elf, and no text */
};
/* The same for the container alone; data starts with 0xBA55ED50. */
CUresult sg_fatbin_load(const uint8_t *data, size_t max, int cc, struct sg_unpack *u, struct sg_image *out);

/*
 * Calls fn for each fat binary in an object of the host, or in the objects of an archive; stops at the
 * first result that is not 0 and returns it. CUDA_ERROR_INVALID_IMAGE: no object or archive, or cut short.
 */
typedef CUresult sg_container_fn(const uint8_t *data, size_t n, void *arg);
CUresult sg_object_each(const void *data, size_t n, sg_container_fn *fn, void *arg);
CUresult sg_archive_each(const void *data, size_t n, sg_container_fn *fn, void *arg);

struct sg_elf_info {
    uint64_t size; /* bytes that headers, tables and sections span */
    uint32_t sm;   /* e.g. 90 */
    bool is_cubin;
};
bool sg_elf_is(const void *data, size_t max);
/* Bounds-checked look at an ELF64 file; false when malformed. max may be SIZE_MAX. */
bool sg_elf_scan(const void *data, size_t max, struct sg_elf_info *out);

#endif
