/* SPDX-License-Identifier: MIT */
/* Sizes of code images, and truncated or corrupted ones, each at every length. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "code.h"

static CUresult measure(const void *p, uint64_t limit, uint64_t *size, enum vcu_image_kind *kind)
{
    struct vcu_image image = {0};
    const char *why = NULL;
    CUresult r = vcu_image_measure(p, limit, &image, &why);

    assert_non_null(why);
    *size = image.size;
    *kind = image.kind;
    return r;
}

/* An ELF file of 64 + 100 bytes of sections + 3 section headers (the last NOBITS and huge). */
static uint64_t make_elf(uint8_t *out)
{
    Elf64_Ehdr eh = {
        .e_shoff = 168, .e_shnum = 3, .e_shentsize = sizeof(Elf64_Shdr), .e_phentsize = sizeof(Elf64_Phdr)};
    Elf64_Shdr sh[3] = {{0},
                        {.sh_type = SHT_PROGBITS, .sh_offset = 64, .sh_size = 100},
                        {.sh_type = SHT_NOBITS, .sh_offset = 164, .sh_size = 1 << 30}};

    memset(out, 0, 168);
    memcpy(eh.e_ident, ELFMAG, SELFMAG);
    eh.e_ident[EI_CLASS] = ELFCLASS64;
    eh.e_ident[EI_DATA] = ELFDATA2LSB;
    memcpy(out, &eh, sizeof(eh));
    memcpy(out + 168, sh, sizeof(sh));
    return 168 + sizeof(sh);
}

static void test_elf(void **state)
{
    uint8_t image[1024];
    uint64_t n = make_elf(image), size;
    enum vcu_image_kind kind;

    (void)state;
    assert_int_equal(measure(image, 0, &size, &kind), CUDA_SUCCESS);
    assert_int_equal(size, n);
    assert_int_equal(kind, VCU_IMAGE_ELF);
    for (uint64_t cut = 4; cut < n; cut++)
        assert_int_equal(measure(image, cut, &size, &kind), CUDA_ERROR_INVALID_IMAGE);
    assert_int_equal(measure(image, n, &size, &kind), CUDA_SUCCESS);
}

static void test_tile_ir(void **state)
{
    static const char image[] = "\177TileIR\0\15\1";
    struct vcu_image out = {0};
    const char *why = NULL;

    (void)state;
    assert_int_equal(vcu_image_measure(image, sizeof(image), &out, &why), CUDA_ERROR_INVALID_IMAGE);
    assert_non_null(strstr(why, "Tile IR"));
    for (uint64_t cut = 1; cut < 8; cut++)
        assert_int_equal(vcu_image_measure(image, cut, &out, &why), CUDA_ERROR_INVALID_IMAGE);
}

/* Unmapped memory behind an image is not read, whatever the image begins with. */
static void test_short_text(void **state)
{
    static const char *const texts[] = {"", "\177", "\177T", "\177TileI", "\177TileIR", "Tile", "x"};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *at = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct vcu_image out = {0};
    const char *why = NULL;

    (void)state;
    assert_true(at != MAP_FAILED);
    assert_int_equal(munmap(at + page, page), 0);
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        char *text = strcpy(at + page - strlen(texts[i]) - 1, texts[i]);
        CUresult r = vcu_image_measure(text, 0, &out, &why);

        assert_true(r == CUDA_SUCCESS || r == CUDA_ERROR_INVALID_IMAGE);
    }
    munmap(at, page);
}

