/* SPDX-License-Identifier: MIT */
/* Images: choice and unpacking of PTX, and refusal of everything malformed without overreads. */
#define _GNU_SOURCE
#include <elf.h>
#include <lz4.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <zstd.h>

#include <cmocka.h>

#include "image/image.h"

/* The log asks for the current context; here there is none. */
CUresult sg_current_raw(struct sg_ctx **out)
{
    *out = NULL;
    return CUDA_ERROR_INVALID_CONTEXT;
}

enum pack { STORED, LZ4, ZSTD };

struct blob {
    uint8_t data[16384];
    size_t n;
};

static void put(struct blob *b, size_t at, uint64_t v, int bytes)
{
    memcpy(b->data + at, &v, (size_t)bytes);
}

static void begin(struct blob *b)
{
    memset(b, 0, sizeof(*b));
    put(b, 0, 0xBA55ED50u, 4);
    put(b, 4, 1, 2);
    put(b, 6, 16, 2);
    b->n = 16;
}

static void finish(struct blob *b)
{
    put(b, 8, b->n - 16, 8);
}

/* Appends an entry; returns its offset. */
static size_t entry(struct blob *b, int kind, unsigned arch, const void *data, size_t n, enum pack pack,
                    unsigned header)
{
    size_t at = b->n, packed = 0, payload;
    uint8_t *to = b->data + at + header;

    if (pack == STORED)
        memcpy(to, data, n);
    else if (pack == LZ4)
        packed =
            (size_t)LZ4_compress_default(data, (char *)to, (int)n, (int)(b->data + sizeof(b->data) - to));
    else
        packed = ZSTD_compress(to, (size_t)(b->data + sizeof(b->data) - to), data, n, 3);
    payload = ((pack == STORED ? n : packed) + 7) & ~(size_t)7;
    put(b, at, (uint64_t)kind, 2);
    put(b, at + 2, 0x0101, 2);
    put(b, at + 4, header, 4);
    put(b, at + 8, payload, 8);
    put(b, at + 16, packed, 4);
    put(b, at + 28, arch, 4);
    put(b, at + 40, 0x11 | (pack == LZ4 ? 0x2000 : pack == ZSTD ? 0x8000 : 0), 8);
    put(b, at + 56, pack == STORED ? 0 : n, 8);
    b->n = at + header + payload;
    return at;
}

static size_t ptx(struct blob *b, unsigned arch, enum pack pack)
{
    char text[2048];
    int n = snprintf(text, sizeof(text), ".version 8.0\n.target sm_%u\n.address_size 64\n", arch);

    memset(text + n, '\n', 1000); /* something to compress */
    n += 1000;
    text[n] = '\0';
    return entry(b, 1, arch, text, (size_t)n + 1, pack, 64 + 8 * (unsigned)pack);
}

