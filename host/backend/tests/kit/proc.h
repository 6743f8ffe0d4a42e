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

/* Path of the software GPU beside the build folder, for --provider; valid until the next call. */
const char *soft_provider(void);
/* Starts a broker with extra options (NULL-terminated; "SOCKET" stands for b->sock) and waits until
 * it is ready. It listens on b->sock, unless the first option is --vhost-user. */
int broker_start(struct broker *b, const char *const *extra);
/* The same with the log in a file, at level info; `more`: at most 10 options, NULL-terminated, or
 * NULL. */
int broker_start_logged(struct broker *b, const char *log, const char *const *more);
/* True if a line of the file contains the text. */
bool file_has(const char *path, const char *text);
/* Sends a request to a control socket. The answer, valid until the next call; "" if the connection
 * is closed instead; NULL: no listener. */
const char *control_ask(const char *path, const void *request, size_t size);
/* Reads its status (`vgpu smi --host`). Length, 0: empty; -1: no listener. */
ssize_t broker_status(pid_t broker, char *text, size_t room);
/*
 * Waits until no client is ending, then checks the broker's accounts. NULL: all accounts agree with
 * what is held, and nothing is held without clients; or no answer. Otherwise the broker's text,
 * valid until the next call.
 */
const char *broker_books(pid_t broker);
/*
 * Ends it with SIGTERM; returns its exit status. Fails the test if its accounts are wrong before.
 */
int broker_stop(struct broker *b);
/* The same for a broker that is to end within a time although something holds it up: its accounts are
 * not looked at. -1: it has not; it is left to broker_stop(). */
int broker_end(struct broker *b, int ms);
/* Worker processes of a broker; returns their number, the first n in out. */
unsigned workers_of(pid_t broker, pid_t *out, unsigned n);
/* The same for their mappers. */
unsigned mappers_of(pid_t broker, pid_t *out, unsigned n);
/* Children of that name, including zombies: processes left by badworker. */
unsigned strays_of(pid_t broker);
/* Worker that serves a client, recognised by its mapped window. 0: none. */
pid_t worker_of_client(pid_t broker);
bool gone_within(pid_t pid, int ms);
/*
 * AddressSanitizer's shadow memory counts as data of a process, so a data limit kills it at its
 * first allocation. Returns true, and skips tests that set such a limit. Workers are built like
 * this test.
 */
bool no_data_limits(const char *test);

#endif
