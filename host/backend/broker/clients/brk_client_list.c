/* SPDX-License-Identifier: MIT */
/* The list of all clients, in the order of their creation. */
#define _GNU_SOURCE
#include "clients.h"

static struct brk_client *clients, **clients_tail = &clients;
static unsigned nclients;

unsigned brk_client_count(void)
{
    return nclients;
}

struct brk_client *brk_client_first(void)
{
    return clients;
}

void brk_client_list(struct brk_client *c)
{
    *clients_tail = c;
    clients_tail = &c->next;
    nclients++;
}

void brk_client_unlist(struct brk_client *c)
{
    for (struct brk_client **at = &clients; *at; at = &(*at)->next) {
        if (*at == c) {
            *at = c->next;
            if (!*at)
                clients_tail = at;
            nclients--;
            return;
        }
    }
}
