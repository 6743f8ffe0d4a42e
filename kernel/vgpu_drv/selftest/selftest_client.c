// SPDX-License-Identifier: GPL-2.0-only
/* vgpu_selftest: QUERY, CREATE_CLIENT, mmap, and ownership of the file. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftest.h"

/* ---- QUERY and numbers ---- */

void test_query(void)
{
	struct vgpu_query q = { 0 };
	int fd = st_open();

	CHECK(!ioctl(fd, VGPU_IOCTL_QUERY, &q));
	CHECK(q.abi_version == VGPU_IOCTL_ABI_VERSION);
	CHECK(q.max_clients >= 1 && q.max_clients <= 256);
	CHECK(q.window_size >= 4u << 20 && !(q.window_size & (q.window_size - 1)));
	CHECK(!(q.features & ~3ull));
	CHECK(!q.reserved[0] && !q.reserved[1] && !q.reserved[2]);
	close(fd);
}

void test_query_reserved(void)
{
	int fd = st_open(), i;

	for (i = 0; i < 3; i++) {
		struct vgpu_query q = { 0 };

		q.reserved[i] = 1;
		REFUSED(fd, VGPU_IOCTL_QUERY, &q, EINVAL);
	}
	close(fd);
}

void test_bad_pointer(void)
{
	static const unsigned long cmds[] = { VGPU_IOCTL_QUERY, VGPU_IOCTL_CREATE_CLIENT,
					      VGPU_IOCTL_PIN, VGPU_IOCTL_UNPIN, VGPU_IOCTL_WAIT,
					      VGPU_IOCTL_EXPORT, VGPU_IOCTL_IMPORT };
	int fd = st_open();
	size_t i;

	for (i = 0; i < sizeof(cmds) / sizeof(cmds[0]); i++) {
		REFUSED(fd, cmds[i], NULL, EFAULT);
		REFUSED(fd, cmds[i], (void *)-PAGE, EFAULT);
	}
	close(fd);
}

