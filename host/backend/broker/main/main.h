/* SPDX-License-Identifier: MIT */
/* The broker process: options and start. */
#ifndef BRK_MAIN_H
#define BRK_MAIN_H

#include "transport/transport.h"

/* ---- brk_options.c ---- */

/* Parses the command line. -1 = continue, else the exit code. */
int brk_options_parse(int argc, char **argv, struct brk_options *o);

/* ---- brk_provider.c ---- */

/* Chooses the provider by running `vgpu-worker --probe`. 0 or an exit code. */
int brk_choose_provider(struct brk_options *o);

/* ---- brk_control.c ---- */

/* Listens for `vgpu ctl` on brk_opt.control, if set. 0, or an exit code with the reason logged. */
int brk_control_start(void);
void brk_control_stop(void);

/* ---- brk_inherit.c ---- */

/* Takes over a socket inherited at start. NULL, or the reason why it is not usable. */
const char *brk_inherit(struct brk_options *o, int fd);
/* Takes over the sockets passed by socket activation, if any, and removes its variables. -1 =
 * continue, else an exit code with the reason printed. */
int brk_inherit_activation(struct brk_options *o);
/* Marks all other inherited descriptors close-on-exec: a shell, make or a test runner may leave
 * files open. */
void brk_inherit_close_on_exec(void);

/* ---- brk_name.c ---- */

/* 1 to BRK_NAME_MAX letters, digits, '.', '_', '-', '@'. */
bool brk_name_valid(const char *name);
/* Derives the machine's name from its socket: vm1 from /run/vgpu/vm1.sock. Other characters become
 * '_'. */
void brk_name_by_socket(struct brk_options *o);

/* ---- brk_supervisor.c ---- */

/* Reads and removes the service manager's environment variables. */
void brk_supervisor_start(void);
/* Sends a state for sd_notify(3), such as "READY=1"; no-op without a service manager. */
void brk_supervisor_say(const char *text);
/* To be called before each wait: feeds the watchdog. Returns the time to wait, at most timeout_ms
 * (ms; -1: no limit). */
int brk_supervisor_tick(int timeout_ms);

#endif
