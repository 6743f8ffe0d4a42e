# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Part of install_test.sh: what programs of the system say about the installed files. Sourced, not run.

echo "# what the system's programs say about the files"
PREFIX=/usr DESTDIR=$work/sys "$install" backend tools libcuda dkms
units=$work/sys/usr/lib/systemd/system

/usr/bin/python3 - "$work/sys/usr/share/qemu/vhost-user/50-vgpu.json" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
# VHostUserBackend of QEMU's vhost-user.json: these keys and types; "gpu" would be taken for virtio-gpu.
types = "9p balloon block caif console crypto input net rng rpmsg rproc-serial scsi vsock fs".split()
assert set(d) <= {"description", "type", "binary", "tags"} and {"description", "type", "binary"} <= set(d), d
assert d["type"] in types and d["binary"] == "/usr/lib/vgpu/vgpu-backend", d
assert all(isinstance(t, str) for t in d["tags"]), d
PY
check "50-vgpu.json is what QEMU's schema wants" $?
backend_type=$("$build/host/backend/vgpu-backend" --print-capabilities | sed -n 's/.*"type": "\([a-z]*\)".*/\1/p')
grep -q "\"type\": \"$backend_type\"" "$work/sys/usr/share/qemu/vhost-user/50-vgpu.json"
check "the backend prints the same type" $? "$backend_type"