static void test_elf_hostile(void **state)
{
    uint8_t image[1024];
    uint64_t n = make_elf(image), size;
    enum vcu_image_kind kind;
    Elf64_Ehdr *eh = (Elf64_Ehdr *)image;
    Elf64_Shdr *sh = (Elf64_Shdr *)(image + 168);

    (void)state;
    eh->e_shoff = UINT64_MAX - 10;
    assert_int_equal(measure(image, n, &size, &kind), CUDA_ERROR_INVALID_IMAGE);
    eh->e_shoff = 168;
    eh->e_shnum = 0xffff;
    assert_int_equal(measure(image, n, &size, &kind), CUDA_ERROR_INVALID_IMAGE);
    eh->e_shnum = 3;
    sh[1].sh_size = UINT64_MAX;
    assert_int_equal(measure(image, n, &size, &kind), CUDA_ERROR_INVALID_IMAGE);
    sh[1].sh_size = 100;
    eh->e_phoff = 1ull << 41;
    eh->e_phnum = 1;
    assert_int_equal(measure(image, n, &size, &kind), CUDA_ERROR_INVALID_IMAGE);
    eh->e_phnum = 0;
    eh->e_ident[EI_CLASS] = ELFCLASS32;
    assert_int_equal(measure(image, n, &size, &kind), CUDA_ERROR_INVALID_IMAGE);
}

static void test_elf_at_end_of_memory(void **state)
{
    uint8_t *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t image[1024];
    uint64_t n = make_elf(image), size;
    enum vcu_image_kind kind;

    (void)state;
    assert_ptr_not_equal(page, MAP_FAILED);
    munmap(page + 4096, 4096);
    memcpy(page + 4096 - n, image, n);
    assert_int_equal(measure(page + 4096 - n, 0, &size, &kind), CUDA_SUCCESS);
    memcpy(page + 4096 - 100, image, 100); /* the rest of it is not mapped: no crash */
    assert_int_equal(measure(page + 4096 - 100, 0, &size, &kind), CUDA_ERROR_INVALID_IMAGE);
    assert_int_equal(measure(page + 4096, 0, &size, &kind), CUDA_ERROR_INVALID_VALUE);
    munmap(page, 4096);
}

static void test_fatbin_and_wrapper(void **state)
{
    struct {
        uint32_t magic;
        uint16_t version, header;
        uint64_t size;
        uint8_t body[48];
    } fat = {0xba55ed50, 1, 16, 48, {0}};
    struct {
        uint32_t magic, version;
        const void *data, *more;
    } wrapper = {0x466243b1, 1, &fat, NULL};
    uint64_t size;
    enum vcu_image_kind kind;
    struct vcu_image image;
    const char *why;

    (void)state;
    assert_int_equal(measure(&fat, 0, &size, &kind), CUDA_SUCCESS);
    assert_int_equal(size, 64);
    assert_int_equal(kind, VCU_IMAGE_FATBIN);
    for (uint64_t cut = 4; cut < 64; cut++)
        assert_int_equal(measure(&fat, cut, &size, &kind), CUDA_ERROR_INVALID_IMAGE);
    assert_int_equal(vcu_image_measure(&wrapper, 0, &image, &why), CUDA_SUCCESS);
    assert_ptr_equal(image.data, &fat);
    assert_int_equal(image.size, 64);
    wrapper.version = 2;
    assert_int_equal(vcu_image_measure(&wrapper, 0, &image, &why), CUDA_SUCCESS);
    /* The objects of a program compiled with -rdc=true follow, each at a multiple of eight. */
    struct {
        uint32_t magic;
        uint16_t version, header;
        uint64_t size;
        uint8_t body[9];
    } object = {0xba55ed50, 1, 16, 9, "an objec"};
    const void *objects[] = {&object, &object, NULL};

    wrapper.more = objects;
    assert_int_equal(vcu_image_measure(&wrapper, 0, &image, &why), CUDA_SUCCESS);
    assert_int_equal(image.size, 64 + 32 + 32);
    assert_memory_equal(image.data, &fat, 64);
    assert_memory_equal((const uint8_t *)image.data + 64, &object, 25);
    assert_memory_equal((const uint8_t *)image.data + 96, &object, 25);
    vcu_image_done(&image);
    wrapper.version = 1; /* the pointer is none, then */
    assert_int_equal(vcu_image_measure(&wrapper, 0, &image, &why), CUDA_SUCCESS);
    assert_ptr_equal(image.data, &fat);
    wrapper.version = 2;
    objects[1] = "something else";
    assert_int_equal(vcu_image_measure(&wrapper, 0, &image, &why), CUDA_ERROR_INVALID_IMAGE);
    objects[1] = (void *)16;
    assert_int_equal(vcu_image_measure(&wrapper, 0, &image, &why), CUDA_ERROR_INVALID_IMAGE);
    wrapper.more = (void *)16;
    assert_int_equal(vcu_image_measure(&wrapper, 0, &image, &why), CUDA_ERROR_INVALID_IMAGE);
    wrapper.more = NULL;
    wrapper.version = 7;
    assert_int_equal(vcu_image_measure(&wrapper, 0, &image, &why), CUDA_ERROR_INVALID_IMAGE);
    wrapper.version = 1;
    wrapper.data = (void *)16;
    assert_int_equal(vcu_image_measure(&wrapper, 0, &image, &why), CUDA_ERROR_INVALID_IMAGE);
    wrapper.data = NULL;
    assert_int_equal(vcu_image_measure(&wrapper, 0, &image, &why), CUDA_ERROR_INVALID_IMAGE);
    fat.size = UINT64_MAX;
    assert_int_equal(measure(&fat, 0, &size, &kind), CUDA_ERROR_INVALID_IMAGE);
    fat.size = 48;
    fat.header = 8;
    assert_int_equal(measure(&fat, 0, &size, &kind), CUDA_ERROR_INVALID_IMAGE);
}

