// SPDX-License-Identifier: MIT
/* Copies: sizes, variants, reuse of the source, invalid input. */
#include "conform.h"

enum form { SYNC, ASYNC, UNIFIED, FORMS };
static const char *const form_names[] = {"sync", "async", "unified"};

static CUresult to_device(enum form f, CUdeviceptr d, const void *h, size_t n)
{
    switch (f) {
    case SYNC:
        return cuMemcpyHtoD(d, h, n);
    case ASYNC:
        return cuMemcpyHtoDAsync(d, h, n, NULL);
    default:
        return cuMemcpy(d, (CUdeviceptr)(uintptr_t)h, n);
    }
}

static CUresult on_device(enum form f, CUdeviceptr d, CUdeviceptr s, size_t n)
{
    switch (f) {
    case SYNC:
        return cuMemcpyDtoD(d, s, n);
    case ASYNC:
        return cuMemcpyDtoDAsync(d, s, n, NULL);
    default:
        return cuMemcpyAsync(d, s, n, NULL);
    }
}

static CUresult to_host(enum form f, void *h, CUdeviceptr d, size_t n)
{
    CUresult r;
    switch (f) {
    case SYNC:
        return cuMemcpyDtoH(h, d, n);
    case ASYNC:
        r = cuMemcpyDtoHAsync(h, d, n, NULL);
        return r ? r : cuStreamSynchronize(NULL);
    default:
        return cuMemcpy((CUdeviceptr)(uintptr_t)h, d, n);
    }
}

/* To the device, across and back, from unaligned host memory to unaligned device memory. */
static void round_trip(size_t n, size_t skew)
{
    unsigned char *a = malloc(n + 64), *b = malloc(n + 64);
    CUdeviceptr p = 0, q = 0;
    char check[64];

    cf_need_true("memory", a && b);
    NEED(cuMemAlloc(&p, n + 64));
    NEED(cuMemAlloc(&q, n + 64));
    for (int f = 0; f < FORMS; f++) {
        bool ok;
        cf_pattern(a + skew, n, (unsigned)(n + skew + (size_t)f));
        memset(b, 0xee, n + 64);
        ok = to_device(f, p + skew, a + skew, n) == CUDA_SUCCESS &&
             on_device(f, q + 2 * skew, p + skew, n) == CUDA_SUCCESS &&
             to_host(f, b + 3 * skew, q + 2 * skew, n) == CUDA_SUCCESS &&
             cf_is_pattern(b + 3 * skew, n, (unsigned)(n + skew + (size_t)f)) && b[3 * skew + n] == 0xee &&
             (!skew || b[3 * skew - 1] == 0xee);
        snprintf(check, sizeof(check), "%s_%zu_skew_%zu", form_names[f], n, skew);
        cf_true(check, ok);
    }
    NEED(cuMemFree(p));
    NEED(cuMemFree(q));
    free(a);
    free(b);
}

CASE(copy_sizes, CF_CTX)
{
    static const size_t sizes[] = {1,     3,     64,    4095,          4096,    4097,
                                   65535, 65536, 65537, (1 << 20) - 1, 1 << 20, (1 << 20) + 1};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        round_trip(sizes[i], 0);
        round_trip(sizes[i], 1 + i % 7);
    }
}

CASE(copy_large, CF_CTX)
{
    round_trip((33 << 20) + 5, 3);
}

/* Often enough that each kind of stores is used (lib/bulk). */
static bool many_times(CUdeviceptr p, unsigned char *a, unsigned char *b, size_t n, unsigned times)
{
    bool ok = true;

    for (unsigned i = 0; i < times && ok; i++) {
        a[0] = a[n / 2] = a[n - 1] = (unsigned char)i;
        memset(b - 1, 0xee, n + 2);
        ok = cuMemcpyHtoD(p, a, n) == CUDA_SUCCESS && cuCtxSynchronize() == CUDA_SUCCESS &&
             cuMemcpyDtoH(b, p, n) == CUDA_SUCCESS && memcmp(a, b, n) == 0 && b[-1] == 0xee && b[n] == 0xee;
    }
    return ok;
}

