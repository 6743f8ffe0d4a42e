#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Tests of the vgpu command: vgpu_test.sh O (the folder with the built vgpu and guest-init).
# The backend is a script here, so that nothing but the command itself is needed; the tests that
# boot a guest use one without a vgpu-cuda device. VGPU_TEST_NO_GUEST=1: without those.

set -u
here=$(cd "$(dirname "$0")" && pwd)
out=$(cd "$1" && pwd)
vgpu=$out/vgpu
build=$(cd "$out/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-test.XXXXXX")
mkdir "$work/tmp" "$work/lib" "$work/cache"
mkdir "$work/nvml"
export TMPDIR=$work/tmp XDG_CACHE_HOME=$work/cache VGPU_LIBCUDA_DIR=$work/lib VGPU_NVML_DIR=$work/nvml
touch "$work/lib/libcuda.so.1" "$work/nvml/libnvidia-ml.so.1"
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

ok()
{
    passed=$((passed + 1))
    echo "ok - $1"
}

bad()
{
    failed=$((failed + 1))
    echo "FAIL: $1${2:+: $2}"
}

# same NAME WANT GOT
same()
{
    if [ "$2" = "$3" ]; then ok "$1"; else bad "$1" "expected '$2', got '$3'"; fi
}

# says NAME STATUS PATTERN COMMAND...: exit status, and the pattern in all of its output
says()
{
    local name=$1 want=$2 pattern=$3 text rc
    shift 3
    text=$(timeout 120 "$@" 2>&1 < /dev/null)
    rc=$?
    if [ $rc != "$want" ]; then
        bad "$name" "exit status $rc instead of $want: $text"
    elif ! grep -q -- "$pattern" <<< "$text"; then
        bad "$name" "no '$pattern' in: $text"
    else
        ok "$name"
    fi
}

