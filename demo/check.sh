#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The demo programs as a test: on the host over a unix socket, then in a guest.
#
#   check.sh BUILD

set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$1
passed=0 failed=0 skipped=0

# one WHERE ARGS...: counts the table that run.sh prints
one()
{
    local where=$1 log

    shift
    log=$(mktemp)
    # The software GPU: the same result on every machine.
    "$here/run.sh" "$@" --gpu soft "$build" 2>&1 | tee "$log"
    local rc=${PIPESTATUS[0]} p f
    p=$(sed -n 's/^\([0-9]*\) passed, [0-9]* failed$/\1/p' "$log" | tail -n 1)
    f=$(sed -n 's/^[0-9]* passed, \([0-9]*\) failed$/\1/p' "$log" | tail -n 1)
    sed -nE "s/^([a-z_]+) +(dynamic|static|-) .* (FAIL.*)$/FAIL: $where: \1 (\2): \3/p" "$log"
    passed=$((passed + ${p:-0}))
    failed=$((failed + ${f:-0}))
    if [ "$rc" != 0 ] && [ "${f:-0}" = 0 ]; then
        failed=$((failed + 1))
        echo "FAIL: $where: the demo's exit status is $rc"
    fi
    rm -f "$log"
}

one host --host
if [ -x "$build/qemu/bin/qemu-system-x86_64" ] && [ -e "$build/kernel/vgpu_drv.ko" ]; then
    one guest
else
    skipped=$((skipped + 1))
    echo "not run: demo in a guest: QEMU or the guest driver is not part of this configuration"
fi
echo "demo: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
