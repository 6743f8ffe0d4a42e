#!/bin/sh
# SPDX-License-Identifier: MIT
# coverage.sh TOP O SECONDS CUDA: prints the share of lines that the sequences reach, in process and through a worker, in the
# folders of graphs, captures and streams. clang's counters as in scripts/coverage.sh, which include killed processes.
set -u
top=$1 out=$2 seconds=$3 cuda=$4
dir=$out/coverage
llvm=$(clang -print-prog-name=llvm-profdata) 2> /dev/null
[ -x "$llvm" ] || llvm=$(command -v llvm-profdata) || {
    echo "FAIL: coverage needs clang and llvm: apt-get install clang llvm"
    exit 1
}
llvm=$(dirname "$(readlink -f "$llvm")")
mkdir -p "$dir/raw"
cat > "$dir/cc" << EOF
#!/bin/sh
exec clang -fprofile-instr-generate=$dir/raw/%m%c.profraw -fcoverage-mapping -mllvm -runtime-counter-relocation \\
    -Wno-unused-command-line-argument "\$@"
EOF
chmod +x "$dir/cc"
build() { # FOLDER SETTING...
    folder=$1
    shift
    # The outer make's settings do not apply to these builds.
    env -u MAKEFLAGS -u MFLAGS -u MAKEOVERRIDES CFLAGS='-O1 -g' make --no-print-directory -C "$top/$folder" O="$dir/$folder" \
        CUDA_HOME="$cuda" VGPU_WERROR=0 -j"${JOBS:-$(nproc)}" "$@" all > "$dir/build.log" 2>&1 || {
        echo "FAIL: $folder is not built, see $dir/build.log"
        exit 1
    }
}
build host/softgpu CC="$dir/cc" # the handlers of instructions are none of the folders asked for
build host/backend CC="$dir/cc"
build userspace/libcuda
rm -f "$dir"/raw/* # what the builds ran

LD_LIBRARY_PATH=$dir/host/softgpu "$out/sequences" --seconds "$seconds" 2> /dev/null | tail -n 1
work=$(mktemp -d "${TMPDIR:-/tmp}/sequences.XXXXXX") || exit 1
pid=
# shellcheck disable=SC2086 # no process: no argument
trap 'kill $pid 2> /dev/null; rm -rf "$work"' EXIT
"$dir/host/backend/vgpu-backend" --listen "$work/s" --gpu soft --provider "$dir/host/softgpu/libcuda-soft.so.1" --sandbox off \
    --start-rate 0 --log "$dir/broker.log" &
pid=$!
i=0
until [ -S "$work/s" ] || [ $i = 600 ] || ! kill -0 $pid 2> /dev/null; do
    sleep 0.1
    i=$((i + 1))
done
VGPU_SOCKET=$work/s LD_LIBRARY_PATH=$dir/userspace/libcuda "$out/sequences" --seconds "$seconds" 2> /dev/null | tail -n 1
kill $pid 2> /dev/null
wait $pid 2> /dev/null
pid=

"$llvm/llvm-profdata" merge --failure-mode=all -o "$dir/profile" "$dir"/raw/*.profraw || exit 1
echo '| lines of | reached | of | share |'
echo '|---|---|---|---|'
for part in host/softgpu/graph host/softgpu/api/graph host/softgpu/api/stream host/softgpu/runtime host/backend/worker/graph \
    host/backend/worker/core/wrk_flow.c; do
    case $part in
    host/softgpu/*) object=$dir/host/softgpu/libcuda-soft.so.1 ;;
    *) object=$dir/host/backend/vgpu-worker ;;
    esac
    # The last three columns before those of branches: lines, missed, share.
    "$llvm/llvm-cov" report --instr-profile="$dir/profile" --show-branch-summary=false --show-region-summary=false \
        "$object" "$top/$part" | awk -v part="$part" '
        $1 == "TOTAL" { printf "| %s | %d | %d | %s |\n", part, $(NF - 2) - $(NF - 1), $(NF - 2), $NF; found = 1 }
        END { if (!found) print "FAIL: no counters of " part }'
done