/* The image at the end of a page behind which nothing is mapped. */
static const uint8_t *at_edge(const void *data, size_t n)
{
    static uint8_t *map;

    if (!map) {
        map = mmap(NULL, 5 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(map != MAP_FAILED);
        assert_int_equal(mprotect(map + 4 * 4096, 4096, PROT_NONE), 0);
    }
    uint8_t *p = map + 4 * 4096 - n;

    memcpy(p, data, n);
    return p;
}

static CUresult load(const struct blob *b, int cc, struct sg_image *img)
{
    return sg_image_load(at_edge(b->data, b->n), b->n, cc, img);
}

static void expect_target(const struct blob *b, int cc, unsigned target)
{
    struct sg_image img;
    char want[32];

    assert_int_equal(load(b, cc, &img), CUDA_SUCCESS);
    snprintf(want, sizeof(want), ".target sm_%u\n", target);
    assert_non_null(strstr(img.text, want));
    assert_int_equal(img.target, target);
    assert_int_equal(img.len, strlen(img.text));
    sg_image_free(&img);
}

static void test_packings(void **state)
{
    (void)state;
    for (enum pack p = STORED; p <= ZSTD; p++) {
        struct blob b;

        begin(&b);
        ptx(&b, 80, p);
        finish(&b);
        expect_target(&b, 80, 80);
    }
}

static void test_choice(void **state)
{
    struct blob b;

    (void)state;
    begin(&b);
    ptx(&b, 90, ZSTD);
    ptx(&b, 75, STORED);
    entry(&b, 2, 80, "\177ELFsass", 8, STORED, 64);
    ptx(&b, 120, ZSTD);
    ptx(&b, 80, LZ4);
    finish(&b);
    expect_target(&b, 80, 80);
    expect_target(&b, 89, 80);
    expect_target(&b, 75, 75);
    expect_target(&b, 90, 90);
    expect_target(&b, 121, 120);
    expect_target(&b, 50, 75); /* none that fits: the lowest above */
}

static void test_sass_only(void **state)
{
    struct sg_image img;
    struct blob b;

    (void)state;
    begin(&b);
    entry(&b, 2, 86, "\177ELFsass", 8, STORED, 64);
    entry(&b, 2, 90, "\177ELFsass", 8, STORED, 64);
    finish(&b);
    assert_int_equal(load(&b, 80, &img), CUDA_SUCCESS); /* to be looked at: the nearest */
    assert_true(img.is_elf);
    assert_int_equal(img.target, 86);
    assert_string_equal(img.has, "SASS 86, SASS 90");
    sg_image_free(&img);
    assert_int_equal(load(&b, 120, &img), CUDA_SUCCESS);
    assert_int_equal(img.target, 90);
    sg_image_free(&img);
    begin(&b);
    finish(&b);
    assert_int_equal(load(&b, 80, &img), CUDA_ERROR_NO_BINARY_FOR_GPU);
}

static void test_truncated(void **state)
{
    (void)state;
    for (enum pack p = STORED; p <= ZSTD; p++) {
        struct sg_image img;
        struct blob b;

        begin(&b);
        ptx(&b, 75, p);
        ptx(&b, 80, p);
        finish(&b);
        for (size_t n = 0; n < b.n; n++)
            assert_int_equal(sg_image_load(at_edge(b.data, n), n, 80, &img), CUDA_ERROR_INVALID_IMAGE);
        /* The same with a header that agrees with what is there. */
        for (size_t n = 17; n < b.n; n++) {
            put(&b, 8, n - 16, 8);
            CUresult r = sg_image_load(at_edge(b.data, n), n, 80, &img);

            if (r == CUDA_SUCCESS)
                sg_image_free(&img); /* cut exactly between the entries */
            else
                assert_int_equal(r, CUDA_ERROR_INVALID_IMAGE);
        }
    }
}

static void test_corrupt_fields(void **state)
{
    static const struct {
        int at, bytes;
        uint64_t value;
    } bad[] = {
        {
            4,
            4,
            0,
        },
        {4, 4, 63},
        {4, 4, 0xffffffff},
        {4, 4, 5000},
        {8, 8, UINT64_MAX},
        {8, 8, 1ull << 40},
        {16, 4, 0xffffffff},
        {56, 8, 1},
        {56, 8, UINT64_MAX},
        {56, 8, 1ull << 31},
        {40, 8, 0},
        {16, 4, 1},
    };
    struct sg_image img;
    struct blob b;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        begin(&b);
        size_t at = ptx(&b, 80, ZSTD);

        finish(&b);
        put(&b, at + (size_t)bad[i].at, bad[i].value, bad[i].bytes);
        assert_int_equal(load(&b, 80, &img), CUDA_ERROR_INVALID_IMAGE);
    }
    begin(&b);
    ptx(&b, 80, LZ4);
    finish(&b);
    for (int flip = 0; flip < 400; flip++) { /* must not crash; may by chance still unpack */
        struct blob c = b;

        c.data[16 + (size_t)flip % (b.n - 16)] ^= (uint8_t)(1 + flip % 255);
        if (load(&c, 80, &img) == CUDA_SUCCESS)
            sg_image_free(&img);
    }
    begin(&b);
    ptx(&b, 80, ZSTD);
    finish(&b);
    put(&b, 4, 2, 2); /* a container version that is not known */
    assert_int_equal(load(&b, 80, &img), CUDA_ERROR_INVALID_IMAGE);
}