# The unit with paths that are there: systemd looks whether the program can be run.
if command -v systemd-analyze > /dev/null; then
    mkdir -p "$work/units"
    for file in "$units"/*; do
        sed "s|/usr/lib/vgpu|$build/host/backend|; s|^User=vgpu|User=root|; s|^Group=vgpu|Group=root|; s|man:vgpu(1)|https://localhost/|" \
            "$file" > "$work/units/${file##*/}"
    done
    text=$(SYSTEMD_UNIT_PATH="$work/units:" timeout 60 systemd-analyze verify --man=no \
        "$work/units/vgpu-backend@test.service" "$work/units/vgpu-backend@test.socket" 2>&1)
    rc=$?
    text=$(grep -E 'vgpu|/units/' <<< "$text")
    [ $rc = 0 ] && [ -z "$text" ]
    check "systemd-analyze verify" $? "exit status $rc: $text"
    # 0 is closed, 10 is open. What is left open is named in the unit, with the reason.
    cp "$work/units/vgpu-backend@.service" "$work/units/vgpu-backend-test.service"
    text=$(timeout 60 systemd-analyze security --offline=true --threshold=30 "$work/units/vgpu-backend-test.service" 2>&1)
    check "systemd-analyze security: at most 3.0" $? "$(tail -n 1 <<< "$text")"
    grep -o 'Overall exposure.*[0-9.]* [A-Z]*' <<< "$text" | sed 's/^/    /'
    # What a worker's own filter lets through must get through the unit's, too.
    # @system-service and the like are lists of names and of further lists.
    text=$(systemd-analyze --no-pager syscall-filter 2> /dev/null | sed 's/\x1b\[[0-9;]*m//g' | awk '
        FILENAME == "-" { if (/^@/) group = $1; else if (/^ +[@a-z]/) member[group] = member[group] " " $1; next }
        FILENAME ~ /service$/ { sub(/^SystemCallFilter=/, "") || $0 = ""; unit = unit " " $0; next }
        !/^(#|default|$)/ && !/ (kill|errno.*|log)$/ { wanted[$1] = 1 }
        function allow(list,    n, i, a) {
            n = split(list, a, " ")
            for (i = 1; i <= n; i++)
                if (a[i] ~ /^@/) { if (!seen[a[i]]++) allow(member[a[i]]) } else allowed[a[i]] = 1
        }
        END { allow(unit); for (w in wanted) { n++; if (!(w in allowed)) print w } if (n < 50) print "only " n " names read" }
        ' - "$here/systemd/vgpu-backend@.service" "$top"/host/backend/policies/*.seccomp)
    [ -z "$text" ]
    check "the unit's system call filter has what the workers' have" $? "$(echo $text)"
else
    skip "systemd-analyze verify, security" "systemd-analyze is not installed"
fi

# Each virtual machine's backend is a user of its own, and its socket is for its QEMU alone.
# setting UNIT KEY: its values, in one line
setting()
{
    sed -n "s/^$2=//p" "$units/$1" | xargs
}
text=$(setting vgpu-backend@.service DynamicUser)/$(setting vgpu-backend@.service User)$(setting vgpu-backend@.service Group)
[ "$text" = yes/vgb-%i ]
check "the backend's unit has a user for each instance" $? "$text"
text=$(setting vgpu-backend@.service SupplementaryGroups)
[ "$text" = "render vgpu_arbiter" ]
check "the backend's unit is in no group that QEMU is in" $? "$text"
[ "$(setting vgpu-backend@.service RuntimeDirectory)" = vgpu-backend/%i ] && [ "$(setting vgpu-backend@.service RuntimeDirectoryMode)" = 0711 ]
check "the backend's folder is its own, at the place where vgpu smi --host looks" $?
text=$(setting vgpu-metrics.service User)
grep -q -- "--status %t/vgpu-backend/%i/status --status-user $text " "$units/vgpu-backend@.service"
check "the backend's status is for the user of vgpu-metrics" $? "$text"
text=$(setting vgpu-backend@.socket SocketGroup)/$(setting vgpu-backend@.socket SocketUser)/$(setting vgpu-backend@.socket SocketMode)
[ "$text" = vgpu-%i/root/0660 ]
check "the socket is of a group for each instance" $? "$text"
grep -qx "ExecStartPre=systemd-sysusers --inline \"g $(setting vgpu-backend@.socket SocketGroup) -\"" "$units/vgpu-backend@.socket"
check "the socket's unit makes that group" $?
# The unit may write where the arbiter's file is, which the others' rights on it allow.
grep -qx "ReadWritePaths=-/run/vgpu-arbiter" "$units/vgpu-backend@.service"
check "the backend's unit may write the arbiter's file" $?
[ "$(setting vgpu-backend@.service Slice)" = vgpu.slice ] && [ "$(setting vgpu-backend@.service Delegate)" = "pids memory cpu" ] &&
    grep -qx "ReadWritePaths=-/sys/fs/cgroup/vgpu.slice/%n" "$units/vgpu-backend@.service"
check "the backend's unit may divide its own control group" $?
if [ "$(id -u)" = 0 ] && command -v systemd-sysusers > /dev/null && command -v systemd-tmpfiles > /dev/null; then
    root=$work/users
    mkdir -p "$root/etc" "$root/run"
    printf 'root:x:0:0::/root:/bin/sh\n' > "$root/etc/passwd" && printf 'root:x:0:\n' > "$root/etc/group"
    text=$(systemd-sysusers --root="$root" "$here/systemd/vgpu.sysusers" 2>&1 && systemd-sysusers --root="$root" --inline "g vgpu-test -" 2>&1 &&
        SYSTEMD_LOG_LEVEL=err systemd-tmpfiles --root="$root" --create "$here/systemd/vgpu.tmpfiles" 2>&1)
    check "systemd makes users, groups and the arbiter's file" $? "$text"
    gid=$(sed -n 's/^vgpu_arbiter:[^:]*:\([0-9]*\):$/\1/p' "$root/etc/group")
    text=$(stat -c '%a %u %g' "$root/run/vgpu-arbiter" "$root/run/vgpu-arbiter/host" | xargs)
    [ -n "$gid" ] && [ "$text" = "750 0 $gid 660 0 $gid" ]
    check "the arbiter's file is root's, and its group's to write" $? "$gid: $text"
    grep -q '^vgpu-test:[^:]*:[0-9]*:$' "$root/etc/group"
    check "nobody is in the group of a socket until the administrator says who" $? "$(cat "$root/etc/group")"
    ! grep -qE '^[^:]*:[^:]*:[^:]*:.' "$root/etc/group"
    check "the user vgpu is in no group of devices" $? "$(cat "$root/etc/group")"
else
    skip "systemd makes users, groups and the arbiter's file" "needs root, systemd-sysusers and systemd-tmpfiles"
fi

if udevadm verify --help > /dev/null 2>&1; then
    text=$(udevadm verify "$work/sys/usr/lib/udev/rules.d/60-vgpu.rules" 2>&1)
    check "udevadm verify" $? "$text"
else
    grep -qE '^SUBSYSTEM=="misc", KERNEL=="vgpu\[0-9\]\*", GROUP="render", MODE="0660", TAG\+="uaccess", TAG\+="systemd", ENV\{SYSTEMD_WANTS\}\+="vgpu-cdi.service"$' \
        "$work/sys/usr/lib/udev/rules.d/60-vgpu.rules"
    check "udev rule (this udevadm has no verify)" $?
fi

grep -hq '^SUBSYSTEM=="misc", KERNEL=="vgpu\[0-9\]\*", GROUP="render", MODE="0660", ' "$work/sys/usr/lib/udev/rules.d/60-vgpu.rules" &&
    ! grep -E 'MODE=' "$work/sys/usr/lib/udev/rules.d/60-vgpu.rules" | grep -qv 'MODE="0660"'
check "udev rule: the device is the group's" $?

# What can be run is executable, and nothing else is.
text=$(find "$work/sys" -type f | while read -r file; do
    case $(head -c 4 "$file" | tr -d '\0') in
    '#!/'*) want=755 ;;
    $'\x7fELF') case $file in *.so | *.so.* | *.ko) want=644 ;; *) want=755 ;; esac ;;
    *) want=644 ;;
    esac
    [ "$(stat -c %a "$file")" = $want ] || echo "$file: $(stat -c %a "$file"), not $want"
