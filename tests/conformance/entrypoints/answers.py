#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The table of answers: what a list of the walk says, kept so that a driver can be held against it.

usage: answers.py write WALK CC INCLUDE_DIR > answers.tsv     from the list of the software GPU alone
       answers.py check WALK ANSWERS [--manual]               WALK: of the software GPU, or of a GPU's driver
       answers.py driver WALK > driver-580.tsv                from the list of a GPU's driver
       answers.py differ ANSWERS DRIVER KEPT                  where the table and driver-580.tsv differ, and why

A line of the table: entry point, phase, result, bytes written, source, and the labels of all calls that were
answered so. Variants for the per-thread default stream that answer as the others do have no lines of their own.
Sources: `probed`, what NVIDIA's driver was seen to answer (driver-580.tsv: 580.159.04 on an H200, the first
hundred entry points; or a public report); `manual`, what the comments of cuda.h say of that fault; `guess`, the
software GPU's answer where neither is known. check prints each call that is
answered differently, with the source; the last line is "answers: N passed, M failed". --manual leaves guesses out.
differ fails where driver-580-kept.tsv gives no reason for a difference, and where its reason covers none.
"""
import collections
import os
import re
import sys

# Observed answers of NVIDIA's driver.
PROBED = {
    ('cuMemGetInfo_v2', 'context', 'free=NULL'),   # OptiX asks for one of the two
    ('cuMemGetInfo_v2', 'context', 'total=NULL'),
    # The rest: 580.159 on an H200, observed by the conformance suite.
    ('cuMemAllocAsync', 'context', 'bytesize=0'),
    ('cuMemAllocFromPoolAsync', 'context', 'bytesize=0'),
    ('cuDeviceSetMemPool', 'context', 'dev=4711'),
    ('cuMemPoolCreate', 'context', 'poolProps.location.id=huge'),
    ('cuMemPoolGetAccess', 'context', 'location.id=huge'),
    ('cuMemGetMemPool', 'context', 'location.type=above'),
    ('cuMemcpy2D_v2', 'context', 'pCopy.srcPitch=2^40'),
    ('cuMemcpy2D_v2', 'context', 'pCopy.dstPitch=2^40'),
    ('cuStreamBatchMemOp_v2', 'context', 'count=0'),
    ('cuGraphBatchMemOpNodeSetParams', 'context', 'nodeParams.count=0'),
    *(('cuPointerGetAttribute', 'context', f'attribute {n}') for n in (2, 3, 4, 6, 8, 9, 10, 13, 15, 16, 21)),
    # 580.159.04 on an H200:
    ('cuEventElapsedTime', 'context', 'pMilliseconds=NULL'),
    ('cuEventElapsedTime_v2', 'context', 'pMilliseconds=NULL'),
    ('cuGraphAddMemcpyNode', 'context', 'ctx=NULL'),
    ('cuGraphAddMemsetNode', 'context', 'ctx=NULL'),
    ('cuStreamEndCapture', 'context', 'phGraph=NULL'),
} | {(call, 'capture', mode + ', all valid')
     for call in ('cuCtxSetCacheConfig', 'cuCtxSetLimit', 'cuCtxSetSharedMemConfig', 'cuDeviceSetMemPool',
                  'cuLibraryUnload', 'cuModuleLoadData', 'cuModuleLoadDataEx', 'cuModuleLoadFatBinary',
                  'cuModuleUnload')
     for mode in ('global', 'thread-local', 'relaxed', 'blocking')}
# Rules common to the probed calls, which the software GPU and our libcuda follow, and their guesses.
#   NULL first       a NULL output is INVALID_VALUE, also before cuInit and without a context. Probed for all probed calls of
#                    libraries and kernels (where a NULL handle is INVALID_HANDLE in the same way, as in the linker's calls
#                    except cuLinkCreate); guess: cuKernelGetLibrary and cuLibraryGetUnifiedFunction. Other calls vary, and
#                    follow the probe.
#   outputs are 0    cuMemAlloc, cuMemAllocManaged, cuMemHostAlloc, cuMemGetInfo, cuMemGetAddressRange, cuModuleGetGlobal,
#                    cuDeviceTotalMem and cuIpcGetEventHandle write their outputs on failure, too: probed. The value 0 is a
#                    guess, as are cuMemAllocPitch and cuMemAllocHost.
#   nothing copied   copies of 0 bytes succeed with any other arguments: probed for cuMemcpy2D, cuMemcpyAtoD, cuMemcpyPeer,
#                    guess for the other copies of rows, arrays, volumes. A NULL context is the current context: probed for
#                    the destination of cuMemcpyPeer, guess for its source and for cuMemcpyPeerAsync.
#   Probed but not followed: driver-580-kept.tsv, with the reasons.
DRIVER = 'driver-580.tsv'
SHORT = 'CUDA_ERROR_'
HANDLE_FAULTS = ('garbage', 'small', 'destroyed', 'another kind')
# Rules of the programming guide for objects of another context, and of the manual for calls during a capture; calls are
# given by a part of their names.
FOREIGN = (
    ('cuLaunchKernel|cuLaunchCooperativeKernel$', 'hStream', SHORT + 'INVALID_HANDLE'),
    ('cuEventRecord', '', SHORT + 'INVALID_HANDLE'),
    ('cuEventElapsedTime', '', SHORT + 'INVALID_HANDLE'),
    ('cuMemcpy.*Async', 'hStream', 'CUDA_SUCCESS'),
    ('cuEventQuery|cuEventSynchronize|cuStreamWaitEvent', '', 'CUDA_SUCCESS'))
CAPTURING = (
    ('cuStreamSynchronize|cuStreamQuery', 'hStream=capturing', SHORT + 'STREAM_CAPTURE_UNSUPPORTED'),
    ('cuStreamAttachMemAsync', 'hStream=capturing', SHORT + 'STREAM_CAPTURE_UNSUPPORTED'),
    ('cuMemcpyBatchAsync', 'hStream=capturing', SHORT + 'STREAM_CAPTURE_UNSUPPORTED'),
    ('cuCtxSynchronize', 'all valid', SHORT + 'STREAM_CAPTURE_UNSUPPORTED'),
    ('cuEventQuery|cuEventSynchronize', 'hEvent=captured', SHORT + 'CAPTURED_EVENT'),
    ('cuLaunchKernel|cuMemcpy.*Async|cuMemset.*Async|cuEventRecord|cuStreamWaitEvent', 'hStream=NULL',
     SHORT + 'STREAM_CAPTURE_IMPLICIT'),
    ('cuStreamIsCapturing|cuStreamGetCaptureInfo', 'hStream=NULL', SHORT + 'STREAM_CAPTURE_IMPLICIT'),
    ('cuMemcpy[A-Z]to[A-Z](_v2)?$|cuMemcpy(2D|3D)?(_v2)?$', 'all valid', SHORT + 'STREAM_CAPTURE_IMPLICIT'),
    ('cuLaunchKernel|cuMemcpy.*Async|cuMemset.*Async|cuEventRecord', 'hStream=capturing', 'CUDA_SUCCESS'))


def load(path):
    """{(name, phase, label): (result, what was written)} of the walk's output"""
    calls = {}
    with open(path, encoding='utf-8') as f:
        for line in f:
            m = re.match(r'(\w+) (\S+) \((.*?)\) (.*?)(?: wrote (\S+))?( FAIL want .*)?$', line.rstrip('\n'))
            if m:
                calls[m[1], m[2], m[3]] = m[4], m[5] or 'nothing'
    return calls


