# SPDX-License-Identifier: MIT
# Part of run.sh: the faulty set-ups of setups.txt.
echo "# broken set-ups"
s=$work/setups L=$build/userspace/libcuda C=$out/client C_static=$out/client machine=$out/machine.so other=$out/other/libcuda.so.1
D=$doctor Q="env VGPU_BACKEND=$work/setups/limited" H="$vgpu doctor" R="$vgpu run --gpu soft" M="env LD_PRELOAD=$machine"
long=$(printf 'x%.0s' $(seq 120))

# patched FROM TO OFFSET BYTES: copies FROM to TO with BYTES at OFFSET
patched()
{
    mkdir -p "$(dirname "$2")"
    cp "$1" "$2"
    printf "$4" | dd of="$2" bs=1 seek="$3" conv=notrunc status=none
}

make_machines()
{
    local driver
    mkdir -p "$s"/empty "$s"/bus/0000:00:03.0 "$s"/{driver,container_driver}/sys/class/misc/vgpu0 \
        "$s"/{driver,container_driver,loaded}/sys/module/vgpu_drv "$s"/{container,container_driver,container_installed}/run
    echo 0x1af4 > "$s/bus/0000:00:03.0/vendor"
    echo 0x107f > "$s/bus/0000:00:03.0/device"
    touch "$s"/{container,container_driver,container_installed}/run/.containerenv
    for driver in installed container_installed; do
        mkdir -p "$s/$driver/lib/modules/$(uname -r)"
        echo "updates/dkms/vgpu_drv.ko.xz:" > "$s/$driver/lib/modules/$(uname -r)/modules.dep"
    done
    python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).bind(sys.argv[1])' "$s/stale.sock"
}

make_libraries()
{
    mkdir -p "$s"/{text_first,empty_first,cut,folder/libcuda.so.1,lacks,dangling}
    echo text > "$s/text"
    echo text > "$s/text_first/libcuda.so.1"
    : > "$s/empty_first/libcuda.so.1"
    head -c 4096 "$L/libcuda.so.1" > "$s/cut/libcuda.so.1"
    ln -s /nowhere/libcuda.so.1 "$s/dangling/libcuda.so.1"
    # Offsets of the class and machine fields in an ELF header.
    patched "$other" "$s/narrow/libcuda.so.1" 4 '\001'
    patched "$other" "$s/arm/libcuda.so.1" 18 '\267\000'
    gcc -shared -fPIC -x c /dev/null -x none -o "$s/libnowhere.so.7" -Wl,-soname,libnowhere.so.7
    gcc -shared -fPIC -x c "$here/other.c" -x none -o "$s/lacks/libcuda.so.1" -Wl,--no-as-needed "$s/libnowhere.so.7"
    gcc -shared -fPIC -x c "$here/other.c" -x none -o "$s/preloaded.so" -Wl,-soname,libcuda.so.1
}

# A backend with the options of $LIMIT.
make_limited()
{
    printf '#!/bin/sh\nexec "%s" "$@" $LIMIT\n' "$build/host/backend/vgpu-backend" > "$s/limited"
    chmod +x "$s/limited"
}

make_programs()
{
    local main='int main(void) { return 1; }'
    gcc -x c - -x none -o "$s/static" -static <<< "$main"
    gcc -x c - -x none -o "$s/static_pie" -static-pie <<< "$main"
    gcc -x c - -x none -o "$s/musl" -Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1 <<< "$main"
    gcc -x c - -x none -o "$s/no_loader" -Wl,--dynamic-linker=/nowhere/ld.so <<< "$main"
    gcc -x c - -x none -o "$s/needs" -Wl,--no-as-needed "$s/libnowhere.so.7" <<< "$main"
    gcc -x c - -x none -o "$s/linked" "$other" <<< 'int cuInit(unsigned); int main(void) { return cuInit(0) != 0; }'
    rm "$s/libnowhere.so.7"
    patched "$s/static" "$s/program32" 4 '\001'
    patched "$s/static" "$s/program_arm" 18 '\267\000'
    cp "$C" "$s/setuid"
    printf '#!/bin/sh\nexit 1\n' > "$s/script"
    printf '#!/nowhere/sh\nexit 1\n' > "$s/no_interpreter"
    printf '#!/bin/sh\r\nexit 1\r\n' > "$s/windows"
    # The loader's message for such a program.
    printf '#!/bin/sh\necho "p: /lib/libc.so.6: version \\`GLIBC_2.99'"'"' not found (required by p)" >&2\nexit 1\n' > "$s/newer_libc"
    cp "$s/script" "$s/not_in_path"
    chmod 755 "$s"/{not_in_path,script,no_interpreter,windows,newer_libc}
    [ "$(id -u)" != 0 ] || { chown 65534 "$s/setuid" && chmod 4755 "$s/setuid"; }
}

# setup_line NAME VERDICT STATUS TEXT NOT COMMAND
setup_line()
{
    local text rc
    # A set-id program takes effect only for users other than its owner.
    if [ "${6#\$root }" != "$6" ] && [ "$(id -u)" != 0 ]; then
        skipped=$((skipped + 1))
        echo "not run: $1: root is needed"
        return
    fi
    text=$(cd "$s" && eval "timeout 120 ${6#\$root }" 2>&1 < /dev/null)
    rc=$?
    if [ $rc != "$3" ] || ! grep -q "^verdict: $2[ :]" <<< "$text"; then
        bad "$1" "exit status $rc instead of $3, or not $2: $text"
    elif ! grep -qE -- "$4" <<< "$text" || grep -qE -- "$5" <<< "$text"; then
        bad "$1" "no '$4', or '$5', in: $text"
    elif [[ $6 != *'$tree '* ]] && words_of_tree "$text" > /dev/null; then
        bad "$1" "words of the source tree: $(words_of_tree "$text")"
    else
        ok "$1: $2"
    fi
}

mkdir -p "$s"
make_machines
make_libraries
make_limited
make_programs
# The separator is a bar between blanks, since regular expressions use bars without blanks.
while IFS= read -r line; do
    case $line in '#'* | '') continue ;; esac
    IFS=$'\x01' read -r -a field <<< "${line// | /$'\x01'}"
    [ ${#field[@]} = 6 ] || { bad "setups.txt" "not six fields: $line"; continue; }
    setup_line "${field[@]}"
done < "$here/setups.txt"
