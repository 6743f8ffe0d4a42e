/* SPDX-License-Identifier: MIT */
/*
 * The linker. It runs on the host. Inputs travel as data (files are read here, because they are the
 * guest's); the result comes back in pieces and lives as long as its link state, as documented.
 */
#define _GNU_SOURCE
#include "jit.h"
#include "code.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "vgp_entry.h"
#include "vgp_guest.h"

struct vcu_link {
    unsigned refs;      /* of the handle and of calls under way: another thread may destroy it meanwhile */
    struct vcu_jit jit; /* the logs of the whole link */
    uint8_t *result;
};

static pthread_mutex_t link_lock = PTHREAD_MUTEX_INITIALIZER; /* guards refs and results */

CUresult vcu_cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options, void **optionValues,
                             CUlinkState *stateOut)
{
    struct vcu_link *l;
    uint64_t h;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (stateOut == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    l = calloc(1, sizeof(*l));
    if (l == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    l->refs = 1;
    res = vcu_jit_parse("cuLinkCreate", &l->jit, numOptions, options, optionValues);
    h = res == CUDA_SUCCESS ? vgp_handle_mint(VGP_H_LINK) : 0;
    if (res == CUDA_SUCCESS && h == 0)
        res = CUDA_ERROR_OUT_OF_MEMORY;
    if (res == CUDA_SUCCESS)
        res = vgp_call_vgpLinkCreate((CUlinkState)(uintptr_t)h, l->jit.ids, l->jit.n, l->jit.values, l->jit.n,
                                     vcu_jit_log_room(&l->jit.info), vcu_jit_log_room(&l->jit.error));
    if (res != CUDA_SUCCESS) {
        if (h != 0)
            vgp_handle_drop(h);
        free(l);
        return res;
    }
    vcu_handle_set_data(h, VGP_H_LINK, l);
    *stateOut = (CUlinkState)(uintptr_t)h;
    return CUDA_SUCCESS;
}

static void link_put(struct vcu_link *l)
{
    pthread_mutex_lock(&link_lock);
    const bool last = --l->refs == 0;

    pthread_mutex_unlock(&link_lock);
    if (last) {
        free(l->result);
        free(l);
    }
}

/* With a reference. gone: the handle's own reference; the handle is dropped. */
static CUresult link_find(CUlinkState state, bool gone, struct vcu_link **l)
{
    CUresult res = state == NULL ? CUDA_ERROR_INVALID_HANDLE : vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    pthread_mutex_lock(&link_lock);
    *l = vcu_handle_data((uintptr_t)state, VGP_H_LINK);
    if (*l != NULL && gone)
        vcu_handle_set_data((uintptr_t)state, VGP_H_LINK, NULL);
    else if (*l != NULL)
        (*l)->refs++;
    pthread_mutex_unlock(&link_lock);
    return *l == NULL ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

/* The text of one of the host's logs so far; a failure leaves the received part. */
static void fetch_log(CUlinkState state, const struct vcu_jit_log *log, uint32_t which)
{
    uint32_t room = vcu_jit_log_room(log), done = 0, total = 0;
    char *text;

    if (room == 0 || (text = malloc(room + 4096u)) == NULL)
        return;
    do {
        uint32_t n = 4032;

        if (vgp_call_vgpLinkLog(state, which, done, &total, (uint8_t *)text + done, &n) != CUDA_SUCCESS ||
            n == 0)
            break;
        done += n;
    } while (done < total && done < room);
    vcu_jit_give(log, text, done);
    free(text);
}

static void fetch_logs(CUlinkState state, const struct vcu_link *l)
{
    fetch_log(state, &l->jit.info, 0);
    fetch_log(state, &l->jit.error, 1);
}

static CUresult link_add(CUlinkState state, const struct vcu_link *l, CUjitInputType type, void *data,
                         size_t size, const char *name, unsigned int numOptions, CUjit_option *options,
                         void **optionValues)
{
    struct vcu_jit jit;
    struct vcu_image image = {.data = data, .size = size};
    const char *why;
    CUresult res;

    if (data == NULL || size == 0 || (unsigned)type >= CU_JIT_NUM_INPUT_TYPES)
        return CUDA_ERROR_INVALID_VALUE;
    if (size > VGP_BLOB_MAX)
        return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, "cuLinkAddData", "more than 1 GiB");
    res = vcu_jit_parse("cuLinkAddData", &jit, numOptions, options, optionValues);
    if (res != CUDA_SUCCESS)
        return res;
    /* A wrapper holds a pointer to the fat binary, which is sent. */
    if (type == CU_JIT_INPUT_FATBINARY) {
        res = vcu_image_measure(data, 0, &image, &why);
        if (res != CUDA_SUCCESS)
            return VCU_REFUSE(res, "cuLinkAddData", "%s", why);
    }
    res = vgp_call_vgpLinkAdd(state, type, image.data, image.size, name == NULL ? "" : name, jit.ids, jit.n,
                              jit.values, jit.n);
    vcu_image_done(&image);
    fetch_logs(state, l);
    vcu_jit_done(&jit);
    return res;
}

CUresult vcu_cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
                              const char *name, unsigned int numOptions, CUjit_option *options,
                              void **optionValues)
{
    struct vcu_link *l;
    CUresult res = link_find(state, false, &l);

    if (res != CUDA_SUCCESS)
        return res;
    res = link_add(state, l, type, data, size, name, numOptions, options, optionValues);
    link_put(l);
    return res;
}

CUresult vcu_cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
                              unsigned int numOptions, CUjit_option *options, void **optionValues)
{
    struct vcu_link *l = NULL;
    struct vcu_jit jit;
    uint64_t size;
    char *text;
    const CUresult found = link_find(state, false, &l);
    CUresult res;

    /* Driver 580 reads the file before it looks at the linker. */
    if (found != CUDA_SUCCESS && (found != CUDA_ERROR_INVALID_HANDLE || state == NULL))
        return found;
    res = vcu_jit_parse("cuLinkAddFile", &jit, numOptions, options, optionValues);
    if (res == CUDA_SUCCESS)
        res = path == NULL || (unsigned)type >= CU_JIT_NUM_INPUT_TYPES
                  ? CUDA_ERROR_INVALID_VALUE
                  : vcu_file_read("cuLinkAddFile", path, &text, &size);
    if (res == CUDA_ERROR_FILE_NOT_FOUND && type == CU_JIT_INPUT_CUBIN)
        res = CUDA_ERROR_INVALID_VALUE; /* as driver 580 says of a missing cubin */
    if (res == CUDA_SUCCESS) {
        res = found == CUDA_SUCCESS
                  ? link_add(state, l, type, text, size, path, numOptions, options, optionValues)
                  : found;
        free(text);
    }
    if (found == CUDA_SUCCESS)
        link_put(l);
    return res;
}

