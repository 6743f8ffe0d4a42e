/* SPDX-License-Identifier: MIT */
/* vgpu smi --host: the backends of this host, their workers, and whose processes in the guests those serve. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "smi/smi.h"

#define NAME \
    "vgpu-backend.status." /* and the process id: an abstract socket (host/backend/broker/status.c) */

/* One backend's text; false: it does not tell this user, or is gone. */
static bool ask(const char *name, char *text, size_t room)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = 5};
    size_t n = strlen(name);
    ssize_t got = -1;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd < 0 || n >= sizeof(a.sun_path) - 1) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    memcpy(a.sun_path + 1, name, n);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (!connect(fd, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)))
        got = recv(fd, text, room - 1, 0);
    close(fd);
    if (got <= 0)
        return false;
    text[got] = '\0';
    return true;
}

/* "name value", with the sizes among them in MiB; how many characters the line has then. */
static unsigned print_limit(unsigned used, const char *name, unsigned long long value)
{
    bool size = strstr(name, "quota") || strstr(name, "memory") || strstr(name, "printf");
    const char *before = !used ? "    limits: " : used > 90 ? ",\n            " : ", ";
    int n = size && value % 1048576 == 0 ? printf("%s%s %lluM", before, name, value >> 20)
                                         : printf("%s%s %llu", before, name, value);

    return used > 90 ? (unsigned)n : used + (unsigned)n;
}

static void print_backend(char *text)
{
    unsigned clients = 0, used = 0;

    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        unsigned long long memory;
        unsigned guest, weight, cap;
        char where[4300];
        long pid;

        if (sscanf(line, "limit %4299s %llu", where, &memory) == 2) {
            /* All on a line, behind the backend's. */
            if (memory)
                used = print_limit(used, where, memory);
            continue;
        }
        if (used)
            printf("\n");
        used = 0;
        if (sscanf(line, "backend %ld %4299s", &pid, where) == 2) {
            printf("backend %ld: %s\n", pid, where);
        } else if (sscanf(line, "client %ld %u %llu %4299s", &pid, &guest, &memory, where) == 4) {
            printf("    worker %ld: guest process %u, %s, %llu MiB\n", pid, guest, where, memory >> 20);
            clients++;
        } else if (sscanf(line, "share %ld %u %u %llu", &pid, &weight, &cap, &memory) == 4) {
            printf("        weight %u, cap %u %%, processor time %llu.%03llu s\n", weight, cap, memory / 1000,
                   memory % 1000);
        }
    }
    if (used)
        printf("\n");
    if (!clients)
        printf("    no guest process\n");
}

int smi_host(void)
{
    static char text[1 << 16];
    FILE *sockets = fopen("/proc/net/unix", "r");
    unsigned found = 0, silent = 0;
    char line[600];

    while (sockets && fgets(line, sizeof(line), sockets)) {
        char *name = strstr(line, "@" NAME), *flags = strchr(line, ' ');

        /* The one that listens: connections have the same name. */
        if (!name || !flags || !strstr(line, " 00010000 "))
            continue;
        name[strcspn(name, "\n")] = '\0';
        if (ask(name + 1, text, sizeof(text))) {
            print_backend(text);
            found++;
        } else {
            silent++;
        }
    }
    if (sockets)
        fclose(sockets);
    if (silent)
        printf("%u backends of other users are not shown\n", silent);
    else if (!found)
        printf("no vgpu-backend runs on this host\n");
    return 0;
}
