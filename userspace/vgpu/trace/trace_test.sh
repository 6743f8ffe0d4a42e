# SPDX-License-Identifier: MIT
# vgpu trace: what it makes of a trace. Sourced by vgpu_test.sh. The program writes the trace itself, as our libraries do.

echo "# vgpu trace"
cat > "$work/traced" <<'END'
#!/bin/bash
call() { printf '{"type":"call","time":%s,"pid":7,"tid":%s,"call":"%s","args":"%s","result":"%s","code":%s,"us":%s}\n' "$@" >> "$VGPU_TRACE_JSON"; }
for i in $(seq 50); do call 100.0000$((i + 10)) 7 cuGetProcAddress_v2 "symbol=s$i" CUDA_SUCCESS 0 0.500; done
call 100.001 7 cuGetProcAddress_v2 symbol=x CUDA_ERROR_NOT_FOUND 500 1.000
call 100.002 7 cuInit Flags=0 CUDA_SUCCESS 0 4.000
call 100.003 7 cuDeviceGetAttribute '*pi=1 attrib=16 dev=0' CUDA_SUCCESS 0 0.000
call 100.004 7 cuMemAlloc_v2 'bytesize=0x10' CUDA_SUCCESS 0 10.000
sleep 0.3
call 100.005 8 cuDeviceGetAttribute '*pi=1 attrib=75 dev=0' CUDA_SUCCESS 0 2.000
call 100.006 7 cuEventQuery 'hEvent=0x1' CUDA_ERROR_NOT_READY 600 1.000
call 100.007 7 cuLaunchKernel 'f=0x1 \u001b[31m\"' CUDA_ERROR_INVALID_VALUE 1 3.000
echo '{"type":"refusal","time":100.008,"pid":7,"tid":7,"call":"cuFly","text":"no wings"}' >> "$VGPU_TRACE_JSON"
call 100.009 7 cuLibraryUnload 'library=0x6' CUDA_ERROR_DEINITIALIZED 4 0.100
call 100.01 7 cuMemAlloc_v2 'bytesize=0x10' CUDA_SUCCESS 0 nan
call 100.01 7 cuMemAlloc_v2 'bytesize=0x10' CUDA_SUCCESS 0 1e300
call 100.01 7 cuMemAlloc_v2 'bytesize=0x10' CUDA_SUCCESS 0 -1
call -inf 7 cuMemAlloc_v2 'bytesize=0x10' CUDA_SUCCESS 0 1.000
for ring in 1 2; do echo '{"type":"ring","time":100.004,"pid":7,"tid":7,"call":"ring","text":"records=0x7fffffffffffffff"}' >> "$VGPU_TRACE_JSON"; done
echo '{"type":"call","time":100,"pid":' >> "$VGPU_TRACE_JSON"
printf '{"type":"call"' >> "$VGPU_TRACE_JSON"
echo said
END
chmod +x "$work/traced"
text=$("$vgpu" trace --gpu soft --output "$work/t.txt" --chrome "$work/t.json" "$work/traced")
same "trace: the program's output is its own" "said" "$text"
same "trace: start-up is a line, attributes have names" "start-up: 53 calls, 30.0 us (--all shows them)
cuMemAlloc_v2(bytesize=0x10) = CUDA_SUCCESS 10.000 us
cuDeviceGetAttribute(*pi=1 attrib=CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR dev=0) = CUDA_SUCCESS 2.000 us
cuEventQuery(hEvent=0x1) = CUDA_ERROR_NOT_READY 1.000 us" "$(head -n 4 "$work/t.txt" | sed 's/^vgpu[^ ]* //')"
same "trace: what failed, what was refused" "1 errors
cuFly: not supported: no wings" "$(awk '/^all calls/ { print $4, "errors" }' "$work/t.txt"; grep -o 'cuFly: not.*' "$work/t.txt" | tail -n 1)"
same "trace: totals are a table" 1 "$(awk '/^call  / { on = 1 } on && /^cu/ { print NF == 6 }' "$work/t.txt" | sort -u)"
says "trace: lines that are none are counted" 0 "6 lines of the trace were not understood" cat "$work/t.txt"
says "trace: sums of any lines" 0 "^9223372036854775807 records were sent" cat "$work/t.txt"
same "trace: no control characters" "" "$(tr -d '\n -~' < "$work/t.txt")"
says "trace --chrome: a timeline" 0 "^61 0.0 10000.0 1 10.0 call$" /usr/bin/python3 -c '
import json, sys
d = json.load(open(sys.argv[1]))
assert set(d) == {"displayTimeUnit", "traceEvents"}
e = d["traceEvents"]
for x in e:
    assert x["ph"] in "Xi" and x["ts"] >= 0 and isinstance(x["pid"], int) and isinstance(x["tid"], int), x
    assert x["ph"] != "X" or x["dur"] >= 0
