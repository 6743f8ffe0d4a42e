# SPDX-License-Identifier: MIT
# The part of vgpu_test.sh that boots guests; read by it.

vm="$vgpu vm run --gpu none --accel tcg --timeout 100"
dir="$work/a,b c"
mkdir "$dir" "$work/share"
cd "$dir" || exit 1

# One boot for all that one program can show. The folder's name has a comma and a space.
printf 'in\n' | $vm --share "$work/share" --env NEW=value sh -c '
    cat > got-stdin
    pwd > pwd
    uname -r > release
    printenv NEW > env
    echo shared > "$0/file"
    { echo x > /etc/vgpu-test && cat /etc/vgpu-test; } > overlay
    ls /dev/vgpu0 > /dev/null 2>&1 || echo none > device
    echo out
    echo out again > /dev/stdout
    echo err >&2
    exit 9' "$work/share" > "$work/out" 2> "$work/err"
same "vm: exit status" 9 $?
same "vm: standard output" "out out again" "$(echo $(cat "$work/out"))"
same "vm: standard error" "err" "$(cat "$work/err")"
same "vm: standard input and its end" "in" "$(cat got-stdin)"
same "vm: the working directory" "$dir" "$(cat pwd)"
same "vm: it is the guest's kernel" "$(cat "$build/guest/release")" "$(cat release)"
same "vm: --env" "value" "$(cat env)"
same "vm: --share is writable" "shared" "$(cat "$work/share/file")"
same "vm: the guest may write anywhere" "x" "$(cat overlay)"
[ ! -e /etc/vgpu-test ]
same "vm: and nothing of that reaches the host" 0 $?
same "vm: no device with --gpu none" "none" "$(cat device)"
same "vm: nothing is left in the temporary folder" "" "$(ls "$work/tmp")"

. "$here/vm/vm_net_test.sh"
cd "$dir" || exit 1

# A guest that is not trusted: no set-id file on the host, nothing of the host's processes.
$vm --share "$work/share" sh -c '
    cd "$0"
    touch plain && chmod 750 plain && mkdir folder && chmod 700 folder || exit 1
    for mode in 4755 2755 6000; do
        touch "m$mode" && chmod "$mode" "m$mode" 2> /dev/null && exit 2
    done
    mkdir -m 2755 setgid 2> /dev/null && exit 3
    cp --preserve=mode /usr/bin/passwd . 2> /dev/null
    [ "$(id -u)" != 0 ] || ! mknod node c 1 3 2> /dev/null || exit 4
    mkdir /tmp/lower-tree
    if mount --bind / /tmp/lower-tree 2> /dev/null; then
        ls -A /tmp/lower-tree/proc /tmp/lower-tree/sys > "$0/seen"
    fi
    exit 0' "$work/share" > /dev/null 2>&1
same "vm: a guest cannot make set-id files or device nodes" 0 $?
same "vm: none is there" "" "$(find "$work/share" -perm /6000 -o -type c)"
same "vm: other modes are kept" "750 700" "$(echo $(stat -c %a "$work/share/plain" "$work/share/folder"))"
if [ -e "$work/share/seen" ]; then
    same "vm: /proc and /sys of the host are hidden" 0 \
        "$(grep -c -v -e '^$' -e '/proc:$' -e '/sys:$' "$work/share/seen")"
else
    skipped=$((skipped + 1))
    echo "not run: vm: /proc and /sys of the host are hidden: needs root"
fi

head -c 3000000 /dev/urandom > bytes
same "vm: 3 MB through the program and both streams" "$(md5sum < bytes)" \
    "$($vm sh -c 'tee copy' < bytes | md5sum)"
same "vm: the file that it wrote is whole" "$(md5sum < bytes)" "$(md5sum < copy)"
says "vm: program not found" 127 "cannot run /nowhere/program" $vm /nowhere/program
# As `vgpu run` says on the host.
printf 'text\n' > README.md
says "vm: program that is a text" 126 "it is not executable (chmod +x)" $vm ./README.md
says "vm: program that is a folder" 126 "it is a folder" $vm "$work/share"
says "vm: program of this folder without ./" 127 "the file of this folder is ./README.md" $vm README.md
(exec $vm sh -c 'kill -SEGV $$') 2> /dev/null
same "vm: death by a signal is passed on" 139 $?

