#!/bin/sh
# SPDX-License-Identifier: MIT
#
# san.sh BUILD CUDA_HOME SANITIZERS [CASE...]
#
# The conformance suite over the socket with sanitizers (address,undefined or thread, as -fsanitize= takes them) in the
# guest's libcuda, the backend and the software GPU, built in BUILD/san-SANITIZERS. A report of a sanitizer anywhere
# is a failure. CASE: cases of the suite, as conform takes them; without one, all.
#
# BUSY=1: while a case runs, other threads of its process keep streams, events, graphs and host functions busy
# (tests/conformance/driver/busy.c), so that a race of a case with work under way is seen. With thread by default; BUSY=0: not.
#
# Not instrumented: the handlers of instructions (exec/ops) and compiled kernels, as a guest's kernel may race
# and address what it likes; tests/ptx/fuzz runs them under AddressSanitizer. Without the sandbox and the
# limit of memory, since a sanitizer needs files and terabytes of addresses. san.supp has what is left out, with reasons.
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
cuda=$2
san=$3
dir=$1/san-$(echo "$san" | tr ',' '-')
shift 3
jobs=${JOBS:-$(nproc)}
flags="-fsanitize=$san -fno-omit-frame-pointer"
# Slots and packed structures are read as several types, on purpose.
case $san in
*undefined*) flags="$flags -fno-sanitize=alignment" ;;
esac
case $san in
*thread*) flags="$flags -I$top/scripts/san_thread" ;;
esac
mkdir -p "$dir"

build() {
    folder=$1
    goal=$2
    shift 2
    echo "  building $folder with -fsanitize=$san"
    # The outer make's settings are not for these builds, nor are warnings that only instrumented code has (fences, formats).
    env -u VGPU_WERROR -u MAKEFLAGS -u MFLAGS -u MAKEOVERRIDES make --no-print-directory -C "$top/$folder" O="$dir/$folder" CUDA_HOME="$cuda" -j"$jobs" \
        "$@" "$goal" > "$dir/build.log" 2>&1 || {
        grep -E 'error:|\*\*\*' "$dir/build.log" | head -n 10
        echo "FAIL: $folder is not built; $dir/build.log"
        echo "san: 0 passed, 1 failed, 0 skipped"
        exit 1
    }
}
build host/softgpu all CFLAGS='-O1 -g' EXTRA_CFLAGS="$flags"
build host/backend all CFLAGS='-O1 -g' HARDEN="$flags" LDFLAGS="-fsanitize=$san"
CFLAGS="-O1 -g $flags" build userspace/libcuda all LDFLAGS="-fsanitize=$san"
build tests/conformance/driver "$dir/tests/conformance/driver/conform" CC="${CC:-gcc} -fsanitize=$san"

work=$(mktemp -d "${TMPDIR:-/tmp}/san.XXXXXX") || exit 1
pid=
# shellcheck disable=SC2086 # no process: no argument
trap 'kill $pid 2> /dev/null; rm -rf "$work"' EXIT
common="log_path=$work/report:print_stacktrace=1:suppressions=$top/scripts/san.supp"
export ASAN_OPTIONS="log_path=$work/report:detect_leaks=0:allocator_may_return_null=1"
export UBSAN_OPTIONS="log_path=$work/report:print_stacktrace=1"
export TSAN_OPTIONS="$common:second_deadlock_stack=1:history_size=5:exitcode=0"
# What asks for memory at an address that ThreadSanitizer has for itself (managed memory, reserved ranges), or for what
# malloc of the C library maps.
skipped=0
fixed='ctx_end_without|mem_managed|pointer_sync|ipc_memory_errors|share_physical|advice_.*|trap_managed_pointers|external_memory|register_malloc|report_pointer_attributes|revoke_managed_.*|effect_features|gnode_memset|pointer_bytes'
case $#:$san in
0:*thread*)
    LD_LIBRARY_PATH=$dir/userspace/libcuda "$dir/tests/conformance/driver/conform" --list > "$work/cases" 2> /dev/null
    for name in $(grep -xE "$fixed" "$work/cases"); do
        echo "not run: san: $name: ThreadSanitizer has the addresses, or the allocator, that it needs"
        skipped=$((skipped + 1))
    done
    # shellcheck disable=SC2046 # names of cases
    set -- $(grep -vxE "$fixed" "$work/cases")
    ;;
esac
started=$(date +%s)
# ThreadSanitizer of gcc 12 needs addresses that are not randomised by more than 28 bits.
setarch -R "$dir/host/backend/vgpu-backend" --listen "$work/s" --gpu soft --provider "$dir/host/softgpu/libcuda-soft.so.1" \
    --sandbox off --client-memory 0 --log "$work/backend.log" &
pid=$!
i=0
until [ -S "$work/s" ] || [ $i = 600 ] || ! kill -0 $pid 2> /dev/null; do
    sleep 0.1
    i=$((i + 1))
done
case ${BUSY:-$san} in
1 | *thread*)
    export CONFORM_BUSY=1
    echo "  other threads keep streams busy"
    ;;
esac
VGPU_SOCKET=$work/s LD_LIBRARY_PATH=$dir/userspace/libcuda CONFORM_LIMIT=${CONFORM_LIMIT:-600} \
    setarch -R "$dir/tests/conformance/driver/conform" "$@" > "$dir/conform.out" 2> "$dir/conform.err"
status=$?
kill $pid 2> /dev/null
wait $pid 2> /dev/null
pid=
rm -rf "$dir/reports"
mkdir -p "$dir/reports"
cp "$work"/report.* "$work/backend.log" "$dir/reports/" 2> /dev/null
tail -n 1 "$dir/conform.out"
grep -E ' FAIL( |$)' "$dir/conform.out" | head -n 20
cat "$dir"/reports/report.* 2> /dev/null | grep -E '^SUMMARY|runtime error' | sed 's/==[0-9]*==//' | sort | uniq -c | sort -rn | head -n 40
reports=$(cat "$dir"/reports/report.* 2> /dev/null | grep -cE '^SUMMARY|runtime error')
echo "$san: $(($(date +%s) - started)) s, $reports reports, in $dir/reports"
if [ $status = 0 ] && [ "$reports" = 0 ]; then
    echo "san: 1 passed, 0 failed, $skipped skipped"
else
    echo "FAIL: san $san: conform ended with $status, $reports reports"
    echo "san: 0 passed, 1 failed, $skipped skipped"
    exit 1
fi
