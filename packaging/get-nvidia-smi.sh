#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Places NVIDIA's own nvidia-smi into a guest that has libcuda1-vgpu.
#
#   get-nvidia-smi [--remove] [DEB]
#
# Debian's package nvidia-smi depends on the libnvidia-ml1 of exactly its version, whose place ours takes: apt refuses the
# two. The program itself works with any libnvidia-ml.so.1, so this script downloads the package by apt (component
# non-free), or takes the file DEB, and puts the program alone into /usr/local/bin (PREFIX: another /usr/local). --remove
# takes it away. It is NVIDIA's program under NVIDIA's licence; the package has the text.
# Exit status: 0, 1 after a line that says why, 2 wrong use.

set -u
PREFIX=${PREFIX:-/usr/local}
to=$PREFIX/bin/nvidia-smi
mark=$PREFIX/lib/vgpu/nvidia-smi.sum

die()
{
    echo "get-nvidia-smi: $*" >&2
    exit 1
}

usage()
{
    sed -n '5,12s/^# \{0,1\}//p' "$0"
}

case ${1:-} in
--help) usage; exit 0 ;;
--remove)
    [ $# = 1 ] || { usage >&2; exit 2; }
    # Only what this script has placed.
    [ -e "$to" ] && sha256sum --status -c "$mark" 2> /dev/null || die "$to is not what this script has placed"
    rm -f "$to" "$mark" || die "cannot remove $to"
    exit 0
    ;;
-*) usage >&2; exit 2 ;;
esac
[ $# -le 1 ] || { usage >&2; exit 2; }
[ ! -e "$to" ] || sha256sum --status -c "$mark" 2> /dev/null || die "$to is there, and this script has not placed it"
work=$(mktemp -d) || die "no folder for temporary files"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
deb=${1:-}
if [ -z "$deb" ]; then
    chmod 755 "$work" # apt's own user downloads
    (cd "$work" && apt-get -q download nvidia-smi > log 2>&1) || {
        sed 's/^/    /' "$work/log" >&2
        die "apt has no package nvidia-smi: add the component non-free to its sources and run apt-get update, or name a .deb"
    }
    deb=$(find "$work" -name 'nvidia-smi_*.deb' | head -n 1)
fi
[ -r "$deb" ] || die "$deb: no such file"
dpkg-deb -x "$deb" "$work/files" || die "$deb: no package of Debian's"
# Other files of its name are no programs: lintian's overrides are one.
program=$(find "$work/files/usr" -name nvidia-smi -type f -perm -u+x | head -n 1)
[ -n "$program" ] || die "$deb: there is no program nvidia-smi in it"
mkdir -p "${to%/*}" "${mark%/*}" && install -m 755 "$program" "$to.new" && mv -f "$to.new" "$to" && sha256sum "$to" > "$mark" ||
    die "cannot write $to"
echo "$to: of $(dpkg-deb -f "$deb" Package Version | sed 's/^[A-Za-z]*: //' | tr '\n' ' ')"
