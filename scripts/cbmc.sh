#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Finds CBMC, which proves what is stated about the code that checks a guest's bytes (`make prove`).
#
#   cbmc.sh            prints the program: the installed one, or Debian 13's in the cache, fetched once
#   cbmc.sh --where    the same, but fetches nothing; exit status 1 when there is none
#   cbmc.sh --limits "NAME.0:N ..." FILE...    exit status 1 when no file has a function of that name: CBMC ignores its limit
#
# Debian 12 has no such package. Debian 13's is unpacked into the cache (25 MB), not installed, beside the libraries
# that it was linked with; a script starts it with their loader. apt verifies the packages by the archive's
# signature, and CBMC itself, which decides what is proved, has its SHA-256 here as well. On x86-64 only.

set -eu
. "$(dirname "$0")/lib.sh"

if [ "${1:-}" = --limits ]; then
    limits=$2
    shift 2
    for name in $(echo "$limits" | grep -o '[a-z_]\+[.0-9]*:[0-9]' | sed 's/[.:].*//' | sort -u); do
        grep -q "\b$name(" "$@" || die "cbmc.sh: a limit of loops for $name(), which is not there"
    done
    exit 0
fi

VERSION=6.6.0-4
SHA256=02560859a17049c976961c232c4fc58f0747b57f9b751a466b1f368a438b0e41

if command -v cbmc; then exit 0; fi
dir=$CACHE/cbmc/$VERSION
if [ -x "$dir/cbmc" ]; then
    echo "$dir/cbmc"
    exit 0
fi
[ "${1:-}" != --where ] || exit 1
[ "$(uname -m)" = x86_64 ] && command -v apt-get > /dev/null || die "cbmc.sh: no CBMC for this machine: install it"

mkdir -p "$dir/apt/lists/partial" "$dir/apt/cache/archives/partial" "$dir/apt/state" "$dir/debs"
exec 9> "$dir/.lock"
flock 9
if [ -x "$dir/cbmc" ]; then
    echo "$dir/cbmc"
    exit 0
fi
# The archive that this machine uses, or VGPU_DEBIAN_MIRROR.
uri=${VGPU_DEBIAN_MIRROR:-$(debian_archive)}
[ -n "$uri" ] || die "cbmc.sh: no Debian archive is configured on this machine; set VGPU_DEBIAN_MIRROR=<address>"
echo "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri trixie main" > "$dir/apt/sources.list"
: > "$dir/apt/status"
scratch_apt()
{
    apt-get -qq -o Dir::Etc::sourcelist="$dir/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State="$dir/apt/state" -o Dir::State::lists="$dir/apt/lists" -o Dir::State::status="$dir/apt/status" \
        -o Dir::Cache="$dir/apt/cache" -o APT::Sandbox::User="$(id -un)" -o Debug::NoLocking=true "$@" >&2
}
say "fetching CBMC $VERSION of Debian 13" >&2
{ scratch_apt update && cd "$dir/debs" && scratch_apt download "cbmc=$VERSION" minisat libc6 libgcc-s1 libstdc++6; } ||
    die "cbmc.sh: cannot download CBMC $VERSION from $uri"
echo "$SHA256  cbmc_${VERSION}_amd64.deb" | sha256sum --check --quiet >&2 || die "cbmc.sh: not the CBMC that was expected"
rm -rf "$dir/root"
for deb in *.deb; do dpkg-deb -x "$deb" "$dir/root"; done
find "$dir/root" ! -type d ! -path "*/bin/cbmc" ! -name "ld-linux*" ! -name "lib*.so*" -delete
cd "$dir"
rm -rf "$dir/apt" "$dir/debs"
cat > "$dir/cbmc.new" << 'END'
#!/bin/sh
root=$(dirname "$0")/root/usr
exec "$root/lib64/ld-linux-x86-64.so.2" --library-path "$root/lib/x86_64-linux-gnu:$root/lib" "$root/bin/cbmc" "$@"
END
chmod +x "$dir/cbmc.new"
"$dir/cbmc.new" --version > /dev/null || die "cbmc.sh: CBMC does not run here"
mv "$dir/cbmc.new" "$dir/cbmc"
echo "$dir/cbmc"
