// SPDX-License-Identifier: GPL-2.0-only
/* vgpu_selftest: WAIT, and the end of processes, workers and the device. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftest.h"

/* ---- WAIT ---- */

void test_wait(void)
{
	struct vgpu_create_client c;
	struct vgpu_wait wait = { 0 };
	int fd = st_client(&c), i;
	int64_t start;

	if (fd < 0)
		return;
	for (i = 0; i < 32; i++) {
		wait.flags = 1u << i;
		REFUSED(fd, VGPU_IOCTL_WAIT, &wait, EINVAL);
	}
	/* The worker may have rung already: consume wakes until none is pending. */
	wait = (struct vgpu_wait){ .seen = c.wake_seq, .deadline_ns = 0 };
	while (!ioctl(fd, VGPU_IOCTL_WAIT, &wait))
		wait.seen = wait.seq;
	CHECK(errno == ETIMEDOUT);
	CHECK(wait.state == 0);
	CHECK(wait.seq == wait.seen);
	start = st_now_ns();
	wait.deadline_ns = start + 50 * 1000000ll;
	REFUSED(fd, VGPU_IOCTL_WAIT, &wait, ETIMEDOUT);
	CHECK(st_now_ns() - start >= 50 * 1000000ll);
	/* A value other than the current one returns at once, without a deadline. */
	wait = (struct vgpu_wait){ .seen = wait.seq - 1, .deadline_ns = -1 };
	CHECK(!ioctl(fd, VGPU_IOCTL_WAIT, &wait));
	CHECK(wait.seq == wait.seen + 1);
	close(fd);
}

