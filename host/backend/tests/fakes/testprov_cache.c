/* SPDX-License-Identifier: MIT */
/* The test provider keeps something in the folder for compiled code, as NVIDIA's library does, and looks into others'. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "testprov.h"

static int count(const char *folder)
{
    char path[4200];
    char c = '1';

    snprintf(path, sizeof(path), "%s/a", folder);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/a/entry", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    if (read(fd, &c, 1) == 1)
        c++;
    if (pwrite(fd, &c, 1, 0) == 1)
        printf("cache %c %s %s\n", c, getenv("CUDA_CACHE_MAXSIZE"), folder);
    close(fd);
    return 0;
}

static int other(const char *folder)
{
    char path[4200], entry[4200];

    snprintf(path, sizeof(path), "%s/planted", folder);
    snprintf(entry, sizeof(entry), "%s/a/entry", folder);
    int readable = open(entry, O_RDONLY | O_CLOEXEC),
        listed = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int writable = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), removed = unlink(entry),
        made = mkdir(path, 0700);

    printf("other %d %d %d %d %d\n", readable >= 0, listed >= 0, writable >= 0, !removed, !made);
    return 0;
}

/* Bytes that a file takes before the file system is full, at most `most`. */
static long fill(int fd, long most)
{
    static const char zeros[1 << 16];
    long all = 0;
    ssize_t n = 1;

    while (n > 0 && all < most) {
        n = write(fd, zeros, sizeof(zeros));
        all += n > 0 ? n : 0;
    }
    return all;
}

static int flood(const char *folder)
{
    char path[4200];
    long bytes, files = 0;
    int fd, n;

    snprintf(path, sizeof(path), "%s/closed", folder);
    mkdir(path, 0);
    n = snprintf(path, sizeof(path), "%s", folder);
    for (int i = 0; i < 60; i++) {
        n += snprintf(path + n, sizeof(path) - (size_t)n, "/d");
        if (mkdir(path, 0700))
            return -1;
    }
    /* One that is not seen, and one that says that it is larger than it is. */
    snprintf(path, sizeof(path), "%s/hidden", folder);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    unlink(path);
    bytes = fill(fd, 1 << 20);
    snprintf(path, sizeof(path), "%s/large", folder);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bytes += fill(fd, 64 << 20);
    if (ftruncate(fd, 1L << 40))
        return -1;
    do {
        snprintf(path, sizeof(path), "%s/%ld", folder, files);
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd >= 0)
            close(fd);
    } while (fd >= 0 && ++files < 1000000);
    printf("flooded %ld %ld\n", bytes, files);
    return 0;
}

int testprov_cache(unsigned what)
{
    const char *folder = getenv(what == CACHE_OTHER ? "VGPU_TEST_OTHER_CACHE" : "CUDA_CACHE_PATH");
    const char *off = getenv("CUDA_CACHE_DISABLE");
    int r = 0;

    if (!folder)
        printf("cache none, disabled %s\n", off ? off : "0");
    else if (what == CACHE_OTHER)
        r = other(folder);
    else
        r = what == CACHE_FLOOD ? flood(folder) : count(folder);
    fflush(stdout);
    return r;
}

/* ---- sockets ---- */

/* As the library does to the daemon of MPS. name[0] of the address: an abstract socket when it is '@'. */
static void connect_to(const char *what, const char *path, int type)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = (size_t)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0), r = -1;

    if (address.sun_path[0] == '@')
        address.sun_path[0] = '\0';
    if (fd >= 0)
        r = connect(fd, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
    printf("%s: %s\n", what, fd < 0 ? "no socket" : r ? "no connection" : "connected");
    if (fd >= 0)
        close(fd);
}

void testprov_connect(void)
{
    const char *mps = getenv("CUDA_MPS_PIPE_DIRECTORY"), *other = getenv("VGPU_TEST_OTHER_SOCKET");
    char path[200];
    int fd;

    snprintf(path, sizeof(path), "%s/control", mps ? mps : "/nonexistent");
    connect_to("MPS", path, SOCK_STREAM);
    connect_to("other", other ? other : "/nonexistent", SOCK_STREAM);
    snprintf(path, sizeof(path), "@%s", other ? other : "/nonexistent");
    connect_to("abstract", path, SOCK_STREAM);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    printf("network: %s\n", fd < 0 ? "no socket" : "a socket");
    if (fd >= 0)
        close(fd);
    printf("(end)\n");
    fflush(stdout);
}
