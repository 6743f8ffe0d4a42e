#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Usage: lint.sh <kernel build dir> <output dir>
# Warnings of W=1, sparse, and the kernel's checkpatch. CHECKPATCH= names the script when it is in
# none of the usual places. Prints "lint: N passed, M failed, K skipped" at the end.
set -u
here=$(cd "$(dirname "$0")" && pwd)
kdir=$1
out=$2
passed=0 failed=0 skipped=0

pass() { echo "ok: $1"; passed=$((passed + 1)); }
fail() { echo "FAILED: $1"; failed=$((failed + 1)); }
skip() { echo "not run: $1: $2"; skipped=$((skipped + 1)); }

mkdir -p "$out"
c=2
command -v sparse >/dev/null 2>&1 || { c=0; skip sparse "sparse is not installed"; }
if [ -z "$kdir" ]; then
	skip build "no kernel headers found: install linux-headers-amd64 or set KDIR="
elif ! make -C "$here" O="$out" KDIR="$kdir" W=1 C=$c module >"$out/build.log" 2>&1; then
	cat "$out/build.log"
	fail "build with W=1"
elif grep -E "(warning|error):" "$out/build.log"; then
	fail "warnings of gcc or sparse"
else
	pass "gcc W=1, sparse C=$c"
fi

# A symbol that only the newest kernels export breaks the build for all others. The list is of the oldest one: with
# headers of another, inline functions use other symbols.
release=$(cat "$kdir/include/config/kernel.release" 2>/dev/null)
if [ "${release#6.1.}" = "$release" ]; then
	skip symbols "the headers are of Linux ${release:-?}, symbols.txt is of 6.1"
elif [ ! -f "$out/module/vgpu_drv.ko" ]; then
	skip symbols "the module was not built"
elif nm -u "$out/module/vgpu_drv.ko" | awk '$2 !~ /^__/ { print $2 }' | grep -vxF -f "$here/symbols.txt"; then
	fail "symbols that symbols.txt does not name"
else
	pass "the kernel's symbols are those of symbols.txt"
fi

checkpatch=${CHECKPATCH:-}
for f in "$out"/../kunit/src/linux-source-*/scripts/checkpatch.pl \
	 /usr/src/linux-*/scripts/checkpatch.pl; do
	[ -n "$checkpatch" ] || [ ! -f "$f" ] || checkpatch=$f
done
# Allowed: the one header that compares kernel versions; file names in comments; headers that user
# space includes too and that cannot use the kernel's types and macros.
allow=EMBEDDED_FILENAME
check() {
	ignore=$allow$1
	shift
	perl "$checkpatch" --no-tree --no-summary --strict --terse --show-types \
		--ignore "$ignore" --file "$@"
}
if [ -z "$checkpatch" ]; then
	skip checkpatch "no kernel source found: set CHECKPATCH= to scripts/checkpatch.pl"
else
	cd "$here" || exit 1
	if check ,LINUX_VERSION_CODE,CONSTANT_COMPARISON vgpu_compat.h &&
	   check ,PREFER_KERNEL_TYPES,BIT_MACRO uapi/*.h &&
	   check "" $(ls *.c *.h Kbuild Kconfig | grep -v vgpu_compat.h); then
		pass "checkpatch --strict"
	else
		fail "checkpatch --strict"
	fi
fi
echo "lint: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
