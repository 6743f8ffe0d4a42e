// SPDX-License-Identifier: GPL-2.0-only
/*
 * vgpu_selftest: two ordinary processes and a hostile one, of three users, on the device at once.
 * The hostile process pins, unpins, exports, imports, closes, forks, executes, moves and unmaps its
 * memory from several threads at once, and is killed and restarted; meanwhile the module is asked
 * to unload and, with --unbind, the device is unbound and rebound. The ordinary processes must see
 * their own bytes; afterwards the device must work, and nothing may be charged to the hostile user.
 * Reports of the kernel's checkers are in the kernel's log (tests/system/boot/debug.sh).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftest.h"

#define ORDINARY 2
#define THREADS 4
#define FILES 4
#define REGIONS 8 /* regions of a file */
#define DMABUFS 8
#define AREA 64ul		/* pages of each of the hostile process's two areas */
#define PAGES 16ul		/* pages pinned by an ordinary process */
#define LIFE_MS 400		/* life of a hostile process, ms */
#define MOST_S 120		/* time for an ordinary process to get a turn, even emulated, s */
#define HOSTILE_UID (ST_UID - 2)

enum { PIN, UNPIN, CLOSE, EXPORT, IMPORT, DROP, MOVE, UNMAP, FORK, EXEC, WAIT, WINDOW, OPEN, NOPS };

static const char *const names[NOPS] = { "pin",	  "unpin", "close", "export", "import", "drop", "move",
					 "unmap", "fork",  "exec",  "wait",   "window", "open" };

/* Shared by all processes. */
static struct {
	atomic_bool stop;
	atomic_uint rounds[ORDINARY];
	atomic_uint tried[NOPS];
	atomic_uint done[NOPS];
} *shared;

/* ---- an ordinary process ---- */

/*
 * Errors that a neighbour, or unbinding the device, may cause. EACCES: devtmpfs creates a node
 * before it sets its mode.
 */
static bool error_is_excused(int err)
{
	return err == EAGAIN || err == ENOSPC || err == EUSERS || err == EDQUOT ||
	       (st_allow_unbind &&
		(err == ENODEV || err == ENOENT || err == EACCES || err == ENXIO || err == EIO ||
		 err == ETIMEDOUT));
}

/* Return: true if the ioctl succeeded. An unexpected errno counts as a failure. */
static bool ioctl_works(int fd, unsigned long cmd, void *arg)
{
	if (!ioctl(fd, cmd, arg))
		return true;
	CHECK(error_is_excused(errno));
	return false;
}

/* Pinned bytes are the same for the process and through the dma-buf at all times. */
static bool ordinary_bytes(int fd, char *buf, unsigned char seed)
{
	struct vgpu_pin pin = { .addr = (uintptr_t)buf, .length = PAGES * PAGE };
	struct vgpu_wait wait = { .deadline_ns = 0 };
	struct vgpu_unpin unpin = { 0 };
	struct vgpu_export e;
	char *mapped;
	pid_t child;
	size_t i;

	memset(buf, seed, PAGES * PAGE);
	if (!ioctl_works(fd, VGPU_IOCTL_PIN, &pin))
		return false;
	e = (struct vgpu_export){ .region = pin.region, .length = PAGES * PAGE };
	if (!ioctl_works(fd, VGPU_IOCTL_EXPORT, &e))
		return false;
	mapped = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, e.fd, 0);
	CHECK(mapped != MAP_FAILED);
	close(e.fd);
	if (mapped == MAP_FAILED)
		return false;
	/* A child does not share the pinned pages. */
	child = fork();
	if (!child) {
		memset(buf, ~seed, PAGES * PAGE);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	unpin.region = pin.region;
	ioctl_works(fd, VGPU_IOCTL_UNPIN, &unpin);
	for (i = 0; i < PAGES; i++) {
		CHECK(mapped[i * PAGE] == (char)seed && buf[i * PAGE] == (char)seed);
		mapped[i * PAGE + 1] = (char)(seed + i);
		CHECK(buf[i * PAGE + 1] == (char)(seed + i));
	}
	munmap(mapped, PAGES * PAGE);
	if (ioctl(fd, VGPU_IOCTL_WAIT, &wait))
		CHECK(errno == ETIMEDOUT || error_is_excused(errno));
	return true;
}

