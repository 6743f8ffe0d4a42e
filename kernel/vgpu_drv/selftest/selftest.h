/* SPDX-License-Identifier: GPL-2.0-only */
/* Common functions of vgpu_selftest's tests. Uses only plain C and the ioctl ABI. */
#ifndef VGPU_SELFTEST_H
#define VGPU_SELFTEST_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "vgpu_ioctl.h"

#define PAGE 4096ul
#define ST_DRIVER "/sys/bus/virtio/drivers/vgpu_drv"
#define ST_LIMIT (1ul << 20) /* pin limit per user of st_limit_set("1"), bytes */
#define ST_UID 65534 /* an unprivileged user */

extern const char *st_path;	/* the device file */
extern bool st_allow_unbind;	/* --unbind */
extern int st_seconds;		/* --seconds: duration of test_hostile(), s */
extern bool st_ok;		/* of the running test; set to false by CHECK */
extern const char *st_skip_why; /* of the running test: reason for skipping it */

#define CHECK(cond)                                                                        \
	do {                                                                               \
		if (!(cond)) {                                                             \
			printf("  line %d: %s (errno %d: %s)\n", __LINE__, #cond, errno,   \
			       strerror(errno));                                           \
			st_ok = false;                                                \
		}                                                                          \
	} while (0)

/* Expects an ioctl to fail with the given errno. */
#define REFUSED(fd, cmd, arg, want)                                                        \
	do {                                                                               \
		errno = 0;                                                                 \
		CHECK(ioctl(fd, cmd, arg) == -1 && errno == (want));                       \
	} while (0)

int st_open(void);
int st_client(struct vgpu_create_client *create);
void *st_map_window(int fd, const struct vgpu_create_client *c);
char *st_pages(size_t n);
int64_t st_now_ns(void);
bool st_limit_set(const char *mib);
bool st_keeps(void);
bool st_write_file(const char *name, const char *text);
bool st_virtio_name(char *name, size_t size);

/* selftest_client.c */
void test_query(void);
void test_query_reserved(void);
void test_bad_pointer(void);
void test_unknown_ioctls(void);
void test_not_created(void);
void test_create_fields(void);
void test_create(void);
void test_two_clients(void);
void test_slot_reuse(void);
void test_mmap(void);
void test_fork(void);
void test_sent_file(void);
void test_owner_ends(void);

/* selftest_pin.c */
void test_pin_fields(void);
void test_pin(void);
void test_pin_unmapped(void);
void test_pin_limit(void);
void test_pin_scattered(void);
void test_pin_regions(void);

/* selftest_dmabuf.c */
void test_export_fields(void);
void test_export(void);
void test_import_fields(void);
void test_import(void);
void test_export_limit(void);
void test_dmabuf_compat(void);

/* selftest_wait.c */
void test_wait(void);
void test_wait_time_namespace(void);
void test_wait_signals(void);
void test_wait_signals_restart(void);
void test_wait_threads(void);
void test_kill(void);
void test_worker_death(void);
void test_unbind(void);

/* selftest_hostile.c */
void test_hostile(void);

#endif
