/* SPDX-License-Identifier: MIT */
/* A ray-traced scene: raytrace [PATH [WIDTH HEIGHT]]; default raytrace.png, 240 by 135. Spheres that mirror, on a floor. */
#include <cuda_runtime.h>
#include <png.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "demo.h"

#define SPHERES 7
#define BOUNCES 4
#define FAR 1e9f

struct vec {
    float x, y, z;
};
struct sphere {
    vec at;
    float radius;
    vec colour;
    float mirror; /* 0 to 1 */
};
struct scene {
    sphere spheres[SPHERES];
    vec light; /* direction to it */
};

__host__ __device__ static vec operator+(vec a, vec b)
{
    return {a.x + b.x, a.y + b.y, a.z + b.z};
}
__host__ __device__ static vec operator-(vec a, vec b)
{
    return {a.x - b.x, a.y - b.y, a.z - b.z};
}
__host__ __device__ static vec operator*(vec a, float f)
{
    return {a.x * f, a.y * f, a.z * f};
}
__host__ __device__ static vec tint(vec a, vec b)
{
    return {a.x * b.x, a.y * b.y, a.z * b.z};
}
__host__ __device__ static float dot(vec a, vec b)
{
    return a.x * b.x + a.y * b.y + a.z * b.z;
}
__host__ __device__ static vec unit(vec a)
{
    return a * (1.0f / sqrtf(dot(a, a)));
}

/* How far the ray goes until it hits; *which: the sphere, SPHERES for the floor (y = 0), -1 for nothing. */
__host__ __device__ static float hit(const scene &s, vec from, vec to, int *which)
{
    float nearest = FAR;

    *which = -1;
    if (to.y < -1e-4f) {
        nearest = -from.y / to.y;
        *which = SPHERES;
    }
    for (int i = 0; i < SPHERES; i++) {
        vec v = from - s.spheres[i].at;
        float b = dot(v, to), d = b * b - dot(v, v) + s.spheres[i].radius * s.spheres[i].radius;
        float t = d > 0 ? -b - sqrtf(d) : -1;

        if (t > 1e-3f && t < nearest) {
            nearest = t;
            *which = i;
        }
    }
    return nearest;
}

__host__ __device__ static vec trace(const scene &s, vec from, vec to)
{
    vec colour = {0, 0, 0}, weight = {1, 1, 1};

    for (int bounce = 0; bounce <= BOUNCES; bounce++) {
        int which, shade;
        float t = hit(s, from, to, &which), light, mirror = 0.12f;
        vec at, normal = {0, 1, 0}, own;

        if (which < 0) {
            float up = to.y > 0 ? to.y : 0;

            return colour + tint(weight, vec{0.75f, 0.85f, 1.0f} * (1 - up) + vec{0.15f, 0.3f, 0.65f} * up);
        }
        at = from + to * t;
        if (which < SPHERES) {
            normal = (at - s.spheres[which].at) * (1 / s.spheres[which].radius);
            own = s.spheres[which].colour;
            mirror = s.spheres[which].mirror;
        } else {
            own = ((int)floorf(at.x) + (int)floorf(at.z)) & 1 ? vec{0.85f, 0.85f, 0.82f}
                                                              : vec{0.18f, 0.2f, 0.24f};
            /* The floor ends in mist. */
            float mist = t > 40 ? 1 : t / 40;

            own = own * (1 - mist) + vec{0.75f, 0.85f, 1.0f} * mist;
        }
        light = dot(normal, s.light);
        if (light > 0 && (hit(s, at + normal * 2e-3f, s.light, &shade), shade >= 0))
            light = 0;
        light = 0.25f + 0.75f * (light > 0 ? light : 0);
        colour = colour + tint(weight, own) * (light * (1 - mirror));
        if (which < SPHERES && light > 0.3f) {
            float shine = dot(to - normal * (2 * dot(to, normal)), s.light);

            if (shine > 0.97f)
                colour = colour + weight * ((shine - 0.97f) * 25);
        }
        weight = weight * mirror;
        from = at + normal * 2e-3f;
        to = to - normal * (2 * dot(to, normal));
    }
    return colour;
}

