#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Ollama in a guest, queried from the host: starts the server there, forwards a port of this machine to it,
# creates a model and prints its tokens as they arrive.
#
#   demo.sh [--host] [--gpu soft|nvidia|auto] [--port PORT] [--keep] --model GGUF BUILD
#
# --host: over a unix socket, without a virtual machine. --port: port of this machine, on 127.0.0.1 only (default: the
# first free port from 11434 on). --keep: serves until Ctrl-C. Exit status 0: the GPU computed the tokens.

set -u -o pipefail
here=$(cd "$(dirname "$0")" && pwd)
gpu=() port= keep= where=guest
while [ $# -gt 0 ]; do
    case $1 in
    --host) where=host ;;
    --gpu) gpu=(--gpu "${2:?}"); shift ;;
    --port) port=${2:?}; shift ;;
    --keep) keep=1 ;;
    --model) model=${2:?}; shift ;;
    --help) sed -n '4,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) BUILD=$1 ;;
    esac
    shift
done
BUILD=$(cd "${BUILD:?}" && pwd) || exit 1
. "$here/../../../scripts/lib.sh"
vgpu=$BUILD/userspace/vgpu/vgpu
ollama=$BUILD/ollama/bin/ollama
for name in $(compgen -e OLLAMA_) $(compgen -e LLAMA_ARG_); do unset "$name"; done
CUDA_HOME=${CUDA_HOME:-$("$SCRIPTS/find-cuda.sh" --where)}
export LD_LIBRARY_PATH=$CUDA_HOME/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export GGML_NO_BACKTRACE=1 OLLAMA_NO_CLOUD=1

# taken PORT: true if a process listens on PORT.
taken() { (exec 3<> "/dev/tcp/127.0.0.1/$1") 2> /dev/null; }
if [ -z "$port" ]; then
    port=11434
    while taken "$port"; do port=$((port + 1)); done
elif taken "$port"; then
    die "port $port is in use: name another with --port"
fi
inner=$port
[ $where = host ] || inner=11434

work=$BUILD/demo-ollama
rm -rf "$work"
mkdir -p "$work/home"
cd "$work" || exit 1
# Number of tokens per answer; the model itself never stops.
printf 'FROM %s\nPARAMETER num_predict 48\nPARAMETER temperature 0\n' "$model" > Modelfile
cat > inside.sh <<END
export HOME=$(printf %q "$work/home") OLLAMA_HOST=127.0.0.1:$inner
# Ollama gives a GPU 30 s to start; an emulated CPU needs a second attempt, with the files cached.
for attempt in 1 2 3; do
    $(printf %q "$ollama") serve > serve.log 2>&1 &
    server=\$!
    until grep -q 'inference compute' serve.log; do
        kill -0 \$server 2> /dev/null || { tail -n 5 serve.log; exit 1; }
        sleep 0.2
    done
    grep -q 'discovery watchdog timed out' serve.log || break
    kill \$server
    wait \$server
    [ \$attempt != 3 ] || { echo "this machine is too busy: Ollama's limit of 30 s has passed three times"; exit 1; }
done
printf '%s, Linux %s: ' "\$(hostname)" "\$(uname -r)"
sed -n 's/.*msg="inference compute" //p' serve.log
$(printf %q "$ollama") create demo -f Modelfile > create.log 2>&1 || { tail -n 1 create.log | tail -c 300; exit 1; }
echo 'model demo: created'
wait \$server
END

say "$("$SCRIPTS/ollama.sh" --version); model: $(basename "$model"), made here from a seed"
if [ $where = guest ]; then
    say "booting a guest: Debian's stock kernel $(cat "$BUILD/guest/release"), -device vgpu-cuda"
    command=(/usr/bin/python3 -B "$here/forward.py" "$port" "$vgpu" vm run "${gpu[@]}" --memory 4096 --keep-log "$work/kernel.log"
        /usr/bin/python3 -B "$here/forward.py" --guest "$inner" /bin/bash inside.sh)
else
    command=("$vgpu" run "${gpu[@]}" /bin/bash inside.sh)
fi
"${command[@]}" < /dev/null > output.txt 2>&1 &
server=$!
trap 'kill $server 2> /dev/null; wait $server 2> /dev/null' EXIT
trap 'exit 130' INT TERM
shown=0
# Waits until the model exists or Ollama has exited.
while :; do
    alive=1
    kill -0 $server 2> /dev/null || alive=
    lines=$(wc -l < output.txt)
    [ "$lines" -gt $shown ] && sed -n "$((shown + 1)),${lines}p" output.txt
    shown=$lines
    grep -q '^model demo: created' output.txt && break
    [ -n "$alive" ] || die "the server has ended; its log: $work/serve.log"
    sleep 0.3
done
url=http://127.0.0.1:$port
say "\$ curl $url/api/generate -d '{\"model\":\"demo\", \"prompt\":\"The host reads the call\", \"raw\":true}'"
/usr/bin/python3 -B "$here/ask.py" "$url" demo "The host reads the call" || die "no answer; the server's log: $work/serve.log"
say "the answer is nonsense, since the weights are random: shown is that Ollama serves with the GPU; make demo-llm compares the figures"
say "served from: $url -> $([ $where = host ] && echo 'a process on this machine' || echo "the guest, port $inner")"
if [ -n "$keep" ]; then
    say "serving until Ctrl-C: OLLAMA_HOST=127.0.0.1:$port $ollama run demo"
    wait $server
fi
