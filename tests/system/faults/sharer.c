// SPDX-License-Identifier: MIT
/*
 * sharer make FILE MB shares MB megabytes in pieces of 1 MB, and 4 events, one of them pending;
 * writes
 *                       their handles to FILE, prints "sharer: ready" and sleeps
 * sharer open FILE      opens all of them, checks each byte, prints "sharer: ready N of M", waits
 *                       for the end of its input; checks again, waits for the events, and exits
 * sharer churn FILE     opens and closes all of them until killed
 *
 * Exits with 0 if all checks passed; a line on standard output names a failed check.
 */
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MB (1u << 20)
#define EVENTS 4u
#define PIECES_MAX 512u

struct handles {
    uint32_t pieces, zero;
    CUipcEventHandle event[EVENTS];
    CUipcMemHandle mem[PIECES_MAX];
};
static struct handles handles;
static CUdeviceptr mem[PIECES_MAX];
static CUevent event[EVENTS];
static unsigned char bytes[MB];

#define TRY(call) \
    do { \
        CUresult r_ = (call); \
        if (r_ != CUDA_SUCCESS) { \
            printf("sharer: %s returns %d\n", #call, r_); \
            return 1; \
        } \
    } while (0)

static int start(void)
{
    CUcontext c;
    TRY(cuInit(0));
    TRY(cuDevicePrimaryCtxRetain(&c, 0));
    TRY(cuCtxSetCurrent(c));
    return 0;
}

static void CUDA_CB never(void *unused)
{
    (void)unused;
    for (;;)
        pause();
}

static int make(const char *path, unsigned pieces)
{
    CUstream s;
    char temporary[4096];

    handles.pieces = pieces < PIECES_MAX ? pieces : PIECES_MAX;
    for (unsigned i = 0; i < handles.pieces; i++) {
        TRY(cuMemAlloc(&mem[i], MB));
        TRY(cuMemsetD8(mem[i], (unsigned char)(i + 1), MB));
        TRY(cuIpcGetMemHandle(&handles.mem[i], mem[i]));
    }
    TRY(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < EVENTS; i++) {
        TRY(cuEventCreate(&event[i], CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
        TRY(cuIpcGetEventHandle(&handles.event[i], event[i]));
        if (i == EVENTS - 1)
            TRY(cuLaunchHostFunc(s, never, NULL));
        TRY(cuEventRecord(event[i], s));
    }
    snprintf(temporary, sizeof(temporary), "%s.new", path);
    FILE *f = fopen(temporary, "wb");
    if (!f || fwrite(&handles, sizeof(handles), 1, f) != 1 || fclose(f) || rename(temporary, path)) {
        printf("sharer: cannot write %s\n", path);
        return 1;
    }
    puts("sharer: ready");
    fflush(stdout);
    for (;;)
        pause();
}

static int load(const char *path)
{
    FILE *f = fopen(path, "rb");

    if (!f || fread(&handles, sizeof(handles), 1, f) != 1 || handles.pieces > PIECES_MAX) {
        printf("sharer: cannot read %s\n", path);
        return 1;
    }
    fclose(f);
    return 0;
}

static int look(unsigned i)
{
    TRY(cuMemcpyDtoH(bytes, mem[i], MB));
    for (unsigned k = 0; k < MB; k++) {
        if (bytes[k] != (unsigned char)(i + 1)) {
            printf("sharer: byte %u of piece %u is %u\n", k, i, bytes[k]);
            return 1;
        }
    }
    return 0;
}

static int open_all(const char *path)
{
    unsigned opened = 0, refused = 0;
    char c;

    if (load(path))
        return 1;
    for (unsigned i = 0; i < handles.pieces; i++) {
        CUresult r = cuIpcOpenMemHandle(&mem[i], handles.mem[i], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
        if (r == CUDA_SUCCESS && look(i))
            return 1;
        if (r != CUDA_SUCCESS && r != CUDA_ERROR_INVALID_HANDLE)
            TRY(r);
        opened += r == CUDA_SUCCESS;
        refused += r != CUDA_SUCCESS;
    }
    for (unsigned i = 0; i < EVENTS; i++) {
        CUresult r = cuIpcOpenEventHandle(&event[i], handles.event[i]);
        if (r != CUDA_SUCCESS && r != CUDA_ERROR_INVALID_HANDLE)
            TRY(r);
        opened += r == CUDA_SUCCESS;
        refused += r != CUDA_SUCCESS;
    }
    printf("sharer: ready %u of %u\n", opened, opened + refused);
    fflush(stdout);
    if (refused)
        return 0;
    while (read(0, &c, 1) > 0)
        ;
    for (unsigned i = 0; i < handles.pieces; i++) {
        if (look(i))
            return 1;
    }
    for (unsigned i = 0; i < EVENTS; i++) /* the pending event ends with its recorder */
        TRY(cuEventSynchronize(event[i]));
    for (unsigned i = 0; i < handles.pieces; i++)
        TRY(cuIpcCloseMemHandle(mem[i]));
    puts("sharer: all there");
    return 0;
}

static int churn(const char *path)
{
    if (load(path))
        return 1;
    for (unsigned n = 0;; n++) {
        unsigned i = n % handles.pieces, k = n % EVENTS;

        if (cuIpcOpenMemHandle(&mem[i], handles.mem[i], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS &&
            (look(i) || cuIpcCloseMemHandle(mem[i]) != CUDA_SUCCESS))
            return 1;
        if (cuIpcOpenEventHandle(&event[k], handles.event[k]) == CUDA_SUCCESS &&
            cuEventDestroy(event[k]) != CUDA_SUCCESS)
            return 1;
    }
}

int main(int argc, char **argv)
{
    if (argc < 3 || start())
        return 1;
    if (!strcmp(argv[1], "make") && argc == 4)
        return make(argv[2], (unsigned)atoi(argv[3]));
    if (!strcmp(argv[1], "open"))
        return open_all(argv[2]);
    return strcmp(argv[1], "churn") ? 2 : churn(argv[2]);
}
