#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plots of what `make bench` printed: an SVG file, by the standard library alone.

  plot.py TABLE [SVG]    TABLE: the text of `bench`, or a page that has it as an indented block; without SVG: on standard output
  plot.py --check LOG DIR    a plot of LOG, a run of `bench`; and those committed under DIR (docs/results): are they their tables'?

Three kinds of panel: round trips (median as a bar, p99 as a line above it) by where client and server run, launches, and copies
over their size, ours beside the provider called directly. Axes of time and throughput are logarithmic: what is compared are
ratios. Exit status: 0, 1 when the text has no such table, 2 wrong use.
"""
import glob
import math
import os
import re
import sys
import xml.etree.ElementTree

OURS, THEIRS, OTHERS, INK, GRID = '#1f6f4a', '#b5651d', '#9aa5b1', '#222222', '#dddddd'
WIDTH, PANEL_W, PANEL_H, LEFT, TOP, GAP_X, GAP_Y = 1000, 400, 170, 70, 60, 90, 80


def numbers(line):
    return [float(x) for x in re.findall(r'(?<![\w.])\d+(?:\.\d+)?(?![\w.])', line)]


def read(text):
    """The blocks of the table: {'round trip': {place: [(name, median, p99)]}, 'issue': [...], 'copies': {(memory, way): [...]}}"""
    found = {'title': '', 'trips': {}, 'issue': [], 'launch': [], 'copies': {}}
    block = place = None
    for line in text.splitlines():
        line = line.strip()
        if line.startswith('bench: ') and ' processors' in line:
            found['title'] = line[len('bench: '):]
        m = re.match(r'round trip of 64 bytes, microseconds, ([\w ]+?)\s+median', line)
        if m:
            block, place = 'trips', m[1]
            found['trips'][place] = []
        elif line.startswith('issue of one asynchronous launch'):
            block = 'issue'
        elif line.startswith('one-warp kernels'):
            block = 'launch'
        elif line.startswith('copies, GB/s: ours, the provider'):
            block = 'copies'
        elif re.match(r'(pageable copies|from exec|processor time|worst copy)', line):
            block = None
        elif block == 'copies':
            m = re.match(r'(pageable|pinned)\s+to (device|host)\s+(\d+) KiB\s+([\d.]+)\s+([\d.]+)', line)
            if m:
                found['copies'].setdefault((m[1], m[2]), []).append((int(m[3]) * 1024, float(m[4]), float(m[5])))
        elif block and not re.search(r'target| / |^median', line):
            name = re.split(r'\s{2,}', line)[0]
            values = numbers(line[len(name):])
            if len(values) >= 2 and block == 'trips':
                found['trips'][place].append((name, *values[:2]))
            elif len(values) >= 2:
                found[block].append((name, *values[:2]))
    return found


class Drawing:
    def __init__(self):
        self.parts, self.height = [], 0

    def text(self, x, y, what, size=12, anchor='start', colour=INK, weight='normal'):
        what = what.replace('&', '&amp;').replace('<', '&lt;').replace('>', '&gt;')
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}" '
                          f'font-weight="{weight}">{what}</text>')

    def line(self, x1, y1, x2, y2, colour, width=1):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
                          f'stroke-width="{width}"/>')

    def bar(self, x, y, width, height, colour):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>')

    def curve(self, points, colour):
        path = ' '.join(f'{x:.1f},{y:.1f}' for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for x, y in points:
            self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>')

    def whole(self):
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{self.height:.0f}" '
                f'viewBox="0 0 {WIDTH} {self.height:.0f}" font-family="sans-serif">')
        return '\n'.join([head, f'<rect width="{WIDTH}" height="{self.height:.0f}" fill="white"/>', *self.parts, '</svg>', ''])


class Scale:
    """A logarithmic axis of y, of whole decades around the values."""

    def __init__(self, values, top):
        values = [v for v in values if v > 0]
        self.low = math.floor(math.log10(min(values)))
        self.high = max(self.low + 1, math.ceil(math.log10(max(values))))
        self.top = top

    def y(self, value):
        if value <= 0:
            return self.top + PANEL_H
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.top + PANEL_H * (1 - min(1, max(0, share)))

    def draw(self, d, x, unit):
        for e in range(self.low, self.high + 1):
            y = self.y(10 ** e)
            d.line(x, y, x + PANEL_W, y, GRID)
            d.text(x - 6, y + 4, f'{10 ** e:g}', 11, 'end')
        d.text(x - 6, self.top - 8, unit, 11, 'end')


def bars(d, x, top, title, groups):
    """groups: [(label, [(median, p99, colour)])]"""
    d.text(x, top - 22, title, 13, weight='bold')
    scale = Scale([v for _, g in groups for m, p, _ in g for v in (m, p)], top)
    scale.draw(d, x, 'us')
    step = PANEL_W / len(groups)
    for i, (label, group) in enumerate(groups):
        width = step * 0.8 / len(group)
        for k, (median, p99, colour) in enumerate(group):
            at = x + i * step + step * 0.1 + k * width
            y = scale.y(median)
            d.bar(at, y, width * 0.85, top + PANEL_H - y, colour)
            middle = at + width * 0.425
            d.line(middle, y, middle, scale.y(p99), INK)
            d.line(middle - 4, scale.y(p99), middle + 4, scale.y(p99), INK)
            d.text(middle, top + PANEL_H - 4, f'{median:.3g}', 9, 'middle', 'white' if y < top + PANEL_H - 14 else INK)
        d.text(x + (i + 0.5) * step, top + PANEL_H + 16, label, 11, 'middle')
    d.line(x, top + PANEL_H, x + PANEL_W, top + PANEL_H, INK)


def size_name(size):
    return f'{size >> 20} MiB' if size >= 1 << 20 else f'{size >> 10} KiB'


def lines(d, x, top, title, rows):
    d.text(x, top - 22, title, 13, weight='bold')
    scale = Scale([v for _, *r in rows for v in r], top)
    scale.draw(d, x, 'GB/s')
    step = PANEL_W / len(rows)
    for column, colour in ((2, THEIRS), (1, OURS)):
        d.curve([(x + (i + 0.5) * step, scale.y(r[column])) for i, r in enumerate(rows)], colour)
    for i, row in enumerate(rows):
        if i % 2 == 0:
            d.text(x + (i + 0.5) * step, top + PANEL_H + 16, size_name(row[0]), 11, 'middle')
    d.line(x, top + PANEL_H, x + PANEL_W, top + PANEL_H, INK)


def colour_of(name):
    return OURS if name.startswith(('our', 'ours')) else THEIRS if name.startswith('provider') else OTHERS


def plot(found):
    d = Drawing()
    d.text(LEFT, 24, found['title'], 15, weight='bold')
    for x, (colour, what) in zip((LEFT, LEFT + 110, LEFT + 330), ((OURS, 'ours'), (THEIRS, 'the provider called directly'),
                                                            (OTHERS, 'shared memory, unix socket, TCP (echo)'))):
        d.bar(x, 36, 10, 10, colour)
        d.text(x + 15, 45, what, 11)
    panels = []
    if found['trips']:
        groups = [(place, [(m, p, colour_of(n)) for n, m, p in rows]) for place, rows in found['trips'].items() if rows]
        panels.append(lambda x, y: bars(d, x, y, 'round trip of 64 bytes (bar: median, mark: p99)', groups))
    rows = [(n, m, p) for n, m, p in found['issue'] if 'pause' not in n]
    launches = [(label, [(m, p, colour_of(n)) for n, m, p in some]) for label, some in
                (('issue', rows), ('launch and synchronise', found['launch'])) if some]
    if launches:
        panels.append(lambda x, y: bars(d, x, y, 'launches (bar: median, mark: p99)', launches))
    for (memory, way), rows in found['copies'].items():
        panels.append(lambda x, y, t=f'{memory} copies to the {way}', r=rows: lines(d, x, y, t, r))
    for i, panel in enumerate(panels):
        panel(LEFT + i % 2 * (PANEL_W + GAP_X), TOP + 40 + i // 2 * (PANEL_H + GAP_Y))
    d.height = TOP + 40 + (len(panels) + 1) // 2 * (PANEL_H + GAP_Y) - 30
    return d.whole() if panels else None


def of_file(path):
    with open(path, encoding='utf-8') as f:
        svg = plot(read(f.read()))
    if svg is None:
        raise ValueError(f'{path}: there is no table of `make bench` in it')
    return svg


def check(log, folder):
    """Prints a line for each plot; whether all are right."""
    failed = 0
    svgs = sorted(glob.glob(os.path.join(folder, '**', 'bench*.svg'), recursive=True))
    for path in [None, *svgs]:
        wrong = None
        try:
            if path is None:
                # All panels, each with its values, in well-formed XML.
                texts = [e.text for e in xml.etree.ElementTree.fromstring(of_file(log)).iter() if e.tag.endswith('text')]
                missing = [t for t in ('one processor', 'two processors', 'anywhere', 'issue', 'launch and synchronise',
                                       *(f'{m} copies to the {w}' for m in ('pageable', 'pinned') for w in ('device', 'host')))
                           if t not in texts]
                wrong = f'not in the plot: {missing}' if missing else None
            else:
                table = next(t for t in (path[:-4] + '.txt', path[:-4] + '.md') if os.path.exists(t))
                with open(path, encoding='utf-8') as f:
                    wrong = None if f.read() == of_file(table) else f'not that of {table}: plot.py {table} {path}'
        except (OSError, ValueError, StopIteration, xml.etree.ElementTree.ParseError) as e:
            wrong = str(e) or 'its table is not there'
        failed += wrong is not None
        print(f"{'FAIL' if wrong else 'ok -'} plot: {os.path.relpath(path, folder) if path else 'of a run'}{': ' + wrong if wrong else ''}")
    print(f'plot: {1 + len(svgs) - failed} passed, {failed} failed')
    return not failed


def main():
    if sys.argv[1:2] == ['--check'] and len(sys.argv) == 4:
        sys.exit(0 if check(*sys.argv[2:]) else 1)
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith('-'):
        print(__doc__.strip(), file=sys.stdout if sys.argv[1:] == ['--help'] else sys.stderr)
        sys.exit(0 if sys.argv[1:] == ['--help'] else 2)
    try:
        svg = of_file(sys.argv[1])
        if len(sys.argv) == 3:
            with open(sys.argv[2], 'w', encoding='utf-8') as f:
                f.write(svg)
        else:
            sys.stdout.write(svg)
    except (OSError, ValueError) as e:
        sys.exit(str(e))


if __name__ == '__main__':
    main()
