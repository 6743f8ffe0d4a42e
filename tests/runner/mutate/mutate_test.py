#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""mutate_test.py DIR: mutate.py finds, in a tree of a few lines made in DIR, what is known to be noticed and what not."""
import json
import os
import shutil
import subprocess
import sys

import jail
import mutants
import mutate

HERE = os.path.dirname(os.path.abspath(__file__))
MAKEFILE = """all: $(O)/calc_test
$(O)/calc.o: $(CURDIR)/calc.c
\t@mkdir -p $(O)
\tcc -Wall -Werror=implicit -O1 -g -c -o $@ $<
$(O)/calc_test: $(O)/calc.o $(CURDIR)/calc_test.c
\tcc -O1 -o $@ $^
"""
CALC = """#define LIMIT 10
int calc_top(int x)
{
    if (x > 10) /* x < 3 is "no" code */
        return LIMIT;
    return x;
}
int calc_unseen(int x, char *name)
{
    return calc_unseen2(x, name) + x;
}
int calc_drain(int n)
{
    while (n != 7) {
        n--;
    }
    return n;
}
int calc_same(int x)
{
    return sizeof(x) > 8;
}
"""
TEST = """int calc_top(int), calc_drain(int);
int calc_unseen2(int x, char *name) { return name[0] + x; }
int main(void) { return calc_top(9) != 9 || calc_top(11) != 10 || calc_drain(9) != 7; }
"""
TABLE = """suite units | part: calc_test |
part calc | part/calc.c | units
copy build/nothing
"""
EQUIVALENT = "part/calc.c | calc_top | if (x > 10) /* x < 3 is \"no\" code */ | if (x >= 10) /* x < 3 is \"no\" code */ | 10 either way\n"


