#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Tests of peer.c and peers.py without a rival: peers_test.py --build DIR --bench DIR"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


class Tests:
    """The tests, and what they share."""

    def __init__(self, build, bench):
        self.build, self.peer, self.fake = build, os.path.join(bench, "peer"), os.path.join(bench, "peer-fake.so")
        self.bench, self.provider = bench, os.path.join(build, "host/softgpu/libcuda-soft.so.1")
        self.vgpu = [os.path.join(build, "userspace/vgpu/vgpu"), "run", "--gpu", "soft"]

    @staticmethod
    def run(command, **env):
        """Exit status and output of a command."""
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
                              env={**os.environ, **env}, check=False)
        return done.returncode, done.stdout

    def groups(self):
        """{group: [row...]}"""
        return {words[0]: words[1:] for words in map(str.split, self.run([self.peer, "--list"])[1].splitlines())}

    def peers(self, *args, **env):
        """Exit status, output and JSON of peers.py."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "json")
            status, text = self.run([sys.executable, "-B", os.path.join(HERE, "peers.py"), "--build", self.build, "--bench",
                                     self.bench, "--quick", "--json", path, *args], **env)
            if not os.path.exists(path):
                return status, text, None
            with open(path, encoding="utf-8") as file:
                return status, text, json.load(file)

    def every_row(self, command):
        """Each group has a figure for each of its rows and nothing else."""
        for group, rows in self.groups().items():
            status, text = self.run(command + [group, "--quick"])
            assert status == 0, (group, status, text)
            lines = [line.split() for line in text.splitlines()]
            assert [line[0] for line in lines] == rows, (group, text)
            assert all(line[2] == "us" and float(line[1]) > 0 for line in lines), text

    def test_directly(self):
        """peer.c on the software GPU."""
        self.every_row([self.peer, self.provider])

    def test_through_us(self):
        """peer.c through libcuda, ring and backend."""
        self.every_row(self.vgpu + [self.peer, "libcuda.so.1"])

    def test_no_work_is_an_error(self):
        """A library that does nothing has no figure in any row."""
        for group, rows in self.groups().items():
            status, text = self.run([self.peer, self.fake, group, "--quick"])
            lines = [line.split() for line in text.splitlines()]
            assert status == 1 and [line[:2] for line in lines] == [[row, "error"] for row in rows], (group, text)
        assert "free_memory_does_not_follow" in self.run([self.peer, self.fake, "info", "--quick"])[1]
        assert "wrong_count_0_of_20" in self.run([self.peer, self.fake, "issue", "--quick"])[1].replace("_200", "_20")

    def test_no_library(self):
        """What cannot be loaded is the error of all rows."""
        status, text = self.run([self.peer, "/nowhere/libcuda.so.1", "issue"])
        assert status == 1 and "launch-issue error not_loaded" in text, text

    def test_all_named_twice(self):
        """Ours beside ours: all rows, both tables, ratios of each round."""
        status, text, got = self.peers("--again", "other", "--rounds", "2", "--crowded")
        assert status == 0 and got, text
        rows = [row for rows in self.groups().values() for row in rows]
        for part in ("plain", "crowded"):
            assert list(got[part]) == rows, got[part]
            for row in rows:
                for name in ("direct", "ours", "other"):
                    assert len(got[part][row][name]) == 2 and all(v > 0 for v in got[part][row][name]), (row, got[part][row])
        assert text.count("| direct | ours | other | / ours |") == 2, text
        assert got["about"]["rounds"] == 2 and got["about"]["commits"]["ours"], got["about"]

    def test_rows_lost_come_first(self):
        """A rival that is faster: the provider itself, under another name."""
        _, text, _ = self.peers("--library", "rival=" + self.provider, "--rounds", "1", "--groups", "start alloc")
        rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
        assert "**" in rows[0] and "(1 of 1)" not in text, text
        worst = [float(line.split("**")[1]) for line in rows if "**" in line]
        assert worst == sorted(worst), text

    def test_failures_are_shown(self):
        """Lies, hangs and crashes of a rival are in the table, and ours beside them."""
        for how, want in (("lie", "wrong_count_0_of"), ("crash", "signal 6"), ("hang", "no result in 2 s")):
            status, text, got = self.peers("--library", "rival=" + self.fake, "--rounds", "1", "--groups", "launch",
                                           "--limit", "2", PEER_FAKE=how)
            row = got["plain"]["launch-synchronize"]
            assert status == 0 and want in row["rival"][0] and want in text, text
            assert row["ours"][0] > 0, row

    def test_advice(self):
        """What is not built or not there is said with what to do."""
        with tempfile.TemporaryDirectory() as folder:
            for name, word in (("lupine", "cmake --build"), ("smolvm", "cargo build")):
                status, text, _ = self.peers("--" + name, folder)
                assert status == 2 and word in text and folder in text, text
                status, text, _ = self.peers("--" + name, os.path.join(folder, "none"))
                assert status == 2 and "checkout" in text, text
        status, text, _ = self.peers()
        assert status == 2 and "LUPINE=DIR" in text, text
        status, text, _ = self.peers("--again", "other", "--groups", "nothing")
        assert status == 2 and "there are: info" in text, text


def main():
    """Runs all tests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--bench", required=True)
    args = parser.parse_args()
    tests = Tests(os.path.abspath(args.build), os.path.abspath(args.bench))
    passed = failed = 0
    for name in [name for name in dir(tests) if name.startswith("test_")]:
        try:
            getattr(tests, name)()
            passed += 1
        except (AssertionError, subprocess.TimeoutExpired, OSError, ValueError, IndexError, TypeError) as why:
            print("FAIL: %s: %s" % (name, why))
            failed += 1
    print("peers-test: %d passed, %d failed, 0 skipped" % (passed, failed))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
