/* SPDX-License-Identifier: MIT */
/*
 * Reference model for texture_fetch_test: textures with known contents, and fetch results computed
 * with the formulas of CUDA C++ Programming Guide, "Texture Fetching". Failures are reported by
 * cmocka.
 */
#ifndef SG_TEX_REF_H
#define SG_TEX_REF_H

#include "api/api_test.h"

struct tex_ref {
    size_t w, h, d; /* size of level 0; d: slices, layers or faces */
    int dims, channels, levels;
    bool layered, cube;
    CUarray_format format;
    float *data[8]; /* element values as floats before normalization, 4 channels each */
    CUtexObject tex;
    CUDA_TEXTURE_DESC t;
    CUmipmappedArray mip;
    CUarray array;
};

/* The next 24-bit pseudo-random number, and a number in [lo, hi]. The sequence is the same in
   each run. */
uint32_t ref_rnd(void);
float ref_rndf(float lo, float hi);
/* Writes a random element in r's format to p; returns its value in the texture's read mode. */
float ref_element(const struct tex_ref *r, uint8_t *p);
/* Creates and destroys the array (all levels) and the texture object described by r's first
   members. */
void ref_make(struct tex_ref *r);
void ref_drop(struct tex_ref *r);
/* The element of level l that contains x (in elements of that level), or the border value. */
void ref_texel(const struct tex_ref *r, int l, const double x[3], size_t slice, double out[4]);
/* The value at one level, filtered as r specifies; x is in elements of that level. */
void ref_one_level(const struct tex_ref *r, int l, const double x[3], size_t slice, double out[4]);
/* The value at sample s (as the kernel passes it) and level of detail lod, before its clamps. */
void ref_expected(const struct tex_ref *r, const float s[4], double lod, size_t slice, double out[4]);

/* The module of tests-ptx/tex.cu and its context. */
extern CUmodule module;
extern CUcontext context;
extern const char *ptx_path;

void test_surfaces(void **state);
void test_surface_bounds(void **state);
void test_views_of_layers(void **state);
void test_views_of_levels(void **state);

#endif
