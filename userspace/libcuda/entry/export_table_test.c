/* SPDX-License-Identifier: MIT */
/* Export tables: shapes and behaviour that the runtime was measured to need; the validity answer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "entry.h"
#include "export_slots.h"

static const void *const *table(const char *hex)
{
    CUuuid id;
    const void *found = NULL;

    for (int i = 0; i < 16; i++) {
        unsigned byte;

        sscanf(hex + 2 * i, "%2x", &byte);
        id.bytes[i] = (char)byte;
    }
    if (cuGetExportTable(&found, &id) != CUDA_SUCCESS)
        return NULL;
    return found;
}

static void test_sizes(void **state)
{
    static const struct {
        const char *id;
        size_t words; /* 0: the table has no size word */
    } rows[] = {
        {"6bd5fb6c5bf4e74a8987d93912fd9df9", 13}, {"a094798c2e742e7493f20800200c0a66", 7},
        {"42d85a8123f6cb478298f6e78a3aecdc", 4},  {"c693336e1121df11a8c368f355d89593", 0},
        {"263e88607cd2614392f6bbd5006dfa7e", 5},  {"d4082055bde6704b8d34ba123c66e1f2", 3},
        {"21318c60971432488ca641ff7324c8f2", 95}, {"1734dc26800d47458726c0f1e7dd8bca", 16},
        {"f8cff95121468b4eb9e2fb469e7c0dd9", 8},  {"6e163fbeb958444d835ce182aff1991e", 93},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const void *const *t = table(rows[i].id);

        assert_non_null(t);
        if (rows[i].words != 0)
            assert_int_equal((uintptr_t)t[0], rows[i].words * 8);
        for (size_t k = 1; k < VCU_TABLE_SLOTS; k++) /* also beyond the size word */
            assert_non_null(t[k]);                   /* a NULL slot would be called and crash */
        assert_int_equal(((int (*)(void))t[VCU_TABLE_SLOTS - 1])(), CUDA_ERROR_NOT_SUPPORTED);
    }
    assert_null(table("00112233445566778899aabbccddeeff"));
    assert_int_equal(cuGetExportTable(NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

/* Each refused slot has a function of its own, which names table and slot in the log. */
static void test_refusals(void **state)
{
    const void *const *cudart = table("6bd5fb6c5bf4e74a8987d93912fd9df9");
    const void *const *log = table("f8cff95121468b4eb9e2fb469e7c0dd9");
    char text[4096] = "";
    size_t size = sizeof(text);

    (void)state;
    assert_ptr_not_equal(cudart[3], cudart[4]);
    assert_ptr_not_equal(cudart[3], log[3]);
    assert_int_equal(((int (*)(void))cudart[9])(), CUDA_ERROR_NOT_SUPPORTED);
    vcu_logs_failure("cuGetExportTable", CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuLogsDumpToMemory(NULL, text, &size, 0), CUDA_SUCCESS);
    assert_non_null(strstr(text, "slot 9 of the export table 6bd5fb6c (CUDART_INTERFACE)"));
}

/* The slots through which the runtimes before 12.0 load images refuse invalid images. */
static void test_module_slots(void **state)
{
    const void *const *t = table("6bd5fb6c5bf4e74a8987d93912fd9df9");
    int (*load)(CUmodule *, const void *) = (int (*)(CUmodule *, const void *))t[1];
    int (*ext1)(CUmodule *, const void *, void *, void *, unsigned) =
        (int (*)(CUmodule *, const void *, void *, void *, unsigned))t[6];
    int (*ext2)(const void *, CUmodule *, void *, void *, unsigned) =
        (int (*)(const void *, CUmodule *, void *, void *, unsigned))t[8];
    CUmodule module = NULL;
    int other;

    (void)state;
    assert_int_equal(load(NULL, ""), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(load(&module, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(load(&module, ""), CUDA_ERROR_NOT_INITIALIZED);
    assert_int_equal(ext1(&module, NULL, NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(ext1(&module, "", &other, NULL, 0), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(ext1(&module, "", NULL, &other, 0), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(ext1(&module, "", NULL, NULL, 1), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(ext2("", NULL, NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(ext2("", &module, NULL, NULL, 7), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(ext2("", &module, NULL, NULL, 0), CUDA_ERROR_NOT_INITIALIZED);
    assert_null(module);
    assert_int_equal(((int (*)(size_t))t[7])(0), CUDA_SUCCESS);
    assert_int_equal(((int (*)(void))t[12])(), CUDA_SUCCESS);
}

static void test_hooks(void **state)
{
    const void *const *t = table("a094798c2e742e7493f20800200c0a66");
    uint32_t *flags = NULL;
    size_t n = 0;

    (void)state;
    ((void (*)(uint32_t **, size_t *))t[2])(&flags, &n);
    assert_true(n > 522);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(flags[i], 0);
    ((void (*)(uint32_t **, size_t *))t[6])(&flags, &n);
    assert_true(n > 13);
    assert_int_equal(flags[n - 1], 0);
}

static void test_before_init(void **state)
{
    CUcontext ctx;
    void *value;

    (void)state;
    assert_int_equal(((int (*)(CUcontext *, CUdevice))table("6bd5fb6c5bf4e74a8987d93912fd9df9")[2])(&ctx, 0),
                     CUDA_ERROR_NOT_INITIALIZED);
    assert_int_equal(((int (*)(void **, CUcontext, void *))table("c693336e1121df11a8c368f355d89593")[2])(
                         &value, NULL, &ctx),
                     CUDA_ERROR_NOT_INITIALIZED);
}

static int seen;

static int count_function(void *user, CUfunction function)
{
    (void)user;
    (void)function;
    return ++seen;
}

/* 1 means success: an invalid module does not give 1, and no function is visited. */
static void test_module_functions(void **state)
{
    int (*walk)(CUcontext, CUmodule, int (*)(void *, CUfunction), void *) =
        (int (*)(CUcontext, CUmodule, int (*)(void *, CUfunction), void *))table(
            "6e163fbeb958444d835ce182aff1991e")[7];

    (void)state;
    seen = 0;
    assert_int_equal(walk(NULL, NULL, count_function, NULL), 0);
    assert_int_equal(walk((CUcontext)(uintptr_t)0x1234, (CUmodule)(uintptr_t)0x5678, count_function, NULL),
                     0);
    assert_int_equal(walk(NULL, NULL, NULL, NULL), 0);
    assert_int_equal(seen, 0);
}

static int destroyed;
static void *destroyed_value;

static void on_destroy(CUcontext ctx, void *key, void *value)
{
    (void)ctx;
    (void)key;
    destroyed++;
    destroyed_value = value;
}

static void test_local_storage(void **state)
{
    const void *const *t = table("c693336e1121df11a8c368f355d89593");
    int (*put)(CUcontext, void *, void *, void (*)(CUcontext, void *, void *)) =
        (int (*)(CUcontext, void *, void *, void (*)(CUcontext, void *, void *)))t[0];
    int (*del)(CUcontext, void *) = (int (*)(CUcontext, void *))t[1];
    int (*get)(void **, CUcontext, void *) = (int (*)(void **, CUcontext, void *))t[2];
    CUcontext ctx, other;
    int key1, key2, a, b;
    void *v = NULL;

    (void)state;
    vcu.state = VCU_READY; /* local parts only: nothing is sent */
    vcu.device_count = 1;
    ctx = (CUcontext)(uintptr_t)vcu_context_add_primary(0);
    other = (CUcontext)(uintptr_t)vcu_context_add_primary(0);
    assert_int_not_equal(get(&v, ctx, &key1), 0); /* a miss */
    assert_int_equal(put(ctx, &key1, &a, on_destroy), 0);
    assert_int_equal(get(&v, ctx, &key1), 0);
    assert_ptr_equal(v, &a);
    assert_int_not_equal(get(&v, other, &key1), 0);       /* per context */
    assert_int_not_equal(get(&v, ctx, &key2), 0);         /* per key */
    assert_int_equal(put(ctx, &key1, &b, on_destroy), 0); /* replaces */
    assert_int_equal(get(&v, ctx, &key1), 0);
    assert_ptr_equal(v, &b);
    assert_int_equal(cuCtxSetCurrent(ctx), CUDA_SUCCESS);
    assert_int_equal(get(&v, NULL, &key1), 0); /* NULL = current */
    assert_int_equal(put(ctx, &key2, &a, NULL), 0);
    assert_int_equal(del(ctx, &key2), 0);
    assert_int_not_equal(del(ctx, &key2), 0);
    vcu_cls_unit.context_ending(vcu_context_find(ctx));
    assert_int_equal(destroyed, 1);
    assert_ptr_equal(destroyed_value, &b);
    assert_int_not_equal(get(&v, ctx, &key1), 0);
    assert_int_not_equal(get(&v, (CUcontext)(uintptr_t)12345, &key1), 0);
    assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    vcu.state = VCU_NEW;
}

/* The tools' ids: of contexts as in the API, of streams one per context, stream and thread. */
static void test_tools_ids(void **state)
{
    const void *const *t = table("21318c60971432488ca641ff7324c8f2");
    int (*context_id)(CUcontext, uint64_t *) = (int (*)(CUcontext, uint64_t *))t[4];
    int (*stream_id)(CUcontext, void *, uint64_t *) = (int (*)(CUcontext, void *, uint64_t *))t[39];
    int (*object)(CUcontext, CUstream, void **, uint32_t) =
        (int (*)(CUcontext, CUstream, void **, uint32_t))t[51];
    const uintptr_t streams[] = {0, 1, 2};
    unsigned long long of_api;
    CUcontext ctx[2];
    void *o[2][3], *other;
    uint64_t id;

    (void)state;
    assert_int_equal(context_id(NULL, &id), CUDA_ERROR_NOT_INITIALIZED);
    assert_int_equal(object(NULL, NULL, &other, 0), CUDA_ERROR_NOT_INITIALIZED);
    vcu.state = VCU_READY;
    vcu.device_count = 1;
    for (int c = 0; c < 2; c++) {
        ctx[c] = (CUcontext)(uintptr_t)vcu_context_add_primary(0);
        id = 77;
        assert_int_equal(context_id(ctx[c], &id), CUDA_SUCCESS);
        assert_int_equal(cuCtxGetId(ctx[c], &of_api), CUDA_SUCCESS);
        assert_int_equal(id, of_api);
        assert_int_equal(context_id(ctx[c], NULL), CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(object(ctx[c], NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    }
    assert_int_equal(cuCtxSetCurrent(ctx[0]), CUDA_SUCCESS);
    for (int c = 0; c < 2; c++) {
        for (int s = 0; s < 3; s++) {
            assert_int_equal(object(ctx[c], (CUstream)streams[s], &o[c][s], 0), CUDA_SUCCESS);
            assert_int_equal(stream_id(ctx[c], o[c][s], &id), CUDA_SUCCESS);
            assert_int_equal(id, (uintptr_t)o[c][s]);
        }
        assert_ptr_equal(o[c][0], o[c][1]);     /* both the legacy one */
        assert_ptr_not_equal(o[c][0], o[c][2]); /* this thread's */
        assert_int_equal(object(ctx[c], NULL, &other, 1), CUDA_SUCCESS);
    }
    assert_ptr_not_equal(o[0][0], o[1][0]);
    assert_ptr_not_equal(o[0][2], o[1][2]);
    assert_int_equal(stream_id(ctx[0], o[0][0], NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(context_id((CUcontext)(uintptr_t)12345, &id), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(object((CUcontext)(uintptr_t)12345, NULL, &other, 0), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    vcu.state = VCU_NEW;
}

#ifdef CONFIG_VGPU_LIBCUDA_INTEGRITY
static void test_md2(void **state)
{
    /* RFC 1319, appendix A.5. */
    static const struct {
        const char *text;
        uint8_t digest[16];
    } rows[] = {
        {"",
         {0x83, 0x50, 0xe5, 0xa3, 0xe2, 0x4c, 0x15, 0x3d, 0xf2, 0x27, 0x5c, 0x9f, 0x80, 0x69, 0x27, 0x73}},
        {"a",
         {0x32, 0xec, 0x01, 0xec, 0x4a, 0x6d, 0xac, 0x72, 0xc0, 0xab, 0x96, 0xfb, 0x34, 0xc0, 0xb5, 0xd1}},
        {"abc",
         {0xda, 0x85, 0x3b, 0x0d, 0x3f, 0x88, 0xd9, 0x9b, 0x30, 0x28, 0x3a, 0x69, 0xe6, 0xde, 0xd6, 0xbb}},
        {"message digest",
         {0xab, 0x4f, 0x49, 0x6b, 0xfb, 0x2a, 0x53, 0x0b, 0x21, 0x9f, 0xf3, 0x30, 0x31, 0xfe, 0x06, 0xb0}},
        {"abcdefghijklmnopqrstuvwxyz",
         {0x4e, 0x8d, 0xdf, 0xf3, 0x65, 0x02, 0x92, 0xab, 0x5a, 0x41, 0x08, 0xc3, 0xaa, 0x47, 0x94, 0x0b}},
        {"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
         {0xd5, 0x97, 0x6f, 0x79, 0xd8, 0x3d, 0x3a, 0x0d, 0xc9, 0x80, 0x6c, 0x3c, 0x66, 0xf3, 0xef, 0xd8}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t out[16];

        vcu_md2_digest(rows[i].text, strlen(rows[i].text), out);
        assert_memory_equal(out, rows[i].digest, 16);
    }
}

static void test_hmac(void **state)
{
    /* RFC 2104: H(K ^ opad, H(K ^ ipad, text)), from the digest alone. */
    static const uint8_t key[16] = "0123456789abcde";
    static const char text[] = "what do ya want for nothing?";
    uint8_t inner[16 + sizeof(text)], outer[32], expect[16], got[16];

    (void)state;
    for (int i = 0; i < 16; i++) {
        inner[i] = key[i] ^ 0x36;
        outer[i] = key[i] ^ 0x5c;
    }
    memcpy(inner + 16, text, sizeof(text));
    vcu_md2_digest(inner, sizeof(inner), outer + 16);
    vcu_md2_digest(outer, sizeof(outer), expect);
    vcu_hmac_md2(key, text, sizeof(text), got);
    assert_memory_equal(got, expect, 16);
}

static void test_validity(void **state)
{
    int (*ask)(uint32_t, uint64_t, uint8_t *) =
        (int (*)(uint32_t, uint64_t, uint8_t *))table("d4082055bde6704b8d34ba123c66e1f2")[1];
    uint8_t a[16], b[16], c[16];

    (void)state;
    assert_int_equal(ask(13002, 1, a), CUDA_ERROR_NOT_INITIALIZED);
    vcu.state = VCU_READY;
    vcu.device_count = 1;
    assert_int_equal(ask(13002, 1000, a), CUDA_SUCCESS);
    assert_int_equal(ask(13002, 1000, b), CUDA_SUCCESS);
    assert_memory_equal(a, b, 16);
    assert_int_equal(ask(13002, 1001, c), CUDA_SUCCESS); /* the time matters */
    assert_memory_not_equal(a, c, 16);
    vcu.devices[0].uuid.bytes[3] ^= 1; /* so do the devices */
    assert_int_equal(ask(13002, 1000, c), CUDA_SUCCESS);
    assert_memory_not_equal(a, c, 16);
    assert_int_equal(ask(13002, 1000, NULL), CUDA_ERROR_INVALID_VALUE);
    vcu.state = VCU_NEW;
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),       cmocka_unit_test(test_hooks),
        cmocka_unit_test(test_refusals),    cmocka_unit_test(test_module_slots),
        cmocka_unit_test(test_before_init), cmocka_unit_test(test_local_storage),
        cmocka_unit_test(test_tools_ids),   cmocka_unit_test(test_module_functions),
#ifdef CONFIG_VGPU_LIBCUDA_INTEGRITY
        cmocka_unit_test(test_md2),         cmocka_unit_test(test_hmac),
        cmocka_unit_test(test_validity),
#endif
    };

    return cmocka_run_group_tests_name("export_table", tests, NULL, NULL);
}
