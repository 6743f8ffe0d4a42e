/* SPDX-License-Identifier: MIT */
/* vgpu ctl: reads and changes the limits and shares of a running backend, over its control socket. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/vgpu_cli.h"

#define REQUEST_MAX 256 /* of the backend (host/backend/broker/main/control.c) */

static void help(void)
{
    printf(
        "usage: vgpu ctl --socket PATH get [NAME] [client PID]\n"
        "       vgpu ctl --socket PATH set NAME VALUE [client PID]\n"
        "\n"
        "Limits and shares of a running vgpu-backend that was started with --control PATH. NAME is that of an\n"
        "option without its dashes (vram-quota, max-clients, client-weight, ...; `get` lists them all), VALUE\n"
        "what the option takes. PID is the worker of one client, as `vgpu smi --host` shows it; without one,\n"
        "a value holds for all clients. A limit below what is in use takes nothing away: it refuses what is\n"
        "new.\n"
        "\n"
        "  -s, --socket PATH   the control socket of the backend\n"
        "  -h, --help          this text\n"
        "\n"
        "Exit status: 0; 1 the backend refused, and says why; 2 wrong use; 125 nobody answers.\n");
}

static int ask(const char *path, const char *request)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = 10}, connect_limit = {.tv_sec = 2};
    static char answer[1 << 16];
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ssize_t n = -1;

    if (strlen(path) >= sizeof(a.sun_path))
        vgpu_cli_die("%s: the path is too long for a socket", path);
    memcpy(a.sun_path, path, strlen(path) + 1);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &connect_limit, sizeof(connect_limit)); /* its queue is full */
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)))
        vgpu_cli_die("%s: %s; was the backend started with --control?", path, strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (send(fd, request, strlen(request), MSG_NOSIGNAL) >= 0)
        n = recv(fd, answer, sizeof(answer) - 1, 0);
    close(fd);
    if (n <= 0)
        vgpu_cli_die("%s: the backend does not answer", path);
    answer[n] = '\0';
    vgpu_cli_harmless(answer);
    if (strncmp(answer, "ok\n", 3) == 0) {
        fputs(answer + 3, stdout);
        return 0;
    }
    vgpu_cli_say("%s", strncmp(answer, "error: ", 7) == 0 ? answer + 7 : answer);
    return 1;
}

int vgpu_cli_ctl(int argc, char **argv)
{
    static const struct option options[] = {
        {"socket", required_argument, NULL, 's'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    const char *path = NULL;
    char request[REQUEST_MAX + 1] = "";
    size_t used = 0;
    int c;

    while ((c = getopt_long(argc, argv, "+s:h", options, NULL)) != -1) {
        if (c == 'h') {
            help();
            return 0;
        }
        if (c != 's')
            return 2;
        path = optarg;
    }
    if (!path || optind == argc) {
        vgpu_cli_say("ctl: --socket PATH and get or set are needed; see `vgpu ctl --help`");
        return 2;
    }
    for (int i = optind; i < argc; i++) {
        int n = snprintf(request + used, sizeof(request) - used, "%s%s", i > optind ? " " : "", argv[i]);

        if (n < 0 || (size_t)n >= sizeof(request) - used) {
            vgpu_cli_say("ctl: a request is at most %d characters", REQUEST_MAX);
            return 2;
        }
        used += (size_t)n;
    }
    return ask(path, request);
}
