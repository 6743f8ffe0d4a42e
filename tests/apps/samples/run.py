#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Builds NVIDIA's cuda-samples, runs them over the socket on the software GPU, writes a table.

  run.py --samples DIR --out DIR --build DIR [--table FILE] [--only-table] [--limit S] [--no-run] [SAMPLE...]

--samples  a checkout of the samples           --out     where they are built and run
--build    the project's build folder          --table   Markdown table to write
--limit    seconds that one run may take       SAMPLE    only these; others keep their last result
--extra    what the toolkit lacks: include/, lib/ and nvvm/ of a folder (README.md)

A sample is built as its own CMakeLists.txt says, but for the architectures (nvcc.sh). It is run in the
folder where it was built, with the arguments of the samples' own test_args.json, then with those of
args.txt. It passed when every run ended with status 0 and none of its lines says that it failed.
known.txt has those that cannot pass and why; a sample that is in it and passes, or is not in it and
does not pass, is a failure of this test. Where the reason begins with [ptx] the sample is run again with
asptx.so, which asks NVRTC and nvJitLink for PTX in place of machine code, and has to pass then.
"""
import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(HERE, "..", "..", "..", "scripts", "results.py")
SAYS_FAILED = re.compile(r"\b([Tt]est failed|Result = FAIL|FAILED|FAIL\b|(?<!0 )[1-9]\d* [Ff]ailures|"
                         r"CUDA error at|MISMATCH)")
SAYS_PASSED = re.compile(r"\b(pass(ed)?|success(ful(ly)?)?|verified|correct|succeeded|"
                         r"ok|match(es|ing)?|within tolerance|(?<!\d)0 errors|compared?)\b", re.I)
WAIVED = 2  # EXIT_WAIVED of the samples' helper headers


def read_words(name):
    """Lines "SAMPLE rest" of a file beside this one; a sample may have several."""
    table = {}
    with open(os.path.join(HERE, name), encoding="utf-8") as f:
        for line in f:
            line = line.strip()
            if line and not line.startswith("#"):
                sample, _, rest = line.partition(" ")
                table.setdefault(sample, []).append(rest.strip())
    return table


class Samples:
    """One checkout, one build folder."""

    def __init__(self, opt):
        self.opt = opt
        self.tree = os.path.join(opt.out, "tree")
        self.results = os.path.join(opt.out, "results")
        os.makedirs(self.results, exist_ok=True)
        self.folders = {}
        top = os.path.join(opt.samples, "Samples")
        for folder, _, files in sorted(os.walk(top)):
            rel = os.path.relpath(folder, top)
            if "CMakeLists.txt" in files and rel.count(os.sep) >= 1 and not rel.endswith("Tegra"):
                self.folders[os.path.basename(rel)] = rel
        with open(os.path.join(opt.samples, "test_args.json"), encoding="utf-8") as f:
            self.args = json.load(f)
        self.more = read_words("args.txt")
        self.known = read_words("known.txt")
        self.nvvm = opt.extra and os.path.isdir(os.path.join(opt.extra, "nvvm"))
        self.env = dict(os.environ, SAMPLES_NVCC=os.path.join(opt.cuda, "bin/nvcc"),
                        CUDA_HOME=opt.cuda, LC_ALL="C")
        # The toolkit may lie outside the loader's search path.
        places = [os.path.join(opt.cuda, "lib64")] + ([os.path.join(opt.extra, "lib")] if opt.extra else [])
        self.libraries = ":".join(places + [p for p in [os.environ.get("LD_LIBRARY_PATH")] if p])
        if opt.extra:
            self.env["CPATH"] = os.path.join(opt.extra, "include")
            self.env["LIBNVVM_HOME"] = opt.extra

    def configure(self):
        """One CMake project of all samples: a configuration of its own takes each one ten seconds."""
        lines = ["cmake_minimum_required(VERSION 3.20)", "project(samples LANGUAGES C CXX CUDA)",
                 "find_package(CUDAToolkit REQUIRED)", "set(CMAKE_CXX_STANDARD 17)",
                 "set(CMAKE_CUDA_STANDARD 17)", "set(CMAKE_POSITION_INDEPENDENT_CODE ON)",
                 'set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} --extended-lambda")']
        for name, rel in self.folders.items():
            path = os.path.join(self.opt.samples, "Samples", rel)
            if rel.startswith("7_libNVVM") or rel.startswith("8_Platform"):
                continue
            with open(os.path.join(path, "CMakeLists.txt"), encoding="utf-8") as f:
                needs = sorted(set(re.findall(r"CUDA::(\w+)", f.read())))
            test = " AND ".join("TARGET CUDA::" + n for n in needs) or "TRUE"
            lines += [f"if({test})", f'add_subdirectory("{path}" {name})', "else()",
                      f'message(STATUS "sample \'{name}\' needs {", ".join(needs)}")', "endif()"]
        if self.nvvm:
            lines += ["set(ENABLE_CUDA_C_LINKING_SAMPLE ON)",
                      f'add_subdirectory("{self.opt.samples}/Samples/7_libNVVM" 7_libNVVM)']
        os.makedirs(self.tree, exist_ok=True)
        text = "\n".join(lines) + "\n"
        where = os.path.join(self.opt.out, "CMakeLists.txt")
        if not os.path.exists(where) or open(where, encoding="utf-8").read() != text:
            with open(where, "w", encoding="utf-8") as f:
                f.write(text)
        log = os.path.join(self.opt.out, "configure.log")
        with open(log, "w", encoding="utf-8") as f:
            rc = subprocess.call(["cmake", "-G", "Ninja", "-S", self.opt.out, "-B", self.tree,
                                  "-DCMAKE_BUILD_TYPE=Release",
                                  "-DCMAKE_CUDA_COMPILER=" + os.path.join(HERE, "nvcc.sh"),
                                  "-DCUDAToolkit_ROOT=" + self.opt.cuda]
                                 + (["-DCMAKE_LIBRARY_PATH=" + os.path.join(self.opt.extra, "lib")]
                                    if self.opt.extra else []),
                                 env=self.env, stdout=f, stderr=subprocess.STDOUT)
        self.log = open(log, encoding="utf-8", errors="replace").read()
        return rc == 0

    def why_not_configured(self, name):
        rel = self.folders[name]
        if rel.startswith("7_libNVVM"):
            return "needs nvvm.h, which this toolkit does not have" if not self.nvvm else \
                "its CMakeLists.txt makes no target: see configure.log"
        if rel.startswith("8_Platform"):
            return "for Tegra boards"
        needs = re.search(rf"sample '{name}' needs (.*)", self.log)
        if needs:
            have = os.listdir(os.path.join(self.opt.cuda, "lib64"))
            have += os.listdir(os.path.join(self.opt.extra, "lib")) if self.opt.extra else []
            gone = [n for n in needs.group(1).split(", ")
                    if not any(f.startswith("lib" + n + ".") for f in have) and n != "cuda_driver"]
            return "the toolkit lacks lib" + ", lib".join(gone)
        said = re.search(rf"-- (.*'{name}'.*)", self.log)
        return said.group(1) if said else "its CMakeLists.txt makes no target"

    def build(self, name):
        """Programs that a sample's folder has after its build; or a reason."""
        target = self.folders[name] if self.folders[name].startswith("7_libNVVM") else name
        folder = os.path.join(self.tree, target)
        log = os.path.join(self.results, name + ".build")
        with open(log, "w", encoding="utf-8") as f:
            rc = subprocess.call(["ninja", "-C", self.tree, "-j", str(self.opt.jobs), target + "/all"],
                                 env=self.env, stdout=f, stderr=subprocess.STDOUT)
        text = open(log, encoding="utf-8", errors="replace").read()
        if "unknown target" in text:
            return None, self.why_not_configured(name)
        if rc:
            errors = re.findall(r"(?:.*(?:error:|fatal|undefined reference)|Error copying).*", text)
            why = errors[0].strip() if errors else "status %d" % rc
            for path in (self.opt.samples + "/Samples/", self.tree + "/"):
                why = why.replace(path, "")
            return None, "does not build: " + why
        programs = []
        for f in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            path = os.path.join(folder, f)
            if os.path.isfile(path) and os.access(path, os.X_OK) and open(path, "rb").read(4) == b"\x7fELF" \
                    and ".so" not in f:
                programs.append(path)
        ptxgen = os.path.join(self.tree, "7_libNVVM/ptxgen/ptxgen")
        if not programs and target != name and os.path.exists(ptxgen):
            programs = [ptxgen] # samples that are programs for it
        return (programs, None) if programs else (None, self.why_not_configured(name))

    def runs(self, name, program):
        """Argument lists of the samples' own tests, and ours."""
        own = self.args.get(os.path.basename(program), {})
        lists = [r.get("args", []) for r in own["runs"]] if "runs" in own else [own.get("args", [])]
        env = {"VGPU_SOFT_CC": "8.0,8.0"} if own.get("min_gpus", 1) > 1 else {}
        more = self.more.get(name)
        if more:
            lists = []
            for words in (shlex.split(m) for m in more):
                while words and re.match(r"[A-Z_]+=", words[0]):
                    key, _, value = words.pop(0).partition("=")
                    env[key] = value
                lists.append(words)
        return lists, env

    def run(self, name, program, preload=None):
        """(status, seconds, says it checked, reason): of the first run that fails, or of all."""
        folder = os.path.dirname(program)
        if name in self.folders and self.folders[name].startswith("7_libNVVM"):
            folder = os.path.join(self.tree, self.folders[name])
        data = os.path.join(self.opt.samples, "Samples", self.folders.get(name, ""), "data")
        if os.path.isdir(data) and not os.path.lexists(os.path.join(folder, "data")):
            os.symlink(data, os.path.join(folder, "data"))
        log = os.path.join(self.results, name + ".log")
        total, checked = 0.0, False
        open(log, "w").close()
        lists, more = self.runs(name, program)
        before_it = ["env", "LD_PRELOAD=" + preload] if preload else []
        for args in lists:
            env = dict(self.env, VGPU_TRACE="refusals", LD_LIBRARY_PATH=self.libraries, **more)
            start = time.time()
            with open(log, "a", encoding="utf-8") as f:
                f.write("$ %s\n" % shlex.join([os.path.basename(program)] + args))
                f.flush()
                before = f.tell()
                # Line buffering, so that the log of a killed run is complete.
                p = subprocess.Popen([self.opt.vgpu, "run", "--gpu", self.opt.gpu, "stdbuf", "-oL"]
                                     + before_it + [program] + args,
                                     cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=f,
                                     stderr=subprocess.STDOUT, start_new_session=True)
                try:
                    rc = p.wait(self.opt.limit)
                except subprocess.TimeoutExpired:
                    rc = None
                    os.killpg(p.pid, signal.SIGKILL)
                    p.wait()
            seconds = time.time() - start
            total += seconds
            with open(log, "rb") as f:
                f.seek(before)
                text = f.read(4 << 20).decode("utf-8", "replace")
            own = "\n".join(t for t in text.splitlines() if not t.startswith("vgpu"))
            if rc is None:
                return "slow", total, False, "not done after %d s" % self.opt.limit
            if rc == WAIVED:
                return "waived", total, False, self.last_line(own)
            if rc != 0 or SAYS_FAILED.search(own):
                refused = re.findall(r"^vgpu\[.*?\] (cu\w+)\(.*\) = (CUDA_ERROR_\w+)", text, re.M)
                why = "status %d: %s" % (rc, self.last_line(own, True))
                why = why.replace(self.opt.samples + "/Samples/", "").replace(self.tree + "/", "")
                if refused:
                    why += "; %s: %s" % refused[-1]
                return "failed", total, False, why
            checked = checked or bool(SAYS_PASSED.search(own))
        return "passed", total, checked, ""

    @staticmethod
    def last_line(text, fault=False):
        lines = [t.strip() for t in text.splitlines() if t.strip()]
        if fault:
            bad = [t for t in lines if SAYS_FAILED.search(t) or re.search("error|fail|abort", t, re.I)]
            lines = bad[:1] or lines
        return lines[-1][:200] if lines else "(no output)"

    def one(self, name):
        result = {"name": name, "folder": self.folders[name], "programs": []}
        programs, why = self.build(name)
        if not programs:
            result.update(built=False, state="not built", why=why)
        else:
            result.update(built=True, state="built", why="")
            worst = None
            for program in programs if not self.opt.no_run else []:
                base = os.path.basename(program)
                state, seconds, checked, why = self.run(
                    name if len(programs) == 1 else name + "-" + base, program)
                entry = {"program": base, "state": state, "seconds": round(seconds, 1),
                         "checked": checked, "why": why}
                result["programs"].append(entry)
                if worst is None or worst["state"] == "passed":
                    worst = entry
            if worst and worst["state"] == "failed" and self.opt.asptx and \
                    self.known.get(name, [""])[0].startswith("[ptx]"):
                state, seconds, checked, why = self.run(name, programs[0], self.opt.asptx)
                worst.update(state="as PTX" if state == "passed" else state, checked=checked,
                             seconds=round(seconds, 1), why=why)
            if worst:
                result.update(state=worst["state"], why=worst["why"], checked=worst["checked"],
                              seconds=sum(e["seconds"] for e in result["programs"]))
        with open(os.path.join(self.results, name + ".json"), "w", encoding="utf-8") as f:
            json.dump(result, f, indent=1)
        return result

    def all_results(self):
        out = []
        for name in self.folders:
            path = os.path.join(self.results, name + ".json")
            if os.path.exists(path):
                with open(path, encoding="utf-8") as f:
                    out.append(json.load(f))
        return sorted(out, key=lambda r: r["folder"].lower())


