#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""layers.py [--built] [--record] [--circles] [--top DIR] [TABLE]: the order of the floors inside the large parts.

TABLE (default: layers.txt beside this script) has, for each part, the folders of which it is made, lowest first:

    part FOLDER OBJECTS         a part, and where its objects lie, both relative to the top of the tree
    floor NAME [HEADER...]      a folder of the part with all below it; the headers, relative to NAME, that other
                                floors may include (default: NAME.h)
    only NAME PATTERN           symbols that match PATTERN (a whole regular expression) are defined in this floor only
    variants WORD...            SOURCE_WORD.o is an object of SOURCE.c, too
    also NAME OBJECT...         objects of sources outside of the part (patterns, relative to OBJECTS) that count as the
                                floor's; a floor may consist of nothing else
    limit folder N              so many sources in a folder, and so many tests

Checked of each part:
    floors    every source lies in a floor
    includes  a file includes files of its own floor and public headers of lower floors
    symbols   what an object uses is defined in an object of its own or of a lower floor, and what only one floor may
              define is not defined elsewhere (nm)
    circles   files of one floor do not use each other's symbols in a circle, directly or through further files (nm)
    folders   no more sources in a folder than the limit, and no more tests

circles.txt beside TABLE records the circles that are still to be dissolved, a line each: PART FILE FILE... It only
shrinks: a circle that is not within a recorded one is a breach, and so is a recorded one that is now smaller or gone.
--record writes what is left of the recorded circles; it adds none, except where there is no such file yet. --circles
prints each circle with the symbols that hold it together, and checks nothing.