done)
[ -z "$text" ]
check "modes: programs are executable, and nothing else" $? "$text"
# Names that kmod looks for: of the module that the source makes.
module=$(sed -n 's/^obj-.*= *\(.*\)\.o$/\1/p' "$top/kernel/vgpu_drv/Kbuild")
text=$(grep -v '^#' "$work/sys/usr/lib/modules-load.d/vgpu.conf" | xargs)
[ -n "$module" ] && [ "$text" = "$module" ]
check "modules-load.d: the module" $? "$text, not $module"
text=$(awk '!/^#/ && NF { print $1, $2 }' "$work/sys/usr/lib/modprobe.d/vgpu.conf" | sort -u)
! grep -vE "^(softdep|options|alias|install) $module$" <<< "$text"
check "modprobe.d: lines that kmod knows, for the module" $? "$text"

# DKMS reads its configuration as a shell script.
export kernel_source_dir=/headers dkms_tree=/tree
text=$(. "$work/sys/usr/src/vgpu-$version/dkms.conf" && echo "$PACKAGE_NAME $PACKAGE_VERSION ${BUILT_MODULE_NAME[0]} $AUTOINSTALL")
[ "$text" = "vgpu $version vgpu_drv yes" ]
check "dkms.conf" $? "$text"

# The driver builds from the installed source alone, as DKMS calls it.
headers=$build/guest/headers
if [ -e "$headers/Makefile" ]; then
    cp -r "$work/sys/usr/src/vgpu-$version" "$work/module"
    mkdir -p "$work/tree/vgpu/$version" && mv "$work/module" "$work/tree/vgpu/$version/build"
    export kernel_source_dir=$(realpath "$headers") dkms_tree=$work/tree
    make_line=$(. "$work/tree/vgpu/$version/build/dkms.conf" && echo "${MAKE[0]}")
    # pahole comes with Debian's package of the headers; those of the guest are unpacked without what they depend on.
    command -v pahole > /dev/null || make_line="$make_line CONFIG_DEBUG_INFO_BTF_MODULES="
    text=$(timeout 300 bash -c "$make_line" 2>&1)
    [ -s "$work/tree/vgpu/$version/build/vgpu_drv.ko" ]
    check "the driver builds from the installed source" $? "$(tail -n 5 <<< "$text")"
else
    skip "the driver builds from the installed source" "the guest kernel's headers are not there: make guest"
fi

# Where NVIDIA's library is in a folder of the multiarch list, the loader's cache has it before ours.
root=$work/ldroot
mkdir -p "$root/etc/ld.so.conf.d" "$root/usr/lib/x86_64-linux-gnu" "$root/usr/lib/vgpu/libcuda" "$root/lib"
echo 'include /etc/ld.so.conf.d/*.conf' > "$root/etc/ld.so.conf"
echo /usr/lib/x86_64-linux-gnu > "$root/etc/ld.so.conf.d/x86_64-linux-gnu.conf"
cp "$work/sys/etc/ld.so.conf.d/zz-vgpu.conf" "$root/etc/ld.so.conf.d/"
cp "$build/userspace/libcuda/libcuda.so.1" "$root/usr/lib/vgpu/libcuda/"
first()
{
    /sbin/ldconfig -r "$root" 2> /dev/null && /sbin/ldconfig -r "$root" -p | sed -n 's/^\tlibcuda.so.1 .* => //p' | head -n 1
}
if [ "$(id -u)" = 0 ]; then
    text=$(first)
    [ "$text" = /usr/lib/vgpu/libcuda/libcuda.so.1 ]
    check "ld.so.conf.d: the loader finds our libcuda.so.1" $? "$text"
    cp "$build/userspace/libcuda/libcuda.so.1" "$root/usr/lib/x86_64-linux-gnu/libcuda.so.1"
    text=$(first)
    [ "$text" = /usr/lib/x86_64-linux-gnu/libcuda.so.1 ]
    check "ld.so.conf.d: NVIDIA's libcuda.so.1 comes first" $? "$text"
else
    skip "ld.so.conf.d" "ldconfig -r needs root"
fi

if command -v man > /dev/null; then
    for page in vgpu vgpu-qemu; do
        text=$(LC_ALL=C MANROFFSEQ= MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$here/$page.1" 2>&1 > /dev/null)
        [ -z "$text" ]
        check "the manual page of $page has no error" $? "$text"
    done
else
    skip "the manual page has no error" "man is not installed"
fi

text=$(sed -n '1s/.*(\(.*\)).*/\1/p' "$top/debian/changelog") # one version for all
[ "$text" = "$version" ] && [ "$("$build/userspace/vgpu/vgpu" --version)" = "vgpu $version" ]
check "debian/changelog, the backend and vgpu have one version" $? "$text, $version"
# What is installed by default is in a package.
text=$(sed -n 's/^\t$(call part,[a-z0-9-]*,\(.*\))$/\1/p' "$top/debian/rules" | tr ' ' '\n' | sort | tr '\n' ' ')
[ "$text" = "\$(OBJECT) backend dkms guest libcuda qemu softgpu tools vm " ]
check "each part is in a package" $? "$text"
