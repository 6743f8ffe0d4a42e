#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Installs what was built, or removes what was installed.
#
#   install.sh [--uninstall|--list] [PART...]
#
# PART   backend   vgpu-backend, vgpu-worker, systemd units, QEMU's description of the backend
#        tools     the vgpu command, its manual pages, completion, and the pages of docs/
#        libcuda   libcuda.so.1 and libnvidia-ml.so.1 in a folder of their own, the loader's line for it
#        guest     the same two for `vgpu run`, and what `vgpu guest-bundle` packs beside them: the driver's source,
#                  configuration, an install script; a folder that the loader does not search
#        dkms      the driver's source for DKMS, udev rule, modprobe.d, modules-load.d
#        softgpu   the software GPU
#        qemu      QEMU with the device, its firmware
#        qemu-object  vgpu-qemu, and the device for the builds of the distribution's QEMU that `make qemu-object` found
#        vm        the kernel, initramfs and driver that `vgpu vm run` boots
# Default: all but guest, which packages need only (their libcuda is a package that a host does not have), and
# qemu-object, which is built on request.
#
# --uninstall removes the files of the PARTs and the folders that are empty then; --list prints them.
#
# Environment, each with its default:
#   BUILD           <repository>/build: what was built
#   DESTDIR         empty: put in front of every path
#   PREFIX          /usr/local
#   SYSCONFDIR      /etc where PREFIX is /usr or /usr/local, else $PREFIX/etc
#   DKMSDIR         /usr/src, likewise $PREFIX/src
# A file that was not built is named before anything is written, and nothing is installed then.

set -u
HERE=$(cd "$(dirname "$0")" && pwd)
TOP=$(cd "$HERE/.." && pwd)
VERSION=$(sed -n 's/.*VGB_VERSION "\(.*\)"/\1/p' "$TOP/host/backend/common/vgb_version.h")
BUILD=${BUILD:-$TOP/build}
DESTDIR=${DESTDIR:-}
PREFIX=${PREFIX:-/usr/local}
case $PREFIX in
/usr | /usr/local) etc=/etc src=/usr/src ;;
*) etc=$PREFIX/etc src=$PREFIX/src ;;
esac
SYSCONFDIR=${SYSCONFDIR:-$etc}
DKMSDIR=${DKMSDIR:-$src}
# On Debian lib/vgpu is where programs that are not for the PATH go, too: libexec is not used there.
LIB=$PREFIX/lib/vgpu

die()
{
    echo "install: $*" >&2
    exit 1
}

mode=install
parts=
for arg; do
    case $arg in
    --uninstall) mode=uninstall ;;
    --list) mode=list ;;
    backend | tools | libcuda | guest | dkms | softgpu | qemu | qemu-object | vm) parts="$parts $arg" ;;
    *) die "$arg is no part; there are backend, tools, libcuda, guest, dkms, softgpu, qemu, qemu-object, vm" ;;
    esac
done
parts=${parts:-backend tools libcuda dkms softgpu qemu vm}
for path in "$PREFIX" "$SYSCONFDIR" "$DKMSDIR"; do
    [[ $path = /* ]] || die "$path: an absolute path is needed"
done
[[ -z $DESTDIR || $DESTDIR = /* ]] || die "DESTDIR=$DESTDIR: an absolute path is needed"
# These paths stand in unit files and in configuration files of the loader, unquoted.
[[ $PREFIX$SYSCONFDIR$DKMSDIR != *[!A-Za-z0-9/._+@~-]* ]] ||
    die "a path with blanks or special characters does not work: $PREFIX"

# What is to be there: mode, source, destination; one line each. A source that begins with < is a template, = a page.
plan=
# put MODE SOURCE DESTINATION
put()
{
    plan+="$1 $2 $3"$'\n'
}

# Sources of the module, without its tests and without the Makefile, which is for the repository.
put_driver()
{
    local file

    for file in "$TOP"/kernel/vgpu_drv/*.[ch] "$TOP"/kernel/vgpu_drv/uapi/*.h; do
        case $file in *_test.c | */vgpu_fake.[ch] | */vgpu_client_env.[ch]) continue ;; esac
        put 644 "$file" "$1/${file#"$TOP"/kernel/vgpu_drv/}"
    done
    put 644 "$TOP/kernel/vgpu_drv/Kbuild" "$1/Kbuild"
    put 644 "<$HERE/dkms.conf" "$1/dkms.conf"
}

put_libraries()
{
    put 644 "$BUILD/userspace/libcuda/libcuda.so.1" "$1/libcuda.so.1"
    put 644 "$BUILD/userspace/libnvidia-ml/libnvidia-ml.so.1" "$1/libnvidia-ml.so.1"
}

