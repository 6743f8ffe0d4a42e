# SPDX-License-Identifier: MIT
# Part of vgpu_test.sh: one convention of exit statuses (vgpu(1)) for every command that `vgpu --help` names, and vgpu-backend.
echo "# exit statuses"

# status_is NAME STATUS COMMAND...
status_is()
{
    local name=$1 want=$2 text rc
    shift 2
    text=$(timeout 120 "$@" 2>&1 < /dev/null)
    rc=$?
    if [ $rc = "$want" ]; then ok "$name: $want"; else bad "$name" "exit status $rc instead of $want: $text"; fi
}

# The words after `vgpu` up to the first that is an option, a name in capitals or a description; several forms a line.
commands=$("$vgpu" --help | grep -oE '(^  |, )vgpu [a-z][a-z-]*( (run|shell|list|stop|generate))?\b' | sed 's/^[ ,]*vgpu //' | sort -u)
for command in "vm run" "guest-bundle" "replay" "doctor"; do
    grep -qx "$command" <<< "$commands" || bad "exit statuses: the commands of --help" "no '$command' in: $commands"
done
while read -r command; do
    status_is "$command --help" 0 "$vgpu" $command --help
    status_is "$command, an option that is none" 2 "$vgpu" $command --fly
    # getopt's words and ours: of vgpu, and where to read on.
    text=$("$vgpu" $command --fly 2>&1)
    same "$command, an option that is none: its text" "0 0" \
        "$(grep -vc '^vgpu: ' <<< "$text") $(grep -qE -- "see .vgpu ${command% generate} --help" <<< "$text"; echo $?)"
    # A full disk.
    "$vgpu" $command --help > /dev/full 2> /dev/null
    same "$command --help to a full disk" 125 $?
done <<< "$commands"
for command in --help --version "vm list" metrics "smi --host" "smi --host --json" "smi --host -q" "smi --help-query-gpu"; do
    "$vgpu" $command > /dev/full 2> /dev/null
    same "$command to a full disk" 125 $?
done
status_is "--version, a word too many" 2 "$vgpu" --version word
for words in nonsense set "set x=1" "set x" "get a b" "get x client y"; do
    status_is "ctl $words, before a connection" 2 "$vgpu" ctl --socket "$work/none" $words
done
for words in --format=nonsense --format=csv "--query-gpu=name --format=nonsense" "--host -i 1" "--host -L" "--host --query-gpu=name" \
    "--host --gpu soft" "--host -d MEMORY"; do
    status_is "smi $words" 2 "$vgpu" smi $words
    same "smi $words: its text" "vgpu:" "$("$vgpu" smi $words 2>&1 > /dev/null | grep -o '^vgpu:')"
done
for command in run "vm run" trace replay guest-bundle ctl cdi "vm stop"; do
    status_is "$command, and nothing else" 2 "$vgpu" $command
done
for command in metrics "vm list" smi "cdi generate"; do
    status_is "$command, a word too many" 2 "$vgpu" $command word
done
for command in run "vm run" trace doctor; do
    status_is "$command --gpu voodoo" 2 "$vgpu" $command --gpu voodoo true
done
for status in 0 1 2 7 125 255; do
    status_is "run, the program's" $status $run sh -c "exit $status"
    status_is "trace, the program's" $status "$vgpu" trace --gpu soft sh -c "exit $status"
done
# Ours: the backend does not start, a file cannot be made, a socket has nobody behind it.
for command in "run --gpu soft true" "trace --gpu soft true" "doctor --gpu soft true" "smi --gpu soft"; do
    status_is "$command, the backend fails" 125 env VGPU_BACKEND="$work/bad-backend" "$vgpu" $command
done
status_is "ctl, nobody answers" 125 "$vgpu" ctl --socket "$work/none" get
status_is "guest-bundle, its folder cannot be made" 125 env VGPU_GUEST_FILES="$work" "$vgpu" guest-bundle --out /proc/none
status_is "metrics, its socket cannot be made" 125 "$vgpu" metrics --listen /nowhere/socket
/usr/bin/python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$work/some.sock"
status_is "cdi, its file cannot be written" 125 "$vgpu" cdi generate --socket "$work/some.sock" --output /nowhere/none/file
status_is "vm stop, no such machine" 125 "$vgpu" vm stop none
if [ -x "$build/host/backend/vgpu-backend" ]; then
    backend=$build/host/backend/vgpu-backend
    status_is "vgpu-backend --help" 0 "$backend" --help
    status_is "vgpu-backend, an option that is none" 2 "$backend" --fly
    status_is "vgpu-backend, and nothing else" 2 "$backend"
    for option in vhost-user listen control status log socket-path worker; do
        status_is "vgpu-backend --$option with nothing" 2 "$backend" --listen "$work/none" --$option ""
        same "vgpu-backend --$option with nothing: its text" "vgpu-backend: --$option: its value is empty; see --help" \
            "$("$backend" --listen "$work/none" --$option= 2>&1)"
    done
    same "vgpu-backend, an option that is none: its text" "vgpu-backend: unrecognized option '--fly' vgpu-backend: see --help" \
        "$("$backend" --fly 2>&1 | xargs -d '\n')"
    "$backend" --help > /dev/full
    same "vgpu-backend --help to a full disk" 1 $?
    status_is "vgpu-backend --gpu voodoo" 2 "$backend" --listen "$work/none" --gpu voodoo
fi
