/* SPDX-License-Identifier: MIT */
/* The Mandelbrot set, written as mandelbrot.png (or argv[1]) into the working directory. */
#include <cuda_runtime.h>
#include <png.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "demo.h"

#define WIDTH 320
#define HEIGHT 200
#define ROUNDS 96

__host__ __device__ static int rounds_at(int px, int py)
{
    float cx = -2.2f + px * (3.2f / WIDTH), cy = -1.0f + py * (2.0f / HEIGHT), x = 0, y = 0;
    int i = 0;

    while (i < ROUNDS && x * x + y * y < 4.0f) {
        float t = x * x - y * y + cx;

        y = 2 * x * y + cy;
        x = t;
        i++;
    }
    return i;
}

__global__ void mandelbrot(uint8_t *out)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;

    if (x < WIDTH && y < HEIGHT)
        out[y * WIDTH + x] = rounds_at(x, y);
}

static bool write_png(const char *path, const std::vector<uint8_t> &rounds)
{
    std::vector<uint8_t> rgb(WIDTH * HEIGHT * 3);
    png_image image;

    for (int i = 0; i < WIDTH * HEIGHT; i++) {
        float t = rounds[i] / (float)ROUNDS;

        if (rounds[i] >= ROUNDS)
            continue; /* inside: black */
        rgb[3 * i] = (uint8_t)(9 * (1 - t) * t * t * t * 255);
        rgb[3 * i + 1] = (uint8_t)(15 * (1 - t) * (1 - t) * t * t * 255);
        rgb[3 * i + 2] = (uint8_t)(60 + 8.5f * (1 - t) * (1 - t) * (1 - t) * t * 195);
    }
    memset(&image, 0, sizeof(image));
    image.version = PNG_IMAGE_VERSION;
    image.width = WIDTH;
    image.height = HEIGHT;
    image.format = PNG_FORMAT_RGB;
    return png_image_write_to_file(&image, path, 0, rgb.data(), 0, NULL);
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "mandelbrot.png";
    std::vector<uint8_t> rounds(WIDTH * HEIGHT);
    uint8_t *dev;
    int different = 0, checked = 0;

    CHECK(cudaMalloc(&dev, rounds.size()));
    mandelbrot<<<dim3((WIDTH + 31) / 32, (HEIGHT + 7) / 8), dim3(32, 8)>>>(dev);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(rounds.data(), dev, rounds.size(), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(dev));
    /* Every 7th pixel suffices. On the border of the set one rounding (the GPU fuses multiply and
     * add, the CPU does not) decides about many rounds, so a few pixels may differ. */
    for (int i = 0; i < WIDTH * HEIGHT; i += 7) {
        checked++;
        different += abs(rounds[i] - rounds_at(i % WIDTH, i / WIDTH)) > 1;
    }
    if (!write_png(path, rounds))
        return demo_result("mandelbrot", path, false, "cannot write the file");
    return demo_result("mandelbrot", path, different * 50 < checked,
                       "more than 2% of the pixels differ from the CPU's");
}
