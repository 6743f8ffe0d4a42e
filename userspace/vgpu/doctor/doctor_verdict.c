/* SPDX-License-Identifier: MIT */
/*
 * The rules of vgpu doctor that derive the cause from a trace, the loader's log and the program's
 * end. They follow the order in which NVIDIA's runtime calls libcuda at its start, because it stops
 * silently at the first answer that it rejects: its last call shows the cause.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "doctor/doctor.h"
#include "base/vgpu_cli.h"

#define PINNED_REMEDY \
    "raise what a user of the guest may pin: as root, MiB into /sys/module/vgpu_drv/parameters/pin_limit_mib, " \
    "for good `options vgpu_drv pin_limit_mib=N` in /etc/modprobe.d (default: half of the guest's memory); " \
    "a driver without that parameter counts by `ulimit -l`"

#define PAGES_REMEDY \
    "without a VM the pages of registered memory are replaced by pages that the worker has too; where other data of the " \
    "program lies on the first or last one, a write to it meanwhile would be lost. Allocate by cudaHostAlloc or " \
    "cudaMallocHost, or register whole pages (aligned_alloc(4096, ...), mmap); a block of malloc has pages of its own " \
    "where glibc maps it by itself: from 128 KiB on, always with MALLOC_MMAP_THRESHOLD_=131072. In a guest any memory will do"

struct view {
    const struct vgpu_cli_events *ev;
    const struct vgpu_ldlog *log;
    const struct vgpu_ending *end;
    bool failed; /* the program did not end successfully */
};

static const struct vgpu_cli_event *event_at(const struct view *v, size_t i)
{
    return &v->ev->list[i];
}

static bool is_call(const struct vgpu_cli_event *e, const char *name)
{
    return e->type == VGPU_EVENT_CALL && strcmp(e->call, name) == 0;
}

/* Formats "name(arguments) = RESULT" for messages. */
static char *show_event(const struct vgpu_cli_event *e)
{
    return vgpu_cli_format("%s(%.200s) = %s", e->call, e->text, e->result);
}

static bool names_limit(const struct vgpu_cli_event *e)
{
    return e->type == VGPU_EVENT_WHY && vgpu_cli_names_limit(e->text);
}

/* Returns the latest text before event i that names a limit, on any thread of the process; NULL:
 * none. */
static const char *limit_before(const struct view *v, size_t i)
{
    for (size_t k = i; k-- > 0;) {
        if (names_limit(event_at(v, k)) && event_at(v, k)->pid == event_at(v, i)->pid)
            return event_at(v, k)->text;
    }
    return NULL;
}

/* Returns the reason reported just before or after event i by the same thread, or NULL. Reasons of
 * a worker and of libcuda precede the call that they explain. The latest that names a limit
 * wins. */
static const char *reason_of(const struct view *v, size_t i)
{
    const struct vgpu_cli_event *e = event_at(v, i), *reason = NULL;

    for (size_t k = i; k-- > 0 && i - k < 8;) {
        if (event_at(v, k)->tid != e->tid)
            continue;
        if (event_at(v, k)->type == VGPU_EVENT_CALL)
            break;
        if (names_limit(event_at(v, k)))
            return event_at(v, k)->text;
        reason = reason ? reason : event_at(v, k);
    }
    if (e->code == 2 && (!reason || strstr(reason->text, "had returned already"))) {
        const char *limit = limit_before(v, i); /* reported at intervals only, not for each call */

        if (limit)
            return limit;
    }
    return reason ? reason->text : NULL;
}

/* ---- cuInit ---- */

