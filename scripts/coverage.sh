#!/bin/sh
# SPDX-License-Identifier: MIT
#
# coverage.sh BUILD CUDA_HOME [all]
#
# Lines, branches and functions that tests reach, by folder: docs/results/coverage.md. clang's counters, in files that
# processes map when they start: so sandboxed workers and killed processes count, too. Everything is built in
# BUILD/coverage. Unit and process tests and the conformance suite over the socket; with `all` also calls that fail. Not
# counted: native code of the software GPU, the guest driver (its KUnit suites are built by the kernel) and the QEMU device.
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
cuda=$2
dir=$1/coverage
all=${3:-}
jobs=${JOBS:-$(nproc)}
llvm=$(clang -print-prog-name=llvm-profdata) 2> /dev/null
[ -x "$llvm" ] || llvm=$(command -v llvm-profdata) || {
    echo "coverage: needs clang and llvm: apt-get install clang llvm" >&2
    exit 1
}
llvm=$(dirname "$(readlink -f "$llvm")")
mkdir -p "$dir/raw"
rm -f "$dir"/raw/*
cat > "$dir/cc" << EOF
#!/bin/sh
exec clang -fprofile-instr-generate=$dir/raw/%m%c.profraw -fcoverage-mapping -mllvm -runtime-counter-relocation \\
    -Wno-unused-command-line-argument "\$@"
EOF
chmod +x "$dir/cc"

# The outer make's settings are not for these builds.
run() { # FOLDER GOAL
    echo "  $1: $2"
    env -u MAKEFLAGS -u MFLAGS -u MAKEOVERRIDES make --no-print-directory -C "$top/$1" O="$dir/$1" CUDA_HOME="$cuda" \
        -j"$jobs" CC="$dir/cc" SG_EXEC_CC="$dir/cc" "$2" > "$dir/log" 2>&1 || {
        grep -E 'FAIL|error|Error' "$dir/log" | head -n 10
        failed="$failed $1"
    }
    tail -n 1 "$dir/log"
}
failed=
export CFLAGS='-O1 -g'
for part in host/softgpu host/backend userspace/libcuda userspace/libnvidia-ml userspace/vgpu; do
    run $part all
done
unset CFLAGS
rm -f "$dir"/raw/* # what the builds ran
for suite in lib host/backend host/softgpu userspace/libcuda userspace/libnvidia-ml userspace/vgpu; do
    CFLAGS='-O1 -g' run $suite check
done
# The programs of other suites need no counters: they run as they were built. Without the sandbox, in which the software
# GPU could not open its counters: it is loaded last.
serve() { # COMMAND...
    "$dir/host/backend/vgpu-backend" --listen "$dir/socket" --gpu soft --sandbox off --log "$dir/backend.log" &
    backend=$!
    i=0
    until [ -S "$dir/socket" ] || [ $i = 300 ]; do
        sleep 0.1
        i=$((i + 1))
    done
    echo "  $*"
    VGPU_SOCKET=$dir/socket LD_LIBRARY_PATH=$dir/userspace/libcuda "$@" > "$dir/log" 2>&1 || failed="$failed $1"
    tail -n 1 "$dir/log"
    kill $backend
    wait $backend
}
serve "$1/tests/conformance/driver/conform"
if [ -n "$all" ]; then
    echo "  tests/system/inject"
    /usr/bin/python3 "$top/tests/system/inject/walk.py" --top-build "$dir" --build "$1/tests/system/inject" > "$dir/log" 2>&1 ||
        failed="$failed tests/system/inject"
    tail -n 1 "$dir/log"
fi
"$llvm/llvm-profdata" merge --failure-mode=all -o "$dir/profile" "$dir"/raw/*.profraw || exit 1
set -- # programs and libraries with counters
for f in $(find "$dir" -type f -perm -u+x ! -name '*.py' ! -name '*.sh' ! -name cc); do
    if readelf -SW "$f" 2> /dev/null | grep -q __llvm_covmap; then
        set -- "$@" --object "$f"
    fi
done
"$llvm/llvm-cov" export --instr-profile="$dir/profile" --skip-expansions "$@" > "$dir/export.json" || exit 1
/usr/bin/python3 "$top/scripts/coverage.py" "$top" "$dir/export.json" "Unit and process tests, the conformance suite over the socket${all:+, calls that fail}." "$("$top/scripts/results.py" stamp)" > "$dir/coverage.md"
sed -n '/^|/p' "$dir/coverage.md" | head -n 60
echo "coverage: $dir/coverage.md has the table and the functions of trust boundaries that no test reaches"
[ -z "$failed" ] || echo "coverage: suites that failed here:$failed"
