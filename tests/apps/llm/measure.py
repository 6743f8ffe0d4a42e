#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Speed of a small language model, and agreement with ggml's CPU backend: docs/results/llm.md, and rows of `make bench`.

  measure.py table --build DIR --cuda DIR --out FILE [--rounds N] [--tokens N] [--size SIZE]
  measure.py bench --build DIR --cuda DIR [--quick] [--cpu-time] [--json FILE]

Each type of weights in interleaved rounds: the CUDA backend on the software GPU over the socket, and
ggml's CPU backend on the same processors with one thread and with as many as there are processors. The
best of the rounds counts, because the machine may be shared. `table` has the same in one guest,
and a run under `vgpu trace` for what goes to the worker. `bench` has the prompt twice: cold, with all that a first one
costs (modules, code, memory), and warm. --cpu-time: one thread's CPU time on both sides, of the kernels alone on ours.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time

RATES = re.compile(r"prompt (\d+) tokens, ([\d.]+) tokens/s; decoding (\d+) tokens, ([\d.]+) tokens/s")
AGAIN = re.compile(r"the prompt again: ([\d.]+) tokens/s")
LOGITS = re.compile(r"largest difference ([\d.e+-]+), nmse ([\d.e+-]+)")
TOKENS = re.compile(r"^tokens: (.*)$", re.M)
TYPES = ["f16", "q8_0", "q4_k", "q4_0"]
AIM_CPU = 8.0  # times slower than ggml's CPU backend
AIM_SCALING = 1.8


class Failed(Exception):
    """A run did not do what it should."""


class Run:
    """What one run of llm_eval said."""

    def __init__(self, text):
        rates = RATES.search(text)
        if not rates:
            raise Failed("llm_eval says: %s" % text[-400:])
        self.prompt_tokens, self.tokens = int(rates.group(1)), int(rates.group(3))
        self.prompt, self.decode = float(rates.group(2)), float(rates.group(4))
        again = AGAIN.search(text)
        self.warm = float(again.group(1)) if again else 0.0
        logits = LOGITS.search(text)
        self.largest, self.nmse = (logits.group(1), logits.group(2)) if logits else ("", "")
        tokens = TOKENS.search(text)
        self.same = tokens.group(1) if tokens else ""


class Best:
    """The best of several runs, of prompt and of decoding."""

    def __init__(self):
        self.prompt = self.warm = self.decode = 0.0
        self.last = None

    def add(self, run):
        """One more run."""
        self.prompt, self.decode = max(self.prompt, run.prompt), max(self.decode, run.decode)
        self.warm = max(self.warm, run.warm)
        self.last = run