static const struct {
    const char *part;
    enum vgpu_cause cause;
    const char *what, *remedy;
} ways[] = {
    {"CUDA_VISIBLE_DEVICES", VGPU_CAUSE_NO_DEVICES, "CUDA_VISIBLE_DEVICES hides all devices from the program",
     "unset CUDA_VISIBLE_DEVICES, or name devices that `vgpu smi` lists: numbers from 0 on, or UUIDs"},
    {"no GPU found", VGPU_CAUSE_NO_DEVICE, "there is neither a device nor a backend of vgpu-cuda",
     "in a VM: give it -device vgpu-cuda and load vgpu_drv; without one: use `vgpu run`, or start "
     "vgpu-backend --listen and set VGPU_SOCKET"},
    {"ermission denied", VGPU_CAUSE_PERMISSION, "this user may not use the device or the socket",
     "give the user the group or mode of /dev/vgpu0 (a udev rule), or run the backend as this user"},
    {"peration not permitted", VGPU_CAUSE_PERMISSION, "this user may not use the device or the socket",
     "give the user the group or mode of /dev/vgpu0 (a udev rule), or run the backend as this user"},
    {"connect to", VGPU_CAUSE_NO_BACKEND, "nobody answers on the socket of the backend",
     "start one with `vgpu-backend --listen PATH`, or unset VGPU_SOCKET"},
    {"all client slots are taken", VGPU_CAUSE_CONNECT, "the VM has as many clients as it may have",
     "end one, or raise the property clients of -device vgpu-cuda and --max-clients of vgpu-backend"},
    {"raise --max-clients", VGPU_CAUSE_CONNECT, "the backend serves as many clients as it may",
     "end one, or start vgpu-backend with a larger --max-clients; `vgpu ctl` raises it while it runs"},
    {"the backend refuses", VGPU_CAUSE_CONNECT, "the backend does not take this process",
     "the text says which limit; see the log of vgpu-backend"},
    {"protocol has another major version", VGPU_CAUSE_MISMATCH, "libcuda and backend do not match",
     "use libcuda, driver and backend of one build"},
    {"ioctl ABI", VGPU_CAUSE_MISMATCH, "libcuda and driver do not match",
     "use libcuda, driver and backend of one build"},
    {"speaks version", VGPU_CAUSE_MISMATCH, "libcuda and backend do not match",
     "use libcuda, driver and backend of one build"},
    {"shows no device", VGPU_CAUSE_NO_DEVICES, "the host's GPU library shows no device",
     "look at the host: nvidia-smi, CUDA_VISIBLE_DEVICES of the backend; or use --gpu soft"},
    {"does not start", VGPU_CAUSE_CONNECT, "the host's GPU library does not start",
     "see the log of vgpu-backend (`vgpu run --verbose`)"},
    {"the device or its backend is gone", VGPU_CAUSE_CONNECT,
     "QEMU has lost the backend of this virtual machine, and it is not back",
     "on the host: see why vgpu-backend has ended (journalctl -u vgpu-backend@VM), and start it again on the same "
     "socket: QEMU connects to it within a second, and the guest need not be started again. Where QEMU has said that "
     "its descriptor cannot connect again, start the virtual machine again"},
    {"create a client", VGPU_CAUSE_CONNECT, "the device does not take this process",
     "the text says why; see the log of vgpu-backend"},
    {"window", VGPU_CAUSE_MISMATCH, "what the host set up is not understood",
     "use libcuda, driver and backend of one build"},
};

static bool judge_init(struct vgpu_findings *f, const struct view *v, size_t init)
{
    const struct vgpu_cli_event *e = event_at(v, init);
    const char *why = reason_of(v, init);

    if (e->code == 0)
        return false;
    for (size_t i = 0; why && i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (strstr(why, ways[i].part)) {
            vgpu_cli_find(f, ways[i].cause, vgpu_cli_format("%s", ways[i].what), why, ways[i].remedy);
            return true;
        }
    }
    vgpu_cli_find(f, VGPU_CAUSE_CONNECT, vgpu_cli_format("cuInit fails: %s", e->result),
                  why ? why : show_event(e), "see the log of vgpu-backend (`vgpu run --verbose`)");
    return true;
}

/* ---- the start of the runtime ---- */

/* True for calls that show the runtime's start to be complete. */
static bool is_use(const struct vgpu_cli_event *e)
{
    static const char *const uses[] = {
        "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuCtxCreate", "cuLaunch", "cuMemAlloc",
        "cuLibraryLoadData",        "cuModuleLoad"};

    for (size_t i = 0; e->type == VGPU_EVENT_CALL && i < sizeof(uses) / sizeof(uses[0]); i++) {
        if (strncmp(e->call, uses[i], strlen(uses[i])) == 0)
            return true;
    }
    return false;
}

