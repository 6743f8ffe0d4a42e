#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Rules that hold for the whole tree; `make lint` runs it, then the kernel's own checks.
#
#   licence   every file says its licence, the one of its folder
#   layers    a folder includes only what the design lets it depend on; inside the large parts: layers.txt,
#             and no circles between files beyond those in circles.txt
#   duplicates  no run of 40 or more equal lines between folders: duplicates.py
#   paths     what Markdown pages and shell scripts name is in the tree: lint_paths.py
#   comments  none follows another at once; the files that they name are there: lint_comments.py
#   words     no unfinished work, no paths of somebody's machine
#   results   each page of docs/results is in results.txt and in its README, and names its commit; a note, which is no breach, names
#             the pages whose code has changed since (results.py)
#   mutate    the tables of tests/runner/mutate name what is there; the patches of tests/system/sequences/mutants apply
#   format    C is as clang-format 14 writes it with .clang-format: scripts/format.sh
#   rules     no rule of a Makefile writes into a build folder that may not be there yet
#   holds     a member that points to an object says how it is held, where objects name each other: lint_holds.py
#   names     a static function's name says about what it is: lint_names.py
#   harden    the software GPU, the broker and the worker are built as scripts/harden.mk says (with --built)
#   shape     no more than 25 sources in a folder (tests counted apart), no trailing blanks, no tabs in C outside kernel/
# Prints each breach as FILE: RULE: what; exit status 1 when there is one. --built: what layers.txt names is built,
# so that its objects can be checked, too; without that a line says what was not.

set -u
. "$(dirname "$0")/lib.sh"
cd "$TOP" || exit 1
breaches=0

breach()
{
    echo "$1: $2: $3"
    breaches=$((breaches + 1))
}

mapfile -t files < <(git ls-files --cached --others --exclude-standard)

