// SPDX-License-Identifier: GPL-2.0-only
/* vgpu_selftest: EXPORT and IMPORT. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftest.h"

#define PAGES 8ul

/* Creates a client with PAGES pinned pages. Return: its file, or -1. */
static int pinned_client(char **buf, struct vgpu_pin *pin)
{
	struct vgpu_query q = { 0 };
	struct vgpu_create_client c;
	int fd = st_client(&c);

	if (fd < 0)
		return -1;
	if (ioctl(fd, VGPU_IOCTL_QUERY, &q) || !(q.features & 1)) {
		st_skip_why = "the device has no PIN";
		close(fd);
		return -1;
	}
	*buf = st_pages(PAGES);
	*pin = (struct vgpu_pin){ .addr = (uintptr_t)*buf, .length = PAGES * PAGE };
	CHECK(!ioctl(fd, VGPU_IOCTL_PIN, pin));
	return fd;
}

/* Exports the whole region. Return: the dma-buf, or -1. */
static int export_all(int fd, uint32_t region)
{
	struct vgpu_export e = { .region = region, .length = PAGES * PAGE };

	return ioctl(fd, VGPU_IOCTL_EXPORT, &e) ? -1 : e.fd;
}

void test_export_fields(void)
{
	struct vgpu_export good = { .length = PAGE }, e;
	struct vgpu_pin pin;
	char *buf;
	int fd = pinned_client(&buf, &pin), i;

	if (fd < 0)
		return;
	good.region = pin.region;
	for (i = 0; i < 32; i++) {
		e = good, e.flags = 1u << i;
		REFUSED(fd, VGPU_IOCTL_EXPORT, &e, EINVAL);
		e = good, e.padding = 1u << i;
		REFUSED(fd, VGPU_IOCTL_EXPORT, &e, EINVAL);
	}
	for (i = 0; i < 2; i++) {
		e = good, e.reserved[i] = 1;
		REFUSED(fd, VGPU_IOCTL_EXPORT, &e, EINVAL);
	}
	e = good, e.offset = 1;
	REFUSED(fd, VGPU_IOCTL_EXPORT, &e, EINVAL);
	e = good, e.length = 0;
	REFUSED(fd, VGPU_IOCTL_EXPORT, &e, EINVAL);
	e = good, e.length = PAGE + 1;
	REFUSED(fd, VGPU_IOCTL_EXPORT, &e, EINVAL);
	e = good, e.offset = PAGES * PAGE;
	REFUSED(fd, VGPU_IOCTL_EXPORT, &e, EINVAL);
	e = good, e.offset = PAGE, e.length = PAGES * PAGE;
	REFUSED(fd, VGPU_IOCTL_EXPORT, &e, EINVAL);
	e = good, e.offset = -PAGE;
	REFUSED(fd, VGPU_IOCTL_EXPORT, &e, EINVAL);
	e = good, e.offset = PAGE, e.length = -PAGE;
	REFUSED(fd, VGPU_IOCTL_EXPORT, &e, EINVAL);
	e = good, e.offset = PAGE, e.length = -2 * PAGE;
	REFUSED(fd, VGPU_IOCTL_EXPORT, &e, EINVAL);
	e = good, e.region = 0;
	REFUSED(fd, VGPU_IOCTL_EXPORT, &e, ENOENT);
	e = good, e.region = pin.region + 1;
	REFUSED(fd, VGPU_IOCTL_EXPORT, &e, ENOENT);
	munmap(buf, PAGES * PAGE);
	close(fd);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* If the result cannot be written back, no descriptor is leaked. */
static void export_unwritable(int fd, uint32_t region)
{
	struct vgpu_export *e = (void *)st_pages(1);
	int next = dup(0);

	close(next);
	*e = (struct vgpu_export){ .region = region, .length = PAGE };
	CHECK(!mprotect(e, PAGE, PROT_READ));
	REFUSED(fd, VGPU_IOCTL_EXPORT, e, EFAULT);
	CHECK(!is_open(next));
	munmap(e, PAGE);
}

/* Lifetimes of the region, the client, the descriptor and its mapping. */
void test_export(void)
{
	struct vgpu_unpin unpin = { 0 };
	struct vgpu_pin pin, ro;
	struct vgpu_export e;
	char *buf, *all, *part;
	int fd = pinned_client(&buf, &pin), one, two, other;
	struct vgpu_create_client c;

	if (fd < 0)
		return;
	memset(buf, 'a', PAGES * PAGE);
	one = export_all(fd, pin.region);
	CHECK(one >= 0 && fcntl(one, F_GETFD) == FD_CLOEXEC);
	CHECK((fcntl(one, F_GETFL) & O_ACCMODE) == O_RDWR);
	CHECK(lseek(one, 0, SEEK_END) == (off_t)(PAGES * PAGE));
	e = (struct vgpu_export){ .region = pin.region, .offset = 3 * PAGE, .length = 2 * PAGE };
	CHECK(!ioctl(fd, VGPU_IOCTL_EXPORT, &e));
	two = e.fd;
	all = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, one, 0);
	part = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, two, PAGE);
	CHECK(all != MAP_FAILED && part != MAP_FAILED);
	buf[4 * PAGE + 5] = 'b';
	CHECK(all[4 * PAGE + 5] == 'b' && part[5] == 'b' && part[6] == 'a');
	part[6] = 'c';
	CHECK(buf[4 * PAGE + 6] == 'c');
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, one, 0) == MAP_FAILED);
	CHECK(mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, two, PAGE) == MAP_FAILED);
	export_unwritable(fd, pin.region);

	/* Another client does not have this region. */
	other = st_client(&c);
	if (other >= 0) {
		REFUSED(other, VGPU_IOCTL_EXPORT, &e, ENOENT);
		close(other);
	}
	/* Read-only memory. */
	ro = (struct vgpu_pin){ .addr = pin.addr, .length = PAGE, .flags = VGPU_PIN_FLAG_READONLY };
	CHECK(!ioctl(fd, VGPU_IOCTL_PIN, &ro));
	e = (struct vgpu_export){ .region = ro.region, .length = PAGE };
	REFUSED(fd, VGPU_IOCTL_EXPORT, &e, EACCES);

	unpin.region = pin.region;
	CHECK(!ioctl(fd, VGPU_IOCTL_UNPIN, &unpin));
	CHECK(export_all(fd, pin.region) == -1 && errno == ENOENT);
	munmap(buf, PAGES * PAGE);
	close(fd);
	close(two);
	CHECK(all[4 * PAGE + 6] == 'c' && part[6] == 'c');
	close(one);
	all[0] = 'd';
	CHECK(all[0] == 'd' && part[6] == 'c');
	munmap(all, PAGES * PAGE);
	munmap(part, PAGE);
}