static bool judge_version(struct vgpu_findings *f, const struct view *v, bool init_seen)
{
    long version = -1;
    const char *said = NULL;

    for (size_t i = 0; i < v->ev->count; i++) {
        if (is_call(event_at(v, i), "cuDriverGetVersion"))
            version = vgpu_cli_event_number(event_at(v, i), "*driverVersion");
        if (event_at(v, i)->type == VGPU_EVENT_WHY && strstr(event_at(v, i)->text, "Insufficient driver"))
            said = event_at(v, i)->text;
    }
    if (!said && (init_seen || version < 0))
        return false;
    vgpu_cli_find(f, VGPU_CAUSE_VERSION,
                  vgpu_cli_format("the driver version %ld is too old for the program's runtime", version),
                  said ? said : "the runtime asked for the version and stopped",
                  "unset VGPU_DRIVER_VERSION; else the host needs a driver of the major version of the "
                  "program's libcudart (any 13.x runs with a driver 13.0), or the program an older toolkit");
    return true;
}

/* True for symbols that NVIDIA's runtime needs to start; further ones may be missing. */
static bool is_needed(const char *name)
{
    static const char *const needed[] = {
        "cuInit",      "cuGetProcAddress", "cuDriverGetVersion", "cuGetExportTable",     "cuDeviceGetCount",
        "cuDeviceGet", "cuDeviceGetName",  "cuDeviceTotalMem",   "cuDeviceGetAttribute", "cuDeviceGetUuid"};

    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        size_t n = strlen(needed[i]);

        if (strncmp(name, needed[i], n) == 0 && (name[n] == '\0' || name[n] == ':'))
            return true;
    }
    return false;
}

static bool judge_lookups(struct vgpu_findings *f, const struct view *v)
{
    for (size_t i = 0; i < v->ev->count; i++) {
        const struct vgpu_cli_event *e = event_at(v, i);

        if (e->type == VGPU_EVENT_WHY && strcmp(e->call, "cuGetProcAddress") == 0 && is_needed(e->text)) {
            vgpu_cli_find(f, VGPU_CAUSE_SYMBOL,
                          vgpu_cli_format("the runtime needs %.*s and does not get it",
                                          (int)strcspn(e->text, ":"), e->text),
                          e->text,
                          "use the libcuda of this version of vgpu-cuda; a runtime newer "
                          "than CUDA 13.5 may ask for names that this libcuda does not have");
            return true;
        }
    }
    return false;
}

static void found_table(struct vgpu_findings *f, const struct view *v, size_t i)
{
    const char *why = reason_of(v, i);

    vgpu_cli_find(f, VGPU_CAUSE_TABLE,
                  vgpu_cli_format("the runtime asked for the export table %s and did not get it: it "
                                  "stops there",
                                  vgpu_cli_table_name(why)),
                  why ? why : show_event(event_at(v, i)),
                  "a runtime newer than CUDA 13.5, or a tool (profiler, debugger): use a runtime of 11.8 "
                  "to 13.5, and no tool");
}

static void found_query(struct vgpu_findings *f, const struct view *v, size_t i)
{
    const struct vgpu_cli_event *e = event_at(v, i);
    bool attribute = is_call(e, "cuDeviceGetAttribute");

    if (is_call(e, "validity check")) {
        vgpu_cli_find(f, VGPU_CAUSE_VALIDITY, vgpu_cli_format("the validity check of NVIDIA's runtime fails"),
                      show_event(e),
                      vgpu_cli_words("build libcuda with CONFIG_VGPU_LIBCUDA_INTEGRITY=y",
                                     "use a libcuda of vgpu-cuda that is built with its validity check"));
        return;
    }
    vgpu_cli_find(f, VGPU_CAUSE_QUERY,
                  attribute ? vgpu_cli_format("the runtime asked for device attribute %ld and got an "
                                              "error: it needs all of them",
                                              vgpu_cli_event_number(e, "attrib"))
                            : vgpu_cli_format("the runtime's start failed in %s", e->call),
                  show_event(e), "unset VGPU_FAULT; else this is a fault of libcuda: keep the trace");
}