def how_of(label):
    return label.rpartition('=')[2]


def base(name):
    return re.sub(r'_pt(?:sz|ds)$', '', name)


class Sources:
    """Where an answer is from, by rule."""

    def __init__(self, header, bare, driver):
        self.h = header
        self.bare = bare
        self.driver = driver

    def documented(self, name):
        return self.h.documented.get(name) or self.h.documented.get(self.bare(name)[0], set())

    def types(self, name):
        return {n: t for t, n in self.h.functions[name].params} if name in self.h.functions else {}

    def told(self, name, phase, label, result):
        """whether a rule of the manual says so"""
        rules = CAPTURING if phase == 'capture' else FOREIGN
        label = label.split(', ')[-1]
        return any(re.match(call, base(name)) and label.startswith(what) and result == code
                   for call, what, code in rules)

    def probed(self, key, answer):
        if (base(key[0]), *key[1:]) in PROBED:
            return True
        return answer in (self.driver.get((key[0] + end, *key[1:])) for end in ('', '_ptds', '_ptsz'))

    def of(self, key, answer):
        name, phase, label = key
        result = answer[0]
        documented = self.documented(name)
        if self.probed(key, answer):
            return 'probed'
        if phase == 'capture' or how_of(label) == 'another context':
            return 'manual' if self.told(name, phase, label, result) else 'guess'
        if result not in documented | {'CUDA_SUCCESS'}:
            return 'guess'
        if label == 'all valid':
            states = {'before-init': 'CUDA_ERROR_NOT_INITIALIZED', 'no-context': 'CUDA_ERROR_INVALID_CONTEXT',
                      'context': 'CUDA_SUCCESS'}
            return 'manual' if documented and result == states[phase] else 'guess'
        parameter, _, how = label.partition('=')
        ctype = self.types(name).get(parameter, '')
        if phase != 'context' or not how:
            return 'guess'
        if how == 'NULL' and ctype.endswith('*'):
            return 'manual' if result == SHORT + 'INVALID_VALUE' else 'guess'
        if how in HANDLE_FAULTS:
            told = documented & {SHORT + 'INVALID_VALUE', SHORT + 'INVALID_HANDLE'}
            return 'manual' if told == {result} else 'guess'
        if ctype == 'CUdevice':
            return 'manual' if result == SHORT + 'INVALID_DEVICE' else 'guess'
        if self.h.resolve(ctype) in self.h.enums and how in ('above', '-1', 'huge'):
            return 'manual' if result == SHORT + 'INVALID_VALUE' else 'guess'
        return 'guess'


