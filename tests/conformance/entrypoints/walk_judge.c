/* SPDX-License-Identifier: MIT */
/* Expected results of calls with bad arguments, by rule. */
#include "walk.h"

static const struct {
    CUresult code;
    const char *name;
} results[] = {
#define R(x) {x, #x},
#include "walk_results.h"
#undef R
};

const char *wk_result_name(CUresult r)
{
    for (unsigned i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        if (results[i].code == r)
            return results[i].name;
    }
    return NULL;
}

static bool documented(const struct wk_entry *e, CUresult r)
{
    for (const int *d = e->documented; *d != -1; d++) {
        if (*d == (int)r)
            return true;
    }
    return false;
}

/* In structures an ordinal has the C type of a plain number. */
static bool is_location(const struct wk_param *p)
{
    size_t n = strlen(p->name);

    return strcmp(p->name, "id") == 0 || (n > 3 && strcmp(p->name + n - 3, ".id") == 0);
}

static bool takes(const struct wk_param *p, uint32_t n, unsigned what)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct wk_struct *s = p[i].what == WK_STRUCT ? &wk_structs[p[i].extra]
                                    : p[i].what == WK_PTR && p[i].sub == WK_STRUCT
                                        ? &wk_structs[p[i].sub_extra]
                                        : NULL;

        if (p[i].what == what || (what == WK_DEVICE && is_location(&p[i])) ||
            (p[i].what == WK_PTR && p[i].sub == what) || (s != NULL && takes(s->fields, s->n_fields, what)))
            return true;
    }
    return false;
}

/*
 * Results that the manual's chapter on capturing documents for all calls, missing in their own
 * lists.
 */
