// SPDX-License-Identifier: MIT
/*
 * conform_rt_many DIR [--busy]: three CUDA runtimes in one process: libcudart.so here, and a static one in
 * each of DIR/librt_part1.so and DIR/librt_part2.so. They share the device, its primary context and its
 * memory; errors, modules and variables are each one's own. A line per check, as conform prints them.
 */
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <thread>
#include <vector>

static unsigned passed, failed;

static void yes(const char *check, bool ok)
{
    ok ? passed++ : failed++;
    printf("rt_many.%s %s%s\n", check, ok ? "yes" : "no", ok ? "" : " FAIL want yes");
    fflush(stdout);
}

static void rc(const char *check, cudaError_t got, cudaError_t want = cudaSuccess)
{
    got == want ? passed++ : failed++;
    printf("rt_many.%s %s", check, cudaGetErrorName(got));
    if (got != want)
        printf(" FAIL want %s", cudaGetErrorName(want));
    puts("");
    fflush(stdout);
}

struct part {
    void *lib = nullptr;
    cudaError_t (*mix)(int *, int, cudaStream_t) = nullptr;
    cudaError_t (*calls)(int *) = nullptr;
    cudaError_t (*fail)(void) = nullptr, (*last)(void) = nullptr, (*busy)(void) = nullptr;

    bool load(const char *dir, int number)
    {
        char path[4096];

        snprintf(path, sizeof(path), "%s/librt_part%d.so", dir, number);
        lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!lib) {
            fprintf(stderr, "%s\n", dlerror());
            return false;
        }
        mix = (decltype(mix))dlsym(lib, "part_mix");
        calls = (decltype(calls))dlsym(lib, "part_calls");
        fail = (decltype(fail))dlsym(lib, "part_fail");
        last = (decltype(last))dlsym(lib, "part_last");
        busy = (decltype(busy))dlsym(lib, "part_busy");
        return mix && calls && fail && last && busy;
    }
};

__global__ void add(int *p, int n, int v)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        p[i] += v;
}

enum { N = 5000 };

static int mixed(int v, int part) { return v * 3 + part; }

/* Each runtime works on the same memory, in one stream. */
static void together(const char *name, part *p)
{
    std::vector<int> h(N);
    cudaStream_t s = nullptr;
    int *d = nullptr;
    bool ok = true;
    char check[64];

    auto label = [&](const char *what) {
        snprintf(check, sizeof(check), "%s_%s", name, what);
        return check;
    };
    for (int i = 0; i < N; i++)
        h[i] = i;
    rc(label("alloc"), cudaMalloc(&d, N * 4));
    rc(label("stream"), cudaStreamCreate(&s));
    rc(label("up"), cudaMemcpyAsync(d, h.data(), N * 4, cudaMemcpyHostToDevice, s));
    rc(label("part_1"), p[0].mix(d, N, s));
    add<<<(N + 127) / 128, 128, 0, s>>>(d, N, 1000);
    rc(label("main"), cudaGetLastError());
    rc(label("part_2"), p[1].mix(d, N, s));
    rc(label("down"), cudaMemcpyAsync(h.data(), d, N * 4, cudaMemcpyDeviceToHost, s));
    rc(label("sync"), cudaStreamSynchronize(s));
    for (int i = 0; i < N; i++)
        ok = ok && h[i] == mixed(mixed(i, 1) + 1000, 2);
    yes(label("right"), ok);
    rc(label("stream_destroy"), cudaStreamDestroy(s));
    rc(label("free"), cudaFree(d));
}

/* Eight threads, each with a stream of its own and a per-thread default stream, through all runtimes. */
static void threads(part *p)
{
    std::vector<std::thread> t;
    int bad[8] = {0};

    for (int id = 0; id < 8; id++)
        t.emplace_back([id, p, &bad] {
            std::vector<int> h(N);
            cudaStream_t s = nullptr;
            int *d = nullptr;

            bad[id] += cudaMalloc(&d, N * 4) != cudaSuccess;
            if (id % 2 == 0)
                bad[id] += cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) != cudaSuccess;
            else
                s = cudaStreamPerThread;
            for (int round = 0; round < 10; round++) {
                part *q = &p[(id + round) % 2];

                for (int i = 0; i < N; i++)
                    h[i] = i + id + round;
                bad[id] += cudaMemcpyAsync(d, h.data(), N * 4, cudaMemcpyHostToDevice, s) != cudaSuccess;
                bad[id] += q->mix(d, N, s) != cudaSuccess;
                add<<<(N + 127) / 128, 128, 0, s>>>(d, N, id);
                bad[id] += cudaMemcpyAsync(h.data(), d, N * 4, cudaMemcpyDeviceToHost, s) != cudaSuccess;
                bad[id] += cudaStreamSynchronize(s) != cudaSuccess;
                for (int i = 0; i < N; i++)
                    bad[id] += h[i] != mixed(i + id + round, (id + round) % 2 + 1) + id;
            }
            if (id % 2 == 0)
                bad[id] += cudaStreamDestroy(s) != cudaSuccess;
            bad[id] += cudaFree(d) != cudaSuccess;
        });
    for (auto &x : t)
        x.join();
    int sum = 0;
    for (int b : bad)
        sum += b;
    yes("threads_right", sum == 0);
}

int main(int argc, char **argv)
{
    part p[2];
    int n = 0;

    if (argc < 2) {
        fprintf(stderr, "usage: conform_rt_many DIR [--busy]\n");
        return 2;
    }
    yes("load_1", p[0].load(argv[1], 1));
    yes("load_2", p[1].load(argv[1], 2));
    if (failed)
        return 1;
    if (argc > 2 && !strcmp(argv[2], "--busy")) {
        rc("busy_part", p[1].busy());
    } else {
        together("first", p);
        rc("calls_1", p[0].calls(&n));
        yes("calls_1_right", n == 1);
        rc("fail_1", p[0].fail(), cudaErrorInvalidConfiguration);
        rc("fail_not_main", cudaGetLastError());
        rc("fail_not_2", p[1].last());
        rc("fail_1_last", p[0].last(), cudaErrorInvalidConfiguration);
        rc("fail_1_taken", p[0].last());
        threads(p);
        /* The first part goes, with its runtime, while the others work on; and comes back. */
        yes("close_1", dlclose(p[0].lib) == 0);
        rc("main_after_close", cudaDeviceSynchronize());
        yes("load_1_again", p[0].load(argv[1], 1));
        together("again", p);
        rc("calls_1_again", p[0].calls(&n));
        yes("calls_1_again_right", n == 1);
        /* The device is reset under all three: each starts again with its next call. */
        rc("reset", cudaDeviceReset());
        together("after_reset", p);
        rc("calls_2_after_reset", p[1].calls(&n));
        yes("calls_2_after_reset_right", n == 1);
        rc("reset_again", cudaDeviceReset());
    }
    printf("rt_many: %u passed, %u failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
