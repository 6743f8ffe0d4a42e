#!/bin/sh
# SPDX-License-Identifier: MIT
# Tests of the protocol folder; $1 is the build folder. Called by `make check`, which says in CALL_SIDES, SOFTGPU_TABLE and
# WORKER_HEADERS (CALL_RUNTIME: the header among them that decoders include) what lies beside the code of the two sides.
O=$1
here=$(cd "$(dirname "$0")" && pwd)
PYTHON=${PYTHON:-/usr/bin/python3}
CUDA_HOME=${CUDA_HOME:-/usr/local/cuda}
pass=0 fail=0
ok() { if [ "$2" = 0 ]; then echo "ok   $1"; pass=$((pass + 1)); else echo "FAIL $1"; fail=$((fail + 1)); fi; }

mkdir -p "$O/fresh/docs"
generated=$(cd "$here/.." && pwd)/build/generated
"$PYTHON" "$here/gen/emit.py" $CALL_SIDES "$O/fresh" "$O/fresh/docs" && cmp "$here/../docs/calls.md" "$O/fresh/docs/calls.md" &&
    cmp "$here/../docs/state.md" "$O/fresh/docs/state.md"
ok "the committed pages are what the description gives (make -C protocol generate)" $?
same=0
for f in "$O/fresh"/vgp_*; do cmp "$f" "$generated/$(basename "$f")" || same=1; done
ok "what was compiled is what the description gives" $same

# A program that asks cuGetProcAddress for the per-thread variant of any call gets it.
sed -n 's/^    \(cu[A-Za-z0-9_]*_\(ptsz\|ptds\)\);$/\1/p' "$generated/vgp_exports.map" | sort -u >"$O/variants.exported"
sed -n 's/.*(void \*)\(cu[A-Za-z0-9_]*_\(ptsz\|ptds\)\), .*/\1/p' "$generated/vgp_procaddr.c" | sort -u >"$O/variants.found"
missing=$(comm -3 "$O/variants.exported" "$O/variants.found" | tr '\n' ' ')
[ -z "$missing" ] || echo "not found by cuGetProcAddress: $missing"
[ -z "$missing" ] && [ "$(wc -l <"$O/variants.found")" -gt 100 ]
ok "all $(wc -l <"$O/variants.exported") per-thread variants are found by cuGetProcAddress" $?

# Generated parts do not become hand-written again; `make golden` records new ones.
"$PYTHON" "$here/gen/share.py" $CALL_SIDES "$SOFTGPU_TABLE" --check "$here/share.tsv"
ok "the share of generated handlers and entry points is the recorded one" $?
sed 's/^worker	.*/worker	999/' "$here/share.tsv" >"$O/share.fallen"
"$PYTHON" "$here/gen/share.py" $CALL_SIDES "$SOFTGPU_TABLE" --check "$O/share.fallen" >/dev/null 2>&1 || "$PYTHON" "$here/gen/share.py" $CALL_SIDES "$SOFTGPU_TABLE" --raise "$O/share.fallen" >/dev/null 2>&1
[ $? != 0 ] && grep -q '^worker	999$' "$O/share.fallen"
ok "a share that has fallen is refused, and not recorded" $?
sed 's/^guest	.*/guest	1/' "$here/share.tsv" >"$O/share.risen"
! "$PYTHON" "$here/gen/share.py" $CALL_SIDES "$SOFTGPU_TABLE" --check "$O/share.risen" >/dev/null 2>&1 &&
    "$PYTHON" "$here/gen/share.py" $CALL_SIDES "$SOFTGPU_TABLE" --raise "$O/share.risen" >/dev/null && cmp "$here/share.tsv" "$O/share.risen"
ok "a share that has risen is asked for, and recorded" $?

# CBMC is not on every machine, and its statements need to know each function that handlers call.
rm -rf "$O/statements" && mkdir -p "$O/statements"
"$PYTHON" "$here/gen/emit.py" $CALL_SIDES --prove "$O/statements" $WORKER_HEADERS &&
    [ "$(ls "$O/statements" | wc -l)" -gt 200 ]
