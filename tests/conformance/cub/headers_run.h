/* SPDX-License-Identifier: MIT */
/*
 * Included by the output of headers.py: each function available on host and device runs on both
 * with the same arguments, edge values first. The host's libraries are the reference; the device
 * runs nvcc's code for CUDA's own implementation, so a wrong instruction shows as a gross error,
 * not as a last bit.
 */
#ifndef HEADERS_RUN_H
#define HEADERS_RUN_H

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define LANES 64
#define SLOT 16   /* size of an argument, bytes */
#define BYTES 128 /* size of a lane's arguments, bytes */
#define ROOM 16   /* size of a lane's result, bytes */
#define ARG(T, i) (*(T *)(void *)(in + SLOT * (i)))
#define RESULT(T) (*(T *)(void *)out)

struct header_case {
    const char *name;
    void (*kernel)(char *, char *);
    void (*host)(char *, char *);
    size_t size;
    const char *kinds; /* of the arguments */
    char kind; /* of the result: f d h b, in capitals several of them; o bool; i bits; e an enumerator */
};

static uint64_t rnd_state = 88172645463325252ull;

static inline uint64_t rnd(void)
{
    rnd_state ^= rnd_state << 13;
    rnd_state ^= rnd_state >> 7;
    rnd_state ^= rnd_state << 17;
    return rnd_state;
}

/* Zeros, ones, infinities, NaN, denormals, then numbers of all magnitudes, mostly small. */
static double number(int lane)
{
    static const double edge[] = {0.0, -0.0,  1.0,  -1.0,    0.5,     2.0,    INFINITY, -INFINITY,
                                  NAN, 1e-40, 6e-6, 65504.0, 65520.0, -448.0, 3.0,      1e30};
    const double v = (double)(int64_t)rnd() / 9.3e18;

    if (lane < (int)(sizeof(edge) / sizeof(edge[0])))
        return edge[lane ^ (int)(rnd() & (lane & 1 ? 15 : 0))];
    return lane % 4 ? v * 8 : v * 1000;
}

static void make(char kind, char *p, int lane)
{
    const double v = number(lane);
    const int n = kind == 'F' || kind == 'D' || kind == 'H' || kind == 'B' ? 2 : kind == 'Q' ? 4 : 1;

    for (int i = 0; i < n; i++) {
        const double x = i ? number(lane + i) : v;

        switch (kind) {
        case 'f':
        case 'F':
        case 'Q':
            ((float *)p)[i] = (float)x;
            break;
        case 'd':
        case 'D':
            ((double *)p)[i] = x;
            break;
        case 'h':
        case 'H':
            ((__half *)p)[i] = __float2half((float)x);
            break;
        case 'b':
        case 'B':
            ((__nv_bfloat16 *)p)[i] = __float2bfloat16((float)x);
            break;
        case 'o':
            *p = (char)(rnd() & 1);
            break;
        default: { /* integers: small, at the limits, random */
            const uint64_t any[] = {
                0, 1, ~0ull, 0x7fffffff7fffffffull, 0x8000000080000000ull, rnd() & 31, rnd() & 255, rnd()};
            memcpy(p, &any[lane & 7], 8);
        }
        }
    }
}

static bool close_to(double a, double b, double relative, double absolute)
{
    if (a == b || (a != a && b != b))
        return true;
    return fabs(a - b) <= absolute || fabs(a - b) <= relative * (fabs(a) > fabs(b) ? fabs(a) : fabs(b));
}

/*
 * A number out of range of the integer: the device gives the nearest (PTX ISA, cvt), the host's
 * processor its lowest.
 */
static bool outside(const header_case *c, const char *device, const char *host)
{
    const bool real = strchr("fdhb", c->kinds[0]) && c->kinds[0];
    int64_t d, h;

    if (!real || c->size != 8)
        return false;
    memcpy(&d, device, 8);
    memcpy(&h, host, 8);
    return h == INT64_MIN && d == INT64_MAX;
}