Unit tests and proofs (NAME_test.c, NAME_proof.c, their headers) may use all of their part; nothing is built from
them that others use. What lies in a folder testdata is not looked at. Symbols can only be checked of what is built: without objects, a line says that it was not
done; with --built that is a breach. Prints FILE: layers: what for each breach; exit status 1 when there is one, 2 when
the table is wrong.
"""
import collections
import fnmatch
import os
import re
import subprocess
import sys

SOURCE = re.compile(r"\.(c|h|py)$")
TEST = re.compile(r"_(test|proof)\.[ch]$")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.M)
DEFINED = "TDBRVWGSC"


class Part:
    def __init__(self, folder, objects):
        self.folder, self.objects = folder, objects
        self.floors = []   # names, lowest first
        self.public = {}   # floor: set of headers, relative to the part
        self.only = []     # (floor, compiled pattern)
        self.variants = []
        self.also = []     # (floor, pattern of objects)

    def floor_of(self, path):
        """The index of the floor of a path relative to the part; None: it is in none."""
        best = None
        for i, name in enumerate(self.floors):
            if path.startswith(name + "/") and (best is None or len(name) > len(self.floors[best])):
                best = i
        return best

    def floor_also(self, obj):
        """The index of the floor that an object of a source outside of the part counts as; None: of none."""
        for floor, pattern in self.also:
            if fnmatch.fnmatchcase(obj, pattern):
                return self.floors.index(floor)
        return None


def read_table(name):
    parts, limits = [], {"folder": 25}
    with open(name, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            if words[0] == "part" and len(words) == 3:
                parts.append(Part(words[1].rstrip("/"), words[2].rstrip("/")))
            elif words[0] == "floor" and len(words) >= 2 and parts and words[1] not in parts[-1].floors:
                part, floor = parts[-1], words[1]
                part.floors.append(floor)
                headers = words[2:] or [os.path.basename(floor) + ".h"]
                part.public[floor] = {floor + "/" + h for h in headers}
            elif words[0] == "only" and len(words) == 3 and parts and words[1] in parts[-1].floors:
                parts[-1].only.append((words[1], re.compile(words[2])))
            elif words[0] == "variants" and len(words) >= 2 and parts:
                parts[-1].variants += words[1:]
            elif words[0] == "also" and len(words) >= 3 and parts and words[1] in parts[-1].floors:
                parts[-1].also += [(words[1], pattern) for pattern in words[2:]]
            elif words[0] == "limit" and len(words) == 3 and words[1] in limits and words[2].isdigit():
                limits[words[1]] = int(words[2])
            else:
                print(f"{name}:{number}: not understood: {line.strip()}", file=sys.stderr)
                sys.exit(2)
    return parts, limits


def sources_of(top, part):
    """Paths relative to the part of its sources."""
    found = []
    for root, folders, files in os.walk(os.path.join(top, part.folder)):
        folders[:] = sorted(d for d in folders if not d.startswith(".") and d not in ("__pycache__", "testdata"))
        for name in sorted(files):
            if SOURCE.search(name):
                found.append(os.path.relpath(os.path.join(root, name), os.path.join(top, part.folder)))
    return found


def check_shape(part, sources, limits):
    count = collections.Counter()
    for path in sources:
        if not path.endswith(".py"):
            if part.floor_of(path) is None:
                yield path, "is in no floor of the table"
            count[os.path.dirname(path), bool(TEST.search(path))] += 1
    for (folder, tests), n in sorted(count.items()):
        if n > limits["folder"]:
            yield folder or ".", f"{n} {'tests' if tests else 'sources'} in one folder, at most {limits['folder']}"


def included(path, name, part, known):
    """What a quoted include means: beside the file, from the top of the part, or, by an -I of a folder, somewhere in
    it: then of several the one in the highest floor, so that none is overlooked. None: it is not of the part."""
    for found in (os.path.normpath(os.path.join(os.path.dirname(path), name)), os.path.normpath(name)):
        if found in known:
            return found
    named = [s for s in known if s.endswith("/" + name)]
    return max(named, key=lambda s: (part.floor_of(s) or 0, s), default=None)


def check_includes(part, top, sources):
    known = set(sources)
    for path in sources:
        own = part.floor_of(path)
        if own is None or path.endswith(".py"):
            continue
        with open(os.path.join(top, part.folder, path), encoding="utf-8", errors="replace") as f:
            names = INCLUDE.findall(f.read())
        for name in names:
            found = included(path, name, part, known)
            if found is None or TEST.search(path):
                continue
            theirs = part.floor_of(found)
            if theirs is None or theirs == own:
                continue
            if theirs > own:
                yield path, f"includes {found}: {part.floors[theirs]} is above {part.floors[own]}"
            elif found not in part.public[part.floors[theirs]]:
                yield path, f"includes {found}, which is not a public header of {part.floors[theirs]}"


def source_of(obj, part, sources, by_name):
    """The source of an object: where it lies the same way, else by its name alone; None: it is of none of them."""
    stem = obj[:-2]
    for s in (stem, *(stem[:-len(v) - 1] for v in part.variants if stem.endswith("_" + v))):
        if s + ".c" in sources:
            return s + ".c"
        same = by_name.get(s + ".c", [])
        if "/" not in obj and len(same) == 1:
            return same[0]
    return None


def objects_of(part, top, sources):
    """{object: source} of what is built. An object that counts as a floor's stands for its own source."""
    found, known, by_name = {}, set(sources), collections.defaultdict(list)
    for path in sources:
        by_name[os.path.basename(path)].append(path)
    base = os.path.join(top, part.objects)
    for root, _, files in os.walk(base):
        for name in files:
            if name.endswith(".o"):
                obj = os.path.relpath(os.path.join(root, name), base)
                source = source_of(obj, part, known, by_name)
                if part.floor_also(obj) is not None:
                    found[obj] = obj
                elif source and not TEST.search(source):
                    found[obj] = source
    lying_so = {s for o, s in found.items() if "/" in o}
    # What has the name of such a source, without a folder, is made of a source outside of the part.
    return {o: s for o, s in found.items() if "/" in o or s not in lying_so or s == o[:-2] + ".c"}


