// SPDX-License-Identifier: GPL-2.0-only
/*
 * vgpu_selftest: runs in the guest, against the real device, with nothing but the ioctl ABI.
 *
 *   vgpu_selftest [--unbind] [/dev/vgpu0]
 *
 * --unbind    also the tests that take the device away from the driver and give it back (root; every
 *             process that uses the device loses it)
 *
 * One line per test; the last line is "vgpu_selftest: N passed, M failed, K skipped". Needs free
 * client slots and a host that starts workers; otherwise the tests that need a client are skipped.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "vgpu_ioctl.h"

#define PAGE 4096ul
#define CLIENT_WAIT_S 20 /* an emulated guest starts workers slowly */

static const char *path = "/dev/vgpu0";
static int passed, failed, skipped;
static bool current_ok;
static const char *skip_why;

#define CHECK(cond)                                                                        \
	do {                                                                               \
		if (!(cond)) {                                                             \
			printf("  line %d: %s (errno %d: %s)\n", __LINE__, #cond, errno,   \
			       strerror(errno));                                           \
			current_ok = false;                                                \
		}                                                                          \
	} while (0)

/* An ioctl that must fail with the given errno. */
#define REFUSED(fd, cmd, arg, want)                                                        \
	do {                                                                               \
		errno = 0;                                                                 \
		CHECK(ioctl(fd, cmd, arg) == -1 && errno == (want));                       \
	} while (0)

static int open_dev(void)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

/* A client, or -1 after setting skip_why. */
static int open_client(struct vgpu_create_client *create)
{
	int fd = open_dev(), i;

	for (i = 0; i < CLIENT_WAIT_S * 10; i++) {
		memset(create, 0, sizeof(*create));
		if (!ioctl(fd, VGPU_IOCTL_CREATE_CLIENT, create))
			return fd;
		if (errno != EAGAIN && errno != ENOSPC)
			break;
		usleep(100000);
	}
	if (errno == EAGAIN)
		skip_why = "the host starts no worker";
	else if (errno == ENOSPC)
		skip_why = "no client slot is free";
	else
		CHECK(!"CREATE_CLIENT");
	close(fd);
	return -1;
}

