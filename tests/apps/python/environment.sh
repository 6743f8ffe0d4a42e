#!/bin/bash
# SPDX-License-Identifier: MIT
#
# environment.sh make|path [torch|jax|libraries|cudf|transformers]: the virtual environment of requirements.txt, or of
# requirements-NAME.txt, in the cache that clones share. For transformers: a folder of packages for another Python.
#
# make: creates a missing environment and prints its path. path: prints the path; exit status 1: it does not exist.
# Uses the distribution's Python with its venv module. pip accepts only wheels, each with its pinned SHA-256, and
# installs nothing into the system. Concurrent callers wait for each other.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../../scripts/lib.sh"
python=$(command -v python3) || die "python3 is needed"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
name=${2:-}
list=$here/requirements${name:+-$name}.txt
[ -e "$list" ] || die "there is no $list"
case $name in
torch) size="3 GB, 7 GB unpacked" ;;
jax) size="2.5 GB, 5 GB unpacked" ;;
libraries) size="2.5 GB, 4 GB unpacked" ;;
cudf) size="2 GB, 5 GB unpacked" ;;
transformers) size="30 MB" ;;
*) size="600 MB" ;;
esac
sum=$(sha256sum "$list" | cut -c 1-12)
# A list may name wheels for another Python,
target=$(sed -n 's/^# target: //p' "$list")
place=$CACHE/python-clients/${name:+$name-}${target:-$version}-$sum
# or for a single Python.
only=$(sed -n 's/^# python: //p' "$list")
if [ -n "$only" ] && [ "$only" != "$version" ]; then
    echo "requirements-$name.txt is for Python $only; this is $version" >&2
    [ "${1:-}" = make ]
    exit
fi

case ${1:-} in
path)
    [ -e "$place/.complete" ] || exit 1
    ;;
make)
    mkdir -p "$CACHE/python-clients"
    exec 9> "$CACHE/python-clients/.lock"
    flock 9
    # pip unpacks beside its downloads, for which /tmp may be too small.
    mkdir -p "$CACHE/python-clients/tmp"
    export TMPDIR=$CACHE/python-clients/tmp
    if [ ! -e "$place/.complete" ]; then
        rm -rf "$place"
        "$python" -m venv "$place" > /dev/null || die "no virtual environment can be made: install python3-venv"
        other=()
        [ -z "$target" ] || other=(--target "$place/packages" --python-version "$target" --implementation cp
            --platform manylinux2014_x86_64 --platform manylinux_2_28_x86_64)
        "$SCRIPTS/step.sh" python-clients "fetching Python packages with CUDA ($size)" "$place/bin/pip" install --no-deps \
            --only-binary :all: --require-hashes --no-input --cache-dir "$CACHE/pip" "${other[@]}" -r "$list" >&2 || exit 1
        touch "$place/.complete"
    fi
    ;;
*)
    sed -n '4,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
echo "$place"