ok "there is a statement for CBMC about each decoder" $?
# A stand-in for CBMC compiles a statement with the folders that it is given.
cat >"$O/cbmc" <<'END'
#!/bin/sh
statement=$1 folders=
for option; do
    case $option in -D* | -I*) folders="$folders $option" ;; esac
done
cc -fsyntax-only -w -D__CPROVER_assume=assume -D__CPROVER_assert=prove_assert $folders "$statement" && echo VERIFICATION SUCCESSFUL
END
chmod +x "$O/cbmc"
CBMC=$O/cbmc sh "$here/prove.sh" "$O" "$CUDA_HOME/include" vgpPing cuMemAlloc_v2 >"$O/prove.log" 2>&1 || { cat "$O/prove.log"; false; }
ok "statements for CBMC find the headers that they include" $?

# Each broken description must be refused, with file and line. The edit is of whichever file of the description it changes.
refuse() { # name, sed script over the description
    rm -rf "$O/broken" && mkdir -p "$O/broken/out" && cp -r "$here/gen" "$here/cuda_symbols.tsv" "$O/broken/"
    sides='' changed=
    for file in "$here/cuda_calls.def" $CALL_SIDES; do
        case $file in --*) sides="$sides $file"; continue ;; "$here"/*) ;; *) sides="$sides $O/broken/${file##*/}" ;; esac
        sed "$2" "$file" >"$O/broken/${file##*/}"
        cmp -s "$file" "$O/broken/${file##*/}" || changed=${file##*/}
    done
    if [ -z "$changed" ]; then
        echo "the edit changed nothing"; ok "$1" 1; return
    fi
    if "$PYTHON" "$O/broken/gen/emit.py" $sides "$O/broken/out" "$O/broken/out" >"$O/broken/log" 2>&1; then
        ok "$1" 1
    else
        grep -q "^error: .*/$changed:[0-9]*: " "$O/broken/log"; ok "$1" $?
    fi
}
refuse "a number used twice is refused" 's/^call 0x0002 /call 0x0001 /'
refuse "a new call without its version is refused" 's/^call 0x0006 vgpPing/call 0x0a6f vgpPing/'
refuse "a version of another major number is refused" 's/ since=1\.1$/ since=2.1/'
refuse "an unknown class is refused" 's/^call 0x0006 vgpPing sync/call 0x0006 vgpPing later/'
refuse "a missing class is refused" 's/^call 0x0006 vgpPing sync /call 0x0006 vgpPing /'
refuse "a string without maximum is refused" 's/in str label max=64/in str label/'
refuse "an unknown type is refused" 's/in u64 value : uint64_t/in pointer value : uint64_t/'
refuse "an unknown handle kind is refused" 's/handle:event hEvent/handle:evnt hEvent/'
refuse "results of an asynchronous call are refused" 's/^call 0x0006 vgpPing sync/call 0x0006 vgpPing async/'
refuse "a blocking call without a waiter is refused" 's/^call 0x0415 cuEventSynchronize wait effect=waits entry=steps worker=custom/call 0x0415 cuEventSynchronize wait effect=waits entry=steps/'
refuse "a call that does not say what it does to work is refused" 's/^call 0x0006 vgpPing sync effect=complete/call 0x0006 vgpPing sync/'
refuse "a call that does not say what it does to state is refused" '/^call 0x0006 vgpPing/,/^$/s/^    keeps nothing$//'
refuse "a duration of what is no work is refused" 's/in u64 value : uint64_t/in u64 value scales : uint64_t/'
refuse "a name described twice is refused" 's/^local cuInit(/local cuStreamQuery(/'
refuse "a refusal without a reason's text is refused" 's/^reason coredump /reason coredmup /'
refuse "a reason that no call is refused for is refused" 's/^reason coredump "/reason coredmup "unused"\n&/'
refuse "steps of an entry point without an answer are refused" '/^    answer vcu_cuCtxDestroy_v2/s/answer/enter/'
refuse "steps of a handler that ends before the last are refused" 's/^    does cuGraphLaunch(exec, stream)/&\n    check CUDA_SUCCESS/'
refuse "a handler that is custom and has steps is refused" '/^call 0x0006 vgpPing sync/s/worker=steps/worker=custom/'
refuse "a handler that is forwarded and has steps is refused" '/^call 0x0006 vgpPing sync/s/ worker=steps//'
refuse_block() { # name, file of a side, call: whose lines are taken out of it
    rm -rf "$O/broken" && mkdir -p "$O/broken/out"
    sides=$(for word in $CALL_SIDES; do case $word in */"$2") word=$O/broken/$2; esac; echo "$word"; done)
    for word in $CALL_SIDES; do
        case $word in */"$2") sed "/^call $3\$/,/^\(call\|local\|\$\)/{/^call $3\$/d;/^    /d}" "$word" >"$O/broken/$2" ;; esac
    done
    ! "$PYTHON" "$here/gen/emit.py" $sides "$O/broken/out" "$O/broken/out" >"$O/broken/log" 2>&1 &&
        grep -q "^error: .*/cuda_calls.def:[0-9]*: $3: " "$O/broken/log"
    ok "$1" $?
}
refuse_block "an entry point whose steps are missing is refused" entry.def cuStreamQuery
refuse_block "a forwarded entry point whose steps are missing is refused" entry.def cuStreamCreate
refuse_block "a handler whose steps are missing is refused" calls.def vgpPing
refuse "steps of a handler of an unknown call are refused" 's/^call vgpPing$/call vgpPong/'
refuse "steps of an entry point of an unknown call are refused" 's/^call cuStreamQuery$/call cuStreamQuerry/'
refuse "a handler's attribute in what travels is refused" 's/^    out u64 echo : /    out u64 echo from=value : /'
refuse "a handler's attribute of an unknown parameter is refused" 's/^    param echo from=value/    param ecco from=value/'
refuse "a step of the other side is refused" 's/^    does cuGraphLaunch(exec, stream)/    answer cuGraphLaunch(exec, stream)/'
refuse "an array of an unknown handle kind is refused" 's/in array:u32 attributeIds/in array:handle:evnt attributeIds/'
refuse "a meaning that does not fit its field is refused" 's/in u64 value : uint64_t/in u64 value varies : uint64_t/'
refuse "an array of structs as result is refused" 's/out array:i32 attributes max=256/out array:struct:CUmemLocation attributes max=256/'
refuse "a struct that is not described is refused" 's/in struct:CUmemLocation location/in struct:CUmemLocatoin location/'
refuse "a reply larger than its slot is refused" 's/out bytes result max=4032/out bytes result max=8192/'
refuse "a record larger than the limit is refused" 's/in bytes params len=paramsLen max=32764/in bytes params len=paramsLen max=99999/'