void test_import_fields(void)
{
	struct vgpu_import good = { .length = PAGE }, im;
	char *buf, *mapped;
	struct vgpu_pin pin;
	int fd = pinned_client(&buf, &pin), dmabuf, null = open("/dev/null", O_RDWR), i;

	if (fd < 0)
		return;
	dmabuf = export_all(fd, pin.region);
	good.addr = (uintptr_t)buf;
	good.fd = dmabuf;
	for (i = 0; i < 32; i++) {
		im = good, im.flags = 1u << i;
		if (i)
			REFUSED(fd, VGPU_IOCTL_IMPORT, &im, EINVAL);
		im = good, im.padding = 1u << i;
		REFUSED(fd, VGPU_IOCTL_IMPORT, &im, EINVAL);
	}
	for (i = 0; i < 2; i++) {
		im = good, im.reserved[i] = 1;
		REFUSED(fd, VGPU_IOCTL_IMPORT, &im, EINVAL);
	}
	im = good, im.addr += 1;
	REFUSED(fd, VGPU_IOCTL_IMPORT, &im, EINVAL);
	im = good, im.addr = 1ull << 63;
	REFUSED(fd, VGPU_IOCTL_IMPORT, &im, EFAULT);
	im = good, im.length = 0;
	REFUSED(fd, VGPU_IOCTL_IMPORT, &im, EINVAL);
	im = good, im.length = 5;
	REFUSED(fd, VGPU_IOCTL_IMPORT, &im, EINVAL);
	im = good, im.offset = 5;
	REFUSED(fd, VGPU_IOCTL_IMPORT, &im, EINVAL);
	im = good, im.length = (PAGES + 1) * PAGE;
	REFUSED(fd, VGPU_IOCTL_IMPORT, &im, EINVAL);
	im = good, im.offset = PAGES * PAGE;
	REFUSED(fd, VGPU_IOCTL_IMPORT, &im, EINVAL);
	im = good, im.offset = -2 * PAGE;
	REFUSED(fd, VGPU_IOCTL_IMPORT, &im, EINVAL);
	im = good, im.fd = -1;
	REFUSED(fd, VGPU_IOCTL_IMPORT, &im, EBADF);
	im = good, im.fd = null;
	REFUSED(fd, VGPU_IOCTL_IMPORT, &im, EINVAL);
	im = good, im.fd = fd; /* descriptor of the device itself */
	REFUSED(fd, VGPU_IOCTL_IMPORT, &im, EINVAL);
	/* A mapping of a dma-buf has no pages that could be pinned: IMPORT serves that purpose. */
	mapped = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf, 0);
	pin = (struct vgpu_pin){ .addr = (uintptr_t)mapped, .length = PAGE };
	REFUSED(fd, VGPU_IOCTL_PIN, &pin, EFAULT);
	munmap(mapped, PAGE);
	munmap(buf, PAGES * PAGE);
	close(dmabuf);
	close(null);
	close(fd);
}