def variant_is_same(calls, name):
    """A variant whose calls are all answered as those of the plain name."""
    plain = base(name)
    if plain == name:
        return False
    mine = {k[1:]: v for k, v in calls.items() if k[0] == name}
    return mine == {k[1:]: v for k, v in calls.items() if k[0] == plain}


def write(calls, cc, include):
    sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]
    sys.dont_write_bytecode = True
    import header  # beside this file, and of no use where a list is only checked
    driver = os.path.join(os.path.dirname(os.path.abspath(__file__)), DRIVER)
    sources = Sources(header.read(cc, include), header.base_name, {k: v[0] for k, v in read(driver).items()})
    names = list(dict.fromkeys(k[0] for k in calls))
    kept = [n for n in names if not variant_is_same(calls, n)]
    put({k: v for k, v in calls.items() if k[0] in kept}, sources.of,
        '`make answers` here writes it anew.')


def put(calls, source, how):
    names = list(dict.fromkeys(k[0] for k in calls))
    lines = collections.defaultdict(list)
    for key, (result, wrote) in calls.items():
        short = result.removeprefix(SHORT).removeprefix('CUDA_')
        lines[key[0], key[1], short, wrote, source(key, (result, wrote))].append(key[2])
    print('# SPDX-License-Identifier: MIT')
    print('# Written by answers.py, which says what the columns and sources are; ' + how)
    print('#call\tphase\tresult\twritten\tsource\targuments')
    for key, labels in sorted(lines.items(), key=lambda x: (names.index(x[0][0]), x[0][1:], x[1])):
        print('\t'.join((*key, '; '.join(labels))))


def write_driver(calls):
    """What a GPU's driver answered, crashes too, but for calls that had no answer in time."""
    kept = {k: v for k, v in calls.items() if k[2] != 'preparing' and not v[0].startswith('no return')}
    put(kept, lambda key, answer: 'probed', '`answers.py driver` writes it anew.')


