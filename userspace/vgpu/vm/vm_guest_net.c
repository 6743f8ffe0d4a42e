/* SPDX-License-Identifier: MIT */
/* The addresses of QEMU's user network are the same in every guest, so no DHCP client is needed. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/route.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vm/guest_net.h"

#define CARD_WAIT_MS 5000

static struct sockaddr address_of(const char *text)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr out;

    inet_pton(AF_INET, text, &in.sin_addr);
    memcpy(&out, &in, sizeof(out));
    return out;
}

/* Waits for the network card, which appears some milliseconds after its module. */
static bool wait_for(int s, struct ifreq *ifr)
{
    for (int ms = 0; ms < CARD_WAIT_MS; ms += 5) {
        if (ioctl(s, SIOCGIFINDEX, ifr) == 0)
            return true;
        usleep(5000);
    }
    return false;
}

static bool set_up(int s)
{
    struct ifreq ifr = {.ifr_name = "eth0"};
    struct rtentry route = {.rt_flags = RTF_UP | RTF_GATEWAY};

    if (!wait_for(s, &ifr))
        return false;
    ifr.ifr_addr = address_of("10.0.2.15");
    if (ioctl(s, SIOCSIFADDR, &ifr))
        return false;
    ifr.ifr_netmask = address_of("255.255.255.0");
    if (ioctl(s, SIOCSIFNETMASK, &ifr))
        return false;
    ifr.ifr_flags = IFF_UP | IFF_RUNNING;
    if (ioctl(s, SIOCSIFFLAGS, &ifr))
        return false;
    route.rt_dst = route.rt_genmask = address_of("0.0.0.0");
    route.rt_gateway = address_of("10.0.2.2");
    return ioctl(s, SIOCADDRT, &route) == 0;
}

/* The host's file names its own resolver, and may be a link into the host's /run. */
static bool write_resolv_conf(const char *root)
{
    static const char text[] = "nameserver 10.0.2.3\n";
    char path[256];
    int fd;
    bool ok;

    snprintf(path, sizeof(path), "%s/etc/resolv.conf", root);
    unlink(path);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ok = fd >= 0 && write(fd, text, sizeof(text) - 1) == (ssize_t)sizeof(text) - 1;
    if (fd >= 0)
        close(fd);
    return ok;
}

void guest_net(const char *root, bool card, void (*note)(const char *fmt, ...))
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (sethostname("vgpu-guest", 10) != 0 || s < 0 || ioctl(s, SIOCSIFFLAGS, &lo) != 0)
        note("cannot set the host name or the loopback interface: %s", strerror(errno));
    if (card && (s < 0 || !set_up(s)))
        note("cannot set up the network card: %s", strerror(errno));
    if (card && !write_resolv_conf(root))
        note("cannot write /etc/resolv.conf: %s", strerror(errno));
    if (s >= 0)
        close(s);
}
