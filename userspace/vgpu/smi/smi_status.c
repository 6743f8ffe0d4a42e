/* SPDX-License-Identifier: MIT */
/*
 * Reads the status of the backends. Names in it come from guests: the backend has removed terminal
 * control characters.
 */
#include "smi/status.h"

#include <errno.h>
#include <glob.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/vgpu_cli.h"
#include "smi/peer.h"
#include "../../../lib/clock/clock.h"

#define NAME \
    "vgpu-backend.status." /* + process id, an abstract name (host/backend/broker/clients/brk_status.c) */
#define PATHS SMI_PEER_UNITS "/*/status" /* option --status in packaging/systemd */
#define TEXT_MAX (256u << 10)
#define WAIT_MS 1000  /* time limit of a batch */
#define WAITS_MS 2000 /* time limit of all batches: unserved sockets must not delay the reader */
#define WAIT_LEAST_MS 50
#define WAIT_MUTE_MS 100 /* limit if only backends mute at the last reading are left */
#define AGAIN_MS 10      /* delay until the next attempt on a socket with a full queue */
#define PAIRS_MAX 64     /* maximum per line: more than there are names */
#define BATCH 256        /* number of sockets queried concurrently */

/*
 * Returns the time limit of the next batch, ms: half of the remaining time, within [WAIT_LEAST_MS,
 * WAIT_MS].
 */
static long wait_ms(long end)
{
    long ms = (end - clk_now_ms()) / 2;

    return ms > WAIT_MS ? WAIT_MS : ms < WAIT_LEAST_MS ? WAIT_LEAST_MS : ms;
}

static void refuse_backend(struct smi_status *s, const char *name, const char *why)
{
    char *text;

    if (s->refused++ >= SMI_REFUSED_MAX)
        return;
    text = s->refusals[s->refused - 1];
    snprintf(text, sizeof(s->refusals[0]), "%.120s: %s", name, why);
    for (char *c = text; *c; c++)
        *c = (char)((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f ? '?' : *c);
}

/* A query to a socket, abstract or with a path. */
struct question {
    char name[sizeof(((struct sockaddr_un *)0)->sun_path)];
    int fd; /* -1: finished */
    bool connected;
    bool mute;   /* no answer at the last reading */
    uid_t owner; /* for a path: owner of its folder */
    struct ucred who;
};

/* Ends a query whose listener is rejected (`wrong`: the reason) or silent (NULL). */
static void end_question(struct smi_status *s, struct question *q, const char *wrong)
{
    if (wrong)
        refuse_backend(s, q->name, wrong);
    else
        s->silent++;
    vgpu_cli_close_foreign(&q->fd, q->fd >= 0);
    q->fd = -1;
}

/* Connects. False: the socket's queue is full at present. */
static bool question_connect(struct smi_status *s, struct question *q)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    bool abstract = *q->name != '/';
    size_t n = strlen(q->name);

    memcpy(a.sun_path + abstract, q->name, n);
    if (connect(q->fd, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n))) {
        if (errno == EAGAIN)
            return false;
        end_question(s, q, NULL);
        return true;
    }
    q->connected = true;
    if (!smi_peer_known(q->fd, &q->who) || (abstract && smi_peer_others(&q->who)))
        end_question(s, q, NULL);
    else if (!abstract && q->who.uid != q->owner && q->who.uid)
        end_question(s, q, "its folder's user does not listen there");
    return true;
}