static void ordinary_client(int which)
{
	int64_t end = st_now_ns() + MOST_S * 1000000000ll;
	char *buf = st_pages(PAGES);

	if (!getuid())
		CHECK(!setuid(ST_UID - which));
	while (st_ok && st_now_ns() < end && (!shared->stop || !shared->rounds[which])) {
		struct vgpu_create_client c = { 0 };
		int fd = open(st_path, O_RDWR | O_CLOEXEC), i;

		if (fd < 0) {
			CHECK(error_is_excused(errno));
			usleep(20000);
			continue;
		}
		if (ioctl_works(fd, VGPU_IOCTL_CREATE_CLIENT, &c)) {
			for (i = 0; i < 20 && ordinary_bytes(fd, buf, (unsigned char)(i + which)); i++)
				shared->rounds[which]++;
		} else {
			usleep(20000);
		}
		close(fd);
	}
	CHECK(shared->rounds[which] > 0);
	fflush(stdout);
	_exit(st_ok ? 0 : 1);
}

/* ---- the hostile process ---- */

/*
 * Shared by all threads of the hostile process, without a lock: a thread may close a file in use by
 * another. Numbers below 3 are never closed.
 */
static _Atomic int files[FILES], dmabufs[DMABUFS];
static _Atomic uint32_t regions[FILES][REGIONS];
static char *areas[2];
static _Atomic uint64_t window_size;

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state >> 11;
}

static void close_once(_Atomic int *fd)
{
	int old = atomic_exchange(fd, -1);

	if (old > 2)
		close(old);
}

static bool hostile_open(_Atomic int *file)
{
	struct vgpu_create_client c = { 0 };
	int fd = open(st_path, O_RDWR); /* without O_CLOEXEC: EXEC keeps it open */

	if (fd < 0 || ioctl(fd, VGPU_IOCTL_CREATE_CLIENT, &c)) {
		if (fd >= 0)
			close(fd);
		usleep(5000);
		return false;
	}
	window_size = c.window_size;
	close_once(file);
	atomic_store(file, fd);
	return true;
}

/* @of: the regions of the file. */
static bool hostile_pin(int fd, _Atomic uint32_t *of, const char *at, uint64_t r)
{
	struct vgpu_pin pin = { .addr = (uintptr_t)at, .length = (1 + r % 16) * PAGE,
				.flags = r >> 8 & 1 };

	if (ioctl(fd, VGPU_IOCTL_PIN, &pin))
		return false;
	of[r % REGIONS] = pin.region;
	return true;
}

static bool hostile_export(int fd, const _Atomic uint32_t *of, uint64_t r)
{
	struct vgpu_export e = { .region = of[r % REGIONS], .length = PAGE };
	void *mapped;

	if (ioctl(fd, VGPU_IOCTL_EXPORT, &e))
		return false;
	mapped = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, e.fd, 0);
	if (mapped != MAP_FAILED && r >> 8 & 1)
		munmap(mapped, PAGE);
	close_once(&dmabufs[r % DMABUFS]);
	atomic_store(&dmabufs[r % DMABUFS], e.fd);
	return true;
}

/*
 * A child uses its parent's file and memory, and becomes a client with a file that outlives its
 * memory.
 */
