#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Builds the tree, its unit tests and the demo programs, warnings being errors, with compilers other than the one that built
# BUILD, including those of a minimal Debian 13 or newer, and runs the demo programs with the results.
#
#   run.sh O BUILD [SUITE]
#
# O      logs and objects
# BUILD  an earlier build, for its configuration
# SUITE  trixie (the default): its gcc and clang, and the machine's clang; sid: gcc-15 and its newest gcc
# Environment: CUDA_HOME; VGPU_TRIXIE_ROOT, VGPU_SID_ROOT: a root with the packages listed below.

set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../../scripts/lib.sh"
mkdir -p "$1"
out=$(cd "$1" && pwd)
build=$(cd "$2" && pwd)
suite=${3:-trixie}
case $suite in
trixie) root=${VGPU_TRIXIE_ROOT:-$CACHE/roots/trixie-build} compilers="gcc clang" ;;
sid) root=${VGPU_SID_ROOT:-$CACHE/roots/sid-build} compilers="gcc-15 gcc" ;;
*) die "run.sh: the suites are trixie and sid" ;;
esac
shift $(($# < 3 ? $# : 3))
parts="lib host/softgpu host/backend userspace/libcuda userspace/libnvidia-ml userspace/vgpu"
# Goals that build a part's unit tests. The software GPU's take most of the time, so only clang on the host builds them.
tests="protocol:unit-tests lib:unit-tests host/backend:unit-tests userspace/libcuda:unit-tests userspace/libnvidia-ml:unit-tests userspace/vgpu:unit-tests"
# Packages that the root needs to build the parts.
packages=$(awk '!/^#/ && $2 == "demo" { print $1 }' "$TOP/scripts/packages.txt" |
           grep -vxE 'apt|cpio|kmod|libelf1|meson|ninja-build|python3-venv|lib(glib2.0|pixman-1|fdt|attr1|cap-ng|slirp)-dev|dpkg-dev|xz-utils|zstd')
packages="$packages libcmocka-dev$([ $suite = trixie ] || echo " gcc-15")"
passed=0 failed=0 skipped=0

# Second call of this script, in a mount namespace of its own.
if [ "${VGPU_COMPILERS_INSIDE:-}" = 1 ]; then
    work=$out/overlay
    mkdir -p "$work"
    mount -t tmpfs -o size=4G none "$work" || exit 75
    mkdir -p "$work"/{up,work,root}
    mount -t overlay overlay -o "lowerdir=$root,upperdir=$work/up,workdir=$work/work" "$work/root" || exit 75
    for folder in "$TOP" "$build" "$CUDA_HOME"; do
        mkdir -p "$work/root$folder"
        mount --rbind "$folder" "$work/root$folder" && mount -o remount,bind,ro "$work/root$folder" || exit 75
    done
    mount -t proc proc "$work/root/proc" && mount --rbind /dev "$work/root/dev" || exit 75
    mkdir -p "$work/root/o"
    mount --bind "$out" "$work/root/o"
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 JOBS="${JOBS:-}" CUDA_HOME="$CUDA_HOME" \
        chroot "$work/root" "$@"
fi

check()
{
    if [ "$2" = 0 ]; then
        passed=$((passed + 1))
        echo "ok - $1"
    else
        failed=$((failed + 1))
        echo "FAIL: $1${3:+: $3}"
    fi
}

not_run()
{
    echo "not run: compilers: $1: $2"
    skipped=$((skipped + 1))
}

# build_with CC FOLDER LOG GOALS [PREFIX...]: builds each PART:GOAL with CC, every warning an error.
build_with()
{
    local cc=$1 to=$2 log=$3 goals=$4 part bad=0
    shift 4

    : > "$log"
    for part in $goals; do
        "$@" make -k -C "$TOP/${part%:*}" CC="$cc" O="$to/${part%:*}" CUDA_HOME="$CUDA_HOME" CONFIG_DIR="$build" VGPU_WERROR=1 \
            -j"${JOBS:-$(nproc)}" "${part#*:}" >> "$log" 2>&1 || bad=1
    done
    return $bad
}
libraries=$(for part in $parts; do echo "$part:all"; done)

told()
{
    grep -E ' (error|warning): ' "$1" | head -n 5
    echo "(log: $1)"
}

if [ $suite != trixie ]; then
    : # the machine's clang is one of the default's
elif command -v clang > /dev/null; then
    version=$(clang --version | head -n 1)
    VGPU_BUILD=$build build_with clang "$out/clang" "$out/clang.log" "$libraries"
    check "the host's $version: no warning" $? "$(told "$out/clang.log")"
else
    not_run "clang" "it is not installed"
fi

# within COMMAND...: in the root.
within()
{
    VGPU_COMPILERS_INSIDE=1 timeout 1200 unshare -m --propagation private "$here/run.sh" "$out" "$build" $suite "$@"
}

name="Debian's $suite"
if [ "$(id -u)" != 0 ]; then
    not_run "$name" "root is needed"
elif ! reason=$(debian_root "$root" $suite "$out/debootstrap.log" --include="$(echo $packages | tr ' ' ,)"); then
    not_run "$name" "$reason; VGPU_${suite^^}_ROOT names a root that is there"
elif ! within true > "$out/root.log" 2>&1; then
    not_run "$name" "no overlay can be mounted, see $out/root.log"
else
    for cc in $compilers; do
        if ! version=$(within $cc --version 2> /dev/null | head -n 1) || [ -z "$version" ]; then
            not_run "$name" "it has no $cc"
            continue
        fi
        build_with $cc /o/$suite-$cc "$out/$suite-$cc.log" "$libraries" within
        check "$name, $version: no warning" $? "$(told "$out/$suite-$cc.log")"
    done
    cc=${compilers%% *}
    build_with $cc /o/$suite-$cc "$out/$suite-tests.log" "$tests" within
    check "$name, $cc: the unit tests, no warning" $? "$(told "$out/$suite-tests.log")"
    # nvcc accepts the compilers that it knows: trixie's gcc, but not every newer version.
    programs=$build/demo/programs
    if [ $suite = trixie ]; then
        build_with gcc /o/$suite-gcc "$out/$suite-demo.log" demo:all within
        check "$name, nvcc with gcc: the demo programs, no warning" $? "$(told "$out/$suite-demo.log")"
        programs=/o/$suite-gcc/demo
    fi
    # Runs the programs and parts built in that root, with its libraries.
    mkdir -p "$out/demo"
    within /bin/bash "$TOP/demo/all.sh" $programs /o/demo /o/$suite-$cc/userspace/vgpu/vgpu run --gpu soft \
        > "$out/demo.log" 2>&1
    rc=$?
    want=$(find "$build/demo/programs" -maxdepth 1 -type f -perm -u+x | wc -l)
    good=$(grep -c '^@ .* 0$' "$out/demo.log")
    [ $rc = 0 ] && [ "$want" -gt 0 ] && [ "$good" = "$want" ]
    check "the demo programs run in $name ($good of $want)" $? "$(grep '^@' "$out/demo.log" | grep -v ' 0$' | head -n 3) (log: $out/demo.log)"
fi

echo "compilers: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
