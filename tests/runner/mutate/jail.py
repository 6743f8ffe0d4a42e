#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs one mutant where it can do no harm: in namespaces of its own, on a throw-away layer over a copy of the tree.

A mutant is a program with a fault in it, which may signal, unlink or allocate what it should not. Inside, processes are in a
PID namespace that ends with the run; / is read-only; /tmp and /dev/shm are private; and at the place of the tree
lies an overlay, whose changes vanish with the run. As it lies at the tree's own place, every path that the build has
recorded holds, and only what depends on the mutated file is built.

copy() makes the copy, run() starts this file again inside and gives back its answer. Needs root, or user namespaces with overlays.
"""
import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time

MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
TAIL = 4000


class Failed(Exception):
    """The jail itself did not work: says nothing about the mutant."""


# ---- outside ----

def copy(top, tree, folders, linked):
    """Copies the sources that git knows, and the build FOLDERS, from TOP to TREE; times are kept. LINKED folders, of which nothing
    is written in place, become hard links."""
    new = tree + ".new"
    shutil.rmtree(new, ignore_errors=True)
    os.makedirs(new)
    files = subprocess.run(["git", "-C", top, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], check=True,
                           stdout=subprocess.PIPE).stdout.split(b"\0")
    paths = [f.decode() for f in files if f and os.path.lexists(os.path.join(top, f.decode()))]
    for folder in folders:
        at, to = os.path.join(top, folder), os.path.join(new, folder)
        if os.path.isfile(at):
            paths.append(folder)
        elif os.path.isdir(at):
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copytree(at, to, symlinks=True, copy_function=os.link if folder in linked else shutil.copy2)
    for path in paths:
        os.makedirs(os.path.join(new, os.path.dirname(path)), exist_ok=True)
        shutil.copy2(os.path.join(top, path), os.path.join(new, path), follow_symlinks=False)
    shutil.rmtree(tree, ignore_errors=True)
    os.rename(new, tree)


def run(top, tree, box, job, limit):
    """Runs JOB (see inside()) with the copy TREE at TOP; returns its answer. keep in JOB: changes stay in the copy."""
    os.makedirs(box, exist_ok=True)
    job = dict(job, top=top, tree=tree, box=box)
    # The jail and all its processes die with the thread that started it.
    command = ["setpriv", "--pdeathsig", "KILL", "unshare", *([] if os.getuid() == 0 else ["--user", "--map-root-user"]), "--mount", "--pid", "--ipc", "--fork",
               "--kill-child", "--mount-proc", sys.executable, "-B", os.path.abspath(__file__)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
        try:
            out, err = p.communicate(json.dumps(job), timeout=limit)
        except subprocess.TimeoutExpired:
            p.kill()
            p.communicate()
            raise Failed("no answer after %d s" % limit)
        except BaseException:
            p.kill()
            raise
    try:
        return json.loads(out)
    except ValueError:
        raise Failed((err or out).strip()[-1000:] or "ended with status %d" % p.returncode)


def refused(folder):
    """Why this machine has no such namespaces, or None."""
    for name in ("tree", "top"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    try:
        run(os.path.join(folder, "top"), os.path.join(folder, "tree"), os.path.join(folder, "box"), {"suites": []}, 60)
    except (Failed, OSError) as e:
        return " ".join(str(e).split())
    return None


# ---- inside ----

LIBC = ctypes.CDLL(None, use_errno=True)


def mount(source, target, kind=None, flags=0, data=None):
    code = [None if x is None else x.encode() for x in (source, target, kind, data)]
    if LIBC.mount(code[0], code[1], code[2], ctypes.c_ulong(flags), code[3]) != 0:
        e = ctypes.get_errno()
        raise OSError(e, "mount %s: %s" % (target, os.strerror(e)))


def enter(job):
    """Mounts, for the rest of this process's life."""
    top, box = job["top"], job["box"]
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    mount("none", box, "tmpfs", 0, "size=8g")
    if job.get("keep"):
        os.chdir(job["tree"])
    else:
        for name in ("up", "work", "at"):
            os.mkdir(os.path.join(box, name))
        mount("overlay", box + "/at", "overlay", 0, "lowerdir=%s,upperdir=%s/up,workdir=%s/work" % (job["tree"], box, box))
        os.chdir(box + "/at")
    lower, upper = os.open(job["tree"], os.O_PATH), os.open(box + ("/up" if not job.get("keep") else ""), os.O_PATH)
    # Kept reachable through the working directory, since the tree may lie in /tmp.
    mount("none", "/tmp", "tmpfs", 0, "size=4g,mode=1777")
    if os.path.isdir("/var/tmp"):
        mount("none", "/var/tmp", "tmpfs", 0, "size=1g,mode=1777")
    os.makedirs(top, exist_ok=True)
    mount(".", top, None, MS_BIND)
    if os.path.isdir("/dev/shm"):
        mount("none", "/dev/shm", "tmpfs", 0, "mode=1777")
    try:
        mount(None, "/", None, MS_REMOUNT | MS_BIND | MS_RDONLY)
    except OSError as e:
        raise OSError(e.errno, "/ cannot be made read-only: %s" % e.strerror) from e
    os.chdir(top)
    return lower, upper


