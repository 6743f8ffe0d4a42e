#!/bin/sh
# SPDX-License-Identifier: MIT
# worker.sh TOP O BUILD CUDA SECONDS [OPTION...]: builds libcuda and backend of the tree TOP in BUILD and runs sequences as
# clients of a broker, with sanitizers in libcuda, broker, workers and the software GPU (built before). A sanitizer's report,
# a dead worker or a hanging client is a finding.
set -u
top=$1 out=$2 dir=$3 cuda=$4 seconds=$5
shift 5
san='-fsanitize=address,undefined -fno-sanitize=alignment -fno-sanitize-recover=undefined -fno-omit-frame-pointer'
mkdir -p "$dir"
build() { # FOLDER SETTING...
    folder=$1
    shift
    # The outer make's settings do not apply to these builds.
    env -u MAKEFLAGS -u MFLAGS -u MAKEOVERRIDES make --no-print-directory -C "$top/$folder" O="$dir/$(basename "$folder")" \
        CUDA_HOME="$cuda" VGPU_WERROR=0 -j"${JOBS:-$(nproc)}" "$@" all > "$dir/build.log" 2>&1 || {
        grep -E 'error|Error' "$dir/build.log" | head -n 5
        echo "FAIL: $folder is not built, see $dir/build.log"
        exit 1
    }
}
build host/backend CFLAGS='-O1 -g' HARDEN="$san" LDFLAGS='-fsanitize=address,undefined'
CFLAGS="-O1 -g $san" build userspace/libcuda LDFLAGS='-fsanitize=address,undefined'

work=$(mktemp -d "${TMPDIR:-/tmp}/sequences.XXXXXX") || exit 1
pid=
# shellcheck disable=SC2086 # no process: no argument
trap 'kill $pid 2> /dev/null; rm -rf "$work"' EXIT
rm -rf "$dir/reports"
mkdir -p "$dir/reports"
# Without sandbox and memory limit: a sanitizer needs files and terabytes of address space.
ASAN_OPTIONS=log_path=$dir/reports/report:detect_leaks=0:allocator_may_return_null=1 \
    UBSAN_OPTIONS=log_path=$dir/reports/report:print_stacktrace=1 \
    "$dir/backend/vgpu-backend" --listen "$work/s" --gpu soft --provider "$out/softgpu/libcuda-soft.so.1" \
    --sandbox off --client-memory 0 --start-rate 0 --log "$dir/broker.log" &
pid=$!
i=0
until [ -S "$work/s" ] || [ $i = 600 ] || ! kill -0 $pid 2> /dev/null; do
    sleep 0.1
    i=$((i + 1))
done
ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 LD_PRELOAD=$("${CC:-gcc}" -print-file-name=libasan.so) \
    VGPU_SOCKET=$work/s LD_LIBRARY_PATH=$dir/libcuda "$out/sequences" --counts --reports "$dir/reports" \
    --seconds "$seconds" "$@" > "$dir/sequences.log" 2>&1
status=$?
kill $pid 2> /dev/null
wait $pid 2> /dev/null
pid=
grep -aE '^FAIL|ERROR: AddressSanitizer|runtime error' "$dir/sequences.log" | head -n 10
cat "$dir"/reports/report.* 2> /dev/null | grep -E '^SUMMARY|runtime error' | sed 's/==[0-9]*==//' | sort | uniq -c | sort -rn | head -n 10
reports=$(find "$dir/reports" -type f | wc -l)
dead=$(grep -cE 'ended by signal|ended with status|is silent' "$dir/broker.log")
[ "$dead" = 0 ] || grep -m 3 -E 'ended by signal|ended with status|is silent' "$dir/broker.log"
tail -n 1 "$dir/sequences.log"
echo "through a worker: $reports reports, $dead workers that died (logs: $dir)"
[ $status = 0 ] && [ "$reports" = 0 ] && [ "$dead" = 0 ]