/* Prepares a query. False: nothing to query. */
static bool question_begin(struct smi_status *s, struct question *q, const char *name)
{
    const char *wrong = NULL;

    *q = (struct question){.fd = -1};
    if (*name == '/' && (wrong = smi_peer_file(name, &q->owner))) {
        refuse_backend(s, name, wrong);
        return false;
    }
    if (strlen(name) < sizeof(q->name) - 1) {
        strcpy(q->name, name);
        q->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    s->silent += q->fd < 0;
    return q->fd >= 0;
}

/* Reads a backend's text. False: the backend is gone, or refuses this user. */
static bool question_end(struct smi_status *s, struct question *q, char *text, size_t room)
{
    ssize_t got = vgpu_cli_recv_foreign(q->fd, text, room - 1, MSG_DONTWAIT);

    if (got <= 0) {
        end_question(s, q, NULL);
        return false;
    }
    vgpu_cli_close_foreign(&q->fd, 1);
    q->fd = -1;
    text[got] = '\0';
    /*
     * Any user may have made a socket of that name: only printable text, for terminals and labels.
     */
    for (ssize_t i = 0; i < got; i++) {
        if (((unsigned char)text[i] < 0x20 && text[i] != '\n') || (unsigned char)text[i] >= 0x7f)
            text[i] = '?';
    }
    return true;
}

/* Known names in "NAME VALUE NAME VALUE ...", and the place of their values. */
struct known {
    const char *name;
    size_t offset;
};
static const struct known of_use[] = {
    {"calls", offsetof(struct smi_use, calls)},
    {"waits", offsetof(struct smi_use, waits)},
    {"errors", offsetof(struct smi_use, errors)},
    {"copied", offsetof(struct smi_use, copied)},
    {"cpu-ms", offsetof(struct smi_use, cpu_ms)},
    {"throttled-ms", offsetof(struct smi_use, throttled_ms)},
    {NULL, 0},
};
static const struct known of_vm[] = {
    {"now-ms", offsetof(struct smi_backend, now_ms)},
    {"gpu-memory", offsetof(struct smi_backend, gpu_memory)},
    {"vram-used", offsetof(struct smi_backend, vram_used)},
    {"pin-used", offsetof(struct smi_backend, pin_used)},
    {"blob-used", offsetof(struct smi_backend, blob_used)},
    {"paced", offsetof(struct smi_backend, paced)},
    {"soft", offsetof(struct smi_backend, soft)},
    {"clients-started", offsetof(struct smi_backend, clients_started)},
    {"clients-refused", offsetof(struct smi_backend, clients_refused)},
    {"memory-refused", offsetof(struct smi_backend, memory_refused)},
    {"workers-lost", offsetof(struct smi_backend, workers_lost)},
    {"image-kept", offsetof(struct smi_backend, image_kept)},
    {"image-hits", offsetof(struct smi_backend, image_hits)},
    {"image-hit-bytes", offsetof(struct smi_backend, image_hit_bytes)},
    {"image-refused", offsetof(struct smi_backend, image_refused)},
    {"pool-ready", offsetof(struct smi_backend, pool_ready)},
    {"pool-target", offsetof(struct smi_backend, pool_target)},
    {"pool-misses", offsetof(struct smi_backend, pool_misses)},
    {NULL, 0},
};

static void take_words(const char *words, const struct known *known, void *to)
{
    unsigned long long value;
    char name[40];
    int n = 0;

    /* Bounded, since sscanf(3) scans to the end of the line each time. */
    for (unsigned i = 0; i < PAIRS_MAX && sscanf(words, " %39s %llu%n", name, &value, &n) == 2;
         i++, words += n) {
        for (const struct known *k = known; k->name; k++) {
            if (!strcmp(k->name, name))
                *(unsigned long long *)((char *)to + k->offset) = value;
        }
    }
}

static struct smi_client *client_of(const struct smi_backend *b, long worker)
{
    for (size_t i = 0; b && i < b->nclients; i++) {
        if (b->clients[i].worker == worker)
            return &b->clients[i];
    }
    return NULL;
}

static void take_line(struct smi_backend *b, const char *line)
{
    struct smi_client c = {.percent = -1}, *known;
    unsigned long long value;
    unsigned weight, cap;
    char name[40];
    long worker;
    int n = 0;

    if (sscanf(line, "limit %39s %llu", name, &value) == 2 && b->nlimits < SMI_LIMITS_MAX) {
        snprintf(b->limits[b->nlimits].name, sizeof(name), "%s", name);
        b->limits[b->nlimits++].value = value;
    } else if (sscanf(line, "client %ld %u %llu %127s", &c.worker, &c.guest, &c.memory, c.name) == 4) {
        if (b->nclients == SMI_CLIENTS_MAX)
            return;
        b->clients = realloc(b->clients, (b->nclients + 1) * sizeof(c));
        if (!b->clients)
            vgpu_cli_die("out of memory");
        b->clients[b->nclients++] = c;
    } else if (sscanf(line, "share %ld %u %u %llu", &worker, &weight, &cap, &value) == 4) {
        if ((known = client_of(b, worker))) {
            known->paced = true;
            known->weight = weight;
            known->cap = cap;
        }
    } else if (sscanf(line, "use %ld%n", &worker, &n) == 1 && n) {
        if ((known = client_of(b, worker)))
            take_words(line + n, of_use, &known->use);
    } else if (!strncmp(line, "vm ", 3)) {
        take_words(line + 3, of_use, &b->use);
        take_words(line + 3, of_vm, b);
    } else if (!strncmp(line, "device ", 7)) {
        snprintf(b->device, sizeof(b->device), "%s", line + 7);
    } else if (!strncmp(line, "name ", 5)) {
        snprintf(b->name, sizeof(b->name), "%s", line + 5);
    }
}

/* Parses a backend's text. False: not a backend's. */
static bool parse_backend(struct smi_backend *b, char *text)
{
    char *save = NULL;

    *b = (struct smi_backend){.percent = -1};
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (b->pid)
            take_line(b, line);
        else if (sscanf(line, "backend %ld %511s", &b->pid, b->where) != 2)
            return false;
    }
    return b->pid != 0;
}

