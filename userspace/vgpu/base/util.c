/* SPDX-License-Identifier: MIT */
/* Messages, memory, strings. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../../lib/terminal/terminal.h"
#include "base/vgpu_cli.h"
#include "../../../lib/clock/clock.h"

bool vgpu_cli_verbose;

void vgpu_cli_harmless(char *text)
{
    trm_harmless(text, "\n\t");
}

static void to_stderr(const char *text, size_t size)
{
    fwrite(text, 1, size, stderr);
}

void (*vgpu_cli_print)(const char *text, size_t size) = to_stderr;

static void say_v(const char *fmt, va_list ap)
{
    char text[4096] = "vgpu: ";
    const size_t begin = strlen(text);

    vsnprintf(text + begin, sizeof(text) - begin - 1, fmt, ap);
    vgpu_cli_harmless(text); /* the text may contain words of a guest or backend */
    strcat(text, "\n");
    /* A single write, so that lines of several processes do not mix. */
    vgpu_cli_print(text, strlen(text));
}

void vgpu_cli_say(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say_v(fmt, ap);
    va_end(ap);
}

void vgpu_cli_wrong(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say_v(fmt, ap);
    va_end(ap);
    vgpu_cli_cleanup();
    exit(VGPU_CLI_USAGE);
}

void vgpu_cli_die(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say_v(fmt, ap);
    va_end(ap);
    vgpu_cli_cleanup();
    exit(VGPU_CLI_FAILED);
}

int vgpu_cli_getopt(const char *command, int argc, char **argv, const char *shorts,
                    const struct option *options)
{
    static char name[] = "vgpu"; /* program name in getopt's own messages */
    int option;

    argv[0] = name;
    option = getopt_long(argc, argv, shorts, options, NULL);
    if (option == '?')
        vgpu_cli_wrong("see `vgpu %s --help`", command);
    return option;
}

bool vgpu_cli_output_done(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    vgpu_cli_say("standard output cannot be written%s%s", errno ? ": " : "", errno ? strerror(errno) : "");
    return false;
}

int vgpu_cli_create(const char *option, const char *path)
{
    bool system = strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0;
    /* O_NONBLOCK: a guest that may write to the folder could have put a FIFO there, and the open would
     * wait for a reader, in vgpu with all signals blocked. */
    int fd = open(
        path, O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY | O_CLOEXEC | (system ? 0 : O_NOFOLLOW | O_NONBLOCK),
        0666);

    if (fd < 0)
        vgpu_cli_die("%s %s: %s", option, path,
                     errno == ELOOP   ? "it is a link, which is not written through"
                     : errno == ENXIO ? "it is a FIFO or device that no program reads"
                                      : strerror(errno));
    if (!system && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK))
        vgpu_cli_die("%s %s: %s", option, path, strerror(errno));
    return fd;
}

void *vgpu_cli_alloc(size_t size)
{
    void *p = calloc(1, size ? size : 1);

    if (!p)
        vgpu_cli_die("out of memory");
    return p;
}

char *vgpu_cli_format(const char *fmt, ...)
{
    char *text;
    va_list ap;

    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        vgpu_cli_die("out of memory");
    va_end(ap);
    return text;
}

int64_t vgpu_cli_now_ms(void)
{
    return clk_now_ms();
}

void vgpu_cli_show_tail(const char *path, int lines)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    char buf[8193];
    ssize_t got;
    size_t n;
    char *p;

    if (fd < 0)
        return;
    /* With --verbose the path is vgpu's own output, and reading a pipe would never end. */
    got = fstat(fd, &st) == 0 && S_ISREG(st.st_mode)
              ? pread(fd, buf, sizeof(buf) - 1, st.st_size > 8192 ? st.st_size - 8192 : 0)
              : -1;
    close(fd);
    if (got <= 0)
        return;
    n = (size_t)got;
    while (n && (buf[n - 1] == '\n' || buf[n - 1] == '\r'))
        n--;
    buf[n] = 0;
    for (p = buf + n; p > buf; p--) {
        if (*p == '\n' && --lines == 0) {
            p++;
            break;
        }
    }
    for (char *save = NULL, *line = strtok_r(p, "\r\n", &save); line; line = strtok_r(NULL, "\r\n", &save)) {
        char *shown = vgpu_cli_format("    %s\n", (vgpu_cli_harmless(line), line));

        vgpu_cli_print(shown, strlen(shown));
        free(shown);
    }
}

long vgpu_cli_number(const char *option, const char *text, long low, long high)
{
    char *end;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < low || value > high)
        vgpu_cli_wrong("%s: '%s' is not a number from %ld to %ld", option, text, low, high);
    return value;
}

void vgpu_cli_add(struct vgpu_cli_list *list, const char *fmt, ...)
{
    va_list ap;

    if (list->count + 2 > list->room) {
        list->room = list->room ? 2 * list->room : 32;
        list->items = realloc(list->items, list->room * sizeof(*list->items));
        if (!list->items)
            vgpu_cli_die("out of memory");
    }
    va_start(ap, fmt);
    if (vasprintf(&list->items[list->count], fmt, ap) < 0)
        vgpu_cli_die("out of memory");
    va_end(ap);
    list->items[++list->count] = NULL;
}

static char **find_env(const struct vgpu_cli_list *env, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < env->count; i++) {
        if (strncmp(env->items[i], name, len) == 0 && env->items[i][len] == '=')
            return &env->items[i];
    }
    return NULL;
}

void vgpu_cli_setenv(struct vgpu_cli_list *env, const char *name, const char *value)
{
    char **at = find_env(env, name);

    if (!at) {
        vgpu_cli_add(env, "%s=%s", name, value);
        return;
    }
    free(*at);
    *at = vgpu_cli_format("%s=%s", name, value);
}

const char *vgpu_cli_getenv(const struct vgpu_cli_list *env, const char *name)
{
    char **at = find_env(env, name);

    return at ? *at + strlen(name) + 1 : NULL;
}
