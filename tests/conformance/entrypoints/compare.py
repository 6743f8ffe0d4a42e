#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Compares two lists of the walk, call by call.

usage: compare.py DIRECT SOCKET DESCRIPTION

Every call must have the same result on the provider alone and through our libcuda, except where a rule
below says why not. Prints each difference and the numbers; the last line is "compare: N passed, M failed".
"""
import collections
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, '../../../protocol/gen')]
sys.dont_write_bytecode = True
import parse  # noqa: E402
from answers import load  # noqa: E402

BAD = {'CUDA_ERROR_INVALID_VALUE', 'CUDA_ERROR_INVALID_HANDLE', 'CUDA_ERROR_INVALID_CONTEXT'}


class Rules:
    """Why two results may differ; each method is one reason and says so in its first line."""

    def __init__(self, direct, socket, description):
        self.direct = direct
        self.socket = socket
        self.refused = {u.name for u in description.unsupported}

    def valid(self, calls, name):
        return calls.get((name, 'context', 'all valid'), (None, None))[0]

    def described_as_refused(self, name, phase, label, a, b):
        """refused by our libcuda, as the description says; the provider may have it"""
        return re.sub(r'_pt(?:sz|ds)$', '', name) in self.refused or name in self.refused

    def provider_lacks_it(self, name, phase, label, a, b):
        """the provider alone does not have it: our libcuda answers it, or makes it from other calls"""
        return (self.valid(self.direct, name) == 'CUDA_ERROR_NOT_SUPPORTED' and
                a in ('CUDA_ERROR_NOT_SUPPORTED', 'CUDA_ERROR_NOT_INITIALIZED'))

    def device_lacks_it(self, name, phase, label, a, b):
        """the device does not offer it: the two see that at different points"""
        return (self.valid(self.direct, name) == self.valid(self.socket, name) ==
                'CUDA_ERROR_NOT_SUPPORTED')

    def stated_limit(self, name, phase, label, a, b):
        """our libcuda does not offer it at all (its README says so), the provider alone does"""
        return b in ('CUDA_ERROR_NOT_SUPPORTED', 'CUDA_ERROR_INVALID_DEVICE') and \
            b == self.valid(self.socket, name)

    def several_are_wrong(self, name, phase, label, a, b):
        """several arguments are bad at once: which is told first is not documented"""
        more = label == 'all zero' or self.valid(self.socket, name) != 'CUDA_SUCCESS'
        return more and 'CUDA_SUCCESS' not in (a, b) and {a, b} & BAD and 'CUDA_ERROR' in a

    def handle_in_struct(self, name, phase, label, a, b):
        """a bad handle or context in a structure: which error it is is not documented"""
        return ('.' in label or '={' in label or 'ctx=' in label) and {a, b} <= BAD

    def handle_brings_context(self, name, phase, label, a, b):
        """without a current context: the soft GPU takes the handle's, our libcuda wants a current one"""
        return phase == 'no-context' and b == 'CUDA_ERROR_INVALID_CONTEXT'

    NAMES = ('described_as_refused', 'provider_lacks_it', 'device_lacks_it', 'stated_limit',
             'several_are_wrong',
             'handle_in_struct', 'handle_brings_context')

    def why(self, key, a, b):
        for rule in self.NAMES:
            if getattr(self, rule)(*key, a, b):
                return rule
        return None


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    direct, socket = load(sys.argv[1]), load(sys.argv[2])
    rules = Rules(direct, socket, parse.parse(sys.argv[3]))
    excused = collections.Counter()
    failed = 0
    for key in sorted(direct.keys() | socket.keys()):
        if key not in direct and key[0] in rules.refused:
            continue  # of a display API: a provider need not have it
        a, wrote = direct.get(key, ('no such call', None))
        b, wrote_b = socket.get(key, ('no such call', None))
        if a == b:
            if wrote != wrote_b:
                failed += 1
                print(f'FAIL: {key[0]} {key[1]} ({key[2]}): {a}; {wrote} written on the provider alone, '
                      f'{wrote_b} through us')
            continue
        rule = rules.why(key, a, b)
        if rule:
            excused[rule] += 1
            continue
        failed += 1
        print(f'FAIL: {key[0]} {key[1]} ({key[2]}): {a} on the provider alone, {b} through us')
    for rule in Rules.NAMES:
        print(f'differs {excused[rule]} times: {getattr(Rules, rule).__doc__}')
    total = len(direct.keys() | socket.keys())
    print(f'compare: {total - failed} passed, {failed} failed')
    return failed != 0


if __name__ == '__main__':
    sys.exit(main())