def read(path):
    """{(name, phase, label): ((result, written), source)}"""
    table = {}
    with open(path, encoding='utf-8') as f:
        for line in f:
            if line.startswith('#'):
                continue
            name, phase, result, wrote, source, labels = line.rstrip('\n').split('\t')
            full = ('CUDA_SUCCESS' if result == 'SUCCESS' else
                    result if result.startswith('signal') else SHORT + result)
            for label in labels.split('; '):
                table[name, phase, label] = (full, wrote), source
    return table


def check(calls, table, manual):
    passed = failed = 0
    told = collections.Counter()
    named = {k[0] for k in table}
    for key, answer in calls.items():
        where = key if key[0] in named else (base(key[0]), *key[1:])
        want, source = table.get(where, (('no line', 'nothing'), 'guess'))
        if manual and source == 'guess':
            continue
        told[source] += 1
        if answer == want:
            passed += 1
            continue
        failed += 1
        print(f'FAIL: {key[0]} {key[1]} ({key[2]}): {answer[0]}, wrote {answer[1]}; the table ({source}): '
              f'{want[0]}, {want[1]}')
    missing = [k for k in table if k not in calls]
    if missing:
        print(f'FAIL: {len(missing)} calls of the table were not made; first: {" ".join(missing[0])}')
    print('sources: ' + ', '.join(f'{n} {s}' for s, n in sorted(told.items())))
    print(f'answers: {passed} passed, {failed + len(missing)} failed')
    return failed + len(missing) != 0


def read_kept(path):
    """rows of call, phase, labels, result, reason; * stands for any phase or label"""
    kept = []
    with open(path, encoding='utf-8') as f:
        for line in f:
            if not line.startswith('#'):
                kept.append(line.rstrip('\n').split('\t'))
    return kept


def differ(table, driver, kept):
    named = {k[0] for k in table}
    same = differs = crashes = failed = 0
    covered = collections.Counter()
    for key, (theirs, _) in driver.items():
        where = key if key[0] in named else (base(key[0]), *key[1:])
        ours, _ = table.get(where, (('no line', 'nothing'), 'guess'))
        if ours == theirs:
            same += 1
            continue
        if theirs[0].startswith('signal'):
            crashes += 1
            continue
        differs += 1
        short = theirs[0].removeprefix(SHORT).removeprefix('CUDA_')
        rows = [i for i, r in enumerate(kept) if r[0] == key[0] and r[1] in (key[1], '*') and r[3] == short and
                {key[2], '*'} & set(r[2].split('; '))]
        covered.update(rows)
        if not rows:
            failed += 1
            print(f'FAIL: {key[0]} {key[1]} ({key[2]}): {ours[0]}, wrote {ours[1]}; the driver: {theirs[0]}, {theirs[1]}')
    for i, row in enumerate(kept):
        if not covered[i]:
            failed += 1
            print(f'FAIL: {row[0]} {row[1]} ({row[2]}): no difference any more ({row[4]})')
    print(f'driver 580: {same} answers are the same, {differs} differ, '
          f'{crashes} are crashes of the driver')
    print(f'differ: {same + differs - failed} passed, {failed} failed')
    return failed != 0


def main(argv):
    if len(argv) == 5 and argv[1] == 'write':
        write(load(argv[2]), argv[3], argv[4])
        return 0
    if len(argv) == 3 and argv[1] == 'driver':
        write_driver(load(argv[2]))
        return 0
    if len(argv) == 5 and argv[1] == 'differ':
        return differ(read(argv[2]), read(argv[3]), read_kept(argv[4]))
    if len(argv) in (4, 5) and argv[1] == 'check' and argv[4:] in ([], ['--manual']):
        return check(load(argv[2]), read(argv[3]), bool(argv[4:]))
    sys.exit(__doc__)


if __name__ == '__main__':
    sys.exit(main(sys.argv))
