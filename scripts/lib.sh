# SPDX-License-Identifier: MIT
# Shell functions shared by the scripts in this folder; sourced, not run.

SCRIPTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TOP=$(cd "$SCRIPTS/.." && pwd)
BUILD=${VGPU_BUILD:-$TOP/build}

# Downloads that all clones share: the toolkit, npm's packages, Debian's. VGPU_CACHE names another folder.
CACHE=${VGPU_CACHE:-${XDG_CACHE_HOME:-${HOME:-$BUILD}/.cache}/vgpu-cuda}

# The distribution's tools first: a version manager's python3 lacks the distribution's modules.
export PATH=/usr/bin:/bin:/usr/sbin:/sbin:$PATH
export LC_ALL=C

# VGPU_T0: when the whole command started (seconds since the epoch), so that all parts show one clock.
: "${VGPU_T0:=$(date +%s)}"
export VGPU_T0

# say TEXT...: one progress line with the elapsed time.
say()
{
    printf '[%4ds] %s\n' "$(($(date +%s) - VGPU_T0))" "$*"
}

# die TEXT...: an error line that says what to do, then exit status 1.
die()
{
    say "error: $*" >&2
    exit 1
}

# as_root COMMAND...: runs it as root (directly, or through sudo when that needs no password or a
# person is there to type it). Returns 126 when neither is possible.
as_root()
{
    if [ "$(id -u)" = 0 ]; then
        DEBIAN_FRONTEND=noninteractive "$@"
    elif command -v sudo > /dev/null && { sudo -n true 2> /dev/null || [ -t 0 ]; }; then
        sudo env "APT_CONFIG=${APT_CONFIG:-}" DEBIAN_FRONTEND=noninteractive "$@"
    else
        return 126
    fi
}

# Package lists of our own, from the sources that the machine already has, for machines whose lists
# are missing or name versions that the archive no longer has. apt reads the file in APT_CONFIG, so
# that every apt command started from here uses them; the system's own lists stay as they are.
APT_OWN=$CACHE/apt/apt.conf
if [ -e "$APT_OWN" ]; then export APT_CONFIG=$APT_OWN; fi

# apt_refresh: fetches those lists. False: the archive cannot be reached.
apt_refresh()
{
    local dir

    dir=$(dirname "$APT_OWN")
    mkdir -p "$dir/lists/partial" "$dir/archives/partial"
    cat > "$APT_OWN" <<END
Dir::State::lists "$dir/lists";
Dir::Cache::archives "$dir/archives";
Dir::Cache::pkgcache "$dir/pkgcache.bin";
Dir::Cache::srcpkgcache "$dir/srcpkgcache.bin";
APT::Sandbox::User "$(id -un)";
END
    [ ! -e "$dir/sources.list" ] || cat >> "$APT_OWN" <<END
Dir::Etc::sourcelist "$dir/sources.list";
Dir::Etc::sourceparts "/dev/null";
END
    export APT_CONFIG=$APT_OWN
    say "fetching package lists"
    apt-get -qq update >&2
}

# debian_archive: the address of this machine's Debian archive; nothing when none is configured.
debian_archive()
{
    # shellcheck disable=SC2016  # apt expands these
    apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(LABEL)' 2> /dev/null |
        awk '$2 == "Debian" && $3 == "Debian" { print $1; exit }'
}

# debian_root ROOT SUITE LOG [OPTION...]: makes a minimal root by debootstrap, with these options of it, unless it is there
# already; as a whole or not at all. Prints why it cannot.
debian_root()
{
    local root=$1 suite=$2 log=$3
    shift 3

    [ ! -x "$root/usr/bin/dpkg" ] || return 0
    command -v debootstrap > /dev/null || { echo "debootstrap is not installed"; return 1; }
    say "making a Debian root of $suite in $root" >&2
    mkdir -p "${root%/*}" && rm -rf "$root.new"
    # shellcheck disable=SC2046  # no archive: debootstrap's own
    debootstrap --variant=minbase "$@" "$suite" "$root.new" $(debian_archive) > "$log" 2>&1 && mv "$root.new" "$root" ||
        { echo "debootstrap failed, see $log"; return 1; }
}

# apt_suite SUITE: from now on apt sees this suite of the machine's Debian archive alone (VGPU_DEBIAN_MIRROR names another
# one), with fresh lists. False: no archive is configured, or it has no such suite.
apt_suite()
{
    local uri=${VGPU_DEBIAN_MIRROR:-} keyring=/usr/share/keyrings/debian-archive-keyring.gpg

    [ -n "$uri" ] || uri=$(debian_archive)
    [ -n "$uri" ] || return 1
    APT_OWN=$CACHE/apt-suites/$1/apt.conf
    mkdir -p "$(dirname "$APT_OWN")"
    echo "deb [arch=amd64 signed-by=$keyring] $uri $1 main" > "$(dirname "$APT_OWN")/sources.list"
    apt_refresh
}

# apt_knows PACKAGE...: true when the lists in use have a version of each to install.
apt_knows()
{
    local package

    for package; do
        apt-cache policy "$package" 2> /dev/null | grep -q 'Candidate: [0-9]' || return 1
    done
}

# debs PACKAGE...: downloads packages into the cache, which all clones share, and prints their paths. apt
# verifies what is there already and fetches it again when it is not what the lists say.
debs()
{
    local dir=$CACHE/debs package version

    mkdir -p "$dir"
    (
        flock 9
        cd "$dir" || exit 1
        # As the calling user: the archive's sandbox user cannot write here.
        apt-get -qq -o "APT::Sandbox::User=$(id -un)" download "$@" >&2 || exit 1
        for package; do
            version=$(apt-cache policy "$package" | awk '$1 == "Candidate:" { gsub(":", "%3a", $2); print $2 }')
            ls "$dir/${package}_${version}"_*.deb || exit 1
        done
    ) 9> "$dir/.lock"
}
