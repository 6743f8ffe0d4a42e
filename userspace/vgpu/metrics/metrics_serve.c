/* SPDX-License-Identifier: MIT */
/*
 * The HTTP side, on libmicrohttpd: a single thread, few connections, each with little memory and a
 * time limit. Clients that may connect can only read: a request's sole effect is a query to each
 * backend, at most once a second.
 */
#include "metrics/metrics.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/vgpu_cli.h"

#ifdef VGPU_MICROHTTPD

#include <dlfcn.h>
#include <microhttpd.h>
#include <signal.h>

/* Loaded on demand: the command also runs in guests with nothing but the C library. */
#define LIBRARY "libmicrohttpd.so.12"
static struct {
    __typeof__(&MHD_start_daemon) start_daemon;
    __typeof__(&MHD_stop_daemon) stop_daemon;
    __typeof__(&MHD_create_response_from_buffer) create_response_from_buffer;
    __typeof__(&MHD_add_response_header) add_response_header;
    __typeof__(&MHD_queue_response) queue_response;
    __typeof__(&MHD_destroy_response) destroy_response;
    __typeof__(&MHD_get_connection_info) get_connection_info;
} mhd;

static void load_libmicrohttpd(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW);

    if (!library)
        vgpu_cli_die("--listen needs " LIBRARY " (Debian: libmicrohttpd12): %s", dlerror());
