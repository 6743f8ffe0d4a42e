/* SPDX-License-Identifier: MIT */
/*
 * The test provider's arrays and user objects. Each lives as long as CUDA says; a call with one
 * that does not live any more ends the process, as it might with a real driver.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "testprov.h"

enum kind { ARRAY = 1, MIPMAP, USER };

struct object {
    struct object *next;
    enum kind kind;
    bool live;
    struct object *parent; /* of a level */
    unsigned count;
    CUhostFn destroy;
    void *data;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object *all;

static struct object *make(enum kind kind, struct object *parent)
{
    struct object *o = calloc(1, sizeof(*o));

    o->kind = kind;
    o->live = true;
    o->parent = parent;
    pthread_mutex_lock(&lock);
    o->next = all; /* never freed, so that a stale pointer is seen for sure */
    all = o;
    pthread_mutex_unlock(&lock);
    return o;
}

static struct object *use(void *p, enum kind kind)
{
    struct object *o = p;

    if (!o->live || o->kind != kind)
        abort();
    return o;
}

bool testprov_array_live(const void *a)
{
    return ((const struct object *)a)->live;
}

/* The context ends, and its arrays with it. */
void testprov_context_ends(void)
{
    testprov_modules_end();
    for (struct object *o = all; o; o = o->next) {
        if (o->kind == ARRAY || o->kind == MIPMAP)
            o->live = false;
    }
}

CUresult cuArray3DCreate_v2(CUarray *a, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    *a = (CUarray)make(ARRAY, NULL);
    ((struct object *)*a)->count = (unsigned)d->Width;
    return CUDA_SUCCESS;
}

CUresult cuArrayDestroy(CUarray a)
{
    struct object *o = use(a, ARRAY);

    if (o->parent)
        return CUDA_ERROR_INVALID_HANDLE;
    if (o->count == BAD_ARRAY) {
        testprov_long(); /* twice: with the first release the test knows that the call is here */
        testprov_long();
        return CUDA_ERROR_UNKNOWN;
    }
    o->live = false;
    if (o->count == LONG_BYTES)
        testprov_long();
    return CUDA_SUCCESS;
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *d, CUarray a)
{
    use(a, ARRAY);
    d->Width = 1;
    return CUDA_SUCCESS;
}

CUresult cuArrayGetPlane(CUarray *plane, CUarray a, unsigned i)
{
    (void)i;
    *plane = (CUarray)make(ARRAY, use(a, ARRAY));
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *m, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned n)
{
    (void)d;
    (void)n;
    *m = (CUmipmappedArray)make(MIPMAP, NULL);
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetLevel(CUarray *a, CUmipmappedArray m, unsigned level)
{
    (void)level;
    *a = (CUarray)make(ARRAY, use(m, MIPMAP));
    return CUDA_SUCCESS;
}

static void end_children(struct object *parent)
{
    for (struct object *o = all; o; o = o->next) {
        if (o->live && o->kind == ARRAY && o->parent == parent) {
            o->live = false;
            end_children(o);
        }
    }
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray m)
{
    struct object *o = use(m, MIPMAP);

    o->live = false;
    end_children(o);
    return CUDA_SUCCESS;
}

/* ---- user objects; which graphs hold them: testprov_graph.c ---- */

CUresult cuUserObjectCreate(CUuserObject *u, void *data, CUhostFn destroy, unsigned count, unsigned flags)
{
    struct object *o = make(USER, NULL);

    o->count = count;
    o->destroy = destroy;
    o->data = data;
    *u = (CUuserObject)o;
    return count && flags == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuUserObjectRetain(CUuserObject u, unsigned count)
{
    use(u, USER)->count += count;
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject u, unsigned count)
{
    struct object *o = use(u, USER);

    if (count > o->count)
        abort();
    o->count -= count;
    if (!o->count) {
        o->live = false;
        o->destroy(o->data);
    }
    return CUDA_SUCCESS;
}