static void *map_window(int fd, const struct vgpu_create_client *c)
{
	return mmap(NULL, c->window_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    c->window_offset);
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* ---- QUERY and numbers ---- */

static void test_query(void)
{
	struct vgpu_query q = { 0 };
	int fd = open_dev();

	CHECK(!ioctl(fd, VGPU_IOCTL_QUERY, &q));
	CHECK(q.abi_version == VGPU_IOCTL_ABI_VERSION);
	CHECK(q.max_clients >= 1 && q.max_clients <= 256);
	CHECK(q.window_size >= 4u << 20 && !(q.window_size & (q.window_size - 1)));
	CHECK(!(q.features & ~1ull));
	CHECK(!q.reserved[0] && !q.reserved[1] && !q.reserved[2]);
	close(fd);
}

static void test_query_reserved(void)
{
	int fd = open_dev(), i;

	for (i = 0; i < 3; i++) {
		struct vgpu_query q = { 0 };

		q.reserved[i] = 1;
		REFUSED(fd, VGPU_IOCTL_QUERY, &q, EINVAL);
	}
	close(fd);
}

static void test_bad_pointer(void)
{
	static const unsigned long cmds[] = { VGPU_IOCTL_QUERY, VGPU_IOCTL_CREATE_CLIENT,
					      VGPU_IOCTL_PIN, VGPU_IOCTL_UNPIN, VGPU_IOCTL_WAIT };
	int fd = open_dev();
	size_t i;

	for (i = 0; i < sizeof(cmds) / sizeof(cmds[0]); i++) {
		REFUSED(fd, cmds[i], NULL, EFAULT);
		REFUSED(fd, cmds[i], (void *)-PAGE, EFAULT);
	}
	close(fd);
}

static void test_unknown_ioctls(void)
{
	char buf[4096] = { 0 };
	int fd = open_dev();

	REFUSED(fd, _IOWR(VGPU_IOCTL_MAGIC, 0x05, struct vgpu_pin), buf, ENOTTY);
	REFUSED(fd, _IOWR(VGPU_IOCTL_MAGIC, 0x06, struct vgpu_pin), buf, ENOTTY);
	REFUSED(fd, _IOWR(VGPU_IOCTL_MAGIC, 0x7f, struct vgpu_pin), buf, ENOTTY);
	REFUSED(fd, _IOWR(VGPU_IOCTL_MAGIC, 0x00, struct vgpu_pin), buf, ENOTTY); /* size */
	REFUSED(fd, _IOR(VGPU_IOCTL_MAGIC, 0x00, struct vgpu_query), buf, ENOTTY); /* direction */
	REFUSED(fd, _IOWR('T', 0x00, struct vgpu_query), buf, ENOTTY); /* magic */
	CHECK(read(fd, buf, 8) == -1);
	CHECK(write(fd, buf, 8) == -1);
	CHECK(lseek(fd, 0, SEEK_SET) == -1 && errno == ESPIPE);
	close(fd);
}

/* ---- before and around CREATE ---- */

static void test_not_created(void)
{
	struct vgpu_wait wait = { .deadline_ns = 0 };
	struct vgpu_pin pin = { .addr = PAGE, .length = PAGE };
	struct vgpu_unpin unpin = { .region = 1 };
	int fd = open_dev();

	REFUSED(fd, VGPU_IOCTL_WAIT, &wait, ENXIO);
	REFUSED(fd, VGPU_IOCTL_PIN, &pin, ENXIO);
	REFUSED(fd, VGPU_IOCTL_UNPIN, &unpin, ENXIO);
	CHECK(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	CHECK(errno == ENXIO);
	close(fd);
}

static void test_create_fields(void)
{
	int fd = open_dev(), i;

	for (i = 0; i < 32; i++) {
		struct vgpu_create_client c = { .flags = 1u << i };

		REFUSED(fd, VGPU_IOCTL_CREATE_CLIENT, &c, EINVAL);
	}
	for (i = 0; i < 2; i++) {
		struct vgpu_create_client c = { 0 };

		c.reserved[i] = 1;
		REFUSED(fd, VGPU_IOCTL_CREATE_CLIENT, &c, EINVAL);
	}
	close(fd);
}

static void test_create(void)
{
	struct vgpu_create_client c, again = { 0 };
	struct vgpu_query q = { 0 };
	int fd = open_client(&c);

	if (fd < 0)
		return;
	CHECK(!ioctl(fd, VGPU_IOCTL_QUERY, &q));
	CHECK(c.slot < q.max_clients);
	CHECK(c.window_size == q.window_size);
	CHECK(c.doorbell_value == c.slot + 2);
	CHECK(c.doorbell_in_page < PAGE - 1 && !(c.doorbell_in_page & 1));
	CHECK(!(c.window_offset % PAGE) && !(c.doorbell_offset % PAGE));
	REFUSED(fd, VGPU_IOCTL_CREATE_CLIENT, &again, EBUSY);
	close(fd);
}

/* Two opens are two clients. */
static void test_two_clients(void)
{
	struct vgpu_create_client a, b;
	int fa = open_client(&a), fb;
	volatile uint64_t *wa, *wb;

	if (fa < 0)
		return;
	fb = open_client(&b);
	if (fb < 0) {
		close(fa);
		return;
	}
	CHECK(a.slot != b.slot);
	wa = map_window(fa, &a);
	wb = map_window(fb, &b);
	CHECK(wa != MAP_FAILED && wb != MAP_FAILED);
	if (wa != MAP_FAILED && wb != MAP_FAILED) {
		size_t last = a.window_size / 8 - 1;

		wa[last] = 0x1122334455667788;
		CHECK(wb[last] == 0);
		CHECK(wa[last] == 0x1122334455667788);
		wa[last] = 0;
	}
	close(fb);
	close(fa);
}

/* Far more clients in turn than there are slots; each window starts empty. */
static void test_slot_reuse(void)
{
	int i;

	for (i = 0; i < 12; i++) {
		struct vgpu_create_client c;
		volatile uint64_t *w;
		int fd = open_client(&c);

		if (fd < 0)
			return;
		w = map_window(fd, &c);
		CHECK(w != MAP_FAILED);
		if (w != MAP_FAILED) {
			CHECK(w[c.window_size / 8 - 1] == 0);
			w[c.window_size / 8 - 1] = 0x5a5a5a5a;
			munmap((void *)w, c.window_size);
		}
		close(fd);
	}
}

/* ---- mmap ---- */

static void refused_map(int fd, size_t size, int prot, int flags, off_t off, int want)
{
	void *p = mmap(NULL, size, prot, flags, fd, off);

	CHECK(p == MAP_FAILED && errno == want);
	if (p != MAP_FAILED)
		munmap(p, size);
}

static void test_mmap(void)
{
	const int rw = PROT_READ | PROT_WRITE;
	struct vgpu_create_client c;
	int fd = open_client(&c);
	char *w, *d;

	if (fd < 0)
		return;
	refused_map(fd, PAGE, rw, MAP_SHARED, 0, EINVAL);
	refused_map(fd, c.window_size, rw, MAP_SHARED, 0, EINVAL);
	refused_map(fd, c.window_size - PAGE, rw, MAP_SHARED, c.window_offset, EINVAL);
	refused_map(fd, c.window_size + PAGE, rw, MAP_SHARED, c.window_offset, EINVAL);
	refused_map(fd, c.window_size, rw, MAP_SHARED, c.window_offset + PAGE, EINVAL);
	refused_map(fd, c.window_size, rw, MAP_PRIVATE, c.window_offset, EINVAL);
	refused_map(fd, c.window_size, PROT_READ, MAP_SHARED, c.window_offset, EINVAL);
	refused_map(fd, c.window_size, rw | PROT_EXEC, MAP_SHARED, c.window_offset, EPERM);
	refused_map(fd, 2 * PAGE, rw, MAP_SHARED, c.doorbell_offset, EINVAL);
	refused_map(fd, PAGE, rw, MAP_PRIVATE, c.doorbell_offset, EINVAL);
	refused_map(fd, PAGE, rw, MAP_SHARED, c.doorbell_offset + PAGE, EINVAL);

	w = map_window(fd, &c);
	CHECK(w != MAP_FAILED);
	d = mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, fd, c.doorbell_offset);
	CHECK(d != MAP_FAILED);
	if (w == MAP_FAILED || d == MAP_FAILED)
		goto out;
	CHECK(mprotect(w, c.window_size, PROT_READ | PROT_EXEC) == -1);
	CHECK(mremap(w, c.window_size, c.window_size + PAGE, MREMAP_MAYMOVE) == MAP_FAILED);
	*(volatile uint16_t *)(d + c.doorbell_in_page) = c.doorbell_value;
	/* A piece in the middle may go; the rest still is the window. */
	CHECK(!munmap(w + c.window_size / 2, PAGE));
	w[c.window_size - 1] = 42;
	CHECK(w[c.window_size - 1] == 42);
	w[c.window_size - 1] = 0;
out:
	close(fd);
	/* The mappings hold the client: they stay usable. */
	if (w != MAP_FAILED) {
		w[c.window_size - 1] = 7;
		CHECK(w[c.window_size - 1] == 7);
		munmap(w, c.window_size);
	}
	if (d != MAP_FAILED)
		munmap(d, PAGE);
}

/* ---- whose file it is ---- */

static sigjmp_buf segv;

static void on_segv(int sig)
{
	siglongjmp(segv, sig);
}

static bool readable(volatile char *p)
{
	struct sigaction act = { .sa_handler = on_segv }, old;
	bool ok = true;

	sigaction(SIGSEGV, &act, &old);
	if (sigsetjmp(segv, 1))
		ok = false;
	else
		(void)*p;
	sigaction(SIGSEGV, &old, NULL);
	return ok;
}

/* Everything that another process may try with this file; exit status 0 when all is refused. */
static int try_all(int fd, const struct vgpu_create_client *c)
{
	struct vgpu_query q = { 0 };
	struct vgpu_wait wait = { .deadline_ns = 0 };
	void *buf = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct vgpu_pin pin = { .addr = (uintptr_t)buf, .length = PAGE };
	struct vgpu_unpin unpin = { .region = 1 };
	void *w;

	current_ok = true;
	REFUSED(fd, VGPU_IOCTL_QUERY, &q, EPERM);
	REFUSED(fd, VGPU_IOCTL_WAIT, &wait, EPERM);
	REFUSED(fd, VGPU_IOCTL_PIN, &pin, EPERM);
	REFUSED(fd, VGPU_IOCTL_UNPIN, &unpin, EPERM);
	w = map_window(fd, c);
	CHECK(w == MAP_FAILED && errno == EPERM);
	return current_ok ? 0 : 1;
}

static void test_fork(void)
{
	struct vgpu_create_client c;
	int fd = open_client(&c), status = 0;
	char *w;
	pid_t pid;

	if (fd < 0)
		return;
	w = map_window(fd, &c);
	CHECK(w != MAP_FAILED);
	w[c.window_size - 1] = 1;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		int bad = try_all(fd, &c);

		if (readable(w))
			bad |= 2;
		fflush(stdout);
		_exit(bad);
	}
	waitpid(pid, &status, 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(w[c.window_size - 1] == 1); /* the parent's is as it was */
	w[c.window_size - 1] = 0;
	munmap(w, c.window_size);
	close(fd);
}

/* The file sent to a process that never was a child of its owner after the open. */
static void test_sent_file(void)
{
	struct vgpu_create_client c = { 0 };
	struct { struct cmsghdr h; int fd; } control = {
		.h = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
		       .cmsg_type = SCM_RIGHTS },
	};
	struct iovec iov = { .iov_base = &c, .iov_len = sizeof(c) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			      .msg_controllen = CMSG_SPACE(sizeof(int)) };
	int sv[2], fd, status = 0;
	pid_t pid;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		int bad;

		close(sv[0]);
		if (recvmsg(sv[1], &msg, 0) != (ssize_t)sizeof(c))
			_exit(77);
		memcpy(&fd, CMSG_DATA(&control.h), sizeof(fd));
		bad = try_all(fd, &c);
		fflush(stdout);
		_exit(bad);
	}
	close(sv[1]);
	fd = open_client(&c);
	if (fd >= 0) {
		memcpy(CMSG_DATA(&control.h), &fd, sizeof(fd));
		CHECK(sendmsg(sv[0], &msg, 0) == (ssize_t)sizeof(c));
	}
	close(sv[0]);
	waitpid(pid, &status, 0);
	if (fd >= 0) {
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		close(fd);
	}
}