licence_of()
{
    case $1 in
    kernel/vgpu_drv/uapi/*) echo "Linux-syscall-note" ;;
    kernel/*) echo "GPL-2.0-only" ;;
    qemu-device/*) echo "GPL-2.0-or-later" ;;
    *) echo "MIT" ;;
    esac
}

for file in "${files[@]}"; do
    [ -s "$file" ] || continue
    case $file in
    *.md | *.tsv | *.json | *.png | *.patch | */Cargo.lock | .gitignore | debian/changelog | debian/source/format | debian/copyright | LICENSE* | docs/* | */generated/*.map) ;;
    *)
        head -n 3 "$file" | grep -q "SPDX-License-""Identifier:.*$(licence_of "$file")" ||
            breach "$file" licence "no SPDX line with $(licence_of "$file") in its first three lines"
        ;;
    esac
    case $file in
    scripts/lint.sh | *.png) continue ;;
    esac
    word=$(grep -nE '\b(TODO|FIXME|XXX|HACK)\b|/home/[a-z]+/|[" =]/root/' "$file" | head -n 1)
    [ -z "$word" ] || breach "$file" words "$word"
    blank=$(grep -nE '[ 	]+$' "$file" | head -n 1)
    case $file in *.md | *.tsv | *.patch | */generated/*) ;; *) [ -z "$blank" ] || breach "$file" shape "blanks at a line's end: ${blank%%:*}" ;; esac
    case $file in
    kernel/*.[ch])
        # checkpatch says so too, but only where the kernel's sources have been fetched
        tab=$(grep -nP ' \t' "$file" | head -n 1)
        [ -z "$tab" ] || breach "$file" shape "blank before a tab in line ${tab%%:*}"
        ;;
    */generated/*) ;;
    *.c | *.h | *.cu)
        tab=$(grep -nP '^ *\t' "$file" | head -n 1)
        [ -z "$tab" ] || breach "$file" shape "tab in line ${tab%%:*}"
        ;;
    esac
done

# Sources in a folder; layers.txt has the same limit for its parts, where it also counts what git does not know.
crowd=$(printf '%s\n' "${files[@]}" | awk -F/ '
    /\.(c|h|cu|py)$/ && !/(^|\/)(generated|testdata)\// {
        name = $NF; folder = substr($0, 1, length($0) - length(name) - 1)
        count[folder "," (name ~ /_(test|proof)\.[a-z]+$/ ? " tests" : " sources")]++
    }
    END { for (k in count) if (count[k] > 25) { split(k, p, ","); print p[1] ": shape: " count[k] p[2] " in one folder, at most 25" } }')
[ -z "$crowd" ] || { echo "$crowd"; breaches=$((breaches + $(wc -l <<< "$crowd"))); }

# layer FOLDER PATTERN: quoted includes of FOLDER whose file lies in another folder must match PATTERN.
layer()
{
    local file name found

    while IFS=: read -r file name; do
        [ -e "$(dirname "$file")/$name" ] && case $name in ../*) ;; *) continue ;; esac
        # Where in the tree the header lies: beside the file, in the folder, anywhere. One that is not ours does not count.
        found=$(realpath -m --relative-to=. "$(dirname "$file")/$name")
        while [ "${name#../}" != "$name" ]; do name=${name#../}; done
        [ -e "$found" ] || found=$(printf '%s\n' "${files[@]}" | grep -E "(^|/)$name$" | grep -E "^$1/" | head -n 1)
        [ -n "$found" ] || found=$(printf '%s\n' "${files[@]}" | grep -E "(^|/)$name$" | head -n 1)
        [ -n "$found" ] || continue
        [[ $file =~ _test\.c$ && $found =~ ^lib/testing/ ]] && continue
        [[ $found =~ ^($1/|$2) ]] || breach "$file" layers "includes $found"
    done < <(git grep -E --untracked '^[[:space:]]*#[[:space:]]*include[[:space:]]+"[^"]+"' -- "$1/*.c" "$1/*.h" |
             sed -E 's/^([^:]+):.*"([^"]+)".*/\1:\2/')
}
layer protocol 'protocol/'
layer kernel/vgpu_drv 'kernel/vgpu_drv/'
layer qemu-device 'kernel/vgpu_drv/uapi/'
layer lib 'lib/|protocol/|kernel/vgpu_drv/uapi/'
layer userspace/libcuda 'userspace/libcuda/|lib/|protocol/|kernel/vgpu_drv/uapi/'
layer userspace/libnvidia-ml 'protocol/|lib/(clock|json|link|poll)/'
layer userspace/vgpu 'userspace/vgpu/|userspace/libnvidia-ml/nvml_abi\.h|protocol/|lib/(clock|hash|json|link|poll|terminal)/'
layer host/backend 'protocol/|kernel/vgpu_drv/uapi/|lib/(attribute|btree|clock|driver|hash|json|poll|sha256|terminal)/'
layer host/backend/common 'kernel/vgpu_drv/uapi/|protocol/|lib/(clock|json|terminal)/'
layer host/backend/broker 'host/backend/common/|protocol/|kernel/vgpu_drv/uapi/|lib/(clock|hash|sha256)/'
layer host/backend/worker 'host/backend/common/|protocol/|kernel/vgpu_drv/uapi/|lib/(attribute|btree|clock|driver|hash|poll|sha256)/'
# Semaphores of file descriptors are the kernel's, not ours: one reader of them for all processes.
layer host/softgpu 'host/softgpu/|lib/(attribute|clock|extsem|driver|btree|hash|poll|bulk)/'

# The guest's side of the protocol names no function of the libraries that compile it.
while IFS=: read -r file line _; do
    breach "$file" layers "line $line names a function of libcuda or lib/; vgp_guest_steps.h has their prototypes"
done < <(git grep -nE --untracked '\b(vcu|lnk|cua)_[a-z_]+\(' -- 'protocol/vgp_guest_rt.h' 'protocol/*_test.c')

# Whether work is complete is asked in one place of the worker, where an error is no end.
while IFS=: read -r file line _; do
    breach "$file" completion "line $line asks the provider; core/provider.h has the questions"
done < <(grep -nHE '(->|\.)cu(EventQuery|StreamQuery|(Event|Stream|Ctx)Synchronize)(_ptsz)?\(' $(printf '%s\n' "${files[@]}" |
    grep '^host/backend/worker/.*\.c$' | grep -v '_test\.c$\|core/wrk_provider\.c$') /dev/null)

# A file or a socket that the environment names: not that of a user whose program has more rights than he has.
while IFS=: read -r file line _; do
    breach "$file" environment "line $line: secure_getenv() for what names a file or a socket"
