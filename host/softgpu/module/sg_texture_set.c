/* SPDX-License-Identifier: MIT */
/*
 * The textures and surfaces of a launch: looked up when a kernel first fetches through a handle, and
 * held until the launch has ended.
 */
#include <stdlib.h>
#include <string.h>

#include "module/module.h"

struct sg_texpin {
    SG_OWNED struct sg_texpin *next;
    uint64_t handle;
    bool surface;
    SG_COUNTED struct sg_texobj *o; /* a reference */
};

void sg_texset_init(struct sg_texset *s, struct sg_ctx *ctx)
{
    memset(s, 0, sizeof(*s));
    s->ctx = ctx;
    pthread_mutex_init(&s->lock, NULL);
}

/* The object behind a handle, or behind the handle of a reference, if it belongs to the context. */
static struct sg_texobj *find_object(struct sg_ctx *ctx, uint64_t handle, bool surface)
{
    struct sg_texobj *o = sg_lookup(handle, surface ? SG_T_SURFOBJ : SG_T_TEXOBJ);

    if (!o) {
        SG_AUTO struct sg_texref *t = sg_lookup(handle, surface ? SG_T_SURFREF : SG_T_TEXREF);

        if (!t || sg_texref_object(t, &o) != CUDA_SUCCESS)
            return NULL;
    }
    if (o->ctx == ctx)
        return o;
    sg_obj_put(&o->obj);
    return NULL;
}

const struct sg_texture *sg_texset_get(void *texset, uint64_t handle, bool surface)
{
    struct sg_texset *s = texset;
    struct sg_texpin **list = &s->pins[(handle >> 4) & 63], *p;

    pthread_mutex_lock(&s->lock);
    for (p = *list; p && (p->handle != handle || p->surface != surface); p = p->next)
        ;
    if (!p && (p = malloc(sizeof(*p)))) {
        *p = (struct sg_texpin){*list, handle, surface, find_object(s->ctx, handle, surface)};
        if (p->o) {
            *list = p;
        } else {
            free(p);
            p = NULL;
        }
    }
    pthread_mutex_unlock(&s->lock);
    return p ? &p->o->t : NULL;
}

void sg_texset_clear(struct sg_texset *s)
{
    for (size_t i = 0; i < sizeof(s->pins) / sizeof(s->pins[0]); i++) {
        while (s->pins[i]) {
            struct sg_texpin *p = s->pins[i];

            s->pins[i] = p->next;
            sg_obj_put(&p->o->obj);
            free(p);
        }
    }
    pthread_mutex_destroy(&s->lock);
}
