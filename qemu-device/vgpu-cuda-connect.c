/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vgpu-cuda: connects the chardev to the broker, at the start of the VM and
 * after each loss.
 *
 * After a loss the device connects the chardev itself. Attempts never wait: a
 * UNIX socket either has room for a connection or refuses it, and a wait for a
 * broker that does not accept would stop QEMU's main loop, and thereby the VM.
 */
#include "qemu/osdep.h"
#include <sys/un.h>
#include "vgpu-cuda.h"
#include "trace.h"

/* Connects to an address without waiting. Descriptor, or -1 with errno. */
static int vgc_connect_socket(const UnixSocketAddress *addr)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    bool abstract = addr->has_abstract && addr->abstract;
    size_t room = sizeof(to.sun_path) - abstract;
    size_t length = strlen(addr->path);
    socklen_t size = sizeof(to);
    int fd;

    if (length > room) {
        errno = ENAMETOOLONG;
        return -1;
    }
    /*
     * An abstract name starts with a zero; it has its own length, or is padded.
     */
    memcpy(to.sun_path + abstract, addr->path, length);
    if (abstract && (!addr->has_tight || addr->tight)) {
        size = offsetof(struct sockaddr_un, sun_path) + 1 + length;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, size) < 0) {
        int err = errno;

        close(fd);
        errno = err;
        return -1;
    }
    return fd;
}

/* Connects the chardev without waiting. 0 or an errno. */
static int vgc_connect_now(Chardev *chr)
{
    int fd = vgc_connect_socket(&SOCKET_CHARDEV(chr)->addr->u.q_unix);

    if (fd < 0) {
        return errno;
    }
    if (qemu_chr_add_client(chr, fd) < 0) {
        close(fd);
        return EBUSY;
    }
    return 0;
}

/* Makes one attempt. Waits only for a chardev that is already connecting. */
static bool vgc_connect_once(VgcDevice *d, Error **errp)
{
    Chardev *chr = qemu_chr_fe_get_driver(&d->chardev);
    SocketChardev *s = SOCKET_CHARDEV(chr);
    int64_t reconnect = VGC_RECONNECT_TIME(s);
    int ret = 0;

    if (s->addr->type == SOCKET_ADDRESS_TYPE_UNIX &&
        s->state == TCP_CHARDEV_STATE_DISCONNECTED) {
        ret = vgc_connect_now(chr);
        if (ret) {
            error_setg_errno(errp, ret, "Failed to connect to '%s'",
                             s->addr->u.q_unix.path);
        }
    }
    if (ret || chr->be_open) {
        return !ret;
    }
    /*
     * A chardev with reconnect=... connects in the background; without a broker
     * the wait would never end.
     */
    VGC_RECONNECT_TIME(s) = 0;
    ret = qemu_chr_fe_wait_connected(&d->chardev, errp);
    VGC_RECONNECT_TIME(s) = reconnect;
    return ret >= 0;
}

bool vgc_connect_check(VgcDevice *d, Error **errp)
{
    Chardev *chr = qemu_chr_fe_get_driver(&d->chardev);
    const char *hint =
        "start the broker (vgpu-backend --vhost-user PATH) before QEMU and use "
        "-chardev socket,id=ID,path=PATH";
    Error *err = NULL;

    if (!chr) {
        error_setg(errp,
                   "vgpu-cuda: chardev is not set: %s -device "
                   "vgpu-cuda,chardev=ID", hint);
        return false;
    }
    if (!object_dynamic_cast(OBJECT(chr), TYPE_CHARDEV_SOCKET)) {
        error_setg(errp, "vgpu-cuda: chardev '%s' is not a socket: %s",
                   chr->label, hint);
        return false;
    }
    if (chr->be_open) {
        return true;
    }
    if (SOCKET_CHARDEV(chr)->is_listen) {
        error_setg(errp,
                   "vgpu-cuda: nobody has connected to chardev '%s', a server: "
                   "%s", chr->label, hint);
        return false;
    }
    if (!vgc_connect_once(d, &err)) {
        error_setg(errp, "vgpu-cuda: chardev '%s' is not connected (%s): %s",
                   chr->label, error_get_pretty(err), hint);
        error_free(err);
        return false;
    }
    return true;
}

/* On success the chardev calls vgc_link_event(). */
static void vgc_connect_try(void *opaque)
{
    VgcDevice *d = opaque;
    Chardev *chr = qemu_chr_fe_get_driver(&d->chardev);
    int err;

    if (chr->be_open) {
        return;
    }
    err = vgc_connect_now(chr);
    trace_vgc_connect_try(err);
    if (err) {
        vgc_connect_later(d);
    }
}

void vgc_connect_later(VgcDevice *d)
{
    if (d->connect_timer) {
        timer_mod(d->connect_timer,
                  qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + d->connect_ms);
    }
}

void vgc_connect_keep(VgcDevice *d)
{
    SocketChardev *s = SOCKET_CHARDEV(qemu_chr_fe_get_driver(&d->chardev));
    int64_t given = VGC_RECONNECT_TIME(s);

    if (s->is_listen || (given && !VGC_RECONNECT_ABORTS)) {
        return;
    }
    if (s->addr->type != SOCKET_ADDRESS_TYPE_UNIX) {
        warn_report("vgpu-cuda: chardev '%s' is %s, which cannot "
                    "connect again: when the broker ends, the guest has no GPU "
                    "until the VM is started again", CHARDEV(s)->label,
                    s->addr->type == SOCKET_ADDRESS_TYPE_FD
                        ? "a descriptor" : "a network connection");
        return;
    }
    /*
     * Never restored: after the device is unplugged, the chardev's attempts
     * would still abort QEMU.
     */
    VGC_RECONNECT_TIME(s) = 0;
    d->connect_ms = given ? given : VGC_CONNECT_MS;
    d->connect_timer = timer_new_ms(QEMU_CLOCK_REALTIME, vgc_connect_try, d);
}

void vgc_connect_fini(VgcDevice *d)
{
    if (d->connect_timer) {
        timer_free(d->connect_timer);
        d->connect_timer = NULL;
    }
}