/* ---- PIN ---- */

static char *some_pages(size_t n)
{
	char *p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

static bool can_pin(int fd)
{
	struct vgpu_query q = { 0 };

	if (!ioctl(fd, VGPU_IOCTL_QUERY, &q) && (q.features & 1))
		return true;
	skip_why = "the device has no PIN";
	return false;
}

static void test_pin_fields(void)
{
	char *buf = some_pages(4);
	const struct vgpu_pin good = { .addr = (uintptr_t)buf, .length = 4 * PAGE };
	struct vgpu_create_client c;
	struct vgpu_pin pin;
	int fd = open_client(&c), i;

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

static void test_pin(void)
{
	char *buf = some_pages(64), *ro = some_pages(2);
	struct vgpu_pin pin = { .addr = (uintptr_t)buf, .length = 64 * PAGE };
	struct vgpu_pin pin_ro = { .addr = (uintptr_t)ro, .length = 2 * PAGE,
				   .flags = VGPU_PIN_FLAG_READONLY };
	struct vgpu_unpin unpin = { 0 };
	struct vgpu_create_client c;
	int fd = open_client(&c);

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
	/* The read-only one is left for close() to release. */
out:
	munmap(buf, 64 * PAGE);
	munmap(ro, 2 * PAGE);
	if (fd >= 0)
		close(fd);
}

/* Memory that is not there, that may not be written, and that is the device's own. */
static void test_pin_unmapped(void)
{
	char *buf = some_pages(8);
	struct vgpu_pin pin = { .addr = (uintptr_t)buf, .length = 8 * PAGE };
	struct vgpu_create_client c;
	int fd = open_client(&c);
	char *w;

	if (fd < 0 || !can_pin(fd))
		goto out;
	memset(buf, 1, 8 * PAGE);
	CHECK(!mprotect(buf, PAGE, PROT_READ));
	REFUSED(fd, VGPU_IOCTL_PIN, &pin, EFAULT);
	CHECK(!mprotect(buf, PAGE, PROT_READ | PROT_WRITE));
	CHECK(!munmap(buf + 5 * PAGE, PAGE));
	REFUSED(fd, VGPU_IOCTL_PIN, &pin, EFAULT);
	w = map_window(fd, &c);
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

static void test_pin_rlimit(void)
{
	const struct rlimit small = { 16 * PAGE, 16 * PAGE };
	struct vgpu_create_client c;
	int fd, status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) { /* a process of its own: limits and rights cannot be taken back */
		char *buf = some_pages(17);
		struct vgpu_pin pin = { .addr = (uintptr_t)buf, .length = 17 * PAGE };
		struct vgpu_unpin unpin = { 0 };

		current_ok = true;
		fd = open_client(&c);
		if (fd < 0 || !can_pin(fd))
			_exit(77);
		CHECK(!setrlimit(RLIMIT_MEMLOCK, &small));
		CHECK(!setuid(65534));
		REFUSED(fd, VGPU_IOCTL_PIN, &pin, ENOMEM);
		pin.length = 16 * PAGE;
		CHECK(!ioctl(fd, VGPU_IOCTL_PIN, &pin));
		unpin.region = pin.region;
		pin.addr += 16 * PAGE;
		pin.length = PAGE;
		REFUSED(fd, VGPU_IOCTL_PIN, &pin, ENOMEM);
		CHECK(!ioctl(fd, VGPU_IOCTL_UNPIN, &unpin));
		CHECK(!ioctl(fd, VGPU_IOCTL_PIN, &pin));
		fflush(stdout);
		_exit(current_ok ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip_why = "no client, or the device has no PIN";
	else
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A region in more pieces than fit in one request to the device. */
static void test_pin_scattered(void)
{
	const size_t n = 6000;
	char *a = some_pages(n), *b = some_pages(n);
	struct vgpu_pin pin = { .addr = (uintptr_t)a, .length = n * PAGE };
	struct vgpu_unpin unpin = { 0 };
	struct vgpu_create_client c;
	int fd = open_client(&c);
	size_t i;

	/* Touched in turn and backwards, so that neighbours in one are not neighbours in memory. */
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

/* ---- WAIT ---- */

static void test_wait(void)
{
	struct vgpu_create_client c;
	struct vgpu_wait wait = { 0 };
	int fd = open_client(&c), i;
	int64_t start;

	if (fd < 0)
		return;
	for (i = 0; i < 32; i++) {
		wait.flags = 1u << i;
		REFUSED(fd, VGPU_IOCTL_WAIT, &wait, EINVAL);
	}
	/* The worker may have rung already: take what it says until it is quiet. */
	wait = (struct vgpu_wait){ .seen = c.wake_seq, .deadline_ns = 0 };
	while (!ioctl(fd, VGPU_IOCTL_WAIT, &wait))
		wait.seen = wait.seq;
	CHECK(errno == ETIMEDOUT);
	CHECK(wait.state == 0);
	CHECK(wait.seq == wait.seen);
	start = now_ns();
	wait.deadline_ns = start + 50 * 1000000ll;
	REFUSED(fd, VGPU_IOCTL_WAIT, &wait, ETIMEDOUT);
	CHECK(now_ns() - start >= 50 * 1000000ll);
	/* Another number than the present one returns at once, without a deadline. */
	wait = (struct vgpu_wait){ .seen = wait.seq - 1, .deadline_ns = -1 };
	CHECK(!ioctl(fd, VGPU_IOCTL_WAIT, &wait));
	CHECK(wait.seq == wait.seen + 1);
	close(fd);
}

static volatile sig_atomic_t ticks;

static void on_alarm(int sig)
{
	(void)sig;
	ticks++;
}

/* A kilohertz of signals: every WAIT ends with EINTR or its deadline, and none sleeps longer. */
static void signal_storm(int flags, bool may_interrupt)
{
	struct sigaction act = { .sa_handler = on_alarm, .sa_flags = flags }, old;
	struct itimerval storm = { { 0, 1000 }, { 0, 1000 } }, quiet = { { 0, 0 }, { 0, 0 } };
	struct vgpu_create_client c;
	int fd = open_client(&c), interrupts = 0;
	struct vgpu_wait wait = { 0 };
	int64_t start;

	if (fd < 0)
		return;
	wait.seen = c.wake_seq;
	while (!ioctl(fd, VGPU_IOCTL_WAIT, &wait))
		wait.seen = wait.seq;
	ticks = 0;
	sigaction(SIGALRM, &act, &old);
	setitimer(ITIMER_REAL, &storm, NULL);
	start = now_ns();
	wait.deadline_ns = start + 300 * 1000000ll;
	for (;;) {
		int err = ioctl(fd, VGPU_IOCTL_WAIT, &wait);

		if (err == -1 && errno == EINTR) {
			interrupts++;
			continue;
		}
		CHECK(err == -1 && errno == ETIMEDOUT);
		break;
	}
	setitimer(ITIMER_REAL, &quiet, NULL);
	sigaction(SIGALRM, &old, NULL);
	CHECK(now_ns() - start >= 300 * 1000000ll);
	CHECK(now_ns() - start < 10 * 1000000000ll);
	CHECK(ticks > 0);
	CHECK(may_interrupt ? interrupts > 0 : interrupts == 0);
	close(fd);
}

static void test_wait_signals(void)
{
	signal_storm(0, true);
}

static void test_wait_signals_restart(void)
{
	signal_storm(SA_RESTART, false);
}

static void *sleeper(void *arg)
{
	struct vgpu_wait *wait = ((void **)arg)[1];

	if (ioctl(*(int *)((void **)arg)[0], VGPU_IOCTL_WAIT, wait) && errno != ETIMEDOUT)
		return arg;
	return NULL;
}

/* While one thread sleeps, others use the client; and a second sleeper is no problem. */
static void test_wait_threads(void)
{
	struct vgpu_create_client c;
	struct vgpu_query q = { 0 };
	int fd = open_client(&c), i;
	struct vgpu_wait wait[2];
	pthread_t thread[2];
	void *arg[2][2], *result;

	if (fd < 0)
		return;
	for (i = 0; i < 2; i++) {
		wait[i] = (struct vgpu_wait){ .seen = c.wake_seq,
					      .deadline_ns = now_ns() + 500 * 1000000ll };
		arg[i][0] = &fd;
		arg[i][1] = &wait[i];
		CHECK(!pthread_create(&thread[i], NULL, sleeper, arg[i]));
	}
	usleep(50000);
	CHECK(!ioctl(fd, VGPU_IOCTL_QUERY, &q));
	for (i = 0; i < 2; i++) {
		pthread_join(thread[i], &result);
		CHECK(!result);
	}
	close(fd);
}

/* ---- death ---- */

/* Processes killed while they hold a client, mappings and pinned memory give everything back. */
static void test_kill(void)
{
	int i;

	for (i = 0; i < 8 && !skip_why; i++) {
		int pipe_fd[2], status = 0;
		char ready = 0;
		pid_t pid;

		CHECK(!pipe(pipe_fd));
		fflush(stdout);
		pid = fork();
		if (!pid) {
			struct vgpu_create_client c;
			char *buf = some_pages(16);
			struct vgpu_pin pin = { .addr = (uintptr_t)buf, .length = 16 * PAGE };
			struct vgpu_wait wait = { .deadline_ns = -1 };
			int fd;

			fd = open_client(&c);
			if (fd < 0)
				_exit(77);
			map_window(fd, &c);
			ioctl(fd, VGPU_IOCTL_PIN, &pin);
			if (write(pipe_fd[1], "r", 1) != 1)
				_exit(1);
			wait.seen = c.wake_seq;
			while (!ioctl(fd, VGPU_IOCTL_WAIT, &wait))
				wait.seen = wait.seq;
			_exit(1);
		}
		close(pipe_fd[1]);
		if (read(pipe_fd[0], &ready, 1) == 1)
			kill(pid, SIGKILL);
		close(pipe_fd[0]);
		waitpid(pid, &status, 0);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
			skip_why = "the host starts no worker, or no slot is free";
		else
			CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
}

/* A malformed ring ends the client's worker: WAIT says so, PIN is -ENODEV, CREATE stays -EBUSY. */
static void test_worker_death(void)
{
	struct vgpu_create_client c, again = { 0 };
	struct vgpu_wait wait = { 0 };
	int fd = open_client(&c), i;
	char *buf = some_pages(1), *w, *d;
	struct vgpu_pin pin = { .addr = (uintptr_t)buf, .length = PAGE };

	if (fd < 0)
		goto out;
	w = map_window(fd, &c);
	d = mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, fd, c.doorbell_offset);
	CHECK(w != MAP_FAILED && d != MAP_FAILED);
	/* The first page of the window is the header: indices that cannot be. */
	memset(w, 0xff, PAGE);
	wait.seen = c.wake_seq;
	for (i = 0; i < 50 && !wait.state; i++) {
		*(volatile uint16_t *)(d + c.doorbell_in_page) = c.doorbell_value;
		wait.deadline_ns = now_ns() + 100 * 1000000ll;
		if (!ioctl(fd, VGPU_IOCTL_WAIT, &wait))
			wait.seen = wait.seq;
	}
	if (!wait.state) {
		skip_why = "the host has not ended the worker within 5 s";
		goto unmap;
	}
	CHECK(wait.state >= 1 && wait.state <= 3);
	CHECK(!ioctl(fd, VGPU_IOCTL_WAIT, &wait));
	REFUSED(fd, VGPU_IOCTL_PIN, &pin, ENODEV);
	REFUSED(fd, VGPU_IOCTL_CREATE_CLIENT, &again, EBUSY);
	w[PAGE] = 1; /* the window is still there */
	CHECK(w[PAGE] == 1);
unmap:
	munmap(w, c.window_size);
	munmap(d, PAGE);
out:
	munmap(buf, PAGE);
	if (fd >= 0)
		close(fd);
}

/* ---- the device goes away ---- */

static bool allow_unbind;

static bool write_file(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

/* The virtio device below the device file, as "virtioN". */
static bool virtio_name(char *name, size_t size)
{
	const char *node = strrchr(path, '/');
	char link[256], target[512];
	const char *base;
	ssize_t len;

	snprintf(link, sizeof(link), "/sys/class/misc/%s/device", node ? node + 1 : path);
	len = readlink(link, target, sizeof(target) - 1);
	if (len < 0)
		return false;
	target[len] = 0;
	base = strrchr(target, '/');
	base = base ? base + 1 : target;
	if (strlen(base) >= size)
		return false;
	memcpy(name, base, strlen(base) + 1);
	return true;
}

/* What a process sees whose device is gone: errors, and no hang. */
static void check_gone(int fd, const struct vgpu_create_client *c)
{
	struct vgpu_wait wait = { .seen = c->wake_seq, .deadline_ns = -1 };
	struct vgpu_query q = { 0 };
	struct vgpu_create_client again = { 0 };
	char *buf = some_pages(1);
	struct vgpu_pin pin = { .addr = (uintptr_t)buf, .length = PAGE };
	struct vgpu_unpin unpin = { .region = 1 };

	REFUSED(fd, VGPU_IOCTL_WAIT, &wait, ENODEV);
	CHECK(wait.state == 4);
	REFUSED(fd, VGPU_IOCTL_QUERY, &q, ENODEV);
	REFUSED(fd, VGPU_IOCTL_PIN, &pin, ENODEV);
	REFUSED(fd, VGPU_IOCTL_UNPIN, &unpin, ENODEV);
	REFUSED(fd, VGPU_IOCTL_CREATE_CLIENT, &again, ENODEV);
	CHECK(map_window(fd, c) == MAP_FAILED && errno == ENODEV);
	munmap(buf, PAGE);
}

/* Its mappings are private zero pages now: no signal, and nothing of the next client to be seen. */
static void check_blank(const struct vgpu_create_client *c, volatile char *w, volatile char *d)
{
	CHECK(w[c->window_size - 1] == 0);
	w[c->window_size - 1] = 1;
	w[0] = 2;
	CHECK(w[c->window_size - 1] == 1 && w[0] == 2);
	*(volatile uint16_t *)(d + c->doorbell_in_page) = c->doorbell_value;
}

static void test_unbind(void)
{
	const char *driver = "/sys/bus/virtio/drivers/vgpu_drv";
	struct vgpu_create_client c, fresh;
	char name[64], bind[128], unbind[128];
	struct vgpu_pin pin = { .length = 16 * PAGE };
	struct vgpu_wait wait;
	int fd, idle, next, i;
	pthread_t thread;
	void *arg[2], *result;
	char *buf, *w, *d;

	if (!allow_unbind) {
		skip_why = "only with --unbind";
		return;
	}
	snprintf(bind, sizeof(bind), "%s/bind", driver);
	snprintf(unbind, sizeof(unbind), "%s/unbind", driver);
	CHECK(virtio_name(name, sizeof(name)));
	fd = open_client(&c);
	if (fd < 0)
		return;
	idle = open_dev();
	buf = some_pages(16);
	pin.addr = (uintptr_t)buf;
	ioctl(fd, VGPU_IOCTL_PIN, &pin);
	w = map_window(fd, &c);
	d = mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, fd, c.doorbell_offset);
	CHECK(w != MAP_FAILED && d != MAP_FAILED);
	w[c.window_size - 1] = 9;
	wait = (struct vgpu_wait){ .seen = c.wake_seq, .deadline_ns = now_ns() + 20000000000ll };
	arg[0] = &fd;
	arg[1] = &wait;
	CHECK(!pthread_create(&thread, NULL, sleeper, arg));
	usleep(100000);

	CHECK(write_file(unbind, name));
	pthread_join(thread, &result);
	CHECK(result || wait.seq != c.wake_seq); /* -ENODEV, unless the worker rang before */
	check_gone(fd, &c);
	check_blank(&c, w, d);
	CHECK(access(path, F_OK) == -1);

	CHECK(write_file(bind, name));
	for (i = 0; i < 50 && access(path, F_OK); i++)
		usleep(100000);
	next = open_client(&fresh);
	CHECK(next >= 0);
	check_gone(fd, &c); /* the old file stays what it is */
	munmap(w, c.window_size);
	munmap(d, PAGE);
	close(fd);
	close(idle);
	if (next >= 0) {
		w = map_window(next, &fresh);
		CHECK(w != MAP_FAILED);
		CHECK(w[fresh.window_size - 1] == 0);
		close(next);
		munmap(w, fresh.window_size);
	}
	munmap(buf, 16 * PAGE);
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{ "query", test_query },
	{ "query_reserved", test_query_reserved },
	{ "bad_pointer", test_bad_pointer },
	{ "unknown_ioctls", test_unknown_ioctls },
	{ "not_created", test_not_created },
	{ "create_fields", test_create_fields },
	{ "create", test_create },
	{ "two_clients", test_two_clients },
	{ "slot_reuse", test_slot_reuse },
	{ "mmap", test_mmap },
	{ "fork", test_fork },
	{ "sent_file", test_sent_file },
	{ "pin_fields", test_pin_fields },
	{ "pin", test_pin },
	{ "pin_unmapped", test_pin_unmapped },
	{ "pin_rlimit", test_pin_rlimit },
	{ "pin_scattered", test_pin_scattered },
	{ "wait", test_wait },
	{ "wait_signals", test_wait_signals },
	{ "wait_signals_restart", test_wait_signals_restart },
	{ "wait_threads", test_wait_threads },
	{ "kill", test_kill },
	{ "worker_death", test_worker_death },
	{ "unbind", test_unbind },
};

int main(int argc, char **argv)
{
	size_t i;
	int fd, arg;

	for (arg = 1; arg < argc; arg++) {
		if (!strcmp(argv[arg], "--unbind"))
			allow_unbind = true;
		else
			path = argv[arg];
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		printf("cannot open %s: %s\n", path, strerror(errno));
		printf("vgpu_selftest: 0 passed, 1 failed, 0 skipped\n");
		return 1;
	}
	close(fd);
	for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		current_ok = true;
		skip_why = NULL;
		tests[i].run();
		if (!current_ok) {
			printf("FAILED: %s\n", tests[i].name);
			failed++;
		} else if (skip_why) {
			printf("not run: %s: %s\n", tests[i].name, skip_why);
			skipped++;
		} else {
			printf("ok: %s\n", tests[i].name);
			passed++;
		}
	}
	printf("vgpu_selftest: %d passed, %d failed, %d skipped\n", passed, failed, skipped);
	return failed != 0;
}
