/* SPDX-License-Identifier: MIT */
/*
 * vgpu doctor: what is between a program and the GPU, in the order in which a call passes it:
 * device, driver, permissions, backend; the loader; the start of NVIDIA's runtime; the calls.
 */
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cli_config.h"
#include "doctor/doctor.h"
#include "../../../lib/link/link.h"
#include "vgp_sock.h"
#include "base/vgpu_cli.h"

extern char **environ;

#define NODE "/dev/vgpu0"
#define KERNEL_LOG (1 << 18)
#define OUTPUT_TAIL 8192 /* of the program's output, kept for the rules */

static void help(void)
{
    printf("usage: vgpu doctor [OPTIONS] [PROGRAM [ARGS...]]\n"
           "\n"
           "Says what is wrong between a program and the GPU, and what to do: looks at device,\n"
           "driver, permissions and backend, runs PROGRAM with a trace and reads it. Without\n"
           "PROGRAM a small one of its own opens libcuda and asks for the devices.\n"
           "\n"
           "  --gpu soft|nvidia|auto  start a backend and set the library path as `vgpu run` does;\n"
           "                          without it, examine this machine and environment as they are,\n"
           "                          as is right in a guest\n"
           "  --json                  the report for machines\n"
           "  --show-output           let PROGRAM write to the terminal\n"
           "  --timeout SECONDS       ends PROGRAM after that time (default 600)\n"
           "  --help                  this text\n"
           "\n"
           "In a guest: vgpu vm run vgpu doctor PROGRAM\n"
           "Exit status: 0 nothing is wrong; 1 wrong use; 125 vgpu itself failed; else the first\n"
           "cause found:\n");
    for (int i = VGPU_CAUSE_NO_DEVICE; i <= VGPU_CAUSE_NOT_STARTED; i++) {
        if (strcmp(vgpu_cli_cause_name((enum vgpu_cause)i), "?") != 0)
            printf("  %d %s\n", i, vgpu_cli_cause_name((enum vgpu_cause)i));
    }
    printf("docs/troubleshooting.md has a paragraph about each.\n");
}

/* ---- device, driver, permission, socket ---- */

/* Virtio device 63: the number of vgpu-cuda. How many there are on the bus of a guest. */
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
            found = fgets(device, sizeof(device), f) && strtoul(device, NULL, 16) == 0x1040 + 63;
            fclose(f);
        }
        count += found;
    }
    if (d)
        closedir(d);
    return count;
}

/* What the backend at the other end says of its workers; older ones say nothing. */
static void ask_sandbox(struct vgpu_findings *f, int fd)
{
    const uint32_t type = VGP_SOCK_INFO;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    struct vgp_sock_info m;

    if (send(fd, &type, sizeof(type), MSG_NOSIGNAL) != sizeof(type) || poll(&p, 1, 2000) != 1 ||
        recv(fd, &m, sizeof(m), MSG_DONTWAIT) != sizeof(m) || m.type != VGP_SOCK_INFO)
        return;
    m.sandbox[sizeof(m.sandbox) - 1] = '\0';
    if (m.sandbox[0])
        vgpu_cli_find(f, VGPU_CAUSE_NONE, vgpu_cli_format("sandbox of the worker: %s", m.sandbox), NULL,
                      NULL);
}

/* A connection, or -errno. */
static int connect_to(const char *path)
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
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)); /* of connect(): its queue is full */
    if (connect(fd, (struct sockaddr *)&a, sizeof(a)))
        err = errno;
    if (err)
        close(fd);
    return err ? -err : fd;
}

