// SPDX-License-Identifier: GPL-2.0-only
/* vgpu_selftest: PIN and UNPIN. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftest.h"

/* ---- PIN ---- */

static bool can_pin(int fd)
{
	struct vgpu_query q = { 0 };

	if (!ioctl(fd, VGPU_IOCTL_QUERY, &q) && (q.features & 1))
		return true;
	st_skip_why = "the device has no PIN";
	return false;
}

void test_pin_fields(void)
{
	char *buf = st_pages(4);
	const struct vgpu_pin good = { .addr = (uintptr_t)buf, .length = 4 * PAGE };
	struct vgpu_create_client c;
	struct vgpu_pin pin;
	int fd = st_client(&c), i;

	if (fd < 0)
		return;
	for (i = 1; i < 32; i++) {
		pin = good;
		pin.flags = 1u << i;
		REFUSED(fd, VGPU_IOCTL_PIN, &pin, EINVAL);
	}
	for (i = 0; i < 2; i++) {
		pin = good;
		pin.reserved[i] = 1;
		REFUSED(fd, VGPU_IOCTL_PIN, &pin, EINVAL);
	}
	pin = good, pin.addr += 8;
	REFUSED(fd, VGPU_IOCTL_PIN, &pin, EINVAL);
	pin = good, pin.length = 0;
	REFUSED(fd, VGPU_IOCTL_PIN, &pin, EINVAL);
	pin = good, pin.length -= 1;
	REFUSED(fd, VGPU_IOCTL_PIN, &pin, EINVAL);
	pin = good, pin.addr = -PAGE, pin.length = 2 * PAGE;
	REFUSED(fd, VGPU_IOCTL_PIN, &pin, EINVAL);
	if (can_pin(fd)) {
		pin = good, pin.addr = 1ull << 63; /* the kernel's half */
		REFUSED(fd, VGPU_IOCTL_PIN, &pin, EFAULT);
	}
	munmap(buf, 4 * PAGE);
	close(fd);
}

void test_pin(void)
{
	char *buf = st_pages(64), *ro = st_pages(2);
	struct vgpu_pin pin = { .addr = (uintptr_t)buf, .length = 64 * PAGE };
	struct vgpu_pin pin_ro = { .addr = (uintptr_t)ro, .length = 2 * PAGE,
				   .flags = VGPU_PIN_FLAG_READONLY };
	struct vgpu_unpin unpin = { 0 };
	struct vgpu_create_client c;
	int fd = st_client(&c);

	if (fd < 0 || !can_pin(fd))
		goto out;
	CHECK(!ioctl(fd, VGPU_IOCTL_PIN, &pin));
	CHECK(pin.region != 0);
	CHECK(pin.worker_va && !(pin.worker_va % PAGE));
	CHECK(!mprotect(ro, 2 * PAGE, PROT_READ));
	CHECK(!ioctl(fd, VGPU_IOCTL_PIN, &pin_ro));
	CHECK(pin_ro.region != pin.region);

	unpin.region = pin.region;
	unpin.flags = 1;
	REFUSED(fd, VGPU_IOCTL_UNPIN, &unpin, EINVAL);
	unpin.flags = 0;
	CHECK(!ioctl(fd, VGPU_IOCTL_UNPIN, &unpin));
	REFUSED(fd, VGPU_IOCTL_UNPIN, &unpin, ENOENT);
	unpin.region = 0;
	REFUSED(fd, VGPU_IOCTL_UNPIN, &unpin, ENOENT);
	unpin.region = 0xffffffff;
	REFUSED(fd, VGPU_IOCTL_UNPIN, &unpin, ENOENT);
	/* The read-only region is left for close() to release. */
out:
	munmap(buf, 64 * PAGE);
	munmap(ro, 2 * PAGE);
	if (fd >= 0)
		close(fd);
}

/* Unmapped memory, read-only memory, and the device's own memory. */
void test_pin_unmapped(void)
{
	char *buf = st_pages(8);
	struct vgpu_pin pin = { .addr = (uintptr_t)buf, .length = 8 * PAGE };
	struct vgpu_create_client c;
	int fd = st_client(&c);
	char *w;

	if (fd < 0 || !can_pin(fd))
		goto out;
	memset(buf, 1, 8 * PAGE);
	CHECK(!mprotect(buf, PAGE, PROT_READ));
	REFUSED(fd, VGPU_IOCTL_PIN, &pin, EFAULT);
	CHECK(!mprotect(buf, PAGE, PROT_READ | PROT_WRITE));
	CHECK(!munmap(buf + 5 * PAGE, PAGE));
	REFUSED(fd, VGPU_IOCTL_PIN, &pin, EFAULT);
	w = st_map_window(fd, &c);
	CHECK(w != MAP_FAILED);
	w[0] |= 0;
	pin.addr = (uintptr_t)w;
	REFUSED(fd, VGPU_IOCTL_PIN, &pin, EFAULT);
	munmap(w, c.window_size);
out:
	munmap(buf, 8 * PAGE);
	if (fd >= 0)
		close(fd);
}

