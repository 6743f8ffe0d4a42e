/* SPDX-License-Identifier: MIT */
/*
 * The compute capability that a particular caller sees.
 *
 * cuBLAS and cuBLASLt carry machine code for every GPU that they know, and PTX only for newer GPUs;
 * their host code chooses between the two by the capability that the device reports. A device that
 * executes PTX only (the software GPU) therefore has to look like an unknown, newer GPU to these
 * two libraries, while all other code, whose PTX is for ordinary targets, needs an ordinary
 * capability. A single number cannot serve both.
 *
 * So the provider may report a "library capability" (VCU_ATTR_LIBRARY_CC, a number that cuda.h does
 * not use; NVIDIA's driver refuses it, and this mechanism is then off). With it, a query of the
 * capability from code inside libcublas.so or libcublasLt.so (both contain their own runtime, whose
 * queries therefore also come from inside) is answered with that value. A program into which cuBLAS
 * is linked statically cannot be told apart from cuBLAS: it sees the ordinary value.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "vgp_guest.h"
#include "core.h"

__thread const void *vcu_caller;

bool vcu_caller_is_library(const char *file)
{
    static const char *const names[] = {"libcublas.so", "libcublasLt.so"};
    const char *slash = file ? strrchr(file, '/') : NULL;
    const char *base = slash ? slash + 1 : file;

    for (size_t i = 0; base && i < sizeof(names) / sizeof(names[0]); i++) {
        size_t n = strlen(names[i]);

        if (!strncmp(base, names[i], n) && (base[n] == '\0' || base[n] == '.'))
            return true;
    }
    return false;
}

/* True if the calling code is part of such a library. Called often: no lock, no allocation. */
static bool from_library(void)
{
    struct dl_find_object found;

    if (!vcu_caller || _dl_find_object((void *)(uintptr_t)vcu_caller, &found) != 0)
        return false;
    return found.dlfo_link_map && vcu_caller_is_library(found.dlfo_link_map->l_name);
}

/* The compute capability that libraries see, 10 * major + minor; 0: the same as programs. */
static int library_cc(struct vcu_device *d)
{
    int cc = atomic_load_explicit(&d->library_cc, memory_order_relaxed);

    if (cc >= 0)
        return cc;
    cc = 0;
    /* Two threads may both query; the answer is the same. It comes from the host, so it is
     * bounded. */
    if (vgp_call_vgpDeviceGetAttribute(VCU_ATTR_LIBRARY_CC, (int32_t)(d - vcu.devices), &cc) !=
            CUDA_SUCCESS ||
        cc < 10 || cc > 9999)
        cc = 0;
    atomic_store_explicit(&d->library_cc, cc, memory_order_relaxed);
    return cc;
}

void vcu_caller_cc(struct vcu_device *d, int *major, int *minor)
{
    int cc = from_library() ? library_cc(d) : 0;

    *major = cc ? cc / 10 : d->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR];
    *minor = cc ? cc % 10 : d->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR];
}