void test_import(void)
{
	struct vgpu_unpin unpin = { 0 };
	struct vgpu_create_client c;
	struct vgpu_export e;
	struct vgpu_import im;
	char *buf, *mapped, *at;
	struct vgpu_pin pin;
	int fd = pinned_client(&buf, &pin), other = -1, dmabuf;

	if (fd < 0)
		return;
	dmabuf = export_all(fd, pin.region);
	mapped = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf, 0);
	other = st_client(&c);
	if (other < 0)
		goto out;
	at = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	im = (struct vgpu_import){ .addr = (uintptr_t)at, .length = 2 * PAGE, .offset = PAGE,
				   .fd = dmabuf };
	CHECK(!ioctl(other, VGPU_IOCTL_IMPORT, &im));
	CHECK(im.region != 0 && im.worker_va && !(im.worker_va % PAGE));
	e = (struct vgpu_export){ .region = im.region, .length = PAGE };
	REFUSED(other, VGPU_IOCTL_EXPORT, &e, EOPNOTSUPP);
	unpin.region = im.region;
	/* Twice, read-only, and by the exporting client. */
	im.flags = VGPU_PIN_FLAG_READONLY;
	CHECK(!ioctl(other, VGPU_IOCTL_IMPORT, &im));
	CHECK(im.region != unpin.region);
	CHECK(!ioctl(fd, VGPU_IOCTL_IMPORT, &im));
	CHECK(!ioctl(other, VGPU_IOCTL_UNPIN, &unpin));
	REFUSED(other, VGPU_IOCTL_UNPIN, &unpin, ENOENT);
	munmap(at, 2 * PAGE);
out:
	/* The exporting client ends first; then the descriptor, the importer, and the mapping. */
	memset(buf, 'x', PAGES * PAGE);
	munmap(buf, PAGES * PAGE);
	close(fd);
	close(dmabuf);
	CHECK(mapped[PAGES * PAGE - 1] == 'x');
	if (other >= 0)
		close(other);
	CHECK(mapped[PAGES * PAGE - 1] == 'x');
	munmap(mapped, PAGES * PAGE);
}

/*
 * Creates a client of an unprivileged user; opened by root, as the client's slot needs its
 * privilege. Return: its file; -1: none, or not run as root.
 */
static int poor_client(void)
{
	struct vgpu_query q = { 0 };
	struct vgpu_create_client c;
	int fd = st_client(&c);

	if (fd < 0 || ioctl(fd, VGPU_IOCTL_QUERY, &q) || !(q.features & 1))
		return -1;
	return !setuid(ST_UID) ? fd : -1;
}

/* PINs as much as a user may pin. Return: 0, or errno. */
static int pin_limit(int fd, struct vgpu_pin *pin)
{
	*pin = (struct vgpu_pin){ .addr = (uintptr_t)st_pages(ST_LIMIT / PAGE), .length = ST_LIMIT };
	return ioctl(fd, VGPU_IOCTL_PIN, pin) ? errno : 0;
}

static void send_it(int to, int fd)
{
	char byte = 1, control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec io = { &byte, 1 };
	struct msghdr h = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *m = CMSG_FIRSTHDR(&h);

	m->cmsg_level = SOL_SOCKET;
	m->cmsg_type = SCM_RIGHTS;
	m->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(m), &fd, sizeof(fd));
	CHECK(sendmsg(to, &h, 0) == 1);
}

/*
 * Runs @run in a child with its privileges dropped for good. Return: its exit status; -1: killed.
 */
