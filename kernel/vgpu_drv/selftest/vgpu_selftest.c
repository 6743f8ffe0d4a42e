// SPDX-License-Identifier: GPL-2.0-only
/*
 * vgpu_selftest: runs in the guest, against the real device, and uses only the ioctl ABI.
 *
 *   vgpu_selftest [--unbind] [--seconds N] [--only TEST] [/dev/vgpu0]
 *
 * --unbind    also runs the tests that unbind the device from the driver and rebind it (root; every
 *             process that uses the device loses it)
 * --seconds   duration of the test "hostile", s (default 3)
 * --only      runs a single test
 *
 * One line per test; the last line is "vgpu_selftest: N passed, M failed, K skipped". Needs free
 * client slots and a host that starts workers; otherwise the tests that need a client are skipped.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "selftest.h"

#define CLIENT_WAIT_S 20 /* an emulated guest starts workers slowly */

const char *st_path = "/dev/vgpu0";
bool st_allow_unbind;
int st_seconds = 3;
bool st_ok;
const char *st_skip_why;

static int passed, failed, skipped;

int st_open(void)
{
	int fd = open(st_path, O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

/*
 * Creates a client. Return: its file, or -1 after setting st_skip_why. Only the first call waits up
 * to CLIENT_WAIT_S.
 */
int st_client(struct vgpu_create_client *create)
{
	static int tries = CLIENT_WAIT_S * 10;
	int fd = st_open(), i;

	for (i = 0; i < tries; i++) {
		memset(create, 0, sizeof(*create));
		if (!ioctl(fd, VGPU_IOCTL_CREATE_CLIENT, create))
			return fd;
		if (errno != EAGAIN && errno != ENOSPC)
			break;
		usleep(100000);
	}
	if (errno == EAGAIN)
		st_skip_why = "the host starts no worker";
	else if (errno == ENOSPC)
		st_skip_why = "no client slot is free";
	else
		CHECK(!"CREATE_CLIENT");
	tries = 10;
	close(fd);
	return -1;
}

void *st_map_window(int fd, const struct vgpu_create_client *c)
{
	return mmap(NULL, c->window_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    c->window_offset);
}

int64_t st_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

char *st_pages(size_t n)
{
	char *p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

/* Returns the module parameter unpin_keep. */
bool st_keeps(void)
{
	int fd = open("/sys/module/vgpu_drv/parameters/unpin_keep", O_RDONLY | O_CLOEXEC);
	char value = 'N';

	if (fd >= 0 && read(fd, &value, 1) != 1)
		value = 'N';
	close(fd);
	return value == 'Y';
}

/*
 * Sets the limit of pinned memory per user, MiB; NULL restores the former value. Return: false if
 * it cannot be set.
 */
bool st_limit_set(const char *mib)
{
	static char before[16];
	int fd = open("/sys/module/vgpu_drv/parameters/pin_limit_mib", O_RDWR | O_CLOEXEC);
	ssize_t n = 1;

	if (fd < 0)
		return false;
	if (!before[0])
		n = read(fd, before, sizeof(before) - 1);
	if (!mib)
		mib = before;
	if (n > 0)
		n = write(fd, mib, strlen(mib));
	close(fd);
	return n > 0;
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
	{ "owner_ends", test_owner_ends },
	{ "pin_fields", test_pin_fields },
	{ "pin", test_pin },
	{ "pin_unmapped", test_pin_unmapped },
	{ "pin_limit", test_pin_limit },
	{ "pin_scattered", test_pin_scattered },
	{ "pin_regions", test_pin_regions },
	{ "export_fields", test_export_fields },
	{ "export", test_export },
	{ "import_fields", test_import_fields },
	{ "import", test_import },
	{ "export_limit", test_export_limit },
	{ "dmabuf_compat", test_dmabuf_compat },
	{ "wait", test_wait },
	{ "wait_time_namespace", test_wait_time_namespace },
	{ "wait_signals", test_wait_signals },
	{ "wait_signals_restart", test_wait_signals_restart },
	{ "wait_threads", test_wait_threads },
	{ "kill", test_kill },
	{ "worker_death", test_worker_death },
	{ "unbind", test_unbind },
	{ "hostile", test_hostile },
};

int main(int argc, char **argv)
{
	size_t i;
	const char *only = NULL;
	int fd, arg;

	for (arg = 1; arg < argc; arg++) {
		if (!strcmp(argv[arg], "--unbind"))
			st_allow_unbind = true;
		else if (!strcmp(argv[arg], "--nothing")) /* exec'd by test_hostile() */
			return usleep(20000);
		else if (!strcmp(argv[arg], "--seconds") && arg + 1 < argc)
			st_seconds = atoi(argv[++arg]);
		else if (!strcmp(argv[arg], "--only") && arg + 1 < argc)
			only = argv[++arg];
		else
			st_path = argv[arg];
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	fd = open(st_path, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		printf("cannot open %s: %s\n", st_path, strerror(errno));
		printf("vgpu_selftest: 0 passed, 1 failed, 0 skipped\n");
		return 1;
	}
	close(fd);
	for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		if (only && strcmp(only, tests[i].name))
			continue;
		st_ok = true;
		st_skip_why = NULL;
		tests[i].run();
		if (!st_ok) {
			printf("FAILED: %s\n", tests[i].name);
			failed++;
		} else if (st_skip_why) {
			printf("not run: %s: %s\n", tests[i].name, st_skip_why);
			skipped++;
		} else {
			printf("ok: %s\n", tests[i].name);
			passed++;
		}
	}
	if (!(passed + failed + skipped)) {
		printf("FAILED: there is no test %s\n", only);
		failed++;
	}
	printf("vgpu_selftest: %d passed, %d failed, %d skipped\n", passed, failed, skipped);
	return failed != 0;
}
