#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Other projects that forward the driver API, beside this one, over the same software GPU.

  peers.py --build DIR --bench DIR [--lupine DIR] [--smolvm DIR] [--again NAME] [--library NAME=FILE]
           [--rounds N] [--crowded] [--groups "NAME ..."] [--json FILE] [--table FILE]

DIR of a rival is a checkout that the caller has built (an error says how). Each group of rows (peer.c) is run
through every library in turn before the next group, in another order each round. Ratios are theirs / ours, of
the same round: above 1 ours is faster. What a library cannot do is shown with its error. --crowded: the same
once more beside as many computing processes as there are processors.
"""

import argparse
import contextlib
import ctypes
import datetime
import fcntl
import json
import os
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HOW = {
    "lupine": """cmake -S {dir} -B {dir}/build -DCMAKE_BUILD_TYPE=Release -DLUPINE_BUILD_NVML=OFF \\
    -DBUILD_TESTING=OFF -DCUDAToolkit_ROOT=CUDA_HOME
  cmake --build {dir}/build --target lupine_cuda_client lupine_driver_server
(needs the CUDA Toolkit's headers and libnghttp2 with its own; where that is not installed:
  -DNGHTTP2_INCLUDE_DIR=DIR -DNGHTTP2_LIBRARY=FILE)""",
    "smolvm": """cd {dir} && cargo build --release -p smolvm-cuda-shim
  cargo build --release -p smolvm-cuda --example shim_server --features gpu
  cargo build --release -p smolvm-cudart-shim    (optional: one more column, calls without an answer deferred)
