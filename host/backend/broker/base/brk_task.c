/* SPDX-License-Identifier: MIT */
/* System calls beside the loop whose results the loop gets. */
#define _GNU_SOURCE
#include "base.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "vgb_fd.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct brk_task *returned;                     /* under the lock */
static struct brk_source returned_event = {.fd = -1}; /* eventfd of this process alone */

static void *task_run(void *arg)
{
    struct brk_task *t = arg;

    t->run(t);
    pthread_mutex_lock(&lock);
    t->next = returned;
    returned = t;
    pthread_mutex_unlock(&lock);
    vgb_eventfd_signal(returned_event.fd);
    return NULL;
}

static struct brk_task *next_returned(void)
{
    struct brk_task *t;

    pthread_mutex_lock(&lock);
    t = returned;
    if (t)
        returned = t->next;
    pthread_mutex_unlock(&lock);
    return t;
}

static void on_returned(struct brk_source *s, uint32_t events)
{
    struct brk_task *t;

    (void)events;
    vgb_eventfd_clear(s->fd);
    while ((t = next_returned()))
        t->done(t);
}

bool brk_task_init(void)
{
    if (returned_event.fd >= 0)
        return true;
    returned_event.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    returned_event.ready = on_returned;
    if (returned_event.fd >= 0 && !brk_loop_add(&returned_event, EPOLLIN))
        return true;
    vgb_close(&returned_event.fd);
    return false;
}

bool brk_task_start(struct brk_task *t)
{
    return brk_task_init() && brk_thread_start(task_run, t);
}