# Without what a side does, the calls would be others.
for side in entry worker runtime; do
    said=$(echo "$CALL_SIDES" | sed "s/--$side [^ ]*//")
    ! "$PYTHON" "$here/gen/emit.py" $said "$O/broken/out" "$O/broken/out" >"$O/broken/log" 2>&1 && grep -q "^error: .*--$side" "$O/broken/log"
    ok "a description without a file of the side $side is refused" $?
    said=$(echo "$CALL_SIDES" | sed "s/--$side [^ ]*/&.none/")
    ! "$PYTHON" "$here/gen/emit.py" $said "$O/broken/out" "$O/broken/out" >"$O/broken/log" 2>&1 && grep -q '^error: .*\.none: ' "$O/broken/log"
    ok "a file of the side $side that is not there is refused" $?
done
# What travels has no function of libcuda or of the worker, and no header here has one of these two.
! grep -nE '\b(vcu|cua|lnk|wrk|brk|sg)_[a-z]' "$here/cuda_calls.def"
ok "the description of what travels names no function of a side" $?
! grep -nE '\b(vcu|cua|lnk|wrk|brk)_[a-z]' $(ls "$here"/vgp_*.h | grep -v /vgp_roundtrip_worker.h)
ok "no header of the protocol names a function of libcuda or of the worker" $?

