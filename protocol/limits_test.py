#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""limits_test.py: each refusal of the generator (every `raise`, and every use of the parser's bad()), with a description
that is accepted and one that is a step over. A refusal that no row reaches fails. The last line: N passed, M failed, K skipped.

--set NAME=VALUE changes a constant of policy.py first: a test of this test."""
import ast
import os
import re
import sys
import tempfile
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
GEN = os.path.join(HERE, 'gen')
sys.path.insert(0, GEN)
sys.dont_write_bytecode = True
import emit  # noqa: E402
import entries  # noqa: E402
import parse  # noqa: E402
import policy  # noqa: E402
from templates import prove, softgpu_entries, worker  # noqa: E402

# What the wire has, from the headers that both sides compile.
HEADERS = {}
for header in ('vgp_ring.h', 'vgp_sock.h'):
    with open(os.path.join(HERE, header), encoding='utf-8') as f:
        for m in re.finditer(r'^#define (VGP_\w+) \(?(\d+)u(?: << (\d+))?\)?', f.read(), re.M):
            HEADERS[m[1]] = int(m[2]) << int(m[3] or 0)
RECORD_HEADER, REPLY_HEADER = 32, 16
ARGS = HEADERS['VGP_RECORD_MAX'] - RECORD_HEADER
REPLY = HEADERS['VGP_REPLY_SLOT_SIZE'] - REPLY_HEADER

CALL = 'call 0x0001 vgpA sync\n'
CU = 'call 0x0001 cuA sync\n'
RUNS = 'call 0x0001 vgpA sync effect=runs\n    in handle:stream s null : CUstream\n'
OUT = '    out bytes data max=%d : void *\n'
IN = '    in bytes data len=dataLen max=%d : const void *\n'
FILL = ('call 0x0001 cuA sync effect=runs silent=1.3\n    in u64 dstDevice : CUdeviceptr\n    in u32 v : unsigned int\n'
        '    in u64 N : size_t\n')
POST = 'call 0x0001 vgpA sync effect=complete post=1.8\n    in u32 v : uint32_t\n'
LIST = '    in array:u32 list count=n max=%d : const uint32_t *\n'
ROWS = ('call 0x0001 cuA sync worker=steps\n    in array:u32 list count=n max=8 : const uint32_t *\n'
        '== worker\ncall cuA\n    rows CUx rows[%s] : .v = %s\n    does cuA(rows)\n')
# Lines behind one of these are of what the guest or the worker does.
ENTRY, WORKER = '== entry\n', '== worker\n'
RECORD = ENTRY + 'record k : struct x * : find(OF) : CUDA_ERROR_X\n'
# Says nothing of state.
SILENT = 'call 0x0001 vgpA sync effect=none\n'
NODE = 'call 0x0001 cuA sync node worker=steps\n' + WORKER + 'call cuA\n    add cuA(added)\n'
LOCAL = ENTRY + 'local cuL(int a)\n'
REASON = 'reason r "text"\nunsupported r cuU\n'


def entry(*steps):
    return LOCAL + ''.join(f'    {s}\n' for s in steps)


def steps_of(side, *steps, options='', params=''):
    """A call, and what a side does for it, which its line says unless it says something else of that side."""
    name = side.split()[1]
    options += '' if f'{name}=' in options else f' {name}=steps'
    return f'call 0x0001 cuA sync{options}\n{params}{side}call cuA\n' + ''.join(f'    {s}\n' for s in steps)


def work(*steps, options='', params=''):
    return steps_of(WORKER, *steps, options=options, params=params)


# (what, accepted, refused)
ROWS_OF = [
    # ---- limits of the wire ----
    ('arguments of the longest record', CALL + IN % (ARGS - 8), CALL + IN % (ARGS - 7)),
    ('reply of a whole slot', CALL + OUT % (REPLY - 8), CALL + OUT % (REPLY - 7)),
    ('reply of a whole slot, with a number', CALL + '    out u64 n : uint64_t *\n' + OUT % (REPLY - 16),
     CALL + '    out u64 n : uint64_t *\n' + OUT % (REPLY - 15)),
    ('reply of an array', CALL + f'    out array:u64 l max={(REPLY - 8) // 8} : uint64_t *\n',
     CALL + f'    out array:u64 l max={(REPLY - 8) // 8 + 1} : uint64_t *\n'),
    ('a blob in pieces beside other arguments', CALL + '    in blob image : const void *\n' + IN % (ARGS - 24 - 48 * 1024),
     CALL + '    in blob image : const void *\n' + IN % (ARGS - 23 - 48 * 1024)),
    ('the last number', 'call 0xfffe vgpA sync since=1.9\n', 'call 0xffff vgpA sync since=1.9\n'),
    ('the first number', CALL, 'call 0x0000 vgpA sync\n'),
    ('a number of its own', CALL + 'call 0x0002 vgpB sync\n', CALL + 'call 0x0001 vgpB sync\n'),
    ('no version below 0x0a00', 'call 0x09ff vgpA sync\n', 'call 0x0a00 vgpA sync\n'),
    ('a version', 'call 0x0a00 vgpA sync since=1.9\n', 'call 0x0a00 vgpA sync since=2.9\n'),
    ('rows as long as the list', ROWS % ('8', 'list[i]'), ROWS % ('7', 'list[i]')),
    ('parameters of a long call', 'call 0x0001 cuA sync long\n' + '    in u32 %s : int\n' * 3 % tuple('abc'),
     'call 0x0001 cuA sync long\n' + '    in u32 %s : int\n' * 4 % tuple('abcd')),
    # ---- the parser ----
    ('a line that continues one', CALL + '    in u32 a\n        : int\n', '        : int\n' + CALL),
    ('a parameter of a call', CALL + '    in u32 a : int\n', '    in u32 a : int\n'),
    ('a step of a local entry point', entry('answer CUDA_SUCCESS'), entry('does cuA()')),
    ('a local entry point without parameters', LOCAL, LOCAL + '    in u32 a : int\n'),
    ('a step of a handler', work('does cuA()'), work('answer cuA()')),
    ('a call without steps among what travels', CU, CU + '    does cuA()\n'),
    ('steps of a call that is described', work('does cuA()'), work('does cuA()').replace('\ncall cuA', '\ncall cuB')),
    ('steps of an entry point of a call that is described', *(steps_of(ENTRY, 'answer CUDA_SUCCESS').replace('\ncall cuA', f'\ncall {n}')
                                                              for n in ('cuA', 'cuB'))),
    ('the steps of a call in one place', work('does cuA()'), work('does cuA()') + 'call cuA\n    does cuA()\n'),
    ('a step of a call', work('does cuA()'), work()),
    ('a step besides parameters', work('param a late', 'does cuA()', params='    out u32 a : int *\n'),
     work('param a late', params='    out u32 a : int *\n')),
    ('a parameter that the call has', *(work(f'param {n} from=1', 'does cuA()', params='    out u32 a : int *\n') for n in 'ab')),
    ('an attribute of a handler', *(work(f'param a {n}', 'does cuA()', params='    out u32 a : int *\n') for n in ('late', 'null'))),
    ('an attribute of what travels', *(CALL + f'    out u32 a {n} : int *\n' for n in ('varies', 'late'))),
    ('a line of the guest', RECORD, RECORD + 'reason r "text"\n'),
    ('a line of the worker', WORKER + 'provider cuA\n', WORKER + 'provide cuA\n'),
    ('a number with four digits', CALL, CALL.replace('0x0001', '0x1')),
    ('a C type', CALL + '    in u32 a : int\n', CALL + '    in u32 a\n'),
    ('a field', 'struct S\n    u32 a : int\nend\n', 'struct S\n    u32 a b : int\nend\n'),
    ('a direction', CALL + '    in u32 a : int\n', CALL + '    to u32 a : int\n'),
    ('a look-up', RECORD, RECORD.replace('OF', 'a')),
    ('a whole call', CALL, 'call 0x0001 vgpA\n'),
    ('parameters of a local', LOCAL, ENTRY + 'local cuL\n'),
    ('a refused call', 'reason r "text"\nunsupported r cuU\n', 'reason r "text"\nunsupported r\n'),
    ('a reason in quotes', 'reason r "text"\nunsupported r cuU\n', 'reason r text\nunsupported r cuU\n'),
    ('a line', CALL, CALL + 'cal 0x0002 vgpB sync\n'),
    # ---- the policy ----
    ('a maximum', CALL + IN % 8, CALL + '    in bytes data len=dataLen : const void *\n'),
    ('a field that is a number', 'struct S\n    u32 a : int\nend\n' + CALL + '    in struct:S s : const S *\n',
     'struct S\n    str a : int\nend\n' + CALL + '    in struct:S s : const S *\n'),
    ('a described struct', 'struct S\n    u32 a : int\nend\n' + CALL + '    in struct:S s : const S *\n',
     CALL + '    in struct:S s : const S *\n'),
    ('an array of numbers', CALL + LIST % 8, CALL + (LIST % 8).replace('u32', 'str')),
    ('a fill without a reply', FILL, FILL.replace('sync', 'wait')),
    ('a call without a reply has no results', POST, POST.replace('in u32', 'out u32') + '    makes graph\n'),
    ('a fill that is work', FILL, FILL.replace('runs', 'orders')),
    ('a class', CALL, CALL.replace('sync', 'later')),
    ('a handler with steps', work('does cuA()'), work('does cuA()', options=' worker=custom')),
    ('a handler with steps is not forwarded', work('does cuA()'), work('does cuA()', options=' worker=forward')),
    ('an entry point with steps', *(steps_of(ENTRY, 'answer CUDA_SUCCESS', options=o) for o in ('', ' entry=custom'))),
    ('what a side does', *(CU.replace('sync', f'sync {o}') for o in ('entry=custom', 'entry=none'))),
    ('what the worker does', *(CU.replace('sync', f'sync worker={o}') for o in ('custom', 'forward'))),
    ('an entry point of a call of the transport', CALL, CALL.replace('sync', 'sync entry=custom')),
    ('steps that the line says, of an entry point', steps_of(ENTRY, 'answer CUDA_SUCCESS'), CU.replace('sync', 'sync entry=steps')),
    ('steps that the line says, of a handler', work('does cuA()'), CU.replace('sync', 'sync worker=steps')),
    ('steps that the line says, of a handler of the transport', work('does cuA()').replace('cuA sync', 'vgpA sync').replace('call cuA', 'call vgpA'),
     CALL.replace('sync', 'sync worker=steps')),
    ('steps of an entry point that the line says', *(steps_of(ENTRY, 'answer CUDA_SUCCESS').replace(' entry=steps', o) for o in (' entry=steps', ''))),
    ('steps of a handler that the line says', *(work('does cuA()').replace(' worker=steps', o) for o in (' worker=steps', ''))),
    ('a then behind a forwarded call', *(steps_of(ENTRY, 'then f()', options=o) for o in (' entry=forward', ''))),
    ('steps around a forwarded call', *(steps_of(ENTRY, 'let int a = f()', 'done a', 'then g()', options=o) for o in (' entry=forward', ' entry=steps'))),
    ('a done without an answer', steps_of(ENTRY, 'done f()', options=' entry=forward'), steps_of(ENTRY, 'let int a = 1', options=' entry=forward')),
    ('an answer of a call that is not forwarded', *(steps_of(ENTRY, 'answer f()', 'then g()', options=o) for o in (' entry=steps', ' entry=forward'))),
    ('a then behind the forwarding', steps_of(ENTRY, 'done f()', 'then g()', options=' entry=forward'),
     steps_of(ENTRY, 'then g()', 'done f()', options=' entry=forward')),
    ('steps around a call that is forwarded', steps_of(ENTRY, 'then f()', options=' entry=forward'), entry('then f()')),
    ('a whole step around a forwarded call', *(steps_of(ENTRY, f'then {f}', options=' entry=forward') for f in ('f()', ''))),
    ('a synchronous long call', 'call 0x0001 cuA sync long\n', 'call 0x0001 cuA async long\n'),
    ('a forwarded call that fills', 'call 0x0001 cuA sync effect=runs\n', 'call 0x0001 cuA sync effect=runs worker=custom\n'),
    ('an option', 'call 0x0001 vgpA sync noctx\n', 'call 0x0001 vgpA sync noctxt\n'),
    ('a waiting call', 'call 0x0001 cuA wait worker=custom\n', 'call 0x0001 cuA wait\n'),
    ('a name of its own', *(LOCAL + f'local {n}(int a)\n' for n in ('cuM', 'cuL'))),
    ('a text of a reason', 'reason r "text"\nunsupported r cuU\n', 'unsupported r cuU\n'),
    ('a reason that is used', 'reason r "text"\nunsupported r cuU\n', 'reason r "text"\n'),
    ('an option of a local', *(ENTRY + f'local cuL(int a) {o}\n' for o in ('caller', 'calle'))),
    ('one answer', entry('answer CUDA_SUCCESS'), entry('answer CUDA_SUCCESS', 'answer CUDA_SUCCESS')),
    ('a place', entry('place add', 'answer CUDA_SUCCESS'), entry('place sub', 'answer CUDA_SUCCESS')),
    ('a result set to 0', *(steps_of(ENTRY, 'zero n', 'answer CUDA_SUCCESS', params=f'    {p}\n') for p in ('out u32 n : int *', 'in u32 n : int'))),
    ('a minted kind', entry('mint e event', 'answer CUDA_SUCCESS'), entry('mint e evnt', 'answer CUDA_SUCCESS')),
    ('a kind of record', *(RECORD + entry(f'object x {k} a', 'answer CUDA_SUCCESS') for k in 'kj')),
    ('an assignment', entry('answer CUDA_SUCCESS', 'give *a = 1'), entry('answer CUDA_SUCCESS', 'give *a')),
    ('one does', work('does cuA()'), work('does cuA()', 'does cuA()')),
    ('a does besides what a failure does', work('does cuA()', 'failed f()'), work('failed f()')),
    ('a length of elements', *(work('param l from=f()' + n, 'does cuA()', params='    out array:u32 l max=8 : int *\n') for n in (' len=2', ''))),
    ('an add of a node', NODE, NODE.replace('add ', 'set ')),
    ('a whole step', entry('refuse a : CUDA_ERROR_X', 'answer CUDA_SUCCESS'), entry('refuse a : X', 'answer CUDA_SUCCESS')),
    ('an address', CALL + '    in u64 a addr : uint64_t\n', CALL + '    in u32 a addr : uint32_t\n'),
    ('an ordinal', CALL + '    in i32 d device : int\n', CALL + '    in u32 d device : int\n'),
    ('types of ordinals', CALL + '    in i32 t : int\n    in i32 d device=t : int\n', CALL + '    in i32 d device=t : int\n'),
    ('a kind of handle', CALL + '    in handle:event e : CUevent\n', CALL + '    in handle:evnt e : CUevent\n'),
    ('a minted handle', CALL + '    new handle:event e : CUevent *\n', CALL + '    out handle:event e : CUevent *\n'),
    ('a struct that goes one way', 'struct S\n    u32 a : int\nend\n' + CALL + '    out struct:S s : S *\n',
     'struct S\n    u32 a : int\nend\n' + CALL + '    new struct:S s : S *\n'),
    ('a type', CALL + '    in u32 a : int\n', CALL + '    in u33 a : int\n'),
    ('an asynchronous call', 'call 0x0001 vgpA async\n', 'call 0x0001 vgpA async\n    out u32 a : int *\n'),
    # ---- facts ----
    ('an effect', 'call 0x0001 vgpA sync effect=complete\n', 'call 0x0001 vgpA sync effect=completes\n'),
    ('a flex call that is work', *(f'call 0x0001 vgpA flex effect={e}\n    in handle:stream s null : CUstream\n' for e in ('runs', 'none'))),
    ('an object that is not waited for', *(f'call 0x0001 vgpA wait effect={e}\n    in handle:event e unawaited : CUevent\n'
                                           for e in ('waits', 'complete'))),
    ('a handle that is not waited for', *(f'call 0x0001 vgpA wait effect=waits\n    in {t} e unawaited : CUevent\n' for t in ('handle:event', 'u64'))),
    ('a wait that waits', 'call 0x0001 vgpA wait effect=waits\n', 'call 0x0001 vgpA sync effect=waits\n'),
    ('a state', 'call 0x0001 vgpA sync effect=none\n    ends context\n', SILENT),
    ('nothing', CALL + '    keeps nothing\n', CALL + '    keeps none\n'),
    ('nothing alone', CALL + '    keeps nothing\n', CALL + '    keeps nothing\n    ends context\n'),
    ('nothing, and no new handle', CALL + '    keeps nothing\n', CALL + '    new handle:event e : CUevent *\n    keeps nothing\n'),
    ('a kind of state', CALL + '    ends memory\n', CALL + '    ends memry\n'),
    ('a change of a device', CALL + '    changes device.flags\n', CALL + '    ends device\n'),
    ('one object', CALL + '    in u64 a : int\n    in u64 b : int\n    ends memory a\n',
     CALL + '    in u64 a : int\n    in u64 b : int\n    ends memory a b\n'),
    ('a parameter that is there', CALL + '    in u64 a : int\n    changes memory a\n', CALL + '    in u64 a : int\n    changes memory b\n'),
    ('a key that the guest gives', CALL + '    in u64 a : int\n    changes memory a\n', CALL + '    out u64 a : int *\n    changes memory a\n'),
    ('a reason in quotes, of what cannot', CALL + '    ends memory\n    cannot "x"\n', CALL + '    ends memory\n    cannot x\n'),
    ('one event that is recorded', CALL + '    in handle:event a records : CUevent\n', CALL + '    in handle:stream a records : CUstream\n'),
    ('flags of an external event', CALL + '    in u32 f external : unsigned\n', CALL + '    in u64 f external : unsigned\n'),
    ('a verdict', CALL + '    out u32 r verdict : unsigned *\n', CALL + '    in u32 r verdict : unsigned\n'),
    ('a duration of work', RUNS + '    in u64 n scales : size_t\n', CALL + '    in u64 n scales : size_t\n'),
    ('a duration by a number', RUNS + '    in u64 n scales : size_t\n', RUNS + '    in i64 n scales : size_t\n'),
    ('a duration by four numbers', *(RUNS + ''.join(f'    in u32 n{i} scales : unsigned\n' for i in range(n)) for n in (4, 5))),
    ('a length', CALL + '    out u64 a extent=n : int *\n    in u64 n : int\n', CALL + '    in u64 a extent=n : int\n    in u64 n : int\n'),
    # ---- the templates ----
    ('a forwarded parameter', CU + '    in u32 a : int\n', CU + '    in blob a : const void *\n'),
    ('a parent', CU + '    in handle:module m parent : CUmodule\n    new handle:function f : CUfunction *\n',
     CU + '    in handle:module m parent : CUmodule\n'),
    ('a parameter of a handler with steps', work('does cuA(a)', params='    in u32 a : int\n'),
     work('does cuA(a)', params='    out str a max=8 : char *\n')),
]

# ---- the table of the software GPU's entry points (entries.def), over one description ----
TABLE_OF = CU + ('    in handle:event e : CUevent\n    out u32 n : int *\n    out u32 o null : int *\n    in i32 d device : CUdevice\n'
                 '    in u32 f : unsigned\n')
EVENT = 'handle CUevent struct sg_event : get(HANDLE, &OBJECT)\n'
TABLES = [
    ('a handle that is looked up', EVENT + 'cuA x=e n\n', EVENT + 'cuA x=e!own n\n'),
    ('a handle line', EVENT, 'handle CUevent sg_event : get(HANDLE)\n'),
    ('a call that is described', 'cuA init\n', 'cuB init\n'),
    ('a row of its own', 'cuA init\n', 'cuA init\ncuA init\n'),
    ('a check of a parameter', 'cuA init n\n', 'cuA init m\n'),
    ('an output set to 0', 'cuA zero:n init\n', 'cuA zero:f init\n'),
    ('a device', 'cuA init device:d\n', 'cuA init device:f\n'),
    ('a pointer that may be NULL', 'cuA init n\n', 'cuA init o\n'),
    ('a result that is checked', 'cuA init n\n    give *n = 1\n', 'cuA init\n    give *n = 1\n'),
    ('a name of an object', EVENT + 'cuA x=e\n', EVENT + 'cuA e=e\n'),
    ('a first check', 'cuA init\n', 'cuA n\n'),
    ('one answer of an entry', 'cuA init\n    answer CUDA_SUCCESS\n', 'cuA init\n    answer CUDA_SUCCESS\n    answer CUDA_SUCCESS\n'),
    ('checks before the answer', 'cuA init\n    check n\n    answer CUDA_SUCCESS\n', 'cuA init\n    answer CUDA_SUCCESS\n    check n\n'),
    ('a refusal', 'cuA init\n    refuse f > 1 : CUDA_ERROR_X because "text"\n', 'cuA init\n    refuse f > 1 : X\n'),
]


def with_facts(text):
    """The description with facts in each call that says nothing of them: most rows are about something else."""
    if text == SILENT:
        return text
    out = []
    for block in re.split(r'^(?=call |struct |reason |unsupported |end)', text, flags=re.M):
        line, newline, rest = block.partition('\n')
        if line.startswith('call ') and len(line.split()) > 3:
            if 'effect=' not in line:
                line += ' effect=runs' if line.split()[3] == 'flex' else ' effect=none'
            if not re.search(r'^    (new|del|makes|ends|changes|keeps|cannot) ', rest, re.M) and ' node' not in line:
                rest = '    keeps nothing\n' + rest
        out.append(line + newline + rest)
    return ''.join(out)


def accept(text):
    """None, or the exception; the handlers are rendered, too."""
    travels, *sides = re.split(r'^== (entry|worker)\n', text, flags=re.M)
    files = {'entry': [], 'worker': []}
    with tempfile.TemporaryDirectory() as folder:
        def file_of(name, content):
            path = os.path.join(folder, f'{name}.def')
            with open(path, 'w', encoding='utf-8') as f:
                f.write(content)
            return path

        for n, (side, content) in enumerate(zip(sides[::2], sides[1::2])):
            files[side].append(file_of(f'{side}{n}', content))
        try:
            d = parse.parse(file_of('calls', with_facts(travels)), **files)
            policy.apply(d)
            worker.render_c(d)
        except (parse.DefError, policy.PolicyError, ValueError) as e:
            return e
    return None


def accept_table(text):
    """None, or the exception, of a table over TABLE_OF."""
    with tempfile.TemporaryDirectory() as folder:
        names = [os.path.join(folder, n) for n in ('calls.def', 'entries.def')]
        for name, content in zip(names, (with_facts(TABLE_OF), text)):
            with open(name, 'w', encoding='utf-8') as f:
                f.write(content)
        d = parse.parse(names[0])
        policy.apply(d)
        try:
            softgpu_entries.render_c(entries.parse(names[1], d))
        except policy.PolicyError as e:
            return e
    return None


# Refusals that only the text of a handler or the worker's headers reach: what, accepted, refused.
SIDES = ['--entry', os.devnull, '--worker', os.devnull, '--def', os.path.join(HERE, 'form_test.def')]
STATEMENTS = [
    ('a file of what a side does', lambda: None, lambda: parse.parse(os.path.join(HERE, 'form_test.def'), entry=[os.path.join(HERE, 'none.def')])),
    ('a file of what the guest does', lambda: emit.read(['', *SIDES]), lambda: emit.read(['', *SIDES[2:4]])),
    ('a header of what decoders call', lambda: emit.read(['', '--runtime', os.devnull, *SIDES]),
     lambda: emit.read(['', '--runtime', os.path.join(HERE, 'none.h'), *SIDES])),
    ('a call of the provider in another', lambda: prove.without_provider('r = wrk_provider.cuA(1);'),
     lambda: prove.without_provider('r = wrk_provider.cuA(wrk_provider.cuB(1));')),
    ('a function that fills a pointer without a promise', lambda: prove.stub('wrk_new', 'CUresult', 'struct wrk_call *c, uint32_t *n'),
     lambda: prove.stub('wrk_new', 'CUresult', 'struct wrk_call *c, const char **text')),
    ('a function that returns memory without a promise', lambda: prove.stub('wrk_new', 'struct wrk_load *', 'struct wrk_call *c'),
     lambda: prove.stub('wrk_new', 'const uint8_t *', 'struct wrk_call *c')),
    ('a promise of an unknown function', lambda: prove.promises_known(prove.PROMISED, prove.PROVIDED),
     lambda: prove.promises_known([*prove.PROMISED][1:], prove.PROVIDED)),
]


def refused(make):
    try:
        make()
    except (ValueError, parse.DefError) as e:
        return e
    return None


def refusals():
    """(file, line) of each raise, and of each call of the parser's bad()."""
    found = set()
    for root, _, files in os.walk(GEN):
        for name in sorted(files):
            if not name.endswith('.py'):
                continue
            path = os.path.join(root, name)
            with open(path, encoding='utf-8') as f:
                tree = ast.parse(f.read())
            for node in ast.walk(tree):
                bad = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == 'bad'
                if bad or isinstance(node, ast.Raise):
                    found.add((path, node.lineno, node.end_lineno))
    return found