/* Four rays a pixel. */
__host__ __device__ static vec pixel(const scene &s, int px, int py, int width, int height)
{
    vec sum = {0, 0, 0};

    for (int i = 0; i < 4; i++) {
        float x = (px + 0.25f + 0.5f * (i & 1) - 0.5f * width) / height;
        float y = (0.5f * height - py - 0.25f - 0.25f * (i & 2)) / height;

        sum = sum + trace(s, vec{0, 1.7f, -6.5f}, unit(vec{x, y - 0.12f, 1.15f}));
    }
    return sum * 0.25f;
}

__host__ __device__ static uint8_t level(float f)
{
    return (uint8_t)(255 * sqrtf(f < 0 ? 0 : f > 1 ? 1 : f) + 0.5f);
}

__global__ void render(scene s, uint8_t *rgb, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;

    if (x < width && y < height) {
        vec c = pixel(s, x, y, width, height);
        uint8_t *to = rgb + 3 * ((size_t)y * width + x);

        to[0] = level(c.x);
        to[1] = level(c.y);
        to[2] = level(c.z);
    }
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "raytrace.png";
    int width = 240, height = 135;
    int different = 0, checked = 0;
    scene s = {{{{0, 1, 0}, 1, {0.95f, 0.95f, 0.95f}, 0.8f},
                {{-2.1f, 0.8f, 0.9f}, 0.8f, {0.9f, 0.25f, 0.2f}, 0.25f},
                {{2.1f, 0.8f, 0.7f}, 0.8f, {0.25f, 0.5f, 0.95f}, 0.25f},
                {{-1.1f, 0.35f, -1.5f}, 0.35f, {0.46f, 0.73f, 0.0f}, 0.15f},
                {{1.0f, 0.3f, -1.7f}, 0.3f, {0.98f, 0.75f, 0.15f}, 0.3f},
                {{0.1f, 0.22f, -2.2f}, 0.22f, {0.7f, 0.3f, 0.8f}, 0.2f},
                {{0.6f, 1.3f, 4.5f}, 1.3f, {0.3f, 0.8f, 0.75f}, 0.3f}},
               unit(vec{-0.5f, 0.9f, -0.55f})};
    uint8_t *dev;
    png_image image;

    if (!demo_sides(argc, argv, &width, &height))
        return demo_result("raytrace", path, false, DEMO_SIDES_WRONG);
    std::vector<uint8_t> rgb((size_t)width * height * 3);
    CHECK(cudaMalloc(&dev, rgb.size()));
    render<<<dim3((width + 31) / 32, (height + 7) / 8), dim3(32, 8)>>>(s, dev, width, height);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(rgb.data(), dev, rgb.size(), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(dev));
    /* Every 7th pixel. At edges one rounding (the GPU fuses multiply and add) decides what a ray hits. */
    for (int i = 0; i < width * height; i += 7) {
        vec c = pixel(s, i % width, i / width, width, height);

        checked++;
        different += abs(rgb[3 * (size_t)i] - level(c.x)) > 3 ||
                     abs(rgb[3 * (size_t)i + 1] - level(c.y)) > 3 ||
                     abs(rgb[3 * (size_t)i + 2] - level(c.z)) > 3;
    }
    memset(&image, 0, sizeof(image));
    image.version = PNG_IMAGE_VERSION;
    image.width = width;
    image.height = height;
    image.format = PNG_FORMAT_RGB;
    if (!png_image_write_to_file(&image, path, 0, rgb.data(), 0, NULL))
        return demo_result("raytrace", path, false, "cannot write the file");
    return demo_result("raytrace", path, different * 50 <= checked,
                       "more than 2% of the pixels differ from the CPU's");
}
