#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Puts small faults into a copy of the built tree, one at a time, and says which ones the tests notice.

usage: mutate.py --top DIR --out DIR --cuda DIR [--table FILE] [--seed S] [--n N] [--part P,...] [--jobs J] [--again] [--list]
       mutate.py --top DIR --check

The sample is random within SEED: N mutants in equal parts of the PARTs of suites.txt. A mutant is built, then the suites of its
file run, narrowest first, until one fails or ends too late: then it is noticed. What does not compile, compiles to the same
code, or is named in equivalent.txt is not counted; the next of the sequence takes its place. Results are kept in
OUT/seed-SEED.jsonl: a run that was interrupted goes on there. --again runs the survivors of an earlier run again,
--list prints the sample and runs nothing, --check says what in the two tables does not fit the tree (for lint).
Exit status: 0, 1 when a suite fails without a mutant or a table is wrong; survivors are no failure.
"""
import argparse
import fnmatch
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading

import jail
import mutants

HERE = os.path.dirname(os.path.abspath(__file__))
NOT_MUTATED = ["*_test.c", "*_test.py", "*_proof.c", "*/generated/*", "*/testdata/*", "*/tests/*", "*/selftest/*"]
COUNTED = ("noticed", "timeout", "survived")
PHONY = ("all", "unit-tests")
# Folders with a different name in build/ (the top Makefile's place-*).
PLACES = {"qemu-device": "qemu"}


class Wrong(Exception):
    """The tables or the tree are not as they must be."""


class Suite:
    def __init__(self, fields):
        self.name, builds, command = fields
        self.text = " | ".join(fields)
        self.builds, self.shell = [], builds[1:].strip() if builds.startswith("!") else None
        for build in filter(None, (b.strip() for b in ([] if self.shell else builds.split(" + ")))):
            folder, _, goals = build.partition(":")
            self.builds.append((folder.strip(), goals.split()))
        self.command = command

    def job(self, top, cuda, limit):
        build = os.path.join(top, "build")
        words, programs = [], []
        for folder, goals in self.builds:
            out = os.path.join(build, PLACES.get(folder, folder))
            files = [g if g in PHONY else os.path.join(out, g) for g in goals]
            programs += [f for f in files if f not in PHONY]
            words.append("make -s --no-print-directory -C %s/%s O=%s CUDA_HOME=%s %s" % (top, folder, out, cuda, " ".join(files)))
        if self.shell:
            words.append(self.shell.format(top=top, build=build, cuda=cuda))
        text = self.command.format(top=top, build=build, cuda=cuda)
        return {"name": self.name, "build": ["sh", "-c", " && ".join(words)] if words else None, "build_limit": 1200,
                "commands": [["sh", "-c", text]] if text else [[p] for p in programs], "limit": limit}


class Table:
    """suites.txt: suites by name, and the lines (part, pattern, suites) of files."""

    def __init__(self, path):
        self.path, self.suites, self.lines, self.folders, self.linked = path, {}, [], [], []
        with open(path, encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                kind, _, rest = line.strip().partition(" ")
                fields = [x.strip() for x in re.split(r"\s\|(?=\s|$)", rest)]
                if kind == "suite" and len(fields) in (2, 3):
                    self.suites[fields[0]] = Suite((fields + [""])[:3])
                elif kind == "part" and len(fields) == 3:
                    self.lines.append((fields[0], fields[1], fields[2].split()))
                elif kind == "copy" and len(fields) == 1:
                    self.folders += fields[0].split()
                elif kind == "link" and len(fields) == 1:
                    self.folders += fields[0].split()
                    self.linked += fields[0].split()
                elif kind and not kind.startswith("#"):
                    raise Wrong("%s:%d: not understood" % (path, number))

    def parts(self):
        return list(dict.fromkeys(p for p, _, _ in self.lines if p != "-"))

    def of(self, path):
        """(part, suites) of a file, or None."""
        if any(fnmatch.fnmatchcase(path, p) for p in NOT_MUTATED):
            return None
        for part, pattern, suites in self.lines:
            if fnmatch.fnmatchcase(path, pattern):
                return None if part == "-" else (part, suites)
        return None


def listed(top):
    out = subprocess.run(["git", "-C", top, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], check=True,
                         stdout=subprocess.PIPE).stdout
    return sorted(f for f in out.decode().split("\0") if f and os.path.isfile(os.path.join(top, f)))


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def equivalents(path):
    """{key: reason} of equivalent.txt: FILE | FUNCTION | LINE | MUTATED LINE | REASON; | in code is written as a broken bar."""
    found = {}
    if os.path.exists(path):
        for line in read(path).split("\n"):
            if line.strip() and not line.startswith("#"):
                fields = [f.strip() for f in line.split(" | ")]
                if len(fields) != 5 or not fields[4]:
                    raise Wrong("%s: not understood: %s" % (path, line))
                found[" | ".join(fields[:4])] = fields[4]
    return found


def check(top, table):
    """What in the tables does not fit the tree."""
    files, bad = listed(top), []
    used = {s for part, _, suites in table.lines if part != "-" for s in suites}
    bad += ["no suite %s" % s for s in sorted(used - set(table.suites))]
    bad += ["suite %s is used by no line" % s for s in sorted(set(table.suites) - used)]
    bad += ["no file matches %s" % p for _, p, _ in table.lines if not any(fnmatch.fnmatchcase(f, p) for f in files)]
    makefiles = {f: read(os.path.join(top, f)) for f in files if os.path.basename(f) == "Makefile" or f.endswith(".mk")}
    names = {os.path.splitext(os.path.basename(f))[0] for f in files}
    for suite in table.suites.values():
        for folder, goals in suite.builds:
            if folder + "/Makefile" not in files:
                bad.append("suite %s: %s has no Makefile" % (suite.name, folder))
                continue
            own = "\n".join(text for f, text in makefiles.items() if f.startswith(folder + "/"))
            for goal in goals:
                if os.path.basename(goal) not in names and os.path.basename(goal) not in own:
                    bad.append("suite %s: neither a source nor a rule of %s is named %s" % (suite.name, folder, goal))
        for word in suite.command.split():
            if word.startswith("{top}/") and not any(f == word[6:] or f.startswith(word[6:] + "/") for f in files):
                bad.append("suite %s: %s is not there" % (suite.name, word[6:]))
    for f in files:
        mutable = f.endswith(".c") and f.startswith(("host/", "userspace/", "lib/", "kernel/", "qemu-device/"))
        if mutable and not any(fnmatch.fnmatchcase(f, p) for p in NOT_MUTATED + [p for _, p, _ in table.lines]):
            bad.append("%s is in no part" % f)
    for key in equivalents(os.path.join(os.path.dirname(table.path), "equivalent.txt")):
        name, function, before, _ = key.split(" | ")
        source = read(os.path.join(top, name)) if name in files else ""
        if before not in mutants.short(source) or function not in source:
            bad.append("equivalent.txt: %s no longer has: %s" % (name, before))
    return bad


class Sample:
    """The sequence of mutants of one part, the same for the same seed and sources."""

    def __init__(self, part, seed, every):
        by_operator = {}
        for m in every:
            by_operator.setdefault(m.operator, []).append(m)
        chance = random.Random("%s %s" % (part, seed))
        for operator in sorted(by_operator):
            chance.shuffle(by_operator[operator])
        self.part, self.sequence = part, []
        # Draws operators first, as numbers would otherwise dominate the sample.
        while by_operator:
            operator = chance.choice(sorted(by_operator))
            self.sequence.append(by_operator[operator].pop())
            if not by_operator[operator]:
                del by_operator[operator]
        self.next = 0


class Run:
    def __init__(self, args, table):
        self.args, self.table, self.top = args, table, os.path.abspath(args.top)
        self.out = os.path.abspath(args.out)
        self.tree, self.stamp = os.path.join(self.out, "tree"), os.path.join(self.out, "tree.json")
        self.log = os.path.join(self.out, "seed-%s.jsonl" % args.seed)
        self.lock, self.results, self.times, self.failed = threading.Lock(), {}, {}, None
        self.known = equivalents(os.path.join(os.path.dirname(table.path), "equivalent.txt"))
        self.files = listed(self.top)
        self.source = {}
        self.env = {"CUDA_HOME": args.cuda, "BACKEND_DIR": os.path.join(self.top, "build/host/backend")}
        self.parts = args.part.split(",") if args.part else table.parts()
        if set(self.parts) - set(table.parts()):
            raise Wrong("no such part; there are: " + " ".join(table.parts()))
        self.samples, self.quota = [], {}
        for n, part in enumerate(self.parts):
            every = []
            for f in self.files:
                if (table.of(f) or (None,))[0] == part:
                    self.source[f] = read(os.path.join(self.top, f))
                    every += mutants.mutants(f, self.source[f])
            self.samples.append(Sample(part, args.seed, every))
            self.quota[part] = args.n // len(self.parts) + (n < args.n % len(self.parts))

    # ---- the copy, and the suites without a mutant ----

    def digest(self):
        """Of all that can change what a suite says; the tables here are compared suite by suite."""
        sha = hashlib.sha256()
        for f in self.files:
            if f.startswith(("docs/results/", "tests/runner/mutate/")) and not f.endswith(".sh"):
                continue
            with open(os.path.join(self.top, f), "rb") as stream:
                sha.update(f.encode() + b"\0" + hashlib.sha256(stream.read()).digest())
        return sha.hexdigest()

    def prepare(self):
        digest = self.digest()
        try:
            with open(self.stamp, encoding="utf-8") as f:
                known = json.load(f)
        except (OSError, ValueError):
            known = {}
        if known.get("digest") != digest or not os.path.isdir(self.tree):
            print("copying %s to %s" % (self.top, self.tree), flush=True)
            jail.copy(self.top, self.tree, self.table.folders, self.table.linked)
            known = {"digest": digest, "suites": {}}
        wanted = [s for part, _, suites in self.table.lines if part in self.parts for s in suites]
        for name in dict.fromkeys(wanted):
            if known["suites"].get(name, [None])[0] == self.table.suites[name].text:
                continue
            job = {"suites": [self.table.suites[name].job(self.top, self.args.cuda, 600)], "keep": True, "env": self.env}
            print("without a mutant: %s" % name, end="", flush=True)
            answer = jail.run(self.top, self.tree, os.path.join(self.out, "box-0"), job, 6000)
            print(": %s %s" % (answer["outcome"], answer["times"].get(name, "")), flush=True)
            if answer["outcome"] == "build":  # a machine may lack what one part needs
                gone = {part for part, _, suites in self.table.lines if name in suites}
                print("not run: mutate %s: suite %s cannot be built: %s" % (" ".join(sorted(gone & set(self.parts))), name,
                                                                            " ".join(answer["why"][-200:].split())), flush=True)
                self.samples = [s for s in self.samples if s.part not in gone]
                continue
            if answer["outcome"] != "survived":
                print(answer["why"])
                raise Wrong("suite %s fails without a mutant: it would notice everything" % name)
            known["suites"][name] = [self.table.suites[name].text, answer["times"][name]]
            with open(self.stamp + ".new", "w", encoding="utf-8") as f:
                json.dump(known, f)
            os.rename(self.stamp + ".new", self.stamp)
        self.times = {name: entry[1] for name, entry in known["suites"].items()}

    # ---- mutants ----

    def load(self):
        if not os.path.exists(self.log):
            return
        with open(self.log, encoding="utf-8") as f:
            for line in f:
                try:
                    r = json.loads(line)
                except ValueError:  # the line that was being written when the run was interrupted
                    continue
                self.results[r["key"]] = r
        if self.args.again:
            self.results = {k: r for k, r in self.results.items() if r["outcome"] != "survived"}

    def outcome(self, m):
        if m.key in self.known:
            return "equivalent"
        return self.results[m.key]["outcome"] if m.key in self.results else None

    def counted(self, sample):
        return [m for m in sample.sequence[:sample.next] if self.outcome(m) in COUNTED]

    def claim(self, busy):
        """The next mutant to run, or None: each part in turn."""
        with self.lock:
            for sample in sorted(self.samples, key=lambda s: (len(self.counted(s)) + busy.get(s.part, 0)) / max(1, self.quota[s.part])):
                while sample.next < len(sample.sequence) and len(self.counted(sample)) + busy.get(sample.part, 0) < self.quota[sample.part]:
                    m = sample.sequence[sample.next]
                    sample.next += 1
                    if self.outcome(m) is None:
                        busy[sample.part] = busy.get(sample.part, 0) + 1
                        return sample.part, m
        return None

    def one(self, box, part, m):
        suites = self.table.of(m.path)[1]
        job = {"file": m.path, "text": m.applied(self.source[m.path]),
               "suites": [self.table.suites[s].job(self.top, self.args.cuda, 5 * self.times[s] + self.args.slack) for s in suites], "env": self.env}
        answer = jail.run(self.top, self.tree, box, job, 7200)
        r = {"key": m.key, "part": part, "operator": m.operator, "outcome": answer["outcome"], "suite": answer["suite"],
             "why": answer["why"][-600:], "line": m.line, "times": answer["times"]}
        with self.lock:
            self.results[m.key] = r
            with open(self.log, "a", encoding="utf-8") as f:
                f.write(json.dumps(r) + "\n")
            print("%-9s %-9s %s:%d (%s%s)" % (part, answer["outcome"], m.path, m.line, m.operator,
                                              ", " + answer["suite"] if answer["suite"] else ""), flush=True)

    def worker(self, number, busy):
        box = os.path.join(self.out, "box-%d" % number)
        while not self.failed:
            claimed = self.claim(busy)
            if not claimed:
                return
            try:
                self.one(box, *claimed)
            except (jail.Failed, OSError, UnicodeError) as e:
                self.failed = e
            with self.lock:
                busy[claimed[0]] -= 1

    def run(self):
        busy, threads = {}, []
        for number in range(self.args.jobs):
            threads.append(threading.Thread(target=self.worker, args=(number, busy), daemon=True))
            threads[-1].start()
        for t in threads:
            t.join()
        if self.failed:
            raise Wrong("the jail failed: %s" % self.failed)

    # ---- the report ----

    def report(self):
        lines, total, survivors = [], [0, 0], []
        lines.append("%-10s %8s %8s %8s %7s   %s" % ("part", "mutants", "noticed", "survived", "score", "not counted"))
        for sample in self.samples:
            seen = sample.sequence[:sample.next]
            counted = self.counted(sample)
            left = [m for m in counted if self.outcome(m) == "survived"]
            survivors += left
            other = {"build": "do not compile", "same": "same code", "equivalent": "equivalent"}
            rest = ["%d %s" % (n, text) for o, text in other.items() if (n := sum(self.outcome(m) == o for m in seen))]
            noticed = len(counted) - len(left)
            total[0] += len(counted)
            total[1] += noticed
            lines.append("%-10s %8d %8d %8d %6s%%   %s" % (sample.part, len(counted), noticed, len(left),
                                                            100 * noticed // len(counted) if counted else "-", ", ".join(rest)))
        lines.append("%-10s %8d %8d %8d %6s%%" % ("all", total[0], total[1], total[0] - total[1],
                                                   100 * total[1] // total[0] if total[0] else "-"))
        for m in survivors:
            lines += ["", "%s:%d: %s(): survived (%s)" % (m.path, m.line, m.function, m.operator),
                      "-" + m.before, "+" + m.after]
        return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--top", required=True)
    parser.add_argument("--out")
    parser.add_argument("--cuda", default="/usr/local/cuda")
    parser.add_argument("--table", default=os.path.join(HERE, "suites.txt"))
    parser.add_argument("--seed", default="1")
    parser.add_argument("--n", type=int, default=20)
    parser.add_argument("--part", default="")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2))
    # Slack beyond five times a suite's time without a mutant, s, as the machine may be busy.
    parser.add_argument("--slack", type=int, default=30)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        table = Table(args.table)
        if args.check:
            bad = check(os.path.abspath(args.top), table)
            print("\n".join("tests/runner/mutate: mutate: " + b for b in bad), end="\n" if bad else "")
            return 1 if bad else 0
        if not args.out:
            parser.error("--out is missing")
        os.makedirs(args.out, exist_ok=True)
        run = Run(args, table)
        if args.list:
            for sample in run.samples:
                for m in sample.sequence[:run.quota[sample.part]]:
                    print("%s:%d: %s(): %s\n-%s\n+%s\n" % (m.path, m.line, m.function, m.operator, m.before, m.after))
            return 0
        run.load()
        run.prepare()
        try:
            run.run()
        finally:
            text = run.report()
            with open(os.path.join(args.out, "seed-%s.txt" % args.seed), "w", encoding="utf-8") as f:
                f.write(text + "\n")
            print(text)
    except (Wrong, jail.Failed) as e:
        print("mutate: %s" % e, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("mutate: interrupted; the same command goes on", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
