/* SPDX-License-Identifier: MIT */
/* Argument vectors: all zero, all valid, and each parameter and field invalidated in turn. */
#include <stdio.h>
#include <strings.h>

#include "walk.h"

static const char *const handle_ways[] = {"NULL",         "garbage",         "small", "destroyed",
                                          "another kind", "another context", NULL};
static const char *const int_ways[] = {"0", "huge", NULL};
static const char *const long_ways[] = {"0", "huge", "2^40", NULL};
static const char *const enum_ways[] = {"0", "above", "-1", "huge", NULL};
static const char *const device_ways[] = {"-1", "4711", "huge", NULL};
static const char *const devptr_ways[] = {"0", "garbage", "freed", "odd", "host", NULL};
static const char *const string_ways[] = {"NULL", "empty", "unknown", NULL};
static const char *const handles_ways[] = {"NULL", "{0}", "{garbage}", NULL};
static const char *const pointer_ways[] = {"NULL", NULL};
static const char *const struct_ways[] = {"{0}", NULL};
static const char *const float_ways[] = {"NaN", NULL};

static const char *const *ways_of(const struct wk_param *p)
{
    switch (p->what) {
    case WK_INT:
        return p->size == 8 ? long_ways : int_ways;
    case WK_FLOAT:
        return float_ways;
    case WK_ENUM:
        return enum_ways;
    case WK_DEVICE:
        return device_ways;
    case WK_DEVPTR:
        return devptr_ways;
    case WK_HANDLE:
        return handle_ways;
    case WK_STRUCT:
        return struct_ways;
    case WK_PTR:
        if (p->sub == WK_STRING)
            return string_ways;
        return p->sub == WK_HANDLE || p->sub == WK_STRUCT ? handles_ways : pointer_ways;
    default:
        return pointer_ways;
    }
}

static bool name_has(const char *name, const char *part)
{
    size_t n = strlen(part);

    for (; *name != '\0'; name++) {
        if (strncasecmp(name, part, n) == 0)
            return true;
    }
    return false;
}

static bool is_one_of(const char *name, const char *list)
{
    size_t n = strlen(name);

    for (const char *at = list; (at = strstr(at, name)) != NULL; at += n) {
        if (at[n] == ' ' && (at == list || at[-1] == ' '))
            return true;
    }
    return false;
}

static const struct wk_entry *entry; /* entry point of the vectors */

