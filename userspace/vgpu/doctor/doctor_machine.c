/* SPDX-License-Identifier: MIT */
/*
 * vgpu doctor: the environment of a program: device, driver, node, permissions, the backend's
 * socket.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "doctor/doctor.h"
#include "../../../lib/link/link.h"
#include "vgp_sock.h"
#include "base/vgpu_cli.h"

#define NODE "/dev/vgpu0"
#define KERNEL_LOG (1 << 18)

/*
 * Returns the number of vgpu-cuda devices on the guest's bus: virtio device 63, or 38 as presented
 * by a generic front end.
 */
static unsigned pci_devices(void)
{
    DIR *d = opendir("/sys/bus/pci/devices");
    struct dirent *e;
    unsigned count = 0;

    while (d && (e = readdir(d))) {
        char path[512], vendor[16] = "", device[16] = "";
        bool found = false;
        FILE *f;

        snprintf(path, sizeof(path), "/sys/bus/pci/devices/%.200s/vendor", e->d_name);
        f = fopen(path, "re");
        if (f) {
            found = fgets(vendor, sizeof(vendor), f) && strtoul(vendor, NULL, 16) == 0x1af4;
            fclose(f);
        }
        snprintf(path, sizeof(path), "/sys/bus/pci/devices/%.200s/device", e->d_name);
        f = found ? fopen(path, "re") : NULL;
        if (f) {
            unsigned long id = fgets(device, sizeof(device), f) ? strtoul(device, NULL, 16) : 0;

            found = id == 0x1040 + 63 || id == 0x1040 + 38;
            fclose(f);
        }
        count += found;
    }
    if (d)
        closedir(d);
    return count;
}

void vgpu_cli_doctor_sandbox(struct vgpu_findings *f, int fd)
{
    const uint32_t type = VGP_SOCK_INFO;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    struct vgp_sock_info m;

    if (send(fd, &type, sizeof(type), MSG_NOSIGNAL) != sizeof(type) || poll(&p, 1, 2000) != 1 ||
        vgpu_cli_recv_foreign(fd, &m, sizeof(m), MSG_DONTWAIT) != sizeof(m) || m.type != VGP_SOCK_INFO)
        return;
    m.sandbox[sizeof(m.sandbox) - 1] = '\0';
    if (m.sandbox[0])
        vgpu_cli_find(f, VGPU_CAUSE_NONE, vgpu_cli_format("sandbox of the worker: %s", m.sandbox), NULL,
                      NULL);
}

int vgpu_cli_doctor_connect(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = 2};
    int fd, err = 0;

    if (strlen(path) >= sizeof(a.sun_path))
        return -ENAMETOOLONG;
    memcpy(a.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    /* Time limit of connect() to a socket with a full queue. */
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (connect(fd, (struct sockaddr *)&a, sizeof(a)))
        err = errno;
    if (err)
        close(fd);
    return err ? -err : fd;
}

static void check_socket(struct vgpu_findings *f, const char *path)
{
    int fd = vgpu_cli_doctor_connect(path), err = fd < 0 ? -fd : 0;

    if (!err) {
        vgpu_cli_find(f, VGPU_CAUSE_NONE, vgpu_cli_format("a backend listens on %s", path), NULL, NULL);
        vgpu_cli_doctor_sandbox(f, fd);
        vgpu_cli_close_foreign(&fd, 1);
        return;
    }
    if (err == EACCES || err == EPERM)
        vgpu_cli_find(f, VGPU_CAUSE_PERMISSION,
                      vgpu_cli_format("this user may not use the backend's socket %s", path), strerror(err),
                      "run the backend as this user, or give the user the socket's "
                      "permissions");
    else
        vgpu_cli_find(f, VGPU_CAUSE_NO_BACKEND, vgpu_cli_format("no backend listens on %s", path),
                      strerror(err),
                      "start one with `vgpu-backend --listen PATH`, use `vgpu run`, or unset "
                      "VGPU_SOCKET");
}

