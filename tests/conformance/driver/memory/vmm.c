// SPDX-License-Identifier: MIT
/* Virtual memory management: reserved addresses, physical memory, and maps between them. */
#include "conform.h"

static CUmemAllocationProp device_prop(void)
{
    CUmemAllocationProp p = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};

    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return p;
}

static CUmemAccessDesc allow(CUmemAccess_flags flags)
{
    CUmemAccessDesc d = {.flags = flags};

    d.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return d;
}

/* The granularity of device 0; ends the case without virtual memory management. */
static size_t granularity(void)
{
    CUmemAllocationProp prop = device_prop();
    size_t g = 0;
    int v = 0;

    NEED(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
    if (!v)
        cf_skip("the device has no virtual memory management");
    NEED(cuMemGetAllocationGranularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    return g;
}

/* As ggml's memory pool: 32 GiB of addresses, mapped piece by piece. */
CASE(vmm_pool, CF_CTX)
{
    CUmemAllocationProp prop = device_prop();
    CUmemAccessDesc rw = allow(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    size_t g = granularity(), used = 0, total = 0, before = 0, after = 0;
    size_t pieces[3] = {g, 3 * g, 2 * g};
    CUdeviceptr base = 0;
    CUmemGenericAllocationHandle h;
    uint8_t *host = malloc(6 * g), *back = malloc(6 * g);

    cf_func("k_fill"); /* code is in device memory, too */
    NEED(cuMemGetInfo(&before, &total));
    OK("reserve", cuMemAddressReserve(&base, 32ull << 30, 0, 0, 0));
    cf_true("aligned", base % g == 0 && base);
    for (int i = 0; i < 3; i++) {
        char name[32];

        snprintf(name, sizeof(name), "create_%d", i);
        OK(name, cuMemCreate(&h, pieces[i], &prop, 0));
        snprintf(name, sizeof(name), "map_%d", i);
        OK(name, cuMemMap(base + used, pieces[i], 0, h, 0));
        OK("release", cuMemRelease(h));
        OK("access", cuMemSetAccess(base + used, pieces[i], &rw, 1));
        used += pieces[i];
    }
    NEED(cuMemGetInfo(&after, &total));
    cf_true("counted", before - after >= 6 * g);
    cf_pattern(host, used, 3);
    OK("upload", cuMemcpyHtoD(base, host, used));
    OK("download", cuMemcpyDtoH(back, base, used));
    cf_true("same", !memcmp(host, back, used));
    memset(back, 0, used);
    OK("unified", cuMemcpy((CUdeviceptr)(uintptr_t)back, base, used));
    cf_true("same_unified", !memcmp(host, back, used));
    /* A kernel and a memset across the seams. */
    OK("kernel", cf_fill(base + g - 512, 256, 7, NULL));
    cf_true("filled", cf_filled(base + g - 512, 256, 7));
    OK("memset", cuMemsetD8(base + 4 * g - 16, 0x5a, 32));
    OK("read", cuMemcpyDtoH(back, base + 4 * g - 16, 32));
    cf_true("set", back[0] == 0x5a && back[31] == 0x5a);
    OK("d2d", cuMemcpyDtoD(base + 5 * g, base, g));
    OK("async", cuMemcpyHtoDAsync(base + 2 * g - 4, host, 8, NULL));
    OK("sync", cuCtxSynchronize());
    OK("unmap", cuMemUnmap(base, used));
    OK("free", cuMemAddressFree(base, 32ull << 30));
    NEED(cuMemGetInfo(&after, &total));
    cf_true("given_back", before < after + g);
    RC("gone", cuMemsetD8(base, 0, 4), CUDA_ERROR_INVALID_VALUE);
    free(host);
    free(back);
}

CASE(vmm_arguments, CF_CTX)
{
    CUmemAllocationProp prop = device_prop(), bad = prop, back = {0};
    CUmemAccessDesc rw = allow(CU_MEM_ACCESS_FLAGS_PROT_READWRITE), desc;
    size_t g = granularity(), v = 0, total = 0;
    CUdeviceptr base = 0, other = 0;
    CUmemGenericAllocationHandle h = 0, k = 0;

    OK("minimum", cuMemGetAllocationGranularity(&v, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    cf_true("minimum_value", v > 0 && g % v == 0);
    RC("granularity_null", cuMemGetAllocationGranularity(NULL, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    RC("granularity_prop", cuMemGetAllocationGranularity(&v, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    RC("granularity_option", cuMemGetAllocationGranularity(&v, &prop, 7), CUDA_ERROR_INVALID_VALUE);
    RC("reserve_null", cuMemAddressReserve(NULL, g, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    RC("reserve_zero", cuMemAddressReserve(&base, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    RC("reserve_alignment", cuMemAddressReserve(&base, g, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
    RC("reserve_flags", cuMemAddressReserve(&base, g, 0, 0, 1), CUDA_ERROR_INVALID_VALUE);
    RC("create_null", cuMemCreate(NULL, g, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    RC("create_prop", cuMemCreate(&h, g, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    RC("create_size", cuMemCreate(&h, g + 1, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    RC("create_zero", cuMemCreate(&h, 0, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    RC("create_flags", cuMemCreate(&h, g, &prop, 1), CUDA_ERROR_INVALID_VALUE);
    bad.type = 77;
    RC("create_type", cuMemCreate(&h, g, &bad, 0), CUDA_ERROR_INVALID_VALUE);
    bad = prop;
    bad.location.id = 77;
    RC("create_device", cuMemCreate(&h, g, &bad, 0), CUDA_ERROR_INVALID_DEVICE);
    NEED(cuMemGetInfo(&v, &total));
    RC("create_too_much", cuMemCreate(&h, (total / g + 2) * g, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);

    NEED(cuMemAddressReserve(&base, 4 * g, 0, 0, 0));
    NEED(cuMemCreate(&h, 2 * g, &prop, 0));
    OK("properties", cuMemGetAllocationPropertiesFromHandle(&back, h));
    cf_true("properties_value", back.type == prop.type && back.location.type == prop.location.type &&
                                    back.location.id == 0 && !back.requestedHandleTypes);
    RC("properties_null", cuMemGetAllocationPropertiesFromHandle(NULL, h), CUDA_ERROR_INVALID_VALUE);
    if (!cf_real()) { /* a GPU's driver crashes */
        RC("properties_handle", cuMemGetAllocationPropertiesFromHandle(&back, 0x1234),
           CUDA_ERROR_INVALID_VALUE);
        RC("map_handle", cuMemMap(base, 2 * g, 0, 0x1234, 0), CUDA_ERROR_INVALID_VALUE);
    }
    RC("map_flags", cuMemMap(base, 2 * g, 0, h, 1), CUDA_ERROR_INVALID_VALUE);
    RC("map_size", cuMemMap(base, g + 1, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
    RC("map_larger", cuMemMap(base, 3 * g, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
    RC("map_address", cuMemMap(base + 4 * g, g, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
    RC("map_unaligned", cuMemMap(base + 4, g, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
    RC("access_unmapped", cuMemSetAccess(base, g, &rw, 1), CUDA_ERROR_INVALID_VALUE);
    RC("unmap_unmapped", cuMemUnmap(base, g), CUDA_ERROR_INVALID_VALUE);
    OK("map", cuMemMap(base, 2 * g, 0, h, 0));
    RC("map_again", cuMemMap(base + g, g, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
    RC("set_no_access", cuMemsetD8(base, 1, 16), CUDA_ERROR_INVALID_VALUE);
    RC("access_null", cuMemSetAccess(base, 2 * g, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    RC("access_none", cuMemSetAccess(base, 2 * g, &rw, 0), CUDA_ERROR_INVALID_VALUE);
    desc = rw;
    desc.flags = 2;
    RC("access_flags", cuMemSetAccess(base, 2 * g, &desc, 1), CUDA_ERROR_INVALID_VALUE);
    desc = rw;
    desc.location.id = 77;
    RC("access_device", cuMemSetAccess(base, 2 * g, &desc, 1), CUDA_ERROR_INVALID_DEVICE);
    OK("access", cuMemSetAccess(base, 2 * g, &rw, 1));
    OK("set", cuMemsetD8(base, 1, 16));
    RC("set_past", cuMemsetD8(base + 2 * g - 8, 1, 16), CUDA_ERROR_INVALID_VALUE);
    RC("free_mem", cuMemFree(base), CUDA_ERROR_INVALID_VALUE);
    RC("free_mapped", cuMemAddressFree(base, 4 * g), CUDA_ERROR_INVALID_VALUE);
    RC("retain_null", cuMemRetainAllocationHandle(NULL, (void *)base), CUDA_ERROR_INVALID_VALUE);
    RC("retain_unmapped", cuMemRetainAllocationHandle(&k, (void *)(base + 3 * g)), CUDA_ERROR_INVALID_VALUE);
    OK("retain", cuMemRetainAllocationHandle(&k, (void *)(base + g)));
    cf_true("retained_same", k == h); /* a single object; the first is released twice */
    OK("release", cuMemRelease(k));
    OK("release_retained", cuMemRelease(k));
    if (!cf_real()) { /* a GPU's driver crashes */
        RC("release_again", cuMemRelease(k), CUDA_ERROR_INVALID_VALUE);
        RC("release_never", cuMemRelease(0x1234), CUDA_ERROR_INVALID_VALUE);
    }
    OK("still_mapped", cuMemsetD8(base + 2 * g - 8, 1, 8));
    /* The same memory at two addresses, by a handle retained after release of the first. */
    OK("retain_2", cuMemRetainAllocationHandle(&k, (void *)base));
    NEED(cuMemAddressReserve(&other, 2 * g, 0, 0, 0));
    OK("map_2", cuMemMap(other, 2 * g, 0, k, 0));
    OK("access_2", cuMemSetAccess(other, 2 * g, &rw, 1));
    OK("fill", cf_fill(base, 100, 40, NULL));
    cf_true("alias", cf_filled(other, 100, 40));
    OK("release_2", cuMemRelease(k));
    OK("unmap", cuMemUnmap(base, 2 * g));
    cf_true("alias_stays", cf_filled(other, 100, 40));
    OK("unmap_2", cuMemUnmap(other, 2 * g));
    RC("free_size", cuMemAddressFree(other, g), CUDA_ERROR_INVALID_VALUE);
    OK("free", cuMemAddressFree(base, 4 * g));
    RC("free_again", cuMemAddressFree(base, 4 * g), CUDA_ERROR_INVALID_VALUE);
    OK("free_2", cuMemAddressFree(other, 2 * g));
}

CASE(vmm_access, CF_CTX)
{
    CUmemAllocationProp prop = device_prop();
    CUmemAccessDesc rw = allow(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CUmemAccessDesc ro = allow(CU_MEM_ACCESS_FLAGS_PROT_READ);
    CUmemAccessDesc none = allow(CU_MEM_ACCESS_FLAGS_PROT_NONE);
    size_t g = granularity();
    CUdeviceptr base = 0;
    CUmemGenericAllocationHandle h = 0;
    unsigned long long flags = 99;
    char bytes[64] = "read me";
    CUmemLocation here = rw.location;

    NEED(cuMemAddressReserve(&base, g, 0, 0, 0));
    NEED(cuMemCreate(&h, g, &prop, 0));
    NEED(cuMemMap(base, g, 0, h, 0));
    OK("get_none", cuMemGetAccess(&flags, &here, base));
    cf_u64("get_none_value", flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    RC("get_null", cuMemGetAccess(NULL, &here, base), CUDA_ERROR_INVALID_VALUE);
    RC("get_location", cuMemGetAccess(&flags, NULL, base), CUDA_ERROR_INVALID_VALUE);
    if (!cf_real()) /* driver 580 also answers behind the range */
        RC("get_unmapped", cuMemGetAccess(&flags, &here, base + g), CUDA_ERROR_INVALID_VALUE);
    OK("rw", cuMemSetAccess(base, g, &rw, 1));
    OK("write", cuMemcpyHtoD(base, bytes, sizeof(bytes)));
    NEED(cuCtxSynchronize()); /* the copy may still be running, and needs write access */
    OK("ro", cuMemSetAccess(base, g, &ro, 1));
    OK("get_ro", cuMemGetAccess(&flags, &here, base + g - 1));
    cf_u64("get_ro_value", flags, CU_MEM_ACCESS_FLAGS_PROT_READ);
    memset(bytes, 0, sizeof(bytes));
    OK("read", cuMemcpyDtoH(bytes, base, sizeof(bytes)));
    cf_str("read_value", bytes, "read me");
    RC("write_ro", cuMemcpyHtoD(base, bytes, sizeof(bytes)), CUDA_ERROR_INVALID_VALUE);
    RC("set_ro", cuMemsetD8(base, 0, 8), CUDA_ERROR_INVALID_VALUE);
    OK("none", cuMemSetAccess(base, g, &none, 1));
    RC("read_none", cuMemcpyDtoH(bytes, base, sizeof(bytes)), CUDA_ERROR_INVALID_VALUE);
    OK("rw_again", cuMemSetAccess(base, g, &rw, 1));
    OK("read_again", cuMemcpyDtoH(bytes, base, sizeof(bytes)));
    cf_str("content_stays", bytes, "read me");
    OK("unmap", cuMemUnmap(base, g));
    RC("read_unmapped", cuMemcpyDtoH(bytes, base, sizeof(bytes)), CUDA_ERROR_INVALID_VALUE);
    /* The memory outlives the mapping. */
    NEED(cuMemMap(base, g, 0, h, 0));
    NEED(cuMemSetAccess(base, g, &rw, 1));
    memset(bytes, 0, sizeof(bytes));
    OK("read_mapped_again", cuMemcpyDtoH(bytes, base, sizeof(bytes)));
    cf_str("content_stays_2", bytes, "read me");
    NEED(cuMemRelease(h));
    NEED(cuMemUnmap(base, g));
    NEED(cuMemAddressFree(base, g));
}

CASE(vmm_pointers, CF_CTX)
{
    CUmemAllocationProp prop = device_prop();
    CUmemAccessDesc rw = allow(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    size_t g = granularity(), size = 0;
    CUdeviceptr base = 0, start = 0, dp = 0;
    CUmemGenericAllocationHandle h = 0;
    CUmemorytype type = 0;
    int ordinal = -5;
    unsigned mapped = 9; /* only 4 bytes are written (driver 580) */

    NEED(cuMemAddressReserve(&base, 8 * g, 0, 0, 0));
    NEED(cuMemCreate(&h, 2 * g, &prop, 0));
    NEED(cuMemMap(base + g, 2 * g, 0, h, 0));
    NEED(cuMemSetAccess(base + g, 2 * g, &rw, 1));
    OK("range_start", cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, base + g));
    cf_true("range_start_value", start == base);
    OK("range_size", cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, base + g));
    cf_true("range_size_value", size == 8 * g);
    OK("map_base", cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, base + 2 * g + 5));
    cf_true("map_base_value", start == base + g);
    OK("map_size", cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, base + g));
    cf_true("map_size_value", size == 2 * g);
    OK("mapped", cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, base + g));
    cf_u64("mapped_value", mapped, 1);
    RC("unmapped", cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, base),
       CUDA_ERROR_INVALID_VALUE);
    OK("type", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base + g));
    cf_u64("type_value", type, CU_MEMORYTYPE_DEVICE);
    RC("type_unmapped", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base),
       CUDA_ERROR_INVALID_VALUE);
    OK("ordinal", cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, base + g));
    cf_u64("ordinal_value", (uint64_t)ordinal, 0);
    OK("device_pointer", cuPointerGetAttribute(&dp, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, base + g));
    cf_true("device_pointer_value", dp == base + g);
    OK("address_range", cuMemGetAddressRange(&start, &size, base + 2 * g));
    cf_true("address_range_value", start == base + g && size == 2 * g);
    RC_IN("address_range_unmapped", cuMemGetAddressRange(&start, &size, base), CUDA_ERROR_NOT_FOUND,
          CUDA_ERROR_INVALID_VALUE);
    NEED(cuMemRelease(h));
    NEED(cuMemUnmap(base + g, 2 * g));
    RC("type_gone", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base + g),
       CUDA_ERROR_INVALID_VALUE);
    NEED(cuMemAddressFree(base, 8 * g));
    RC("mapped_gone", cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, base),
       CUDA_ERROR_INVALID_VALUE);
}

/* Many small mappings, some of them unmapped again in the middle. */
CASE(vmm_many, CF_CTX)
{
    enum { N = 64 };
    CUmemAllocationProp prop = device_prop();
    CUmemAccessDesc rw = allow(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    size_t g = granularity();
    CUdeviceptr base = 0;
    CUmemGenericAllocationHandle h[N];
    bool ok = true;

    NEED(cuMemAddressReserve(&base, N * g, 0, 0, 0));
    for (unsigned i = 0; i < N; i++) {
        NEED(cuMemCreate(&h[i], g, &prop, 0));
        NEED(cuMemMap(base + i * g, g, 0, h[i], 0));
    }
    OK("access_all", cuMemSetAccess(base, N * g, &rw, 1));
    OK("set_all", cuMemsetD8(base, 0x11, N * g));
    for (unsigned i = 1; i < N; i += 2)
        ok &= cuMemUnmap(base + i * g, g) == CUDA_SUCCESS;
    cf_true("unmap_odd", ok);
    RC("set_gap", cuMemsetD8(base, 0x22, 2 * g), CUDA_ERROR_INVALID_VALUE);
    OK("unmap_gap", cuMemUnmap(base, 2 * g)); /* unmaps the parts that are mapped (driver 580) */
    RC("set_unmapped", cuMemsetD8(base, 0x22, 8), CUDA_ERROR_INVALID_VALUE);
    OK("map_first", cuMemMap(base, g, 0, h[0], 0));
    for (unsigned i = 1; i < N; i += 2)
        ok &= cuMemMap(base + i * g, g, 0, h[i - 1], 0) == CUDA_SUCCESS; /* of its neighbour */
    cf_true("map_neighbour", ok);
    OK("access_again", cuMemSetAccess(base, N * g, &rw, 1));
    OK("set_first", cf_fill(base, 16, 5, NULL));
    cf_true("neighbour_has_it", cf_filled(base + g, 16, 5));
    for (unsigned i = 0; i < N; i++)
        ok &= cuMemRelease(h[i]) == CUDA_SUCCESS;
    cf_true("release", ok);
    OK("unmap_all", cuMemUnmap(base, N * g));
    OK("free", cuMemAddressFree(base, N * g));
}
