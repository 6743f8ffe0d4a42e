/* SPDX-License-Identifier: MIT */
/* The broker process: options and start. */
#ifndef BRK_MAIN_H
#define BRK_MAIN_H

#include "transport/transport.h"

/* ---- options.c ---- */

/* Parses the command line; -1 = go on, else the exit code. */
int brk_options_parse(int argc, char **argv, struct brk_options *o);

/* ---- provider.c ---- */

/* Decides which provider to use; starts `vgpu-worker --probe` for that. 0 or an exit code. */
int brk_choose_provider(struct brk_options *o);

/* ---- control.c ---- */

/* Listens for `vgpu ctl` on brk_opt.control, if that is set. 0 or an exit code, the reason logged. */
int brk_control_start(void);
void brk_control_stop(void);

/* ---- inherit.c ---- */

/* Takes a socket that the process was started with. NULL, or why it is none of ours. */
const char *brk_inherit(struct brk_options *o, int fd);
/* Takes what socket activation has passed, and removes its variables. -1 = fine, also where there is
 * nothing; else the exit code, the reason printed. */
int brk_inherit_activation(struct brk_options *o);
/* What else the process was started with does not pass to workers: a shell, a make or a test runner leaves files open. */
void brk_inherit_close_on_exec(void);

/* ---- name.c ---- */

/* 1 to BRK_NAME_MAX letters, digits, '.', '_', '-', '@'. */
bool brk_name_valid(const char *name);
/* Names the machine as its socket is named: vm1 of /run/vgpu/vm1.sock. Other characters become '_'. */
void brk_name_by_socket(struct brk_options *o);

/* ---- supervisor.c ---- */

/* Reads what the service manager has put into the environment, and removes it from there. */
void brk_supervisor_start(void);
/* A state for sd_notify(3), as "READY=1". Nothing happens where nobody wants it. */
void brk_supervisor_say(const char *text);
/* To be called before each wait: keeps the watchdog content. Returns the wait's time, at most
 * timeout_ms (ms; -1: for ever). */
int brk_supervisor_tick(int timeout_ms);

#endif
