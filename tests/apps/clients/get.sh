#!/bin/bash
# SPDX-License-Identifier: MIT
#
# get.sh OUT GROUP: unpacks the Debian packages of a group of groups.txt into OUT.
#
# Uses package lists of its own, from the mirrors of the machine's apt, with the components that contain these
# clients. Installs nothing, runs no package scripts and leaves the system's configuration alone. A dummy
# package for NVIDIA's driver and toolkit counts as installed, so apt does not fetch them. Exit status 1 and a
# reason on the last line: not available.
set -u
out=$1 group=$2
here=$(cd "$(dirname "$0")" && pwd)
# All clones share lists and packages (scripts/lib.sh: CACHE).
apt=${VGPU_CACHE:-${XDG_CACHE_HOME:-${HOME:-$out}/.cache}/vgpu-cuda}/apt-clients
export LC_ALL=C PATH=/usr/bin:/bin:/usr/sbin:/sbin
unset APT_CONFIG

die() { echo "$*"; exit 1; }

read -r _ suite root packages < <(grep "^$group " "$here/groups.txt") || die "no such group: $group"
target=$out/$root
[ "$root" = host ] || target=$out/$group
[ -e "$target/.complete-$group" ] && exit 0
command -v apt-get > /dev/null && command -v dpkg-deb > /dev/null || die "apt and dpkg are needed"
release=$(. /etc/os-release; echo "${VERSION_CODENAME:-?}")
[ "$root" != host ] || [ "$release" = "$suite" ] || die "this machine runs $release, the packages are for $suite"
mkdir -p "$apt/lists-$suite/partial" "$apt/archives/partial" "$apt/none/partial" "$target"
exec 9> "$apt/.lock"
flock 9

# Uses the mirror of the machine's main component.
mirror=$(apt-get indextargets --format '$(REPO_URI)' "Created-By: Packages" "Component: main" 2> /dev/null |
    grep -v security | head -n 1)
[ -n "$mirror" ] || die "apt has no mirror of Debian"
keys=$(ls /usr/share/keyrings/debian-archive-keyring.gpg 2> /dev/null)
echo "deb ${keys:+[signed-by=$keys] }$mirror $suite main contrib non-free" > "$apt/sources-$suite"

# The driver's dummy package, with a version that satisfies every dependency.
case $root in
host) cat /var/lib/dpkg/status > "$apt/status-$root" ;;
*) : > "$apt/status-$root" ;;
esac
cat >> "$apt/status-$root" <<END

Package: vgpu-cuda
Status: install ok installed
Priority: optional
Section: misc
Maintainer: none <none@localhost>
Architecture: amd64
Version: 999
Provides: $(sed -n 's/^# *provided: *//p' "$here/provided.txt" | paste -sd ' ')
Description: stands for NVIDIA's driver and toolkit

END

conf=(-o Dir::State="$apt" -o Dir::State::lists="$apt/lists-$suite" -o Dir::State::status="$apt/status-$root"
    -o Dir::Cache="$apt" -o Dir::Cache::archives="$apt/archives" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
    -o Dir::Etc::sourcelist="$apt/sources-$suite" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::Etc::preferencesparts=/dev/null -o APT::Sandbox::User="$(id -un)" -o APT::Install-Recommends=0
    -o Acquire::Languages=none -o Acquire::Retries=2 -o Acquire::http::Timeout=20 -o Debug::NoLocking=1)
if [ -z "$(find "$apt/lists-$suite" -name '*Packages*' -mtime -2 2> /dev/null)" ]; then
    timeout 120 apt-get "${conf[@]}" -qq update > "$apt/log" 2>&1
    [ -n "$(find "$apt/lists-$suite" -name '*Packages*' 2> /dev/null)" ] ||
        die "no package lists: $(grep '^[EW]:' "$apt/log" | head -n 1)"
fi
if [ "$root" = alone ]; then
    # shellcheck disable=SC2086
    (cd "$apt/archives" && timeout "${VGPU_CLIENTS_FETCH:-120}" apt-get "${conf[@]}" -qq download $packages) > "$apt/log" 2>&1 ||
        die "not fetched: $(grep '^[EW]:' "$apt/log" | tail -n 1)"
    for package in $packages; do
        file=$(find "$apt/archives" -name "${package}_*.deb" -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2)
        dpkg-deb -x "$file" "$target" || die "cannot be unpacked: $file"
    done
    touch "$target/.complete-$group"
    exit 0
fi
# shellcheck disable=SC2086
timeout 60 apt-get "${conf[@]}" -o Dir::Cache::archives="$apt/none/" --print-uris -y install $packages > "$apt/uris-$group" 2> "$apt/log" ||
    die "$(grep '^E:' "$apt/log" | head -n 1)"
# shellcheck disable=SC2086
timeout "${VGPU_CLIENTS_FETCH:-120}" apt-get "${conf[@]}" -qq --download-only -y install $packages > "$apt/log" 2>&1 ||
    die "not fetched: $(grep '^[EW]:' "$apt/log" | tail -n 1)"
while read -r _ file _; do
    [ -e "$target/.have/$file" ] && continue
    dpkg-deb -x "$apt/archives/$file" "$target" || die "cannot be unpacked: $file"
    mkdir -p "$target/.have"
    touch "$target/.have/$file"
done < <(grep "^'" "$apt/uris-$group")
touch "$target/.complete-$group"