static void test_wrapper(void **state)
{
    struct {
        uint32_t magic, version;
        const void *data;
        void *more;
    } w = {0x466243b1u, 1, NULL, NULL};
    struct sg_image img;
    struct blob b;

    (void)state;
    begin(&b);
    ptx(&b, 80, ZSTD);
    finish(&b);
    w.data = b.data;
    assert_int_equal(sg_image_load(&w, SIZE_MAX, 80, &img), CUDA_SUCCESS);
    sg_image_free(&img);
    w.version = 3;
    assert_int_equal(sg_image_load(&w, SIZE_MAX, 80, &img), CUDA_ERROR_INVALID_IMAGE);
    w.version = 2;
    w.data = NULL;
    assert_int_equal(sg_image_load(&w, SIZE_MAX, 80, &img), CUDA_ERROR_INVALID_IMAGE);
    assert_int_equal(sg_image_load(at_edge(&w, 20), 20, 80, &img), CUDA_ERROR_INVALID_IMAGE);
}

/* The wrapper of a program compiled with -rdc=true lists the fat binaries of its objects. */
static void test_objects(void **state)
{
    static struct blob linked, a, b, runtime;
    const void *list[] = {a.data, b.data, runtime.data, NULL};
    struct {
        uint32_t magic, version;
        const void *data, *more;
    } w = {0x466243b1u, 2, linked.data, list};
    struct sg_image img;

    (void)state;
    begin(&linked);
    finish(&linked);
    begin(&a);
    ptx(&a, 80, ZSTD);
    finish(&a);
    begin(&b);
    ptx(&b, 75, STORED);
    finish(&b);
    begin(&runtime); /* as libcudadevrt: SASS for the device, PTX for a newer one only */
    entry(&runtime, 2, 80, "\177ELF", 4, STORED, 64);
    ptx(&runtime, 121, LZ4);
    finish(&runtime);
    assert_int_equal(sg_image_load(&w, SIZE_MAX, 80, &img), CUDA_SUCCESS);
    assert_false(img.is_elf);
    assert_int_equal(img.target, 80);
    assert_int_equal(img.len, strlen(img.text));
    assert_non_null(strstr(img.text, ".target sm_80\n"));
    assert_null(strstr(img.text, "sm_121"));
    sg_image_free(&img);
    list[0] = runtime.data; /* nothing that can be run */
    list[1] = NULL;
    assert_int_equal(sg_image_load(&w, SIZE_MAX, 80, &img), CUDA_ERROR_NO_BINARY_FOR_GPU);
    list[0] = "not a fat binary";
    assert_int_equal(sg_image_load(&w, SIZE_MAX, 80, &img), CUDA_ERROR_INVALID_IMAGE);
    list[0] = NULL;
    assert_int_equal(sg_image_load(&w, SIZE_MAX, 80, &img), CUDA_ERROR_NO_BINARY_FOR_GPU);
}

static void test_text(void **state)
{
    static const char *const good[] = {".version 8.0\n", "\n.version 8.0", "// x\n.version 8.0"};
    static const char *const bad[] = {"", "hello", "\001", "x"};
    struct sg_image img;

    (void)state;
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(good[i]) + 1;

        assert_int_equal(sg_image_load(at_edge(good[i], n), SIZE_MAX, 80, &img), CUDA_SUCCESS);
        assert_string_equal(img.text, good[i]);
        sg_image_free(&img);
    }
    for (int i = 0; i < 4; i++) {
        size_t n = strlen(bad[i]) + 1;

        assert_int_equal(sg_image_load(at_edge(bad[i], n), SIZE_MAX, 80, &img), CUDA_ERROR_INVALID_IMAGE);
    }
}

