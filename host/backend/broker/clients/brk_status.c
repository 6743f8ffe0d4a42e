/* SPDX-License-Identifier: MIT */
/*
 * Status as text for `vgpu smi --host`: each connection to the abstract socket BRK_STATUS_NAME plus
 * process id gets a message and is closed. The kernel identifies the peer: the broker's user, root
 * or, at the socket of --status, the user of --status-user. An abstract socket leaves no file
 * behind, and workers are in other network namespaces.
 */
#define _GNU_SOURCE
#include "clients.h"

#include <ctype.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static struct brk_source status = {.fd = -1}, path_status = {.fd = -1};
static char text[BRK_STATUS_MAX];
static size_t used;
static char device[VGB_MSG_TEXT];
static bool soft_gpu;

static void status_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void status_say(const char *fmt, ...)
{
    char line[4400];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    /* Whole lines only. */
    if (n <= 0 || n >= (int)sizeof(line) || used + (size_t)n >= sizeof(text))
        return;
    memcpy(text + used, line, (size_t)n);
    used += (size_t)n;
}

void brk_status_provider(bool soft, const char *name)
{
    soft_gpu = soft;
    snprintf(device, sizeof(device), "%s", name);
    for (char *p = device; *p; p++)
        *p = (char)(isprint((unsigned char)*p) ? *p : '?');
}

/* Sanitizes a guest's text for a terminal of the host. */
static const char *harmless_label(const char *label)
{
    static char out[VGPU_LABEL_LEN + 1];
    unsigned i;

    for (i = 0; i < VGPU_LABEL_LEN && label[i]; i++)
        out[i] = (char)(isgraph((unsigned char)label[i]) ? label[i] : '?');
    out[i] = '\0';
    return out[0] ? out : "-";
}

static void say_use(const char *whose, const struct brk_use *u)
{
    status_say("%s calls %llu waits %llu errors %llu copied %llu cpu-ms %llu throttled-ms %llu\n", whose,
               (unsigned long long)u->calls, (unsigned long long)u->waits, (unsigned long long)u->errors,
               (unsigned long long)u->copied, (unsigned long long)u->cpu_ns / 1000000,
               (unsigned long long)u->throttled_ns / 1000000);
}

static void describe_vm(void)
{
    struct brk_use sum = brk_totals.gone, u;
    struct brk_pool_figures pool;

    for (struct brk_client *c = brk_client_first(); c; c = c->next) {
        brk_totals_use(c, &u);
        brk_totals_add(&sum, &u);
    }
    say_use("vm", &sum);
    status_say(
        "vm now-ms %llu gpu-memory %llu vram-used %llu pin-used %llu blob-used %llu paced %u soft %u\n",
        (unsigned long long)(vgb_now_ns() / 1000000u), (unsigned long long)brk_opt.gpu_memory,
        (unsigned long long)brk_vram.used, (unsigned long long)brk_pins.used,
        (unsigned long long)brk_blobs.used, brk_pace_works(), soft_gpu);
    status_say("vm clients-started %llu clients-refused %llu memory-refused %llu workers-lost %llu\n",
               (unsigned long long)brk_totals.clients, (unsigned long long)brk_totals.clients_refused,
               (unsigned long long)brk_totals.memory_refused, (unsigned long long)brk_totals.workers_lost);
    status_say("vm image-kept %llu image-count %llu image-hits %llu image-hit-bytes %llu image-misses %llu "
               "image-stored %llu image-evicted %llu image-refused %llu\n",
               (unsigned long long)brk_images.bytes, (unsigned long long)brk_images.count,
               (unsigned long long)brk_images.hits, (unsigned long long)brk_images.hit_bytes,
               (unsigned long long)brk_images.misses, (unsigned long long)brk_images.kept,
               (unsigned long long)brk_images.evicted, (unsigned long long)brk_images.refused);
    brk_pool_figures(&pool);
    status_say("vm pool-ready %u pool-target %u pool-misses %llu\n", pool.ready, pool.target,
               (unsigned long long)pool.misses);
    status_say("device %s\n", device);
}

static void describe_books(void)
{
    struct brk_books b;
    const char *wrong = brk_books_wrong(&b);

    status_say("books clients %u ending %u regions %u shares %u %s\n", b.clients, b.ending, b.regions,
               b.shares, wrong ? wrong : "even");
}