#define LOAD(name) \
    if (!(mhd.name = (__typeof__(mhd.name))dlsym(library, "MHD_" #name))) \
    vgpu_cli_die(LIBRARY ": no MHD_" #name)
    LOAD(start_daemon);
    LOAD(stop_daemon);
    LOAD(create_response_from_buffer);
    LOAD(add_response_header);
    LOAD(queue_response);
    LOAD(destroy_response);
    LOAD(get_connection_info);
}

#define CONNECTIONS 16u /* further ones are accepted briefly: the oldest is closed */
#define CONNECTION_MEMORY (16u << 10)
#define TIMEOUT_S 10u
#define FRESH_MS 1000

/* Used by the only thread that answers. */
static struct smi_status latest;
static int64_t latest_ms;

static void look_at_backends(void)
{
    struct smi_status now;

    if (latest_ms && vgpu_cli_now_ms() - latest_ms < FRESH_MS)
        return;
    smi_status_read(&now, latest_ms ? &latest : NULL);
    smi_status_free(&latest);
    latest = now;
    latest_ms = vgpu_cli_now_ms();
}

static enum MHD_Result answer_request(struct MHD_Connection *connection, unsigned status, const char *type,
                                      char *text, size_t length)
{
    struct MHD_Response *r = mhd.create_response_from_buffer(length, text, MHD_RESPMEM_MUST_FREE);
    enum MHD_Result result = MHD_NO;

    if (!r) {
        free(text);
        return MHD_NO;
    }
    if (mhd.add_response_header(r, "Content-Type", type) == MHD_YES &&
        (status != MHD_HTTP_METHOD_NOT_ALLOWED ||
         mhd.add_response_header(r, "Allow", "GET, HEAD") == MHD_YES))
        result = mhd.queue_response(connection, status, r);
    mhd.destroy_response(r);
    return result;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_size, void **state)
{
    static int seen;
    size_t length = 0;
    char *text;

    (void)arg;
    (void)version;
    (void)data;
    /* The first call has the headers only; a request body is rejected. */
    if (!*state) {
        *state = &seen;
        return MHD_YES;
    }
    if (*data_size) {
        *data_size = 0;
        return MHD_NO;
    }
    if (strcmp(method, "GET") && strcmp(method, "HEAD")) {
        text = vgpu_cli_format("GET is served\n");
        return answer_request(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", text, strlen(text));
    }
    if (strcmp(url, "/metrics")) {
        text = vgpu_cli_format("/metrics is served\n");
        return answer_request(connection, MHD_HTTP_NOT_FOUND, "text/plain", text, strlen(text));
    }
    look_at_backends();
    text = metrics_text(&latest, &length);
    return answer_request(connection, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", text, length);
}

/*
 * Used by the library's thread only. Idle connections must not block other clients for TIMEOUT_S.
 */
static int open_connections[2 * CONNECTIONS]; /* oldest first */
static unsigned nopen;

static void connection_opened(int fd)
{
    if (nopen < 2 * CONNECTIONS)
        open_connections[nopen++] = fd;
    if (nopen > CONNECTIONS)
        shutdown(open_connections[nopen - 1 - CONNECTIONS], SHUT_RDWR);
}

static void connection_closed(int fd)
{
    for (unsigned i = 0; i < nopen; i++) {
        if (open_connections[i] != fd)
            continue;
        memmove(&open_connections[i], &open_connections[i + 1], (nopen - i - 1) * sizeof(int));
        nopen--;
        return;
    }
}

static void on_connection(void *arg, struct MHD_Connection *connection, void **state,
                          enum MHD_ConnectionNotificationCode code)
{
    const union MHD_ConnectionInfo *info =
        mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    (void)arg;
    (void)state;
    if (info && code == MHD_CONNECTION_NOTIFY_STARTED)
        connection_opened(info->connect_fd);
    else if (info && code == MHD_CONNECTION_NOTIFY_CLOSED)
        connection_closed(info->connect_fd);
}

static int listen_unix(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct stat st;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    memcpy(a.sun_path, path, strlen(path) + 1);
    if (fd >= 0 && !lstat(path, &st) && S_ISSOCK(st.st_mode))
        unlink(path); /* left by a killed process */
    mode_t old = umask(0117);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, CONNECTIONS))
        vgpu_cli_die("--listen %s: %s", path, strerror(errno));
    umask(old);
    return fd;
}

/* Parses 127.x.y.z:PORT or localhost:PORT; exits with VGPU_CLI_USAGE otherwise. */
static struct sockaddr_in loopback_address(const char *where)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    const char *colon = strrchr(where, ':');
    char *address = vgpu_cli_format("%.*s", colon ? (int)(colon - where) : 0, where);

    if (!strcmp(address, "localhost"))
        a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else if (!colon || inet_pton(AF_INET, address, &a.sin_addr) != 1 || ntohl(a.sin_addr.s_addr) >> 24 != 127)
        vgpu_cli_wrong("--listen %s: neither the path of a socket (/...) nor 127.x.y.z:PORT", where);
    free(address);
    a.sin_port = htons((uint16_t)vgpu_cli_number("--listen", colon + 1, 0, 65535));
    return a;
}

/* Loopback only, since there is neither encryption nor a password. */
static int listen_port(const char *where, struct sockaddr_in *a)
{
    const int yes = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (fd < 0 || bind(fd, (struct sockaddr *)a, sizeof(*a)) || listen(fd, CONNECTIONS))
        vgpu_cli_die("--listen %s: %s", where, strerror(errno));
    return fd;
}

int metrics_serve(const char *where)
{
    bool is_path = *where == '/';
    int fd, got;
    struct sockaddr_in a = {0};
    socklen_t size = sizeof(a);
    struct MHD_Daemon *d;
    sigset_t end;

    /* The user's mistakes are reported before a missing library of the host. */
    if (is_path && strlen(where) >= sizeof(((struct sockaddr_un *)0)->sun_path))
        vgpu_cli_wrong("--listen %s: the path is too long for a socket", where);
    if (!is_path)
        a = loopback_address(where);
    load_libmicrohttpd();
    fd = is_path ? listen_unix(where) : listen_port(where, &a);
    metrics_sample(&latest); /* utilisation needs two samples: the first scrape then has it */
    latest_ms = vgpu_cli_now_ms();
    sigemptyset(&end);
    sigaddset(&end, SIGINT);
    sigaddset(&end, SIGTERM);
    sigprocmask(SIG_BLOCK, &end, NULL); /* inherited by the library's thread */
    signal(SIGPIPE, SIG_IGN);
    d = mhd.start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, on_request, NULL,
                         MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, 2 * CONNECTIONS,
                         MHD_OPTION_NOTIFY_CONNECTION, on_connection, NULL,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
                         MHD_OPTION_CONNECTION_TIMEOUT, TIMEOUT_S, MHD_OPTION_END);
    if (!d)
        vgpu_cli_die("--listen %s: the HTTP server does not start", where);
    if (!is_path && !getsockname(fd, (struct sockaddr *)&a, &size))
        printf("http://%s:%u/metrics\n", inet_ntoa(a.sin_addr), ntohs(a.sin_port));
    else
        printf("%s\n", where);
    fflush(stdout);
    sigwait(&end, &got);
    mhd.stop_daemon(d);
    if (is_path)
        unlink(where);
    smi_status_free(&latest);
    return 0;
}

#else

int metrics_serve(const char *where)
{
    (void)where;
    vgpu_cli_say(
        "metrics: built without libmicrohttpd: --listen is not served; without it the text is printed");
    return VGPU_CLI_FAILED;
}

#endif