def tail(path):
    with open(path, "rb") as f:
        f.seek(max(0, os.path.getsize(path) - TAIL))
        return f.read().decode(errors="replace")


def command(words, env, log, limit):
    """(status or None for too long, seconds)."""
    began = time.monotonic()
    with open(log, "wb") as out:
        p = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=env, start_new_session=True)
        try:
            status = p.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
    return status, round(time.monotonic() - began, 1)


def same_code(lower, upper):
    """True if objects were built and all of them are, apart from debug information, what they were."""
    seen, fds = False, "/proc/%d/fd/" % os.getpid()  # not "self": objcopy has no such descriptors
    for where, _, names in os.walk(fds + "%d/" % upper):
        for name in names:
            if not name.endswith(".o"):
                continue
            new = os.path.join(where, name)
            old = fds + "%d/" % lower + os.path.relpath(new, fds + "%d/" % upper)
            stripped = []
            for n, path in enumerate((old, new)):
                to = "/tmp/stripped.%d" % n
                if subprocess.run(["objcopy", "--strip-debug", path, to], check=False, stderr=subprocess.DEVNULL).returncode:
                    return False
                with open(to, "rb") as f:
                    stripped.append(f.read())
            if stripped[0] != stripped[1]:
                return False
            seen = True
    return seen


def inside(job):
    """JOB: file and text (the mutant; none: the tree as it is); suites: [{name, build, commands, limit, build_limit}].
    Answers {outcome: noticed|timeout|build|same|survived, suite, why, times}."""
    lower, upper = enter(job)
    env = dict(os.environ, VGPU_BUILD=os.path.join(job["top"], "build"), **job.get("env", {}))
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "VGPU_TEST_PRELOAD", "TMPDIR"):
        env.pop(name, None)
    if job.get("file"):
        with open(job["file"], "w", encoding="utf-8") as f:
            f.write(job["text"])
    times = {}
    for n, suite in enumerate(job["suites"]):
        spent = 0.0
        if suite["build"]:
            status, _ = command(suite["build"], env, "/tmp/build.log", suite["build_limit"])
            said = tail("/tmp/build.log")
            # A mutant with such a warning is too obvious: every build would show it.
            loud = "-Wint-conversion" in said or "-Wincompatible-pointer-types" in said
            if status != 0 or loud:
                return {"outcome": "build" if n == 0 or loud else "noticed", "suite": suite["name"], "why": said, "times": times}
            if n == 0 and job.get("file") and same_code(lower, upper):
                return {"outcome": "same", "suite": suite["name"], "why": "", "times": times}
        for words in suite["commands"]:
            status, seconds = command(words, env, "/tmp/test.log", suite["limit"])
            spent += seconds
            if status != 0:
                return {"outcome": "timeout" if status is None else "noticed", "suite": suite["name"],
                        "why": tail("/tmp/test.log"), "times": times}
        times[suite["name"]] = round(spent, 1)
    return {"outcome": "survived", "suite": "", "why": "", "times": times}


def main():
    """Process 1 of the namespace: starts the work and reaps what it leaves."""
    job = json.load(sys.stdin)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as f:
            f.write("1000")
        try:
            answer = inside(job)
        except (OSError, subprocess.SubprocessError) as e:
            print("jail: %s" % e, file=sys.stderr)
            os._exit(1)
        with os.fdopen(write, "w") as f:
            json.dump(answer, f)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as f:
        # Reaps orphans in a loop without threads until the answer closes the pipe.
        signal.signal(signal.SIGCHLD, reap(child))
        answer = f.read()
    sys.stdout.write(answer)
    sys.stdout.flush()


def reap(child):
    def handler(_signal, _frame):
        try:
            while os.waitpid(-1, os.WNOHANG)[0] > 0:
                pass
        except ChildProcessError:
            pass
    return handler


if __name__ == "__main__":
    main()
