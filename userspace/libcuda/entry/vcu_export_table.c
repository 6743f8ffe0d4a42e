/* SPDX-License-Identifier: MIT */
/*
 * cuGetExportTable: tables of functions without names that NVIDIA's own libraries ask for by UUID.
 * Only the slots that the runtimes 11.8 to 13.5, cuBLAS, cublasLt and cuFFT were measured to use
 * are served; every other slot refuses and names itself on the trace. Names and parameters are
 * those that public projects publish. The sizes are at least those of NVIDIA's tables.
 */
#include "entry.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vgp_entry.h"
#include "../../../protocol/vgp_guest_rt.h"
#include "export_slots.h"

/* Every slot of a table refuses until a later initialiser serves it. */
#pragma GCC diagnostic ignored "-Woverride-init"

int vcu_slot_refused(const char *table, int slot)
{
    return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, "cuGetExportTable",
                      "slot %d of the export table %s was called, and is not served", slot, table);
}

/* ---- 6bd5fb6c: CUDART_INTERFACE ------------------------------------------------------------- */

/* The primary context's handle, without retaining it. */
static int cudart_primary_context(CUcontext *out, CUdevice dev)
{
    struct vcu_device *d;
    CUresult res = vcu_device_get(dev, &d);

    if (res == CUDA_SUCCESS && out == NULL)
        res = CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS)
        *out = (CUcontext)(uintptr_t)d->primary;
    return (int)res;
}

/*
 * The runtimes before 12.0 load the images of the program through these three: the module belongs to the
 * current context. The last three parameters have no published meaning, and the runtimes pass zeros.
 */
static int cudart_load(const char *slot, CUmodule *module, const void *image, const void *a, const void *b,
                       unsigned c)
{
    uint64_t t0 = lnk_trace_now();
    CUresult res = CUDA_SUCCESS;

    if (module == NULL || image == NULL)
        res = CUDA_ERROR_INVALID_VALUE;
    else if (a != NULL || b != NULL || c != 0)
        res = VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, "cuGetExportTable",
                         "%s of the export table 6bd5fb6c (CUDART_INTERFACE) got parameters %p, %p, %u "
                         "that are not served",
                         slot, a, b, c);
    else
        res = vcu_cuModuleLoadData(module, image);
    if (lnk_trace_on)
        vcu_trace_call("module of a fatbin", res, t0, "%s, *module=%p image=%p", slot,
                       res == CUDA_SUCCESS ? (void *)*module : NULL, image);
    return (int)res;
}

static int cudart_module(CUmodule *module, const void *wrapper)
{
    return cudart_load("slot 1", module, wrapper, NULL, NULL, 0);
}

static int cudart_module_ext1(CUmodule *module, const void *wrapper, void *a, void *b, unsigned c)
{
    return cudart_load("slot 6", module, wrapper, a, b, c);
}

static int cudart_module_ext2(const void *fatbin, CUmodule *module, void *a, void *b, unsigned c)
{
    return cudart_load("slot 8", module, fatbin, a, b, c);
}

/* Called before a runtime up to 11.8 unloads a module of the program. No state is kept for it. */
static int cudart_module_ends(size_t what)
{
    (void)what;
    return CUDA_SUCCESS;
}

/* "load_compilers": runtimes newer than 13.0 call it at their start, and an error ends the start.
 * The PTX compiler is the host's, and available when needed. */
static int cudart_load_compilers(void)
{
    return CUDA_SUCCESS;
}

VCU_TABLE_REFUSALS(cudart, "6bd5fb6c (CUDART_INTERFACE)")
static const void *const cudart_table[VCU_TABLE_SLOTS] = {
    VCU_ALL_REFUSED(cudart)[0] = VCU_SIZE_WORD(13), [1] = (const void *)cudart_module,
    [2] = (const void *)cudart_primary_context,     [6] = (const void *)cudart_module_ext1,
    [7] = (const void *)cudart_module_ends,         [8] = (const void *)cudart_module_ext2,
    [12] = (const void *)cudart_load_compilers,
};

/* ---- a094798c: TOOLS_RUNTIME_CALLBACK_HOOKS -------------------------------------------------- */

/* Callback switches, indexed by callback id; zero = off. The runtime wants more than 522 and 13. */
static uint32_t api_switches[1024];
static uint32_t domain_switches[64];

static void hooks_api(uint32_t **flags, size_t *n)
{
    *flags = api_switches;
    *n = sizeof(api_switches) / sizeof(api_switches[0]);
}

static void hooks_domain(uint32_t **flags, size_t *n)
{
    *flags = domain_switches;
    *n = sizeof(domain_switches) / sizeof(domain_switches[0]);
}