plan_part()
{
    local file

    case $1 in
    backend)
        put 755 "$BUILD/host/backend/vgpu-backend" "$LIB/vgpu-backend"
        put 755 "$BUILD/host/backend/vgpu-worker" "$LIB/vgpu-worker"
        put 644 "<$HERE/systemd/vgpu-backend@.service" "$PREFIX/lib/systemd/system/vgpu-backend@.service"
        put 644 "<$HERE/systemd/vgpu-backend@.socket" "$PREFIX/lib/systemd/system/vgpu-backend@.socket"
        put 644 "<$HERE/systemd/vgpu-metrics.service" "$PREFIX/lib/systemd/system/vgpu-metrics.service"
        put 644 "$HERE/grafana-dashboard.json" "$PREFIX/share/doc/vgpu-backend/examples/grafana-dashboard.json"
        put 644 "$HERE/systemd/vgpu.sysusers" "$PREFIX/lib/sysusers.d/vgpu-backend.conf"
        put 644 "$HERE/systemd/vgpu.tmpfiles" "$PREFIX/lib/tmpfiles.d/vgpu-backend.conf"
        put 644 "$HERE/systemd/example.conf" "$PREFIX/share/doc/vgpu-backend/examples/VM.conf"
        put 644 "<$HERE/50-vgpu.json" "$PREFIX/share/qemu/vhost-user/50-vgpu.json"
        put 644 "$BUILD/packaging/man/vgpu-backend.8" "$PREFIX/share/man/man8/vgpu-backend.8"
        # The policies are built into the worker; these are for the reader.
        for file in "$TOP"/host/backend/policies/*.seccomp; do
            put 644 "$file" "$PREFIX/share/doc/vgpu-backend/${file##*/}"
        done
        ;;
    tools)
        put 755 "$BUILD/userspace/vgpu/vgpu" "$PREFIX/bin/vgpu"
        put 755 "$BUILD/userspace/vgpu/ptxas/bin/ptxas" "$LIB/ptxas/bin/ptxas"
        put 644 "$BUILD/userspace/vgpu/jit/libvgpu-jit.so" "$LIB/jit/libvgpu-jit.so"
        put 644 "$HERE/vgpu.1" "$PREFIX/share/man/man1/vgpu.1"
        # One of each command that it has (man.py).
        for file in run vm guest-bundle smi ctl metrics cdi trace replay doctor; do
            put 644 "$BUILD/packaging/man/vgpu-$file.1" "$PREFIX/share/man/man1/vgpu-$file.1"
        done
        for file in vgpu vgpu-backend; do # it is looked for by the name of the command
            put 644 "$HERE/vgpu.bash" "$PREFIX/share/bash-completion/completions/$file"
        done
        for file in "$TOP"/docs/*.md "$TOP"/docs/results/*.md; do
            put 644 "=$file" "$PREFIX/share/doc/vgpu-tools/${file#"$TOP"/docs/}"
        done
        put 644 "=$TOP/SECURITY.md" "$PREFIX/share/doc/vgpu-tools/SECURITY.md"
        ;;
    libcuda)
        put_libraries "$LIB/libcuda"
        put 755 "$HERE/get-nvidia-smi.sh" "$LIB/get-nvidia-smi"
        put 644 "<$HERE/ld.so.conf" "$SYSCONFDIR/ld.so.conf.d/zz-vgpu.conf"
        put 644 "<$HERE/systemd/vgpu-cdi.service" "$PREFIX/lib/systemd/system/vgpu-cdi.service"
        ;;
    guest)
        put_libraries "$LIB/guest"
        put_driver "$LIB/guest/driver"
        put 755 "$HERE/guest-install.sh" "$LIB/guest/install.sh"
        put 644 "$HERE/60-vgpu.rules" "$LIB/guest/etc/udev/rules.d/60-vgpu.rules"
        put 644 "$HERE/modprobe.conf" "$LIB/guest/etc/modprobe.d/vgpu.conf"
        put 644 "$HERE/modules-load.conf" "$LIB/guest/etc/modules-load.d/vgpu.conf"
        ;;
    dkms)
        put_driver "$DKMSDIR/vgpu-$VERSION"
        put 644 "$HERE/60-vgpu.rules" "$PREFIX/lib/udev/rules.d/60-vgpu.rules"
        put 644 "$HERE/modprobe.conf" "$PREFIX/lib/modprobe.d/vgpu.conf"
        put 644 "$HERE/modules-load.conf" "$PREFIX/lib/modules-load.d/vgpu.conf"
        ;;
    softgpu)
        put 644 "$BUILD/host/softgpu/libcuda-soft.so.1" "$LIB/libcuda-soft.so.1"
        ;;
    qemu)
        put 755 "$BUILD/qemu/bin/qemu-system-x86_64" "$LIB/qemu/bin/qemu-system-x86_64"
        for file in bios-256k.bin linuxboot_dma.bin pvh.bin kvmvapic.bin efi-virtio.rom vgabios-stdvga.bin keymaps/en-us; do
            put 644 "$BUILD/qemu/share/qemu/$file" "$LIB/qemu/share/qemu/$file"
        done
        ;;
    qemu-object)
        put 755 "$BUILD/qemu/vgpu-qemu" "$PREFIX/bin/vgpu-qemu"
        put 644 "$HERE/vgpu-qemu.1" "$PREFIX/share/man/man1/vgpu-qemu.1"
        for file in "$BUILD"/qemu/objects/vgpu-cuda-*.so; do
            put 644 "$file" "$LIB/qemu/${file##*/}"
            put 644 "${file%.so}.txt" "$LIB/qemu/$(basename "$file" .so).txt"
        done
        ;;
    vm)
        put 644 "$BUILD/guest/vmlinux" "$LIB/vmlinux"
        put 644 "$BUILD/guest/initrd.cpio" "$LIB/initrd.cpio"
        put 644 "$BUILD/kernel/vgpu_drv.ko" "$LIB/vgpu_drv.ko"
        ;;
    esac
}

