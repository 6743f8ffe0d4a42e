#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Tests of results.py with a checkout of its own. Prints what scripts_test.sh does."""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
passed = failed = 0


def check(name, good, detail=""):
    global passed, failed
    if good:
        passed += 1
        print(f"ok - results: {name}")
    else:
        failed += 1
        print(f"FAIL: results: {name}{': ' + str(detail) if detail else ''}")


class Checkout:
    """A repository with one commit, two pages that commands write and one by hand."""

    TABLE = """# PAGE | COMMAND | CODE
speed | mkdir -p build/perf && echo "a 1.00" > build/perf/a.log && echo "b 2.00" > build/perf/b.log | code
shares | after speed | code
written | echo "run: $VGPU_RESULTS_STAMP" > docs/results/written.md; exit $FAIL | code other
told | by hand: a day | other
"""
    SPEED = "# Speed\n\n<!-- log: perf/a.log -->\n<!-- end of the log -->\n\nbetween\n\n<!-- log: perf/none.log -->\nkept\n<!-- end of the log -->\n"
    SHARES = "<!-- log: perf/b.log -->\nold\n<!-- end of the log -->\nafter\n"

    def __init__(self, top):
        self.top = top
        for path, text in (("scripts/results.txt", self.TABLE), ("code/a.c", "1"), ("other/b.c", "1"), (".gitignore", "build\n"),
                           ("docs/results/speed.md", self.SPEED), ("docs/results/shares.md", self.SHARES),
                           ("docs/results/written.md", "old\n"), ("docs/results/told.md", "told\n"),
                           ("docs/results/README.md", "[a](speed.md) [b](shares.md) [c](written.md) [d](told.md)\n")):
            self.write(path, text)
        self.git("init", "-q")
        self.commit("first")

    def write(self, path, text):
        path = os.path.join(self.top, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        with open(os.path.join(self.top, "docs", "results", name + ".md"), encoding="utf-8") as file:
            return file.read()

    def git(self, *args):
        return subprocess.run(["git", "-C", self.top, "-c", "user.name=a", "-c", "user.email=a@example.org"] + list(args),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout.strip()

    def commit(self, subject):
        self.git("add", ".")
        self.git("commit", "-qm", subject)

    def run(self, *args, fail=0):
        env = {k: v for k, v in os.environ.items() if k not in ("VGPU_BUILD", "VGPU_RESULTS_STAMP", "MAKEFLAGS")}
        return subprocess.run([os.path.join(HERE, "results.py"), "--top", self.top] + list(args), env=dict(env, FAIL=str(fail)),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def main():
    with tempfile.TemporaryDirectory() as top:
        tree = Checkout(top)
        head = tree.git("rev-parse", "--short=8", "HEAD")
        done = tree.run("check")
        check("pages that name no commit are found", done.returncode == 1 and done.stdout.count("names no commit") == 3, done.stdout)
        done = tree.run("run")
        check("all commands run", done.returncode == 0, done.stdout)
        speed = tree.read("speed")
        check("a log is in its place, with date, commit and machine",
              re.search(r"^# Speed\n\n<!-- log: perf/a.log -->\n20..-..-.., commit %s, \d+ processors? \(.*\), Linux .*load averages.*\n\n"
                        r"    a 1.00\n\n<!-- end of the log -->\n\nbetween\n" % head, speed), speed)
        check("a log that was not written leaves what was there", "<!-- log: perf/none.log -->\nkept\n" in speed, speed)
        check("a page of the same command", "    b 2.00\n" in tree.read("shares") and "old" not in tree.read("shares") and
              tree.read("shares").endswith("-->\nafter\n"), tree.read("shares"))
        check("a command that writes its page has the stamp, whatever pages changed before",
              re.fullmatch(r"run: 20..-..-.., commit %s\n" % head, tree.read("written")), tree.read("written"))
        check("now all is well", tree.run("check").returncode == 0)
        check("nothing is old", tree.run("stale").stdout == "")
        tree.write("other/b.c", "2")
        check("changes that are no commit are said", tree.run("stamp").stdout.strip().endswith("commit %s and changes" % head))
        tree.commit("second")
        done = tree.run("stale")
        check("a page is older than its code", done.returncode == 0 and "written (1 commits)" in done.stdout and "speed" not in done.stdout,
              done.stdout)
        before = tree.read("speed")
        done = tree.run("run", "written", fail=3)
        check("a command that fails is the status", done.returncode == 1 and "written: status 3" in done.stdout, done.stdout)
        check("pages that were not wanted stay", tree.read("speed") == before)
        done = tree.run("run", "told")
        check("a page by hand says how", done.returncode == 2 and "by hand: a day" in done.stdout, done.stdout)
        check("no such page", tree.run("run", "fly").returncode == 2)
        tree.write("docs/results/more.md", "more\n")
        os.unlink(os.path.join(top, "docs", "results", "told.md"))
        done = tree.run("check")
        check("a page too many, one too few", done.returncode == 1 and "more.md is not in scripts/results.txt" in done.stdout and
              "README.md does not name more.md" in done.stdout and "told.md is in scripts/results.txt" in done.stdout, done.stdout)
        check("wrong use", tree.run("list", "speed").returncode == 2)
    print(f"results: {passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
