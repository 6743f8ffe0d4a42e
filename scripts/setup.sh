#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Names and installs the Debian packages that the build needs and the machine lacks.
#
#   setup.sh [--check] [GROUP...]
#
# GROUP    groups of packages.txt (default: demo)
# --check  only name what is missing; exit status 1 when something is
#
# Prints nothing when all is there. Installs as root or with sudo; otherwise it prints the command to
# run and exits with status 1. The machine's package sources and lists are left alone: when its lists
# are missing or too old, fresh ones are fetched into the cache (lib.sh: CACHE) and used for this alone.

set -u
. "$(dirname "$0")/lib.sh"

mkdir -p "$BUILD"
check=
groups=
for arg; do
    case $arg in
    --check) check=1 ;;
    -*) die "setup.sh: unknown option $arg" ;;
    *) groups="$groups $arg" ;;
    esac
done
groups=${groups:- demo}

command -v dpkg-query > /dev/null || {
    say "this is not Debian: make sure that the equivalents of these packages are installed:"
    awk -v g="$groups " '!/^#/ && index(g, " " $2 " ") { printf "         %s\n", $0 }' \
        "$SCRIPTS/packages.txt"
    exit 0
}

wanted=$(awk -v g="$groups " '!/^#/ && index(g, " " $2 " ") { print $1 }' "$SCRIPTS/packages.txt")
[ -n "$wanted" ] || die "setup.sh: no such group:$groups"

# Of several names: one that is installed, else the first that the archive has.
one_of()
{
    local package

    for package; do
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2> /dev/null)" = installed ] && { echo "$package"; return; }
    done
    for package; do
        apt_knows "$package" && { echo "$package"; return; }
    done
    echo "${@: -1}"
}
wanted=$(for package in $wanted; do
             case $package in
             *'|'*) IFS='|'; one_of $package; unset IFS ;;
             *) echo "$package" ;;
             esac
         done)

# One query for all; a package that dpkg has never heard of gives no line at all.
installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' $wanted 2> /dev/null |
            awk '$2 == "installed" { print $1 }')
# What an installed package stands for counts too (libelf1t64 provides libelf1).
installed=$installed$'\n'$(dpkg-query -W -f='${db:Status-Status}, ${Provides}\n' | sed -n 's/^installed, //p' |
                           tr ',' '\n' | awk '{ print $1 }')
missing=$(printf '%s\n' $wanted | grep -vxF -f <(printf '%s\n' "$installed"))
if [ -z "$missing" ]; then
    # The build downloads from the archive, too: QEMU's source, the guest's kernel.
    if [ -z "$check" ] && [ ! -e "$BUILD/guest/release" ] && ! apt_knows linux-image-amd64; then
        apt_refresh || die "this machine's package archive cannot be reached"
    fi
    exit 0
fi

say "missing packages:"
for package in $missing; do
    awk -v p="$package" 'index("|" $1 "|", "|" p "|") { name = p; $1 = $2 = ""; sub(/^ */, "")
                                   printf "         %-20s %s\n", name, $0; exit }' "$SCRIPTS/packages.txt"
done
[ -z "$check" ] || exit 1

install="apt-get install --no-install-recommends -y $(echo $missing)"
apt_knows $missing || apt_refresh
for attempt in 1 2; do
    say "installing them: $install"
    as_root apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
        install --no-install-recommends -y $missing > "$BUILD/apt-install.log" 2>&1 < /dev/null
    rc=$?
    [ $rc = 0 ] && break
    [ $rc = 126 ] && die "root rights are needed for that; run:  sudo $install"
    # The lists may be older than the archive: once more, with fresh ones.
    [ $attempt = 2 ] || apt_refresh || break
done
[ $rc = 0 ] || { tail -n 15 "$BUILD/apt-install.log" >&2; die "could not install them; run:  sudo $install"; }
say "installed."
[ -e "$BUILD/guest/release" ] || apt_knows linux-image-amd64 || apt_refresh