/* Parameters whose valid values do not follow from type and name. */
static const struct {
    const char *entry, *param; /* parts of their names */
    uint64_t value;
} special[] = {
    {"cuMemAllocManaged", "flags", CU_MEM_ATTACH_GLOBAL},
    {"cuStreamAttachMem", "flags", CU_MEM_ATTACH_SINGLE},
    {"cuStreamAttachMem", "length", 0},
    {"cuUserObjectCreate", "flags", CU_USER_OBJECT_NO_DESTRUCTOR_SYNC},
    {"cuIpcOpenMemHandle", "flags", CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS},
    {"cuMemAddressReserve", "size", WK_MAPPING},
    {"cuMemAddressReserve", "alignment", 0},
    {"cuMemAddressFree", "size", WK_MAPPING},
    {"cuMemCreate", "size", WK_MAPPING},
    {"cuMemMap", "size", WK_MAPPING},
    {"cuMemUnmap", "size", WK_MAPPING},
    {"cuMemSetAccess", "size", WK_MAPPING},
    {"cuMemSetAccess", "flags", CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
    {"cuDeviceSetGraphMemAttribute", "attr", CU_GRAPH_MEM_ATTR_USED_MEM_HIGH},
    {"cuFuncSetAttribute", "attrib", CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES},
    {"cuKernelSetAttribute", "attrib", CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES},
    {"cuLinkAdd", "type", CU_JIT_INPUT_PTX},
    {"cuGreenCtxCreate", "flags", CU_GREEN_CTX_DEFAULT_STREAM},
    {"cuGreenCtxStreamCreate", "flags", CU_STREAM_NON_BLOCKING},
};

/* Returns a plausible number for a parameter by its name. */
static uint64_t plausible(const struct wk_param *p)
{
    if (name_has(p->name, "index") || name_has(p->name, "ordinal") || name_has(p->name, "level") ||
        name_has(p->name, "plane") || p->size == 1 || name_has(p->name, "location.id") ||
        strcmp(p->name, "id") == 0 || name_has(p->name, "XInBytes") ||
        is_one_of(p->name, "srcY dstY srcZ dstZ "))
        return 0;
    if (name_has(p->name, "elementsize"))
        return 4;
    if (name_has(p->name, "flag") || name_has(p->name, "reserved") || name_has(p->name, "offset") ||
        name_has(p->name, "padding") || name_has(p->name, "LOD"))
        return 0;
    if (strcmp(p->name, "cudaVersion") == 0)
        return 13000;
    if (name_has(p->name, "byte") || name_has(p->name, "size") || name_has(p->name, "pitch") ||
        strcmp(p->name, "len") == 0)
        return 64;
    return 1;
}

static void store(void *at, uint32_t size, uint64_t value)
{
    memcpy(at, &value, size < sizeof(value) ? size : sizeof(value));
}

static void fill_struct(unsigned index, unsigned char *at, bool live, unsigned depth);

/* Allocates host memory for a pointer parameter. */
static void *buffer_for(const struct wk_param *p, bool live, unsigned depth)
{
    unsigned char *b = wk_arena(WK_BUFFER);
    uint64_t value;

    if (p->out)
        return b;
    if (p->sub == WK_STRING) {
        strcpy((char *)b, name_has(entry->name, "GetGlobal")    ? "g_words"
                          : name_has(entry->name, "TexRef")     ? "t_ref"
                          : name_has(entry->name, "SurfRef")    ? "s_ref"
                          : name_has(entry->name, "GetProc")    ? "cuInit"
                          : name_has(entry->name, "ByPCIBusId") ? wk_bus_id()
                                                                : wk_name);
    } else if (p->sub == WK_VOID && (name_has(p->name, "image") || name_has(p->name, "code") ||
                                     name_has(p->name, "cubin") || strcmp(p->name, "data") == 0)) {
        strcpy((char *)b, wk_ptx);
    } else if (p->sub == WK_PTR) { /* an array of pointers, such as kernelParams */
        for (unsigned i = 0; i < 64; i++) {
            void *target = b + WK_BUFFER / 2;

            memcpy(b + i * sizeof(target), &target, sizeof(target));
        }
    } else if (p->sub == WK_HANDLE && live) {
        value = wk_live_handle(p->sub_extra);
        store(b, p->sub_size, value);
    } else if (p->sub == WK_DEVPTR && live) {
        value = wk_live_memory();
        store(b, p->sub_size, value);
    } else if (p->sub == WK_STRUCT && depth < 3) {
        fill_struct(p->sub_extra, b, live, depth + 1);
    } else if (p->sub == WK_INT || p->sub == WK_ENUM) {
        store(b, p->sub_size, p->sub == WK_INT ? 1 : p->sub_extra);
    } else if (p->sub == WK_VOID && live && strcmp(p->name, "p") == 0 && name_has(entry->name, "Host") &&
               !name_has(entry->name, "HostRegister")) {
        return (void *)(uintptr_t)wk_pinned_memory(name_has(entry->name, "Unregister"));
    }
    return b;
}

/*
 * Returns a valid value; an invented one before cuInit and for handles that cannot be created here.
 */
static uint64_t valid(const struct wk_param *p, bool live, unsigned depth)
{
    for (unsigned i = 0; i < sizeof(special) / sizeof(special[0]); i++) {
        if ((p->what == WK_INT || p->what == WK_ENUM) && name_has(entry->name, special[i].entry) &&
            strcasecmp(p->name, special[i].param) == 0)
            return special[i].value;
    }
    switch (p->what) {
    case WK_ENUM:
        return p->sub_extra;
    case WK_INT:
        return plausible(p);
    case WK_HANDLE:
        if (strcmp(p->name, "kern") == 0) /* a kernel node has either a function or a kernel */
            return 0;
        return live ? wk_live_handle(p->extra) : 0x123456789ab0;
    case WK_DEVPTR:
        if (name_has(entry->name, "cuMemAddressReserve"))
            return 0; /* no preference */
        return live ? wk_live_memory() : 0x10000;
    case WK_CALLBACK:
        return wk_callback();
    case WK_STRUCT: {
        unsigned char *b = wk_arena(WK_BUFFER);

        fill_struct(p->extra, b, live, depth + 1);
        return (uint64_t)(uintptr_t)b;
    }
    case WK_PTR: /* a launch takes either kernelParams or extra */
        if (strcmp(p->name, "extra") == 0 || name_has(p->name, "reserved") ||
            strcmp(p->name, "cigParams") == 0)
            return 0;
        return (uint64_t)(uintptr_t)buffer_for(p, live, depth);
    default: /* floats, devices */
        return 0;
    }
}

static void fill_struct(unsigned index, unsigned char *at, bool live, unsigned depth)
{
    const struct wk_struct *s = &wk_structs[index];

    /* In reverse order, so that the first member of a union is kept. */
    for (uint32_t i = s->n_fields; i-- > 0;)
        store(at + s->fields[i].offset, s->fields[i].size, valid(&s->fields[i], live, depth));
    if (live && name_has(s->name, "CUdevResource")) /* its contents are opaque */
        wk_resource(at);
}

static uint64_t spoiled(const struct wk_param *p, const char *how)
{
    if (strcmp(how, "NULL") == 0 || strcmp(how, "0") == 0)
        return 0;
    if (strcmp(how, "garbage") == 0)
        return 0x123456789ab0;
    if (strcmp(how, "small") == 0)
        return 3;
    if (strcmp(how, "destroyed") == 0)
        return wk_destroyed_handle(p->extra);
    if (strcmp(how, "another kind") == 0)
        return wk_other_handle(p->extra);
    if (strcmp(how, "another context") == 0)
        return wk_foreign_handle(p->extra);
    if (strcmp(how, "huge") == 0)
        return p->what == WK_INT ? ~(uint64_t)0 : 0x7fffffff;
    if (strcmp(how, "2^40") == 0)
        return (uint64_t)1 << 40;
    if (strcmp(how, "above") == 0)
        return p->extra + 1000u; /* the next values may exist in a newer CUDA, and succeed */
    if (strcmp(how, "-1") == 0)
        return ~(uint64_t)0;
    if (strcmp(how, "4711") == 0)
        return 4711;
    if (strcmp(how, "freed") == 0)
        return wk_freed_memory();
    if (strcmp(how, "odd") == 0)
        return wk_live_memory() + 1;
    if (strcmp(how, "NaN") == 0)
        return 0x7fc00000;
    if (strcmp(how, "unknown") == 0)
        return (uint64_t)(uintptr_t)strcpy(wk_arena(WK_BUFFER), wk_unknown_name);
    if (strcmp(how, "{garbage}") == 0) {
        uint64_t value = 0x123456789ab0;
        unsigned char *b = wk_arena(WK_BUFFER);

        if (p->sub == WK_HANDLE)
            store(b, p->sub_size, value);
        return (uint64_t)(uintptr_t)b;
    }
    return (uint64_t)(uintptr_t)wk_arena(WK_BUFFER); /* "host", "empty", "{0}" */
}

/*
 * True for variations to skip: meaningless for the parameter, or a value that a call would never
 * stop waiting for.
 */
static bool left_out(const struct wk_param *p, const char *how)
{
    if (p->what == WK_PTR && p->sub == WK_STRUCT && strcmp(how, "{garbage}") == 0)
        return true;
    if (strcmp(how, "another context") == 0 && !wk_of_context(p->extra))
        return true;
    if (p->out && strcmp(how, "NULL") != 0) /* the contents of an output do not matter */
        return true;
    return strncmp(p->name, "value", 5) == 0 && strcmp(how, "2^40") == 0;
}

/* True for a parameter that selects an attribute: tries each attribute of cuda.h. */
static bool is_attribute(const struct wk_param *p)
{
    return p->what == WK_ENUM && p->extra < 1024 && name_has(p->name, "attr");
}

/* Counts the variations of a parameter; stores variation *n in *at. */
static bool spoil(const struct wk_param *p, unsigned *n, void *at, struct wk_vector *v, const char *prefix)
{
    const char *const *ways = ways_of(p);

    for (; *ways != NULL; ways++) {
        if (left_out(p, *ways) || (*n)-- != 0)
            continue;
        if (v != NULL) {
            store(at, p->what == WK_STRUCT ? 8 : p->size, spoiled(p, *ways));
            v->where = p;
            v->how = *ways;
            v->in_struct = *prefix != '\0';
            snprintf(v->label, sizeof(v->label), "%s%s=%s", prefix, p->name, *ways);
        }
        return true;
    }
    if (*prefix != '\0' || !is_attribute(p))
        return false;
    if (*n > p->extra) {
        *n -= p->extra + 1;
        return false;
    }
    if (v != NULL) {
        store(at, p->size, *n);
        snprintf(v->label, sizeof(v->label), "%s %u", p->name, *n);
        v->how = "valid";
    }
    return true;
}

static const struct wk_struct *struct_of(const struct wk_param *p)
{
    if (p->what == WK_STRUCT)
        return &wk_structs[p->extra];
    return p->what == WK_PTR && p->sub == WK_STRUCT && !p->out ? &wk_structs[p->sub_extra] : NULL;
}

/* Captured values for a parameter: NULL is the legacy stream, which waits for blocking streams. */
static const char *const *captured_ways(const struct wk_param *p, unsigned capture)
{
    static const char *const stream_ways[] = {"capturing", NULL}, *const event_ways[] = {"captured", NULL};
    static const char *const legacy_ways[] = {"capturing", "NULL", NULL}, *const none[] = {NULL};

    if (p->what != WK_HANDLE)
        return none;
    if (strcmp(wk_kinds[p->extra], "CUevent") == 0)
        return event_ways;
    if (strcmp(wk_kinds[p->extra], "CUstream") != 0)
        return none;
    return strcmp(wk_captures[capture], "blocking") == 0 ? legacy_ways : stream_ways;
}

/*
 * Valid arguments during each kind of capture, with each stream and event in turn replaced by the
 * captured one.
 */
static bool make_captured(const struct wk_entry *e, unsigned n, struct wk_vector *v)
{
    for (uint32_t i = 0; i < e->n_params; i++)
        v->args[i] = valid(&e->params[i], true, 0);
    for (unsigned c = 0; wk_captures[c] != NULL; c++) {
        if (n-- == 0) {
            snprintf(v->label, sizeof(v->label), "%s, all valid", wk_captures[c]);
            return wk_capture_begin(c);
        }
        for (uint32_t i = 0; i < e->n_params; i++) {
            for (const char *const *way = captured_ways(&e->params[i], c); *way != NULL; way++) {
                if (n-- != 0)
                    continue;
                snprintf(v->label, sizeof(v->label), "%s, %s=%s", wk_captures[c], e->params[i].name, *way);
                if (!wk_capture_begin(c))
                    return false;
                v->args[i] = strcmp(*way, "NULL") == 0 ? 0 : wk_captured_handle(e->params[i].extra);
                return true;
            }
        }
    }
    return false;
}

bool wk_vector_make(const struct wk_entry *e, enum wk_phase phase, unsigned n, struct wk_vector *v)
{
    bool live = phase != WK_BEFORE_INIT;

    memset(v, 0, sizeof(*v));
    wk_arena_reset();
    entry = e;
    wk_live_begin(e->name);
    v->how = "capturing";
    if (phase == WK_CAPTURE)
        return make_captured(e, n, v);
    if (n == 0) {
        strcpy(v->label, "all zero");
        v->how = "zero";
        for (uint32_t i = 0; i < e->n_params; i++) {
            if (e->params[i].what == WK_STRUCT)
                v->args[i] = (uint64_t)(uintptr_t)wk_arena(WK_BUFFER);
        }
        return true;
    }
    if (n > 1 && phase != WK_CONTEXT)
        return false;
    for (uint32_t i = 0; i < e->n_params; i++)
        v->args[i] = valid(&e->params[i], live, 0);
    if (n == 1) {
        strcpy(v->label, "all valid");
        v->how = "valid";
        return true;
    }
    n -= 2;
    for (uint32_t i = 0; i < e->n_params; i++) {
        const struct wk_struct *s = struct_of(&e->params[i]);

        if (spoil(&e->params[i], &n, &v->args[i], v, ""))
            return true;
        for (uint32_t k = 0; s != NULL && k < s->n_fields; k++) {
            unsigned char *at = (unsigned char *)(uintptr_t)v->args[i] + s->fields[k].offset;
            char prefix[48];

            snprintf(prefix, sizeof(prefix), "%s.", e->params[i].name);
            if (spoil(&s->fields[k], &n, at, v, prefix))
                return true;
        }
    }
    return false;
}
