#!/bin/sh
# SPDX-License-Identifier: MIT
# generate.sh FOLDER TABLE --entry FILE --worker FILE: writes what protocol/gen makes of protocol/cuda_calls.def, these files and the
# software GPU's table there, if a description or the generator is newer; a file that would be the same keeps its time. Several
# makes may do it at once.
set -eu
out=$1
entries=$2
shift 2
protocol=$(cd "$(dirname "$0")/../protocol" && pwd)
stamp=$out/.done
description="$protocol/cuda_calls.def $protocol/cuda_symbols.tsv $protocol/gen $entries"
for word; do
    case $word in --*) ;; *) description="$description $word" ;; esac
done
# A file that is not there is for the generator to refuse.
current() {
    [ -e "$stamp" ] || return 1
    for file in $description; do
        [ -e "$file" ] || return 1
    done
    [ -z "$(find $description -type f -newer "$stamp" ! -name '*.pyc' | head -n 1)" ]
}
current && exit 0
mkdir -p "$out/softgpu"
exec 9> "$out/.lock"
flock 9
current && exit 0
fresh=$(mktemp -d "$out/.fresh.XXXXXX")
trap 'rm -rf "$fresh"' EXIT
mkdir "$fresh/softgpu" "$fresh/docs"
touch "$fresh/.done"
"${PYTHON:-/usr/bin/python3}" "$protocol/gen/emit.py" "$@" "$fresh" "$fresh/docs" "$fresh/softgpu" "$entries" >&2
rm -r "$fresh/docs"
(cd "$fresh" && find . -type f ! -name .done) | while read -r file; do
    cmp -s "$fresh/$file" "$out/$file" || mv "$fresh/$file" "$out/$file"
done
mv "$fresh/.done" "$stamp"