class Place:
    """Where everything is, and how it is run."""

    def __init__(self, build, cuda, size, tokens, cpu_time=False):
        self.build, self.size, self.tokens, self.cpu_time = build, size, tokens, cpu_time
        self.here = os.path.dirname(os.path.abspath(__file__))
        self.out = os.path.join(build, "tests", "apps", "llm")
        self.work = os.path.join(self.out, "measure")
        self.vgpu = os.path.join(build, "userspace", "vgpu", "vgpu")
        libs = os.path.join(build, "npm", "node_modules", "@node-llama-cpp")
        self.cuda_libs = os.path.join(libs, "linux-x64-cuda", "bins", "linux-x64-cuda")
        self.cpu_libs = os.path.join(libs, "linux-x64", "bins", "linux-x64")
        earlier = os.environ.get("LD_LIBRARY_PATH")
        self.env = dict(os.environ, GGML_NO_BACKTRACE="1",
                        LD_LIBRARY_PATH=os.path.join(cuda, "lib64") + (":" + earlier if earlier else ""))
        os.makedirs(self.work, exist_ok=True)

    def model(self, kind):
        """The model's file; made by the Makefile where it is not there."""
        return os.path.join(self.out, "models", "%s-%s.gguf" % (self.size, kind))

    def saved(self, kind):
        """Where the CPU's logits are."""
        return os.path.join(self.work, kind + ".bin")

    def command(self, kind, device, *more):
        """llm_eval's command line."""
        return [os.path.join(self.out, "llm_eval"), "--backends", self.cuda_libs if device == "cuda" else self.cpu_libs,
                "--device", device, "--prompt", os.path.join(self.here, "prompt.md"), "--model", self.model(kind),
                "--again", "--quiet"] + (["--cpu-time"] if self.cpu_time else []) + list(more)

    def run(self, command, timeout=600, env=None):
        """Its output; Failed where it does not end well."""
        try:
            done = subprocess.run(command, env=dict(self.env, **(env or {})), cwd=self.work, text=True, errors="replace",
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=timeout, check=False)
        except subprocess.TimeoutExpired as error:
            raise Failed("%s: no end within %d s" % (command[0], timeout)) from error
        if done.returncode:
            raise Failed("%s: status %d: %s" % (command[0], done.returncode, done.stdout[-400:]))
        return done.stdout

    def cpu(self, kind, threads, *more):
        """ggml's CPU backend."""
        return Run(self.run(self.command(kind, "cpu", "--tokens", str(self.tokens), "--threads", str(threads), *more)))

    def gpu(self, kind, threads=None):
        """The CUDA backend on the software GPU over the socket, following the CPU's tokens."""
        env = {"VGPU_SOFT_THREADS": str(threads)} if threads else {}
        with tempfile.TemporaryDirectory() as folder:
            if self.cpu_time:
                os.chmod(folder, 0o777)  # a worker may be another user
                env = {"VGPU_SOFT_THREADS": "1", "VGPU_SOFT_PROFILE": os.path.join(folder, "profile")}
            return Run(self.run([self.vgpu, "run", "--gpu", "soft"] + self.command(
                kind, "cuda", "--tokens", str(self.tokens), "--follow", self.saved(kind)), env=env))

    def trace(self, kind, tokens):
        """Calls, records and round trips of a run of so many tokens."""
        path = os.path.join(self.work, "trace.json")
        self.run([self.vgpu, "trace", "--gpu", "soft", "--totals", "--json", path] +
                 self.command(kind, "cuda", "--tokens", str(tokens)))
        count = {"calls": 0, "graphs": 0}
        with open(path, encoding="ascii") as file:
            for line in file:
                event = json.loads(line)
                if event["type"] == "call":
                    count["calls"] += 1
                    count["graphs"] += event["call"] == "cuGraphLaunch"
                elif event["type"] == "ring":
                    for word in event["text"].split():
                        name, value = word.split("=")
                        count[name] = count.get(name, 0) + int(value)
        return count

    def per_token(self, kind):
        """The same for one further token: 40 tokens less 8 tokens."""
        few, many = self.trace(kind, 8), self.trace(kind, 40)
        return {name: (many[name] - few[name]) / 32.0 for name in many}

    def guest(self, kinds):
        """The CUDA backend in one guest, each type once: {type: Run}, and is its processor emulated?"""
        script = os.path.join(self.work, "guest.sh")
        with open(script, "w", encoding="utf-8") as file:
            for kind in kinds:
                file.write("echo 'TYPE %s'\n%s || exit 1\n" % (kind, shlex.join(self.command(
                    kind, "cuda", "--tokens", str(self.tokens), "--follow", self.saved(kind)))))
        text = self.run([self.vgpu, "vm", "run", "--gpu", "soft", "--memory", "3072", "--timeout", "1500",
                         "/bin/bash", script], timeout=1600)
        parts = re.split(r"^TYPE (\w+)\s*$", text, flags=re.M)
        return {parts[i]: Run(parts[i + 1]) for i in range(1, len(parts) - 1, 2)}, "CPU is emulated" in text


def processors():
    """How many this process may use."""
    return len(os.sched_getaffinity(0))


def measure(place, kinds, rounds):
    """{type: {"cpu1", "cpuN", "gpu": Best}}, interleaved."""
    all_threads = processors()
    result = {}
    for kind in kinds:
        rows = result[kind] = {"cpu1": Best(), "cpuN": Best(), "gpu": Best()}
        rows["cpu1"].add(place.cpu(kind, 1, "--save", place.saved(kind)))
        for i in range(rounds):
            rows["gpu"].add(place.gpu(kind))
            if all_threads > 1 and not place.cpu_time:
                rows["cpuN"].add(place.cpu(kind, all_threads))
            if i + 1 < rounds:
                rows["cpu1"].add(place.cpu(kind, 1))
    return result


def cpu_best(rows, what):
    """The CPU backend's better rate of one thread and all."""
    return max(getattr(rows["cpu1"], what), getattr(rows["cpuN"], what))