echo "insmod '$build/kernel/vgpu_drv.ko' 2> insmod.err; echo \$?" > insmod.sh
if [ -e "$build/kernel/vgpu_drv.ko" ] && [ "$(id -u)" = 0 ]; then
    $vm --keep-log "$work/kernel.log" sh insmod.sh > insmod.rc
    same "insmod without the device fails" 1 "$(cat insmod.rc)"
    grep -q "No such device" insmod.err
    same "insmod without the device: ENODEV" 0 $?
    grep -q "vgpu_drv: no vgpu-cuda device" "$work/kernel.log"
    same "insmod without the device: a line in the kernel log" 0 $?
else
    skipped=$((skipped + 1))
    echo "not run: insmod without the device: needs root and $build/kernel/vgpu_drv.ko"
fi

# qemu_of LAUNCHER: the QEMU that it started
qemu_of()
{
    for p in $(cat "/proc/$1/task/$1/children"); do
        case $(tr '\0' ' ' < "/proc/$p/cmdline") in *virtserialport*) echo "$p" ;; esac
    done
}

says "vm: --timeout" 124 "did not end within 8 s" $vgpu vm run --gpu none --accel tcg --timeout 8 sleep 600
for signal in TERM INT KILL; do
    rm -f started
    # A background job of a script ignores SIGINT unless it is given back.
    env --default-signal=INT $vm sh -c 'echo yes; sleep 600' > started & launcher=$!
    appears started || bad "vm: SIG$signal: the guest started"
    qemu=$(qemu_of $launcher)
    kill -$signal $launcher
    wait $launcher 2> /dev/null
    rc=$?
    same "vm: SIG$signal ends the command" $((128 + $(kill -l $signal))) $rc
    gone "${qemu:-0}" "vm: SIG$signal leaves no QEMU"
done
rm -f started
$vm sh -c 'echo yes; sleep 600' > started 2> "$work/err" & launcher=$!
appears started
kill -KILL "$(qemu_of $launcher)"
wait $launcher
same "vm: QEMU killed: status" 125 $?
grep -q "virtual machine ended before the program" "$work/err"
same "vm: QEMU killed: it says so" 0 $?
same "vm: killed ones leave no temporary folder" "" "$(ls "$work/tmp")"
says "vm: QEMU's own error is shown" 125 "kernel too old" \
    $vgpu vm run --gpu none --accel tcg --kernel /etc/passwd true

# A QEMU that hangs with KVM, as on machines where /dev/kvm is there and does not work.
cat > "$work/qemu" <<END
#!/bin/bash
case "\$*" in *-version*) exit 1 ;; esac
echo qemu >> "$work/qemu.calls"
case "\$*" in *accel=kvm*) exec sleep 600 ;; esac
exec "${VGPU_QEMU:-$build/qemu/bin/qemu-system-x86_64}" "\$@"
END
chmod +x "$work/qemu"
if [ -r /dev/kvm ] && [ -w /dev/kvm ]; then
    says "vm: KVM that hangs: falls back and says so" 0 "did not boot with it within the time" \
        $vgpu vm run --gpu none --qemu "$work/qemu" --timeout 60 true
    same "vm: KVM that hangs was tried" 3 "$(wc -l < "$work/qemu.calls")"
    says "vm: KVM that hangs is not tried again" 0 "KVM does not work on this machine" \
        $vgpu vm run --gpu none --qemu "$work/qemu" --timeout 60 true
    same "vm: KVM that hangs was not tried" 4 "$(wc -l < "$work/qemu.calls")"
else
    says "vm: no /dev/kvm: falls back and says so" 0 "KVM cannot be used" \
        $vgpu vm run --gpu none --timeout 60 true
    skipped=$((skipped + 1))
    echo "not run: KVM that hangs: /dev/kvm is not there or not ours"
fi