/* Around the ends of pieces of the staging area, for all alignments. */
CASE(copy_pieces, CF_CTX)
{
    static const size_t ends[] = {16 << 10,  64 << 10,  80 << 10, 128 << 10, 256 << 10,
                                  512 << 10, 640 << 10, 1 << 20,  2 << 20};
    static const int around[] = {-65, -1, 0, 1, 63, 64};
    const size_t room = (2 << 20) + 4096;
    unsigned char *a = malloc(room), *b = malloc(room);
    unsigned skew = 0;
    CUdeviceptr p = 0;
    char check[64];

    cf_need_true("memory", a && b);
    NEED(cuMemAlloc(&p, room));
    cf_pattern(a, room, 21);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        for (size_t k = 0; k < sizeof(around) / sizeof(around[0]); k++) {
            const size_t n = ends[i] + (size_t)around[k];

            skew = (skew + 13) % 128;
            snprintf(check, sizeof(check), "size_%zu_skew_%u", n, skew);
            cf_true(check, many_times(p + skew * 5 % 64, a + skew, b + 1 + skew * 3 % 64, n, 14));
        }
    OK("free", cuMemFree(p));
    free(a);
    free(b);
}

CASE(copy_pieces_large, CF_CTX)
{
    const size_t n = (16 << 20) + 4099;
    unsigned char *a = malloc(n + 8), *b = malloc(n + 8);
    CUdeviceptr p = 0;

    cf_need_true("memory", a && b);
    NEED(cuMemAlloc(&p, n + 8));
    cf_pattern(a, n + 8, 22);
    cf_true("right", many_times(p + 3, a + 5, b + 2, n, 26));
    OK("free", cuMemFree(p));
    free(a);
    free(b);
}

/* Rows longer and shorter than a piece, some of them parts of lines. */
CASE(copy_pieces_rows, CF_CTX)
{
    static const size_t widths[] = {100, 4095, 5000, 131071, 140000};
    const size_t rows = 9;
    unsigned char *a = malloc(rows * 150000), *b = malloc(rows * 150000);
    CUdeviceptr p = 0;
    size_t pitch = 0;
    char check[64];

    cf_need_true("memory", a && b);
    NEED(cuMemAllocPitch(&p, &pitch, 150000, rows, 4));
    cf_pattern(a, rows * 150000, 23);
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
        CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                            .srcHost = a,
                            .srcPitch = 150000,
                            .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                            .dstDevice = p,
                            .dstPitch = pitch,
                            .WidthInBytes = widths[i],
                            .Height = rows};
        CUDA_MEMCPY2D down = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                              .srcDevice = p,
                              .srcPitch = pitch,
                              .dstMemoryType = CU_MEMORYTYPE_HOST,
                              .dstHost = b,
                              .dstPitch = 150000,
                              .WidthInBytes = widths[i],
                              .Height = rows};
        bool ok = true;

        for (unsigned k = 0; k < 14; k++) {
            memset(b, 0xee, rows * 150000);
            ok &= cuMemcpy2D(&up) == CUDA_SUCCESS && cuMemcpy2D(&down) == CUDA_SUCCESS;
            for (size_t y = 0; y < rows; y++)
                ok &= memcmp(b + y * 150000, a + y * 150000, widths[i]) == 0 &&
                      b[y * 150000 + widths[i]] == 0xee;
        }
        snprintf(check, sizeof(check), "width_%zu", widths[i]);
        cf_true(check, ok);
    }
    OK("free", cuMemFree(p));
    free(a);
    free(b);
}

CASE(copy_zero, CF_CTX)
{
    CUdeviceptr p = 0;
    NEED(cuMemAlloc(&p, 16));
    OK("to_device", cuMemcpyHtoD(p, &p, 0));
    OK("to_host", cuMemcpyDtoH(&p, p, 0));
    OK("null", cuMemcpyHtoD(p, NULL, 0));
    OK("async", cuMemcpyHtoDAsync(p, &p, 0, NULL));
    OK("on_device", cuMemcpyDtoD(p, p, 0));
    OK("free", cuMemFree(p));
}