(for pinned memory it needs a folder /opt/smolvm-ring on a tmpfs)""",
}
CLONE_NEWNET = 0x40000000
START_SECONDS = 20
# Fixed path where smolvm's library creates files of pinned memory; outside a VM pinned memory needs it.
SMOLVM_RING = "/opt/smolvm-ring"


class Unusable(Exception):
    """Why a library cannot be measured."""


def built(name, directory, *files):
    """The files of a checkout; Unusable with the commands that make them."""
    if not os.path.isdir(directory):
        raise Unusable("%s: %s is no folder: give the path of a checkout" % (name, directory))
    for file in files:
        if not os.path.exists(os.path.join(directory, file)):
            raise Unusable("%s is not built: %s has no %s. Build it:\n  %s" % (
                name, directory, file, HOW[name].format(dir=directory)))
    return [os.path.join(directory, file) for file in files]


def own_network():
    """In a new process: a network of loopback alone, for a server that would listen on every interface."""
    if ctypes.CDLL(None).unshare(CLONE_NEWNET) != 0:
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        up = struct.pack("16sh14x", b"lo", 1)  # SIOCSIFFLAGS, IFF_UP
        fcntl.ioctl(sock, 0x8914, up)


class Direct:
    """A library loaded by the program, without a server."""

    def __init__(self, name, library, prefix=()):
        self.name, self.library, self.prefix = name, library, list(prefix)
        self.source = None

    @contextlib.contextmanager
    def served(self):
        """The environment of a client, and what its process does before the program."""
        yield {}, None


class Served(Direct):
    """A library that reaches a server over TCP."""

    def __init__(self, name, source, library, command, args):
        super().__init__(name, library)
        self.source, self.command, self.args = source, command, args
        self.warned = False

    def environment(self, port):
        """Of server and client."""
        if self.command[0].endswith("shim_server"):
            shim = os.path.join(os.path.dirname(self.library), "libcudart.so")
            extra = {"LD_PRELOAD": shim} if self.name.endswith("+cudart") else {}
            return {"SMOLVM_CUDA_RING_HOST_DIR": SMOLVM_RING} if os.path.isdir(SMOLVM_RING) else {}, {"SMOLVM_CUDA_RPC": "tcp:127.0.0.1:%d" % port, **extra}
        return {"LUPINE_PORT": str(port)}, {"LUPINE_SERVER": "127.0.0.1:%d" % port}

    @contextlib.contextmanager
    def served(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server, client = self.environment(port)
        command = [word.replace("PORT", str(port)) for word in self.command]
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(self.args.provider, os.path.join(folder, "libcuda.so.1"))
            env = {**os.environ, **server, "LD_LIBRARY_PATH": folder}
            log = os.path.join(folder, "log")
            with open(log, "wb") as out, subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, start_new_session=True,
                    preexec_fn=own_network) as process:
                try:
                    with open("/proc/%d/ns/net" % process.pid, "rb") as network:
                        def join():
                            ctypes.CDLL(None).setns(network.fileno(), CLONE_NEWNET)
                        self.await_start(process, log, port)
                        self.warn_if_open(process)
                        yield client, join
                finally:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)

    def warn_if_open(self, process):
        """Says once where the server shares the network of this machine: it may listen on every interface."""
        if os.path.samefile("/proc/self/ns/net", "/proc/%d/ns/net" % process.pid) and not self.warned:
            print("peers: %s: no network of its own (not root): its server may be reachable from other machines" %
                  self.name, file=sys.stderr)
            self.warned = True

    def await_start(self, process, log, port):
        """Returns when the server listens; Unusable where it ends, or serves something else than the provider."""
        end = time.monotonic() + START_SECONDS
        listens = ":%04X 00000000:0000 0A" % port
        while time.monotonic() < end and process.poll() is None:
            with open("/proc/%d/net/tcp" % process.pid, encoding="ascii") as file:
                if listens in file.read():
                    break
            time.sleep(0.05)
        else:
            with open(log, encoding="utf-8", errors="replace") as file:
                raise Unusable("%s: the server does not start: %s" % (self.name, file.read()[-500:]))
        with open(log, encoding="utf-8", errors="replace") as file:
            if "cpu-emulation" in file.read():
                raise Unusable("%s: the server has not loaded the software GPU" % self.name)


def members(args):
    """The libraries to be measured: the provider itself, ours, the rivals."""
    vgpu = [os.path.join(args.build, "userspace/vgpu/vgpu"), "run", "--gpu", "soft"]
    found = [Direct("direct", args.provider), Direct("ours", "libcuda.so.1", vgpu)]
    if args.lupine:
        library, server = built("lupine", args.lupine, "build/libcuda.so.1", "build/lupine_driver_server")
        found.append(Served("lupine", args.lupine, library, [server], args))
    if args.smolvm:
        library, server = built("smolvm", args.smolvm, "target/release/libcuda.so", "target/release/examples/shim_server")
        for name in ["smolvm", "smolvm+cudart"]:
            if name == "smolvm" or os.path.exists(os.path.join(args.smolvm, "target/release/libcudart.so")):
                found.append(Served(name, args.smolvm, library, [server, "127.0.0.1:PORT"], args))
    if args.again:
        found.append(Direct(args.again, "libcuda.so.1", vgpu))
    for word in args.library:
        name, _, file = word.partition("=")
        if not os.path.exists(file):
            raise Unusable("--library %s: want NAME=FILE, and the file must be there" % word)
        found.append(Direct(name, os.path.abspath(file)))
    if len(found) == 2:
        raise Unusable("nothing to compare with: give --lupine DIR or --smolvm DIR (make bench-peers LUPINE=DIR "
                       "SMOLVM=DIR), the path of a checkout that is built:\n" +
                       "\n".join("  " + HOW[name].format(dir="DIR") for name in HOW))
    return found


def run_group(args, member, group, rows, client):
    """What one run says: {row: ns value or text of an error}."""
    env, join = client
    command = member.prefix + [args.peer, member.library, group] + (["--quick"] if args.quick else [])
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", env={**os.environ, **env}, start_new_session=True, preexec_fn=join) as process:
        try:
            text = process.communicate(timeout=args.limit)[0]
            why = "signal %d" % -process.returncode if process.returncode < 0 else "ended with %d" % process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            text = process.communicate()[0]
            why = "no result in %d s" % args.limit
    got = dict.fromkeys(rows, why)
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3 and words[0] in got and words[1] == "error":
            got[words[0]] = words[2]
        elif len(words) == 3 and words[0] in got and words[2] == "us":
            got[words[0]] = float(words[1])
    return got


def measure(args, found, groups):
    """All rounds: {row: {member: [value or error of each round]}}."""
    result = {row: {member.name: [] for member in found} for rows in groups.values() for row in rows}
    for i in range(args.rounds):
        print("round %d of %d, load %s" % (i + 1, args.rounds, os.getloadavg()[0]), file=sys.stderr, flush=True)
        order = found[i % len(found):] + found[:i % len(found)]
        for group, rows in groups.items():
            for member in order:
                # Each run has its own server, so that leftovers of a run do not affect the next.
                try:
                    with member.served() as client:
                        got = run_group(args, member, group, rows, client)
                except Unusable as why:
                    got = dict.fromkeys(rows, str(why).split("\n", maxsplit=1)[0])
                for row, value in got.items():
                    result[row][member.name].append(value)
    return result


def ratios(row, name):
    """Theirs / ours of each round that has both."""
    return sorted(theirs / ours for theirs, ours in zip(row[name], row["ours"])
                  if isinstance(theirs, float) and isinstance(ours, float) and ours > 0)


def cell(values):
    """The median in microseconds, or the errors."""
    good = [v for v in values if isinstance(v, float)]
    bad = sorted({v for v in values if not isinstance(v, float)})
    median = statistics.median(good) if good else 0
    text = ("%.0f" if median >= 1000 else "%.3g") % median if good else ""
    if bad:
        text += "%s%s (%d of %d)" % ("; " if good else "", ", ".join(bad), len(values) - len(good), len(values))
    return text


def table(result, found):
    """Lines of Markdown; rows in which a rival is faster come first, the most so on top."""
    rivals = [member.name for member in found if member.name not in ("direct", "ours")]
    yield "| row | direct | ours | %s |" % " | ".join("%s | / ours" % name for name in rivals)
    yield "|---|---|---|%s" % ("---|---|" * len(rivals))

    def best(item):
        medians = [statistics.median(r) for r in (ratios(item[1], name) for name in rivals) if r]
        return min([1.0] + medians)

    for row, members_of in sorted(result.items(), key=best):
        words = [row, cell(members_of["direct"]), cell(members_of["ours"])]
        for name in rivals:
            r = ratios(members_of, name)
            ratio = "**%.2f**" % statistics.median(r) if r and statistics.median(r) < 1 else (
                "%.2f" % statistics.median(r) if r else "-")
            words += [cell(members_of[name]), ratio + (" (%.2f to %.2f)" % (r[0], r[-1]) if len(r) > 1 else "")]
        yield "| %s |" % " | ".join(words)


def commit(directory):
    """Hash and date of a checkout."""
    done = subprocess.run(["git", "-C", directory, "log", "-1", "--format=%h of %cs"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False)
    return done.stdout.strip() or "unknown"


def facts(args, found):
    """What the figures depend on."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    commits = {"ours": commit(os.path.dirname(os.path.abspath(__file__)))}
    commits.update((member.name, commit(member.source)) for member in found if member.source)
    return {"date": datetime.date.today().isoformat(), "processors": os.cpu_count(), "model": (model or ["?"])[0],
            "kernel": os.uname().release, "rounds": args.rounds, "commits": commits}