static void describe_clients(void)
{
    char whose[32];
    struct brk_use u;

    used = 0;
    status_say("backend %ld %s\n", (long)getpid(),
               brk_opt.vhost_user     ? brk_opt.vhost_user
               : brk_opt.inherited[0] ? brk_opt.inherited
               : brk_opt.listen       ? brk_opt.listen
                                      : "-");
    status_say("name %s\n", brk_opt.name[0] ? brk_opt.name : "-");
    for (unsigned i = 0; i < BRK_L_COUNT; i++)
        status_say("limit %s %llu\n", brk_limits[i].name,
                   (unsigned long long)brk_limit_get(&brk_opt, (enum brk_limit_id)i));
    describe_vm();
    describe_books();
    for (struct brk_client *c = brk_client_first(); c; c = c->next) {
        if (!c->shared || !c->proc || c->state != BRK_C_SERVING)
            continue;
        status_say("client %ld %u %llu %s\n", (long)c->proc->pid,
                   __atomic_load_n(&c->shared->guest_pid, __ATOMIC_RELAXED),
                   (unsigned long long)__atomic_load_n(&c->shared->memory_used, __ATOMIC_RELAXED),
                   harmless_label(c->label));
        if (brk_pace_works())
            status_say("share %ld %u %u %llu\n", (long)c->proc->pid, c->fair.weight, c->fair.cap,
                       (unsigned long long)c->fair.used_ns / 1000000);
        brk_totals_use(c, &u);
        snprintf(whose, sizeof(whose), "use %ld", (long)c->proc->pid);
        say_use(whose, &u);
    }
}

static bool may_read(const struct brk_source *s, uid_t uid)
{
    return uid == geteuid() || uid == 0 ||
           (s == &path_status && brk_opt.status_uid != BRK_ANYBODY && uid == brk_opt.status_uid);
}

static void on_status(struct brk_source *s, uint32_t events)
{
    struct ucred who;
    socklen_t size = sizeof(who);
    int fd;

    (void)events;
    /* Any process may connect here, and must not delay other connections. */
    if (brk_foreign_crowded()) {
        brk_loop_rest(s);
        return;
    }
    fd = brk_accept(s);
    if (fd < 0)
        return;
    if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) && may_read(s, who.uid)) {
        describe_clients();
        if (send(fd, text, used, MSG_NOSIGNAL) < 0)
            vgb_log(VGB_DEBUG, "the status was not sent");
    }
    brk_foreign_end(&fd);
}

/* For readers in another network namespace, where the abstract socket cannot be seen. */
static bool start_path(void)
{
    if (!brk_opt.status)
        return true;
    /* Without a common group, the file mode admits all users; the peer's credentials decide. */
    path_status.fd = brk_listen_unix(brk_opt.status, SOCK_SEQPACKET,
                                     brk_opt.status_uid != BRK_ANYBODY ? 0666 : BRK_LISTEN_OWNER);
    path_status.ready = on_status;
    if (path_status.fd >= 0)
        brk_foreign_refuse(path_status.fd);
    if (path_status.fd >= 0 && !brk_loop_add(&path_status, EPOLLIN))
        return true;
    vgb_log(VGB_ERROR, "--status %s: %s", brk_opt.status,
            path_status.fd < 0 ? brk_unit_error(-path_status.fd) : "no room");
    path_status.fd = -1;
    return false;
}

bool brk_status_start(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int n = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, BRK_STATUS_NAME "%ld", (long)getpid());

    status.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    status.ready = on_status;
    if (status.fd >= 0)
        brk_foreign_refuse(status.fd); /* before there is a connection */
    if (status.fd >= 0 && (bind(status.fd, (struct sockaddr *)&a,
                                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) ||
                           listen(status.fd, 8) || brk_loop_add(&status, EPOLLIN))) {
        close(status.fd);
        status.fd = -1;
    }
    if (status.fd < 0)
        vgb_log(VGB_DEBUG, "`vgpu smi --host` will not show this process");
    return start_path();
}

void brk_status_stop(void)
{
    if (path_status.fd >= 0) {
        brk_loop_del(&path_status);
        close(path_status.fd);
        unlink(brk_opt.status);
        path_status.fd = -1;
    }
    if (status.fd < 0)
        return;
    brk_loop_del(&status);
    close(status.fd);
    status.fd = -1;
}
