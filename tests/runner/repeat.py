#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""repeat.py --times N [--busy K] [--out FILE] [SUITE[/PATTERN]...]: each suite N times while K processes keep the processors busy.

Prints a table, one row a suite: runs, failed runs, the least and the most seconds, and what failed in how many runs. Without
SUITE: those of `make check`. --busy: one process for each processor. What a run that failed has printed is kept, as
build/log/repeat-SUITE-N.log. Exit status 1 when a run failed."""
import argparse
import collections
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.abspath(os.path.join(HERE, '../..'))
BUILD = os.environ.get('VGPU_BUILD', os.path.join(TOP, 'build'))
SUITES = ('protocol', 'lib', 'host/softgpu', 'host/backend', 'userspace/libcuda', 'userspace/libnvidia-ml', 'userspace/vgpu',
          'tests/conformance/driver')
SUM = re.compile(r': (\d+) passed, (\d+) failed, (\d+) skipped$', re.M)
FAIL = re.compile(r'^\s*(?:FAIL:?|\[  FAILED  \])\s+(.*)$', re.M)


def command(suite):
    """One run of a suite; a whole one has a target of its own."""
    if os.path.exists(os.path.join(TOP, suite, 'Makefile')):
        return ['make', '--no-print-directory', '-C', TOP, 'check-' + suite.replace('/', '.')]
    return [os.path.join(HERE, 'one.py'), BUILD, os.environ.get('CUDA_HOME', '/usr/local/cuda'), suite]


def run(words):
    """(did it fail, seconds, what failed, output); a run without a count has failed."""
    start = time.monotonic()
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace', check=False)
    counts = [tuple(map(int, m)) for m in SUM.findall(done.stdout)]
    failed = done.returncode != 0 or not counts or any(f for _, f, _ in counts)
    names = {m.strip()[:60] for m in FAIL.findall(done.stdout)} if failed else set()
    if failed and not names:
        names = {f'exit status {done.returncode}'}
    return failed, time.monotonic() - start, names, done.stdout


def repeat(suite, words, times):
    """A row of the table, and whether a run failed."""
    bad, seconds, what = 0, [], collections.Counter()
    for n in range(1, times + 1):
        failed, took, names, text = run(words)
        seconds.append(took)
        bad += failed
        what.update(names)
        if failed:
            path = os.path.join(BUILD, 'log', f'repeat-{suite.replace("/", "-").replace("*", "_")}-{n}.log')
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, 'w', encoding='utf-8') as f:
                f.write(text)
    said = '; '.join(f'{name} ({n})' for name, n in sorted(what.items())).replace('|', '/') or 'none'
    return f'| {suite} | {times} | {bad} | {min(seconds):.1f} to {max(seconds):.1f} | {said} |', bad > 0


def main(argv):
    p = argparse.ArgumentParser()
    p.add_argument('--times', type=int, default=40)
    p.add_argument('--busy', type=int, default=os.cpu_count())
    p.add_argument('--out')
    p.add_argument('suites', nargs='*')
    o = p.parse_args(argv[1:])
    if o.times < 1:
        p.error('--times is at least 1')
    busy = [subprocess.Popen([sys.executable, '-c', 'while True: pass']) for _ in range(o.busy)]
    table = [f'{o.times} runs of each suite, with {o.busy} busy processes on {os.cpu_count()} processors.', '',
             '| suite | runs | failed | seconds | what failed (in how many runs) |', '|---|---|---|---|---|']
    failed = False
    try:
        print('\n'.join(table), flush=True)
        for suite in o.suites or SUITES:
            row, bad = repeat(suite, command(suite), o.times)
            failed |= bad
            table.append(row)
            print(row, flush=True)
    finally:
        for b in busy:
            b.kill()
            b.wait()
        if o.out:
            with open(o.out, 'w', encoding='utf-8') as f:
                f.write('\n'.join(table) + '\n')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv))