CASE(copy_wrong, CF_CTX)
{
    CUdeviceptr p = 0;
    char h[64] = "unchanged";

    NEED(cuMemAlloc(&p, 4096));
    NEED(cuMemsetD8(p, 0x41, 4096));
    RC("to_null", cuMemcpyHtoD(0, h, 16), CUDA_ERROR_INVALID_VALUE);
    RC("from_null", cuMemcpyHtoD(p, NULL, 16), CUDA_ERROR_INVALID_VALUE);
    RC("host_null", cuMemcpyDtoH(NULL, p, 16), CUDA_ERROR_INVALID_VALUE);
    RC("from_device_null", cuMemcpyDtoH(h, 0, 16), CUDA_ERROR_INVALID_VALUE);
    cf_str("host_untouched", h, "unchanged");
    RC("to_nowhere", cuMemcpyHtoD(0x10000, h, 16), CUDA_ERROR_INVALID_VALUE);
    RC("too_long", cuMemcpyDtoD(p, p + 2048, (size_t)1 << 40), CUDA_ERROR_INVALID_VALUE);
    RC("wraps", cuMemcpyDtoD(p, p + 2048, ~(size_t)0 - 16), CUDA_ERROR_INVALID_VALUE);
    RC("async_to_null", cuMemcpyHtoDAsync(0, h, 16, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("async_from_nowhere", cuMemcpyDtoHAsync(h, 0x10000, 16, NULL), CUDA_ERROR_INVALID_VALUE);
    OK("still_works", cuMemcpyDtoH(h, p, 16));
    cf_true("content", h[0] == 0x41 && h[15] == 0x41 && h[16] == 0);
    OK("free", cuMemFree(p));
    RC("freed", cuMemcpyDtoH(h, p, 16), CUDA_ERROR_INVALID_VALUE);
}

/* An asynchronous copy from pageable memory has read the bytes when it returns. */
CASE(copy_source_reuse, CF_CTX)
{
    static const size_t sizes[] = {16, 5000, 65536, 70000, 1 << 20, (4 << 20) + 12};
    CUdeviceptr p = 0;
    unsigned char *h = malloc((4 << 20) + 12), *back = malloc((4 << 20) + 12);
    CUstream s = NULL;
    char check[32];

    cf_need_true("memory", h && back);
    NEED(cuMemAlloc(&p, (4 << 20) + 12));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t n = sizes[i];
        bool ok = true;
        for (unsigned k = 0; k < 4; k++) {
            cf_pattern(h, n, k + 1);
            ok &= cuMemcpyHtoDAsync(p, h, n, s) == CUDA_SUCCESS;
            memset(h, 0xff, n);
        }
        ok &= cuStreamSynchronize(s) == CUDA_SUCCESS;
        ok &= cuMemcpyDtoH(back, p, n) == CUDA_SUCCESS && cf_is_pattern(back, n, 4);
        snprintf(check, sizeof(check), "size_%zu", n);
        cf_true(check, ok);
    }
    OK("destroy", cuStreamDestroy(s));
    OK("free", cuMemFree(p));
    free(h);
    free(back);
}

/* Copies are ordered between kernels of the same stream. */
CASE(copy_order, CF_CTX)
{
    CUdeviceptr p = 0;
    uint32_t a[256], b[256], v = 1, n = 256;
    CUstream s = NULL;
    bool ok = true;
    CUfunction add = cf_func("k_add");
    void *params[] = {&p, &n, &v};

    NEED(cuMemAlloc(&p, sizeof(a)));
    NEED(cuStreamCreate(&s, 0));
    for (unsigned round = 0; round < 50; round++) {
        for (unsigned i = 0; i < 256; i++)
            a[i] = round * 1000 + i;
        ok &= cuMemcpyHtoDAsync(p, a, sizeof(a), s) == CUDA_SUCCESS;
        ok &= cf_launch(add, 2, 128, 0, s, params) == CUDA_SUCCESS;
        ok &= cuMemcpyDtoHAsync(b, p, sizeof(b), s) == CUDA_SUCCESS;
        ok &= cuStreamSynchronize(s) == CUDA_SUCCESS;
        for (unsigned i = 0; i < 256; i++)
            ok &= b[i] == round * 1000 + i + 1;
    }
    cf_true("rounds", ok);
    OK("default_stream", cuMemcpyHtoD(p, a, sizeof(a)));
    OK("launch", cf_launch(add, 2, 128, 0, NULL, params));
    OK("read", cuMemcpyDtoH(b, p, sizeof(b)));
    cf_true("default_right", b[255] == a[255] + 1);
    OK("destroy", cuStreamDestroy(s));
    OK("free", cuMemFree(p));
}

static CUDA_MEMCPY2D copy_2d(const void *h, size_t hp, CUdeviceptr d, size_t dp, size_t w, size_t rows)
{
    CUDA_MEMCPY2D c = {
        .srcMemoryType = CU_MEMORYTYPE_HOST,
        .srcHost = h,
        .srcPitch = hp,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = d,
        .dstPitch = dp,
        .WidthInBytes = w,
        .Height = rows,
    };
    return c;
}

CASE(copy_2d, CF_CTX)
{
    enum { W = 100, H = 37, HP = 117, DP = 256 };
    unsigned char *a = malloc(HP * H), *b = malloc(HP * H);
    CUdeviceptr p = 0;
    bool ok = true;

    cf_need_true("memory", a && b);
    cf_pattern(a, HP * H, 3);
    memset(b, 0xee, HP * H);
    NEED(cuMemAlloc(&p, DP * H));
    CUDA_MEMCPY2D c = copy_2d(a, HP, p, DP, W, H);
    OK("to_device", cuMemcpy2D(&c));
    CUDA_MEMCPY2D back = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE,
        .srcDevice = p,
        .srcPitch = DP,
        .dstMemoryType = CU_MEMORYTYPE_HOST,
        .dstHost = b,
        .dstPitch = HP,
        .WidthInBytes = W,
        .Height = H,
    };
    OK("to_host", cuMemcpy2D(&back));
    for (int y = 0; y < H; y++)
        for (int x = 0; x < HP; x++)
            ok &= b[y * HP + x] == (x < W ? a[y * HP + x] : 0xee);
    cf_true("content", ok);

    /* A window inside, offsets on both sides, and the unaligned variant. */
    memset(b, 0, HP * H);
    back.srcXInBytes = 7, back.srcY = 5, back.dstXInBytes = 3, back.dstY = 2;
    back.WidthInBytes = 50, back.Height = 10;
    OK("window", cuMemcpy2DUnaligned(&back));
    ok = true;
    for (int y = 0; y < 10; y++)
        ok &= !memcmp(b + (y + 2) * HP + 3, a + (y + 5) * HP + 7, 50);
    cf_true("window_content", ok);

    OK("async", cuMemcpy2DAsync(&c, NULL));
    OK("sync", cuStreamSynchronize(NULL));
    c.Height = 0;
    OK("no_rows", cuMemcpy2D(&c));
    c = copy_2d(a, 50, p, DP, W, H);
    RC("source_pitch", cuMemcpy2D(&c), CUDA_ERROR_INVALID_VALUE);
    c = copy_2d(a, HP, p, 64, W, H);
    RC("destination_pitch", cuMemcpy2D(&c), CUDA_ERROR_INVALID_VALUE);
    c = copy_2d(a, HP, p, DP, W, H);
    c.dstMemoryType = (CUmemorytype)9;
    RC("memory_type", cuMemcpy2D(&c), CUDA_ERROR_INVALID_VALUE);
    RC("null", cuMemcpy2D(NULL), CUDA_ERROR_INVALID_VALUE);

    CUDA_MEMCPY2D hh = {
        .srcMemoryType = CU_MEMORYTYPE_HOST,
        .srcHost = a,
        .srcPitch = HP,
        .dstMemoryType = CU_MEMORYTYPE_HOST,
        .dstHost = b,
        .dstPitch = HP,
        .WidthInBytes = W,
        .Height = H,
    };
    OK("host_to_host", cuMemcpy2DUnaligned(&hh));
    cf_true("host_content", !memcmp(b + 36 * HP, a + 36 * HP, W));
    OK("free", cuMemFree(p));
    free(a);
    free(b);
}

