/* SPDX-License-Identifier: MIT */
/* Notifications of readiness and liveness to a service manager (sd_notify(3)). */
#define _GNU_SOURCE
#include "main.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "vgb_fd.h"

static struct sockaddr_un address;
static socklen_t address_len;
static uint64_t period_ns, next_ns; /* period and next time of WATCHDOG=1; 0: not requested */

/* An absolute path, or an abstract address that starts with @. */
static bool set_address(const char *text)
{
    const size_t n = text ? strlen(text) : 0;

    if (n < 2 || n >= sizeof(address.sun_path) || (*text != '/' && *text != '@'))
        return false;
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, text, n + 1);
    if (*text == '@')
        address.sun_path[0] = '\0';
    address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    return true;
}

void brk_supervisor_start(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    const char *socket_name = getenv("NOTIFY_SOCKET");

    if (socket_name && !set_address(socket_name))
        vgb_log(VGB_WARN, "NOTIFY_SOCKET is no address of a unix socket: nobody hears that we are ready");
    if (address_len && usec && (!pid || atol(pid) == (long)getpid())) {
        const uint64_t us = strtoull(usec, NULL, 10);

        if (us && us < UINT64_MAX / 1000u)
            period_ns = us * 1000u / 2; /* sd_watchdog_enabled(3): every half of it */
    }
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

void brk_supervisor_say(const char *text)
{
    int fd;

    if (!address_len)
        return;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    /* Never blocks: a manager that does not read must not stall the virtual machine's GPU. */
    if (fd < 0 || sendto(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&address,
                         address_len) < 0)
        vgb_log(VGB_DEBUG, "the service manager did not take \"%.40s\"", text);
    vgb_close(&fd);
}

int brk_supervisor_tick(int timeout_ms)
{
    uint64_t now, wait_ms;

    if (!period_ns)
        return timeout_ms;
    now = vgb_now_ns();
    if (now >= next_ns) {
        brk_supervisor_say("WATCHDOG=1");
        next_ns = now + period_ns;
    }
    wait_ms = (next_ns - now) / 1000000u + 1;
    return timeout_ms < 0 || (uint64_t)timeout_ms > wait_ms ? (int)(wait_ms < 1u << 30 ? wait_ms : 1u << 30)
                                                            : timeout_ms;
}
