/* SPDX-License-Identifier: MIT */
/* Reads the status of the backends. Names in it are a guest's words: the backend has made them harmless for a terminal. */
#include "smi/status.h"

#include <glob.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/vgpu_cli.h"
#include "smi/peer.h"

#define NAME \
    "vgpu-backend.status." /* and the process id: an abstract socket (host/backend/broker/clients/status.c) */
#define PATHS SMI_PEER_UNITS "/*/status" /* --status, as packaging/systemd has it */
#define TEXT_MAX (256u << 10)
#define WAIT_MS 5000   /* for one backend */
#define WAITS_MS 10000 /* for all of them: sockets that nobody serves keep no reader for long */
#define WAIT_LEAST_MS 50

static long now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static struct timeval wait_until(long end)
{
    long ms = end - now_ms();

    ms = ms > WAIT_MS ? WAIT_MS : ms < WAIT_LEAST_MS ? WAIT_LEAST_MS : ms;
    return (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
}

static void refuse(struct smi_status *s, const char *name, const char *why)
{
    char *text;

    if (s->refused++ >= SMI_REFUSED_MAX)
        return;
    text = s->refusals[s->refused - 1];
    snprintf(text, sizeof(s->refusals[0]), "%.120s: %s", name, why);
    for (char *c = text; *c; c++)
        *c = (char)((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f ? '?' : *c);
}

/* One backend's text; false: it does not tell this user, is not believed, or is gone. name: of the abstract socket, or a
 * path. end: when all are to have answered. */
static bool ask(struct smi_status *s, const char *name, char *text, size_t room, struct ucred *who, long end)
{
    bool abstract = *name != '/';
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct timeval limit = wait_until(end);
    size_t n = strlen(name);
    const char *wrong = NULL;
    uid_t owner = 0;
    ssize_t got = -1;
    int fd;

    if (!abstract && (wrong = smi_peer_file(name, &owner))) {
        refuse(s, name, wrong);
        return false;
    }
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || n >= sizeof(a.sun_path) - 1) {
        if (fd >= 0)
            close(fd);
        s->silent++;
        return false;
    }
    memcpy(a.sun_path + abstract, name, n);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)); /* of connect(): its queue is full */
    if (!connect(fd, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)) &&
        smi_peer_known(fd, who)) {
        if (!abstract && who->uid != owner && who->uid)
            wrong = "its folder's user does not listen there";
        else if (!abstract || !smi_peer_others(who))
            got = vgpu_cli_recv_foreign(fd, text, room - 1, 0);
    }
    vgpu_cli_close_foreign(fd);
    if (wrong)
        refuse(s, name, wrong);
    else if (got <= 0)
        s->silent++;
    if (got <= 0)
        return false;
    text[got] = '\0';
    /* Anybody may have made a socket of such a name: words for a terminal and for labels, no more. */
    for (ssize_t i = 0; i < got; i++) {
        if (((unsigned char)text[i] < 0x20 && text[i] != '\n') || (unsigned char)text[i] >= 0x7f)
            text[i] = '?';
    }
    return true;
}

/* "NAME VALUE NAME VALUE ...": those that are known. */
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
    {NULL, 0},
};

static void take(const char *words, const struct known *known, void *to)
{
    unsigned long long value;
    char name[40];
    int n = 0;

    for (; sscanf(words, " %39s %llu%n", name, &value, &n) == 2; words += n) {
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
            take(line + n, of_use, &known->use);
    } else if (!strncmp(line, "vm ", 3)) {
        take(line + 3, of_use, &b->use);
        take(line + 3, of_vm, b);
    } else if (!strncmp(line, "device ", 7)) {
        snprintf(b->device, sizeof(b->device), "%s", line + 7);
    } else if (!strncmp(line, "name ", 5)) {
        snprintf(b->name, sizeof(b->name), "%s", line + 5);
    }
}

/* False: it does not say that it is a backend. */
static bool parse(struct smi_backend *b, char *text)
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

/* As NVML has it for the software GPU: processor time, as a share of one processor, at most 100. */
static int percent(unsigned long long cpu_before, unsigned long long cpu, unsigned long long ms)
{
    unsigned long long n;

    if (!ms || cpu < cpu_before)
        return -1;
    n = (cpu - cpu_before) * 100 / ms;
    return n > 100 ? 100 : (int)n;
}

static void compare(struct smi_backend *b, const struct smi_status *before)
{
    for (size_t i = 0; before && i < before->count; i++) {
        const struct smi_backend *was = &before->backends[i];

        if (was->pid != b->pid || b->now_ms <= was->now_ms || !b->soft)
            continue;
        b->percent = percent(was->use.cpu_ms, b->use.cpu_ms, b->now_ms - was->now_ms);
        for (size_t k = 0; k < b->nclients; k++) {
            const struct smi_client *c = client_of(was, b->clients[k].worker);

            if (c)
                b->clients[k].percent =
                    percent(c->use.cpu_ms, b->clients[k].use.cpu_ms, b->now_ms - was->now_ms);
        }
    }
}

static bool has(const struct smi_status *s, long pid)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->backends[i].pid == pid)
            return true;
    }
    return false;
}

/* Unless it is there: a backend may be found in two ways. */
static void add(struct smi_status *s, const char *name, char *text, const struct smi_status *before, long end)
{
    struct smi_backend b;
    struct ucred who;

    if (!ask(s, name, text, TEXT_MAX, &who, end))
        return;
    if (!parse(&b, text) || has(s, b.pid)) {
        free(b.clients);
        return;
    }
    if (b.pid != (long)who.pid) {
        refuse(s, name, "it gives another process's id");
        free(b.clients);
        return;
    }
    smi_peer_name(name, &who, &b);
    compare(&b, before);
    s->backends = realloc(s->backends, (s->count + 1) * sizeof(b));
    if (!s->backends)
        vgpu_cli_die("out of memory");
    s->backends[s->count++] = b;
}

void smi_status_read(struct smi_status *s, const struct smi_status *before)
{
    char *text = vgpu_cli_alloc(TEXT_MAX), line[600];
    long end = now_ms() + WAITS_MS;
    FILE *sockets;
    glob_t found;

    *s = (struct smi_status){.count = 0};
    /* Those of systemd's units have a network namespace of their own. They come first: no user can add to them. */
    if (!glob(PATHS, GLOB_NOSORT, NULL, &found)) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            add(s, found.gl_pathv[i], text, before, end);
        globfree(&found);
    }
    sockets = fopen("/proc/net/unix", "re");
    while (sockets && fgets(line, sizeof(line), sockets)) {
        char *name = strstr(line, "@" NAME);

        /* The one that listens: connections have the same name. */
        if (!name || !strstr(line, " 00010000 "))
            continue;
        name[strcspn(name, "\n")] = '\0';
        add(s, name + 1, text, before, end);
    }
    if (sockets)
        fclose(sockets);
    free(text);
}

void smi_status_free(struct smi_status *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->backends[i].clients);
    free(s->backends);
    *s = (struct smi_status){.count = 0};
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