/* Omitted pitches and heights: rows and slices are as long as the copied part, including offsets. */
CASE(copy_unspecified, CF_CTX | CF_UB)
{
    enum {
        W = 8,
        H = 3,
        D = 2,
        X = 2,
        Y = 1,
        Z = 1,
        AT = (Z * H + Y) * W + X,
        N = W * H * D,
        ALL = 2 * N + AT
    };
    unsigned char a[ALL], b[ALL];
    CUdeviceptr p = 0;

    cf_pattern(a, ALL, 5);
    NEED(cuMemAlloc(&p, ALL));
    for (unsigned given = 0; given < 4; given++) {
        CUDA_MEMCPY3D c = {
            .srcMemoryType = CU_MEMORYTYPE_HOST,
            .srcHost = a,
            .srcXInBytes = X,
            .srcY = Y,
            .srcZ = Z,
            .dstMemoryType = CU_MEMORYTYPE_DEVICE,
            .dstDevice = p,
            .dstPitch = given & 1 ? W : 0,
            .dstHeight = given & 2 ? H : 0,
            .WidthInBytes = W,
            .Height = H,
            .Depth = D,
        };

        NEED(cuMemsetD8(p, 0xee, ALL));
        OK("there", cuMemcpy3D(&c));
        OK("read", cuMemcpyDtoH(b, p, ALL));
        cf_true("content", !memcmp(b, a + AT, N) && b[N] == 0xee && b[ALL - 1] == 0xee);
        c = (CUDA_MEMCPY3D){
            .srcMemoryType = CU_MEMORYTYPE_DEVICE,
            .srcDevice = p,
            .srcPitch = given & 1 ? W : 0,
            .srcHeight = given & 2 ? H : 0,
            .dstMemoryType = CU_MEMORYTYPE_HOST,
            .dstHost = b,
            .dstXInBytes = X,
            .dstY = Y,
            .dstZ = Z,
            .WidthInBytes = W,
            .Height = H,
            .Depth = D,
        };
        memset(b, 0xdd, ALL);
        OK("back", cuMemcpy3D(&c));
        cf_true("back_content", !memcmp(b + AT, a + AT, N) && b[AT - 1] == 0xdd && b[AT + N] == 0xdd);
        /* A given pitch must hold the row and its offset. */
        c.dstPitch = W;
        RC("pitch_given", cuMemcpy3D(&c), CUDA_ERROR_INVALID_VALUE);
        c.dstPitch = 0;
        c.srcPitch = W;
        c.srcXInBytes = X;
        RC("source_pitch_given", cuMemcpy3D(&c), CUDA_ERROR_INVALID_VALUE);
    }
    OK("free", cuMemFree(p));
}

