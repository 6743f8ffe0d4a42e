#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Fetches NVIDIA's cuda-samples into the cache, at the commit of docs/results/cuda-samples.md, and checks them. Run by
# `make test-all`.
#
#   fetch.sh [MAKE-ARGUMENT...]       for example SAMPLES=vectorAdd
#
# Environment: CUDA_SAMPLES, an existing checkout (any commit); VGPU_SAMPLES_URL and
# VGPU_SAMPLES_COMMIT, another repository and commit.
# An unreachable repository gives "not run" and success.

set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../../scripts/lib.sh"
COMMIT=${VGPU_SAMPLES_COMMIT:-c94ff366aed18c797b8a85dfaac7817b0228b420}
URL=${VGPU_SAMPLES_URL:-https://github.com/NVIDIA/cuda-samples}
place=$CACHE/cuda-samples/$COMMIT

not_run()
{
    echo "not run: samples: $*"
    echo "samples: 0 passed, 0 failed, 1 skipped"
    exit 0
}

# checkout FOLDER: checks out the commit, without history.
checkout()
{
    git init -q "$1" && git -C "$1" fetch -q --depth 1 "$URL" $COMMIT && git -C "$1" checkout -q FETCH_HEAD
}

if [ -z "${CUDA_SAMPLES:-}" ]; then
    if [ ! -e "$place/test_args.json" ]; then
        mkdir -p "${place%/*}"
        new=$(mktemp -d "${place%/*}/new.XXXXXX") || not_run "$CACHE cannot be written to"
        trap 'rm -rf "$new"' EXIT
        why=$(GIT_TERMINAL_PROMPT=0 checkout "$new" 2>&1) ||
            not_run "commit ${COMMIT:0:7} cannot be fetched from $URL: $(tail -n 1 <<< "$why")"
        rm -rf "$place"
        mv -T "$new" "$place" || not_run "$CACHE cannot be written to"
    fi
    CUDA_SAMPLES=$place
fi
say "cuda-samples in $CUDA_SAMPLES"
exec make --no-print-directory -C "$here" check CUDA_SAMPLES="$CUDA_SAMPLES" "$@"