# A backend that says that it is ready and waits to be ended; its arguments go to backend.args.
cat > "$work/backend" <<END
#!/bin/bash
echo "\$@" > "$work/backend.args"
echo \$\$ > "$work/backend.pid"
while [ \$# -gt 1 ]; do [ "\$1" = --ready-fd ] && fd=\$2; shift; done
printf R >&\$fd
eval "exec \$fd>&-"
sleep 600 & trap 'kill \$!; exit 0' TERM
wait
END
cat > "$work/bad-backend" <<'END'
#!/bin/sh
echo "no GPU for you" >&2
exit 3
END
chmod +x "$work/backend" "$work/bad-backend"
export VGPU_BACKEND=$work/backend
run="$vgpu run --gpu soft"

# gone PID NAME: the process ends within 5 s
gone()
{
    for _ in $(seq 50); do
        kill -0 "$1" 2> /dev/null || { ok "$2"; return; }
        sleep 0.1
    done
    bad "$2" "process $1 is still there"
}

# appears FILE: waits up to 60 s for it not to be empty
appears()
{
    for _ in $(seq 600); do
        [ -s "$1" ] && return 0
        sleep 0.1
    done
    return 1
}

echo "# help and wrong use"
says "help" 0 "vgpu vm run PROGRAM" "$vgpu" --help
says "run --help" 0 "--gpu soft|nvidia|auto" "$vgpu" run --help
says "run --help names the parts" 0 "VGPU_BACKEND" "$vgpu" run --help
says "vm run --help" 0 "--accel auto|kvm|tcg" "$vgpu" vm run --help
says "vm shell --help" 0 "gives you a shell" "$vgpu" vm shell --help
says "no command" 2 "usage: vgpu COMMAND" "$vgpu"
says "unknown command" 2 "'fly' is not a command" "$vgpu" fly
says "unknown vm command" 2 "'fly' is not a command" "$vgpu" vm fly
says "unknown option of run" 2 "vgpu run --help" "$vgpu" run --fly true
says "unknown option of vm run" 2 "vgpu vm run --help" "$vgpu" vm run --fly true
says "run without a program" 2 "which program" "$vgpu" run
says "vm run without a program" 2 "which program" "$vgpu" vm run
says "unknown GPU" 2 "'voodoo' is not one of soft, nvidia, auto" "$vgpu" run --gpu voodoo true
says "unknown accelerator" 2 "'fast' is not one of" "$vgpu" vm run --accel fast true
says "memory: no number" 2 "--memory: 'much' is not a number" "$vgpu" vm run --memory much true
says "memory below the limit" 2 "from 256" "$vgpu" vm run --memory 255 true
says "cpus above the limit" 2 "to 64" "$vgpu" vm run --cpus 65 true
says "timeout of zero" 2 "from 1" "$vgpu" vm run --timeout 0 true
says "env without =" 2 "not NAME=VALUE" "$vgpu" vm run --env X true
says "share that is not there" 2 "No such file" "$vgpu" vm run --share "$work/nothing" true
says "share of /" 2 "not shared for writing" "$vgpu" vm run --share / true
says "share of /dev" 2 "has its own /dev" "$vgpu" vm run --share /dev/shm true
says "disk that is not there" 2 "No such file" "$vgpu" vm run --disk "$work/nothing" true
says "disk that is a folder" 2 "neither a file nor a block device" "$vgpu" vm run --disk "$work" true
says "port without a colon" 2 "'80' is not HOST:GUEST" "$vgpu" vm run --port 80 true
says "port that is no number" 2 "is not a number" "$vgpu" vm run --port 80:http true
says "port above the limit" 2 "to 65535" "$vgpu" vm run --port 65536:1 true
# As many as may be, then one more: the first is wrong for another reason, which comes later.
for kind in "32 port 8000:1" "8 disk $work/backend"; do
    read -r most option value <<< "$kind"
    many=$(for _ in $(seq "$most"); do echo "--$option $value"; done)
    says "vm run: $most times --$option" 2 "cpus: .65. is not a number" "$vgpu" vm run $many --cpus 65 true
    says "vm run: --$option once more" 2 "at most $most" "$vgpu" vm run $many --$option "$value" --cpus 65 true
done
says "name that is a number" 2 "not digits alone" "$vgpu" vm run --name 17 true
says "name with a blank" 2 "is not a name" "$vgpu" vm run --name "a b" true
says "mem is memory" 2 "--memory: 'much' is not a number" "$vgpu" vm run --mem much true
says "vm list without machines" 0 "^NAME  *PID" "$vgpu" vm list
says "vm list --help" 0 "usage: vgpu vm list" "$vgpu" vm list --help
says "vm list with a word too many" 2 "'all' is not understood; see .vgpu vm list --help" "$vgpu" vm list all
says "vm stop without a name" 2 "which machine" "$vgpu" vm stop
says "vm stop --help" 0 "usage: vgpu vm stop" "$vgpu" vm stop --help
says "vm stop of none" 125 "none: no such machine runs" "$vgpu" vm stop none
says "vm stop --all without machines" 0 "" "$vgpu" vm stop --all
says "guest-bundle --help" 0 "usage: vgpu guest-bundle" "$vgpu" guest-bundle --help
says "guest-bundle without a place" 2 "--out PATH is needed" "$vgpu" guest-bundle
says "guest-bundle: a word too many" 2 "'word' is not understood" "$vgpu" guest-bundle --out "$work/none" word
says "guest-bundle without its files" 125 "files for guests" env VGPU_GUEST_FILES="$work/none" "$vgpu" guest-bundle --out "$work/b"
mkdir -p "$work/files/driver"
touch "$work/files/libcuda.so.1" "$work/files/libnvidia-ml.so.1" "$work/files/install.sh" "$work/files/driver/Kbuild"
export VGPU_GUEST_FILES=$work/files
says "guest-bundle: a folder" 0 "sh install.sh" "$vgpu" guest-bundle --out "$work/b"
same "guest-bundle: what is in it" "bin/vgpu driver/Kbuild install.sh lib/libcuda.so.1 lib/libnvidia-ml.so.1" \
    "$(cd "$work/b" && echo $(find . -type f -printf '%P\n' | sort))"
cmp -s "$vgpu" "$work/b/bin/vgpu"
same "guest-bundle: this very command is in it" 0 $?
says "guest-bundle: a folder that is there" 125 "File exists" "$vgpu" guest-bundle --out "$work/b"
says "guest-bundle: an archive" 0 "sh install.sh" "$vgpu" guest-bundle --out="$work/b.tar.gz"
same "guest-bundle: what the archive has" "vgpu-guest/bin/vgpu" "$(tar -tzf "$work/b.tar.gz" | grep 'bin/vgpu')"
for end in zip ZIP Tgz TAR tar.GZ tar.lz tar.lzma tar.Z tar.bz2 tar.x Lzma; do
    says "guest-bundle: an archive of another kind, .$end" 2 "archives are .tar" "$vgpu" guest-bundle --out "$work/c.$end"
    same "guest-bundle: no folder c.$end" "" "$(ls -d "$work/c.$end" 2> /dev/null)"
done
says "guest-bundle: a folder with a dot" 0 "sh install.sh" "$vgpu" guest-bundle --out "$work/vgpu-1.2"
says "guest-bundle: an archive that cannot be written" 125 "tar has failed" "$vgpu" guest-bundle --out "$work/none/b.tar"
unset VGPU_GUEST_FILES
# What is no machine's: no lock, a folder, a link; of a process that is there.
for kind in unlocked folder link; do
    mkdir "$work/tmp/vgpu-run.$$.$kind"
done
printf 'ghost\nnone\n1\n1\n\nx\n' > "$work/tmp/vgpu-run.$$.unlocked/vm"
mkdir "$work/tmp/vgpu-run.$$.folder/vm"
ln -s ../vgpu-run.$$.unlocked/vm "$work/tmp/vgpu-run.$$.link/vm"
same "vm list shows what a process keeps locked, nothing else" 1 "$("$vgpu" vm list | wc -l)"
# A locked file of any contents: what is missing is empty, a process that does not end is named.
exec 8< "$work/tmp/vgpu-run.$$.unlocked/vm"
flock 8
same "vm list shows a locked one" "ghost $$ none" "$("$vgpu" vm list | awk 'NR == 2 { print $1, $2, $3 }')"
printf '\377\n' > "$work/tmp/vgpu-run.$$.unlocked/vm"
same "vm list of a short file" 2 "$("$vgpu" vm list | wc -l)"
# Its folder under the name of another process of this user, as anybody can have it in /tmp.
sleep 600 8<&- & other=$!
ln -s "vgpu-run.$$.unlocked" "$work/tmp/vgpu-run.$other.x"
same "vm list: a link in place of a folder names no process" 2 "$("$vgpu" vm list | wc -l)"
kill $other
exec 8<&-
rm -r "$work"/tmp/*
# Another user's file names a process that is not his: root neither shows it nor ends it.
if [ "$(id -u)" = 0 ]; then
    as_nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
    foreign=$(mktemp -d /tmp/vgpu-foreign.XXXXXX)
    chmod 1777 "$foreign"
    sleep 600 & victim=$!
    $as_nobody sleep 600 & his=$!
    for pid in $victim $his; do
        mkdir "$foreign/vgpu-run.$pid.x"
        printf 'evil\033\302\233\nnone\n1\n1\n\nx\n' > "$foreign/vgpu-run.$pid.x/vm"
        chown -R 65534:65534 "$foreign/vgpu-run.$pid.x"
    done
    exec 8< "$foreign/vgpu-run.$victim.x/vm" 9< "$foreign/vgpu-run.$his.x/vm"
    flock 8 && flock 9
    for i in $(seq 500); do [ "$(stat -c %u "/proc/$his")" = 65534 ] && break || sleep 0.01; done
    same "vm list for root: what names a process of its user harmless for a terminal" "evil??? $his" \
        "$(TMPDIR=$foreign "$vgpu" vm list | awk 'NR > 1 { print $1, $2 }')"
    TMPDIR=$foreign timeout 10 "$vgpu" vm stop --all > /dev/null 2>&1 8<&- 9<&- & stopper=$!
    for i in $(seq 500); do [ -e "/proc/$his/exe" ] && sleep 0.01 || break; done
    exec 9<&-
    wait $stopper
    same "vm stop --all ends his" 0 $?
    kill -0 $victim 2> /dev/null
    same "vm stop --all for root leaves what another user only names" 0 $?
    kill $victim $his 2> /dev/null
    wait $victim $his 2> /dev/null
    exec 8<&-
    rm -r "$foreign"/*
    # Very many of a user, whose processes do not end: root's own are found, and all share one limit.
    cat > "$work/stay.py" << 'END'
import ctypes, fcntl, os, resource, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_NOFILE, (2000, 2000))
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: /proc has its user
keep = []
for i in range(int(sys.argv[2])):
    folder = "%s/vgpu-run.%d.%d" % (sys.argv[1], os.getpid(), i)
    os.mkdir(folder)
    keep.append(open(folder + "/vm", "w"))
    keep[-1].write("mine\nnone\n1\n1\n\nx\n")
    keep[-1].flush()
    fcntl.flock(keep[-1], fcntl.LOCK_EX)
os.mkdir("%s/ready.%d" % (sys.argv[1], os.getpid()))
time.sleep(600)
END
    his=
    for many in 1200 1 1; do
        python3 "$work/stay.py" "$foreign" $many & his="$his $!"
    done
    sleep 600 & own=$!
    for i in $(seq 1500); do [ "$(ls -d "$foreign"/ready.* 2> /dev/null | wc -l)" = 3 ] && break || sleep 0.01; done
    mkdir "$foreign/vgpu-run.$own.x"
    printf 'mine\nnone\n1\n1\n\nx\n' > "$foreign/vgpu-run.$own.x/vm"
    exec 8< "$foreign/vgpu-run.$own.x/vm"
    flock 8
    same "vm list for root: its own machine, and one of each process of a user" "4 1" \
        "$(TMPDIR=$foreign "$vgpu" vm list | awk -v own=$own 'NR > 1 { n++; mine += $2 == own } END { print n, mine }')"
    TMPDIR=$foreign timeout 30 "$vgpu" vm stop --all > /dev/null 2>&1 8<&-
    same "vm stop --all for root: one limit for all that do not end" 125 $?
    kill -0 $own 2> /dev/null
    same "vm stop --all for root ends its own beside very many of a user" 1 $?
    kill -KILL $his $own 2> /dev/null
    wait $his $own 2> /dev/null
    exec 8<&-
    rm -r "$foreign"
else
    skipped=$((skipped + 1))
    echo "not run: vm list and vm stop for root: needs root"
fi
says "part that is not there" 125 "given by --backend" "$vgpu" run --backend /nowhere true
says "part of the environment that is not there" 125 "given by VGPU_LIBCUDA_DIR" \
    env VGPU_LIBCUDA_DIR=/nowhere "$vgpu" run true

echo "# smi, trace, doctor: options"
says "smi --help" 0 "query-gpu=FIELDS" "$vgpu" smi --help
says "smi --help-query-gpu" 0 "memory.total" "$vgpu" smi --help-query-gpu
says "smi: unknown option" 2 "vgpu smi --help" "$vgpu" smi --fly
says "smi: unknown argument" 2 "'fly' is not understood" "$vgpu" smi fly
says "smi: a library that is none" 12 "libnvidia-ml" env VGPU_SOCKET=/nowhere "$vgpu" smi
# A backend's answer: clients whose names a guest has chosen, and lines that are none.
cat > "$work/status.py" <<'END'
import os, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(f"\0vgpu-backend.status.{os.getpid()}")
s.listen(8)
print(os.getpid(), flush=True)
now = 1000
while True:
    c, _ = s.accept()
    c.send(f"backend {os.getpid()} /run/{os.getpid()}.sock\nlimit weight 300\nlimit max-clients 8\nlimit vram-quota 8388608\n"
           f"vm calls 70 waits 7 errors 1 copied 4096 cpu-ms 1500 throttled-ms 250 novelty 5\nvm now-ms {now} soft 1 paced 1\n"
           "device A \"GPU\" \\\nclient 21 4711 5242880 train\nshare 21 200 50 1500\nuse 21 calls 60 waits 6 cpu-ms 1500\n"
           "client 22 4712 0 a%s%n\"\\b\nuse 23 calls 1\nuse x\nvm\nvm calls\nlimit\n"
           "client many 1 1 x\nclient 23\n\nnoise".encode())
    now += 1000
    c.close()
END
mkfifo "$work/status.fifo"
/usr/bin/python3 "$work/status.py" > "$work/status.fifo" &
status=$!
read -r pid < "$work/status.fifo"
text=$(timeout 120 "$vgpu" smi --host 2>&1)
same "smi --host: a backend, its workers and their guest processes" "/run/$pid.sock $pid 0% 5MiB / 8MiB 2 / 8 300 -
train 4711 21 0% 5MiB 60 1.5s 200 50%
a%s%n\"\\b 4712 22 0% 0MiB 0 0.0s - -" "$(grep -A 2 "^| /run/$pid.sock" <<< "$text" | tr -s ' ' | sed 's/^| //; s/ |$//')"
same "smi --host: one width, that of a terminal" 80 "$(grep '^[|+]' <<< "$text" | awk '{ print length }' | sort -u | xargs)"
text=$(timeout 120 "$vgpu" smi --host -q 2>&1 | sed -n "/^Backend $pid$/,/^Backend /p")
same "smi --host -q: device, limits and counters" "Device : A \"GPU\" \\
Throttled : 0.250 s
Calls : 70
vram-quota : 8 MiB" "$(grep -E '^    (Device|Throttled|Calls|    vram-quota) +:' <<< "$text" | tr -s ' ' | sed 's/^ //')"
says "smi --host --json: JSON with the guest's words" 0 "^8 300 train 60 200 0$" bash -c "'$vgpu' smi --host --json | /usr/bin/python3 -c '
import json, sys
b = [b for b in json.load(sys.stdin)[\"backends\"] if b[\"pid\"] == $pid][0]
c = b[\"clients\"]
assert c[1][\"name\"] == \"a%s%n\" + chr(34) + chr(92) + \"b\" and \"weight\" not in c[1]
print(b[\"limits\"][\"max-clients\"], b[\"limits\"][\"weight\"], c[0][\"name\"], c[0][\"calls\"], c[0][\"weight\"], c[0][\"utilization\"])'"
says "smi --host -l: repeats" 0 "^2$" timeout 60 bash -c "'$vgpu' smi --host --json -l 1 | head -n 2 | grep -c backends"
says "smi --json alone is wrong use" 2 "goes with --host" "$vgpu" smi --json
. "$(dirname "$0")/metrics/metrics_test.sh"
kill $status
wait $status 2> /dev/null
text=$(timeout 120 "$vgpu" smi --host 2>&1)
same "smi --host: a backend that has ended" "" "$(grep "/run/$pid.sock" <<< "$text")"
. "$(dirname "$0")/smi/status_test.sh"
. "$(dirname "$0")/smi/mute_test.sh"
. "$(dirname "$0")/smi/figures_test.sh"
. "$(dirname "$0")/smi/values_test.sh"
. "$(dirname "$0")/smi/columns_test.sh"
. "$(dirname "$0")/vm/options_test.sh"
. "$(dirname "$0")/cdi_test.sh"
says "smi: unknown GPU" 2 "'voodoo' is not one of soft, nvidia, auto" "$vgpu" smi --gpu voodoo
says "trace --help" 0 "one JSON object a line" "$vgpu" trace --help
says "trace without a program" 2 "which program" "$vgpu" trace
says "trace: unknown option" 2 "vgpu trace --help" "$vgpu" trace --fly true
says "trace: file that cannot be made" 125 "No such file" "$vgpu" trace --json /nowhere/t.json true
says "trace of a program without CUDA" 0 "no call of CUDA or NVML" "$vgpu" trace --gpu soft true
says "trace --record: a program without CUDA" 125 "" "$vgpu" trace --gpu soft --record "$work/nothing.rec" true
says "trace --record: a program that failed" 7 "" "$vgpu" trace --gpu soft --record "$work/nothing.rec" sh -c 'exit 7'
says "trace: exit status" 7 "" "$vgpu" trace --gpu soft sh -c 'exit 7'
says "trace: program not found" 127 "" "$vgpu" trace --gpu soft /nowhere/program
. "$(dirname "$0")/trace/trace_test.sh"
says "doctor --help" 0 "21 other-libcuda" "$vgpu" doctor --help
says "doctor: unknown option" 2 "vgpu doctor --help" "$vgpu" doctor --fly
says "doctor: a program without CUDA" 22 "libcuda-not-asked-for" "$vgpu" doctor --gpu soft true
says "doctor: backend that fails" 125 "no GPU for you" env VGPU_BACKEND="$work/bad-backend" \
    "$vgpu" doctor --gpu soft true

. "$(dirname "$0")/status_of_commands_test.sh"

echo "# vgpu run"
says "exit status 0" 0 "" $run true
says "exit status 7" 7 "" $run sh -c 'exit 7'
says "exit status 255" 255 "" $run sh -c 'exit 255'
says "program not found" 127 "No such file" $run /nowhere/program
says "program not found in PATH" 127 "no folder of PATH has it" $run nosuchprogram
(cd "$work" && printf '#!/bin/sh\n' > README.md && chmod +x README.md &&
    says "program of this folder without ./" 127 "cannot run README.md: .*the file of this folder is ./README.md" $run README.md
 printf '#!/nowhere/sh\n' > README.md
 says "program whose interpreter is missing" 127 "interpreter of its first line, /nowhere/sh is not there" $run ./README.md
 says "the same under trace" 127 "/nowhere/sh is not there" "$vgpu" trace --gpu soft ./README.md
 chmod -x README.md && says "program that is a text" 126 "not executable" $run ./README.md
 exit $failed)
failed=$?
says "program not executable" 126 "not executable" $run "$work/lib/libcuda.so.1"
says "backend that fails: its words" 125 "no GPU for you" $run --backend "$work/bad-backend" true
printf '#!/bin/sh\nseq 40 >&2\nexit 3\n' > "$work/many-words"
chmod +x "$work/many-words"
same "backend that fails: its last 12 lines" "29 40 12" \
    "$($run --backend "$work/many-words" true 2>&1 | grep -E '^    [0-9]+$' | awk 'NR == 1 { first = $1 } { last = $1 } END { print first, last, NR }')"
same "run --gpus: each backend has a socket of its own" "3 3" \
    "$($run --gpus 3 sh -c 'IFS=:; set -- $VGPU_SOCKET; echo $# $(printf "%s\n" "$@" | sort -u | wc -l)')"
. "$(dirname "$0")/run_test.sh"
says "backend that cannot run" 125 "cannot run the backend" $run --backend "$work/lib/libcuda.so.1" true
(exec $run sh -c 'kill -KILL $$') 2> /dev/null
same "death by a signal is passed on" 137 $?
same "standard output" "out" "$($run sh -c 'echo out; echo err >&2' 2> /dev/null)"
same "standard error" "err" "$($run sh -c 'echo out; echo err >&2' 2>&1 > /dev/null)"
same "standard input" "in" "$(echo in | $run cat)"
same "arguments arrive whole" "a b||*" "$($run printf '%s|%s|%s' 'a b' '' '*')"
same "options after the program are the program's" "--gpu" "$($run echo --gpu)"
same "our libraries come first" "$work/lib:$work/nvml:/x" "$(LD_LIBRARY_PATH=/x $run printenv LD_LIBRARY_PATH)"
case $($run printenv VGPU_SOCKET) in
"$work"/tmp/vgpu-run.*/backend.sock) ok "socket in the private folder" ;;
*) bad "socket in the private folder" ;;
esac
same "NVRTC is asked for PTX" "$out/jit/libvgpu-jit.so" "$($run printenv LD_PRELOAD)"
printf '#!/bin/sh\nprintenv LD_PRELOAD\n' > "$work/program.py"
chmod +x "$work/program.py"
says "a program of Python's: it says so" 0 "executes: LD_PRELOAD=$out/jit/libvgpu-jit.so" $run "$work/program.py"
same "trace to standard error" 1 "$($run --trace printenv VGPU_TRACE)"
same "trace to a file" t.txt "$($run --trace=t.txt printenv VGPU_TRACE)"
$vgpu run --gpu nvidia true
case $(cat "$work/backend.args") in
"--listen "*"/backend.sock --name "[0-9]*" --gpu nvidia --ready-fd "*) ok "what the backend is asked" ;;
*) bad "what the backend is asked" "$(cat "$work/backend.args")" ;;
esac
gone "$(cat "$work/backend.pid")" "the backend ends with the program"
same "nothing is left in the temporary folder" "" "$(ls "$work/tmp")"

