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

#define NAME "vgpu-backend.status." /* and the process id: an abstract socket (host/backend/broker/status.c) */

/* One backend's text; false: it does not tell this user, or is gone. */
static bool ask(const char *name, char *text, size_t room)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    struct timeval limit = { .tv_sec = 5 };
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

static void print_backend(char *text)
{
    unsigned clients = 0;

    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        unsigned long long memory;
        unsigned guest;
        char where[4300];
        long pid;

        if (sscanf(line, "backend %ld %4299s", &pid, where) == 2) {
            printf("backend %ld: %s\n", pid, where);
        } else if (sscanf(line, "client %ld %u %llu %4299s", &pid, &guest, &memory, where) == 4) {
            printf("    worker %ld: guest process %u, %s, %llu MiB\n", pid, guest, where, memory >> 20);
            clients++;
        }
    }
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
