/* SPDX-License-Identifier: MIT */
/*
 * The vgpu command: declarations shared by its files. Runs on the host as the calling user, trusts
 * its own command line and environment, and no data from the guest.
 */
#ifndef VGPU_CLI_H
#define VGPU_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Exit statuses of vgpu itself, the same for all commands (vgpu(1)), as in env(1) and timeout(1).
 * Any other status is the program's or, as the command's --help says, a finding of the command. */
#define VGPU_CLI_USAGE 2        /* the command line is wrong */
#define VGPU_CLI_TIMEOUT 124    /* --timeout passed */
#define VGPU_CLI_FAILED 125     /* vgpu itself failed: the message names the remedy */
#define VGPU_CLI_CANNOT_RUN 126 /* the program was found but cannot be run */
#define VGPU_CLI_NOT_FOUND 127  /* the program was not found */

/* util.c */
extern bool vgpu_cli_verbose;
/*
 * Writes all text for standard error; `vgpu vm` replaces it by a function that does not wait for a
 * stalled reader.
 */
extern void (*vgpu_cli_print)(const char *text, size_t size);
/* Prints "vgpu: ..." to standard error. */
void vgpu_cli_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Same, then ends with VGPU_CLI_USAGE: for errors of the command line. */
void vgpu_cli_wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Same with VGPU_CLI_FAILED, after cleaning up. */
void vgpu_cli_die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
struct option;
/*
 * getopt_long() for all commands: an invalid option ends with VGPU_CLI_USAGE and a pointer to the
 * help of `command`.
 */
int vgpu_cli_getopt(const char *command, int argc, char **argv, const char *shorts,
                    const struct option *options);
/* Flushes standard output. False, after a message: part of the text could not be written. */
bool vgpu_cli_output_done(void);
/* Opens a file named by an option for writing and empties it. No link is followed except those of
 * the system (/dev/stderr): a guest that may write to the folder may have put it there. */
int vgpu_cli_create(const char *option, const char *path);
/* Allocations that cannot fail: without memory the command ends. */
char *vgpu_cli_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void *vgpu_cli_alloc(size_t size);
/* Milliseconds of CLOCK_MONOTONIC. */
int64_t vgpu_cli_now_ms(void);
/* Replaces terminal control characters except newlines and tabs, in text of a guest or of a
 * backend. */
void vgpu_cli_harmless(char *text);
/* Prints the last lines of a text file to standard error, indented and without control characters.
 * Ignores a path that is not a regular file. */
void vgpu_cli_show_tail(const char *path, int lines);
/* Reads a number in [low, high] from an option, or ends with VGPU_CLI_USAGE, naming it. */
long vgpu_cli_number(const char *option, const char *text, long low, long high);

