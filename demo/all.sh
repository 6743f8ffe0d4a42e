#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Runs the demo programs one after the other; `run.sh` starts it in the guest or on the host.
#
#   all.sh BIN OUT [PREFIX...]
#
# BIN     folder with the programs; their names and forms are those of the Makefile
# OUT     folder for their files and logs
# PREFIX  what to start each with, e.g. `vgpu run` on the host; nothing in the guest
# Prints "@ name form seconds status" for each, for run.sh to make the table from.

bin=$1
out=$2
shift 2
# A program that hangs is a failure, not the end of the demo.
limit=${VGPU_DEMO_LIMIT:-120}

cd "$out" || exit 1
for program in device_query vector_add matrix_mul reduction streams pinned driver_ptx \
    illegal_address mandelbrot raytrace; do
    for form in dynamic static none; do
        binary=$bin/$program-$form
        [ $form = none ] && binary=$bin/$program
        [ -x "$binary" ] || continue
        log=$program-$form.log
        start=${EPOCHREALTIME/./}
        timeout -k 5 "$limit" "$@" "$binary" > "$log" 2>&1
        status=$?
        us=$((${EPOCHREALTIME/./} - start))
        [ $status = 124 ] && echo "no end within $limit s: FAIL" >> "$log"
        printf '@ %s %s %d.%03d %d\n' $program $form $((us / 1000000)) $((us / 1000 % 1000)) $status
        tail -n 1 "$log"
    done
done
