#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Runs one step of the build, with its output in a log.
#
#   step.sh NAME TEXT COMMAND [ARGS...]
#
# NAME   the log becomes build/log/NAME.log
# TEXT   what the user sees: "[  12s] TEXT ..." when the step takes longer than a second, its last
#        line of output every 20 s, and "[  47s] TEXT: done in 35 s" at its end
# A step that had nothing to do therefore prints nothing. When the command fails, the end of its
# log is shown and its exit status is passed on. VGPU_VERBOSE=1 shows all output instead.

set -u
. "$(dirname "$0")/lib.sh"

[ $# -ge 3 ] || { sed -n '5,14s/^# \{0,1\}//p' "$0" >&2; exit 2; }
name=$1
text=$2
shift 2
log=$BUILD/log/$name.log
mkdir -p "$BUILD/log"

if [ "${VGPU_VERBOSE:-0}" = 1 ]; then
    say "$text ..."
    exec "$@"
fi

start=$(date +%s)
start_ms=$(($(date +%s%N) / 1000000))
"$@" > "$log" 2>&1 < /dev/null &
child=$!
trap 'kill "$child" 2> /dev/null; wait "$child"; exit 130' INT TERM

# The first second is watched closely: most steps of a second run end within it. On a busy machine this loop
# takes longer than the step; the end is reported by the time that has passed.
announced=
for _ in 1 2 3 4 5 6 7 8 9 10; do
    kill -0 "$child" 2> /dev/null || break
    sleep 0.1
done
if kill -0 "$child" 2> /dev/null; then
    announced=1
    say "$text ..."
fi
ticks=0
while kill -0 "$child" 2> /dev/null; do
    sleep 0.5
    ticks=$((ticks + 1))
    if [ $((ticks % 40)) = 0 ]; then
        say "$text ... $(tail -c 400 "$log" | tr -d '\r' | grep -v '^$' | tail -n 1 | cut -c1-90)"
    fi
done
wait "$child"
rc=$?
if [ $rc != 0 ]; then
    say "$text: FAILED (exit status $rc). The end of $log:" >&2
    tail -n "${VGPU_LOG_LINES:-40}" "$log" >&2
elif [ -n "$announced" ] || [ $(($(date +%s%N) / 1000000 - start_ms)) -ge 1000 ]; then
    say "$text: done in $(($(date +%s) - start)) s"
fi
exit $rc