def write_table(path, results, known, revision):
    """The Markdown table: figures first, then a line for each sample."""
    built = [r for r in results if r["built"]]
    count = {}
    for r in results:
        if r["state"] == "failed" and r["name"] in known:
            r["state"] = "refused"
        count[r["state"]] = count.get(r["state"], 0) + 1
    by_own = sum(1 for r in built if r["state"] == "passed" and r.get("checked"))
    stamp = subprocess.run([RESULTS, "stamp"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    lines = [f"Table written {stamp}; a sample that was not run again keeps its last result.", "", "| state | samples |", "|---|---|"]
    lines.append(f"| in the checkout ({revision}) | {len(results)} |")
    lines.append(f"| built | {len(built)} |")
    lines.append(f"| passed | {count.get('passed', 0)} of {len(built)} "
                 f"({by_own} of them say that they checked their result) |")
    if count.get("as PTX"):
        lines.append("| passed when NVRTC or nvJitLink is asked for PTX; refused as they are | "
                     f"{count['as PTX']} |")
    for state in ("refused", "waived", "slow", "failed", "not built"):
        lines.append(f"| {state} | {count.get(state, 0)} |")
    lines += ["", "| sample | built | run | seconds | why |", "|---|---|---|---|---|"]
    for r in results:
        why = "; ".join(known.get(r["name"], [])).replace("[ptx] ", "") or r["why"]
        if r["state"] == "passed" and not r.get("checked"):
            why = "judged by its exit status"
        why = why.replace("|", "\\|")
        ran = r["state"] if r["built"] else ""
        lines.append(f"| {r['folder']} | {'yes' if r['built'] else 'no'} | {ran} | "
                     f"{r.get('seconds', '')} | {why} |")
    begin, end = "<!-- table: written by tests/apps/samples -->", "<!-- end of the table -->"
    text = open(path, encoding="utf-8").read() if os.path.exists(path) else f"{begin}\n{end}\n"
    head, _, rest = text.partition(begin)
    tail = rest.partition(end)[2]
    with open(path, "w", encoding="utf-8") as f:
        f.write(head + begin + "\n\n" + "\n".join(lines) + "\n\n" + end + tail)


def revision_of(samples):
    """Which samples: SAMPLES_REVISION, for a copy that is no checkout, or what git says."""
    git = subprocess.run(["git", "-C", samples, "describe", "--tags", "--always"],
                         capture_output=True, text=True, check=False)
    return os.environ.get("SAMPLES_REVISION") or git.stdout.strip() or "unknown revision"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--samples", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--build", required=True)
    p.add_argument("--cuda", default=os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    p.add_argument("--gpu", default="soft")
    p.add_argument("--table")
    p.add_argument("--limit", type=int, default=300)
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--extra", help="folder with what the toolkit lacks")
    p.add_argument("--asptx", help="asptx.so")
    p.add_argument("--no-run", action="store_true", help="build only")
    p.add_argument("--only-table", action="store_true", help="of the last results")
    p.add_argument("names", nargs="*")
    opt = p.parse_args()
    opt.vgpu = os.path.join(opt.build, "userspace/vgpu/vgpu")
    s = Samples(opt)
    known = read_words("known.txt")
    if opt.only_table:
        write_table(opt.table, s.all_results(), known, revision_of(opt.samples))
        return 0
    gone = [n for n in opt.names if n not in s.folders]
    if gone:
        p.error(f"{opt.samples} has no sample {', '.join(gone)}")
    if not s.configure():
        sys.exit("FAIL: samples: CMake: see " + os.path.join(opt.out, "configure.log"))
    passed = failed = skipped = 0
    for name in opt.names or s.folders:
        r = s.one(name)
        if r["state"] == "passed" and name not in known:
            passed += 1
            print(f"ok - {name} ({r['seconds']} s)")
        elif r["state"] == "as PTX":
            passed += 1
            print(f"ok - {name}, as PTX ({r['seconds']} s)")
        elif r["state"] == "passed":
            failed += 1
            print(f"FAIL: {name}: passes, and known.txt says that it cannot: {known[name][0]}")
        elif r["state"] == "failed" and opt.asptx and known.get(name, [""])[0].startswith("[ptx]"):
            failed += 1
            print(f"FAIL: {name}: as PTX too: {r['why']}")
        elif name in known or not r["built"] or r["state"] in ("built", "slow"):
            skipped += 1
            print(f"not run: {name}: {'; '.join(known.get(name, [r['why'] or r['state']]))}")
        else:
            failed += 1
            print(f"FAIL: {name}: {r['state']}: {r['why']}")
        sys.stdout.flush()
    if opt.table:
        write_table(opt.table, s.all_results(), known, revision_of(opt.samples))
    print(f"samples: {passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
