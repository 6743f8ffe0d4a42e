# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Shell functions shared by build-qemu.sh and check-10.sh; sourced, not run.
#
# Everything is fetched with a scratch apt whose lists, cache and configuration of sources lie
# under $O/apt: the system's own package configuration is neither changed nor needed to contain
# deb-src lines.

START=$(date +%s)
DEVICE_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

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

# scratch_apt ARGS...: apt-get that sees only what apt_setup wrote.
scratch_apt()
{
    apt-get -qq -o Dir::Etc::sourcelist="$O/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State="$O/apt/state" -o Dir::State::lists="$O/apt/lists" \
        -o Dir::State::status="$O/apt/status" -o Dir::Cache="$O/apt/cache" \
        -o APT::Sandbox::User="$(id -un)" -o Debug::NoLocking=true "$@"
}

# apt_setup SUITE...: writes the scratch sources and fetches the lists of those suites, unless the
# last call did. A suite called X-security comes from the security archive.
apt_setup()
{
    local suite uri keyring=/usr/share/keyrings/debian-archive-keyring.gpg

    [ "$*" = "${APT_SUITES:-}" ] && return
    say "fetching the package lists of $1"
    mkdir -p "$O/apt/lists/partial" "$O/apt/cache/archives/partial" "$O/apt/state"
    : > "$O/apt/status"
    : > "$O/apt/sources.list"
    for suite; do
        case $suite in
        *-security) uri=$(debian_uri SECURITY) ;;
        *) uri=$(debian_uri MAIN) ;;
        esac
        [ -n "$uri" ] || continue
        echo "deb [arch=amd64 signed-by=$keyring] $uri $suite main" >> "$O/apt/sources.list"
        echo "deb-src [signed-by=$keyring] $uri $suite main" >> "$O/apt/sources.list"
    done
    if [ ! -s "$O/apt/sources.list" ]; then
        say "no Debian archive is configured on this machine; set VGPU_DEBIAN_MIRROR=<address>"
        return 1
    fi
    scratch_apt update || return 1
    APT_SUITES=$*
}

# unpack_package NAME[/SUITE] DIR: downloads a binary package and unpacks it, without installing it.
unpack_package()
{
    local name=${1%%/*}

    mkdir -p "$O/apt/debs" "$2"
    rm -f "$O/apt/debs/${name}"_*.deb
    (cd "$O/apt/debs" && scratch_apt download "$1") || return 1
    dpkg -x "$O/apt/debs/${name}"_*.deb "$2"
}

# fetch_qemu SUITE: QEMU's source from a Debian suite into $O/src, unless it is there already.
# Its newest package in the suite, its updates or security updates is taken.
fetch_qemu()
{
    [ "$(cat "$O/.suite" 2>/dev/null)" = "$1" ] && return
    apt_setup "$1" "$1-updates" "$1-security" || return 1
    say "fetching and unpacking the QEMU source"
    rm -rf "$O/src" "$O/apt/src" "$O/obj" "$O/.stamp"
    mkdir -p "$O/apt/src"
    (cd "$O/apt/src" && scratch_apt --download-only source qemu) || return 1
    dpkg-source --no-check -x "$O"/apt/src/qemu_*.dsc "$O/src" > "$O/unpack.log" 2>&1 || return 1
    rm -rf "$O/apt/src" "$O"/qemu_*.orig.tar.*
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
    *) extra="--python=/usr/bin/python3 --disable-download" ;;
    esac
    # shellcheck disable=SC2086
    (cd "$O/obj" && ../src/configure --prefix=/usr --target-list=x86_64-softmmu \
        --without-default-features --without-default-devices --with-devices-x86_64=vgpu \
        --enable-system --disable-user --enable-tcg --enable-kvm --enable-vhost-user \
        --enable-vhost-kernel --enable-virtfs --enable-attr --enable-fdt=system \
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
