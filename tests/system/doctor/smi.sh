# SPDX-License-Identifier: MIT
# Part of run.sh: vgpu smi's output formats, and the queries that scripts make of nvidia-smi.
echo "# smi"

# form NAME PATTERN OPTIONS...: a line of the output must match PATTERN
form()
{
    local name=$1 pattern=$2 text
    shift 2
    text=$(timeout 60 "$vgpu" smi --gpu soft "$@" 2>&1 < /dev/null)
    if grep -qE -- "$pattern" <<< "$text"; then
        ok "smi: $name"
    else
        bad "smi: $name" "no '$pattern' in: $text"
    fi
}
csv="--format=csv,noheader"
form "the table" '^\| VGPU-SMI .*Driver Version: [0-9.]+ +CUDA Version: 13\.5 '
text=$("$vgpu" smi --gpu soft | tail -n +2 | awk '{ print length($0) }' | sort -u | tr '\n' ' ')
if [ "$text" = "0 91 " ]; then # one line is empty
    ok "smi: the table's lines are of one width"
else
    bad "smi: the table's lines are of one width" "$text"
fi
form "-L" '^GPU 0: .*\(UUID: GPU-[0-9a-f-]{36}\)$' -L
form "-q" '^ +Product Name +: .*software GPU' -q
form "-q -d MEMORY: what is asked for" '^ +Total +: 4096 MiB' -q -d MEMORY
text=$("$vgpu" smi --gpu soft -q -d MEMORY,PIDS)
if grep -qE 'Product Name|Temperature' <<< "$text"; then
    bad "smi: -q -d: nothing else" "$text"
else
    ok "smi: -q -d: nothing else"
fi
form "-d: an unknown word" "'SPEED' is not a list of" -q -d SPEED
form "names and units in the header" '^name, memory\.total \[MiB\], temperature\.gpu$' \
    --query-gpu=name,memory.total,temperature.gpu --format=csv
form "values with units, [N/A] for what the GPU does not say" \
    '^.*software GPU.*, 8\.0, 4096 MiB, 4096 MiB, [0-9]+ %, \[N/A\], \[N/A\], \[N/A\], \[N/A\], \[N/A\]$' \
    --query-gpu=name,compute_cap,memory.total,memory.free,utilization.gpu,temperature.gpu,power.draw,clocks.gr,pstate,ecc.errors.corrected.volatile.total \
    $csv
form "nounits" '^4096, 0, 590\.0$' --query-gpu=memory.total,memory.used,driver_version $csv,nounits
form "an unknown name" 'Field "memory.size" is not a valid field' --query-gpu=memory.size $csv
form "without a format" 'switch is missing' --query-gpu=name
form "-i: a number" '^0, ' -i 0 --query-gpu=index,uuid $csv
form "-i: a UUID" '^0$' -i "$("$vgpu" smi --gpu soft --query-gpu=uuid $csv)" --query-gpu=index $csv
form "-i: not there" 'No devices were found' -i 7
VGPU_SOFT_CC=8.0,9.0 form "-i: a list, two GPUs" '^1, 9\.0$' -i 0,1 --query-gpu=index,compute_cap $csv
# Every field name in the help text must have a value.
names=$("$vgpu" smi --help-query-gpu | awk 'NR > 2 { printf "%s%s", n++ ? "," : "", $1 }')
text=$("$vgpu" smi --gpu soft --query-gpu="$names" $csv)
if [ "$(tr -dc , <<< "$names" | wc -c)" = "$(tr -dc , <<< "$text" | wc -c)" ] && [ "$(wc -l <<< "$text")" = 1 ]; then
    ok "smi: all $(tr , '\n' <<< "$names" | wc -l) names"
else
    bad "smi: all names" "$text"
fi
# A running process must be listed; -l repeats until it is killed.
text=$("$vgpu" run --gpu soft bash -c "'$out/client' waits > '$work/waits' & client=\$!
    for _ in \$(seq 300); do grep -q ready '$work/waits' && break; sleep 0.1; done
    timeout 60 '$vgpu' smi --query-compute-apps=pid,process_name,used_memory $csv --loop-ms=500 | grep -m 2 \"^\$client, \" > '$work/loop'
    echo pid \$client; kill \$client" 2>&1)
pid=$(sed -n 's/^pid //p' <<< "$text")
if [ "$(grep -cE "^$pid, $out/client, [0-9]+ MiB\$" "$work/loop")" -ge 2 ]; then
    ok "smi: --query-compute-apps, again and again"
else
    bad "smi: --query-compute-apps" "$text: $(cat "$work/loop")"
fi
