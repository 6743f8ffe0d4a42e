/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

const char *soft_provider(void)
{
    static char path[PATH_MAX];
    const char *base = getenv("BACKEND_DIR");

    snprintf(path, sizeof(path), "%s/../softgpu/libcuda-soft.so.1", base ? base : ".");
    return path;
}

int broker_start(struct broker *b, const char *const *extra)
{
    const char *base = getenv("BACKEND_DIR");
    char exe[600], prov[600], fdnum[16], line[16] = "";
    const char *argv[32];
    int p[2], n = 0;

    snprintf(b->dir, sizeof(b->dir), "/tmp/vgb-test-XXXXXX");
    if (!base || !mkdtemp(b->dir) || pipe2(p, O_CLOEXEC))
        return -1;
    snprintf(b->sock, sizeof(b->sock), "%s/s", b->dir);
    snprintf(exe, sizeof(exe), "%s/vgpu-backend", base);
    snprintf(prov, sizeof(prov), "%s/tests/libtestprov.so", base);
    snprintf(fdnum, sizeof(fdnum), "%d", p[1]);
    argv[n++] = exe;
    if (!extra || !extra[0] || strcmp(extra[0], "--vhost-user")) {
        argv[n++] = "--listen";
        argv[n++] = b->sock;
    }
    argv[n++] = "--provider";
    argv[n++] = prov;
    argv[n++] = "--ready-fd";
    argv[n++] = fdnum;
    argv[n++] = "--log-level";
    argv[n++] = getenv("V") ? "debug" : "error";
    for (; extra && *extra && n < 31; extra++)
        argv[n++] = strcmp(*extra, "SOCKET") ? *extra : b->sock;
    argv[n] = NULL;
    b->pid = fork();
    if (!b->pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nothing that holds its output open */
        fcntl(p[1], F_SETFD, 0);
        execv(exe, (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    close(p[1]);
    struct pollfd pf = {.fd = p[0], .events = POLLIN};
    int ok = poll(&pf, 1, 60000) == 1 && read(p[0], line, sizeof(line) - 1) == 6;
    close(p[0]);
    return ok ? 0 : -1;
}

int broker_start_logged(struct broker *b, const char *log, const char *const *more)
{
    const char *extra[16] = {"--log-level", "info", "--log", log};

    for (unsigned n = 4; more && *more && n < 15; n++)
        extra[n] = *more++;
    memset(b, 0, sizeof(*b));
    return broker_start(b, extra);
}

bool file_has(const char *path, const char *text)
{
    FILE *f = fopen(path, "r");
    char line[900];
    bool found = false;

    while (f && fgets(line, sizeof(line), f))
        found |= strstr(line, text) != NULL;
    if (f)
        fclose(f);
    return found;
}

const char *control_ask(const char *path, const void *request, size_t size)
{
    static char answer[8192];
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = 60};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ssize_t n;

    snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (connect(fd, (struct sockaddr *)&a, sizeof(a)) ||
        send(fd, request, size, MSG_NOSIGNAL) != (ssize_t)size) {
        close(fd);
        return NULL;
    }
    n = recv(fd, answer, sizeof(answer) - 1, 0);
    close(fd);
    answer[n > 0 ? n : 0] = '\0';
    return answer;
}

ssize_t broker_status(pid_t broker, char *text, size_t room)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int n = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "vgpu-backend.status.%d", (int)broker);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct timeval limit = {.tv_sec = 20};
    ssize_t got = -1;

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (!connect(fd, (struct sockaddr *)&a,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)))
        got = recv(fd, text, room - 1, 0);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got;
}

/* NULL where all is given back, or what is not. */
static const char *held(char *text)
{
    char *used = strstr(text, " vram-used ");

    if (strstr(text, "\nbooks clients 0 ending 0 regions 0 shares 0 even\n") && used &&
        !strncmp(used, " vram-used 0 pin-used 0 blob-used 0 ", 36))
        return NULL;
    if (used)
        used[strcspn(used, "\n")] = '\0';
    return used ? used : "no line of quotas";
}

