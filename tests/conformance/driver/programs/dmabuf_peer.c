// SPDX-License-Identifier: MIT
/* conform_dmabuf: two processes that share a dma-buf, of which either is killed. */
#include "dmabuf.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int dm_channel = -1; /* to the other process */

static void send_fd(int fd)
{
    char byte = 'd', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec io = {&byte, 1};
    struct msghdr h = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&h);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    CHECK(sendmsg(dm_channel, &h, 0) == 1);
}

static int receive_fd(void)
{
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec io = {&byte, 1};
    struct msghdr h = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    int fd = -1;

    CHECK(recvmsg(dm_channel, &h, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&h) != NULL);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&h)), sizeof(fd));
    return fd;
}

static void tell(char c)
{
    CHECK(write(dm_channel, &c, 1) == 1);
}

static void hear(char c)
{
    char got = 0;

    CHECK(read(dm_channel, &got, 1) == 1 && got == c);
}

/* Starts the same program as another process. */
static pid_t start(const char *role)
{
    int pair[2];
    char number[16];
    pid_t pid;

    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    fflush(stdout);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        close(pair[0]);
        snprintf(number, sizeof(number), "%d", pair[1]);
        execl("/proc/self/exe", "dmabuf", role, number, (char *)NULL);
        _exit(127);
    }
    close(pair[1]);
    dm_channel = pair[0];
    return pid;
}

static void ended(pid_t pid, bool killed)
{
    int status = -1;

    CHECK(waitpid(pid, &status, 0) == pid);
    if (killed)
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    else
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Exports, fills as requested, and waits for the end. */
void dm_role_exporter(void)
{
    uint32_t *p;
    int fd;

    dm_gpu();
    OK(cuMemHostAlloc((void **)&p, BYTES, 0));
    OK(dm_range(&fd, p, BYTES));
    send_fd(fd);
    hear('f');
    dm_fill((uintptr_t)p, WORDS, 70);
    tell('F');
    hear('e');
}

void dm_role_importer(void)
{
    CUexternalMemory m;
    CUdeviceptr p;
    int fd = receive_fd();

    dm_gpu();
    OK(dm_import(&m, fd, BYTES));
    p = dm_buffer(m, 0, BYTES);
    dm_fill(p, WORDS, 80);
    tell('I');
    hear('g');
    dm_fill(p, WORDS, 81);
    tell('G');
    hear('e');
}

/* The exporter is killed while its memory is imported, mapped and written. */
static void exporter_ends(bool killed)
{
    pid_t pid = start("role_exporter");
    CUexternalMemory m;
    CUdeviceptr p;
    uint32_t *seen, word = 0;
    int fd;

    dm_gpu();
    fd = receive_fd();
    OK(dm_import(&m, fd, BYTES));
    p = dm_buffer(m, 0, BYTES);
    seen = dm_map(fd, BYTES);
    tell('f');
    hear('F');
    CHECK(dm_filled(seen, WORDS, 70));
    if (killed)
        kill(pid, SIGKILL);
    else
        tell('e');
    ended(pid, killed);
    CHECK(dm_filled(seen, WORDS, 70));
    dm_fill(p, WORDS, 71);
    CHECK(dm_filled(seen, WORDS, 71));
    OK(cuMemcpyDtoH(&word, p, 4));
    CHECK(word == 71);
    dm_use_import(fd, seen); /* imported again after its exporter has ended */
    OK(cuMemFree(p));
    OK(cuDestroyExternalMemory(m));
    CHECK(dm_filled(seen, WORDS, 6));
}

void dm_exporter_killed(void)
{
    exporter_ends(true);
}

void dm_exporter_exits(void)
{
    exporter_ends(false);
}

void dm_importer_killed(void)
{
    pid_t pid = start("role_importer");
    uint32_t *p;
    int fd;

    dm_gpu();
    OK(cuMemHostAlloc((void **)&p, BYTES, 0));
    OK(dm_range(&fd, p, BYTES));
    send_fd(fd);
    close(fd);
    hear('I');
    CHECK(dm_filled(p, WORDS, 80));
    tell('g');
    hear('G');
    CHECK(dm_filled(p, WORDS, 81));
    kill(pid, SIGKILL);
    ended(pid, true);
    dm_fill((uintptr_t)p, WORDS, 82);
    CHECK(dm_filled(p, WORDS, 82));
    OK(cuMemFreeHost(p));
}
