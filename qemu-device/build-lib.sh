# SPDX-License-Identifier: GPL-2.0-or-later
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

# apt_setup SUITE...: writes the scratch sources and fetches the lists of those suites.
# A suite called X-security comes from the security archive.
apt_setup()
{
    local suite uri keyring=/usr/share/keyrings/debian-archive-keyring.gpg

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
    [ -s "$O/apt/sources.list" ] ||
        die "no Debian archive is configured on this machine; set VGPU_DEBIAN_MIRROR=<address>"
    scratch_apt update
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

# unpack_qemu DIR: fetches the newest source package of QEMU in the lists, unpacks it into DIR.
unpack_qemu()
{
    rm -rf "$O/apt/src" "$1"
    mkdir -p "$O/apt/src"
    (cd "$O/apt/src" && scratch_apt --download-only source qemu) || return 1
    dpkg-source --no-check -x "$O"/apt/src/qemu_*.dsc "$1" > "$O/unpack.log" 2>&1 || return 1
    rm -rf "$O/apt/src"
}

# need PACKAGES-HINT COMMAND...: stops with the packages to install when a command is missing.
need()
{
    local hint=$1 cmd

    shift
    for cmd; do
        command -v "$cmd" > /dev/null ||
            die "$cmd is missing; install: apt-get install --no-install-recommends $hint"
    done
}