# ---- docs/results/llm.md ----

def processor_name():
    """As the kernel says."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return "a processor without a name"


def package_version(place):
    """The npm package's."""
    path = os.path.join(place.build, "npm", "node_modules", "node-llama-cpp", "package.json")
    with open(path, encoding="utf-8") as file:
        return json.load(file)["version"]


HEAD = """# A language model on the software GPU

Written by `make -C tests/apps/llm table`.
%(stamp)s, %(processors)d processors (%(cpu)s), load averages %(load0)s before
and %(load1)s after. With a load above about 1 before the start, other programs used part of the
processors, and the rates are lower bounds. Best of %(rounds)d interleaved rounds; the guest ran once.

* **Client**: `llm_eval` with the libraries of node-llama-cpp %(npm)s as distributed by npm (its CUDA
  backend, CUDA graphs and the VMM pool enabled) and NVIDIA's libcudart and libcublas; all layers on
  the GPU, flash attention enabled, greedy sampling.
* **Model**: llama architecture, size `%(size)s` of `gguf_make` (seeded weights, the tokenizer of
  llama.cpp's sources).
* **Prompt**: %(prompt)d tokens (`tests/apps/llm/prompt.md`), followed by %(tokens)d generated tokens.
* **Reference**: ggml's CPU backend of the package without CUDA. The runs on the GPU are given its
  tokens, and the logits of all tokens are compared. `tokens`: whether the highest logits agree.

## Agreement with the CPU backend

| weights | file, MB | where | largest difference of a logit | normalised mean square error (limit 5e-4) | tokens |
|---|---:|---|---:|---:|---|
"""

SPEED = """
## Speed, tokens/s

| weights | socket: decoding | prompt | guest (%(accel)s): decoding | prompt | CPU backend, 1 thread: decoding | prompt | %(n)d threads: decoding | prompt | CPU / socket, decoding | prompt |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
"""

NOTES = """
CPU / socket: the better of the CPU backend's two rows. The aim for decoding is 8 or less:
%(verdict)s.
In the guest the client (ggml, libcuda) ran on
%(accel_long)s;
the worker on the host computed the tokens.

## Traffic to the worker per token

| weights | calls of CUDA | graphs launched | records sent | replies waited for (round trips) |
|---|---:|---:|---:|---:|
"""

END = """
From `vgpu trace` of 8 and of 40 tokens: the difference, divided by 32. The weights are copied once.
A token takes one graph launch, its inputs, and one copy of the logits back. ggml waits after each
input and again for its own stream; libcuda answers these waits (`userspace/libcuda/core/link/wait.h`).
Two round trips remain: one for all inputs, because the graph runs in another stream, and one for
the logits. The suite `tests/apps/llm` fails with more.
"""


