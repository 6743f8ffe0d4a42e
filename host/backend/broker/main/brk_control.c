/* SPDX-License-Identifier: MIT */
/*
 * The control socket (--control, SOCK_SEQPACKET): limits and shares, read and changed while clients are served. One
 * request is one message of text, its answer another:
 *
 *   get [NAME] [client PID]        "ok", then lines "NAME VALUE"
 *   set NAME VALUE [client PID]    "ok", or "error: why"
 *
 * The file belongs to the broker's user alone, and the kernel is asked who connects: that user, or root.
 */
#define _GNU_SOURCE
#include "main.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vgb_fd.h"

#define REQUEST_MAX 256u
#define ANSWER_MAX 4096u
#define PEERS_MAX 8u
#define WORDS_MAX 5u

struct peer {
    struct brk_source s; /* fd -1: free */
};

static struct brk_source listener = {.fd = -1};
static struct peer peers[PEERS_MAX];

struct answer {
    char text[ANSWER_MAX];
    size_t used;
};

static void control_say(struct answer *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void control_say(struct answer *a, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(a->text + a->used, sizeof(a->text) - a->used, fmt, ap);
    va_end(ap);
    if (n > 0 && (size_t)n < sizeof(a->text) - a->used)
        a->used += (size_t)n;
}

static uint64_t value_for(const struct brk_client *c, enum brk_limit_id id)
{
    if (!c)
        return brk_limit_get(&brk_opt, id);
    if (id == BRK_L_CLIENT_WEIGHT)
        return c->fair.weight;
    if (id == BRK_L_CLIENT_CAP)
        return c->fair.cap;
    if (id == BRK_L_CLIENT_PRIORITY)
        return c->priority;
    return brk_limit_of_client(&c->limits, id);
}

static void control_get(struct answer *a, const char *name, pid_t pid)
{
    const struct brk_client *c = pid ? brk_adjust_find(pid) : NULL;
    enum brk_limit_id only = name ? brk_limit_find(name) : BRK_L_COUNT;

    if (name && only == BRK_L_COUNT) {
        control_say(a, "error: no limit has this name");
        return;
    }
    if (pid && (!c || (name && !brk_limit_is_client(only)))) {
        control_say(a, "error: %s", c ? "not a limit of one client" : "no such client");
        return;
    }
    control_say(a, "ok\n");
    for (unsigned i = 0; i < BRK_L_COUNT; i++) {
        if ((!name || only == i) && (!c || brk_limit_is_client((enum brk_limit_id)i)))
            control_say(a, "%s %llu\n", brk_limits[i].name,
                        (unsigned long long)value_for(c, (enum brk_limit_id)i));
    }
}

static void control_set(struct answer *a, const char *name, const char *text, pid_t pid)
{
    enum brk_limit_id id = brk_limit_find(name);
    const char *wrong;
    char want[80];
    uint64_t value;

    if (id == BRK_L_COUNT) {
        control_say(a, "error: no limit has this name");
    } else if (!brk_limit_parse(id, text, &value, want)) {
        control_say(a, "error: %s: %s is needed", name, want);
    } else if ((wrong = brk_adjust(id, value, pid))) {
        control_say(a, "error: %s: %s", name, wrong);
    } else {
        vgb_log(VGB_INFO, "%s is %llu now%s", name, (unsigned long long)value, pid ? ", for one client" : "");
        control_say(a, "ok\n");
    }
}

/* Parses a final "client PID"; false: any other text. */
static bool take_client(char **word, unsigned *n, pid_t *pid)
{
    uint64_t value;

    *pid = 0;
    if (*n < 2 || strcmp(word[*n - 2], "client"))
        return true;
    if (!brk_parse_size(word[*n - 1], &value) || !value || value > INT32_MAX)
        return false;
    *pid = (pid_t)value;
    *n -= 2;
    return true;
}

static void serve_request(struct answer *a, char *text)
{
    char *word[WORDS_MAX + 1], *save = NULL;
    unsigned n = 0;
    pid_t pid;

    for (char *w = strtok_r(text, " \n", &save); w && n <= WORDS_MAX; w = strtok_r(NULL, " \n", &save))
        word[n++] = w;
    if (n && n <= WORDS_MAX && take_client(word, &n, &pid)) {
        if (!strcmp(word[0], "get") && n <= 2) {
            control_get(a, n == 2 ? word[1] : NULL, pid);
            return;
        }
        if (!strcmp(word[0], "set") && n == 3) {
            control_set(a, word[1], word[2], pid);
            return;
        }
    }
    control_say(a, "error: not understood: get [NAME] [client PID], or set NAME VALUE [client PID]");
}

static void peer_close(struct peer *p)
{
    brk_loop_del(&p->s);
    brk_foreign_end(&p->s.fd);
}

static void on_request(struct brk_source *s, uint32_t events)
{
    struct peer *p = (struct peer *)s; /* its first member */
    char text[REQUEST_MAX + 1];
    struct answer a = {.used = 0};
    unsigned nfds = VGB_FD_MAX;
    int fds[VGB_FD_MAX];
    bool words;

    (void)events;
    /* Received descriptors are taken out: the kernel would close them here, and a last close may
     * block. */
    ssize_t n = vgb_recv_fds(s->fd, text, REQUEST_MAX, fds, &nfds, MSG_DONTWAIT);
    if (n <= 0 && n != -EPROTO) {
        peer_close(p);
        return;
    }
    brk_foreign_close_all(fds, nfds);
    words = n != -EPROTO; /* longer */
    for (ssize_t i = 0; i < n; i++)
        words &= text[i] == '\n' || isprint((unsigned char)text[i]);
    if (!words) {
        control_say(&a, "error: a request is at most %u characters of text", REQUEST_MAX);
    } else {
        text[n] = '\0';
        serve_request(&a, text);
    }
    if (send(s->fd, a.text, a.used, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        peer_close(p); /* the peer does not read its answers */
}

static void on_accept(struct brk_source *s, uint32_t events)
{
    int fd = brk_accept(s);
    struct ucred who;
    socklen_t size = sizeof(who);

    (void)events;
    if (fd < 0)
        return;
    if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) && (who.uid == geteuid() || !who.uid)) {
        for (unsigned i = 0; i < PEERS_MAX; i++) {
            if (peers[i].s.fd >= 0)
                continue;
            peers[i].s.fd = fd;
            peers[i].s.ready = on_request;
            if (!brk_loop_add(&peers[i].s, EPOLLIN))
                return;
            peers[i].s.fd = -1;
            break;
        }
    }
    brk_foreign_end(&fd);
}

int brk_control_start(void)
{
    for (unsigned i = 0; i < PEERS_MAX; i++)
        peers[i].s.fd = -1;
    if (!brk_opt.control)
        return 0;
    listener.fd = brk_listen_unix(brk_opt.control, SOCK_SEQPACKET, BRK_LISTEN_OWNER);
    listener.ready = on_accept;
    if (listener.fd < 0 || brk_loop_add(&listener, EPOLLIN)) {
        vgb_log(VGB_ERROR, "--control %s: %s", brk_opt.control,
                listener.fd < 0 ? brk_unit_error(-listener.fd) : "no room");
        listener.fd = -1;
        return BRK_EXIT_USAGE;
    }
    return 0;
}

void brk_control_stop(void)
{
    if (listener.fd < 0)
        return;
    vgb_close(&listener.fd);
    for (unsigned i = 0; i < PEERS_MAX; i++)
        vgb_close(&peers[i].s.fd);
    unlink(brk_opt.control);
}