static void test_ptx(void **state)
{
    static const char ptx[] = "// made by hand\n.version 7.0\n.target sm_50\n";
    uint64_t size;
    enum vcu_image_kind kind;

    (void)state;
    assert_int_equal(measure(ptx, 0, &size, &kind), CUDA_SUCCESS);
    assert_int_equal(size, sizeof(ptx)); /* with its NUL */
    assert_int_equal(kind, VCU_IMAGE_PTX);
    assert_int_equal(measure(ptx, 20, &size, &kind), CUDA_SUCCESS); /* text of a file, cut by it */
    assert_int_equal(size, 20);
    assert_int_equal(measure("", 0, &size, &kind), CUDA_ERROR_INVALID_IMAGE);
    assert_int_equal(measure("\x01\x02\x03\x04", 0, &size, &kind), CUDA_ERROR_INVALID_IMAGE);
    assert_int_equal(measure(NULL, 0, &size, &kind), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(measure("ab", 2, &size, &kind), CUDA_ERROR_INVALID_IMAGE);
}

static off_t longer; /* than a file is: it becomes shorter before it is read */

/* In the place of the C library's. */
int fstat(int fd, struct stat *st)
{
    int rc = fstatat(fd, "", st, AT_EMPTY_PATH);

    if (rc == 0)
        st->st_size += longer;
    return rc;
}

static void test_file_becomes_shorter(void **state)
{
    char path[] = "/tmp/vgpu-image-test.XXXXXX", *text = NULL;
    uint64_t size = 0;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "words", 5), 5);
    for (longer = 0; longer <= 4096; longer += 4096) {
        assert_int_equal(vcu_file_read("test", path, &text, &size), CUDA_SUCCESS);
        assert_int_equal(size, 6);
        assert_string_equal(text, "words");
        free(text);
    }
    longer = 0;
    close(fd);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elf),
        cmocka_unit_test(test_tile_ir),
        cmocka_unit_test(test_short_text),
        cmocka_unit_test(test_elf_hostile),
        cmocka_unit_test(test_elf_at_end_of_memory),
        cmocka_unit_test(test_fatbin_and_wrapper),
        cmocka_unit_test(test_ptx),
        cmocka_unit_test(test_file_becomes_shorter),
    };

    return cmocka_run_group_tests_name("image", tests, NULL, NULL);
}