done < <(grep -nHE '(^|[^_])getenv\("(VGPU_TRACE|VGPU_TRACE_JSON|VGPU_RECORD|VGPU_SOCKET|CUDA_LOG_FILE|XDG_RUNTIME_DIR)"' \
    $(printf '%s\n' "${files[@]}" | grep -E '^(lib|userspace/lib[a-z-]+)/.*\.c$' | grep -v '_test\.c$') /dev/null)

# Inside the large parts. What was not run is said and is no breach.
inner=$(scripts/layers.py "$@")
[ $? -le 1 ] || breach scripts/layers.txt layers "not understood"
[ -z "$inner" ] || { echo "$inner"; breaches=$((breaches + $(grep -vc '^not run: ' <<< "$inner"))); }

# What is built, with --built: hardened?
case ${1-} in
--built)
    soft=$(scripts/harden.sh "$BUILD")
    [ -z "$soft" ] || { echo "$soft"; breaches=$((breaches + $(grep -vc '^not run: ' <<< "$soft"))); }
    ;;
esac

# Code that two folders have copied from each other.
same=$(scripts/duplicates.py)
[ $? -le 1 ] || breach scripts/duplicates.py duplicates "did not run"
[ -z "$same" ] || { echo "$same"; breaches=$((breaches + $(wc -l <<< "$same"))); }

# Pages of results. Old ones are no breach.
pages=$(scripts/results.py check)
[ $? -le 1 ] || breach scripts/results.py results "did not run"
[ -z "$pages" ] || { echo "$pages"; breaches=$((breaches + $(wc -l <<< "$pages"))); }
scripts/results.py stale

# Paths in pages.
paths=$(scripts/lint_paths.py)
[ $? -le 1 ] || breach scripts/lint_paths.py paths "did not run"
[ -z "$paths" ] || { echo "$paths"; breaches=$((breaches + $(wc -l <<< "$paths"))); }

# Comments that lost what they were about.
comments=$(scripts/lint_comments.py)
[ $? -le 1 ] || breach scripts/lint_comments.py comments "did not run"
[ -z "$comments" ] || { echo "$comments"; breaches=$((breaches + $(wc -l <<< "$comments"))); }

# The suites that are asked about mutants.
tables=$(tests/runner/mutate/mutate.py --top . --check)
[ $? -le 1 ] || breach tests/runner/mutate/mutate.py mutate "did not run"
[ -z "$tables" ] || { echo "$tables"; breaches=$((breaches + $(wc -l <<< "$tables"))); }

# Faults that the random sequences must find.
for patch in tests/system/sequences/mutants/*.patch; do
    git apply --check "$patch" 2> /dev/null || breach "$patch" mutate "does not apply to this tree"
done

# Without the formatter it says so.
if command -v clang-format-14 > /dev/null; then
    unformatted=$(scripts/format.sh --check | grep ': format: ')
    [ -z "$unformatted" ] || { echo "$unformatted"; breaches=$((breaches + $(wc -l <<< "$unformatted"))); }
else
    echo "not run: format: clang-format-14 is not installed"
fi

rules=$(printf '%s\n' "${files[@]}" | grep -E '(^|/)Makefile$|\.mk$' | xargs scripts/lint_rules.py)
[ -z "$rules" ] || { echo "$rules"; breaches=$((breaches + $(wc -l <<< "$rules"))); }

# Pointers to objects, where objects name each other.
holds=$(printf '%s\n' "${files[@]}" | grep -E '^host/(softgpu/(graph|runtime|module|api)|backend/worker)/.*\.[ch]$' |
    grep -v '_test\.[ch]$\|/generated/' | xargs scripts/lint_holds.py)
[ -z "$holds" ] || { echo "$holds"; breaches=$((breaches + $(wc -l <<< "$holds"))); }

# Names of static functions.
names=$(printf '%s\n' "${files[@]}" | grep -E '^(host|kernel|lib|qemu-device|userspace)/.*\.c$' | xargs scripts/lint_names.py)
[ -z "$names" ] || { echo "$names"; breaches=$((breaches + $(wc -l <<< "$names"))); }

if [ $breaches = 0 ]; then
    echo "lint: ${#files[@]} files, no breach"
else
    echo "lint: $breaches breaches"
    exit 1
fi