$run sh -c "echo \$\$ > $work/pid; exec sleep 600" & launcher=$!
appears "$work/pid"
kill -TERM $launcher
wait $launcher 2> /dev/null
same "SIGTERM reaches the program" 143 $?
gone "$(cat "$work/pid")" "SIGTERM: no program is left"
gone "$(cat "$work/backend.pid")" "SIGTERM: no backend is left"
same "SIGTERM: no temporary folder is left" "" "$(ls "$work/tmp")"
rm -f "$work/pid"
$run sh -c "echo \$\$ > $work/pid; exec sleep 600" & launcher=$!
appears "$work/pid"
kill -KILL $launcher
wait $launcher 2> /dev/null
gone "$(cat "$work/pid")" "vgpu killed: no program is left"
gone "$(cat "$work/backend.pid")" "vgpu killed: no backend is left"
$run true
same "vgpu killed: the next one removes its temporary folder" "" "$(ls "$work/tmp")"

echo "# vgpu ctl"
says "ctl --help names the socket" 0 "--socket PATH" "$vgpu" ctl --help
says "ctl without a socket is wrong use" 2 "--socket PATH" "$vgpu" ctl get
says "ctl without a request is wrong use" 2 "get or set" "$vgpu" ctl --socket "$work/none"
says "ctl where nobody listens says which option is missing" 125 "--control" "$vgpu" ctl --socket "$work/none" get
says "ctl with a path that is no socket's" 2 "too long" "$vgpu" ctl --socket "$(printf '%0200d' 0)" get
says "ctl with another word than get and set" 2 "neither get nor set" "$vgpu" ctl --socket "$work/none" nonsense
says "ctl set without a name" 2 "set takes NAME VALUE" "$vgpu" ctl --socket "$work/none" set
says "ctl set with =" 2 "without '='" "$vgpu" ctl --socket "$work/none" set x=1
says "ctl get with a word too many" 2 "get takes" "$vgpu" ctl --socket "$work/none" get a b
says "ctl with a client that is no number" 2 "not the process id" "$vgpu" ctl --socket "$work/none" get a client b
says "ctl with an option for a name" 2 "not the name of a limit" "$vgpu" ctl --socket "$work/none" get --vram-quota
says "ctl with a request that is too long" 2 "at most" "$vgpu" ctl --socket "$work/none" set "$(printf '%0300d' 0)"
# It takes the request, and is stopped: the command does not stand as long as that does.
mkfifo "$work/stopped.ready"
/usr/bin/python3 -c 'import socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[1])
s.listen(1)
print(flush=True)
time.sleep(60)' "$work/stopped" > "$work/stopped.ready" &
stopped=$!
read -r _ < "$work/stopped.ready"
says "ctl: a backend that does not answer" 125 "does not answer" timeout 30 "$vgpu" ctl --socket "$work/stopped" get
kill $stopped
wait $stopped 2> /dev/null
broker=$build/host/backend/vgpu-backend
soft=$build/host/softgpu/libcuda-soft.so.1
if [ -x "$broker" ] && [ -e "$soft" ]; then
    mkfifo "$work/ready"
    "$broker" --listen "$work/v" --gpu soft --provider "$soft" --control "$work/c" --pace --log /dev/null --ready-fd 9 9> "$work/ready" &
    daemon=$!
    read -r _ < "$work/ready"
    says "ctl get lists the limits" 0 "^max-clients 64$" "$vgpu" ctl --socket "$work/c" get
    says "ctl set says what it did" 0 "^max-clients 7 (was 64)$" "$vgpu" ctl --socket "$work/c" set max-clients 7
    says "ctl set says what it left" 0 "^max-clients 7 (was 7)$" "$vgpu" ctl --socket "$work/c" set max-clients 7
    says "ctl get NAME shows it" 0 "^max-clients 7$" "$vgpu" ctl -s "$work/c" get max-clients
    # The longest request that the backend takes (brk_control.c), and one character more: command and backend agree.
    says "ctl: the longest request is the backend's to answer" 1 "no limit has this name" \
        "$vgpu" ctl --socket "$work/c" get "$(printf '%252s' '' | tr ' ' x)"
    says "ctl: one character more is not sent" 2 "at most 256 characters" \
        "$vgpu" ctl --socket "$work/c" get "$(printf '%253s' '' | tr ' ' x)"
    # What the backend refuses is said as any other words of vgpu, and begins with what is wrong.
    while IFS='|' read -r request words; do
        says "ctl $request: why it is refused" 1 "^vgpu: $words" "$vgpu" ctl --socket "$work/c" $request
    done <<'END'
