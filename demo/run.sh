#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Runs all demo programs in one guest (or on the host, with no virtual machine) and prints a table.
#
#   run.sh [--host] [--gpu soft|nvidia|auto] [BUILD]
#
# The programs are in BUILD/demo/programs. Their files and logs land in BUILD/demo (--host: BUILD/demo-host). Exit status 0: each
# program ran and had the right result.

set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../scripts/lib.sh"

where=guest
gpu=()
while [ $# -gt 0 ]; do
    case $1 in
    --host) where=host ;;
    --gpu) gpu=(--gpu "${2:?}"); shift ;;
    *) BUILD=$1 ;;
    esac
    shift
done

BUILD=$(cd "$BUILD" && pwd) || exit 1
bin=$BUILD/demo/programs
vgpu=$BUILD/userspace/vgpu/vgpu
out=$BUILD/demo
[ $where = guest ] || out=$BUILD/demo-host
mkdir -p "$out"
# The programs are in a folder below it.
find "$out" -maxdepth 1 -type f -delete
want=$(find "$bin" -maxdepth 1 -type f -perm -u+x | wc -l)

if [ $where = guest ]; then
    say "booting a guest: Debian's stock kernel $(cat "$BUILD/guest/release"), -device vgpu-cuda"
else
    say "running the demo programs on the host, over a unix socket"
fi
if [ $where = guest ]; then
    cd "$out" || exit 1
    "$vgpu" vm run "${gpu[@]}" --timeout 1500 --keep-log "$out/kernel.log" \
        /bin/bash -c 'printf "guest is up: Linux %s, %s, /dev/vgpu0 by %s\n" "$(uname -r)" \
            "$(nproc) CPUs" "$(cut -d" " -f1 /proc/modules | grep vgpu)"; exec "$@"' bash \
        /bin/bash "$here/all.sh" "$bin" "$out" < /dev/null
else
    /bin/bash "$here/all.sh" "$bin" "$out" "$vgpu" run "${gpu[@]}" < /dev/null
fi > >(tee "$out/output.txt" | while IFS= read -r line; do
    case $line in
    "@ "*) ;;
    *) say "$line" ;;
    esac
done)
rc=$?
wait $!

echo
awk -v want="$want" -v rc=$rc '
    BEGIN { printf "%-18s %-12s %9s   %s\n", "program", "libcudart", "time", "result"
            print "----------------------------------------------------" }
    $1 == "@" { form = $3 == "none" ? "-" : $3; result = $5 == 0 ? "PASS" : "FAIL (" $5 ")"
                n++; failed += $5 != 0
                printf "%-18s %-12s %7.2f s   %s\n", $2, form, $4, result }
    END { print "----------------------------------------------------"
          if (n < want) printf "only %d of %d programs ran\n", n, want
          if (rc != 0) printf "the run itself ended with status %d\n", rc
          printf "%d passed, %d failed\n", n - failed, want - n + failed
          exit failed > 0 || n < want || rc != 0 }' "$out/output.txt"
result=$?

if [ "$(head -c 4 "$out/mandelbrot.png" 2> /dev/null | tail -c 3)" = PNG ]; then
    echo "picture: $out/mandelbrot.png"
else
    echo "there is no picture in $out/mandelbrot.png: FAIL"
    result=1
fi
[ $result = 0 ] || echo "the programs' output: $out/*.log, the guest's kernel log: $out/kernel.log"
exit $result