static bool of_capture(CUresult r)
{
    return r >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && r <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

/*
 * Results listed in cuda.h, or documented in its introduction for all calls: bad values, handles,
 * contexts.
 */
static bool allowed(const struct wk_entry *e, CUresult r)
{
    if (e->documented[0] == -1 || documented(e, r))
        return true;
    switch (r) {
    case CUDA_SUCCESS:
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_CONTEXT:
        return true;
    case CUDA_ERROR_INVALID_HANDLE:
        return takes(e->params, e->n_params, WK_HANDLE);
    case CUDA_ERROR_INVALID_DEVICE:
        return takes(e->params, e->n_params, WK_DEVICE);
    default:
        return false;
    }
}

/* Results returned by drivers but missing in the comments of cuda.h. */
static const struct {
    const char *prefix; /* prefix of the entry point's name */
    CUresult result;
} silent[] = {
    {"cuModuleLoad", CUDA_ERROR_INVALID_IMAGE}, /* listed with cuModuleLoadData */
    {"cuModuleLoad", CUDA_ERROR_NO_BINARY_FOR_GPU},
    {"cuLibraryLoad", CUDA_ERROR_INVALID_IMAGE},
    {"cuLibraryLoadFromFile", CUDA_ERROR_FILE_NOT_FOUND},
    {"cuMemGetMemPool", CUDA_ERROR_NOT_SUPPORTED}, /* invalid location */
    {"cuMemSetMemPool", CUDA_ERROR_NOT_SUPPORTED},
    {"cuStreamEndCapture", CUDA_ERROR_ILLEGAL_STATE},                /* not captured; text only */
    {"cuStreamBeginCapture", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED}, /* the legacy stream, also */
    {"cuStreamBeginCapture", CUDA_ERROR_ILLEGAL_STATE},              /* captured already, also */
    {"cuGetProcAddress", CUDA_ERROR_NOT_FOUND},
    {"cuCheckpointProcessGetState", CUDA_ERROR_OPERATING_SYSTEM},       /* no such process */
    {"cuGraphKernelNodeSetAttribute", CUDA_ERROR_INVALID_CLUSTER_SIZE}, /* a cluster of 0 blocks */
    {"cuCtxCreate_v", CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY},            /* in the text only */
};

static bool known_to_be_silent(const struct wk_entry *e, CUresult r)
{
    for (unsigned i = 0; i < sizeof(silent) / sizeof(silent[0]); i++) {
        if (silent[i].result == r && strncmp(e->name, silent[i].prefix, strlen(silent[i].prefix)) == 0)
            return true;
    }
    return false;
}

/* A call that fails even with valid arguments is not supported by the device. */
static bool not_offered(const struct wk_entry *e, const struct wk_vector *v, CUresult r)
{
    static const struct wk_entry *last;
    static bool whole;

    if (v->where == NULL) {
        whole = last == e ? whole : false;
        last = e;
        if (strcmp(v->how, "valid") == 0)
            whole = r == CUDA_ERROR_NOT_SUPPORTED;
        return r == CUDA_ERROR_NOT_SUPPORTED;
    }
    return r == CUDA_ERROR_NOT_SUPPORTED && last == e && whole;
}

/* Bad arguments that are no error according to cuda.h. */
static const struct {
    const char *prefix, *param;
} tolerant[] = {
    {"cuPointerGetAttributes", "ptr"},          /* attributes of an invalid address are 0 */
    {"cuMemPrefetchAsync", "dstDevice"},        /* -1 is the host */
    {"cuMemAdvise", "device"},                  /* ignored for some advice */
    {"cuDeviceGetExecAffinitySupport", "type"}, /* driver 580: invalid types are not supported */
};

static bool may_succeed(const struct wk_entry *e, const struct wk_param *p)
{
    for (unsigned i = 0; i < sizeof(tolerant) / sizeof(tolerant[0]); i++) {
        if (strncmp(e->name, tolerant[i].prefix, strlen(tolerant[i].prefix)) == 0 &&
            strcmp(p->name, tolerant[i].param) == 0)
            return true;
    }
    return false;
}

static const char *judge_ready(const struct wk_entry *e, enum wk_phase phase, const struct wk_vector *v,
                               CUresult r)
{
    const struct wk_param *p = v->where;

    if (wk_ours && e->state == WK_REFUSED)
        return r == CUDA_ERROR_NOT_SUPPORTED ? NULL : "CUDA_ERROR_NOT_SUPPORTED, as described";
    if (phase == WK_CAPTURE && of_capture(r))
        return NULL;
    if (!not_offered(e, v, r) && !allowed(e, r) && !known_to_be_silent(e, r))
        return "a documented result";
    if (p == NULL || v->in_struct || r != CUDA_SUCCESS || may_succeed(e, p))
        return NULL;
    if (strcmp(v->how, "another context") == 0) /* many calls use the context of the object */
        return NULL;
    switch (p->what) {
    case WK_HANDLE:
        return strcmp(v->how, "NULL") == 0 ? NULL : "an error";
    case WK_DEVICE:
        return "an error";
    case WK_ENUM:
        return strcmp(v->how, "0") == 0 ? NULL : "an error";
    case WK_DEVPTR:
        return strcmp(v->how, "garbage") == 0 || strcmp(v->how, "freed") == 0 ? "an error" : NULL;
    default:
        return NULL;
    }
}

const char *wk_judge(const struct wk_entry *e, enum wk_phase phase, const struct wk_vector *v, CUresult r)
{
    if (wk_result_name(r) == NULL)
        return "a result of cuda.h";
    if (phase != WK_BEFORE_INIT)
        return judge_ready(e, phase, v, r);
    /*
     * Calls that do not list the error may be called before cuInit; also cuGetExportTable, which
     * NVIDIA's runtime calls first.
     */
    if ((e->documented[0] != -1 && !documented(e, CUDA_ERROR_NOT_INITIALIZED)) ||
        strcmp(e->name, "cuGetExportTable") == 0)
        return NULL;
    /* Some calls check for NULL arguments first (driver 580); the table of answers lists them. */
    if (strcmp(v->how, "zero") == 0 && (r == CUDA_ERROR_INVALID_VALUE || r == CUDA_ERROR_INVALID_HANDLE))
        return NULL;
    /* ... or detect that no output is requested. */
    if (strcmp(v->how, "zero") == 0 && strncmp(e->name, "cuMemGetAddressRange", 20) == 0 && r == CUDA_SUCCESS)
        return NULL;
    return r == CUDA_ERROR_NOT_INITIALIZED ? NULL : "CUDA_ERROR_NOT_INITIALIZED";
}
