#!/bin/sh
# SPDX-License-Identifier: MIT
# generate.sh FOLDER: writes what protocol/gen makes of protocol/cuda_calls.def there, if a description or the generator is
# newer; a file that would be the same keeps its time. Several makes may do it at once.
set -eu
out=$1
protocol=$(cd "$(dirname "$0")/../protocol" && pwd)
entries=$protocol/../host/softgpu/api/entries.def
stamp=$out/.done
current() {
    [ -e "$stamp" ] && [ -z "$(find "$protocol/cuda_calls.def" "$protocol/cuda_symbols.tsv" "$protocol/gen" "$entries" -type f -newer "$stamp" \
        ! -name '*.pyc' | head -n 1)" ]
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
"${PYTHON:-/usr/bin/python3}" "$protocol/gen/emit.py" "$fresh" "$fresh/docs" "$fresh/softgpu" "$entries" >&2
rm -r "$fresh/docs"
(cd "$fresh" && find . -type f ! -name .done) | while read -r file; do
    cmp -s "$fresh/$file" "$out/$file" || mv "$fresh/$file" "$out/$file"
done
mv "$fresh/.done" "$stamp"