static bool same(const header_case *c, const char *a, const char *b)
{
    const int n = c->kind == 'F' || c->kind == 'D' || c->kind == 'H' || c->kind == 'B' ? 2
                  : c->kind == 'Q'                                                     ? 4
                                                                                       : 1;

    for (int i = 0; i < n; i++) {
        bool ok = true;

        switch (c->kind) {
        case 'f':
        case 'F':
        case 'Q':
            ok = close_to(((float *)a)[i], ((float *)b)[i], 3e-6, 3e-6);
            break;
        case 'd':
        case 'D':
            ok = close_to(((double *)a)[i], ((double *)b)[i], 1e-12, 1e-12);
            break;
        case 'h':
        case 'H': /* one unit in the last place */
            ok = close_to(__half2float(((__half *)a)[i]), __half2float(((__half *)b)[i]), 1.0 / 1024, 6e-8);
            break;
        case 'b':
        case 'B':
            ok = close_to(__bfloat162float(((__nv_bfloat16 *)a)[i]),
                          __bfloat162float(((__nv_bfloat16 *)b)[i]), 1.0 / 128, 1e-38);
            break;
        case 'o':
            ok = !*a == !*b;
            break;
        default:
            ok = !memcmp(a, b, c->size) || outside(c, a, b);
            break;
        }
        if (!ok)
            return false;
    }
    return true;
}

static void show(const char *what, const char *p, size_t n)
{
    printf(" %s", what);
    for (size_t i = 0; i < n; i++)
        printf("%02x", (unsigned char)p[n - 1 - i]);
}

#define CHECKED(x) \
    do { \
        cudaError_t e_ = (x); \
        if (e_ != cudaSuccess) { \
            printf("FAIL: headers: %s: %s\n", c->name, cudaGetErrorString(e_)); \
            return false; \
        } \
    } while (0)

static bool run(const header_case *c, char *in, char *out)
{
    static char args[LANES * BYTES], host[LANES * ROOM], got[LANES * ROOM];
    int wrong = -1, count = 0;

    memset(host, 0, sizeof(host));
    for (int l = 0; l < LANES; l++) {
        for (size_t i = 0; c->kinds[i]; i++)
            make(c->kinds[i], args + BYTES * l + SLOT * i, l);
        c->host(args + BYTES * l, host + ROOM * l);
    }
    CHECKED(cudaMemcpy(in, args, sizeof(args), cudaMemcpyHostToDevice));
    CHECKED(cudaMemset(out, 0, sizeof(got)));
    c->kernel<<<1, LANES>>>(in, out);
    CHECKED(cudaGetLastError());
    CHECKED(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));
    for (int l = 0; l < LANES; l++)
        if (!same(c, got + ROOM * l, host + ROOM * l)) {
            count++;
            if (wrong < 0)
                wrong = l;
        }
    if (!count)
        return true;
    printf("FAIL: headers: %s: %d of %d lanes differ, lane %d:", c->name, count, LANES, wrong);
    for (size_t i = 0; c->kinds[i]; i++)
        show("argument ", args + BYTES * wrong + SLOT * i, 8);
    show("device ", got + ROOM * wrong, c->size);
    show("host ", host + ROOM * wrong, c->size);
    printf("\n");
    return false;
}

#define HEADERS_MAIN(cases) \
    int main(void) \
    { \
        int passed = 0, failed = 0; \
        char *in, *out; \
        if (cudaMalloc(&in, LANES * BYTES) != cudaSuccess || \
            cudaMalloc(&out, LANES * ROOM) != cudaSuccess) { \
            printf("headers: no device\n"); \
            return 1; \
        } \
        for (const header_case &c : cases) \
            run(&c, in, out) ? passed++ : failed++; \
        printf("headers: %d passed, %d failed, 0 skipped\n", passed, failed); \
        return failed != 0; \
    }

#endif
