/* SPDX-License-Identifier: MIT */
/* vgpu ctl: reads and changes limits and shares of a running backend, over its control socket. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/vgpu_cli.h"

#define REQUEST_MAX 256 /* limit of the backend (host/backend/broker/main/brk_control.c) */

static void ctl_help(void)
{
    printf(
        "usage: vgpu ctl --socket PATH get [NAME] [client PID]\n"
        "       vgpu ctl --socket PATH set NAME VALUE [client PID]\n"
        "\n"
        "Limits and shares of a running vgpu-backend that was started with --control PATH. NAME is that of an\n"
        "option without its dashes (vram-quota, max-clients, client-weight, ...; `get` lists them all), VALUE\n"
        "what the option takes. PID is the worker of one client, as `vgpu smi --host` shows it; without one,\n"
        "a value holds for all clients. `set` prints the value and what it was. A limit below what is in use takes nothing away: it refuses what is\n"
        "new.\n"
        "\n"
        "  -s, --socket PATH   the control socket of the backend\n"
        "  -h, --help          this text\n"
        "\n"
        "Exit status: 0; 1 the backend refused, and says why; 2 wrong use; 125 nobody answers.\n");
}

#define ANSWER_MAX (1 << 16)

/* Returns the backend's answer, to be freed. */
static char *ask_backend(const char *path, const char *request)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = 10}, connect_limit = {.tv_sec = 2};
    char *answer = vgpu_cli_alloc(ANSWER_MAX);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ssize_t n = -1;

    if (strlen(path) >= sizeof(a.sun_path))
        vgpu_cli_wrong("%s: the path is too long for a socket", path);
    memcpy(a.sun_path, path, strlen(path) + 1);
    /* Time limit of connect() to a socket with a full queue. */
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &connect_limit, sizeof(connect_limit));
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)))
        vgpu_cli_die("%s: %s; was the backend started with --control?", path, strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (send(fd, request, strlen(request), MSG_NOSIGNAL) >= 0)
        n = vgpu_cli_recv_foreign(fd, answer, ANSWER_MAX - 1, 0);
    vgpu_cli_close_foreign(&fd, 1);
    if (n <= 0)
        vgpu_cli_die("%s: the backend does not answer", path);
    answer[n] = '\0';
    vgpu_cli_harmless(answer);
    return answer;
}

static bool is_ok(const char *answer)
{
    return strncmp(answer, "ok\n", 3) == 0;
}

static int print_answer(const char *answer)
{
    if (is_ok(answer)) {
        fputs(answer + 3, stdout);
        return 0;
    }
    vgpu_cli_say("%.*s", (int)strcspn(answer, "\n"),
                 strncmp(answer, "error: ", 7) == 0 ? answer + 7 : answer);
    return 1;
}

/* Prints the first line after "ok", which is "NAME VALUE". */
static void show_value(FILE *f, const char *answer)
{
    const char *value = is_ok(answer) ? strchr(answer + 3, ' ') : NULL;

    if (value)
        fprintf(f, "%.*s", (int)strcspn(value + 1, "\n"), value + 1);
    else
        fputc('?', f);
}

/* Sets a value and prints the new and the old value. */
static int set_option(const char *path, const char *request, const char *name, const char *get)
{
    char *before = ask_backend(path, get), *answer = ask_backend(path, request), *after;

    if (!is_ok(answer))
        return print_answer(answer);
    after = ask_backend(path, get);
    printf("%s ", name);
    show_value(stdout, after);
    printf(" (was ");
    show_value(stdout, before);
    printf(")\n");
    free(before);
    free(answer);
    free(after);
    return 0;
}

/* Joins the words of a request; `left_out`: index of a word to omit, or -1. */
static char *join_words(char **word, int n, int left_out)
{
    char *text = vgpu_cli_format("%s", ""), *more;

    for (int i = 0; i < n; i++) {
        if (i == left_out)
            continue;
        more = vgpu_cli_format("%s%s%s", text, i ? " " : "", word[i]);
        free(text);
        text = more;
    }
    if (strlen(text) > REQUEST_MAX)
        vgpu_cli_wrong("ctl: a request is at most %d characters", REQUEST_MAX);
    return text;
}

static bool is_name(const char *word)
{
    return *word && *word != '-' && word[strspn(word, "abcdefghijklmnopqrstuvwxyz-")] == '\0';
}

/*
 * Checks the form that the backend accepts (host/backend/broker/main/brk_control.c); the backend itself
 * checks NAME and VALUE.
 */
static void check_form(char **word, int n)
{
    bool get = strcmp(word[0], "get") == 0, set = strcmp(word[0], "set") == 0;
    const char *pid;

    if (!get && !set)
        vgpu_cli_wrong("ctl: '%s' is neither get nor set; see `vgpu ctl --help`", word[0]);
    if (n >= 3 && strcmp(word[n - 2], "client") == 0) {
        pid = word[n - 1];
        if (!*pid || pid[strspn(pid, "0123456789")])
            vgpu_cli_wrong("ctl: client '%s' is not the process id of a worker; see `vgpu ctl --help`", pid);
        n -= 2;
    }
    if (set && n == 2 && strchr(word[1], '='))
        vgpu_cli_wrong("ctl: set takes NAME VALUE, without '='; see `vgpu ctl --help`");
    if (get ? n > 2 : n != 3)
        vgpu_cli_wrong("ctl: %s; see `vgpu ctl --help`",
                       get ? "get takes [NAME] [client PID]" : "set takes NAME VALUE [client PID]");
    if (n > 1 && !is_name(word[1]))
        vgpu_cli_wrong("ctl: '%s' is not the name of a limit; see `vgpu ctl --help`", word[1]);
}

int vgpu_cli_ctl(int argc, char **argv)
{
    static const struct option options[] = {
        {"socket", required_argument, NULL, 's'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    const char *path = NULL;
    char *request;
    int c;

    while ((c = vgpu_cli_getopt("ctl", argc, argv, "+s:h", options)) != -1) {
        if (c == 'h') {
            ctl_help();
            return 0;
        }
        path = optarg;
    }
    if (!path || optind == argc) {
        vgpu_cli_say("ctl: --socket PATH and get or set are needed; see `vgpu ctl --help`");
        return 2;
    }
    request = join_words(argv + optind, argc - optind, -1);
    check_form(argv + optind, argc - optind);
    if (strcmp(argv[optind], "set") == 0) {
        char *get = join_words(argv + optind, argc - optind, 2);

        get[0] = 'g'; /* "set NAME client PID" to "get ..." */
        return set_option(path, request, argv[optind + 1], get);
    }
    return print_answer(ask_backend(path, request));
}
