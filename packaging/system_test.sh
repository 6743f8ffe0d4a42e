# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Part of install_test.sh: scripts that act on the system: maintainer scripts of the packages, install.sh without DESTDIR,
# install.sh of `vgpu guest-bundle`. They run in an overlay over this machine's root, in a mount namespace, and the programs
# that they call are stand-ins. What is left in the overlay is what a script has left. Sourced, not run.

echo "# scripts that act on the system"
stand=$work/stand
mkdir -p "$stand"
for name in ldconfig systemctl deb-systemd-invoke depmod modprobe udevadm gcc; do
    printf '#!/bin/sh\necho "%s $*" >> "%s/called"\n' $name "$work" > "$stand/$name"
done
printf '#!/bin/sh\necho 1.0-test\n' > "$stand/uname"
cat > "$stand/make" <<END
#!/bin/sh
echo "make \$*" >> "$work/called"
for word; do case \$word in M=*) echo module > "\${word#M=}/vgpu_drv.ko" ;; esac; done
END
cat > "$stand/with-dkms" <<END
#!/bin/sh
echo "dkms \$*" >> "$work/called"
[ "\$1" != status ] || [ ! -e "/usr/src/vgpu-$version" ] || echo "vgpu/$version, 1.0-test, x86_64: installed"
END
chmod +x "$stand"/*

# In the namespace: mounts the overlay and runs the rest there. What it leaves is in $work/left, one path a line.
cat > "$work/in-overlay.sh" <<END
set -e
at=$work/overlay
mkdir -p "\$at" && mount -t tmpfs none "\$at" && mkdir "\$at/up" "\$at/work" "\$at/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=\$at/up,workdir=\$at/work" "\$at/root" || exit 77
for place in /dev /proc "$work" "$top" "$build"; do
    mkdir -p "\$at/root\$place" && mount --rbind "\$place" "\$at/root\$place"
done
mount -t tmpfs none "\$at/root/run" && mkdir -p "\$at/root/tmp"
set +e
PATH=$stand:\$PATH chroot "\$at/root" bash -c "\$1"
rc=\$?
# But for this machine's DKMS, which some tests take away.
(cd "\$at/up" && find . ! -type d ! -path '*/sbin/dkms' | sed 's/^\.//' | sort) > "$work/left"
exit \$rc
END

# in_overlay COMMANDS: with the stand-ins first in the path. What they were called with is in $work/called.
in_overlay()
{
    : > "$work/called"
    timeout 120 unshare $([ "$(id -u)" = 0 ] || echo -r) -m --propagation private bash "$work/in-overlay.sh" "$1" 2>&1
}

text=$(in_overlay :)
if [ $? != 0 ]; then
    skip "scripts that act on the system" "no overlay over / can be mounted in a namespace: $(tail -n 1 <<< "$text")"
    return 0
fi
[ ! -s "$work/left" ]
check "overlay: nothing is in it at first" $? "$(cat "$work/left")"

# called NAME WANT: what the stand-ins were called with, in one line each, a semicolon between them
called()
{
    local text

    text=$(paste -sd ';' "$work/called")
    [ "$text" = "$2" ]
    check "$1" $? "called: $text"
}

# Virtual machines run while the host's packages are upgraded.
for action in "upgrade 0.2" "failed-upgrade 0.2" "deconfigure in-favour x 1"; do
    in_overlay "mkdir -p /run/systemd/system; sh $top/debian/vgpu-backend.prerm $action" > "$work/log"
    called "prerm $action: no backend is stopped" ""
done
in_overlay "sh $top/debian/vgpu-backend.prerm remove" > "$work/log"
called "prerm remove without systemd" ""
in_overlay "mkdir -p /run/systemd/system; sh $top/debian/vgpu-backend.prerm remove" > "$work/log"
called "prerm remove: sockets and backends are stopped" "deb-systemd-invoke stop vgpu-backend@*.socket vgpu-backend@*.service"
# What the administrator and the units make: the unit says where, and a dynamic user's folders are links to private ones.
made="/etc/vgpu/vm1.conf /etc/systemd/system/sockets.target.wants/vgpu-backend@vm1.socket"
for key in Cache:/var/cache Logs:/var/log; do
    place=$(sed -n "s/^${key%:*}Directory=\(.*\)\/%i$/\1/p" "$here/systemd/vgpu-backend@.service")
    made="$made ${key#*:}/private/${place:?}/vm1/file ${key#*:}/$place/vm2/file"