static int in_child(void (*run)(int end), int end)
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		st_ok = true;
		run(end);
		fflush(stdout);
		_exit(st_ok ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Unpinned pages stay charged as long as a dma-buf of them exists, even of a part. */
static void export_to_parent(int end)
{
	struct vgpu_unpin unpin = { 0 };
	struct vgpu_pin pin, again;
	int fd = poor_client(), dmabuf;

	if (fd < 0)
		_exit(77);
	CHECK(!pin_limit(fd, &pin));
	dmabuf = export_all(fd, pin.region);
	CHECK(dmabuf >= 0);
	close(export_all(fd, pin.region)); /* not charged twice */
	unpin.region = pin.region;
	CHECK(!ioctl(fd, VGPU_IOCTL_UNPIN, &unpin));
	CHECK(pin_limit(fd, &again) == ENOBUFS);
	send_it(end, dmabuf);
}

/* Expected errors for another process of the same user. */
static void pin_over_limit(int end)
{
	struct vgpu_pin pin;

	(void)end;
	CHECK(pin_limit(poor_client(), &pin) == ENOBUFS);
}

static void pin_within_limit(int end)
{
	struct vgpu_pin pin;

	(void)end;
	CHECK(pin_limit(poor_client(), &pin) == 0);
}

void test_export_limit(void)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec io = { &byte, 1 };
	struct msghdr h = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = control,
			    .msg_controllen = sizeof(control) };
	int ends[2], status, tries;

	if (!st_limit_set("1")) {
		st_skip_why = "not root, or a driver without pin_limit_mib";
		return;
	}
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	status = in_child(export_to_parent, ends[1]);
	if (status == 77) {
		st_skip_why = "no client, or not root";
		goto out;
	}
	CHECK(status == 0);
	/*
	 * The first user process has exited; its dma-buf is in the socket only, not in any
	 * descriptor table.
	 */
	CHECK(in_child(pin_over_limit, -1) == 0);
	CHECK(recvmsg(ends[0], &h, MSG_CMSG_CLOEXEC) == 1);
	if (CMSG_FIRSTHDR(&h)) {
		int fd;

		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&h)), sizeof(fd));
		CHECK(in_child(pin_over_limit, -1) == 0);
		close(fd);
	}
	/* Released shortly after close(): the last fput() may be deferred to a work item. */
	for (tries = 0, status = 1; status == 1 && tries < 20; tries++) {
		fflush(stdout);
		if (tries)
			usleep(100000);
		status = in_child(pin_within_limit, -1);
	}
	CHECK(status == 0);
out:
	CHECK(st_limit_set(NULL));
	close(ends[0]);
	close(ends[1]);
}

/* Calls the 32-bit system call, which 64-bit programs have too; its argument lies below 4 GiB. */
static int ioctl32(int fd, unsigned long cmd, void *arg)
{
#ifdef __x86_64__
	long ret = 54; /* number of ioctl() */

	__asm__ volatile("int $0x80" : "+a"(ret)
			 : "b"((long)fd), "c"((long)cmd), "d"((long)(uintptr_t)arg)
			 : "memory", "r8", "r9", "r10", "r11");
	if (ret >= 0)
		return 0;
	errno = -(int)ret;
	return -1;
#else
	errno = ENOSYS;
	return -1;
#endif
}

void test_dmabuf_compat(void)
{
	struct vgpu_export *e;
	struct vgpu_import *im;
	struct vgpu_pin pin;
	char *buf, *low;
	int fd = pinned_client(&buf, &pin);

	if (fd < 0)
		return;
	low = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1,
		   0);
	CHECK(low != MAP_FAILED);
	e = (void *)low;
	*e = (struct vgpu_export){ .region = pin.region, .length = PAGE };
	if (ioctl32(fd, VGPU_IOCTL_EXPORT, e)) {
		if (errno == ENOSYS)
			st_skip_why = "the kernel has no 32-bit system calls";
		else
			CHECK(!"EXPORT of a 32-bit caller");
		goto out;
	}
	CHECK(e->fd >= 0 && lseek(e->fd, 0, SEEK_END) == (off_t)PAGE);
	im = (void *)(low + 512);
	*im = (struct vgpu_import){ .addr = (uintptr_t)low, .length = PAGE, .fd = e->fd };
	CHECK(!ioctl32(fd, VGPU_IOCTL_IMPORT, im) && im->region != pin.region);
	e->flags = 1;
	CHECK(ioctl32(fd, VGPU_IOCTL_EXPORT, e) == -1 && errno == EINVAL);
out:
	munmap(low, PAGE);
	munmap(buf, PAGES * PAGE);
	close(fd);
}
