#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""one.py BUILD CUDA_HOME SUITE[/PATTERN]...: runs suites, or the tests of a suite that match a shell pattern.

SUITE is a folder with tests (tests/conformance/driver), the end of its path (driver), or the name that the
suite prints (conform). Without /PATTERN the whole suite runs, as in `make test`. A suite that is not known, a suite
without selection, or a pattern that matches no test is an error (exit status 2), which lists what there is. Exit status
1: a test failed.
"""
import fnmatch
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.abspath(os.path.join(HERE, "../.."))
PARTS = ["scripts", "protocol", "lib", "host/softgpu", "host/backend", "userspace/libcuda",
         "userspace/libnvidia-ml", "userspace/vgpu", "kernel/vgpu_drv", "qemu-device", "demo"]
# Unit tests in cmocka programs: selected by a preloaded library (filter.c).
UNITS = ["lib", "host/softgpu", "host/backend", "userspace/libcuda"]
# Names printed by suites, where they differ from the end of the path.
NAMES = {"conform": "tests/conformance/driver", "api": "tests/conformance/entrypoints",
         "libs": "tests/conformance/libraries", "ptxgen": "tests/ptx/random", "bench": "tests/perf",
         "backend": "host/backend", "softgpu": "host/softgpu"}


class Wrong(Exception):
    """What was asked for cannot be run."""


def suites():
    """All folders with a check, relative to the top."""
    found = list(PARTS)
    for root, _, files in os.walk(os.path.join(TOP, "tests")):
        if "Makefile" in files:
            found.append(os.path.relpath(root, TOP))
    return sorted(found)


def folder_of(name):
    every = suites()
    named = name.strip("/")
    if named in every:
        return named
    if named in NAMES:
        return NAMES[named]
    ends = [s for s in every if s.endswith("/" + named)]
    if len(ends) != 1:
        aliases = ", ".join("%s (%s)" % pair for pair in sorted(NAMES.items()))
        raise Wrong("%s suite %s; there are:\n  %s\nand by the names that they print: %s" %
                    ("more than one" if ends else "no", name, "\n  ".join(every), aliases))
    return ends[0]


def split(word):
    """(folder, pattern or None) of SUITE[/PATTERN]; the longest SUITE that there is."""
    pieces = word.split("/")
    for n in range(len(pieces), 0, -1):
        try:
            return folder_of("/".join(pieces[:n])), "/".join(pieces[n:]) or None
        except Wrong:
            if n == 1:
                raise
    raise Wrong("empty")


class Runner:
    def __init__(self, build, cuda):
        self.build, self.cuda = build, cuda
        self.soft = ["env", "LD_LIBRARY_PATH=" + os.path.join(build, "host/softgpu")]
        self.socket = [os.path.join(build, "userspace/vgpu/vgpu"), "run", "--gpu", "soft"]

    def make(self, folder, goal):
        subprocess.run(["make", "-s", "--no-print-directory", "-C", os.path.join(TOP, folder), goal, "CUDA_HOME=" + self.cuda,
                        "O=" + os.path.join(self.build, folder)], check=True)

    def lines(self, command):
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()

    def whole(self, folder):
        return subprocess.run(["make", "--no-print-directory", "-C", TOP, "check-" + folder.replace("/", ".")],
                              check=False).returncode

    def choose(self, folder, pattern, names):
        chosen = [n for n in names if fnmatch.fnmatchcase(n, pattern)]
        if not chosen:
            raise Wrong("no test of %s matches %s; there are:\n  %s" % (folder, pattern, "\n  ".join(names)))
        return chosen

    def units(self, folder, pattern):
        place = os.path.join(self.build, "tests/runner")
        os.makedirs(place, exist_ok=True)
        library, names = os.path.join(place, "filter.so"), os.path.join(place, "names")
        subprocess.run([os.environ.get("CC", "gcc"), "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-shared",
                        "-fPIC", "-o", library, os.path.join(HERE, "filter.c"), "-ldl", "-lcmocka"], check=True)
        open(names, "w").close()
        env = dict(os.environ, VGPU_TEST=pattern, VGPU_TEST_NAMES=names, VGPU_TEST_PRELOAD=library)
        status = subprocess.run(["make", "-s", "--no-print-directory", "-C", TOP, "check-" + folder.replace("/", ".")],
                                env=env, check=False).returncode
        with open(names, encoding="utf-8") as f:
            seen = [line.split() for line in f]
        if seen and not any(flag == "1" for flag, _ in seen):
            raise Wrong("no test of %s matches %s; there are:\n  %s" %
                        (folder, pattern, "\n  ".join(name for _, name in seen)))
        return status

    def part(self, folder, pattern):
        """Runs the tests of a folder that match."""
        at = os.path.join(self.build, folder)
        if folder in UNITS:
            return self.units(folder, pattern)
        if folder not in self.SELECT:
            raise Wrong("the tests of %s depend on each other: make check T=%s runs all of them; one can be selected of\n  %s" %
                        (folder, folder, "\n  ".join(sorted([*UNITS, *self.SELECT]))))
        return self.SELECT[folder](self, folder, at, pattern)

    def run(self, *command):
        return subprocess.run(list(command), env=dict(os.environ, CUDA_HOME=self.cuda), check=False).returncode

    def conform(self, folder, at, pattern):
        self.make(folder, "all")
        names = self.choose(folder, pattern, self.lines([*self.soft, at + "/conform", "--list"]))
        return self.run(*self.socket, at + "/conform", *names)

    def walk(self, folder, at, pattern):
        self.make(folder, "all")
        names = self.choose(folder, pattern, self.lines([*self.soft, at + "/walk", "--list"]))
        os.makedirs(at + "/out/files", exist_ok=True)
        return subprocess.run([*self.socket, at + "/walk", "--ours", *names], cwd=at + "/out/files", check=False).returncode

    def blas(self, folder, at, pattern):
        self.make(folder, "all")
        return self.run(*self.socket, at + "/blas", *self.choose(folder, pattern, self.lines([*self.socket, at + "/blas", "--list"])))

    def cub(self, folder, at, pattern):
        names = self.choose(folder, pattern, ["sort", "scan", "thrust", "groups", "headers"])
        self.make(folder, "all")
        return max(self.run(*self.socket, at + "/" + name) for name in names)

    def libraries(self, folder, at, pattern):
        self.make(folder, "all")
        programs = [p for p in ("cufft", "curand", "cusolver", "cusparse", "nccl", "cudnn") if os.path.exists(at + "/" + p)]
        names = ["%s:%s" % (p, case) for p in programs for case in self.lines([*self.socket, at + "/" + p, "--list"])]
        return max(self.run(*self.socket, at + "/" + n.split(":")[0], n.split(":")[1]) for n in self.choose(folder, pattern, names))

    def random(self, folder, at, pattern):
        if not re.fullmatch(r"[0-9]+", pattern):
            raise Wrong("%s is selected by the number of a program: make check T=random/17" % folder)
        self.make(folder, "all")
        return self.run(at + "/ptxgen", "--seed", pattern)

    def fuzz(self, folder, at, pattern):
        names = self.choose(folder, pattern, ["fuzz_image", "fuzz_sass", "fuzz_ptx", "fuzz_exec", "fuzz_exec-native", "fuzz_exec-avx2"])
        self.make(folder, "all")
        return self.run("sh", os.path.join(TOP, folder, "run.sh"), at, os.path.join(TOP, folder), "check", "10", *names)

    def faults(self, folder, at, pattern):
        names = []
        for source in ("faults.py", "shared.py"):
            with open(os.path.join(TOP, folder, source), encoding="utf-8") as f:
                names += re.findall(r"^def test_(\w+)", f.read(), re.M)
        names = self.choose(folder, pattern, names)
        self.make(folder, "all")
        return self.run(sys.executable, os.path.join(TOP, folder, "faults.py"), "--top-build", self.build, "--build", at, *names)

    def boot(self, folder, at, pattern):
        names = self.choose(folder, pattern, ["guest", "killed"])
        self.make(folder, "all")
        return self.run(sys.executable, os.path.join(TOP, folder, "boot.py"), "--top-build", self.build, "--build", at, *names)

    SELECT = {"tests/conformance/driver": conform, "tests/conformance/entrypoints": walk, "tests/conformance/blas": blas,
              "tests/conformance/cub": cub, "tests/conformance/libraries": libraries, "tests/ptx/random": random,
              "tests/ptx/fuzz": fuzz, "tests/system/faults": faults, "tests/system/boot": boot}


def main(args):
    if len(args) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    runner, status = Runner(os.path.abspath(args[0]), args[1]), 0
    try:
        wanted = [split(word) for word in " ".join(args[2:]).split()]
        for folder, pattern in wanted:
            began = time.monotonic()
            rc = runner.part(folder, pattern) if pattern else runner.whole(folder)
            sys.stdout.flush()
            print("%s%s: %s (%d s)" % (folder, "/" + pattern if pattern else "", "passed" if rc == 0 else "FAILED",
                                       time.monotonic() - began), flush=True)
            status = status or (1 if rc else 0)
    except Wrong as e:
        print("check: %s" % e, file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as e:
        print("check: ended with status %d: %s" % (e.returncode, " ".join(map(str, e.cmd[:8]))), file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