/*
 * Processor time as a share of a single processor, percent, at most 100, as NVML reports it for the
 * software GPU.
 */
static int processor_percent(unsigned long long cpu_before, unsigned long long cpu, unsigned long long ms)
{
    unsigned long long n;

    if (!ms || cpu < cpu_before)
        return -1;
    n = (cpu - cpu_before) * 100 / ms;
    return n > 100 ? 100 : (int)n;
}

static void compare_with(struct smi_backend *b, const struct smi_status *before)
{
    for (size_t i = 0; before && i < before->count; i++) {
        const struct smi_backend *was = &before->backends[i];

        if (was->pid != b->pid || b->now_ms <= was->now_ms || !b->soft)
            continue;
        b->percent = processor_percent(was->use.cpu_ms, b->use.cpu_ms, b->now_ms - was->now_ms);
        for (size_t k = 0; k < b->nclients; k++) {
            const struct smi_client *c = client_of(was, b->clients[k].worker);

            if (c)
                b->clients[k].percent =
                    processor_percent(c->use.cpu_ms, b->clients[k].use.cpu_ms, b->now_ms - was->now_ms);
        }
    }
}

static bool has_process(const struct smi_status *s, long pid)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->backends[i].pid == pid)
            return true;
    }
    return false;
}

/* Adds a backend unless it is listed already: a backend may be found by two sockets. */
static void add_backend(struct smi_status *s, const struct question *q, char *text,
                        const struct smi_status *before)
{
    struct smi_backend b;

    if (!parse_backend(&b, text) || has_process(s, b.pid)) {
        free(b.clients);
        return;
    }
    if (b.pid != (long)q->who.pid) {
        refuse_backend(s, q->name, "it gives another process's id");
        free(b.clients);
        return;
    }
    smi_peer_name(q->name, &q->who, &b);
    compare_with(&b, before);
    s->backends = realloc(s->backends, (s->count + 1) * sizeof(b));
    if (!s->backends)
        vgpu_cli_die("out of memory");
    s->backends[s->count++] = b;
}

/* ---- backends that do not answer ---- */