/* A copy of pageable memory too large to be sent with its call, to unmapped memory. */
CASE(copy_bad_address, CF_CTX)
{
    enum { BIG = 1 << 20, SMALL = 1 << 16 };
    char *h = calloc(1, BIG);
    CUstream s = NULL;
    CUdeviceptr p = 0;

    CUDA_MEMCPY2D rows = {
        .srcMemoryType = CU_MEMORYTYPE_HOST,
        .srcHost = h,
        .srcPitch = 4096,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstPitch = 4096,
        .WidthInBytes = 4000,
        .Height = 256,
    };

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&p, SMALL));
    RC("nowhere", cuMemcpyHtoDAsync(0x7000, h, BIG, s), CUDA_ERROR_INVALID_VALUE);
    OK("nowhere_sync", cuStreamSynchronize(s));
    RC("beyond", cuMemcpyHtoDAsync(p, h, BIG, s), CUDA_ERROR_INVALID_VALUE);
    OK("beyond_sync", cuStreamSynchronize(s));
    rows.dstDevice = p;
    RC("rows", cuMemcpy2DAsync(&rows, s), CUDA_ERROR_INVALID_VALUE);
    OK("rows_sync", cuStreamSynchronize(s));
    RC("blocking", cuMemcpyHtoD(p, h, BIG), CUDA_ERROR_INVALID_VALUE);
    OK("inside", cuMemcpyHtoDAsync(p, h, SMALL, s));
    OK("inside_sync", cuStreamSynchronize(s));
    OK("free", cuMemFree(p));
    OK("stream_destroy", cuStreamDestroy(s));
    free(h);
}

