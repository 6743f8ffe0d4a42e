# SPDX-License-Identifier: MIT
# Shell functions of run.sh; sourced. Needs: out, build, here, vgpu, CUDA_HOME.

passed=0 failed=0 skipped=0
ok() { passed=$((passed + 1)); echo "ok - $1"; }
bad() { failed=$((failed + 1)); echo "FAIL: $1: $2"; }
not_run() { skipped=$((skipped + 1)); echo "not run: $1: $2"; }

host=$out/host
libs=$host/usr/lib/x86_64-linux-gnu

# have CLIENT GROUP: true if its packages are available; otherwise `not run` gives the reason.
have()
{
    local why

    why=$(bash "$here/get.sh" "$out" "$2" 2> /dev/null) && return 0
    not_run "$1" "the packages of $2 cannot be had: $(tail -n 1 <<< "$why")"
    return 1
}

# here_ COMMAND...: runs COMMAND with the unpacked packages beside the machine's own.
here_()
{
    env PATH="$out/bin:$host/usr/bin:$PATH" PYTHONPATH="$host/usr/lib/python3/dist-packages" PYTHONDONTWRITEBYTECODE=1 \
        LD_LIBRARY_PATH="$libs:$libs/blas:$libs/lapack:$libs/pulseaudio:$CUDA_HOME/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
        HWLOC_PLUGINS_PATH="$libs/hwloc" HOME="$out/home" XDG_CACHE_HOME="$out/home/cache" "$@"
}

# starts CLIENT COMMAND...: true if COMMAND starts, without a GPU; otherwise `not run` gives the reason, as unpacked
# packages may not fit every machine.
starts()
{
    local client=$1

    shift
    here_ timeout 120 "$@" > "$log" 2>&1 < /dev/null && return 0
    not_run "$client" "does not start on this machine: $(tail -n 1 "$log")"
    return 1
}

# on SECONDS COMMAND...: the same with our GPU, over the socket. SECONDS is generous, to suit slow machines.
on()
{
    local limit=$1

    shift
    here_ timeout "$limit" "$vgpu" run --gpu soft "$@"
}

# older COMMAND...: for `on`: the program sees libcuda.so.1 of CUDA 12.4's driver (see older.py).
older()
{
    if [ ! -e "$out/cuda12/libcuda.so.1" ] || [ "$build/userspace/libcuda/libcuda.so.1" -nt "$out/cuda12/libcuda.so.1" ]; then
        mkdir -p "$out/cuda12"
        /usr/bin/python3 "$here/older.py" 12040 "$here/../../../protocol/cuda_symbols.tsv" \
            "$build/userspace/libcuda/libcuda.so.1" "$out/cuda12/libcuda.so.1" > /dev/null || return 1
        ln -sf libcuda.so.1 "$out/cuda12/libcuda.so"
    fi
}

# lines CLIENT TEXT STATUS: counts the "ok NAME" and "wrong NAME" lines of our own client.
lines()
{
    local line

    while read -r line; do
        case $line in
        "ok "*) ok "$1: ${line#ok }" ;;
        "wrong "*) bad "$1: ${line#wrong }" "another result than on the processor" ;;
        esac
    done <<< "$2"
    [ "$3" = 0 ] || grep -q '^wrong' <<< "$2" || bad "$1" "ended with $3: $(tail -n 3 <<< "$2" | tr '\n' ' ')"
}

# same NAME WANTED GOT
same() { if [ -n "$2" ] && [ "$2" = "$3" ]; then ok "$1: $3"; else bad "$1" "'$3' instead of '$2'"; fi; }

# inside ROOT COMMAND...: for `on`: runs COMMAND in a separate root (groups.txt: own) with the machine's /proc,
# /dev, /tmp, the toolkit and this tree. Needs root or user namespaces.
inside="$here/inside.sh"
can_inside() { bash "$inside" --test 2> /dev/null; }