VCU_TABLE_REFUSALS(hooks, "a094798c (TOOLS_RUNTIME_CALLBACK_HOOKS)")
static const void *const hooks_table[VCU_TABLE_SLOTS] = {
    VCU_ALL_REFUSED(hooks)[0] = VCU_SIZE_WORD(7),
    [2] = (const void *)hooks_api,
    [6] = (const void *)hooks_domain,
};

/* ---- 42d85a81: TOOLS_TLS --------------------------------------------------------------------- */

static int tls_current_context(CUcontext *out)
{
    return (int)vcu_cuCtxGetCurrent(out);
}

VCU_TABLE_REFUSALS(tls, "42d85a81 (TOOLS_TLS)")
static const void *const tls_table[VCU_TABLE_SLOTS] = {
    VCU_ALL_REFUSED(tls)[0] = VCU_SIZE_WORD(4),
    [2] = (const void *)tls_current_context,
};

/* ---- c693336e: CONTEXT_LOCAL_STORAGE --------------------------------------------------------- */

struct vcu_cls {
    struct vcu_cls *next;
    void *key, *value;
    void (*destroy)(CUcontext ctx, void *key, void *value);
};

static pthread_rwlock_t cls_lock = PTHREAD_RWLOCK_INITIALIZER;

static int cls_put(CUcontext ctx, void *key, void *value,
                   void (*destroy)(CUcontext ctx, void *key, void *value))
{
    struct vcu_context *c;
    struct vcu_cls *e;
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return (int)res;
    c = vcu_context_find(ctx);
    if (c == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_rwlock_wrlock(&cls_lock);
    for (e = c->storage; e != NULL && e->key != key; e = e->next)
        ;
    if (e == NULL) {
        e = malloc(sizeof(*e));
        if (e != NULL) {
            e->next = c->storage;
            c->storage = e;
        }
    }
    if (e != NULL) {
        e->key = key;
        e->value = value;
        e->destroy = destroy;
    } else {
        res = CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_rwlock_unlock(&cls_lock);
    return (int)res;
}

static int cls_delete(CUcontext ctx, void *key)
{
    struct vcu_context *c;
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return (int)res;
    c = vcu_context_find(ctx);
    if (c == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    res = CUDA_ERROR_INVALID_HANDLE;
    pthread_rwlock_wrlock(&cls_lock);
    for (struct vcu_cls **p = &c->storage; *p != NULL; p = &(*p)->next) {
        if ((*p)->key == key) {
            struct vcu_cls *e = *p;

            *p = e->next;
            free(e);
            res = CUDA_SUCCESS;
            break;
        }
    }
    pthread_rwlock_unlock(&cls_lock);
    return (int)res;
}

static int cls_get(void **value, CUcontext ctx, void *key)
{
    struct vcu_context *c;
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return (int)res;
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    c = vcu_context_find(ctx);
    if (c == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    res = CUDA_ERROR_INVALID_HANDLE; /* answer to a miss */
    pthread_rwlock_rdlock(&cls_lock);
    for (const struct vcu_cls *e = c->storage; e != NULL; e = e->next) {
        if (e->key == key) {
            *value = e->value;
            res = CUDA_SUCCESS;
            break;
        }
    }
    pthread_rwlock_unlock(&cls_lock);
    return (int)res;
}

/* Runs the destructors of a context's storage, which may call this library. */
static void cls_clear(struct vcu_context *context)
{
    struct vcu_cls *e;

    pthread_rwlock_wrlock(&cls_lock);
    e = context->storage;
    context->storage = NULL;
    pthread_rwlock_unlock(&cls_lock);
    while (e != NULL) { /* the destructors may call this library: outside the lock */
        struct vcu_cls *next = e->next;

        if (e->destroy != NULL)
            e->destroy((CUcontext)(uintptr_t)context->handle, e->key, e->value);
        free(e);
        e = next;
    }
}

const struct vcu_unit_ops vcu_cls_unit = {.context_ending = cls_clear};

/* This table has no size word. */
VCU_TABLE_REFUSALS(cls, "c693336e (CONTEXT_LOCAL_STORAGE)")
static const void *const cls_table[VCU_TABLE_SLOTS] = {
    VCU_ALL_REFUSED(cls)[0] = (const void *)cls_put,
    [1] = (const void *)cls_delete,
    [2] = (const void *)cls_get,
};

/* ---- 263e8860: CONTEXT_CHECKS ---------------------------------------------------------------- */

static int checks_context(CUcontext ctx, uint32_t *kind, void **object)
{
    (void)ctx;
    (void)object; /* left unchanged: the runtime does not read it */
    if (kind == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *kind = 0;
    return CUDA_SUCCESS;
}

static uint32_t checks_flag(void)
{
    return 0;
}

VCU_TABLE_REFUSALS(checks, "263e8860 (CONTEXT_CHECKS)")
static const void *const checks_table[VCU_TABLE_SLOTS] = {
    VCU_ALL_REFUSED(checks)[0] = VCU_SIZE_WORD(5),
    [2] = (const void *)checks_context,
    [3] = (const void *)checks_flag,
};

/* ---- d4082055: INTEGRITY_CHECK (vcu_integrity.c) --------------------------------------------- */

static const void *const integrity_table[VCU_TABLE_SLOTS];

/* Traced: the last query of the runtime before it lets a program use the GPU. */
static int integrity_slot(uint32_t version, uint64_t unix_seconds, uint8_t out[16])
{
    uint64_t t0 = lnk_trace_now();
    char value[16];
    int r;

    if (vcu_fault_find("integrity", NULL, value, sizeof(value)) && strcmp(value, "wrong") != 0) {
        r = atoi(value);
    } else {
        r = vcu_integrity_check(cudart_table, integrity_table, version, unix_seconds, out);
        if (vcu_fault_spec != NULL && vcu_fault_find("integrity", NULL, value, sizeof(value)) &&
            r == CUDA_SUCCESS && out != NULL)
            out[0] ^= 1;
    }
    if (lnk_trace_on)
        vcu_trace_call("validity check", (CUresult)r, t0, "version=%u", version);
    return r;
}

VCU_TABLE_REFUSALS(integrity, "d4082055 (INTEGRITY_CHECK)")
static const void *const integrity_table[VCU_TABLE_SLOTS] = {
    VCU_ALL_REFUSED(integrity)[0] = VCU_SIZE_WORD(3),
    [1] = (const void *)integrity_slot,
};

/* ---- 21318c60: TOOLS_CONTEXT ------------------------------------------------------------------
 */

static int tools_context_id(CUcontext ctx, uint64_t *id)
{
    unsigned long long value = 0;
    CUresult res = vcu_cuCtxGetId(ctx, &value);

    if (res == CUDA_SUCCESS && id == NULL)
        res = CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS)
        *id = value;
    return (int)res;
}

/*
 * A stream object identifies (context, stream). Live handles are already unique; the special
 * streams 0, 1 and 2 are distinguished by context and, for 2, by thread. The object is the id
 * itself: callers never dereference it.
 */
static int tools_stream_object(CUcontext ctx, CUstream stream, void **object, uint32_t per_thread)
{
    struct vcu_context *c;
    uint64_t value = (uintptr_t)stream;
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return (int)res;
    c = vcu_context_find(ctx);
    if (c == NULL || object == NULL)
        return c == NULL ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
    if (!vcu_stream_ok(stream))
        return vcu_stream_error(stream);
    if (value <= 1)
        value = c->id << 32 | 1;
    else if (value == 2 || per_thread)
        value = c->id << 32 | 2 | (uint64_t)(vcu_thread()->number + 1) << 4;
    *object = (void *)(uintptr_t)value;
    return CUDA_SUCCESS;
}

static int tools_stream_id(CUcontext ctx, void *object, uint64_t *id)
{
    (void)ctx;
    if (id == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *id = (uintptr_t)object;
    return CUDA_SUCCESS;
}

VCU_TABLE_REFUSALS(tools_context, "21318c60 (TOOLS_CONTEXT)")
static const void *const tools_context_table[VCU_TABLE_SLOTS] = {
    VCU_ALL_REFUSED(tools_context)[0] = VCU_SIZE_WORD(95),
    [4] = (const void *)tools_context_id,
    [39] = (const void *)tools_stream_id,
    [51] = (const void *)tools_stream_object,
};

/* ---- 1734dc26: no public name; cublasLt asks slot 4 for a map of SM groups --------------------
 */

static int sm_groups(uint8_t **map, void *unused[2])
{
    (void)map;
    (void)unused;
    return CUDA_ERROR_NOT_SUPPORTED; /* cublasLt then does without; a missing table would crash it
                                      */
}

VCU_TABLE_REFUSALS(sm_groups, "1734dc26 (of cublasLt)")
static const void *const sm_groups_table[VCU_TABLE_SLOTS] = {
    VCU_ALL_REFUSED(sm_groups)[0] = VCU_SIZE_WORD(16),
    [4] = (const void *)sm_groups,
};

/* ---- 6e163fbe: TOOLS_MODULE; cuFFT asks slot 7 for the kernel of a module it has linked itself - */

/*
 * Calls visit(user, function) for each function of MODULE. Equivalent to the public
 * cuModuleEnumerateFunctions; the caller takes 1 as success, any other value as a failure.
 */
static int module_functions(CUcontext ctx, CUmodule module, int (*visit)(void *user, CUfunction function),
                            void *user)
{
    CUfunction *all = NULL;
    CUcontext was;
    unsigned n = 0;
    CUresult res = visit != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

    if (res == CUDA_SUCCESS && ctx != NULL)
        res = vcu_cuCtxPushCurrent_v2(ctx);
    if (res != CUDA_SUCCESS)
        return 0;
    res = vcu_cuModuleGetFunctionCount(&n, module);
    if (res == CUDA_SUCCESS && n > 0) {
        all = calloc(n, sizeof(*all));
        res = all != NULL ? vcu_cuModuleEnumerateFunctions(all, n, module) : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (ctx != NULL)
        vcu_cuCtxPopCurrent_v2(&was);
    for (unsigned i = 0; res == CUDA_SUCCESS && i < n; i++)
        visit(user, all[i]);
    free(all);
    return res == CUDA_SUCCESS;
}

VCU_TABLE_REFUSALS(tools_module, "6e163fbe (TOOLS_MODULE)")
static const void *const tools_module_table[VCU_TABLE_SLOTS] = {
    VCU_ALL_REFUSED(tools_module)[0] = VCU_SIZE_WORD(93),
    [7] = (const void *)module_functions,
};

/* ---- f8cff951: no public name; the runtime's own error log
 * --------------------------------------- */

/* The runtime's diagnostics, such as "Insufficient driver: %d < %d", for the trace. */
static void runtime_log(const char *component, int level, const char *fmt, va_list *args)
{
    char text[512];

    (void)level;
    if (!lnk_trace_on || fmt == NULL || args == NULL)
        return;
    vsnprintf(text, sizeof(text), fmt, *args);
    lnk_why(component != NULL ? component : "CUDA", "%s", text);
}

VCU_TABLE_REFUSALS(runtime_log, "f8cff951 (of the runtime's log)")
static const void *const runtime_log_table[VCU_TABLE_SLOTS] = {
    VCU_ALL_REFUSED(runtime_log)[0] = VCU_SIZE_WORD(8),
    [1] = (const void *)runtime_log,
};

/* ---- the list ------------------------------------------------------------------------------- */

static const struct {
    unsigned char id[16];
    const void *const *table;
} tables[] = {
    {{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9},
     cudart_table},
    {{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a, 0x66},
     hooks_table},
    {{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec, 0xdc},
     tls_table},
    {{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95, 0x93},
     cls_table},
    {{0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa, 0x7e},
     checks_table},
    {{0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1, 0xf2},
     integrity_table},
    {{0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8, 0xf2},
     tools_context_table},
    {{0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd, 0x8b, 0xca},
     sm_groups_table},
    {{0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d, 0x83, 0x5c, 0xe1, 0x82, 0xaf, 0xf1, 0x99, 0x1e},
     tools_module_table},
    {{0xf8, 0xcf, 0xf9, 0x51, 0x21, 0x46, 0x8b, 0x4e, 0xb9, 0xe2, 0xfb, 0x46, 0x9e, 0x7c, 0x0d, 0xd9},
     runtime_log_table},
};

const void *vcu_export_table_find(const CUuuid *id)
{
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        if (memcmp(id->bytes, tables[i].id, 16) == 0)
            return tables[i].table;
    }
    return NULL;
}

/* VGPU_FAULT: true if this table's answer must be wrong. Not before cuInit, where any answer is
 * fine. */
static bool table_fault(const unsigned char *b, CUresult *result)
{
    char id[16], value[16];

    snprintf(id, sizeof(id), "%02x%02x%02x%02x", b[0], b[1], b[2], b[3]);
    if (vcu_check_init() != CUDA_SUCCESS || (!vcu_fault_find("table", id, value, sizeof(value)) &&
                                             !vcu_fault_find("table", NULL, value, sizeof(value))))
        return false;
    *result = strcmp(value, "unset") == 0 ? CUDA_SUCCESS : (CUresult)atoi(value);
    if (*result != CUDA_SUCCESS)
        lnk_why("cuGetExportTable", "no table %s...: VGPU_FAULT", id);
    return true;
}

CUresult vcu_cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
    const unsigned char *b;
    CUresult fault;

    if (ppExportTable == NULL || pExportTableId == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    b = (const unsigned char *)pExportTableId->bytes;
    if (vcu_fault_spec != NULL && table_fault(b, &fault))
        return fault;
    *ppExportTable = vcu_export_table_find(pExportTableId);
    if (*ppExportTable != NULL)
        return CUDA_SUCCESS;
    return VCU_REFUSE(CUDA_ERROR_NOT_FOUND, "cuGetExportTable",
                      "no table %02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                      b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
                      b[15]);
}