static bool program_crashed(const struct view *v)
{
    return v->end->started && WIFSIGNALED(v->end->status) &&
           (WTERMSIG(v->end->status) == SIGSEGV || WTERMSIG(v->end->status) == SIGBUS ||
            WTERMSIG(v->end->status) == SIGILL || WTERMSIG(v->end->status) == SIGABRT);
}

/* True for queries of a runtime that continues whatever the answer: whether there is a context
 * already, whether the driver has an entry point without a name. */
static bool is_probe(const struct vgpu_cli_event *e)
{
    return (e->code == 201 && strncmp(e->call, "cuCtxGet", 8) == 0) ||
           (strncmp(e->call, "cuGetProcAddress", 16) == 0 && strncmp(e->text, "symbol= ", 8) == 0);
}

/* Unserved slots of an export table; the caller's error does not name them. */
static bool judge_slots(struct vgpu_findings *f, const struct view *v)
{
    for (size_t i = 0; i < v->ev->count; i++) {
        const struct vgpu_cli_event *e = event_at(v, i);

        if (e->type != VGPU_EVENT_WHY || !strstr(e->text, "of the export table") ||
            !strstr(e->text, "not served"))
            continue;
        vgpu_cli_find(f, v->failed ? VGPU_CAUSE_TABLE_EMPTY : VGPU_CAUSE_NONE,
                      vgpu_cli_format("%.*s", (int)strcspn(e->text, ","), e->text), e->text,
                      v->failed ? "a runtime or a tool that uses more of libcuda than is served: use a "
                                  "runtime of CUDA 11.8 to 13.5, no profiler, and keep the trace"
                                : NULL);
        return v->failed;
    }
    return false;
}

/* Notes effects of the environment and limits, which matter however the program ended. */
static void note_surroundings(struct vgpu_findings *f, const struct view *v)
{
    bool staged = false;

    for (size_t i = 0; i < v->ev->count; i++) {
        const struct vgpu_cli_event *e = event_at(v, i);

        if (e->type == VGPU_EVENT_WHY && strstr(e->text, "are not pinned, copies") && !staged) {
            vgpu_cli_find(f, VGPU_CAUSE_NONE,
                          vgpu_cli_format("pinned memory beyond the limit is staged: slower copies, and none "
                                          "for kernels"),
                          e->text,
                          vgpu_cli_limit_remedy(e->text) ? vgpu_cli_limit_remedy(e->text) : PINNED_REMEDY);
            staged = true;
        }
        if (e->type == VGPU_EVENT_WHY && strcmp(e->call, "cuInit") == 0 &&
            strncmp(e->text, "CUDA_VISIBLE_DEVICES", 20) == 0 && strstr(e->text, " shows ")) {
            vgpu_cli_find(f, VGPU_CAUSE_NONE, vgpu_cli_format("%s", e->text), NULL, NULL);
        }
    }
}

/* Finds where the runtime stopped between cuInit and its first use. True: it stopped, and the cause
 * was found. */