def symbols(files):
    """{file: (defined, undefined)}; symbols that the linker may do without count as defined only."""
    out = {f: (set(), set()) for f in files}
    if not files:
        return out
    text = subprocess.run(["nm", "-A", "-P", "--", *files], check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        name, rest = line.split(": ", 1)
        words = rest.split()
        if words[1] == "U":
            out[name][1].add(words[0])
        elif words[1] in DEFINED:
            out[name][0].add(words[0])
    return out


class Built:
    """What the objects of a part define and use."""
    def __init__(self, part, top, sources):
        self.objects = objects_of(part, top, sources)
        self.base = os.path.join(top, part.objects)
        self.table = symbols([os.path.join(self.base, o) for o in sorted(self.objects)])
        self.where = collections.defaultdict(set)  # symbol: sources that define it
        for obj, source in self.objects.items():
            for name in self.table[os.path.join(self.base, obj)][0]:
                self.where[name].add(source)

    def uses(self):
        """(source, symbol) for each object and what it does not define itself."""
        for obj, source in sorted(self.objects.items()):
            for name in sorted(self.table[os.path.join(self.base, obj)][1]):
                yield source, name


def floor_of_object(part, source):
    """The index of the floor of a source, or of an object that stands for its own; None: it is in none."""
    also = part.floor_also(source)
    return part.floor_of(source) if also is None else also


def check_symbols(part, built):
    where = built.where
    for floor, pattern in part.only:
        for name in sorted(where):
            for source in sorted(where[name]) if pattern.fullmatch(name) else ():
                if floor_of_object(part, source) != part.floors.index(floor):
                    yield source, f"defines {name}, which only {floor} may"
    seen = set()
    for source, name in built.uses():
        own = floor_of_object(part, source)
        theirs = {s: floor_of_object(part, s) for s in where.get(name, ())}
        floors = [f for f in theirs.values() if f is not None]
        if own is None or not floors or min(floors) <= own or (source, name) in seen:
            continue
        seen.add((source, name))
        other = min(theirs, key=lambda s: theirs[s])
        yield source, f"uses {name} of {other}: {part.floors[theirs[other]]} is above {part.floors[own]}"


def uses_in_floors(part, built, foreign):
    """{source: {source of the same floor: symbols of it that the first uses}}, without the objects under the folders
    `foreign`: another part of the table checks those."""
    def skipped(source):
        path = os.path.join(part.objects, source)
        return part.floor_also(source) is not None and any(path.startswith(f + "/") for f in foreign)

    uses = collections.defaultdict(lambda: collections.defaultdict(set))
    for source, name in built.uses():
        own = floor_of_object(part, source)
        theirs = built.where.get(name, ())
        if own is None or source in theirs or skipped(source):
            continue
        for other in theirs:
            if floor_of_object(part, other) == own and not skipped(other):
                uses[source][other].add(name)
    return uses


def circles_of(uses):
    """The circles: sets of sources, each of which uses each other, directly or through others of the set."""
    reached = {}
    for source in uses:
        found, left = set(), list(uses[source])
        while left:
            other = left.pop()
            if other not in found:
                found.add(other)
                left += uses.get(other, ())
        reached[source] = found
    return sorted({frozenset(s for s in reached[source] if source in reached.get(s, ()))
                   for source in uses if source in reached[source]}, key=sorted)


def shortest_way_round(uses, circle, first):
    """The shortest way from a source of a circle back to it, as text."""
    before, left = {}, [first]
    for source in left:
        for other in sorted(uses[source]):
            if other in circle and other not in before:
                before[other] = source
                left.append(other)
    way, source = [], first
    while not way or source != first:
        user = before[source]
        way.insert(0, f"{user} uses {min(uses[user][source])} of {source}")
        source = user
    return ", ".join(way)


def check_circles(part, uses, circles, recorded, record):
    """recorded: the sets of files that the record has for the part."""
    for circle in circles:
        if circle in recorded:
            continue
        if any(circle < r for r in recorded):
            yield min(circle), f"its circle of {len(circle)} files is smaller than recorded: layers.py --record writes that"
            continue
        near = max(recorded, key=lambda r: len(r & circle), default=frozenset())
        new = sorted(circle - near if circle & near else circle)
        kind = f"makes a recorded circle larger, with {len(new)} new files" if circle & near else "is in a new circle"
        yield new[0], f"{kind}: {shortest_way_round(uses, circle, new[0])}; pass what is needed as an argument, or move it"
    for gone in recorded:
        if not any(circle <= gone for circle in circles):
            yield min(gone), f"its circle in {record} is no more: layers.py --record removes the line"


def read_record(name):
    """{part: [sets of files]}; None: there is no record."""
    if not os.path.exists(name):
        return None
    found = collections.defaultdict(list)
    with open(name, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            words = line.split("#")[0].split()
            if len(words) in (1, 2):
                print(f"{name}:{number}: not understood: {line.strip()}", file=sys.stderr)
                sys.exit(2)
            if words:
                found[words[0]].append(frozenset(words[1:]))
    return found


def what_is_left(circles, recorded):
    """What the circles leave of the recorded ones. One that became larger stays recorded as it was."""
    within = {c for c in circles if any(c <= r for r in recorded)}
    return [*within, *(r for r in recorded if r not in within and any(r & c for c in circles if c not in within))]


def write_record(name, circles):
    with open(name, "w", encoding="utf-8") as f:
        f.write("# SPDX-License-Identifier: MIT\n"
                "# Circles between the files of a floor that are still to be dissolved: PART FILE FILE..., a circle a line.\n"
                "# It only shrinks: scripts/layers.py checks it, and writes it with --record.\n")
        for line in sorted(" ".join([part, *sorted(c)]) for part, sets in circles.items() for c in sets):
            f.write(line + "\n")


def not_built(built, sources):
    """Sources that have no object."""
    done = set(built.objects.values())
    return [s for s in sources if s.endswith(".c") and not TEST.search(s) and s not in done]


def print_circles(part, uses, circles):
    for circle in circles:
        print(f"{part.folder}: a circle of {len(circle)} files")
        for source in sorted(circle):
            for other in sorted(set(uses[source]) & circle):
                print(f"    {source} -> {other}: {' '.join(sorted(uses[source][other]))}")


def main(args):
    flags, top = set(), None
    while args and args[0].startswith("--"):
        if args[0] in ("--built", "--record", "--circles"):
            flags.add(args[0])
        elif args[0] == "--top" and len(args) > 1:
            top = args.pop(1)
        else:
            print(__doc__.split("\n", maxsplit=1)[0], file=sys.stderr)
            return 2
        args.pop(0)
    here = os.path.dirname(os.path.abspath(__file__))
    top = top or os.path.dirname(here)
    table = args[0] if args else os.path.join(here, "layers.txt")
    record = os.path.join(os.path.dirname(table), "circles.txt")
    parts, limits = read_table(table)
    recorded = read_record(record)
    left = collections.defaultdict(list, recorded or {})
    breaches = 0

    def breach(folder, path, what):
        nonlocal breaches
        print(f"{os.path.join(folder, path) if path else folder}: layers: {what}")
        breaches += 1

    for folder in sorted(set(left) - {part.folder for part in parts}):
        breach(os.path.basename(record), "", f"there is no part {folder}")
    for part in parts:
        sources = sources_of(top, part)
        if not sources:
            breach(part.folder, "", "there is no such part")
        built = Built(part, top, sources)
        missing = not_built(built, sources)
        if "--circles" not in flags:
            for path, what in [*check_shape(part, sources, limits), *check_includes(part, top, sources)]:
                breach(part.folder, path, what)
        if missing and "--built" in flags:
            for path in missing:
                breach(part.folder, path, "is not built: its symbols cannot be checked")
        elif missing:
            print(f"not run: layers: symbols of {part.folder}: {len(missing)} sources are not built")
        if missing:
            continue
        uses = uses_in_floors(part, built, [p.objects for p in parts if p.objects.startswith(part.objects + "/")])
        circles = circles_of(uses)
        if "--circles" in flags:
            print_circles(part, uses, circles)
            continue
        known = left[part.folder]
        if "--record" in flags:
            known = left[part.folder] = circles if recorded is None else what_is_left(circles, known)
        for path, what in [*check_symbols(part, built), *check_circles(part, uses, circles, known, os.path.basename(record))]:
            breach(part.folder, path, what)
    if "--record" in flags:
        write_record(record, left)
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