/* Returns the process id in an abstract socket's name; 0: another name. */
static long named_pid(const char *name)
{
    char *end;
    long pid = strncmp(name, NAME, strlen(NAME)) == 0 ? strtol(name + strlen(NAME), &end, 10) : 0;

    return pid > 0 && *end == '\0' ? pid : 0;
}

/*
 * Any user may own a socket of this name: the process must match the name, and belong to a user
 * whose backends are shown.
 */
static bool is_believed(const struct question *q)
{
    char folder[32];
    struct stat st;
    long pid = named_pid(q->name);

    if (q->connected)
        return *q->name == '/' || pid == (long)q->who.pid;
    snprintf(folder, sizeof(folder), "/proc/%ld", pid);
    return *q->name == '/' || (pid && !stat(folder, &st) && (!geteuid() || st.st_uid == geteuid()));
}

static bool is_that(const struct question *q, const char *unit, long pid, const char *name)
{
    return *q->name == '/' ? strcmp(unit, name) == 0 : pid == named_pid(q->name);
}

/* Copies what is known of a backend from the last reading. */
static void mute_known(struct smi_mute *m, const struct question *q, const struct smi_status *before)
{
    for (size_t i = 0; before && i < before->count; i++) {
        const struct smi_backend *b = &before->backends[i];

        if (is_that(q, m->name, b->pid, b->name)) {
            *m = (struct smi_mute){.pid = b->pid};
            snprintf(m->name, sizeof(m->name), "%s", b->name);
            snprintf(m->where, sizeof(m->where), "%s", b->where);
        }
    }
    for (unsigned i = 0; before && i < before->nmutes; i++) {
        if (is_that(q, m->name, before->mutes[i].pid, before->mutes[i].name))
            *m = before->mutes[i];
    }
}

static bool mute_of(struct smi_mute *m, const struct question *q, const struct smi_status *before)
{
    *m = (struct smi_mute){.pid = q->connected ? (long)q->who.pid : named_pid(q->name)};
    if (*q->name == '/') {
        smi_peer_unit(q->name, m->name, sizeof(m->name));
        snprintf(m->where, sizeof(m->where), "%s", q->name);
    }
    mute_known(m, q, before);
    return is_believed(q);
}

static bool was_mute(const struct question *q, const struct smi_status *before)
{
    char unit[256] = "";

    if (*q->name == '/')
        smi_peer_unit(q->name, unit, sizeof(unit));
    for (unsigned i = 0; before && i < before->nmutes; i++) {
        if (is_that(q, unit, before->mutes[i].pid, before->mutes[i].name))
            return true;
    }
    return false;
}

static void add_mute(struct smi_status *s, const struct question *q, const struct smi_status *before)
{
    struct smi_mute m;

    if (!mute_of(&m, q, before) || s->nmutes == SMI_MUTES_MAX) {
        s->silent++;
        return;
    }
    /* A backend may be found by two sockets. */
    for (unsigned i = 0; i < s->nmutes; i++) {
        if (m.pid && s->mutes[i].pid == m.pid)
            return;
    }
    if (!s->mutes)
        s->mutes = vgpu_cli_alloc(SMI_MUTES_MAX * sizeof(*s->mutes));
    s->mutes[s->nmutes++] = m;
}

/* Sockets queried concurrently, so that a mute backend does not delay the answers of the rest. */
struct batch {
    struct question list[BATCH];
    unsigned n;
    char *text;
    const struct smi_status *before;
    long end;
};

/* Processes the answers that arrive within `ms`. False: no further ones are due. */
static bool batch_step(struct smi_status *s, struct batch *b, long ms)
{
    struct pollfd p[BATCH];
    bool full = false;
    unsigned waiting = 0;

    for (unsigned i = 0; i < b->n; i++) {
        struct question *q = &b->list[i];

        full |= q->fd >= 0 && !q->connected && !question_connect(s, q);
        p[i] = (struct pollfd){.fd = q->connected ? q->fd : -1, .events = POLLIN};
        waiting += p[i].fd >= 0;
    }
    if (!waiting && !full)
        return false;
    if (poll(p, b->n, (int)(full && ms > AGAIN_MS ? AGAIN_MS : ms)) <= 0)
        return true;
    for (unsigned i = 0; i < b->n; i++) {
        if (p[i].fd >= 0 && p[i].revents && question_end(s, &b->list[i], b->text, TEXT_MAX))
            add_backend(s, &b->list[i], b->text, b->before);
    }
    return true;
}