/* A cubin as far as the scanner looks: header, one section header table, one section. */
static void test_cubin(void **state)
{
    struct sg_elf_info info;
    struct sg_image img;
    struct blob b;

    (void)state;
    memset(&b, 0, sizeof(b));
    memcpy(b.data, "\177ELF\2\1\1\x33\7", 9);
    put(&b, 16, 2, 2);            /* type */
    put(&b, 18, 190, 2);          /* machine: CUDA */
    put(&b, 40, 96, 8);           /* section headers */
    put(&b, 48, 90, 4);           /* flags: SM */
    put(&b, 52, 64, 2);           /* header size */
    put(&b, 58, 64, 2);           /* section header size */
    put(&b, 60, 2, 2);            /* two of them */
    put(&b, 96 + 64 + 4, 1, 4);   /* the second is data */
    put(&b, 96 + 64 + 24, 64, 8); /* at 64 */
    put(&b, 96 + 64 + 32, 32, 8); /* 32 bytes */
    b.n = 96 + 128;
    assert_true(sg_elf_scan(at_edge(b.data, b.n), b.n, &info));
    assert_true(info.is_cubin);
    assert_int_equal(info.sm, 90);
    assert_int_equal(info.size, b.n);
    assert_int_equal(load(&b, 80, &img), CUDA_SUCCESS);
    assert_true(img.is_elf && img.len == b.n && !memcmp(img.text, b.data, b.n));
    sg_image_free(&img);
    for (size_t n = 4; n < b.n; n++)
        assert_int_equal(sg_image_load(at_edge(b.data, n), n, 80, &img), CUDA_ERROR_INVALID_IMAGE);
    put(&b, 96 + 64 + 32, UINT64_MAX, 8);
    assert_int_equal(load(&b, 80, &img), CUDA_ERROR_INVALID_IMAGE);
    put(&b, 96 + 64 + 32, 32, 8);
    put(&b, 40, UINT64_MAX - 8, 8);
    assert_int_equal(load(&b, 80, &img), CUDA_ERROR_INVALID_IMAGE);
    put(&b, 40, 96, 8);
    put(&b, 52, 0xfff0, 2); /* a header longer than the file, found by fuzzing */
    assert_false(sg_elf_scan(at_edge(b.data, b.n), b.n, &info));
    assert_int_equal(load(&b, 80, &img), CUDA_ERROR_INVALID_IMAGE);
    put(&b, 52, 64, 2);
    put(&b, 18, 62, 2); /* x86-64 */
    assert_int_equal(load(&b, 80, &img), CUDA_ERROR_INVALID_IMAGE);
}

static CUresult count(const uint8_t *data, size_t n, void *arg)
{
    struct sg_unpack u = {.left = SG_PTX_TEXT_MAX};
    struct sg_image img;

    assert_int_equal(sg_fatbin_load(data, n, 80, &u, &img), CUDA_SUCCESS);
    sg_image_free(&img);
    ++*(int *)arg;
    return CUDA_SUCCESS;
}

