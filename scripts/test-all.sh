#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Runs what `make test` runs and what it leaves out, one after the other, and prints a table: `make test-all`.
#
#   test-all.sh [PART...]     PART: names of the table (default: all); --list names them, --commands what they run
#
# The table is build/test-all.md, with date, commit and duration of each part and of all; docs/results/test-all.md is the
# last run's. Logs are build/log/test-all-PART.log. A part that fails does not stop the others. Hours, gigabytes of downloads once, root for packages and roots.
# Exit status 1 when a part failed.

set -u
. "$(dirname "$0")/lib.sh"

parts=(
    "test|make test|the tests of every commit"
    "packages|make deb check-packages|install, upgrade, remove and purge in a Debian root; lintian; DKMS"
    "units|make check-units|the systemd units under systemd: users, sockets, restart, security, every option"
    "units-vm|env VGPU_UNITS=vm make check-units|the same in a virtual machine, whose control groups have all controllers"
    "docker|make check-docker|Docker with the GPU, on a host"
    "qemu-newest|qemu-device/check-newest.sh|the device in a QEMU 11 or newer (QEMU_SOURCE: yours)"
    "own-guest|make check-own-guest|the commands of docs/own-guest.md, from debootstrap to a CUDA program"
    "san-address|make san SAN=address,undefined|the conformance suite with sanitizers"
    "san-thread|make san SAN=thread|the same with ThreadSanitizer"
    "prove|make prove|proofs by CBMC"
    "regress|make regress|each hole that was found, by the test that fails without its mend"
    "faults|make faults CYCLES=0.08|faults that the system must survive, few cycles"
    "debug-guest|make debug-guest|the guest's driver with KASAN, lockdep and kmemleak"
    "debug-guest-kcsan|make debug-guest CHECKER=kcsan|the same with KCSAN instead of KASAN and kmemleak"
    "newer-guest|make newer-guest|the guest's tests with a newer kernel: backports' of Debian, syncobjs of virtio-gpu"
    "clients|make all-clients|programs of other people, also the large ones"
    "ollama|make ollama check-tests.apps.ollama|Ollama, built and run"
    "compilers-sid|make check-tests.system.compilers COMPILERS_SUITE=sid|the tree by gcc 15 and the newest gcc of Debian sid"
    "samples|tests/apps/samples/fetch.sh|NVIDIA's cuda-samples, at the commit of docs/results/cuda-samples.md"
    "readme-bookworm|tests/system/compilers/readme.sh build/readme bookworm demo test|the README in a minimal Debian 12"
    "readme-trixie|tests/system/compilers/readme.sh build/readme trixie demo test|the README in a minimal Debian 13"
)

if [ "${1:-}" = --list ]; then
    for part in "${parts[@]}"; do
        IFS='|' read -r name command what <<< "$part"
        printf '%-16s %s\n' "$name" "$what"
    done
    exit 0
fi
if [ "${1:-}" = --commands ]; then
    printf '%s\n' "${parts[@]}" | cut -d'|' -f1,2
    exit 0
fi
for want; do
    printf '%s\n' "${parts[@]}" | grep -q "^$want|" || die "test-all.sh: no part '$want'; --list names them"
done

cd "$TOP" || exit 1
mkdir -p "$BUILD/log"
table=$BUILD/test-all.md
commit=$(git rev-parse --short HEAD 2> /dev/null || echo "no commit")
[ -z "$(git status --porcelain 2> /dev/null)" ] || commit="$commit, changed"
{
    echo "$(date +%F), commit $commit, $(nproc) processors, $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release), Linux $(uname -r)."
    echo
    echo "| part | result | minutes | its last line |"
    echo "|---|---|---|---|"
} > "$table"
failed=0 run=0 begun=$(date +%s)
for part in "${parts[@]}"; do
    IFS='|' read -r name command what <<< "$part"
    [ $# = 0 ] || printf '%s\n' "$@" | grep -qxF "$name" || continue
    run=$((run + 1))
    log=$BUILD/log/test-all-$name.log
    started=$(date +%s)
    say "$name: $what"
    MAKEFLAGS= $command > "$log" 2>&1 < /dev/null
    rc=$?
    result=passed
    [ $rc = 0 ] || { result="FAILED ($rc)"; failed=$((failed + 1)); }
    last=$(grep -E '[0-9]+ passed' "$log" | tail -n 1 | tr -d '|' | cut -c1-100)
    ! grep -q ': 0 passed, 0 failed, [0-9]* skipped$' <<< "$last" || result="not run"
    echo "| $name | $result | $((($(date +%s) - started + 30) / 60)) | ${last:-see $log} |" | tee -a "$table"
done
{
    echo
    echo "$run of ${#parts[@]} parts in $((($(date +%s) - begun + 30) / 60)) minutes."
} >> "$table"
say "the table is $table"
[ $failed = 0 ]