/* Fetches the result, of any size. */
static CUresult fetch_result(CUlinkState state, struct vcu_link *l, uint64_t size, void **out,
                             size_t *size_out)
{
    uint8_t *result = malloc(size + 4096u), *old;
    CUresult res = CUDA_SUCCESS;

    if (result == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint64_t done = 0; done < size && res == CUDA_SUCCESS;) {
        uint32_t n = 4032;

        res = vgp_call_vgpLinkRead(state, done, result + done, &n);
        if (res == CUDA_SUCCESS && n == 0)
            res = CUDA_ERROR_UNKNOWN;
        done += n;
    }
    if (res != CUDA_SUCCESS) {
        free(result);
        return res;
    }
    pthread_mutex_lock(&link_lock);
    old = l->result;
    l->result = result;
    pthread_mutex_unlock(&link_lock);
    free(old);
    *out = result;
    if (size_out != NULL)
        *size_out = size;
    return CUDA_SUCCESS;
}

CUresult vcu_cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
    struct vcu_link *l;
    uint64_t size = 0;
    CUresult res = link_find(state, false, &l);

    if (res != CUDA_SUCCESS)
        return res;
    if (cubinOut != NULL) {
        res = vgp_call_vgpLinkComplete(state, &size);
        fetch_logs(state, l);
        vcu_jit_done(&l->jit);
        if (res == CUDA_SUCCESS)
            res = size == 0 || size > VGP_BLOB_MAX ? CUDA_ERROR_UNKNOWN
                                                   : fetch_result(state, l, size, cubinOut, sizeOut);
    } else {
        res = CUDA_ERROR_INVALID_VALUE;
    }
    link_put(l);
    return res;
}

CUresult vcu_cuLinkDestroy(CUlinkState state)
{
    struct vcu_link *l;
    CUresult res = link_find(state, true, &l);

    if (res != CUDA_SUCCESS)
        return res;
    res = vgp_call_cuLinkDestroy(state);
    if (vgp_handle_live((uintptr_t)state, VGP_H_LINK)) /* also when the host had lost it */
        vgp_handle_drop((uintptr_t)state);
    link_put(l);
    return res;
}
