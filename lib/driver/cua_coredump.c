/* SPDX-License-Identifier: MIT */
/*
 * Settings of GPU core dumps, stored and returned as documented. No dump is written, so enabling
 * dumps is refused.
 */
#include "coredump.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_BYTES 1024 /* documented: up to 1023 characters */

/* Settings of the process or of a context. */
struct cua_coredump {
    bool changed; /* any was set */
    unsigned flags;
    char file[NAME_BYTES], pipe[NAME_BYTES];
};
#define settings cua_coredump

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all settings */
static struct settings global;
static const struct settings initial;

static size_t size_of(CUcoredumpSettings attrib)
{
    switch (attrib) {
    case CU_COREDUMP_FILE:
    case CU_COREDUMP_PIPE:
        return NAME_BYTES;
    case CU_COREDUMP_GENERATION_FLAGS:
        return sizeof(unsigned);
    default:
        return sizeof(bool);
    }
}

static CUresult get_name(const char *set, const char *kind, char *value, size_t room)
{
    char host[256] = "", name[NAME_BYTES];

    if (*set == '\0') {
        gethostname(host, sizeof(host) - 1);
        snprintf(name, sizeof(name), "%s.cuda.%s.%d", kind, host, (int)getpid());
        set = name;
    }
    if (room)
        snprintf(value, room, "%s", set); /* cut to the room (driver 580) */
    return CUDA_SUCCESS;
}

static CUresult get_setting(const struct settings *s, CUcoredumpSettings attrib, void *value, size_t *size)
{
    bool v = false;

    if (!size || (int)attrib < CU_COREDUMP_ENABLE_ON_EXCEPTION || attrib >= CU_COREDUMP_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (!value) {
        *size = size_of(attrib);
        return CUDA_SUCCESS;
    }
    if (attrib == CU_COREDUMP_FILE)
        return get_name(s->file, "core", value, *size);
    if (attrib == CU_COREDUMP_PIPE)
        return get_name(s->pipe, "corepipe", value, *size);
    if (*size < size_of(attrib))
        return CUDA_ERROR_INVALID_VALUE;
    if (attrib == CU_COREDUMP_GENERATION_FLAGS) {
        memcpy(value, &s->flags, sizeof(s->flags));
        return CUDA_SUCCESS;
    }
    if (attrib == CU_COREDUMP_TRIGGER_HOST)
        v = !(s->flags & CU_COREDUMP_SKIP_ABORT);
    else if (attrib == CU_COREDUMP_LIGHTWEIGHT)
        v = (s->flags & CU_COREDUMP_LIGHTWEIGHT_FLAGS) == CU_COREDUMP_LIGHTWEIGHT_FLAGS;
    memcpy(value, &v, sizeof(v));
    return CUDA_SUCCESS;
}

static CUresult set_name(char *name, const char *value, size_t size)
{
    size_t n = strnlen(value, size);

    if (n == 0 || n >= NAME_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(name, value, n);
    name[n] = '\0';
    return CUDA_SUCCESS;
}

static void set_flags(struct settings *s, CUcoredumpSettings attrib, const void *value)
{
    unsigned flags = s->flags, change = CU_COREDUMP_LIGHTWEIGHT_FLAGS;
    bool on = *(const unsigned char *)value != 0;

    if (attrib == CU_COREDUMP_GENERATION_FLAGS) {
        memcpy(&flags, value, sizeof(flags)); /* unknown ones, too (driver 580) */
    } else {
        if (attrib == CU_COREDUMP_TRIGGER_HOST) {
            change = CU_COREDUMP_SKIP_ABORT;
            on = !on;
        }
        flags = on ? flags | change : flags & ~change;
    }
    s->flags = flags;
}

/* Writes a value, which is present and large enough. */
static CUresult set_setting(struct settings *s, CUcoredumpSettings attrib, const void *value, size_t size)
{
    if (attrib == CU_COREDUMP_ENABLE_ON_EXCEPTION || attrib == CU_COREDUMP_ENABLE_USER_TRIGGER)
        return *(const unsigned char *)value != 0 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
    s->changed = true;
    if (attrib == CU_COREDUMP_FILE)
        return set_name(s->file, value, size);
    if (attrib == CU_COREDUMP_PIPE)
        return set_name(s->pipe, value, size);
    set_flags(s, attrib, value);
    return CUDA_SUCCESS;
}

static CUresult check_set(CUcoredumpSettings attrib, const void *value, size_t *size)
{
    bool name = attrib == CU_COREDUMP_FILE || attrib == CU_COREDUMP_PIPE;

    if (!size || (int)attrib < CU_COREDUMP_ENABLE_ON_EXCEPTION || attrib >= CU_COREDUMP_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    return !value || (name ? *size != 0 : *size >= size_of(attrib)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cua_coredump_get(struct cua_coredump *const *own, CUcoredumpSettings attrib, void *value,
                          size_t *size)
{
    CUresult r;

    if (own != NULL && attrib == CU_COREDUMP_PIPE && value) /* of the process only (driver 580) */
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    r = get_setting(own == NULL ? &global : *own == NULL ? &initial : *own, attrib, value, size);
    pthread_mutex_unlock(&lock);
    return r;
}

CUresult cua_coredump_set(struct cua_coredump **own, CUcoredumpSettings attrib, const void *value,
                          size_t *size)
{
    CUresult r = check_set(attrib, value, size);

    if (r != CUDA_SUCCESS)
        return r;
    if (!value)
        return get_setting(&initial, attrib, NULL, size);
    /* Documented: these two are of the process. NOT_PERMITTED is documented for both (driver 580). */
    if (own != NULL && attrib == CU_COREDUMP_PIPE)
        return CUDA_ERROR_INVALID_VALUE;
    if (own != NULL && attrib == CU_COREDUMP_ENABLE_USER_TRIGGER)
        return CUDA_ERROR_NOT_PERMITTED;
    pthread_mutex_lock(&lock);
    if (own != NULL && *own == NULL)
        *own = calloc(1, sizeof(**own));
    r = own != NULL && *own == NULL ? CUDA_ERROR_OUT_OF_MEMORY
                                    : set_setting(own != NULL ? *own : &global, attrib, value, *size);
    pthread_mutex_unlock(&lock);
    return r;
}

void cua_coredump_begin(struct cua_coredump **own)
{
    pthread_mutex_lock(&lock);
    free(*own);
    *own = global.changed ? malloc(sizeof(**own)) : NULL;
    if (*own != NULL)
        **own = global;
    pthread_mutex_unlock(&lock);
}

void cua_coredump_forget(struct cua_coredump **own)
{
    pthread_mutex_lock(&lock);
    free(*own);
    *own = NULL;
    pthread_mutex_unlock(&lock);
}