/* With a limit of 1 MiB per user; a small RLIMIT_MEMLOCK does not reduce it. */
static void pin_to_limit(void)
{
	const struct rlimit small = { PAGE, PAGE };
	const size_t most = ST_LIMIT / PAGE;
	char *buf = st_pages(most + 1);
	struct vgpu_pin pin = { .addr = (uintptr_t)buf, .length = (most + 1) * PAGE }, last;
	struct vgpu_unpin unpin = { 0 };
	struct vgpu_create_client c;
	int fd, second;

	fd = st_client(&c);
	second = st_client(&c);
	if (fd < 0 || second < 0 || !can_pin(fd))
		_exit(77);
	CHECK(!setrlimit(RLIMIT_MEMLOCK, &small));
	CHECK(!setuid(ST_UID));
	REFUSED(fd, VGPU_IOCTL_PIN, &pin, ENOBUFS);
	pin.length = most * PAGE;
	CHECK(!ioctl(fd, VGPU_IOCTL_PIN, &pin));
	/* The second file of the same user shares the charge. */
	last = (struct vgpu_pin){ .addr = (uintptr_t)buf + most * PAGE, .length = PAGE };
	REFUSED(fd, VGPU_IOCTL_PIN, &last, ENOBUFS);
	REFUSED(second, VGPU_IOCTL_PIN, &last, ENOBUFS);
	unpin.region = pin.region;
	CHECK(!ioctl(fd, VGPU_IOCTL_UNPIN, &unpin));
	CHECK(!ioctl(second, VGPU_IOCTL_PIN, &last));
	REFUSED(fd, VGPU_IOCTL_PIN, &pin, ENOBUFS);
	/* The charge ends when the file is closed. */
	close(second);
	CHECK(!ioctl(fd, VGPU_IOCTL_PIN, &pin));
}

void test_pin_limit(void)
{
	int status = 0;
	pid_t pid;

	if (st_keeps()) {
		st_skip_why = "unpin_keep is on: UNPIN gives nothing back";
		return;
	}
	if (!st_limit_set("1")) {
		st_skip_why = "not root, or a driver without pin_limit_mib";
		return;
	}
	fflush(stdout);
	pid = fork();
	if (!pid) { /* in a child: limits and privileges cannot be raised again */
		st_ok = true;
		pin_to_limit();
		fflush(stdout);
		_exit(st_ok ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	CHECK(st_limit_set(NULL));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		st_skip_why = "no client, or the device has no PIN";
	else
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A region with more runs than fit in one request to the device. */
void test_pin_scattered(void)
{
	const size_t n = 6000;
	char *a = st_pages(n), *b = st_pages(n);
	struct vgpu_pin pin = { .addr = (uintptr_t)a, .length = n * PAGE };
	struct vgpu_unpin unpin = { 0 };
	struct vgpu_create_client c;
	int fd = st_client(&c);
	size_t i;

	/* Touched alternately and backwards, so that adjacent pages are not physically adjacent. */
	madvise(a, n * PAGE, MADV_NOHUGEPAGE);
	madvise(b, n * PAGE, MADV_NOHUGEPAGE);
	for (i = 0; i < n; i++) {
		a[i * PAGE] = 1;
		b[(n - 1 - i) * PAGE] = 1;
	}
	if (fd >= 0 && can_pin(fd)) {
		CHECK(!ioctl(fd, VGPU_IOCTL_PIN, &pin));
		unpin.region = pin.region;
		CHECK(!ioctl(fd, VGPU_IOCTL_UNPIN, &unpin));
	}
	munmap(a, n * PAGE);
	munmap(b, n * PAGE);
	if (fd >= 0)
		close(fd);
}

/* As many regions as a client may have; a further one is refused until a region is unpinned. */
void test_pin_regions(void)
{
	const size_t n = 4096; /* VGPU_MAX_REGIONS of vgpu_device.h */
	char *buf = st_pages(n + 1);
	struct vgpu_pin pin = { .length = PAGE };
	struct vgpu_unpin unpin = { 0 };
	struct vgpu_create_client c;
	int fd = st_client(&c);
	size_t i;

	memset(buf, 1, (n + 1) * PAGE);
	if (fd >= 0 && can_pin(fd)) {
		for (i = 0; i < n; i++) {
			pin.addr = (uintptr_t)buf + i * PAGE;
			if (ioctl(fd, VGPU_IOCTL_PIN, &pin))
				break;
		}
		CHECK(i == n);
		pin.addr = (uintptr_t)buf + n * PAGE;
		unpin.region = pin.region;
		REFUSED(fd, VGPU_IOCTL_PIN, &pin, EMFILE);
		CHECK(!ioctl(fd, VGPU_IOCTL_UNPIN, &unpin));
		CHECK(!ioctl(fd, VGPU_IOCTL_PIN, &pin));
	}
	munmap(buf, (n + 1) * PAGE);
	if (fd >= 0)
		close(fd);
}