void test_unknown_ioctls(void)
{
	char buf[4096] = { 0 };
	int fd = st_open();

	REFUSED(fd, _IOWR(VGPU_IOCTL_MAGIC, 0x05, struct vgpu_query), buf, ENOTTY);
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

void test_not_created(void)
{
	struct vgpu_wait wait = { .deadline_ns = 0 };
	struct vgpu_pin pin = { .addr = PAGE, .length = PAGE };
	struct vgpu_unpin unpin = { .region = 1 };
	struct vgpu_export ex = { .region = 1, .length = PAGE };
	struct vgpu_import im = { .addr = PAGE, .length = PAGE, .fd = 0 };
	int fd = st_open();

	REFUSED(fd, VGPU_IOCTL_WAIT, &wait, ENXIO);
	REFUSED(fd, VGPU_IOCTL_PIN, &pin, ENXIO);
	REFUSED(fd, VGPU_IOCTL_UNPIN, &unpin, ENXIO);
	REFUSED(fd, VGPU_IOCTL_EXPORT, &ex, ENXIO);
	REFUSED(fd, VGPU_IOCTL_IMPORT, &im, ENXIO);
	CHECK(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	CHECK(errno == ENXIO);
	close(fd);
}

void test_create_fields(void)
{
	int fd = st_open(), i;

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

void test_create(void)
{
	struct vgpu_create_client c, again = { 0 };
	struct vgpu_query q = { 0 };
	int fd = st_client(&c);

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

/* Two open files are two clients. */
void test_two_clients(void)
{
	struct vgpu_create_client a, b;
	int fa = st_client(&a), fb;
	volatile uint64_t *wa, *wb;

	if (fa < 0)
		return;
	fb = st_client(&b);
	if (fb < 0) {
		close(fa);
		return;
	}
	CHECK(a.slot != b.slot);
	wa = st_map_window(fa, &a);
	wb = st_map_window(fb, &b);
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

/* Creates far more clients in turn than there are slots; each window starts zeroed. */
void test_slot_reuse(void)
{
	int i;

	for (i = 0; i < 12; i++) {
		struct vgpu_create_client c;
		volatile uint64_t *w;
		int fd = st_client(&c);

		if (fd < 0)
			return;
		w = st_map_window(fd, &c);
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

void test_mmap(void)
{
	const int rw = PROT_READ | PROT_WRITE;
	struct vgpu_create_client c;
	int fd = st_client(&c);
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

	w = st_map_window(fd, &c);
	CHECK(w != MAP_FAILED);
	d = mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, fd, c.doorbell_offset);
	CHECK(d != MAP_FAILED);
	if (w == MAP_FAILED || d == MAP_FAILED)
		goto out;
	CHECK(mprotect(w, c.window_size, PROT_READ | PROT_EXEC) == -1);
	CHECK(mremap(w, c.window_size, c.window_size + PAGE, MREMAP_MAYMOVE) == MAP_FAILED);
	*(volatile uint16_t *)(d + c.doorbell_in_page) = c.doorbell_value;
	/* A part in the middle may be unmapped; the rest remains mapped. */
	CHECK(!munmap(w + c.window_size / 2, PAGE));
	w[c.window_size - 1] = 42;
	CHECK(w[c.window_size - 1] == 42);
	w[c.window_size - 1] = 0;
out:
	close(fd);
	/* The mappings hold the client, so they stay usable. */
	if (w != MAP_FAILED) {
		w[c.window_size - 1] = 7;
		CHECK(w[c.window_size - 1] == 7);
		munmap(w, c.window_size);
	}
	if (d != MAP_FAILED)
		munmap(d, PAGE);
}

/* ---- ownership of the file ---- */

static sigjmp_buf segv;

static void on_segv(int sig)
{
	siglongjmp(segv, sig);
}

static bool page_is_readable(volatile char *p)
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

/* Tries all operations of another process on this file; exit status 0 when all are refused. */
static int try_all(int fd, const struct vgpu_create_client *c)
{
	struct vgpu_query q = { 0 };
	struct vgpu_wait wait = { .deadline_ns = 0 };
	void *buf = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct vgpu_pin pin = { .addr = (uintptr_t)buf, .length = PAGE };
	struct vgpu_unpin unpin = { .region = 1 };
	struct vgpu_export ex = { .region = 1, .length = PAGE };
	struct vgpu_import im = { .addr = PAGE, .length = PAGE, .fd = 0 };
	void *w;

	st_ok = true;
	REFUSED(fd, VGPU_IOCTL_QUERY, &q, EPERM);
	REFUSED(fd, VGPU_IOCTL_WAIT, &wait, EPERM);
	REFUSED(fd, VGPU_IOCTL_PIN, &pin, EPERM);
	REFUSED(fd, VGPU_IOCTL_UNPIN, &unpin, EPERM);
	REFUSED(fd, VGPU_IOCTL_EXPORT, &ex, EPERM);
	REFUSED(fd, VGPU_IOCTL_IMPORT, &im, EPERM);
	w = st_map_window(fd, c);
	CHECK(w == MAP_FAILED && errno == EPERM);
	return st_ok ? 0 : 1;
}

void test_fork(void)
{
	struct vgpu_create_client c;
	int fd = st_client(&c), status = 0;
	char *w;
	pid_t pid;

	if (fd < 0)
		return;
	w = st_map_window(fd, &c);
	CHECK(w != MAP_FAILED);
	w[c.window_size - 1] = 1;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		int bad = try_all(fd, &c);

		if (page_is_readable(w))
			bad |= 2;
		fflush(stdout);
		_exit(bad);
	}
	waitpid(pid, &status, 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(w[c.window_size - 1] == 1); /* the parent's window is unchanged */
	w[c.window_size - 1] = 0;
	munmap(w, c.window_size);
	close(fd);
}

/* Processes in turn take a slot and leave their file to a child that lives on. */
static void leave_to_child(int end)
{
	struct vgpu_create_client c;
	char none;

	if (st_client(&c) < 0)
		_exit(1);
	if (!fork()) {
		while (read(end, &none, 1) < 0 && errno == EINTR)
			;
		_exit(0);
	}
	_exit(0);
}

/*
 * A client ends with its process, even if a child has inherited the file: more processes in turn
 * than there are slots each get a slot.
 */
void test_owner_ends(void)
{
	struct vgpu_query q = { 0 };
	int fd = st_open(), ends[2], status, tries;
	unsigned int i;
	pid_t pid;

	CHECK(fd >= 0 && !ioctl(fd, VGPU_IOCTL_QUERY, &q));
	CHECK(!pipe(ends));
	fflush(stdout);
	for (i = 0; st_ok && i <= q.max_clients; i++) {
		/*
		 * The slot becomes free when the worker is gone, shortly after the end of the
		 * process.
		 */
		for (tries = 0, status = 1; status && tries < 100; tries++) {
			pid = fork();
			if (!pid) {
				close(ends[1]);
				leave_to_child(ends[0]);
			}
			waitpid(pid, &status, 0);
			if (status)
				usleep(100000);
		}
		CHECK(status == 0);
	}
	close(ends[1]); /* ends the children */
	close(ends[0]);
	close(fd);
}

/* The file is sent to a process that was forked before its owner opened it. */
void test_sent_file(void)
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
	fd = st_client(&c);
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
