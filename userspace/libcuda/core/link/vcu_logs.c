/* SPDX-License-Identifier: MIT */
/*
 * The error log of cuLogs*: one line for each call that fails, with the reason where one is known. The
 * last LINES_MAX lines are kept; each is given to the registered callbacks, on the thread whose call
 * failed, and written to what CUDA_LOG_FILE names (stdout, stderr or a path). A line is
 *   [Time][TID][CUDA][E][entry point] message
 * as the CUDA programming guide has it ("Error Log Management"). Calls of a callback are not logged.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../core.h"

#include "vgp_entry.h"

/* Together the 25600 bytes that cuLogsDumpToMemory documents as the maximum kept. */
#define LINES_MAX 100u
#define LINE_BYTES 256u

struct callback {
    struct callback *next;
    CUlogsCallback fn;
    void *data;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards everything below */
static char lines[LINES_MAX][LINE_BYTES];                /* line n is lines[n % LINES_MAX] */
static CUlogIterator written;                            /* number of the next line */
static struct callback *callbacks;
static int file = -1;

/* The reason for the failure of this thread's current call. */
static __thread struct {
    const char *call;
    char text[160];
    bool busy; /* in a callback */
} mine;

void vcu_logs_init(void)
{
    const char *to = secure_getenv("CUDA_LOG_FILE");

    if (to == NULL || *to == '\0')
        return;
    if (strcmp(to, "stdout") == 0)
        file = STDOUT_FILENO;
    else if (strcmp(to, "stderr") == 0)
        file = STDERR_FILENO;
    else
        file = open(to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

void vcu_logs_forked(void)
{
    pthread_mutex_init(&lock, NULL); /* another thread may have held it */
}

void vcu_logs_reason(const char *call, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(mine.text, sizeof(mine.text), fmt, ap);
    va_end(ap);
    mine.call = call;
}

CUresult vcu_refuse(const char *call, CUresult r, const char *why)
{
    return r != CUDA_SUCCESS && why != NULL ? VCU_REFUSE(r, call, "%s", why) : r;
}

/* Formats the line; a reason is used if it belongs to the failed call. */
static size_t compose_line(char *line, const char *call, CUresult r)
{
    const char *name = cua_error_name(r), *text = cua_error_text(r);
    struct timespec now;
    struct tm tm;
    int n;

    if (mine.call != NULL && strncmp(call, mine.call, strlen(mine.call)) == 0)
        text = mine.text;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &tm);
    n = snprintf(line, LINE_BYTES, "[%02d:%02d:%02d.%03d][%d][CUDA][E][%s] %s; returning %d (%s)", tm.tm_hour,
                 tm.tm_min, tm.tm_sec, (int)(now.tv_nsec / 1000000), (int)syscall(SYS_gettid), call,
                 text != NULL ? text : "failed", (int)r, name != NULL ? name : "?");
    return (size_t)n < LINE_BYTES ? (size_t)n : LINE_BYTES - 1;
}

/* Callbacks run without the lock: they may register, unregister and dump. */
static void logs_tell(char *line, size_t n)
{
    struct callback *copy = NULL, *at;
    size_t count = 0, i = 0;

    pthread_mutex_lock(&lock);
    for (at = callbacks; at != NULL; at = at->next)
        count++;
    if (count != 0)
        copy = calloc(count, sizeof(*copy));
    for (at = callbacks; copy != NULL && at != NULL; at = at->next)
        copy[i++] = *at;
    pthread_mutex_unlock(&lock);
    mine.busy = true;
    while (i > 0) {
        i--;
        copy[i].fn(copy[i].data, CU_LOG_LEVEL_ERROR, line, n);
    }
    mine.busy = false;
    free(copy);
}

void vcu_logs_failure(const char *call, CUresult r)
{
    int saved = errno; /* a failing call must not change the application's errno */
    char line[LINE_BYTES];
    size_t n;

    if (mine.busy || !lnk_trace_results.is_failure(call, (int)r)) {
        mine.call = NULL;
        return;
    }
    n = compose_line(line, call, r);
    mine.call = NULL;
    pthread_mutex_lock(&lock);
    memcpy(lines[written % LINES_MAX], line, n + 1);
    written++;
    if (file >= 0)
        dprintf(file, "%s\n", line);
    pthread_mutex_unlock(&lock);
    logs_tell(line, n);
    errno = saved;
}

CUresult vcu_cuLogsRegisterCallback(CUlogsCallback callbackFunc, void *userData,
                                    CUlogsCallbackHandle *callback_out)
{
    struct callback *c;

    if (callbackFunc == NULL)
        return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, "cuLogsRegisterCallback", "no function");
    c = calloc(1, sizeof(*c));
    if (c == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    c->fn = callbackFunc;
    c->data = userData;
    pthread_mutex_lock(&lock);
    c->next = callbacks;
    callbacks = c;
    pthread_mutex_unlock(&lock);
    if (callback_out != NULL)
        *callback_out = (CUlogsCallbackHandle)c;
    return CUDA_SUCCESS;
}

CUresult vcu_cuLogsUnregisterCallback(CUlogsCallbackHandle callback)
{
    struct callback **p, *c;

    pthread_mutex_lock(&lock);
    for (p = &callbacks; *p != NULL && *p != (struct callback *)callback;)
        p = &(*p)->next;
    c = *p;
    if (c != NULL)
        *p = c->next;
    pthread_mutex_unlock(&lock);
    free(c);
    return c != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult vcu_cuLogsCurrent(CUlogIterator *iterator_out, unsigned int flags)
{
    if (iterator_out == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    *iterator_out = written;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

/* The lines from an iterator (NULL: all) on: the first that is still kept, their number, and the
 * number lost. False: not an iterator of this log. */
static bool log_span(const CUlogIterator *iterator, CUlogIterator *from, unsigned *count, unsigned *lost)
{
    CUlogIterator kept = written < LINES_MAX ? written : LINES_MAX;
    CUlogIterator asked = iterator != NULL ? written - *iterator : written;

    if (asked > written)
        return false;
    *count = asked < kept ? asked : kept;
    *lost = asked - *count;
    *from = written - *count;
    return true;
}

static int lost_line(char *out, size_t room, unsigned lost)
{
    return snprintf(out, room, "[CUDA][W] %u older messages are not here\n", lost);
}

/* Writes as many of the newest lines as fit. Returns bytes without the NUL; 0: no line fits. */
static size_t logs_fill(char *buffer, size_t room, CUlogIterator from, unsigned count, unsigned lost)
{
    size_t bytes = 0, n = 0;
    unsigned fits = 0;

    for (; fits < count; fits++) {
        unsigned missing = lost + count - fits - 1; /* with this line */
        size_t add = strlen(lines[(from + count - fits - 1) % LINES_MAX]) + 1;
        size_t head = missing != 0 ? (size_t)lost_line(NULL, 0, missing) : 0;

        if (head + bytes + add + 1 > room)
            break;
        bytes += add;
    }
    if (fits == 0)
        return 0;
    if (lost + count - fits != 0)
        n = (size_t)lost_line(buffer, room, lost + count - fits);
    for (unsigned i = count - fits; i < count; i++)
        n += (size_t)sprintf(buffer + n, "%s\n", lines[(from + i) % LINES_MAX]);
    return n;
}

CUresult vcu_cuLogsDumpToMemory(CUlogIterator *iterator, char *buffer, size_t *size, unsigned int flags)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;
    unsigned count, lost;
    CUlogIterator from;
    size_t n = 0;

    if (buffer == NULL || size == NULL || flags != 0)
        return VCU_REFUSE(r, "cuLogsDumpToMemory", "%s",
                          buffer == NULL ? "buffer cannot be NULL"
                          : size == NULL ? "size cannot be NULL"
                                         : "flags must be 0");
    pthread_mutex_lock(&lock);
    if (log_span(iterator, &from, &count, &lost)) {
        if (count != 0)
            n = logs_fill(buffer, *size, from, count, lost);
        if (n != 0 || count == 0) {
            r = CUDA_SUCCESS;
            if (iterator != NULL)
                *iterator = written;
        }
        if (n == 0 && *size != 0)
            buffer[0] = '\0';
        *size = n;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

CUresult vcu_cuLogsDumpToFile(CUlogIterator *iterator, const char *pathToFile, unsigned int flags)
{
    char *all = malloc((LINES_MAX + 1) * LINE_BYTES);
    size_t n = (LINES_MAX + 1) * LINE_BYTES;
    CUlogIterator at;
    CUresult r;
    FILE *f;

    if (all == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (iterator != NULL)
        at = *iterator;
    r = pathToFile == NULL ? CUDA_ERROR_INVALID_VALUE
                           : vcu_cuLogsDumpToMemory(iterator != NULL ? &at : NULL, all, &n, flags);
    if (r == CUDA_SUCCESS) {
        f = fopen(pathToFile, "we");
        if (f == NULL || fwrite(all, 1, n, f) != n)
            r = VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, "cuLogsDumpToFile", "cannot write %s", pathToFile);
        if (f != NULL && fclose(f) != 0)
            r = CUDA_ERROR_INVALID_VALUE;
    }
    if (r == CUDA_SUCCESS && iterator != NULL)
        *iterator = at;
    free(all);
    return r;
}
