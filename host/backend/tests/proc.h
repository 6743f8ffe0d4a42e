/* SPDX-License-Identifier: MIT */
/* Brokers and workers as processes, for tests. $BACKEND_DIR is the build directory. */
#ifndef PROC_H
#define PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct broker {
    pid_t pid;
    char dir[64], sock[96];
};

/* Starts a broker with extra options (NULL-terminated; "SOCKET" stands for b->sock) and waits until
 * it is ready. It listens on b->sock, unless the first option is --vhost-user. */
int broker_start(struct broker *b, const char *const *extra);
/* The same with the log in a file, at level info; `more`: at most 10 options, NULL-terminated, or NULL. */
int broker_start_logged(struct broker *b, const char *log, const char *const *more);
/* Is the text in a line of the file? */
bool file_has(const char *path, const char *text);
/* The answer to one request to a control socket, valid until the next; "" when the connection is closed instead. NULL:
 * nobody listens. */
const char *control_ask(const char *path, const void *request, size_t size);
/* What it says of itself (`vgpu smi --host`): the length, 0: nothing; -1: nobody listens. */
ssize_t broker_status(pid_t broker, char *text, size_t room);
/* Conservation: waits until no client is ending, then looks at the broker's accounts. NULL: each agrees with what is held,
 * and with no client nothing is; or it does not answer. Otherwise what it said, valid until the next call. */
const char *broker_books(pid_t broker);
/* Ends it with SIGTERM; its exit status. The test fails when its accounts are wrong before. */
int broker_stop(struct broker *b);
/* The worker processes of a broker; how many there are, the first n in out. */
unsigned workers_of(pid_t broker, pid_t *out, unsigned n);
/* The same for their mappers. */
unsigned mappers_of(pid_t broker, pid_t *out, unsigned n);
/* Its children of that name, zombies too: what badworker leaves. */
unsigned strays_of(pid_t broker);
/* The worker that serves a client: the one that has a window mapped. 0: none. */
pid_t worker_of_client(pid_t broker);
bool gone_within(pid_t pid, int ms);
/* AddressSanitizer's shadow counts as data of a process, so a limit of that ends it at its first allocation. A test that
 * sets one says so and is skipped: true. Workers are built as this test is. */
bool no_data_limits(const char *test);

#endif