set weight 0|weight: .*1 to 1000
set weight 1001|weight: .*1 to 1000
set client-weight 5 client 1|client-weight: no such client: .*smi --host
set nonsense 1|no limit has this name
get nonsense|no limit has this name
get client-weight client 1|no such client
END
    says "smi --host -q shows the limits" 0 "^        max-clients  *: 7$" "$vgpu" smi --host -q
    . "$(dirname "$0")/served_test.sh"
    kill $daemon
    wait $daemon 2> /dev/null
    says "docs/options.md and environment.md are complete" 0 "^$" env -u VGPU_BACKEND /usr/bin/python3 \
        "$(dirname "$0")/../../scripts/options.py" "$build" "$(dirname "$0")/../.."
else
    skipped=$((skipped + 1))
    echo "not run: ctl with a backend: the backend or the software GPU is not built"
fi

echo "# vgpu vm"
. "$here/vm/accel_test.sh"
. "$here/vm/host_files_test.sh"
missing=
for file in "$build/guest/initrd.cpio" "${VGPU_QEMU:-$build/qemu/bin/qemu-system-x86_64}"; do
    [ -e "$file" ] || missing="$missing $file"
done
if [ "${VGPU_TEST_NO_GUEST:-0}" = 1 ]; then
    skipped=$((skipped + 1))
    echo "not run: vm: make check boots no guest (make test does)"
elif [ -n "$missing" ]; then
    skipped=$((skipped + 1))
    echo "not run: vm: there is no$missing (make qemu-device guest)"
else
    . "$here/vm/vm_test.sh"
fi

echo "userspace/vgpu: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
