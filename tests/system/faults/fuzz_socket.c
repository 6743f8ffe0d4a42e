// SPDX-License-Identifier: MIT
/* Malformed messages on the socket, before and after the greeting. */
#include "fuzz.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* Messages on the socket before and after the greeting. */
void fuzz_socket(void)
{
    static uint8_t big[65536];
    struct vgp_sock_hello h = {.type = VGP_SOCK_HELLO, .version_major = VGP_VERSION_MAJOR};
    struct vgp_sock_map m = {.type = VGP_SOCK_MAP, .region = 1, .va = 0x10000000, .length = 4096};
    union {
        struct vgp_sock_refused refused;
        struct vgp_sock_mapped mapped;
    } answer;
    struct raw r;
    int fd = raw_connect(fuzz_path);

    h.version_major = VGP_VERSION_MAJOR + 1;
    send(fd, &h, sizeof(h), MSG_NOSIGNAL);
    memset(&answer, 0, sizeof(answer));
    ssize_t n = recv(fd, &answer, sizeof(answer), 0);
    fuzz_result("hello_version", n > 0 && answer.refused.type == VGP_SOCK_REFUSED && answer.refused.text[0]
                                     ? NULL
                                     : "not refused with a text");
    close(fd);
    h.version_major = VGP_VERSION_MAJOR;
    for (uint32_t size = 0; size <= sizeof(h) + 8; size += 8) {
        if (size == sizeof(h))
            continue;
        fd = raw_connect(fuzz_path);
        memcpy(big, &h, sizeof(h));
        send(fd, big, size, MSG_NOSIGNAL);
        close(fd);
    }
    for (int i = 0; i < 20; i++) {
        fd = raw_connect(fuzz_path);
        fuzz_random = 777 + (unsigned)i;
        for (size_t k = 0; k < sizeof(big); k++)
            big[k] = (uint8_t)fuzz_rnd();
        send(fd, big, i & 1 ? 600 : 60000, MSG_NOSIGNAL);
        close(fd);
    }
    fuzz_result("hello_garbage", fuzz_alive());

    /* MAP without a descriptor, and with a descriptor that is not a sealed memfd. */
    if (raw_open(&r, fuzz_path)) {
        fuzz_result("map", "no client");
        return;
    }
    memset(&answer, 0, sizeof(answer));
    send(r.sock, &m, sizeof(m), MSG_NOSIGNAL);
    n = recv(r.sock, &answer, sizeof(answer), 0);
    fuzz_result("map_no_fd", n <= 0 || (answer.mapped.type == VGP_SOCK_MAPPED && answer.mapped.status)
                                 ? NULL
                                 : "accepted");
    raw_close(&r);
    if (raw_open(&r, fuzz_path))
        return;
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec iov = {&m, sizeof(m)};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    int memfd = memfd_create("unsealed", MFD_CLOEXEC);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &memfd, sizeof(int));
    memset(&answer, 0, sizeof(answer));
    sendmsg(r.sock, &msg, MSG_NOSIGNAL);
    n = recv(r.sock, &answer, sizeof(answer), 0);
    fuzz_result("map_unsealed", n <= 0 || (answer.mapped.type == VGP_SOCK_MAPPED && answer.mapped.status)
                                    ? NULL
                                    : "accepted");
    close(memfd);
    raw_close(&r);
    fuzz_result("after_map", fuzz_alive());
}