# fill TEMPLATE: @NAME@ are paths of this installation.
fill()
{
    sed -e "s|@LIB@|$LIB|g" -e "s|@PREFIX@|$PREFIX|g" -e "s|@SYSCONFDIR@|$SYSCONFDIR|g" \
        -e "s|@VERSION@|$VERSION|g" "$1"
}

# page PAGE: its links to other installed pages; of the source tree's files their names.
page()
{
    local folder

    folder=$(dirname "${1#"$TOP/docs/"}")
    [ "$1" != "$TOP/SECURITY.md" ] || folder=..
    awk -v folder="$folder" -v names=" $(cd "$TOP" && echo SECURITY.md docs/*.md docs/results/*.md) " '
        # The file of the source tree that a link of this page names.
        function in_tree(to,    path) {
            path = "docs/" (folder == "." ? "" : folder "/") to
            while (sub(/[^\/.]+\/\.\.\//, "", path))
                ;
            gsub(/\/\.\//, "/", path)
            return path
        }
        function link(text, to,    path, anchor) {
            if (to ~ /^([a-z]+:|#)/)
                return "[" text "](" to ")"
            anchor = match(to, /#/) ? substr(to, RSTART) : ""
            sub(/#.*/, "", to)
            path = in_tree(to)
            if (path ~ /\/$/ && index(names, " " path "README.md "))
                path = path "README.md"
            if (!index(names, " " path " "))
                return text == path ? text : text " (" path " of the source tree)"
            sub(/^docs\//, "", path)
            return "[" text "](" (folder == "results" ? "../" : "") path anchor ")"
        }
        # A link may be broken over two lines: its text then begins on the line before.
        {
            line = line $0 "\n"
        }
        END {
            while (match(line, /\[[^][]*\]\([^) \n]+\)/)) {
                whole = substr(line, RSTART, RLENGTH)
                cut = index(whole, "](")
                printf "%s", substr(line, 1, RSTART - 1)
                line = substr(line, RSTART + RLENGTH)
                printf "%s", link(substr(whole, 2, cut - 2), substr(whole, cut + 2, length(whole) - cut - 2))
            }
            printf "%s", line
        }' "$1"
}

# Empty folders of ours and above them, as far as DESTDIR or the first that is not empty. Debian's /usr/local has empty folders
# of its own, to one of which /usr/local/man points.
prune()
{
    local dir=$1

    while [ -n "$dir" ] && [ "$dir" != / ] && [ "$dir" != "${DESTDIR%/}" ]; do
        case $dir in /usr/local/bin | /usr/local/lib | /usr/local/share | /usr/local/share/man | /usr/src) break ;; esac
        rmdir "$dir" 2> /dev/null || break
        dir=${dir%/*}
    done
}

for part in $parts; do plan_part "$part"; done

case $mode in
list)
    while read -r _ _ to; do [ -z "$to" ] || echo "$to"; done <<< "$plan"
    ;;
install)
    while read -r _ from _; do
        [ -z "$from" ] || [ -r "${from#[<=]}" ] || die "${from#[<=]} is not there: run \`make\` first"
    done <<< "$plan"
    while read -r bits from to; do
        [ -n "$to" ] || continue
        to=$DESTDIR$to
        # A new file and then its name: a program that runs, a library that is loaded keep the old one.
        install -d "${to%/*}" && rm -f "$to.new" || die "cannot write to ${to%/*}"
        case $from in
        "<"*) fill "${from#<}" > "$to.new" && chmod "$bits" "$to.new" ;;
        "="*) page "${from#=}" > "$to.new" && chmod "$bits" "$to.new" ;;
        *) install -m "$bits" "$from" "$to.new" ;;
        esac && mv -f "$to.new" "$to" || die "cannot write $to"
    done <<< "$plan"
    if [ -z "$DESTDIR" ] && [ "$(id -u)" = 0 ] && [ "$SYSCONFDIR" = /etc ]; then
        case " $parts " in *" libcuda "*) ldconfig ;; esac
        [ ! -d /run/systemd/system ] || systemctl daemon-reload
    fi
    ;;
uninstall)
    while read -r _ _ to; do
        [ -n "$to" ] || continue
        rm -f "$DESTDIR$to" || die "cannot remove $DESTDIR$to"
        prune "$DESTDIR${to%/*}"
    done <<< "$plan"
    if [ -z "$DESTDIR" ] && [ "$(id -u)" = 0 ] && [ "$SYSCONFDIR" = /etc ]; then ldconfig; fi
    ;;
esac
exit 0
