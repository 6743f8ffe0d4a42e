# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Shell functions shared by build-qemu.sh and check-10.sh; sourced, not run.
#
# Everything is fetched with a scratch apt whose lists, downloads and configuration of sources lie in $APT, which
# all clones share: the system's own package configuration is neither changed nor needed to contain deb-src lines.
# apt verifies each file, also one that is there already.

START=$(date +%s)
DEVICE_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
APT=${VGPU_CACHE:-${XDG_CACHE_HOME:-${HOME:-/var/tmp}/.cache}/vgpu-cuda}/apt-qemu

# QEMU's configure must find the distribution's python3, not one of a version manager.
export PATH=/usr/bin:/bin:/usr/sbin:/sbin:$PATH
export LC_ALL=C

say()
{
    printf 'qemu [%4ds] %s\n' "$(($(date +%s) - START))" "$*"
}

die()
{
    say "error: $*" >&2
    exit 1
}

# debian_uri MAIN|SECURITY: the address of the archive that this machine already uses.
# VGPU_DEBIAN_MIRROR and VGPU_DEBIAN_SECURITY_MIRROR override it.
debian_uri()
{
    local label=Debian uri=${VGPU_DEBIAN_MIRROR:-}

    if [ "$1" = SECURITY ]; then
        label=Debian-Security
        uri=${VGPU_DEBIAN_SECURITY_MIRROR:-}
    fi
    if [ -z "$uri" ]; then
        # shellcheck disable=SC2016  # apt expands these
        uri=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(LABEL)' 2>/dev/null |
              awk -v l="$label" '$2 == "Debian" && $3 == l { print $1; exit }')
    fi
    printf '%s' "$uri"
}

# scratch_apt ARGS...: apt-get that sees only what apt_setup wrote, for the suite that it wrote last.
scratch_apt()
{
    apt-get -qq -o Dir::Etc::sourcelist="$APT/$APT_SUITE/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State="$APT/$APT_SUITE/state" -o Dir::State::lists="$APT/$APT_SUITE/lists" \
        -o Dir::State::status="$APT/$APT_SUITE/status" -o Dir::Cache="$APT/$APT_SUITE/cache" \
        -o APT::Sandbox::User="$(id -un)" -o Debug::NoLocking=true "$@"
}

# apt_setup [--fresh] SUITE...: writes the scratch sources, called like the first suite, and fetches their lists,
# unless those that are there are younger than two days. A suite called X-security comes from the security archive.
apt_setup()
{
    local suite uri fresh= keyring=/usr/share/keyrings/debian-archive-keyring.gpg

    [ "$1" != --fresh ] || { fresh=1; shift; }
    APT_SUITE=$1
    mkdir -p "$APT/$1/lists/partial" "$APT/$1/cache/archives/partial" "$APT/$1/state"
    exec 8> "$APT/.lock"
    flock 8
    [ -n "$fresh" ] || [ -z "$(find "$APT/$1/.updated" -mtime -2 2> /dev/null)" ] || return 0
    say "fetching the package lists of $1"
    : > "$APT/$1/status"
    : > "$APT/$1/sources.list"
    for suite; do
        case $suite in
        *-security) uri=$(debian_uri SECURITY) ;;
        *) uri=$(debian_uri MAIN) ;;
        esac
        [ -n "$uri" ] || continue
        echo "deb [arch=amd64 signed-by=$keyring] $uri $suite main" >> "$APT/$1/sources.list"
        echo "deb-src [signed-by=$keyring] $uri $suite main" >> "$APT/$1/sources.list"
    done
    if [ ! -s "$APT/$1/sources.list" ]; then
        say "no Debian archive is configured on this machine; set VGPU_DEBIAN_MIRROR=<address>"
        return 1
    fi
    scratch_apt update || return 1
    touch "$APT/$1/.updated"
}

# newest PATTERN: the file of the highest version.
newest()
{
    compgen -G "$1" | sort -V | tail -n 1
}