/*
 * Returns the driver's latest kernel message about that node, or about no node; NULL: none, or this
 * user may not read the kernel log.
 */
static char *kernel_says(const char *node)
{
    char *log = vgpu_cli_alloc(KERNEL_LOG), *last = NULL;
    int n = klogctl(3 /* SYSLOG_ACTION_READ_ALL */, log, KERNEL_LOG - 1);

    for (char *save = NULL, *line = n > 0 ? strtok_r(log, "\n", &save) : NULL; line;
         line = strtok_r(NULL, "\n", &save)) {
        const char *named = strstr(line, "/dev/vgpu");
        size_t size = strlen(node);

        if (strstr(line, "vgpu_drv") &&
            (!named || (!strncmp(named, node, size) && !isdigit((unsigned char)named[size]))))
            last = line;
    }
    last = last ? vgpu_cli_format("%s", last) : NULL;
    free(log);
    return last;
}

static void check_node(struct vgpu_findings *f, const char *node)
{
    int fd = open(node, O_RDWR | O_CLOEXEC), err = errno;

    if (fd >= 0) {
        char *says = kernel_says(node);

        close(fd);
        vgpu_cli_find(f, VGPU_CAUSE_NONE, vgpu_cli_format("%s is there and may be used", node), says, NULL);
        free(says);
    } else if (err == EACCES || err == EPERM) {
        vgpu_cli_find(f, VGPU_CAUSE_PERMISSION, vgpu_cli_format("this user may not open %s", node),
                      strerror(err),
                      "give the user the group or mode of the device, by a udev rule: "
                      "KERNEL==\"vgpu[0-9]*\", MODE=\"0666\"");
    } else {
        vgpu_cli_find(f, VGPU_CAUSE_CONNECT, vgpu_cli_format("%s cannot be opened", node), strerror(err),
                      "the guest's kernel log (dmesg | grep vgpu) says why");
    }
}

/* Checks the places in turn; a program can use those that are in order. */
static void check_places(struct vgpu_findings *f, const struct lnk_place *list, unsigned n)
{
    unsigned there = pci_devices();

    for (unsigned i = 0; i < n; i++) {
        if (list[i].ops == &lnk_transport_dev)
            check_node(f, list[i].path);
        else
            check_socket(f, list[i].path);
    }
    if (n > 1)
        vgpu_cli_find(f, VGPU_CAUSE_NONE,
                      vgpu_cli_format("%u backends are here; a process uses one of them", n),
                      "CUDA_VISIBLE_DEVICES chooses, and counts the devices of all", NULL);
    if (list[0].ops == &lnk_transport_dev && there > n)
        vgpu_cli_find(
            f, VGPU_CAUSE_NONE,
            vgpu_cli_format("%u vgpu-cuda devices are on the bus, and %u can be seen here", there, n),
            "the driver has not taken the others, or this is a container without them", NULL);
}

/*
 * Files left by Podman, docker and systemd-nspawn; Kubernetes' runtimes leave none, but set a
 * variable.
 */
static bool in_container(void)
{
    return access("/run/.containerenv", F_OK) == 0 || access("/.dockerenv", F_OK) == 0 ||
           access("/run/systemd/container", F_OK) == 0 || getenv("KUBERNETES_SERVICE_HOST") != NULL;
}

/* True if the driver has a device: the kernel has a node, whatever this /dev contains. */
static bool driver_has_node(void)
{
    DIR *d = opendir("/sys/class/misc");
    struct dirent *e;
    bool found = false;

    while (d && !found && (e = readdir(d)))
        found = strncmp(e->d_name, "vgpu", 4) == 0 && isdigit((unsigned char)e->d_name[4]);
    if (d)
        closedir(d);
    return found;
}

/* True if modprobe would find the module for this kernel. */
static bool module_installed(const char *release)
{
    char *path = vgpu_cli_format("/lib/modules/%s/modules.dep", release);
    bool found = vgpu_cli_file_has(path, "/vgpu_drv.ko");

    free(path);
    return found;
}