alloc = [x for x in e if x["name"] == "cuMemAlloc_v2"]
bad = [x for x in e if x["name"] == "cuLaunchKernel"][0]
assert bad["args"]["result"] == "CUDA_ERROR_INVALID_VALUE" and bad["args"]["arguments"].endswith("\"")
print(len(e), min(x["ts"] for x in e), 10000.0 if 8000 < max(x["ts"] for x in e) < 9500 else 0, len(alloc), alloc[0]["dur"], alloc[0]["cat"])' "$work/t.json"
says "trace --all: every call" 0 "symbol=s17) = CUDA_SUCCESS" "$vgpu" trace --gpu soft --all "$work/traced"
text=$("$vgpu" trace --gpu soft --filter 'cuMem*,cuInit' "$work/traced" 2>&1 | grep -c '^cu')
same "trace --filter: only these in the totals" 2 "$text"
text=$("$vgpu" trace --gpu soft --top 2 --totals "$work/traced" 2>&1)
same "trace --top: the longest" "cuGetProcAddress_v2 cuMemAlloc_v2" "$(awk '/^cu/ { print $1 }' <<< "$text" | paste -sd ' ')"
says "trace --top: how many others" 0 "and 5 other calls" echo "$text"
says "trace --top: no number" 2 "not a number" "$vgpu" trace --top x true
says "trace --chrome: a file that cannot be made" 125 "No such file" "$vgpu" trace --gpu soft --chrome /nowhere/x true

head -n 2 "$work/traced" > "$work/names"
cat >> "$work/names" <<'END'
call 100.007 7 cuStreamCreate '*phStream=0x2 Flags=1' CUDA_SUCCESS 0 1.000
call 100.007 7 cuStreamCreate_v2_ptsz '*phStream=0x2 Flags=1' CUDA_SUCCESS 0 1.000
call 100.007 7 cuMemHostAlloc '*pp=0x5 bytesize=0x3 Flags=0x3' CUDA_SUCCESS 0 1.000
call 100.007 7 cuEventCreate_v2_ptsz '*phEvent=0x2 Flags=0x66' CUDA_SUCCESS 0 1.000
call 100.007 7 cuCtxSetLimit 'limit=2 value=2' CUDA_SUCCESS 0 1.000
call 100.007 7 cuCtxSetLimit 'limit=0x7fff01903f30 value=2' CUDA_SUCCESS 0 1.000
call 100.007 7 cuPointerGetAttribute 'data=0x1 attribute=9 ptr=0x1' CUDA_SUCCESS 0 1.000
call 100.007 7 cuMemAdvise 'advice=-1 advice= advice=1x = x=  *' CUDA_SUCCESS 0 1.000
END
chmod +x "$work/names"
"$vgpu" trace --gpu soft --output "$work/names.txt" "$work/names"
same "trace: flags and enumerations have names, what has none stays" "cuStreamCreate(*phStream=0x2 Flags=CU_STREAM_NON_BLOCKING)
cuStreamCreate_v2_ptsz(*phStream=0x2 Flags=CU_STREAM_NON_BLOCKING)
cuMemHostAlloc(*pp=0x5 bytesize=0x3 Flags=CU_MEMHOSTALLOC_PORTABLE|CU_MEMHOSTALLOC_DEVICEMAP)
cuEventCreate_v2_ptsz(*phEvent=0x2 Flags=0x66)
cuCtxSetLimit(limit=CU_LIMIT_MALLOC_HEAP_SIZE value=2)
cuCtxSetLimit(limit=0x7fff01903f30 value=2)
cuPointerGetAttribute(data=0x1 attribute=CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ptr=0x1)
cuMemAdvise(advice=-1 advice= advice=1x = x=  *)" "$(sed -n 's/^vgpu[^ ]* \(cu.*\) = CUDA_SUCCESS 1.000 us$/\1/p' "$work/names.txt")"