# unpack_package NAME[/SUITE] DIR: downloads a binary package and unpacks it, without installing it.
unpack_package()
{
    local dir=$APT/$APT_SUITE/debs

    mkdir -p "$dir" "$2"
    (cd "$dir" && scratch_apt download "$1") || return 1
    dpkg -x "$(newest "$dir/${1%%/*}_*.deb")" "$2"
}

# download_qemu: QEMU's source package of the suite at hand into the cache; prints its .dsc.
download_qemu()
{
    local dir=$APT/$APT_SUITE/source

    mkdir -p "$dir"
    (cd "$dir" && scratch_apt --download-only source qemu >&2) && newest "$dir/qemu_*.dsc"
}

# archives SUITE: the suites of the archive in which a suite's newest packages are.
archives()
{
    case $1 in
    *-backports | sid | testing) echo "$1" ;;
    *) echo "$1 $1-updates $1-security" ;;
    esac
}

# take_qemu: the source that QEMU_SOURCE names, a folder or a tar archive, into $O/src, unless it is there already.
take_qemu()
{
    local mark

    mark="$QEMU_SOURCE $(stat -c '%s %y' "$QEMU_SOURCE" 2> /dev/null)" || return 1
    [ "$(cat "$O/.suite" 2> /dev/null)" = "$mark" ] && return
    say "unpacking $QEMU_SOURCE"
    rm -rf "$O/src" "$O/obj" "$O/.stamp" "$O/.suite"
    mkdir -p "$O/src"
    if [ -d "$QEMU_SOURCE" ]; then
        cp -a "$QEMU_SOURCE/." "$O/src/"
    else
        tar -xf "$QEMU_SOURCE" --strip-components=1 -C "$O/src"
    fi > "$O/unpack.log" 2>&1 || return 1
    [ -f "$O/src/hw/virtio/vhost-user.c" ] && [ -s "$O/src/VERSION" ] || return 1
    # A distribution's archive lacks firmware and device trees that meson.build would unpack; ours are of other packages.
    if [ ! -e "$O/src/pc-bios/edk2-x86_64-code.fd.bz2" ]; then
        sed -i 's/unpack_edk2_blobs = bzip2.found()/unpack_edk2_blobs = false/' "$O/src/meson.build"
        sed -i "/^subdir('dtb')/d" "$O/src/pc-bios/meson.build"
    fi
    echo "$mark" > "$O/.suite"
}

# fetch_qemu SUITE: QEMU's source from a Debian suite into $O/src, unless it is there already.
# Its newest package in the suite, its updates or security updates is taken. QEMU_SOURCE comes first.
fetch_qemu()
{
    local dsc

    [ -z "${QEMU_SOURCE:-}" ] || { take_qemu; return; }
    [ "$(cat "$O/.suite" 2>/dev/null)" = "$1" ] && return
    # shellcheck disable=SC2046
    apt_setup $(archives "$1") || return 1
    say "fetching and unpacking the QEMU source"
    rm -rf "$O/src" "$O/obj" "$O/.stamp"
    # The lists may name a version that the archive no longer has: once more with fresh ones.
    # shellcheck disable=SC2046
    dsc=$(download_qemu) || { apt_setup --fresh $(archives "$1") && dsc=$(download_qemu); } || return 1
    dpkg-source --no-check -x "$dsc" "$O/src" > "$O/unpack.log" 2>&1 || return 1
    rm -f "$O"/qemu_*.orig.tar.*
    echo "$1" > "$O/.suite"
}

# meson_is_enough: does the meson in PATH configure the source in $O/src? (QEMU 10 wants 1.5.)
meson_is_enough()
{
    case $(cat "$O/src/VERSION") in
    7.* | 8.* | 9.*) return 0 ;;
    esac
    meson --version 2> /dev/null | awk -F. '{ exit !($1 > 1 || $2 >= 5) }'
}

# use_meson: puts a meson in PATH that is new enough, from VGPU_MESON_SUITE (default
# bookworm-backports) if this machine's is not; unpacked under $O, not installed.
use_meson()
{
    local suite=${VGPU_MESON_SUITE:-bookworm-backports}

    meson_is_enough && return
    if [ ! -x "$O/meson/usr/bin/meson" ]; then
        say "fetching meson of $suite"
        apt_setup "$suite" && unpack_package meson "$O/meson" || return 1
    fi
    export PATH="$O/meson/usr/bin:$PATH"
    export PYTHONPATH="$O/meson/usr/lib/python3/dist-packages"
    meson_is_enough
}

# use_wheels: Python packages that configure of QEMU 11 demands and Debian's source lacks, into the folder where it
# looks for them. Other versions of QEMU demand other ones: configure says which.
use_wheels()
{
    local name sum bytes wheel file

    [ "$(sed 's/[.].*//' "$O/src/VERSION")" -ge 11 ] || return 0
    mkdir -p "$O/src/python/wheels" "$APT/wheels"
    while read -r name sum bytes wheel; do
        [ -z "$(compgen -G "$O/src/python/wheels/${name/./_}-*.whl")" ] || continue
        file=$(/usr/bin/python3 -B "$DEVICE_DIR/../scripts/pypi.py" "$name" "$sum" "$bytes" "$APT/wheels") || return 1
        cp "$file" "$O/src/python/wheels/$wheel"
    done <<END
pycotap 1c3a25b3ff89e48f4e00f1f71dbbc1642b4f65c65d416524d07e73492fff25ea 5119 pycotap-1.3.1-py3-none-any.whl
qemu.qmp e05782d6df5844b34e0d2f7c68693525da074deef7b641c1401dda6e4e3d6303 72263 qemu_qmp-0.0.5-py3-none-any.whl
END
}

# configure_qemu STAMP: a build folder $O/obj for a small QEMU, unless it is there with that stamp.
configure_qemu()
{
    local extra

    "$DEVICE_DIR/add-to-qemu.sh" "$O/src" || return 1
    # A build folder names its own place: one that was moved or copied must be made anew, or ninja
    # would regenerate the other one for ever.
    grep -qF "$O/obj" "$O/obj/build.ninja" 2>/dev/null &&
        [ "$(cat "$O/.stamp" 2>/dev/null)" = "$1" ] && return
    say "configuring QEMU $(cat "$O/src/VERSION")"
    rm -rf "$O/obj"
    mkdir -p "$O/obj"
    case $(cat "$O/src/VERSION") in
    7.*) extra="--enable-cap-ng --enable-coroutine-pool" ;;
    *) extra="--python=/usr/bin/python3 --disable-download --enable-pixman" ;;
    esac
    # shellcheck disable=SC2086
    (cd "$O/obj" && ../src/configure --prefix=/usr --target-list=x86_64-softmmu \
        --without-default-features --without-default-devices --with-devices-x86_64=vgpu \
        --enable-system --disable-user --enable-tcg --enable-kvm --enable-vhost-user \
        --enable-vhost-kernel --enable-virtfs --enable-attr --enable-seccomp --enable-fdt=system --enable-slirp --enable-vnc \
        --enable-malloc-trim --enable-membarrier --disable-docs --disable-tools \
        --disable-debug-info --disable-install-blobs --audio-drv-list= \
        --enable-trace-backends=log $extra) > "$O/configure.log" 2>&1 ||
        { tail -n 20 "$O/configure.log" >&2; return 1; }
    echo "$1" > "$O/.stamp"
}

# need PACKAGES COMMAND...: fails, with the packages to install, when a command is missing.
need()
{
    local packages=$1 cmd

    shift
    for cmd; do
        command -v "$cmd" > /dev/null && continue
        say "$cmd is missing; install: apt-get install --no-install-recommends $packages"
        return 1
    done
}