# Each refusal of the generator and each limit of the wire, at it and one over it.
"$PYTHON" "$here/limits_test.py" >"$O/limits.log"
r=$?
grep '^FAIL' "$O/limits.log"
ok "every refusal of the generator, at it and one over it ($(tail -n 1 "$O/limits.log"))" $r
"$PYTHON" "$here/limits_test.py" --set REPLY_MAX=4096 --set RECORD_ARGS_MAX=73728 >"$O/limits.log"
[ $? = 1 ] && [ "$(grep -c 'one over it: accepted$' "$O/limits.log")" -ge 4 ]
ok "maxima that are too large are noticed" $?

if [ -f "$CUDA_HOME/include/cuda.h" ]; then
    # Every function that cuda.h declares is described, and with its signature (the compiler checks).
    printf '#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n#include <cudaProfiler.h>\n' |
        ${CC:-cc} -E -I"$CUDA_HOME/include" - | tr '\n' ' ' | grep -oE '\bcu[A-Z][A-Za-z0-9_]* *\(' |
        tr -d ' (' | sort -u >"$O/header.names"
    sed -n 's/^    \(cu[A-Za-z0-9_]*\);$/\1/p' "$generated/vgp_exports.map" | sort -u >"$O/export.names"
    missing=$(comm -23 "$O/header.names" "$O/export.names" | tr '\n' ' ')
    [ -z "$missing" ] || echo "not described: $missing"
    [ -z "$missing" ] && [ "$(wc -l <"$O/header.names")" -gt 600 ]
    ok "all $(wc -l <"$O/header.names") functions of cuda.h are exported ($(wc -l <"$O/export.names") exports)" $?
    sh "$here/signatures.sh" "$generated" "$CUDA_HOME/include"
    ok "every described signature is cuda.h's" $?
fi

# Forms that no call uses yet: generated, compiled and run like the others.
rm -rf "$O/form" && mkdir -p "$O/form/docs" &&
    "$PYTHON" "$here/gen/emit.py" --def "$here/form_test.def" "$O/form" "$O/form/docs" &&
    "$PYTHON" "$here/gen/emit.py" --def "$here/form_test.def" --roundtrip "$O/form/vgp_roundtrip_cases.h" &&
    ${CC:-cc} -O1 -g -std=gnu11 -Wall -Wextra -Wshadow -Wstrict-prototypes -Werror \
        -fsanitize=address,undefined -fno-sanitize-recover=undefined -D__CUDA_API_VERSION_INTERNAL \
        -I"$O/form" -I"$here" $CALL_RUNTIME_INC -isystem "$CUDA_HOME/include" -o "$O/form/roundtrip" \
        "$here/vgp_roundtrip_test.c" "$O/form/vgp_guest.c" "$O/form/vgp_worker.c" "$O/form/vgp_names.c" \
        "$O/form/vgp_facts.c" "$O/form/vgp_fields.c" &&
    "$O/form/roundtrip" >"$O/form/log" 2>&1
r=$?
tail -n 2 "$O/form/log"
ok "round trips of arrays of handles and structs, struct results, callbacks" $r

"$O/vgp_roundtrip_test" >"$O/roundtrip.log" 2>&1
r=$?
tail -n 5 "$O/roundtrip.log"
ok "round trips T1-T10 of every call under ASan and UBSan" $r

# What is there stays byte for byte; a new call adds lines (`make golden`).
"$O/vgp_golden_test" >"$O/golden.txt" && diff "$here/golden_records.tsv" "$O/golden.txt" >"$O/golden.diff"
r=$?
head -n 6 "$O/golden.diff"
ok "the records of every call are the golden ones ($(wc -l <"$here/golden_records.tsv"))" $r

echo "protocol: $pass passed, $fail failed, 0 skipped"
[ "$fail" = 0 ]
