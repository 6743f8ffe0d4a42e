# SPDX-License-Identifier: MIT
# Part of vgpu_test.sh: every status page with one backend that answers and two that do not, and with those two alone. A network
# namespace of its own hides the sockets of other backends.
cat > "$work/muted.sh" <<'END_OF_SCRIPT'
# backend NAME: starts one that answers; its process is $pid
backend()
{
    rm -f "$work/muted.ready"
    bash -c 'named=$1 exec /usr/bin/python3 "$2" "$3" "@vgpu-backend.status.$$" own "/run/$1.sock"' - "$1" "$work/asked.py" "$work/muted.ready" &
    pid=$!
    for _ in $(seq 600); do [ -s "$work/muted.ready" ] && break || sleep 0.1; done
}
# forms: the output of each page, with names for process ids
forms()
{
    local form
    for form in "smi --host" "smi --host -q" "smi --host --json" metrics; do
        echo "== $form"
        timeout 20 "$vgpu" $form 2>&1 | sed "s/\b$one\b/ONE/g; s/\b$two\b/TWO/g; s/\b$three\b/THREE/g"
    done
}
backend one; one=$pid
backend two; two=$pid
backend three; three=$pid
kill -STOP "$one" "$three"
forms > "$work/muted.some"
kill "$two"
wait "$two" 2> /dev/null
forms > "$work/muted.all"
rm -f "$work/muted.ready"
/usr/bin/python3 "$work/asked.py" "$work/muted.ready" "@vgpu-backend.status.$ghost" $ghost /run/a.sock & liar=$!
for _ in $(seq 600); do [ -s "$work/muted.ready" ] && break || sleep 0.1; done
"$vgpu" metrics > "$work/muted.liar"
kill "$liar"
kill -CONT "$one" "$three"
kill "$one" "$three"
wait
END_OF_SCRIPT
# form FILE FORM: the part for one page of the output of forms()
form()
{
    awk -v want="== $2" '/^== / { on = $0 == want; next } on' "$work/$1"
}
network=
for network in "unshare --net" "unshare --map-root-user --net"; do
    $network true 2> /dev/null && break
    network=
done
if [ -n "$network" ]; then
    export work vgpu
    $network bash "$work/muted.sh"
    for file in some all; do
        same "smi --host, $file: the table has each silent one" "ONE THREE" \
            "$(form muted.$file "smi --host" | sed -nE 's/^\| -  *(ONE|THREE) *no answer *\|$/\1/p' | sort | xargs)"
    done
    same "metrics: one that is not believed, none of another user" "0 1" \
        "$(sed -n 's/^vgpu_backends_\(hidden\|refused\) //p' "$work/muted.liar" | xargs)"
    same "smi --host: the one that answers" two "$(form muted.some "smi --host" | sed -nE 's/^\| (two)  *TWO .*/\1/p')"
    for file in some all; do
        [ $file = some ] && answers=1 || answers=0
        same "smi --host -q, $answers of $((answers + 2)): their number" "$((answers + 2))" \
            "$(form muted.$file "smi --host -q" | sed -n 's/^Backends  *: //p')"
        same "smi --host -q, $answers of $((answers + 2)): each silent one" "ONE - no answer THREE - no answer" \
            "$(form muted.$file "smi --host -q" | awk '/^Backend / { who = $2 } /^    Name / { name = $NF } /^    State / { print who, name, "no answer" }' | sort | xargs)"
        same "smi --host --json, $answers of $((answers + 2))" "$(printf '%s ONE,- THREE,-' "$([ $answers = 1 ] && echo two)")" \
            "$(form muted.$file "smi --host --json" | sed 's/\b\(ONE\|TWO\|THREE\)\b/"\1"/g' | /usr/bin/python3 -c '
import json, sys
s = json.load(sys.stdin)
print(" ".join(b["name"] for b in s["backends"]), *sorted(",".join((b["pid"], b["name"])) for b in s["no_answer"]))')"
        same "metrics, $answers of $((answers + 2)): backends up" "$([ $answers = 1 ] && echo "TWO 1 ")ONE 0 THREE 0" \
            "$(form muted.$file metrics | sed -nE 's/^vgpu_up\{.*backend="([A-Z]+)"\} ([01])$/\1 \2/p' | sort -k2,2r -k1,1 | xargs)"
        same "metrics, $answers of $((answers + 2)): figures only of backends that answer" "$answers" \
            "$(form muted.$file metrics | grep -c '^vgpu_calls_total{')"
        same "smi --host, $answers of $((answers + 2)): does not say that no backend runs" 0 \
            "$(form muted.$file "smi --host" | grep -c "no vgpu-backend runs")"
    done
else
    skipped=$((skipped + 1))
    echo "not run: smi --host, backends that do not answer: no network namespace may be made here"
fi