static void check_socket(struct vgpu_findings *f, const char *path)
{
    int fd = connect_to(path), err = fd < 0 ? -fd : 0;

    if (!err) {
        vgpu_cli_find(f, VGPU_CAUSE_NONE, vgpu_cli_format("a backend listens on %s", path), NULL, NULL);
        ask_sandbox(f, fd);
        close(fd);
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

/* The driver's last words about that node, or about no node; NULL: none, or the kernel log is not for this user. */
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

/* One place after the other; a program can go on with those that are in order. */
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

/* True: something may work so far. */
static bool check_way(struct vgpu_findings *f)
{
    const char *chosen = getenv("VGPU_SOCKET");
    struct lnk_place list[LNK_PLACES_MAX];
    unsigned n = lnk_places(list);

    if (n != 0 && (list[0].ops == &lnk_transport_dev || (chosen && *chosen) || pci_devices() == 0))
        check_places(f, list, n);
    else if (pci_devices() != 0)
        vgpu_cli_find(f, VGPU_CAUSE_NO_DRIVER,
                      vgpu_cli_format("a vgpu-cuda device is there, and no driver: " NODE " is missing"),
                      access("/sys/module/vgpu_drv", F_OK) == 0
                          ? "vgpu_drv is loaded, and has not taken the device: see dmesg"
                          : "the module vgpu_drv is not loaded",
                      "load it: insmod vgpu_drv.ko (built for this kernel: make -C kernel/vgpu_drv)");
    else
        vgpu_cli_find(f, VGPU_CAUSE_NO_DEVICE,
                      vgpu_cli_format("there is neither a vgpu-cuda device nor a backend here"),
                      "no PCI device 1af4:107f, no " NODE ", VGPU_SOCKET is not set, no "
                      "$XDG_RUNTIME_DIR/vgpu.sock, no /run/vgpu/vgpu.sock",
                      "in a VM: give it -device vgpu-cuda (see README.md, With your own guest); on "
                      "the host: `vgpu run PROGRAM`, or `vgpu doctor --gpu soft PROGRAM`");
    for (size_t i = 0; i < f->count; i++) {
        if (f->list[i].cause == VGPU_CAUSE_NONE)
            return true;
    }
    return false;
}

/* ---- the program ---- */

static char *read_tail(const char *path)
{
    char *text = vgpu_cli_alloc(OUTPUT_TAIL + 1);
    FILE *f = fopen(path, "re");
    size_t n;

    if (!f)
        return text;
    if (fseek(f, -OUTPUT_TAIL, SEEK_END))
        rewind(f);
    n = fread(text, 1, OUTPUT_TAIL, f);
    for (size_t i = 0; i < n; i++) {
        if (!text[i])
            text[i] = ' ';
    }
    fclose(f);
    return text;
}

static int wait_or_end(pid_t pid, int timeout_s, bool *late)
{
    int64_t end = vgpu_cli_now_ms() + (int64_t)timeout_s * 1000;
    int status;

    *late = false;
    while (waitpid(pid, &status, WNOHANG) != pid) {
        if (!*late && vgpu_cli_now_ms() > end) {
            *late = true;
            kill(pid, SIGTERM);
            end += 2000;
        } else if (*late && vgpu_cli_now_ms() > end) {
            kill(pid, SIGKILL);
        }
        usleep(20000);
    }
    return status;
}

struct choice {
    const char *gpu;
    bool json, show;
    int timeout_s;
};

static void examine(struct vgpu_findings *f, const struct choice *o, char **program)
{
    const char *temp = vgpu_cli_temp_dir();
    char *trace = vgpu_cli_format("%s/trace.json", temp), *output = vgpu_cli_format("%s/out", temp);
    struct vgpu_cli_list env = {0};
    struct vgpu_cli_spawn spawn = {.keep_fd = {-1, -1}, .foreground = true};
    struct vgpu_cli_backend backend = {.all_devices = true};
    struct vgpu_cli_events events;
    struct vgpu_ending end = {.text = ""};
    struct vgpu_ldlog log;
    bool late = false;
    char *prefix;
    pid_t pid;
    int fd;

    for (char **e = environ; *e; e++)
        vgpu_cli_add(&env, "%s", *e);
    if (o->gpu) {
        vgpu_cli_guest_env(&env, NULL);
        vgpu_cli_backend_start(&backend, "--listen", o->gpu);
        vgpu_cli_setenv(&env, "VGPU_SOCKET", backend.socket);
        vgpu_cli_find(f, VGPU_CAUSE_NONE, vgpu_cli_format("a backend with --gpu %s starts", o->gpu), NULL,
                      NULL);
        fd = connect_to(backend.socket);
        if (fd >= 0) {
            ask_sandbox(f, fd);
            close(fd);
        }
    }
    prefix = vgpu_cli_format("%s/ld", temp);
    vgpu_cli_setenv(&env, "LD_DEBUG", "libs");
    vgpu_cli_setenv(&env, "LD_DEBUG_OUTPUT", prefix);
    vgpu_cli_setenv(&env, "VGPU_TRACE_JSON", trace);
    spawn.argv = program;
    spawn.env = env.items;
    spawn.log = o->show ? NULL : output;
    pid = vgpu_cli_spawn(&spawn);
    if (pid < 0) {
        vgpu_cli_find(f, VGPU_CAUSE_NOT_STARTED,
                      vgpu_cli_format("%s cannot be run: %s", program[0], strerror(-pid)), NULL,
                      "check the path and that it is executable for this machine");
        return;
    }
    end.started = true;
    end.status = wait_or_end(pid, o->timeout_s, &late);
    end.text = o->show ? "" : read_tail(output);
    vgpu_cli_events_read(&events, trace);
    vgpu_cli_ldlog_read(&log, temp);
    if (log.libcuda && vgpu_cli_is_our_libcuda(log.libcuda))
        vgpu_cli_find(f, VGPU_CAUSE_NONE, vgpu_cli_format("the program loads our libcuda: %s", log.libcuda),
                      log.found_by, NULL);
    if (late)
        vgpu_cli_find(f, VGPU_CAUSE_NONE,
                      vgpu_cli_format("the program was ended after %d s (--timeout)", o->timeout_s), NULL,
                      NULL);
    vgpu_cli_judge(f, &events, &log, &end);
}

/* ---- the report ---- */

static const struct vgpu_finding *verdict_of(const struct vgpu_findings *f)
{
    for (size_t i = 0; i < f->count; i++) {
        if (f->list[i].cause != VGPU_CAUSE_NONE)
            return &f->list[i];
    }
    return NULL;
}

static void report_text(const struct vgpu_findings *f, const struct vgpu_finding *verdict)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct vgpu_finding *x = &f->list[i];

        printf("%s %s\n", x->cause == VGPU_CAUSE_NONE ? "  ok  " : "WRONG ", x->what);
        if (x->seen)
            printf("         seen: %s\n", x->seen);
        if (x->remedy)
            printf("         do:   %s\n", x->remedy);
    }
    if (verdict)
        printf("verdict: %s (%d): %s\n", vgpu_cli_cause_name(verdict->cause), verdict->cause, verdict->what);
    else
        printf("verdict: ok: nothing is wrong between the program and the GPU\n");
}

