#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Formats C sources with clang-format 14 and .clang-format.
#
#   format.sh [--check] [FILE...]
#
# Without FILE: all that git knows. kernel/ has the kernel's style (checkpatch), qemu-device/ QEMU's; they
# are left alone. --check changes nothing: it lists the files that would change with the number of their
# lines, and ends with status 1 when there is one.

set -u
. "$(dirname "$0")/lib.sh"
here=$PWD
cd "$TOP" || exit 1

check=0
[ "${1:-}" != --check ] || { check=1; shift; }
case ${1:-} in
-*) sed -n '6,10s/^# \{0,1\}//p' "$SCRIPTS/format.sh" >&2; exit 2 ;;
esac
format=$(command -v clang-format-14) || die "clang-format-14 is not installed: apt-get install clang-format-14"
mapfile -t files < <(
    if [ $# -gt 0 ]; then
        (cd "$here" && realpath --relative-to="$TOP" "$@")
    else
        git ls-files --cached --others --exclude-standard '*.c' '*.h'
    fi | grep -vE '^(kernel|qemu-device)/')

if [ $check = 0 ]; then
    printf '%s\0' "${files[@]}" | xargs -0 -r -n 40 "$format" -i
    exit
fi
changed=0 lines=0
for file in "${files[@]}"; do
    n=$("$format" "$file" | diff - "$file" | grep -c '^>')
    if [ "$n" != 0 ]; then
        echo "$file: format: $n lines"
        changed=$((changed + 1)) lines=$((lines + n))
    fi
done
echo "format: $changed of ${#files[@]} files, $lines lines would change"
[ $changed = 0 ]