class Test:
    def __init__(self, folder):
        self.at = os.path.join(folder, "tree")
        self.out = os.path.join(folder, "out")
        self.passed = self.failed = self.skipped = 0
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(os.path.join(self.at, "part"))
        for name, text in (("part/Makefile", MAKEFILE), ("part/calc.c", CALC.replace("int calc_unseen(", "int calc_unseen2(int, char *);\nint calc_unseen(")),
                           ("part/calc_test.c", TEST), ("suites.txt", TABLE), ("equivalent.txt", EQUIVALENT)):
            self.write(name, text)
        subprocess.run(["git", "init", "-q", self.at], check=True)

    def write(self, name, text):
        with open(os.path.join(self.at, name), "w", encoding="utf-8") as f:
            f.write(text)

    def read(self, name):
        return mutate.read(os.path.join(self.at, name))

    def check(self, name, good, why=""):
        if good:
            self.passed += 1
            print("ok   mutate: %s" % name)
        else:
            self.failed += 1
            print("FAIL: mutate: %s: %s" % (name, why))

    def mutate(self, *args):
        p = subprocess.run([sys.executable, "-B", os.path.join(HERE, "mutate.py"), "--top", self.at, "--out", self.out, "--table",
                            os.path.join(self.at, "suites.txt"), "--slack", "3", *args],
                           check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return p.returncode, p.stdout

    def results(self):
        with open(os.path.join(self.out, "seed-7.jsonl"), encoding="utf-8") as f:
            return [json.loads(line) for line in f]

    # ---- finding ----

    def finding(self):
        found = [(m.function, m.operator, mutants.short(m.after)) for m in mutants.mutants("a.c", """
#include <x.h>
static const int table[2] = { 1, 2 };
/* a < b */
#define CHECK(x) do { if ((x) > MAX_ALL) \\
    return -EINVAL; } while (0)
enum { A = 3 };
int go(struct s *p, int n)
{
    char room[64];
    const char *t = "n < 3";
    if (!p || n & FLAG_ONE)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&p->lock);
    p->n = n - 1;
    forget(p, n);
    free(p);
    return 0;
}
""")]
        for want in (("CHECK", "boundary", "#define CHECK(x) do { if ((x) >= MAX_ALL) \\"), ("CHECK", "result", "return -EPERM; } while (0)"),
                     ("CHECK", "limit", "#define CHECK(x) do { if ((x) > (MAX_ALL + 1)) \\"), ("go", "bang", "if (p || n & FLAG_ONE)"),
                     ("go", "logic", "if (!p && n & FLAG_ONE)"), ("go", "flag", "if (!p || n & 0)"),
                     ("go", "negate", "if (!(!p || n & FLAG_ONE))"), ("go", "guard", "if (0 && (!p || n & FLAG_ONE))"),
                     ("go", "result", "return CUDA_ERROR_INVALID_HANDLE;"), ("go", "sum", "p->n = n + 1;"), ("go", "statement", ";"),
                     ("go", "arguments", "forget(n, p);"), ("go", "number", "return 1;"), ("go", "number", "p->n = n - 2;")):
            near = [f for f in found if f[:2] == want[:2]]
            self.check("a mutant of %s is found: %s" % (want[1], want[2]),
                       any(f[2] == mutants.short(want[2]) for f in near), near)
        self.check("removed: the assignment and the call, neither lock nor free", sum(f[1] == "statement" for f in found) == 2, found)
        dull = [f for f in found if "room" in f[2] or "table" in f[2] or "A =" in f[2] or "const char" in f[2] or "a <" in f[2]]
        self.check("declarations, tables, comments and strings are left alone", not dull, dull)
        python = [(m.operator, m.after.strip()) for m in mutants.mutants("a.py", 'def f(a):\n    """a < 2"""\n    if a < 3 and a:\n        return 4\n')]
        self.check("Python's conditions", ("boundary", "if a <= 3 and a:") in python and ("logic", "if a < 3 or a:") in python and
                   ("guard", "if False and (a < 3 and a):") in python and not any("a <= 2" in p[1] for p in python), python)

    # ---- running ----

    def running(self):
        before = {f: self.read(f) for f in ("part/calc.c", "part/calc_test.c", "part/Makefile")}
        status, out = self.mutate("--seed", "7", "--n", "100", "--jobs", "2")
        self.check("a run ends with 0", status == 0, out)
        if status:
            return
        by_key = {r["key"].split(" | ", 1)[1]: r["outcome"] for r in self.results()}
        for what, line, outcome in (
                ("a changed limit is noticed", "calc_top | if (x > 10) /* x < 3 is \"no\" code */ | if (x > 11) /* x < 3 is \"no\" code */", "noticed"),
                ("what no test calls survives", "calc_unseen | return calc_unseen2(x, name) + x; | return calc_unseen2(x, name) - x;", "survived"),
                ("what does not compile without a warning is no mutant", "calc_unseen | return calc_unseen2(x, name) + x; | return calc_unseen2(name, x) + x;", "build"),
                ("what never ends is noticed", "calc_drain | n--; | ;", "timeout"),
                ("the same code is no mutant", "calc_top | return x; | return x;", None)):
            self.check(what, by_key.get(line) == outcome, by_key)
        self.check("equivalent ones do not run", not any("x >= 10" in k for k in by_key), by_key)
        self.check("the same machine code is not counted", "same" in by_key.values(), by_key)
        self.check("the report has survivors with place and change", "part/calc.c:11: calc_unseen(): survived" in out and
                   "\n+    return calc_unseen2(x, name) - x;" in out, out)
        counted = sum(o in mutate.COUNTED for o in by_key.values())
        noticed = sum(o in ("noticed", "timeout") for o in by_key.values())
        self.check("the score is noticed of counted", any(line.split()[:5] == ["calc", str(counted), str(noticed), str(counted - noticed),
                                                          "%d%%" % (100 * noticed // counted)] for line in out.split("\n")), out)
        self.check("the tree is not touched", before == {f: self.read(f) for f in before} and
                   not os.path.exists(os.path.join(self.at, "build")), "")

        # Interrupted while writing a line: only that mutant runs again.
        log = os.path.join(self.out, "seed-7.jsonl")
        lines = mutate.read(log).split("\n")[:-1]
        with open(log, "w", encoding="utf-8") as f:
            f.write("\n".join(lines[:-1]) + "\n" + lines[-1][:20] + "\n")
        status, out = self.mutate("--seed", "7", "--n", "100")
        self.check("an interrupted run goes on", status == 0 and mutate.read(log).count("\n") == len(lines) + 1 and
                   len(out.split("\npart ")[0].split("\n")) == 1, out)

        # Killed in the middle of a run.
        self.write("part/calc_test.c", TEST.replace("return calc_top", "sleep(20); return calc_top").replace("int calc_top(int),", "unsigned sleep(unsigned);\nint calc_top(int),"))
        p = subprocess.Popen([sys.executable, "-B", os.path.join(HERE, "mutate.py"), "--top", self.at, "--out", self.out + "-ended", "--table",
                              os.path.join(self.at, "suites.txt")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        first = p.stdout.readline() + p.stdout.read(20)
        p.terminate()
        rest = p.communicate(timeout=60)[0]
        self.check("a run that is ended says how it goes on", p.returncode == 1 and "the same command goes on" in rest, first + rest)

        # With a better test, the survivors run again.
        self.write("part/calc_test.c", TEST.replace("return calc_top(9)", "return calc_unseen(3, \"a\") != 103 || calc_top(9)")
                   .replace("int calc_top(int),", "int calc_unseen(int, char *), calc_top(int),"))
        status, out = self.mutate("--seed", "7", "--n", "100", "--again")
        self.check("survivors run again after a new test", status == 0 and "calc_unseen(): survived" not in out, out)

        self.write("part/calc_test.c", "no C\n")
        status, out = self.mutate("--seed", "7")
        self.check("a part whose suite cannot be built is named", status == 0 and "not run: mutate calc: suite units cannot be built" in out, out)
        self.write("part/calc_test.c", TEST.replace("{ return calc_top(9)", "{ return 1 || calc_top(9)"))
        status, out = self.mutate("--seed", "7")
        self.check("a suite that fails without a mutant is an error", status == 1 and "fails without a mutant" in out, out)

    def inside(self):
        """What a mutant could do to the machine."""
        secret = os.path.join(self.out, "outside")
        with open(secret, "w", encoding="utf-8") as f:
            f.write("x")
        text = "test $(ls -d /proc/[0-9]* | wc -l) -lt 12 && ! touch %s 2> /tmp/x && touch %s/part/x" % (secret, self.at)
        job = {"suites": [{"name": "s", "build": None, "commands": [["sh", "-c", text]], "limit": 60}]}
        answer = jail.run(self.at, os.path.join(self.out, "tree"), os.path.join(self.out, "box-0"), job, 100)
        self.check("inside: other processes are not seen, the machine is read-only, the tree is not", answer["outcome"] == "survived", answer)
        self.check("... and nothing of it stays", not os.path.exists(os.path.join(self.at, "part/x")) and
                   not os.path.exists(os.path.join(self.out, "tree/part/x")))

    def tables(self):
        for what, table, message in (("a suite that is not there", TABLE.replace("c | units", "c | unit"), "no suite unit"),
                                     ("a file that is not there", TABLE.replace("calc.c", "calcs.c"), "no file matches part/calcs.c"),
                                     ("a test that is not there", TABLE.replace("calc_test", "calc_tset"), "is named calc_tset"),
                                     ("a folder that is not there", TABLE.replace("| part:", "| parts:"), "parts has no Makefile"),
                                     ("a line that is none", TABLE + "sweet units\n", "not understood")):
            self.write("suites.txt", table)
            status, out = self.mutate("--check")
            self.check("the table names %s" % what, status == 1 and message in out, out)
        self.write("suites.txt", TABLE)
        self.write("equivalent.txt", EQUIVALENT.replace("x > 10", "x > 12"))
        status, out = self.mutate("--check")
        self.check("an equivalent of a line that has changed", status == 1 and "no longer has" in out, out)
        self.write("equivalent.txt", EQUIVALENT)
        status, out = self.mutate("--check")
        self.check("tables that fit", status == 0, out)


def main():
    test = Test(os.path.abspath(sys.argv[1]))
    test.finding()
    test.tables()
    why = jail.refused(os.path.join(test.out, "probe"))
    if why:
        test.skipped += 1
        print("not run: mutate: running mutants: %s" % why)
    else:
        test.running()
        test.inside()
    print("mutate: %d passed, %d failed, %d skipped" % (test.passed, test.failed, test.skipped))
    return 1 if test.failed else 0


if __name__ == "__main__":
    sys.exit(main())