# Every column of the totals, whichever call of a name comes first and last.
for order in "2 9 4" "9 4 2" "4 2 9"; do
    { head -n 2 "$work/traced"
      for us in $order; do echo "call 100.001 7 cuA x=1 CUDA_ERROR_INVALID_VALUE $((us == 4)) $us.000"; done
      echo "call 100.001 7 cuB x=1 CUDA_SUCCESS 0 1.500"; } > "$work/sums"
    chmod +x "$work/sums"
    same "trace: count, errors, sum, mean and longest of $order" "cuA 3 1 15.0 5.0 9.0
cuB 1 0 1.5 1.5 1.5
all calls 4 1 16.5" "$("$vgpu" trace --gpu soft --totals "$work/sums" 2>&1 | sed -n '/^cu[AB] \|^all calls/p' | tr -s ' ')"
done

# How a recording ended: the program stands in for the library. REASON STATUS WORDS
while read -r reason status words; do
    says "trace --record: a recording that ended for reason $reason" "$status" "$words" "$vgpu" trace --gpu soft \
        --record "$work/ended.rec" /usr/bin/python3 -c 'import os, struct, sys
end = struct.pack("<IHHQIIQ", 32, 7, 0, 0, int(sys.argv[1]), 0, 21)
open(os.environ["VGPU_RECORD"], "wb").write(bytes(128) + (end if int(sys.argv[1]) else b"x" * 32))' "$reason"
done << 'END'
0 125 was ended before it could finish its recording
1 0
2 125 the limit was reached after 21 calls
3 125 could not be written to its end
END

# Words of a program, or of a guest, where they are shown: calls, results and reasons, while it runs and in the totals.
head -n 2 "$work/traced" > "$work/words"
cat >> "$work/words" <<'END'
call 100.001 7 'cu\u001b[2J' 'f=\u009b2J' 'CUDA\u001b[2J' 1 1.000
printf '{"type":"refusal","time":100.008,"pid":7,"tid":7,"call":"cu\u001b[2J","text":"\342\200\256\302\233 \u001b[2J"}\n' >> "$VGPU_TRACE_JSON"
END
chmod +x "$work/words"
"$vgpu" trace --gpu soft --output "$work/words.txt" "$work/words"
says "trace: words of the program are shown" 0 "cu.*not supported: " cat "$work/words.txt"
same "trace: words of the program are text" "" "$(tr -d '\n -~' < "$work/words.txt" | od -An -c)"

# The program may be a guest with the folder of these files in its hands.
mkdir -p "$work/swap"
echo kept > "$work/swap/other"
says "trace: files that the program has replaced by a pipe and a link" 0 "no call of CUDA" "$vgpu" trace --gpu soft \
    --json "$work/swap/j" --chrome "$work/swap/c" \
    sh -c "cd '$work/swap' && rm j c && mkfifo j && ln -s other c"
same "trace: what the link names is not written" kept "$(cat "$work/swap/other")"
