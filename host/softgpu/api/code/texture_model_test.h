/* SPDX-License-Identifier: MIT */
/*
 * What texture_fetch_test compares with: textures with their contents, and what a fetch is worth by the
 * formulas of CUDA C++ Programming Guide, "Texture Fetching". Failures are cmocka's.
 */
#ifndef SG_TEX_REF_H
#define SG_TEX_REF_H

#include "api/api_test.h"

struct tex_ref {
    size_t w, h, d; /* of level 0; d: slices, layers or faces */
    int dims, channels, levels;
    bool layered, cube;
    CUarray_format format;
    float *data[8]; /* what the elements are, as floats before normalization: 4 channels each */
    CUtexObject tex;
    CUDA_TEXTURE_DESC t;
    CUmipmappedArray mip;
    CUarray array;
};

/* The next pseudo-random number of 24 bits, and one in [lo, hi]. The same in each run. */
uint32_t ref_rnd(void);
float ref_rndf(float lo, float hi);
/* A random element of r's format in p; returns what it is worth in the texture's read mode. */
float ref_element(const struct tex_ref *r, uint8_t *p);
/* The array (all levels) and the texture object of r, whose first members say what to make; and its end. */
void ref_make(struct tex_ref *r);
void ref_drop(struct tex_ref *r);
/* The element of level l that contains x (in elements of that level), or the border's value. */
void ref_texel(const struct tex_ref *r, int l, const double x[3], size_t slice, double out[4]);
/* The value at one level, filtered as r says: x in elements of that level. */
void ref_one_level(const struct tex_ref *r, int l, const double x[3], size_t slice, double out[4]);
/* The value at sample s (as the kernel passes it) and level of detail lod, before its clamps. */
void ref_expected(const struct tex_ref *r, const float s[4], double lod, size_t slice, double out[4]);

/* The module of tests-ptx/tex.cu and the context it is in. */
extern CUmodule module;
extern CUcontext context;
extern const char *ptx_path;

void test_surfaces(void **state);
void test_surface_bounds(void **state);

#endif