static bool hostile_child(int fd, _Atomic uint32_t *of, const char *at, bool exec)
{
	pid_t child = fork();

	if (!child) {
		struct vgpu_create_client c = { 0 };

		hostile_pin(fd, of, at, 0);
		if (exec) {
			int own = open(st_path, O_RDWR);

			if (own >= 0 && !ioctl(own, VGPU_IOCTL_CREATE_CLIENT, &c))
				hostile_pin(own, of, at, 7);
			execl("/proc/self/exe", "vgpu_selftest", "--nothing", NULL);
		}
		_exit(0);
	}
	return child > 0 && waitpid(child, NULL, 0) == child;
}

static bool hostile_step(int op, int i, uint64_t r)
{
	_Atomic uint32_t *of = regions[i];
	int fd = files[i];
	char *at = areas[r >> 16 & 1] + (r >> 20) % (AREA - 16) * PAGE;
	struct vgpu_unpin unpin = { .region = of[r % REGIONS] };
	struct vgpu_wait wait = { .deadline_ns = st_now_ns() + 1000000 };
	struct vgpu_import im = { .addr = (uintptr_t)at, .length = PAGE, .fd = dmabufs[r % DMABUFS] };
	char *to = areas[~r >> 16 & 1] + (r >> 40) % (AREA - 16) * PAGE;
	size_t n = (1 + r % 8) * PAGE;
	void *p;

	switch (op) {
	case PIN:
		return hostile_pin(fd, of, at, r);
	case UNPIN:
		return !ioctl(fd, VGPU_IOCTL_UNPIN, &unpin);
	case CLOSE:
		close_once(&files[i]);
		return true;
	case EXPORT:
		return hostile_export(fd, of, r);
	case IMPORT:
		if (ioctl(fd, VGPU_IOCTL_IMPORT, &im))
			return false;
		of[r % REGIONS] = im.region;
		return true;
	case DROP:
		close_once(&dmabufs[r % DMABUFS]);
		return true;
	case MOVE:
		return mremap(at, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED;
	case UNMAP: /* UNMAP, then map other memory at once, or free pages */
		if (r >> 8 & 1)
			return !madvise(at, n, MADV_DONTNEED);
		return mmap(at, n, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
	case FORK:
		return hostile_child(fd, of, at, false);
	case EXEC:
		return hostile_child(fd, of, at, true);
	case WAIT:
		return !ioctl(fd, VGPU_IOCTL_WAIT, &wait) || errno == ETIMEDOUT;
	case WINDOW:
		n = window_size;
		p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 1ull << 40);
		if (p == MAP_FAILED)
			return false;
		(void)*(volatile char *)p;
		return !munmap(p, n);
	default:
		return hostile_open(&files[i]);
	}
}

static void *hostile_thread(void *arg)
{
	/*
	 * Mostly fast operations; those that start processes, in the guest or on the host, are
	 * rare.
	 */
	static const char mix[] = { PIN,  PIN,    PIN,	PIN,  PIN,   UNPIN, UNPIN, UNPIN, EXPORT, EXPORT, EXPORT,
				    DROP, DROP,	  MOVE, MOVE, UNMAP, UNMAP, WAIT,  WINDOW, IMPORT, IMPORT };
	uint64_t state = (uintptr_t)arg;

	for (;;) {
		uint64_t r = next_random(&state), rare = next_random(&state) % 200;
		int op = rare < 2 ? CLOSE : rare < 4 ? FORK : rare < 6 ? EXEC : mix[r % sizeof(mix)];
		int i = (int)(next_random(&state) % FILES);

		if (files[i] < 0)
			op = OPEN;
		shared->tried[op]++;
		if (hostile_step(op, i, r))
			shared->done[op]++;
	}
	return NULL;
}

static void hostile_client(uint64_t seed)
{
	pthread_t thread;
	int i;

	if (!getuid() && setuid(HOSTILE_UID))
		_exit(1);
	for (i = 0; i < 2; i++)
		areas[i] = mmap(NULL, AREA * PAGE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (i = 0; i < FILES; i++)
		files[i] = -1;
	for (i = 0; i < DMABUFS; i++)
		dmabufs[i] = -1;
	for (i = 1; i < THREADS; i++)
		pthread_create(&thread, NULL, hostile_thread,
			       (void *)(uintptr_t)(seed * 0x9e3779b97f4a7c15 + i));
	hostile_thread((void *)(uintptr_t)(seed * 0x9e3779b97f4a7c15 + THREADS));
}

/* ---- unloading and unbinding ---- */

/* The module is in use by a file of this test: it must stay loaded. */
static void ask_to_unload(void)
{
	errno = 0;
	CHECK(syscall(SYS_delete_module, "vgpu_drv", O_NONBLOCK) == -1);
	CHECK(errno == EAGAIN || errno == EPERM || errno == ENOENT); /* not root; built in */
}

static void take_away(const char *name)
{
	CHECK(st_write_file(ST_DRIVER "/unbind", name));
	usleep(50000);
	CHECK(st_write_file(ST_DRIVER "/bind", name));
}

/* Nothing is charged to the hostile user any more: it may pin up to its limit. */
static void hostile_has_nothing(void)
{
	struct vgpu_pin pin = { .length = ST_LIMIT };
	int status = 1, tries;
	pid_t child;

	if (!st_limit_set("1"))
		return;
	for (tries = 0; tries < 50 && status; tries++) {
		if (tries)
			usleep(100000); /* last file of a killed process or of a dma-buf */
		fflush(stdout);
		child = fork();
		if (!child) {
			struct vgpu_create_client c;
			int fd = st_client(&c);

			pin.addr = (uintptr_t)st_pages(ST_LIMIT / PAGE);
			_exit(fd < 0 || setuid(HOSTILE_UID) || ioctl(fd, VGPU_IOCTL_PIN, &pin));
		}
		waitpid(child, &status, 0);
	}
	CHECK(!status);
	CHECK(st_limit_set(NULL));
}

/* True if the hostile process got far enough for the test to be meaningful. */
static bool all_reached(void)
{
	return shared->done[PIN] && shared->done[UNPIN] && shared->done[EXPORT] &&
	       shared->done[MOVE];
}

static void disturb_until(int64_t end)
{
	bool take = st_allow_unbind;
	char name[64] = "";
	uint64_t seed = 0;
	pid_t child;
	int i;

	if (take)
		CHECK(st_virtio_name(name, sizeof(name)));
	while (st_now_ns() < end || (!all_reached() && st_now_ns() < end + MOST_S * 1000000000ll)) {
		child = fork();
		if (!child)
			hostile_client(++seed + (uint64_t)end);
		seed++;
		for (i = 0; i < LIFE_MS / 20; i++) {
			usleep(20000);
			ask_to_unload();
		}
		if (take && seed % 3 == 0)
			take_away(name);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
}

void test_hostile(void)
{
	struct vgpu_create_client c;
	int held, fd = st_client(&c), i, status;
	pid_t child[ORDINARY];

	if (fd < 0)
		return;
	close(fd);
	held = st_open();
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	fflush(stdout);
	for (i = 0; i < ORDINARY; i++) {
		child[i] = fork();
		if (!child[i])
			ordinary_client(i);
	}
	disturb_until(st_now_ns() + st_seconds * 1000000000ll);
	shared->stop = true;
	for (i = 0; i < ORDINARY; i++) {
		waitpid(child[i], &status, 0);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	printf("  ordinary: %u and %u rounds; hostile:", shared->rounds[0], shared->rounds[1]);
	for (i = 0; i < NOPS; i++)
		printf(" %s %u/%u", names[i], shared->done[i], shared->tried[i]);
	printf("\n");
	CHECK(all_reached());
	fd = st_client(&c);
	CHECK(fd >= 0);
	if (fd >= 0)
		close(fd);
	hostile_has_nothing();
	close(held);
	munmap(shared, sizeof(*shared));
}
