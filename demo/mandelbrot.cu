/* SPDX-License-Identifier: MIT */
/* The Mandelbrot set: mandelbrot [PATH [WIDTH HEIGHT]]; default mandelbrot.png in the working directory, 1920 by 1080. */
#include <cuda_runtime.h>
#include <png.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "demo.h"

#define ROUNDS 255 /* also the colour of what is inside */
#define CHECKED 10000 /* pixels that the CPU computes as well, about */

/* The picture is 2.4 high, around -0.7. */
__host__ __device__ static int rounds_at(int px, int py, int width, int height)
{
    float step = 2.4f / height, cx = -0.7f + (px - 0.5f * width) * step, cy = (py - 0.5f * height) * step;
    float x = 0, y = 0;
    int i = 0;

    while (i < ROUNDS && x * x + y * y < 4.0f) {
        float t = x * x - y * y + cx;

        y = 2 * x * y + cy;
        x = t;
        i++;
    }
    return i;
}

__global__ void mandelbrot(uint8_t *out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;

    if (x < width && y < height)
        out[(size_t)y * width + x] = rounds_at(x, y, width, height);
}

/* A colour for each number of rounds. */
static bool write_png(const char *path, const std::vector<uint8_t> &rounds, int width, int height)
{
    uint8_t colour[ROUNDS + 1][3] = {};
    png_image image;

    for (int i = 0; i < ROUNDS; i++) {
        float t = powf(i / (float)ROUNDS, 0.45f), u = 1 - t;

        colour[i][0] = (uint8_t)(9 * u * t * t * t * 255);
        colour[i][1] = (uint8_t)(15 * u * u * t * t * 255);
        colour[i][2] = (uint8_t)(30 + 8.5f * u * u * u * t * 225);
    }
    memset(&image, 0, sizeof(image));
    image.version = PNG_IMAGE_VERSION;
    image.width = width;
    image.height = height;
    image.format = PNG_FORMAT_RGB_COLORMAP;
    image.colormap_entries = ROUNDS + 1;
    return png_image_write_to_file(&image, path, 0, rounds.data(), 0, colour);
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "mandelbrot.png";
    int width = 1920, height = 1080;
    uint8_t *dev;
    int different = 0, checked = 0;

    if (!demo_sides(argc, argv, &width, &height))
        return demo_result("mandelbrot", path, false, DEMO_SIDES_WRONG);
    std::vector<uint8_t> rounds((size_t)width * height);
    CHECK(cudaMalloc(&dev, rounds.size()));
    mandelbrot<<<dim3((width + 31) / 32, (height + 7) / 8), dim3(32, 8)>>>(dev, width, height);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(rounds.data(), dev, rounds.size(), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(dev));
    /* On the border of the set one rounding (the GPU fuses multiply and add, the CPU does not) decides about many rounds, so a
     * few pixels may differ. The distance is odd, or only some columns would be looked at. */
    const int distance = (width * height / CHECKED) | 1;
    for (int i = 0; i < width * height; i += distance) {
        checked++;
        different += abs(rounds[i] - rounds_at(i % width, i / width, width, height)) > 1;
    }
    if (!write_png(path, rounds, width, height))
        return demo_result("mandelbrot", path, false, "cannot write the file");
    return demo_result("mandelbrot", path, different * 50 < checked,
                       "more than 2% of the pixels differ from the CPU's");
}