/* An object of the host with two fat binaries in a section, and an archive with it twice. */
static void test_objects_of_the_host(void **state)
{
    static const char names[] = "\0__nv_relfatbin";
    static uint8_t page[4 * 4096];
    static struct blob b, fat;
    size_t at, n;
    int seen = 0;

    (void)state;
    begin(&fat);
    ptx(&fat, 80, ZSTD);
    finish(&fat);
    memset(&b, 0, sizeof(b));
    memcpy(b.data, "\177ELF\2\1\1", 7);
    put(&b, 16, 1, 2);  /* relocatable */
    put(&b, 18, 62, 2); /* x86-64 */
    put(&b, 40, 64, 8); /* section headers */
    put(&b, 52, 64, 2);
    put(&b, 58, 64, 2);
    put(&b, 60, 3, 2);
    put(&b, 62, 1, 2); /* the first has the names */
    at = 64 + 3 * 64;
    put(&b, 128 + 4, 3, 4);
    put(&b, 128 + 24, at, 8);
    put(&b, 128 + 32, sizeof(names), 8);
    memcpy(b.data + at, names, sizeof(names));
    at = (at + sizeof(names) + 7) & ~7ull;
    n = (fat.n + 7) & ~7ull;
    put(&b, 192, 1, 4); /* its name */
    put(&b, 192 + 4, 1, 4);
    put(&b, 192 + 24, at, 8);
    put(&b, 192 + 32, n + fat.n, 8);
    memcpy(b.data + at, fat.data, fat.n);
    memcpy(b.data + at + n, fat.data, fat.n);
    b.n = at + n + fat.n;
    assert_int_equal(sg_object_each(at_edge(b.data, b.n), b.n, count, &seen), CUDA_SUCCESS);
    assert_int_equal(seen, 2);
    for (size_t cut = 0; cut < b.n; cut++)
        assert_int_equal(sg_object_each(at_edge(b.data, cut), cut, count, &seen), CUDA_ERROR_INVALID_IMAGE);
    put(&b, at + n + 8, 1ull << 40, 8); /* the second claims more than there is */
    assert_int_equal(sg_object_each(at_edge(b.data, b.n), b.n, count, &seen), CUDA_ERROR_INVALID_IMAGE);
    memcpy(b.data + at + n, fat.data, fat.n);
    put(&b, 62, 9, 2); /* no names */
    seen = 0;
    assert_int_equal(sg_object_each(at_edge(b.data, b.n), b.n, count, &seen), CUDA_SUCCESS);
    assert_int_equal(seen, 0);
    put(&b, 62, 1, 2);

    n = (size_t)sprintf((char *)page, "!<arch>\n");
    for (int i = 0; i < 2; i++) {
        n += (size_t)sprintf((char *)page + n, "%-48s%-10zu`\n", i ? "b.o/" : "a.o/", b.n);
        memcpy(page + n, b.data, b.n);
        n += b.n;
        if (n & 1)
            page[n++] = '\n';
    }
    assert_int_equal(sg_archive_each(at_edge(page, n), n, count, &seen), CUDA_SUCCESS);
    assert_int_equal(seen, 4);
    for (size_t cut = 0; cut < n; cut++) {
        CUresult r = sg_archive_each(at_edge(page, cut), cut, count, &seen);

        assert_true(r == CUDA_SUCCESS || r == CUDA_ERROR_INVALID_IMAGE);
    }
    memcpy(page + 8 + 48, "9999999999", 10);
    assert_int_equal(sg_archive_each(at_edge(page, n), n, count, &seen), CUDA_ERROR_INVALID_IMAGE);
}