static bool judge_start(struct vgpu_findings *f, const struct view *v, size_t init)
{
    size_t bad = 0, last = 0, checks = 0;
    const struct vgpu_cli_event *e;

    for (size_t i = init + 1; i < v->ev->count; i++) {
        e = event_at(v, i);
        if (e->type != VGPU_EVENT_CALL || strncmp(e->call, "nvml", 4) == 0)
            continue;
        if (is_use(e) && !bad)
            return false;
        last = i;
        checks += is_call(e, "validity check");
        if (is_call(e, "cuDeviceGetCount") && e->code == 0 && vgpu_cli_event_number(e, "*count") == 0) {
            vgpu_cli_find(f, VGPU_CAUSE_NO_DEVICES, vgpu_cli_format("libcuda shows no device to the program"),
                          show_event(e), "look at CUDA_VISIBLE_DEVICES and at the backend's GPU");
            return true;
        }
        if (e->code != 0 && !bad && !is_probe(e))
            bad = i;
    }
    /* A final error, apart from clean-up calls, shows where the runtime stopped. */
    if (bad && (v->failed || bad == last)) {
        if (is_call(event_at(v, bad), "cuGetExportTable"))
            found_table(f, v, bad);
        else
            found_query(f, v, bad);
        return true;
    }
    if (!v->failed)
        return false;
    if (judge_lookups(f, v) || judge_slots(f, v))
        return true;
    if (program_crashed(v)) {
        vgpu_cli_find(f, VGPU_CAUSE_TABLE_EMPTY,
                      vgpu_cli_format("the program died by signal %d while NVIDIA's runtime started",
                                      WTERMSIG(v->end->status)),
                      last ? show_event(event_at(v, last)) : NULL,
                      "an export table that it relies on is incomplete: unset VGPU_FAULT; else use "
                      "a runtime of CUDA 11.8 to 13.5, and keep the trace");
        return true;
    }
    if (checks >= 3 && last && is_call(event_at(v, last), "validity check")) {
        vgpu_cli_find(f, VGPU_CAUSE_VALIDITY,
                      vgpu_cli_format("the runtime stopped after its validity check: it did not like "
                                      "the answer (cudaError 103)"),
                      show_event(event_at(v, last)),
                      "unset VGPU_FAULT; do not wrap or copy libcuda's tables; a runtime newer than CUDA "
                      "13.5 may ask for another answer: use an older one");
        return true;
    }
    return false;
}

/* ---- after the start ---- */

static enum vgpu_cause cause_of(int code, const char *why)
{
    switch (code) {
    case 2:
        return why && strstr(why, "pin_limit_mib") ? VGPU_CAUSE_PINNED : VGPU_CAUSE_MEMORY;
    case 200: /* INVALID_IMAGE */
    case 209: /* NO_BINARY_FOR_GPU */
        return VGPU_CAUSE_IMAGE;
    case 218: /* INVALID_PTX */
    case 222: /* UNSUPPORTED_PTX_VERSION */
        return VGPU_CAUSE_PTX;
    case 700:
    case 709:
    case 710:
    case 714:
    case 715:
    case 716:
    case 717:
    case 718:
        return VGPU_CAUSE_KERNEL;
    case 702:
    case 719:
    case 46:
        return why && strstr(why, "worker") ? VGPU_CAUSE_WORKER : VGPU_CAUSE_KERNEL;
    case 801:
        if (why && strstr(why, "pin_limit_mib"))
            return VGPU_CAUSE_PINNED;
        /* An older host: libcuda does not send calls unknown to the worker. */
        return why && strstr(why, "the worker speaks") ? VGPU_CAUSE_MISMATCH : VGPU_CAUSE_REFUSED;
    default:
        return VGPU_CAUSE_CALL;
    }
}

/* why: the reason text, or NULL */
static const char *remedy_of(const struct view *v, enum vgpu_cause cause, const char *why)
{
    const char *profile = why ? strstr(why, "VGPU_SOFT_CC=") : NULL, *raise = vgpu_cli_limit_remedy(why);

    if (raise)
        return raise;

    if (cause == VGPU_CAUSE_IMAGE && profile)
        return vgpu_cli_format(
            "set %.*s for the backend (`vgpu run` and `vgpu vm` take it from the environment), or build the "
            "program with PTX for the capability that the device has",
            (int)strcspn(profile, " ,"), profile);
    if (cause == VGPU_CAUSE_IMAGE && v->log->torch)
        return vgpu_cli_format(
            "the wheels of PyTorch have machine code only, and the software GPU executes PTX: Debian's "
            "python3-torch-cuda has it, and so has a build with TORCH_CUDA_ARCH_LIST=8.0+PTX (%s, \"PyTorch with PTX\")",
            vgpu_cli_page("troubleshooting.md"));
    switch (cause) {
    case VGPU_CAUSE_MEMORY:
        return "a smaller model or batch; more device memory (VGPU_SOFT_MEMORY, --vram-quota of "
               "vgpu-backend); `vgpu smi` shows who uses it";
    case VGPU_CAUSE_IMAGE:
        return vgpu_cli_format(
            "build the program with PTX for this compute capability (nvcc -gencode "
            "arch=compute_80,code=compute_80): the software GPU executes PTX, no machine code; %s has "
            "the switches of just-in-time compilers",
            vgpu_cli_page("troubleshooting.md"));
    case VGPU_CAUSE_PTX:
        return "build with the host driver's toolkit version, or update the host's driver";
    case VGPU_CAUSE_REFUSED:
        if (why && strstr(why, "no pages of its own"))
            return PAGES_REMEDY;
        return vgpu_cli_format("%s lists what is served; many programs have an option that does without",
                               vgpu_cli_page("calls.md"));
    case VGPU_CAUSE_MISMATCH:
        return "the host's vgpu-backend and vgpu-worker are older than libcuda: update them";
    case VGPU_CAUSE_KERNEL:
        return "the program's own kernel: with nvcc -lineinfo the line of its source is named; else look at it as on any "
               "GPU (compute-sanitizer on a real one)";
    case VGPU_CAUSE_PINNED:
        return PINNED_REMEDY;
    case VGPU_CAUSE_WORKER:
        return "see the log of vgpu-backend (`vgpu run --verbose`)";
    default:
        return "see the call on the trace: `vgpu trace PROGRAM`";
    }
}