def stamp(place):
    """Date and commit, as every page of results names them."""
    script = os.path.join(place.here, "..", "..", "..", "scripts", "results.py")
    return subprocess.run([script, "stamp"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def load():
    """The load average of a minute."""
    return "%.1f" % os.getloadavg()[0]


def table(place, args):
    """Writes the page."""
    facts = {"stamp": stamp(place), "processors": processors(), "cpu": processor_name(), "load0": load(),
             "rounds": args.rounds, "npm": package_version(place), "size": args.size, "tokens": args.tokens,
             "n": processors()}
    rows = measure(place, TYPES, args.rounds)
    tokens = {kind: place.per_token(kind) for kind in TYPES}
    guest, emulated = place.guest(TYPES)
    facts.update(load1=load(), prompt=rows["f16"]["gpu"].last.prompt_tokens,
                 accel="TCG" if emulated else "KVM",
                 accel_long="an emulated processor (QEMU's TCG: this machine has no KVM)" if emulated
                 else "the processor itself (KVM)")
    worst = max(cpu_best(r, "decode") / r["gpu"].decode for r in rows.values())
    facts["verdict"] = "met" if worst <= AIM_CPU else "missed, %.1f at most" % worst
    with open(args.out + ".new", "w", encoding="utf-8") as file:
        file.write(HEAD % facts)
        for kind in TYPES:
            size = os.stat(place.model(kind)).st_size / 1e6
            for where, run in (("socket", rows[kind]["gpu"].last), ("guest", guest[kind])):
                file.write("| %s | %.1f | %s | %s | %s | %s |\n" % (
                    kind.upper(), size, where, run.largest, run.nmse, run.same))
        file.write(SPEED % facts)
        for kind in TYPES:
            r, g = rows[kind], guest[kind]
            file.write("| %s | %.1f | %.0f | %.1f | %.0f | %.1f | %.0f | %.1f | %.0f | %.1f | %.1f |\n" % (
                kind.upper(), r["gpu"].decode, r["gpu"].prompt, g.decode, g.prompt, r["cpu1"].decode, r["cpu1"].prompt,
                r["cpuN"].decode, r["cpuN"].prompt, cpu_best(r, "decode") / r["gpu"].decode,
                cpu_best(r, "prompt") / r["gpu"].prompt))
        file.write(NOTES % facts)
        for kind in TYPES:
            t = tokens[kind]
            file.write("| %s | %.1f | %.2f | %.1f | %.1f |\n" % (
                kind.upper(), t["calls"], t["graphs"], t["records"], t["round_trips"]))
        file.write(END)
    os.replace(args.out + ".new", args.out)
    print("written: %s" % args.out)


# ---- rows of make bench ----

def bench(place, args):
    """Tokens/s beside the CPU backend, and one processor beside two. Prints "llm-bench: N passed, M failed"."""
    kinds = ["q4_0"] if args.quick else TYPES
    figures, passed, failed = {}, 0, 0
    if args.cpu_time:
        print("language model (%s), tokens/s of one thread's CPU time: kernels of the software GPU, ggml's CPU backend, ratio"
              % args.size)
    else:
        print("language model (%s), tokens/s: software GPU over the socket, ggml's CPU backend (best of 1 and %d threads), "
              "ratio" % (args.size, processors()))
    for kind in kinds:
        try:
            rows = measure(place, [kind], args.rounds)[kind]
        except Failed as error:
            print("  %s: FAILED: %s" % (kind, error))
            failed += 1
            continue
        passed += 1
        for what, name in (("decode", "decoding"), ("prompt", "prompt"), ("warm", "warm prompt")):
            ours, cpu = getattr(rows["gpu"], what), cpu_best(rows, what)
            ratio = cpu / ours
            aim = "" if what != "decode" else "   aim <= %g   %s" % (AIM_CPU, "met" if ratio <= AIM_CPU else "MISSED")
            print("  %-8s %-10s %10.1f %10.1f %8.2f%s" % (kind.upper(), name, ours, cpu, ratio, aim))
            figures["llm %s %s" % (kind, name)] = {"ours_per_s": ours, "cpu_per_s": cpu, "ratio": round(ratio, 3)}
    if processors() > 1 and not args.cpu_time:
        kind = kinds[-1]
        one, two = Best(), Best()
        try:
            for _ in range(args.rounds):
                one.add(place.gpu(kind, 1))
                two.add(place.gpu(kind, 2))
            passed += 1
            for what, name in (("decode", "decoding"), ("prompt", "prompt")):
                ratio = getattr(two, what) / getattr(one, what)
                print("  %-8s %-10s 1 thread %10.1f, 2 threads %10.1f: %5.2f times" % (
                    kind.upper(), name, getattr(one, what), getattr(two, what), ratio))
                figures["llm %s %s scaling" % (kind, name)] = {"ratio": round(ratio, 3)}
        except Failed as error:
            print("  scaling: FAILED: %s" % error)
            failed += 1
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)
    print("llm-bench: %d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["table", "bench"])
    parser.add_argument("--build", required=True)
    parser.add_argument("--cuda", required=True)
    parser.add_argument("--out")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--size", default="small")
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.tokens, args.size = 1, 8, "tiny"
    place = Place(os.path.abspath(args.build), args.cuda, args.size, args.tokens, args.cpu_time)
    missing = [path for path in [place.vgpu, os.path.join(place.out, "llm_eval")] + [place.model(k) for k in TYPES]
               if not os.path.exists(path)]
    if missing:
        print("not run: llm-bench: %s is not built" % missing[0])
        return 0
    start = time.monotonic()
    if args.mode == "bench":
        return bench(place, args)
    try:
        table(place, args)
    except Failed as error:
        print("measure.py: %s" % error, file=sys.stderr)
        return 1
    print("%.0f s" % (time.monotonic() - start))
    return 0


if __name__ == "__main__":
    sys.exit(main())