done
others="/etc/vgpux /etc/systemd/system/sockets.target.wants/other.socket /var/log/private/other"
for action in remove upgrade purge; do
    text=$(in_overlay "for file in $made $others; do mkdir -p \${file%/*} && echo x > \$file || exit 1; done
        sh $top/debian/vgpu-backend.postrm $action")
    check "postrm $action" $? "$text"
    want=$(printf '%s\n' $others $([ $action = purge ] || echo $made) | sort)
    [ "$want" = "$(cat "$work/left")" ]
    check "postrm $action: what stays" $? "$(diff <(echo "$want") "$work/left")"
done

# install.sh tells the loader and systemd of what is new in this system, and of nothing that it puts below DESTDIR.
in_overlay "mkdir -p /run/systemd/system; DESTDIR=/tmp/d PREFIX=/usr $install backend libcuda" > "$work/log"
called "install.sh below DESTDIR touches nothing else" ""
! grep -v '^/tmp/d/' "$work/left"
check "install.sh below DESTDIR: every file" $?
in_overlay "mkdir -p /run/systemd/system; $install libcuda" > "$work/log"
called "install.sh libcuda: loader and systemd are told" "ldconfig ;systemctl daemon-reload"
in_overlay "$install backend" > "$work/log"
called "install.sh backend without systemd" ""
in_overlay "PREFIX=/opt/vgpu $install libcuda" > "$work/log"
called "install.sh with a prefix whose configuration the loader does not read" ""
text=$(in_overlay "$install backend libcuda dkms && $install --uninstall backend libcuda dkms")
check "install.sh --uninstall" $? "$text"
called "install.sh --uninstall: the loader is told" "ldconfig ;ldconfig "
[ ! -s "$work/left" ]
check "install.sh --uninstall leaves nothing" $? "$(head -n 5 "$work/left")"

# A guest without our packages.
text=$("$build/userspace/vgpu/vgpu" guest-bundle --out "$work/bundle" 2>&1)
check "vgpu guest-bundle for these tests" $? "$text"
fetch="mkdir -p /headers && : > /headers/Makefile; rm -f /usr/sbin/dkms /sbin/dkms"
old=etc/security/limits.d/60-vgpu.conf
# How the module is made, where the libraries go, for which kernel.
while read -r how prefix kernel; do
    name="install.sh of a guest ($how, $prefix, $kernel)"
    options="--kernel $kernel $([ $how != headers ] || echo --headers /headers) $([ $how != libraries ] || echo --no-module)"
    prepare="$fetch; export PREFIX=$prefix; mkdir -p /lib/modules/1.0-test/build /lib/modules/2.0-test/build /${old%/*}
        touch /lib/modules/1.0-test/build/Makefile /lib/modules/2.0-test/build/Makefile"
    [ $how != dkms ] || prepare="$prepare; ln -sf with-dkms $stand/dkms"
    text=$(in_overlay "$prepare; echo x > /$old; sh $work/bundle/install.sh $options; rc=\$?; rm -rf /headers /lib/modules/[12].0-test/build; exit \$rc")
    check "$name" $? "$text"
    want="$prefix/lib/vgpu/libcuda/libcuda.so.1 $prefix/lib/vgpu/libcuda/libnvidia-ml.so.1 $prefix/bin/vgpu /etc/ld.so.conf.d/zz-vgpu.conf
        /etc/udev/rules.d/60-vgpu.rules /etc/modprobe.d/vgpu.conf /etc/modules-load.d/vgpu.conf"
    load=$([ "$kernel" != 1.0-test ] || echo ";udevadm control --reload;modprobe vgpu_drv")
    case $how in
    dkms)
        want="$want $(cd "$work/bundle/driver" && find . -type f | sed "s,^\.,/usr/src/vgpu-$version,")"
        called "$name: what it calls" "ldconfig ;dkms install --force vgpu/$version -k $kernel$load"
        ;;
    headers)
        want="$want /usr/lib/modules/$kernel/updates/vgpu_drv.ko"
        sed -i 's, M=[^ ]*,,' "$work/called"
        called "$name: what it calls" "ldconfig ;make -C /headers CONFIG_VGPU_CUDA=m modules;depmod $kernel$load"
        ;;
    libraries)
        want="$want /$old" # only a driver with its own limit does without
        called "$name: what it calls" "ldconfig "
        ;;
    esac
    sed -i 's,^/lib/,/usr/lib/,' "$work/left"
    [ "$(printf '%s\n' $want | sort)" = "$(sort "$work/left")" ]
    check "$name: its files" $? "$(diff <(printf '%s\n' $want | sort) <(sort "$work/left"))"
    text=$(in_overlay "$prepare; sh $work/bundle/install.sh $options > /dev/null; cat /etc/ld.so.conf.d/zz-vgpu.conf; stat -c %a $prefix/bin/vgpu
        $prefix/bin/vgpu --version")
    [ "$text" = "$prefix/lib/vgpu/libcuda"$'\n'"755"$'\n'"vgpu $version" ]
    check "$name: the loader's line, and the command runs" $? "$text"
    text=$(in_overlay "$prepare; sh $work/bundle/install.sh $options > /dev/null && echo x > /$old && sh $work/bundle/install.sh --uninstall --kernel $kernel
        rc=\$?; rm -rf /headers /lib/modules/[12].0-test/build; exit \$rc")
    check "$name: --uninstall" $? "$text"
    [ ! -s "$work/left" ]
    check "$name: --uninstall leaves nothing" $? "$(cat "$work/left")"
    [ $how != dkms ] || grep -qx "dkms remove vgpu/$version --all" "$work/called"
    check "$name: --uninstall: DKMS is told" $? "$(cat "$work/called")"
    rm -f "$stand/dkms"
done <<END
headers /usr/local 1.0-test
headers /opt/vgpu 2.0-test
dkms /usr/local 1.0-test
dkms /opt/vgpu 2.0-test
libraries /opt/vgpu 1.0-test
END