static size_t in_use(void)
{
    const struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

/* What the objects of one program are unpacked to has the bound of one of them, whatever becomes of it. */
static void test_sum_of_objects(void **state)
{
    static struct blob linked, small, large, sass;
    const void *list[] = {small.data, large.data, NULL, NULL};
    struct {
        uint32_t magic, version;
        const void *data, *more;
    } w = {0x466243b1u, 2, linked.data, list};
    const size_t n = SG_PTX_TEXT_MAX / 2 + 4096;
    char *text = malloc(n);
    struct sg_image img;
    size_t before;

    (void)state;
    assert_non_null(text);
    memset(text, '\n', n);
    memcpy(text, ".version 8.0\n.target sm_80\n.address_size 64\n", 44);
    text[n - 1] = '\0';
    begin(&linked);
    finish(&linked);
    begin(&small);
    ptx(&small, 80, ZSTD);
    finish(&small);
    begin(&large);
    entry(&large, 1, 80, text, n, ZSTD, 64);
    finish(&large);
    begin(&sass);
    entry(&sass, 2, 80, text, n, ZSTD, 64);
    finish(&sass);
    free(text);
    assert_int_equal(sg_image_load(&w, SIZE_MAX, 80, &img), CUDA_SUCCESS);
    sg_image_free(&img);
    list[2] = sass.data; /* is not unpacked, since nothing would come of it */
    assert_int_equal(sg_image_load(&w, SIZE_MAX, 80, &img), CUDA_SUCCESS);
    sg_image_free(&img);
    before = in_use();
    list[2] = large.data;
    assert_int_equal(sg_image_load(&w, SIZE_MAX, 80, &img), CUDA_ERROR_INVALID_IMAGE);
    list[2] = NULL;
    w.data = sass.data;
    assert_int_equal(sg_image_load(&w, SIZE_MAX, 80, &img), CUDA_ERROR_INVALID_IMAGE);
    assert_true(in_use() < before + n); /* nothing of what was refused is kept */
}

/* What follows the text's NUL is not counted, so nothing of it is kept: not in one image, nor in many. */
static void test_padding(void **state)
{
    static char text[8u << 20];
    static struct blob b;
    struct sg_image img[8];
    const size_t before = in_use();

    (void)state;
    strcpy(text, ".version 8.0\n.target sm_80\n.address_size 64\n");
    begin(&b);
    entry(&b, 1, 80, text, sizeof(text), ZSTD, 64);
    finish(&b);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(sg_image_load(b.data, b.n, 80, &img[i]), CUDA_SUCCESS);
        assert_int_equal(img[i].len, strlen(text));
        assert_string_equal(img[i].text, text);
    }
    assert_true(in_use() < before + sizeof(text));
    for (unsigned i = 0; i < 8; i++)
        sg_image_free(&img[i]);
}

/* An object whose sections are all the same bytes. */
static void test_sections_in_each_other(void **state)
{
    static const char names[] = "\0__nv_relfatbin";
    static struct blob fat;
    const unsigned most = 1000;
    const size_t head = 64 + (most + 2) * sizeof(Elf64_Shdr);
    uint8_t *data = calloc(1, head + 16384);
    Elf64_Ehdr *eh = (Elf64_Ehdr *)(void *)data;
    Elf64_Shdr *sh = (Elf64_Shdr *)(void *)(data + 64);
    size_t n = head + 64;
    int seen = 0;

    (void)state;
    assert_non_null(data);
    begin(&fat);
    ptx(&fat, 80, STORED);
    finish(&fat);
    memcpy(data, "\177ELF\2\1\1", 7);
    eh->e_machine = 62;
    eh->e_ehsize = 64;
    eh->e_shoff = 64;
    eh->e_shentsize = sizeof(*sh);
    eh->e_shstrndx = 1;
    sh[1] = (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = head, .sh_size = sizeof(names)};
    memcpy(data + head, names, sizeof(names));
    memcpy(data + n, fat.data, fat.n);
    for (unsigned i = 0; i < most; i++)
        sh[2 + i] = (Elf64_Shdr){.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_offset = n, .sh_size = fat.n};
    n += fat.n;
    eh->e_shnum = 4;
    assert_int_equal(sg_object_each(data, n, count, &seen), CUDA_SUCCESS);
    assert_int_equal(seen, 2);
    eh->e_shnum = (Elf64_Half)(most + 2);
    assert_int_equal(sg_object_each(data, n, count, &seen), CUDA_ERROR_INVALID_IMAGE);
    assert_true((size_t)seen < 2 + 1 + n / fat.n);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packings),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_sass_only),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_corrupt_fields),
        cmocka_unit_test(test_wrapper),
        cmocka_unit_test(test_objects_of_the_host),
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_sum_of_objects),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_sections_in_each_other),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_cubin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
