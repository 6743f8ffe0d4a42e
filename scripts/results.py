#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The pages of docs/results, regenerated together at one commit: `make results`.

  results.py run [PAGE...]   runs the commands of results.txt (default: all that are not by hand), one after the other
  results.py list            the pages, their commit and date, their commands
  results.py stale           pages whose code has changed since their commit, in one line; nothing when there is none
  results.py stamp           "2026-11-30, commit 0123abcd": date and commit as a page names them
  results.py check           is each page of docs/results in results.txt and in its README, and the reverse?

--top DIR: another checkout. --build DIR: its build folder (VGPU_BUILD, or build). A command writes its page itself, with the stamp of
VGPU_RESULTS_STAMP, which `run` sets; or the page has marks, between which `run` puts the output that a part of the command left
in a log, with the stamp and the machine:

  <!-- log: tests/perf/bench.log -->
  ...
  <!-- end of the log -->

Exit status: 0; 1 when a command failed, or `check` found something; 2 wrong use.
"""
import argparse
import os
import re
import subprocess
import sys
import time

PAGES = "docs/results"
COMMIT = re.compile(r"\bcommit ([0-9a-f]{7,40})\b")
DATE = re.compile(r"\b(20\d\d-\d\d-\d\d), commit")
TICK = 0.1  # a file's time may be that of the kernel's last tick
MARK = re.compile(r"^<!-- log: (\S+) -->\n.*?^<!-- end of the log -->\n", re.M | re.S)


class Page:
    """A line of results.txt."""

    def __init__(self, name, command, code):
        self.name, self.command, self.code = name, command, code.split()
        self.by_hand = command.startswith("by hand: ")
        self.after = command[len("after "):] if command.startswith("after ") else None


def pages(top):
    """All of results.txt, in its order."""
    found = []
    with open(os.path.join(top, "scripts", "results.txt"), encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                found.append(Page(*[part.strip() for part in line.split("|")]))
    return found


def git(top, *args):
    """Its output; None where there is no repository, or it refuses."""
    done = subprocess.run(["git", "-C", top] + list(args), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def stamp(top):
    """Date and commit; pages themselves may have changed, for the earlier ones of a run have been written."""
    commit = git(top, "rev-parse", "--short=8", "HEAD")
    if commit is None:
        return time.strftime("%Y-%m-%d") + ", no commit"
    changed = git(top, "status", "--porcelain", "--untracked-files=no", "--", ".", ":!" + PAGES)
    return time.strftime("%Y-%m-%d") + ", commit " + commit.strip() + (" and changes" if changed else "")


def text_of(top, name):
    """The page's, "" where there is none."""
    try:
        with open(os.path.join(top, PAGES, name + ".md"), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def named(text):
    """The first date and the first commit that the page names, "" where it names none."""
    date, commit = DATE.search(text), COMMIT.search(text)
    return date.group(1) if date else "", commit.group(1) if commit else ""


def behind(top, page):
    """How many commits changed the page's code since its own; None where that cannot be told."""
    commit = named(text_of(top, page.name))[1]
    if not commit:
        return None
    log = git(top, "log", "--format=%h", commit + "..HEAD", "--", *page.code)
    return None if log is None else len(log.split())


def machine(load):
    """Processors, kernel, load averages at the start and now."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        facts = dict(reversed([[word.strip() for word in line.split(":", 1)] for line in file if ":" in line]))
    flags = facts.get("flags", "").split()
    vectors = [name for flag, name in (("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in flags]
    return "%d processors (%s), Linux %s, load averages %.1f at the start and %.1f at the end." % (
        len(os.sched_getaffinity(0)), ", ".join([facts.get("model name", "unknown")] + vectors[:1] + ["virtual"] * ("hypervisor" in flags)),
        os.uname().release.split("-")[0], load, os.getloadavg()[0])


def fill(text, build, begun, about):
    """TEXT with each log that was written since BEGUN (seconds) in its place, and how many those were."""
    count = 0

    def one(mark):
        nonlocal count
        path = os.path.join(build, mark.group(1))
        if not os.path.exists(path) or os.stat(path).st_mtime < begun - TICK:
            return mark.group(0)
        count += 1
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = ["    " + line.rstrip() if line.strip() else "" for line in file]
        return "<!-- log: %s -->\n%s\n\n%s\n\n<!-- end of the log -->\n" % (mark.group(1), about, "\n".join(lines).rstrip())

    return MARK.sub(one, text), count


def run(top, build, want):
    """The commands; what failed does not stop the others."""
    known = {page.name: page for page in pages(top)}
    for name in want:
        if name not in known:
            print("results: no page '%s'; `results.py list` has them" % name, file=sys.stderr)
            return 2
    chosen = [p for p in known.values() if p.name in want] if want else [p for p in known.values() if not p.by_hand]
    first = []
    for page in chosen:
        page = known[page.after] if page.after else page
        if page.by_hand:
            print("results: %s is written %s" % (page.name, page.command), file=sys.stderr)
            return 2
        if page not in first:
            first.append(page)
    mark = stamp(top)
    env = dict(os.environ, VGPU_RESULTS_STAMP=mark, VGPU_BUILD=build, MAKEFLAGS="")
    os.makedirs(os.path.join(build, "log"), exist_ok=True)
    failed = []
    for page in first:
        log = os.path.join(build, "log", "results-%s.log" % page.name)
        print("results: %s: %s ..." % (page.name, page.command), flush=True)
        begun, load = time.time(), os.getloadavg()[0]
        with open(log, "w", encoding="utf-8") as file:
            rc = subprocess.run(page.command, shell=True, cwd=top, env=env, stdin=subprocess.DEVNULL, stdout=file,
                                stderr=subprocess.STDOUT, check=False).returncode
        if rc:
            failed.append(page.name)
        for written in [p for p in known.values() if p is page or p.after == page.name]:
            text = text_of(top, written.name)
            new, count = fill(text, build, begun, mark + ", " + machine(load))
            if count:
                with open(os.path.join(top, PAGES, written.name + ".md"), "w", encoding="utf-8") as file:
                    file.write(new)
        print("results: %s: %s, %d minutes; %s" % (page.name, "status %d" % rc if rc else "written",
                                                 (time.time() - begun + 30) // 60, log), flush=True)
    return 1 if failed else 0


def stale(top):
    """The warning of `make lint`."""
    if git(top, "rev-parse", "HEAD") is None:
        return
    old = [(page.name, behind(top, page)) for page in pages(top) if not page.by_hand]
    old = ["%s (%d commits)" % (name, count) for name, count in old if count]
    if old:
        print("note: docs/results: the code under these pages has changed since the commits that they name: %s; "
              "`make results` measures them again" % ", ".join(old))


def check(top):
    """Pages, results.txt and README name the same; a generated page names its commit."""
    known = {page.name: page for page in pages(top)}
    there = {name[:-3] for name in os.listdir(os.path.join(top, PAGES)) if name.endswith(".md") and name != "README.md"}
    readme = set(re.findall(r"\]\(([\w-]+)\.md\)", text_of(top, "README")))
    bad = ["%s.md is not in scripts/results.txt" % name for name in sorted(there - set(known))]
    bad += ["%s.md is in scripts/results.txt, but not there" % name for name in sorted(set(known) - there)]
    bad += ["README.md does not name %s.md" % name for name in sorted(there - readme)]
    bad += ["%s.md names no commit" % name for name in sorted(there & set(known))
            if not known[name].by_hand and not named(text_of(top, name))[1]]
    for line in bad:
        print("%s: results: %s" % (PAGES, line))
    return 1 if bad else 0


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "list", "stale", "stamp", "check"])
    parser.add_argument("page", nargs="*")
    parser.add_argument("--top", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    parser.add_argument("--build", default=os.environ.get("VGPU_BUILD"))
    args = parser.parse_args()
    top = os.path.abspath(args.top)
    build = os.path.abspath(args.build) if args.build else os.path.join(top, "build")
    if args.page and args.what != "run":
        parser.error("only `run` takes pages")
    if args.what == "run":
        return run(top, build, args.page)
    if args.what == "check":
        return check(top)
    if args.what == "stale":
        stale(top)
    elif args.what == "stamp":
        print(os.environ.get("VGPU_RESULTS_STAMP") or stamp(top))
    else:
        for page in pages(top):
            print("%-18s %-24s %s" % (page.name, ", ".join(x for x in named(text_of(top, page.name)) if x) or "-", page.command))
    return 0


if __name__ == "__main__":
    sys.exit(main())
