#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Writes the generated files: parser -> policy -> templates.

emit.py OUTDIR DOCDIR [SOFTGPUDIR TABLE]   all files; those of the software GPU, by its table of entry points, too; pages
emit.py --roundtrip FILE   the cases of vgp_roundtrip_test.c; beside it vgp_worker_steps.h, for a worker that does nothing
emit.py --golden FILE      the cases of vgp_golden_test.c
emit.py --prove FOLDER HEADER...   a file of statements about each decoder, for CBMC (prove.sh); the worker's headers
In front, each as often as there are files of that kind:
--entry FILE    what the guest does for an entry point
--worker FILE   what the worker does for a call
--runtime FILE  the worker's header with what decoders call whatever the description says
--def FILE      another description of what travels than cuda_calls.def (for tests of the generator)"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import parse  # noqa: E402
import policy  # noqa: E402
import entries as table  # noqa: E402
from templates import calls_h, entry, facts, fields, golden, guest, page, prove, provider, roundtrip, softgpu, softgpu_entries, worker  # noqa: E402


HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
USAGE = 'usage: emit.py [--entry FILE] [--worker FILE] [--runtime FILE] [--def FILE] OUTDIR DOCDIR [SOFTGPUDIR TABLE] | --roundtrip FILE | --golden FILE | ' \
    '--prove FOLDER HEADER...'


def main(argv):
    try:
        d, argv = read(argv)
        if len(argv) not in (3, 5) and argv[1:2] != ['--prove']:
            print(USAGE, file=sys.stderr)
            return 2
        write(d, argv)
    except (parse.DefError, policy.PolicyError, ValueError) as e:
        print(f'error: {e}', file=sys.stderr)
        return 1
    return 0


def read(argv):
    """The description that options in front name, checked; the arguments without them."""
    files = {'--def': [], '--entry': [], '--worker': [], '--runtime': []}
    while len(argv) > 2 and argv[1] in files:
        files[argv[1]].append(argv[2])
        argv = argv[:1] + argv[3:]
    if not files['--def']:
        # The calls without what a side does would be other calls: forwarded, or hand-written.
        for side in ('--entry', '--worker', '--runtime'):
            if not files[side]:
                raise parse.DefError(f'no file says what this side does: {side} FILE')
        files['--def'] = [os.path.join(HERE, 'cuda_calls.def')]
    d = parse.parse(files['--def'][-1], files['--entry'], files['--worker'])
    policy.apply(d)
    for name in files['--runtime']:
        try:
            with open(name, encoding='utf-8') as f:
                d.runtime += f.read()
        except OSError as e:
            raise parse.DefError(f'{name}: {e.strerror}') from e
    return d, argv


def write(d, argv):
    described = table.parse(argv[4], d) if len(argv) == 5 and argv[1] != '--prove' else []
    tests = {'--roundtrip': roundtrip.render, '--golden': golden.render}
    if argv[1] in tests:
        with open(argv[2], 'w', encoding='utf-8') as f:
            f.write(tests[argv[1]](d))
        if argv[1] == '--roundtrip':
            with open(os.path.join(os.path.dirname(argv[2]), 'vgp_worker_steps.h'), 'w', encoding='utf-8') as f:
                f.write(roundtrip.render_steps(d))
        return
    if argv[1] == '--prove':
        for name, text in prove.render(d, argv[3:]).items():
            with open(os.path.join(argv[2], f'prove_{name}.c'), 'w', encoding='utf-8') as f:
                f.write(text)
        return
    with open(os.path.join(HERE, 'cuda_symbols.tsv'), encoding='utf-8') as f:
        rows = [ln.rstrip('\n').split('\t') for ln in f if not ln.startswith('#')]
    files = {
        'vgp_calls.h': calls_h.render(d), 'vgp_names.c': calls_h.render_names(d),
        'vgp_facts.c': facts.render(d), 'vgp_fields.c': fields.render(d),
        'vgp_guest.h': guest.render_h(d), 'vgp_guest.c': guest.render_c(d),
        'vgp_entry.h': entry.render_h(d), 'vgp_entry.c': entry.render_c(d),
        'vgp_unsupported.c': entry.render_unsupported(d),
        'vgp_procaddr.c': entry.render_procaddr(d, rows),
        'vgp_exports.map': entry.render_map(d),
        'vgp_newer.h': softgpu.render_newer(d),
        'vgp_provider.h': provider.render_h(d), 'vgp_provider.c': provider.render_c(d),
        'vgp_worker.h': worker.render_h(d), 'vgp_worker.c': worker.render_c(d),
    }
    for name, text in files.items():
        with open(os.path.join(argv[1], name), 'w', encoding='utf-8') as f:
            f.write(text)
    if len(argv) == 5:
        for name, text in {'newer.h': softgpu.render_newer(d), 'aliases.c': softgpu.render_aliases(d, {e.name for e in described}),
                           'entries.h': softgpu_entries.render_h(described), 'entries.c': softgpu_entries.render_c(described)}.items():
            with open(os.path.join(argv[3], name), 'w', encoding='utf-8') as f:
                f.write(text)
    with open(os.path.join(argv[2], 'calls.md'), 'w', encoding='utf-8') as f:
        f.write(page.render(d))
    with open(os.path.join(argv[2], 'state.md'), 'w', encoding='utf-8') as f:
        f.write(facts.render_page(d))


if __name__ == '__main__':
    sys.exit(main(sys.argv))
