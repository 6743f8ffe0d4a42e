#!/bin/bash
# SPDX-License-Identifier: MIT
#
# fetch.sh PACKAGE==VERSION SHA256 BYTES: prints the folder of an unpacked package of NVIDIA's from the Python
# package index.
#
# Packages stay in the cache that clones share (VGPU_CACHE, XDG_CACHE_HOME, ~/.cache) and are fetched only once. No
# package's scripts run, nothing is installed. Source and verification: scripts/pypi.py. Exit status 1 and a reason
# on the last line of standard error: not available. Concurrent callers wait for each other.
set -u
spec=$1 hash=$2 bytes=$3
export LC_ALL=C
pypi=$(cd "$(dirname "$0")/../../../scripts" && pwd)/pypi.py
cache=${VGPU_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/vgpu-cuda}/python
place=$cache/${spec/==/-}

die() { echo "$*" >&2; exit 1; }

mkdir -p "$cache" || die "cannot make $cache"
exec 9> "$cache/.lock" || die "cannot write to $cache"
flock 9
if [ "$(cat "$place/.sha256" 2> /dev/null)" = "$hash" ]; then
    echo "$place"
    exit 0
fi
python=/usr/bin/python3
[ -x $python ] || python=python3
# Time without an answer after which the index counts as unreachable; short, since there are many packages.
export PIP_DEFAULT_TIMEOUT=${PIP_DEFAULT_TIMEOUT:-15}
wheel=$($python -B "$pypi" "${spec%%==*}" "$hash" "$bytes" "$cache") || exit 1
new=$(mktemp -d "$cache/new.XXXXXX") || die "cannot write to $cache"
trap 'rm -rf "$new"' EXIT
$python -B "$pypi" --unpack "$wheel" "$new/tree" || die "$spec: the package cannot be unpacked"
echo "$hash" > "$new/tree/.sha256"
rm -rf "$place" "$wheel"
mv "$new/tree" "$place"
echo "$place"
