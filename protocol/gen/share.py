#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""How much of the calls comes from the description alone.

share.py [HANDLERS ENTRIES]   prints the figures; fails where fewer are generated than the two numbers

A handler of the worker is wholly generated when the worker has no wrk_do_NAME for it; an entry point of the guest
when libcuda has no vcu_NAME for it. The per-thread variants (_ptsz, _ptds), all generated, count with their entry
point; names that only refuse do not count."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import parse  # noqa: E402
import policy  # noqa: E402


def main(argv):
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    d = parse.parse(os.path.join(here, 'cuda_calls.def'))
    policy.apply(d)
    entries = [c for c in d.calls if c.entry != 'none'] + d.locals
    made = [sum(c.worker != 'custom' for c in d.calls), sum(x.entry != 'custom' for x in entries)]
    least = [int(n) for n in argv[1:3]] or [0, 0]
    print(f'share: {made[0]} of {len(d.calls)} handlers ({100 * made[0] // len(d.calls)} %), {made[1]} of '
          f'{len(entries)} entry points ({100 * made[1] // len(entries)} %) are wholly generated')
    return 1 if made[0] < least[0] or made[1] < least[1] else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv))