/* True for errors that are no fault: queries, "not yet", the program's own shutdown. */
static bool is_ordinary(const struct vgpu_cli_event *e)
{
    return e->code == 0 || e->code == 600 || e->code == 4 || strncmp(e->call, "nvml", 4) == 0 ||
           strncmp(e->call, "cuGetProcAddress", 16) == 0 || is_call(e, "cuGetExportTable") ||
           (e->code == 201 && strncmp(e->call, "cuCtxGet", 8) == 0) ||
           (e->code == 704 || e->code == 705); /* peer access: enabled already, not enabled */
}

static bool works_again(const struct view *v, size_t i)
{
    for (i++; i < v->ev->count; i++) {
        const struct vgpu_cli_event *e = event_at(v, i);

        if (e->type == VGPU_EVENT_CALL && e->code == 0 &&
            (strncmp(e->call, "cuLaunch", 8) == 0 || strncmp(e->call, "cuGraphLaunch", 13) == 0))
            return true;
    }
    return false;
}

/* Errors of calls that had returned already, and the worker's end, appear in reason lines only. */
static bool judge_late(struct vgpu_findings *f, const struct view *v)
{
    static const struct {
        const char *part;
        enum vgpu_cause cause;
        const char *what;
    } late[] = {
        {"NO_BINARY_FOR_GPU", VGPU_CAUSE_IMAGE, "a kernel has no code that this GPU can execute"},
        {"machine code only", VGPU_CAUSE_IMAGE, "a kernel has no code that this GPU can execute"},
        {"SASS", VGPU_CAUSE_IMAGE, "a kernel has no code that this GPU can execute"},
        {"UNSUPPORTED_PTX", VGPU_CAUSE_PTX, "the host's driver does not take the program's PTX"},
        {"the worker ended", VGPU_CAUSE_WORKER, "the worker on the host ended"},
        {"the worker was ended", VGPU_CAUSE_WORKER, "the worker on the host was ended"},
        {"forbidden system call", VGPU_CAUSE_WORKER, "the worker on the host was ended"},
        {"malformed record", VGPU_CAUSE_WORKER, "the worker did not understand libcuda"},
    };

    for (size_t i = 0; i < v->ev->count; i++) {
        for (size_t k = 0; k < sizeof(late) / sizeof(late[0]); k++) {
            if (event_at(v, i)->type == VGPU_EVENT_WHY && strcmp(event_at(v, i)->call, "worker") == 0 &&
                strstr(event_at(v, i)->text, late[k].part)) {
                const char *text = event_at(v, i)->text, *limit = limit_before(v, i);

                /* Time limits end the worker: the preceding line names the limit. */
                if (late[k].cause == VGPU_CAUSE_WORKER && limit && strstr(limit, "-time"))
                    text = limit;
                vgpu_cli_find(f, late[k].cause, vgpu_cli_format("%s", late[k].what), text,
                              remedy_of(v, late[k].cause, text));
                return true;
            }
        }
    }
    return false;
}