/* Deadlines are in the caller's clock, which a time namespace shifts. */
void test_wait_time_namespace(void)
{
	struct vgpu_create_client c;
	struct vgpu_wait wait = { 0 };
	int status = 0, fd, offsets;
	int64_t start;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) { /* unshare() affects the children of this process */
		static const char text[] = "monotonic 100000 0\n";

		if (unshare(0x80 /* CLONE_NEWTIME */))
			_exit(77);
		offsets = open("/proc/self/timens_offsets", O_WRONLY);
		if (offsets < 0 || write(offsets, text, sizeof(text) - 1) < 0)
			_exit(77);
		close(offsets);
		pid = fork();
		if (pid) {
			waitpid(pid, &status, 0);
			_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
		}
		st_ok = true;
		fd = st_client(&c);
		if (fd < 0)
			_exit(1);
		alarm(20); /* without the conversion this sleeps for a day */
		wait = (struct vgpu_wait){ .seen = c.wake_seq, .deadline_ns = 0 };
		while (!ioctl(fd, VGPU_IOCTL_WAIT, &wait))
			wait.seen = wait.seq;
		start = st_now_ns();
		wait.deadline_ns = start + 50 * 1000000ll;
		REFUSED(fd, VGPU_IOCTL_WAIT, &wait, ETIMEDOUT);
		CHECK(st_now_ns() - start >= 50 * 1000000ll);
		fflush(stdout);
		_exit(st_ok ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		st_skip_why = "no time namespaces, or no right to make one";
	else
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static volatile sig_atomic_t ticks;

static void on_alarm(int sig)
{
	(void)sig;
	ticks++;
}

/*
 * A signal every millisecond: each WAIT ends with EINTR or at its deadline, and none sleeps longer.
 */
static void signal_storm(int flags, bool may_interrupt)
{
	struct sigaction act = { .sa_handler = on_alarm, .sa_flags = flags }, old;
	struct itimerval storm = { { 0, 1000 }, { 0, 1000 } }, quiet = { { 0, 0 }, { 0, 0 } };
	struct vgpu_create_client c;
	int fd = st_client(&c), interrupts = 0;
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
	start = st_now_ns();
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
	CHECK(st_now_ns() - start >= 300 * 1000000ll);
	CHECK(st_now_ns() - start < 10 * 1000000000ll);
	CHECK(ticks > 0);
	CHECK(may_interrupt ? interrupts > 0 : interrupts == 0);
	close(fd);
}

void test_wait_signals(void)
{
	signal_storm(0, true);
}

void test_wait_signals_restart(void)
{
	signal_storm(SA_RESTART, false);
}

static void *st_sleeper(void *arg)
{
	struct vgpu_wait *wait = ((void **)arg)[1];

	if (ioctl(*(int *)((void **)arg)[0], VGPU_IOCTL_WAIT, wait) && errno != ETIMEDOUT)
		return arg;
	return NULL;
}

/* Other threads use the client while one sleeps; a second st_sleeper works too. */
void test_wait_threads(void)
{
	struct vgpu_create_client c;
	struct vgpu_query q = { 0 };
	int fd = st_client(&c), i;
	struct vgpu_wait wait[2];
	pthread_t thread[2];
	void *arg[2][2], *result;

	if (fd < 0)
		return;
	for (i = 0; i < 2; i++) {
		wait[i] = (struct vgpu_wait){ .seen = c.wake_seq,
					      .deadline_ns = st_now_ns() + 500 * 1000000ll };
		arg[i][0] = &fd;
		arg[i][1] = &wait[i];
		CHECK(!pthread_create(&thread[i], NULL, st_sleeper, arg[i]));
	}
	usleep(50000);
	CHECK(!ioctl(fd, VGPU_IOCTL_QUERY, &q));
	for (i = 0; i < 2; i++) {
		pthread_join(thread[i], &result);
		CHECK(!result);
	}
	close(fd);
}

/* ---- end of processes and workers ---- */

/* Processes killed while they hold a client, mappings and pinned memory release all of them. */
void test_kill(void)
{
	int i;

	for (i = 0; i < 8 && !st_skip_why; i++) {
		int pipe_fd[2], status = 0;
		char ready = 0;
		pid_t pid;

		CHECK(!pipe(pipe_fd));
		fflush(stdout);
		pid = fork();
		if (!pid) {
			struct vgpu_create_client c;
			char *buf = st_pages(16);
			struct vgpu_pin pin = { .addr = (uintptr_t)buf, .length = 16 * PAGE };
			struct vgpu_wait wait = { .deadline_ns = -1 };
			int fd;

			fd = st_client(&c);
			if (fd < 0)
				_exit(77);
			st_map_window(fd, &c);
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
			st_skip_why = "the host starts no worker, or no slot is free";
		else
			CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
}

/*
 * A malformed ring ends the client's worker: WAIT reports it, PIN is -ENODEV, CREATE stays -EBUSY.
 */
void test_worker_death(void)
{
	struct vgpu_create_client c, again = { 0 };
	struct vgpu_wait wait = { 0 };
	int fd = st_client(&c), i;
	char *buf = st_pages(1), *w, *d;
	struct vgpu_pin pin = { .addr = (uintptr_t)buf, .length = PAGE };

	if (fd < 0)
		goto out;
	w = st_map_window(fd, &c);
	d = mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, fd, c.doorbell_offset);
	CHECK(w != MAP_FAILED && d != MAP_FAILED);
	/* The first page of the window is the header: set invalid indices. */
	memset(w, 0xff, PAGE);
	wait.seen = c.wake_seq;
	for (i = 0; i < 50 && !wait.state; i++) {
		*(volatile uint16_t *)(d + c.doorbell_in_page) = c.doorbell_value;
		wait.deadline_ns = st_now_ns() + 100 * 1000000ll;
		if (!ioctl(fd, VGPU_IOCTL_WAIT, &wait))
			wait.seen = wait.seq;
	}
	if (!wait.state) {
		st_skip_why = "the host has not ended the worker within 5 s";
		goto unmap;
	}
	CHECK(wait.state >= 1 && wait.state <= 3);
	CHECK(!ioctl(fd, VGPU_IOCTL_WAIT, &wait));
	REFUSED(fd, VGPU_IOCTL_PIN, &pin, ENODEV);
	REFUSED(fd, VGPU_IOCTL_CREATE_CLIENT, &again, EBUSY);
	w[PAGE] = 1; /* the window is still mapped */
	CHECK(w[PAGE] == 1);
unmap:
	munmap(w, c.window_size);
	munmap(d, PAGE);
out:
	munmap(buf, PAGE);
	if (fd >= 0)
		close(fd);
}

/* ---- removal of the device ---- */

bool st_write_file(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

/* Returns the name of the virtio device of the device file, "virtioN". */
bool st_virtio_name(char *name, size_t size)
{
	const char *node = strrchr(st_path, '/');
	char link[256], target[512];
	const char *base;
	ssize_t len;

	snprintf(link, sizeof(link), "/sys/class/misc/%s/device", node ? node + 1 : st_path);
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

/* A process whose device is gone gets errors and does not hang. */
static void check_gone(int fd, const struct vgpu_create_client *c)
{
	struct vgpu_wait wait = { .seen = c->wake_seq, .deadline_ns = -1 };
	struct vgpu_query q = { 0 };
	struct vgpu_create_client again = { 0 };
	char *buf = st_pages(1);
	struct vgpu_pin pin = { .addr = (uintptr_t)buf, .length = PAGE };
	struct vgpu_unpin unpin = { .region = 1 };

	REFUSED(fd, VGPU_IOCTL_WAIT, &wait, ENODEV);
	CHECK(wait.state == 4);
	REFUSED(fd, VGPU_IOCTL_QUERY, &q, ENODEV);
	REFUSED(fd, VGPU_IOCTL_PIN, &pin, ENODEV);
	REFUSED(fd, VGPU_IOCTL_UNPIN, &unpin, ENODEV);
	REFUSED(fd, VGPU_IOCTL_CREATE_CLIENT, &again, ENODEV);
	CHECK(st_map_window(fd, c) == MAP_FAILED && errno == ENODEV);
	munmap(buf, PAGE);
}

/* Its mappings are private zero pages now: no signal, and no data of the next client. */
static void check_blank(const struct vgpu_create_client *c, volatile char *w, volatile char *d)
{
	CHECK(w[c->window_size - 1] == 0);
	w[c->window_size - 1] = 1;
	w[0] = 2;
	CHECK(w[c->window_size - 1] == 1 && w[0] == 2);
	*(volatile uint16_t *)(d + c->doorbell_in_page) = c->doorbell_value;
}

void test_unbind(void)
{
	struct vgpu_create_client c, fresh;
	char name[64];
	struct vgpu_pin pin = { .length = 16 * PAGE };
	struct vgpu_wait wait;
	int fd, idle, next, i;
	pthread_t thread;
	void *arg[2], *result;
	char *buf, *w, *d;

	if (!st_allow_unbind) {
		st_skip_why = "only with --unbind";
		return;
	}
	CHECK(st_virtio_name(name, sizeof(name)));
	fd = st_client(&c);
	if (fd < 0)
		return;
	idle = st_open();
	buf = st_pages(16);
	pin.addr = (uintptr_t)buf;
	ioctl(fd, VGPU_IOCTL_PIN, &pin);
	w = st_map_window(fd, &c);
	d = mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, fd, c.doorbell_offset);
	CHECK(w != MAP_FAILED && d != MAP_FAILED);
	w[c.window_size - 1] = 9;
	wait = (struct vgpu_wait){ .seen = c.wake_seq, .deadline_ns = st_now_ns() + 20000000000ll };
	arg[0] = &fd;
	arg[1] = &wait;
	CHECK(!pthread_create(&thread, NULL, st_sleeper, arg));
	usleep(100000);

	CHECK(st_write_file(ST_DRIVER "/unbind", name));
	pthread_join(thread, &result);
	CHECK(result || wait.seq != c.wake_seq); /* -ENODEV, unless the worker rang first */
	check_gone(fd, &c);
	check_blank(&c, w, d);
	CHECK(access(st_path, F_OK) == -1);

	CHECK(st_write_file(ST_DRIVER "/bind", name));
	for (i = 0; i < 50 && access(st_path, F_OK); i++)
		usleep(100000);
	next = st_client(&fresh);
	CHECK(next >= 0);
	check_gone(fd, &c); /* the old file stays dead */
	munmap(w, c.window_size);
	munmap(d, PAGE);
	close(fd);
	close(idle);
	if (next >= 0) {
		w = st_map_window(next, &fresh);
		CHECK(w != MAP_FAILED);
		CHECK(w[fresh.window_size - 1] == 0);
		close(next);
		munmap(w, fresh.window_size);
	}
	munmap(buf, 16 * PAGE);
}