/* A growing list of strings, NULL-terminated; used for argv and environments. */
struct vgpu_cli_list {
    char **items;
    size_t count, room;
};
void vgpu_cli_add(struct vgpu_cli_list *list, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Sets NAME=value in an environment list; replaces an earlier value. */
void vgpu_cli_setenv(struct vgpu_cli_list *env, const char *name, const char *value);
const char *vgpu_cli_getenv(const struct vgpu_cli_list *env, const char *name);

/* socket.c: sockets on which another user may listen. recv(2) of the first message, which stays in
 * the socket with any descriptors sent along. */
ssize_t vgpu_cli_recv_foreign(int fd, void *buf, size_t size, int flags);
/* Closes the sockets without waiting for those descriptors. */
void vgpu_cli_close_foreign(const int *fds, size_t n);

/* paths.c */
enum vgpu_cli_part {
    VGPU_PART_BACKEND, /* vgpu-backend */
    VGPU_PART_LIBCUDA, /* folder with this project's libcuda.so.1 */
    VGPU_PART_NVML,    /* folder with this project's libnvidia-ml.so.1 */
    VGPU_PART_QEMU,
    VGPU_PART_KERNEL,
    VGPU_PART_INITRD,
    VGPU_PART_DRIVER, /* vgpu_drv.ko */
    VGPU_PART_PTXAS,  /* ptxas that keeps PTX, in a folder bin */
    VGPU_PART_JIT,    /* libvgpu-jit.so, which intercepts NVRTC and nvJitLink */
    VGPU_PART_GUEST,  /* folder packed by `vgpu guest-bundle`; not used by `vgpu run` */
    VGPU_PARTS
};
/* Sets the path of a part, as an option does. */
void vgpu_cli_set_path(enum vgpu_cli_part part, const char *path);
/* Returns the absolute path of a part: from the option, the environment variable, or next to the
 * vgpu binary. Without it, exits with a message that names the remedy. */
const char *vgpu_cli_path(enum vgpu_cli_part part);
/* Same, but NULL without a configured path and without a file next to the vgpu binary. */
const char *vgpu_cli_path_if_there(enum vgpu_cli_part part);
/* The folder of the vgpu binary itself. */
const char *vgpu_cli_binary_dir(void);
/* True if this vgpu lies in a folder bin, not in a build tree. */
bool vgpu_cli_installed(void);
/* Returns the message for users of a build tree or the message for users of an installation. */
const char *vgpu_cli_words(const char *tree, const char *installed);
/* Location of a page of the documentation for the user, to be freed. */
char *vgpu_cli_page(const char *name);
/* Prints, for --help, the options and variables of the parts whose option is among `options`. */
void vgpu_cli_help_paths(const struct option *options);
/* The option of a part ("--qemu"), for the option parser. */
const char *vgpu_cli_part_option(enum vgpu_cli_part part);

/* program.c */
struct vgpu_cli_program {
    char *path; /* as found by execvp(); NULL: not found */
    bool is_folder, is_executable, is_elf, is_script;
    bool is_static;    /* ELF: no loader is named */
    bool takes_rights; /* set-id bits or capabilities: the loader ignores LD_LIBRARY_PATH etc. */
    unsigned elf_class, machine;
    char loader[256]; /* ELF: the named loader; script: its interpreter */
};
/* Returns the file that execvp() runs for a name, to be freed; NULL: none. */
char *vgpu_cli_program_path(const struct vgpu_cli_list *env, const char *name);
/* Reads the properties of a program's file; `path` is to be freed. */
void vgpu_cli_program_look(struct vgpu_cli_program *p, const struct vgpu_cli_list *env, const char *name);
/* False: an ELF file for another machine or class than this vgpu. */
bool vgpu_cli_program_is_ours(const struct vgpu_cli_program *p);
/* Returns the text for the error `err` of exec for a program; to be freed. */
char *vgpu_cli_program_why_not(const struct vgpu_cli_list *env, const char *name, int err);
/* True if the text occurs anywhere in the file. */
bool vgpu_cli_file_has(const char *path, const char *text);

/* proc.c */

/* Blocks the signals that the returned signalfd reports: SIGINT, SIGTERM, SIGHUP, SIGCHLD,
 * SIGWINCH. */
int vgpu_cli_signals(void);

/*
 * True if the signal is to be sent on to a program in the same process group. Signals of the
 * terminal's keys have reached the program already.
 */
struct signalfd_siginfo;
bool vgpu_cli_sends_on(const struct signalfd_siginfo *si);
/* Parent of the private folders of all vgpu processes, and the prefix of their names. */
const char *vgpu_cli_temp_base(void);
#define VGPU_CLI_TEMP_PREFIX "vgpu-run."
/* Makes the private folder for sockets and logs, which is removed at exit. Also removes the folders
 * of earlier vgpu processes that were killed. */
const char *vgpu_cli_temp_dir(void);
struct vgpu_cli_spawn {
    char **argv;
    char **env;                 /* NULL: vgpu's own */
    const char *log;            /* file for standard output and error; NULL: vgpu's own */
    int keep_fd[2];             /* descriptors inherited under the same number; -1: none */
    void (*prepare)(void *arg); /* runs in the new process, before exec; NULL: none */
    void *prepare_arg;
    bool foreground; /* keeps vgpu's standard input and process group: for the user's program */
};
/* Starts a process that the kernel kills when vgpu ends. Returns its pid, or -errno of exec. */
pid_t vgpu_cli_spawn(const struct vgpu_cli_spawn *s);
/* Waits for the end of a short-lived process. False: not a child of this vgpu. */
bool vgpu_cli_reap(pid_t pid, int *status);
/* Ends the process with SIGTERM, after grace_ms with SIGKILL, and reaps it. */
void vgpu_cli_stop(pid_t *pid, int grace_ms);
/* Ends all started processes and removes the temporary folder. Idempotent. */
void vgpu_cli_cleanup(void);
/* Ends vgpu as the program ended: with its status or by its signal. */
void vgpu_cli_exit_as(int wait_status) __attribute__((noreturn));

/* Creates a mount namespace for this process, within a user namespace if the user lacks the
 * privilege. propagation: MS_PRIVATE, or MS_SLAVE to see later mounts of the host. False, errno:
 * not possible on this host. */
bool vgpu_cli_own_mounts(unsigned long propagation);

/* vm_confine.c: restrictions on the guest's access to the host's files */
struct vgpu_cli_confine {
    const char *root; /* empty folder: QEMU's mount point for the host's tree without /proc */
    char **option;    /* argument of QEMU that names `root`; set to `fallback` without `root` */
    char *fallback;
    int say; /* descriptor for warnings */
};
/* Called in QEMU's process before exec. */
void vgpu_cli_confine(void *arg);
/* True if this QEMU can filter its own system calls. */
bool vgpu_cli_qemu_has_sandbox(const char *qemu);

/* backend.c */
#define VGPU_CLI_GPUS_MAX 8
struct vgpu_cli_backend {
    unsigned number;  /* index among several backends of a run; set before the start */
    const char *name; /* name of the machine, set before the start; NULL: this process's id */
    bool all_devices; /* set before the start: only the program applies CUDA_VISIBLE_DEVICES */
    pid_t pid;
    char *socket;
    char *log; /* NULL: the backend writes to vgpu's standard error */
};
/* Starts vgpu-backend and waits until it serves `mode` ("--listen" or "--vhost-user"). Exits with
 * the backend's own message on failure. */
void vgpu_cli_backend_start(struct vgpu_cli_backend *b, const char *mode, const char *gpu);
/* Starts `count` backends, numbered from 0: further devices of a machine or program. */
void vgpu_cli_backends_start(struct vgpu_cli_backend *b, long count, const char *mode, const char *gpu);
/* Ends with VGPU_CLI_USAGE unless gpu is soft, nvidia or auto (or none, where that is allowed). */
void vgpu_cli_check_gpu(const char *gpu, bool none_allowed);
/* Puts this project's libcuda first and the trace setting into an environment. trace: NULL: none,
 * "": to standard error, else a file. */
void vgpu_cli_guest_env(struct vgpu_cli_list *env, const char *trace);

/* python.c: settings for just-in-time compilers and JAX. Sets the variables with which they pass
 * PTX to the software GPU, except those set by the user, and prints them when `program` looks like
 * a Python program. */
void vgpu_cli_python_env(struct vgpu_cli_list *env, const char *gpu, const char *program);
/* preload.c: LD_PRELOAD with a library after the user's preloaded libraries, to be freed; NULL: no
 * change. */
char *vgpu_cli_preload(const struct vgpu_cli_list *env, const char *library, const char *program);
/* JAX checks for /dev/nvidia0 before it uses CUDA. True: `program` finds an installed JAX, and the
 * node is missing. */
bool vgpu_cli_wants_node(const struct vgpu_cli_list *env, const char *program);
/* `prepare` function for vgpu_cli_spawn, with an empty folder as its argument: gives the program a
 * private /dev with that node (an empty file) and all nodes of the host. Where mounts are not
 * allowed, prints a message and leaves /dev unchanged. */
void vgpu_cli_node_prepare(void *dir);

/* run.c, vm.c, bundle.c */
int vgpu_cli_bundle(int argc, char **argv);
int vgpu_cli_run(int argc, char **argv);
int vgpu_cli_vm(int argc, char **argv);

/* trace.c, replay.c, doctor.c, smi.c */
int vgpu_cli_trace(int argc, char **argv);
int vgpu_cli_replay(int argc, char **argv);
int vgpu_cli_doctor(int argc, char **argv);
int vgpu_cli_smi(int argc, char **argv);
int vgpu_cli_ctl(int argc, char **argv);
int vgpu_cli_metrics(int argc, char **argv);
int vgpu_cli_cdi(int argc, char **argv);
/* `vgpu probe`: opens libcuda and names the devices; run by doctor when no program is given. */
int vgpu_cli_probe(void);
/* True if VGPU_SOCKET names a backend or a guest's device exists. */
bool vgpu_cli_gpu_is_here(void);
/* Appends the command that starts the program to argv: nothing if a GPU is available and neither
 * `gpu` (NULL: none) nor `vm` requests another way, else this vgpu with `run` or `vm run`. `share`:
 * a folder that the guest may write to. */
void vgpu_cli_way(struct vgpu_cli_list *argv, const char *gpu, bool vm, const char *share);
/* Waits for a program and forwards the signals that vgpu receives. Returns its wait status. */
int vgpu_cli_wait(pid_t pid, int signals);

/* vm.c, vm_options.c, vm_list.c, vm_qemu.c, vm_channel.c */
enum vgpu_cli_accel {
    VGPU_ACCEL_AUTO,
    VGPU_ACCEL_KVM,
    VGPU_ACCEL_KVM_NO_ARCH, /* KVM with -cpu host,arch-capabilities=off */
    VGPU_ACCEL_TCG
};
struct vgpu_cli_vm {
    const char *gpu; /* soft, nvidia, auto, none */
    enum vgpu_cli_accel accel;
    long gpus;                       /* number of vgpu-cuda devices, each with its own backend */
    long memory_mb, cpus, timeout_s; /* timeout 0 = none */
    struct vgpu_cli_list shares;     /* absolute directories, writable */
    struct vgpu_cli_list disks;      /* absolute files */
    struct vgpu_cli_list ports;      /* "HOST:GUEST", TCP */
    bool net;                        /* the guest has access to the host's network */
    const char *name;                /* for `vgpu vm list` and `stop` */
    struct vgpu_cli_list env, args;
    const char *cwd;
    const char *keep_log; /* NULL: the guest's console is removed at exit */
    bool tty;
    /* valid while the machine runs */
    char *console;  /* file with the guest's kernel log */
    int console_fd; /* descriptor of the file named by `console`; -1: it is standard error */
    char *qemu_log;
    struct vgpu_cli_backend backends[VGPU_CLI_GPUS_MAX];
    pid_t qemu;
    int channel; /* vgpu's end of the guest channel */
    int signals;
};
/* Reads the options of `vgpu vm run` and `shell` up to the program. False: *status is the exit
 * status. */
bool vgpu_cli_vm_options(struct vgpu_cli_vm *vm, int argc, char **argv, bool shell, const char **trace,
                         int *status);
void vgpu_cli_vm_help(bool shell);
/* Adds a directory that the guest may write to, or exits. */
void vgpu_cli_vm_share(struct vgpu_cli_vm *vm, const char *dir);
/* True if the guest gets a network card. */
bool vgpu_cli_vm_has_net(const struct vgpu_cli_vm *vm);
/* Lists this machine in `vgpu vm list` until the process ends. Exits if the name is in use. */
void vgpu_cli_vm_register(const struct vgpu_cli_vm *vm);
int vgpu_cli_vm_list(int argc, char **argv);
int vgpu_cli_vm_stop(int argc, char **argv);
/* Starts QEMU with an accelerator (not AUTO). The channel is connected when this returns. */
void vgpu_cli_qemu_start(struct vgpu_cli_vm *vm, enum vgpu_cli_accel accel);
/* Removes the logs of a failed start of QEMU, if they are in the temporary folder. */
void vgpu_cli_vm_drop_logs(const struct vgpu_cli_vm *vm);
/* The accelerator that has booted a guest since the host's last boot; TCG: KVM was tried and
 * failed; AUTO: nothing was tried. */
enum vgpu_cli_accel vgpu_cli_accel_known(void);
void vgpu_cli_accel_remember(enum vgpu_cli_accel accel);

enum vgpu_cli_hello { VGPU_HELLO_OK, VGPU_HELLO_TIMEOUT, VGPU_HELLO_DEAD, VGPU_HELLO_STOPPED };
/* Waits for the guest's init. STOPPED: a signal requested the end; *value is its number. */
enum vgpu_cli_hello vgpu_cli_wait_hello(struct vgpu_cli_vm *vm, int timeout_ms, int *value);
/* Sends the request and relays until the program ends. Returns a wait status; exits (after the
 * guest's own output) when the guest ends. */
int vgpu_cli_relay(struct vgpu_cli_vm *vm);

#endif