@contextlib.contextmanager
def computing(args, count):
    """So many processes that only compute."""
    hogs = [subprocess.Popen([args.peer, "--spin"]) for _ in range(count)]  # pylint: disable=consider-using-with
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def arguments():
    """The command line, with the paths that follow from it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="the build folder of this project")
    parser.add_argument("--bench", help="the folder of `peer` (BUILD/tests/perf)")
    parser.add_argument("--lupine", help="a built checkout of Lupine")
    parser.add_argument("--smolvm", help="a built checkout of smolvm")
    parser.add_argument("--again", metavar="NAME", help="ours once more under this name: what the machine's noise is")
    parser.add_argument("--library", action="append", default=[], metavar="NAME=FILE", help="another libcuda, loaded directly")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of all libraries (5)")
    parser.add_argument("--groups", default="", help="only these groups of rows (peer --list)")
    parser.add_argument("--crowded", action="store_true", help="also beside as many computing processes as processors")
    parser.add_argument("--limit", type=int, default=60, help="seconds for a run of a group (60)")
    parser.add_argument("--quick", action="store_true", help="few samples: a test of the machinery, no figures")
    parser.add_argument("--paths-only", action="store_true", help="check that what is named is built, measure nothing")
    parser.add_argument("--json", help="write everything to this file")
    parser.add_argument("--table", help="write the tables to this file as well")
    args = parser.parse_args()
    if args.rounds < 1 or args.limit < 1:
        parser.error("--rounds and --limit are at least 1")
    args.build = os.path.abspath(args.build)
    args.bench = os.path.abspath(args.bench or os.path.join(args.build, "tests/perf"))
    args.peer = os.path.join(args.bench, "peer")
    args.provider = os.path.join(args.build, "host/softgpu/libcuda-soft.so.1")
    for name in ("lupine", "smolvm"):
        if getattr(args, name):
            setattr(args, name, os.path.abspath(getattr(args, name)))
    return args


def chosen(args):
    """{group: [row...]} as `peer --list` says, of --groups where given."""
    listed = subprocess.run([args.peer, "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout
    groups = {words[0]: words[1:] for words in map(str.split, listed.splitlines())}
    wanted = args.groups.split() or list(groups)
    for name in wanted:
        if name not in groups:
            raise Unusable("--groups: there is no %s; there are: %s" % (name, " ".join(groups)))
    return {name: groups[name] for name in wanted}


def main():
    """Measures, writes and prints."""
    args = arguments()
    try:
        found = members(args)
        if args.paths_only:
            return 0
        for file in (args.peer, args.provider, os.path.join(args.build, "userspace/vgpu/vgpu")):
            if not os.path.exists(file):
                raise Unusable("%s is not built: make bench-peers builds it" % file)
        groups = chosen(args)
    except Unusable as why:
        print("peers: %s" % why, file=sys.stderr)
        return 2
    about = facts(args, found)
    about["load"] = [os.getloadavg()[0]]
    results = {"plain": measure(args, found, groups)}
    about["load"].append(os.getloadavg()[0])
    if args.crowded:
        with computing(args, about["processors"]):
            results["crowded"] = measure(args, found, groups)
        about["load"].append(os.getloadavg()[0])
    lines = ["Date %(date)s, %(processors)d processors (%(model)s), Linux %(kernel)s, %(rounds)d rounds." % about,
             "Commits: %s." % ", ".join("%s %s" % pair for pair in about["commits"].items()),
             "Load (1 minute) before, between and after: %s." % ", ".join("%.1f" % load for load in about["load"])]
    for name, result in results.items():
        lines += ["", "%s, microseconds, medians:" % ("Without computing processes" if name == "plain" else
                                                       "Beside %d computing processes" % about["processors"]), ""]
        lines += table(result, found)
    print("\n".join(lines))
    if args.table:
        with open(args.table, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"about": about, **results}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