const char *broker_books(pid_t broker)
{
    static char text[131072];
    unsigned clients = 0, ending = 1;
    char *line = NULL;

    /* A worker that was killed is reaped soon: what it had is given back then. */
    for (int i = 0; i < 1000 && ending; i++) {
        if (i)
            usleep(10000);
        if (broker_status(broker, text, sizeof(text)) <= 0)
            return NULL; /* it has ended, or been stopped, by the test */
        line = strstr(text, "\nbooks ");
        if (!line || sscanf(line, "\nbooks clients %u ending %u", &clients, &ending) != 2)
            return "no line of books";
    }
    char *end = line + 1 + strcspn(line + 1, "\n");
    if (ending || strncmp(end - 5, " even", 5)) {
        *end = '\0';
        return line + 1;
    }
    return clients ? NULL : held(text);
}

int broker_stop(struct broker *b)
{
    const char *books = b->pid > 0 ? broker_books(b->pid) : NULL;
    int status = b->pid > 0 ? -1 : 0;

    if (b->pid > 0) {
        kill(b->pid, SIGTERM);
        waitpid(b->pid, &status, 0);
    }
    unlink(b->sock);
    rmdir(b->dir);
    b->pid = 0;
    if (books)
        fail_msg("the broker's accounts: %s", books);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int broker_end(struct broker *b, int ms)
{
    int status = -1;

    kill(b->pid, SIGTERM);
    for (int i = 0; i < ms; i += 10) {
        if (waitpid(b->pid, &status, WNOHANG) == b->pid) {
            b->pid = 0;
            return access(b->sock, F_OK) && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        }
        usleep(10000);
    }
    return -1;
}

/* Children of the broker, with their name and state; a worker's mapper is one of them. */
static unsigned children_of(pid_t broker, bool (*is)(const char *stat, char state), pid_t *out, unsigned n)
{
    DIR *d = opendir("/proc");
    struct dirent *e;
    unsigned found = 0;

    while (d && (e = readdir(d))) {
        char path[300], buf[512], state;
        int ppid;
        long pid = atol(e->d_name);

        if (pid <= 0)
            continue;
        snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
        int fd = open(path, O_RDONLY);
        ssize_t len = fd >= 0 ? read(fd, buf, sizeof(buf) - 1) : -1;
        if (fd >= 0)
            close(fd);
        if (len <= 0)
            continue;
        buf[len] = 0;
        char *p = strrchr(buf, ')');
        if (p && sscanf(p + 2, "%c %d", &state, &ppid) == 2 && ppid == broker && is(buf, state)) {
            if (found < n)
                out[found] = (pid_t)pid;
            found++;
        }
    }
    if (d)
        closedir(d);
    return found;
}

static bool is_worker(const char *stat, char state)
{
    return state != 'Z' && !strstr(stat, "(vgpu-mapper)");
}

static bool is_mapper(const char *stat, char state)
{
    return state != 'Z' && strstr(stat, "(vgpu-mapper)");
}

static bool is_stray(const char *stat, char state)
{
    (void)state;
    return strstr(stat, "(stray)");
}

unsigned workers_of(pid_t broker, pid_t *out, unsigned n)
{
    return children_of(broker, is_worker, out, n);
}

unsigned mappers_of(pid_t broker, pid_t *out, unsigned n)
{
    return children_of(broker, is_mapper, out, n);
}

unsigned strays_of(pid_t broker)
{
    return children_of(broker, is_stray, NULL, 0);
}

pid_t worker_of_client(pid_t broker)
{
    pid_t list[32];
    unsigned n = workers_of(broker, list, 32);

    for (unsigned i = 0; i < n && i < 32; i++) {
        char path[64], line[400];
        bool found = false;

        snprintf(path, sizeof(path), "/proc/%d/comm", (int)list[i]);
        FILE *f = fopen(path, "r");
        while (f && fgets(line, sizeof(line), f))
            found |= strncmp(line, "vgpu-worker:", 12) == 0;
        if (f)
            fclose(f);
        if (found)
            return list[i];
    }
    return 0;
}

bool gone_within(pid_t pid, int ms)
{
    while (ms > 0 && !kill(pid, 0)) {
        usleep(10000);
        ms -= 10;
    }
    return kill(pid, 0) != 0;
}

bool no_data_limits(const char *test)
{
#ifdef __SANITIZE_ADDRESS__
    printf("not run: %s: AddressSanitizer's own memory is beyond any limit of a worker's data\n", test);
    return true;
#else
    (void)test;
    return false;
#endif
}