/* True if all pending sockets were mute at the last reading too. */
static bool batch_is_mute(const struct batch *b)
{
    for (unsigned i = 0; i < b->n; i++) {
        if (b->list[i].fd >= 0 && !b->list[i].mute)
            return false;
    }
    return true;
}

static void batch_ask(struct smi_status *s, struct batch *b)
{
    long begin = clk_now_ms(), until = begin + wait_ms(b->end), left;
    int fds[BATCH];
    size_t n = 0;

    do {
        left = (batch_is_mute(b) ? begin + WAIT_MUTE_MS : until) - clk_now_ms();
    } while (left > 0 && batch_step(s, b, left));
    for (unsigned i = 0; i < b->n; i++) {
        if (b->list[i].fd < 0)
            continue;
        fds[n++] = b->list[i].fd;
        add_mute(s, &b->list[i], b->before);
    }
    vgpu_cli_close_foreign(fds, n);
    b->n = 0;
}

static void batch_add(struct smi_status *s, struct batch *b, const char *name)
{
    if (question_begin(s, &b->list[b->n], name)) {
        b->list[b->n].mute = was_mute(&b->list[b->n], b->before);
        b->n++;
    }
    if (b->n == BATCH)
        batch_ask(s, b);
}

void smi_status_read(struct smi_status *s, const struct smi_status *before)
{
    struct batch *b = vgpu_cli_alloc(sizeof(*b));
    char line[600];
    FILE *sockets;
    glob_t found;

    *s = (struct smi_status){.count = 0};
    *b = (struct batch){.text = vgpu_cli_alloc(TEXT_MAX), .before = before, .end = clk_now_ms() + WAITS_MS};
    /*
     * Units of systemd have a network namespace of their own. They come first: no user can add to
     * them.
     */
    if (!glob(PATHS, GLOB_NOSORT, NULL, &found)) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            batch_add(s, b, found.gl_pathv[i]);
        batch_ask(s, b);
        globfree(&found);
    }
    sockets = fopen("/proc/net/unix", "re");
    while (sockets && fgets(line, sizeof(line), sockets)) {
        char *name = strstr(line, "@" NAME);

        /* Only listening sockets: their connections have the same name. */
        if (!name || !strstr(line, " 00010000 "))
            continue;
        name[strcspn(name, "\n")] = '\0';
        batch_add(s, b, name + 1);
    }
    if (sockets)
        fclose(sockets);
    batch_ask(s, b);
    free(b->text);
    free(b);
}

void smi_status_free(struct smi_status *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->backends[i].clients);
    free(s->backends);
    free(s->mutes);
    *s = (struct smi_status){.count = 0};
}

const char *smi_mute_name(const struct smi_mute *m)
{
    return *m->name ? m->name : "-";
}

unsigned long long smi_status_limit(const struct smi_backend *b, const char *name)
{
    for (unsigned i = 0; i < b->nlimits; i++) {
        if (!strcmp(b->limits[i].name, name))
            return b->limits[i].value;
    }
    return 0;
}

unsigned long long smi_status_memory(const struct smi_backend *b)
{
    unsigned long long quota = smi_status_limit(b, "vram-quota");

    return quota && (!b->gpu_memory || quota < b->gpu_memory) ? quota : b->gpu_memory;
}

unsigned long long smi_status_used(const struct smi_backend *b)
{
    unsigned long long sum = 0;

    for (size_t i = 0; i < b->nclients; i++) {
        if (__builtin_add_overflow(sum, b->clients[i].memory, &sum))
            return ~0ull;
    }
    return sum;
}