/* Unified addressing: device memory where a call names host memory, as cuBLAS does for results on the device. */
CASE(copy_host_is_device, CF_CTX)
{
    static const size_t sizes[] = {16, 4096, 1 << 20};
    enum { MOST = 1 << 20 };
    unsigned char *a = malloc(MOST), *b = malloc(MOST);
    CUdeviceptr p = 0, q = 0;
    CUstream s = NULL;

    cf_need_true("memory", a && b);
    NEED(cuMemAlloc(&p, MOST));
    NEED(cuMemAlloc(&q, MOST));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t n = sizes[i];
        CUDA_MEMCPY2D rows = {
            .srcMemoryType = CU_MEMORYTYPE_HOST,
            .srcHost = (const void *)(uintptr_t)p,
            .srcPitch = n / 4,
            .dstMemoryType = CU_MEMORYTYPE_HOST,
            .dstHost = (void *)(uintptr_t)q,
            .dstPitch = n / 4,
            .WidthInBytes = n / 4 - 1,
            .Height = 4,
        };

        for (int form = 0; form < 5; form++) {
            CUresult r;
            bool ok;

            cf_pattern(a, n, (unsigned)(n + (size_t)form));
            ok = cuMemcpyHtoD(p, a, n) == CUDA_SUCCESS && cuMemsetD8(q, 0, n) == CUDA_SUCCESS &&
                 cuCtxSynchronize() == CUDA_SUCCESS;
            r = form == 0   ? cuMemcpyDtoH((void *)(uintptr_t)q, p, n)
                : form == 1 ? cuMemcpyHtoD(q, (const void *)(uintptr_t)p, n)
                : form == 2 ? cuMemcpyDtoHAsync((void *)(uintptr_t)q, p, n, s)
                : form == 3 ? cuMemcpyHtoDAsync(q, (const void *)(uintptr_t)p, n, s)
                            : cuMemcpy2DAsync(&rows, s);
            ok = ok && r == CUDA_SUCCESS && cuCtxSynchronize() == CUDA_SUCCESS &&
                 cuMemcpyDtoH(b, q, n) == CUDA_SUCCESS;
            for (size_t k = 0; ok && k < n; k++)
                ok = b[k] == (form == 4 && (k + 1) % (n / 4) == 0 ? 0 : a[k]);
            cf_true(form == 0   ? "to_host"
                    : form == 1 ? "to_device"
                    : form == 2 ? "to_host_async"
                    : form == 3 ? "to_device_async"
                                : "rows",
                    ok);
        }
    }
    RC("beyond", cuMemcpyDtoH((void *)(uintptr_t)(q + MOST / 2), p, MOST), CUDA_ERROR_INVALID_VALUE);
    OK("stream_destroy", cuStreamDestroy(s));
    OK("free_p", cuMemFree(p));
    OK("free_q", cuMemFree(q));
    free(a);
    free(b);
}

/* The guide, "Stream and Event Behavior": a copy may be issued to a stream of another context. */
CASE(copy_other_stream, CF_CTX)
{
    unsigned in = 77, out = 0;
    CUcontext other = NULL, was = NULL;
    CUstream s = NULL;
    CUdeviceptr p = 0;

    NEED(cuMemAlloc(&p, 4));
    NEED(cuCtxCreate(&other, NULL, 0, 0));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuCtxPopCurrent(&was));
    OK("to", cuMemcpyHtoDAsync(p, &in, 4, s));
    OK("from", cuMemcpyDtoHAsync(&out, p, 4, s));
    OK("sync", cuStreamSynchronize(s));
    cf_u64("value", out, 77);
    OK("ctx_destroy", cuCtxDestroy(other));
}