static void find_no_node(struct vgpu_findings *f)
{
    vgpu_cli_find(f, VGPU_CAUSE_NO_NODE,
                  vgpu_cli_format("the driver has a vgpu-cuda device, and " NODE " is not in this /dev"),
                  in_container() ? "this is a container" : "/sys/class/misc has the device",
                  in_container() ? "start the container with the device: podman or docker run --device " NODE
                                   ", or --device nvidia.com/gpu=all after `vgpu cdi generate` outside of it"
                                 : "mount devtmpfs on /dev, start udev, or make the node by the numbers in "
                                   "/sys/class/misc/vgpu0/dev");
}

static void find_no_driver(struct vgpu_findings *f)
{
    struct utsname u = {0};
    char *remedy;

    uname(&u);
    if (access("/sys/module/vgpu_drv", F_OK) == 0)
        remedy =
            vgpu_cli_format("dmesg | grep vgpu_drv says why; driver and device are to be of one version");
    else if (module_installed(u.release))
        remedy = vgpu_cli_format("load it: modprobe vgpu_drv, as root%s",
                                 in_container() ? " and outside of this container" : "");
    else
        remedy = vgpu_cli_format(
            vgpu_cli_words("build it for this kernel, %s, with `make kernel/vgpu_drv`, and load it: "
                           "insmod vgpu_drv.ko, as root%s",
                           "no module is installed for this kernel, %s: install the packages "
                           "vgpu-dkms and linux-headers of it, or run install.sh of a "
                           "guest bundle; then modprobe vgpu_drv, as root%s"),
            u.release, in_container() ? " and outside of this container" : "");
    vgpu_cli_find(f, VGPU_CAUSE_NO_DRIVER,
                  vgpu_cli_format("a vgpu-cuda device is there, and no driver: " NODE " is missing"),
                  access("/sys/module/vgpu_drv", F_OK) == 0
                      ? "vgpu_drv is loaded, and has not taken the device"
                      : "the module vgpu_drv is not loaded",
                  remedy);
    free(remedy);
}

static void find_no_device(struct vgpu_findings *f)
{
    vgpu_cli_find(
        f, VGPU_CAUSE_NO_DEVICE, vgpu_cli_format("there is neither a vgpu-cuda device nor a backend here"),
        in_container() ? "no PCI device 1af4:107f, no " NODE ", VGPU_SOCKET is not set, no "
                         "$XDG_RUNTIME_DIR/vgpu.sock, no /run/vgpu/vgpu.sock; this is a container"
                       : "no PCI device 1af4:107f, no " NODE ", VGPU_SOCKET is not set, no "
                         "$XDG_RUNTIME_DIR/vgpu.sock, no /run/vgpu/vgpu.sock",
        in_container() ? "start the container with the device (--device " NODE ") or with the socket of "
                         "a backend and VGPU_SOCKET; to try a program here: `vgpu run PROGRAM`"
                       : "in a VM: start it with -device vgpu-cuda; on "
                         "the host: `vgpu run PROGRAM`, or `vgpu doctor --gpu soft PROGRAM`");
}

bool vgpu_cli_doctor_machine(struct vgpu_findings *f)
{
    const char *chosen = getenv("VGPU_SOCKET");
    struct lnk_place list[LNK_PLACES_MAX];
    unsigned n = lnk_places(list);

    if (n != 0 && (list[0].ops == &lnk_transport_dev || (chosen && *chosen) || pci_devices() == 0))
        check_places(f, list, n);
    else if (driver_has_node())
        find_no_node(f);
    else if (pci_devices() != 0)
        find_no_driver(f);
    else
        find_no_device(f);
    for (size_t i = 0; i < f->count; i++) {
        if (f->list[i].cause == VGPU_CAUSE_NONE)
            return true;
    }
    return false;
}
