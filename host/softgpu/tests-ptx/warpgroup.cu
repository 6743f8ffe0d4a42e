// SPDX-License-Identifier: MIT
// A matrix product as a program for Hopper has it: wgmma on tiles in shared memory (exec/wgmma/wgmma_test.c).
#include <cuda_fp16.h>
#include <stdint.h>

#define TILE_N 64
#define TILE_K 64 // 128 bytes: a row of the 128-byte swizzle

// Rows of 128 bytes, whose 16-byte pieces change places with the row.
__device__ static void copy_tile(__half *tile, const __half *from, int rows, int stride)
{
    for (int i = threadIdx.x % 128; i < rows * 8; i += 128) {
        const int row = i / 8, piece = i % 8;
        *(int4 *)(tile + row * 64 + (piece ^ row % 8) * 8) = *(const int4 *)(from + row * stride + piece * 8);
    }
}

__device__ static uint64_t descriptor(const __half *tile)
{
    const uint64_t at = (uint64_t)__cvta_generic_to_shared(tile);
    return (at & 0x3ffff) >> 4 | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

// c = a * b': a has 128 rows, for two warpgroups, b has 64; both of depth k.
extern "C" __global__ void __launch_bounds__(256) warpgroup(const __half *a, const __half *b, float *c, int k)
{
    __shared__ alignas(1024) __half tiles[3][64 * TILE_K];
    const int group = threadIdx.x / 128, lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    float d[TILE_N / 8][4];

    for (int at = 0; at < k; at += TILE_K) {
        copy_tile(tiles[group], a + group * 64 * k + at, 64, k);
        if (group == 1)
            copy_tile(tiles[2], b + at, TILE_N, k);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int step = 0; step < TILE_K / 16; step++) {
            const uint64_t da = descriptor(tiles[group]) + step * 2, db = descriptor(tiles[2]) + step * 2;
            asm volatile(
                "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
                "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
                "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, 0;\n}\n"
                : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),
                  "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
                  "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]),
                  "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),
                  "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]),
                  "+f"(d[7][2]), "+f"(d[7][3])
                : "l"(da), "l"(db), "r"(at + step));
        }
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
        __syncthreads();
    }
    for (int i = 0; i < TILE_N / 8; i++)
        for (int j = 0; j < 4; j++)
            c[(group * 64 + warp * 16 + lane / 4 + j / 2 * 8) * TILE_N + i * 8 + lane % 4 * 2 + j % 2] = d[i][j];
}