def main(argv):
    passed = failed = 0
    seen = []

    def said(what, ok, why=''):
        nonlocal passed, failed
        print(f'{"ok  " if ok else "FAIL"} {what}{why if not ok else ""}')
        passed, failed = passed + ok, failed + (not ok)

    for arg in argv[1:]:
        if arg != '--set':
            name, value = arg.split('=')
            setattr(policy, name, int(value, 0))
    for what, good, over, check in [(*row, accept) for row in ROWS_OF] + [(*row, accept_table) for row in TABLES]:
        e = check(good)
        said(f'{what}: at it', e is None, f': {e}')
        e = check(over)
        said(f'{what}: one over it', e is not None, ': accepted')
        if e is not None and check is accept:
            said(f'{what}: file and line', re.match(r'/.*\.def:\d+: ', str(e)) is not None, f': {e}')
        if e is not None:
            seen += traceback.extract_tb(e.__traceback__)
    for what, good, over in STATEMENTS:
        e = refused(good)
        said(f'{what}: without it', e is None, f': {e}')
        e = refused(over)
        said(what, e is not None, ': accepted')
        if e is not None:
            seen += traceback.extract_tb(e.__traceback__)
    for path, first, last in sorted(refusals()):
        if not any(os.path.samefile(s.filename, path) and first <= s.lineno <= last for s in seen):
            said(f'{os.path.relpath(path, HERE)}:{first}', False, ': a refusal that no row reaches')
    print(f'generator: {passed} passed, {failed} failed, 0 skipped')
    return failed > 0


if __name__ == '__main__':
    sys.exit(main(sys.argv))