/* A limit reached by calls that had returned already, unless a later call reports it. */
static bool judge_limit(struct vgpu_findings *f, const struct view *v)
{
    for (size_t i = v->ev->count; i-- > 0;) {
        if (names_limit(event_at(v, i))) {
            vgpu_cli_find(f, VGPU_CAUSE_MEMORY,
                          vgpu_cli_format("the program has met a limit of vgpu-backend"),
                          event_at(v, i)->text, vgpu_cli_limit_remedy(event_at(v, i)->text));
            return true;
        }
    }
    return false;
}

/* Reports each refused name once; true: a verdict was found. */
static bool judge_calls(struct vgpu_findings *f, const struct view *v)
{
    bool verdict = false;
    int notes = 0;

    for (size_t i = 0; i < v->ev->count; i++) {
        const struct vgpu_cli_event *e = event_at(v, i);
        enum vgpu_cause cause;
        const char *why;
        bool harmless, refused = e->type == VGPU_EVENT_REFUSAL && strncmp(e->call, "nvml", 4) != 0;

        /* An unserved call has an event type of its own, once per name. */
        if (!refused && (e->type != VGPU_EVENT_CALL || is_ordinary(e)))
            continue;
        why = refused ? e->text : reason_of(v, i);
        cause = refused ? VGPU_CAUSE_REFUSED : cause_of(e->code, why);
        /* The program handled the error and went on to launch work. */
        harmless = !v->failed && works_again(v, i);
        if (verdict || (harmless && notes++ >= 8))
            continue;
        vgpu_cli_find(f, harmless ? VGPU_CAUSE_NONE : cause,
                      vgpu_cli_format(harmless ? "%s gave %s, and the program went on" : "%s failed with %s",
                                      e->call, refused ? "CUDA_ERROR_NOT_SUPPORTED" : e->result),
                      why ? why : show_event(e), harmless ? NULL : remedy_of(v, cause, why));
        verdict = !harmless;
    }
    return verdict;
}

void vgpu_cli_judge(struct vgpu_findings *f, const struct vgpu_cli_events *events,
                    const struct vgpu_ldlog *log, const struct vgpu_ending *end)
{
    struct view v = {events, log, end, end->started && end->status != 0};
    size_t init = events->count, calls = 0;
    bool sure;

    for (size_t i = 0; i < events->count; i++) {
        if (is_call(event_at(&v, i), "cuInit") && (init == events->count || event_at(&v, init)->code != 0))
            init = i; /* the first success, or the last failure */
        calls += events->list[i].type == VGPU_EVENT_CALL && strncmp(events->list[i].call, "nvml", 4) != 0;
    }
    if (vgpu_cli_judge_loader(f, log, end))
        return;
    if (!calls) {
        vgpu_cli_judge_silence(f, log, end, events->count != 0, v.failed);
        return;
    }
    note_surroundings(f, &v);
    sure = judge_version(f, &v, init < events->count);
    if (!sure && init < events->count)
        sure = judge_init(f, &v, init) || judge_start(f, &v, init);
    if (!sure)
        sure = (int)judge_late(f, &v) | (int)judge_calls(f, &v); /* both are reported */
    if (!sure && v.failed)
        sure = judge_limit(f, &v);
    if (!sure)
        sure = judge_slots(f, &v);
    if (!sure && v.failed && (log->missing_symbol || log->missing_library)) {
        vgpu_cli_judge_silence(f, log, end, true, true);
    } else if (!sure && v.failed && !judge_lookups(f, &v)) {
        vgpu_cli_find(f, VGPU_CAUSE_PROGRAM,
                      WIFSIGNALED(end->status)
                          ? vgpu_cli_format("the program died by signal %d; no call of CUDA failed",
                                            WTERMSIG(end->status))
                          : vgpu_cli_format("the program ended with status %d; no call of CUDA failed",
                                            WEXITSTATUS(end->status)),
                      NULL, "look at the program's own messages; `vgpu trace` shows its last calls");
    }
}
