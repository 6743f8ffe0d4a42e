#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Runs the README's commands as a new user would, in a minimal Debian root: debootstrap's minbase with git, make and
# certificates, and a clone of the committed tree. Takes hours with `test`; `make test-all` runs it.
#
#   readme.sh O SUITE COMMAND...
#
# O        logs of each command; of each suite in SUITE-logs
# SUITE    bookworm or trixie
# COMMAND  demo, test
#
# The cache keeps the root and the commands' downloads; each run has an overlay over the root, in a mount and process
# namespace of its own. Needs root, overlayfs, debootstrap and the network.
# Last line: "readme SUITE: N passed, M failed, K skipped".

set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../../scripts/lib.sh"
[ $# -ge 3 ] || { sed -n '4,15s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
suite=$2
shift 2
root=$CACHE/roots/$suite-minimal
kept=$CACHE/roots/$suite-cache
passed=0 failed=0

not_run()
{
    echo "not run: readme $suite: $*"
    echo "readme $suite: 0 passed, 0 failed, 1 skipped"
    exit 0
}

if [ -z "${VGPU_README_INSIDE:-}" ]; then
    [ "$(id -u)" = 0 ] || not_run "root is needed"
    unshare -m --propagation private -p -f --kill-child true || not_run "no namespaces can be made"
    why=$(debian_root "$root" "$suite" "$out/debootstrap-$suite.log" --include=git,make,ca-certificates) || not_run "$why"
    VGPU_README_INSIDE=1 exec unshare -m --propagation private -p -f --kill-child "$0" "$out" "$suite" "$@"
fi

work=$(mktemp -d "$CACHE/roots/run.XXXXXX")
trap 'umount -R -l "$work/root" 2> /dev/null; rm -rf "$work"' EXIT
mkdir -p "$work"/{up,work,root} "$kept"
mount -t overlay overlay -o "lowerdir=$root,upperdir=$work/up,workdir=$work/work" "$work/root" ||
    not_run "overlayfs cannot be mounted"
mount -t proc proc "$work/root/proc"
mount --rbind /dev "$work/root/dev"
mount --rbind /sys "$work/root/sys"
cp /etc/resolv.conf "$work/root/etc/resolv.conf" 2> /dev/null
# This machine's access to the archives; a user has it from the administrator.
for file in /etc/apt/apt.conf.d/*proxy* /etc/pip.conf /usr/local/share/ca-certificates/*; do
    [ -e "$file" ] && mkdir -p "$work/root${file%/*}" && cp "$file" "$work/root$file"
done
chroot "$work/root" update-ca-certificates > "$out/$suite-certificates.log" 2>&1
git clone -q "$TOP" "$work/root/srv/vgpu-cuda" || not_run "git clone fails"
mkdir -p "$work/root/root/.cache/vgpu-cuda"
mount --bind "$kept" "$work/root/root/.cache/vgpu-cuda"
for goal; do
    log=$out/$suite-$goal.log
    started=$(date +%s)
    say "make $goal in $suite (log: $log)"
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
        $(env | grep -iE '^(https?|no)_proxy=' | tr '\n' ' ') \
        chroot "$work/root" make -C /srv/vgpu-cuda "$goal" > "$log" 2>&1 < /dev/null
    rc=$?
    if [ $rc = 0 ]; then
        passed=$((passed + 1))
        echo "ok - make $goal in a minimal $suite: $(grep -E '^[0-9]+ passed' "$log" | tail -n 1) in $(($(date +%s) - started)) s"
    else
        failed=$((failed + 1))
        echo "FAIL: make $goal in a minimal $suite: status $rc: $(tail -n 2 "$log" | tr '\n' ' ')"
    fi
done
# Keeps each suite's log when the root is deleted.
rm -rf "$out/$suite-logs"
cp -r "$work/root/srv/vgpu-cuda/build/log" "$out/$suite-logs" 2> /dev/null
echo "readme $suite: $passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