static void json_field(const char *name, const char *text)
{
    printf(",\"%s\":", name);
    if (text)
        vgpu_cli_json_text(stdout, text);
    else
        printf("null");
}

static void report_json(const struct vgpu_findings *f, const struct vgpu_finding *verdict)
{
    printf("{\"verdict\":\"%s\",\"status\":%d,\"findings\":[",
           verdict ? vgpu_cli_cause_name(verdict->cause) : "ok", verdict ? (int)verdict->cause : 0);
    for (size_t i = 0; i < f->count; i++) {
        const struct vgpu_finding *x = &f->list[i];

        printf("%s{\"cause\":\"%s\"", i ? "," : "", vgpu_cli_cause_name(x->cause));
        json_field("what", x->what);
        json_field("seen", x->seen);
        json_field("remedy", x->remedy);
        printf("}");
    }
    printf("]}\n");
}

enum { OPT_GPU = 1000, OPT_JSON, OPT_SHOW, OPT_TIMEOUT, OPT_HELP };
static const struct option options[] = {
    {"gpu", required_argument, NULL, OPT_GPU},    {"json", no_argument, NULL, OPT_JSON},
    {"show-output", no_argument, NULL, OPT_SHOW}, {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"help", no_argument, NULL, OPT_HELP},        {NULL, 0, NULL, 0},
};

int vgpu_cli_doctor(int argc, char **argv)
{
    static struct vgpu_findings findings;
    static char self[PATH_MAX], probe[] = "probe";
    char *own[] = {self, probe, NULL};
    struct choice o = {.timeout_s = 600};
    const struct vgpu_finding *verdict;
    int option;

    while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1) {
        switch (option) {
        case OPT_GPU:
            vgpu_cli_check_gpu(optarg, false);
            o.gpu = optarg;
            break;
        case OPT_JSON:
            o.json = true;
            break;
        case OPT_SHOW:
            o.show = true;
            break;
        case OPT_TIMEOUT:
            o.timeout_s = (int)vgpu_cli_number("--timeout", optarg, 1, 1000000);
            break;
        case OPT_HELP:
            help();
            return 0;
        default:
            vgpu_cli_say("see `vgpu doctor --help`");
            return 1;
        }
    }
    if (readlink("/proc/self/exe", self, sizeof(self) - 1) <= 0)
        vgpu_cli_die("cannot find out where the vgpu binary is: is /proc mounted?");
    if (o.gpu || check_way(&findings))
        examine(&findings, &o, optind < argc ? argv + optind : own);
    verdict = verdict_of(&findings);
    if (o.json)
        report_json(&findings, verdict);
    else
        report_text(&findings, verdict);
    fflush(stdout);
    vgpu_cli_cleanup();
    return verdict ? (int)verdict->cause : 0;
}

/* ---- vgpu probe: the program that doctor runs when it is given none ---- */

int vgpu_cli_probe(void)
{
    int (*init)(unsigned), (*get_count)(int *), (*get_name)(char *, int, int);
    void *lib = dlopen("libcuda.so.1", RTLD_NOW), *sym;
    char name[256];
    int n = 0, r;

    if (!lib) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    sym = dlsym(lib, "cuInit");
    memcpy(&init, &sym, sizeof(sym));
    sym = dlsym(lib, "cuDeviceGetCount");
    memcpy(&get_count, &sym, sizeof(sym));
    sym = dlsym(lib, "cuDeviceGetName");
    memcpy(&get_name, &sym, sizeof(sym));
    if (!init || !get_count || !get_name) {
        fprintf(stderr, "libcuda.so.1 lacks cuInit\n");
        return 1;
    }
    r = init(0);
    if (r == 0)
        r = get_count(&n);
    for (int i = 0; r == 0 && i < n; i++) {
        if (get_name(name, sizeof(name), i) == 0)
            printf("device %d: %s\n", i, name);
    }
    if (r != 0)
        fprintf(stderr, "CUDA error %d\n", r);
    return r != 0 || n == 0;
}
