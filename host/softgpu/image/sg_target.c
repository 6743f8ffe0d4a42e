/* SPDX-License-Identifier: MIT */
/* Selects the PTX accepted by a device: like NVIDIA's driver, for its own capability and lower. */
#include <stdatomic.h>

#include "image/image.h"

static atomic_bool library_asked;

void sg_image_library_asked(void)
{
    atomic_store(&library_asked, true);
}

CUresult sg_image_check_target(const struct sg_image *img, int cc)
{
    const unsigned target = img->is_elf ? 0 : img->target ? img->target : sg_ptx_target(img->text, img->len);
    const char *profile = sg_config_profile(target);

    if (target <= (unsigned)cc || img->native ||
        (atomic_load(&library_asked) && target <= (unsigned)sg_config.library_cc))
        return CUDA_SUCCESS;
    return sg_fail(
        img->target ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_ERROR_INVALID_PTX,
        "PTX for compute capability %u.%u and newer; the device has %d.%d%s%s%s (the image has: %s)",
        target / 10, target % 10, cc / 10, cc % 10, profile ? ": try the profile VGPU_SOFT_CC=" : "",
        profile ? profile : "", profile ? "" : ", and no profile has more", img->has);
}
