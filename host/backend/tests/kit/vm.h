/* SPDX-License-Identifier: MIT */
/* A test front end and guest driver in one process, in the roles of QEMU and vgpu_drv. */
#ifndef VM_H
#define VM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest.h"
#include "proc.h"
#include "transport/vu.h"

#define RAM_SIZE 0x400000u
#define RAM_GPA 0x40000000ull
#define RAM_UVA 0x7e0000000000ull
#define WINDOW (4u << 20)
#define CLIENTS 2u
#define NUM 16u
/* Guest RAM: rings of queue q at q * 0x4000; requests, responses and event buffers after them. */
#define REQUEST 0x100000u
#define RESPONSE 0x120000u
#define EVENTS 0x130000u

struct vm {
    struct broker b;
    int sock, ram_fd, win_fd; /* win_fd -1: no windows in the memory table */
    uint8_t *ram, *win;
    int kick[2 + CLIENTS], call[2];
    uint16_t seen[2]; /* used entries seen */
    int wait_ms;      /* timeout for answers to requests, ms; 0: 5000 */
};

struct vring_desc {
    uint64_t addr;
    uint32_t len;
    uint16_t flags, next;
};

/* Starts a broker with these options, connects and starts its queues. 0 or -1. */
int vm_open(struct vm *v, const char *const *extra);
/* The same for v->sock from vm_connect() or elsewhere. */
int vm_run(struct vm *v);
/* Stops the broker; returns its exit status. */
int vm_close(struct vm *v);
/* Of a cmocka test; its log goes nowhere. */
int vm_setup(void **state);
int vm_teardown(void **state);
int vm_connect(struct vm *v);
void vm_negotiate(struct vm *v);
/* Writes so many windows of so many bytes into the configuration. 0 if accepted. */
uint64_t vm_set_windows(struct vm *v, uint32_t clients, uint64_t size);
void vm_start_queues(struct vm *v);
int vm_memfd(const char *name, uint64_t size, uint8_t **p);

/* Sends a vhost-user message. 0 or -1. */
int vm_send_msg(struct vm *v, uint32_t request, const void *p, uint32_t size, const int *fds, unsigned nfds,
                uint32_t flags);
/* Reads an answer; returns its payload's first u64, or UINT64_MAX. */
uint64_t vm_get_reply(struct vm *v, void *payload, uint32_t size);
/* With REPLY_ACK: 0 if accepted. */
uint64_t vm_acked(struct vm *v, uint32_t request, const void *p, uint32_t size, const int *fds,
                  unsigned nfds);
uint64_t vm_ask(struct vm *v, uint32_t request);

/* Offers chain `head` on queue q and kicks it. */
void vm_queue_post(struct vm *v, unsigned q, uint16_t head);
/* Waits for another used entry of a queue; returns its length, or -1. */
int vm_queue_wait(struct vm *v, unsigned q, int ms, uint32_t *id);
/* Sends a control request. Status; -1: no answer within v->wait_ms; -2: returned with length 0. */
int vm_control(struct vm *v, const void *request, uint32_t size, uint64_t *va);
int vm_create(struct vm *v, uint32_t slot);
int vm_destroy(struct vm *v, uint32_t slot);
/* The window of a slot, as libcuda sees it. */
void vm_as_guest(struct vm *v, unsigned slot, struct guest *g);
int vm_ping(struct guest *g);
/* True once a byte of a window is zero, that is once the memory is given back: soon after the end of the client. */
bool vm_given_back(const uint8_t *byte);
void vm_post_event_buffer(struct vm *v, uint16_t i);
bool vm_wait_event(struct vm *v, struct vgpu_event *e, int ms);

#endif
