# SPDX-License-Identifier: MIT
# Shell functions shared by the scripts in this folder; sourced, not run.

SCRIPTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TOP=$(cd "$SCRIPTS/.." && pwd)
BUILD=${VGPU_BUILD:-$TOP/build}

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
        "$@"
    elif command -v sudo > /dev/null && { sudo -n true 2> /dev/null || [ -t 0 ]; }; then
        sudo "$@"
    else
        return 126
    fi
}

# apt_scratch: options that let apt-get work with package lists of our own under build/cache/apt,
# from the sources that the machine already has. The system's own lists stay as they are.
apt_scratch()
{
    local dir=$BUILD/cache/apt

    mkdir -p "$dir/lists/partial" "$dir/archives/partial"
    printf '%s\n' -o "Dir::State::lists=$dir/lists" -o "Dir::Cache::archives=$dir/archives" \
        -o "Dir::Cache::pkgcache=$dir/pkgcache.bin" -o "Dir::Cache::srcpkgcache=$dir/srcpkgcache.bin" \
        -o "APT::Sandbox::User=$(id -un)"
}

# apt_has PACKAGE: true when the machine's own package lists know a version to install.
apt_has()
{
    apt-cache policy "$1" 2> /dev/null | grep -q 'Candidate: [0-9]'
}

# apt_options PACKAGE...: prints the options (one a line) with which apt-get knows all of them:
# none when the machine's lists do, otherwise those of apt_scratch with freshly fetched lists.
apt_options()
{
    local package missing=

    for package; do
        apt_has "$package" || missing=$package
    done
    [ -n "$missing" ] || return 0
    mapfile -t scratch < <(apt_scratch)
    apt-get -qq "${scratch[@]}" update >&2 || return 1
    printf '%s\n' "${scratch[@]}"
}
