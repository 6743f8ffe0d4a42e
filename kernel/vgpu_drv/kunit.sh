#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Builds a User-Mode-Linux kernel with this driver and its KUnit suites, and runs it.
#
#   [O=<dir>] [LINUX_SRC=<kernel tree>] [JOBS=n] kunit.sh [--kasan]
#
# O          where everything goes (default <repo>/build/kernel/kunit): the kernel's source, unpacked
#            once, and its build. The next run rebuilds only what has changed.
# LINUX_SRC  kernel source to use (6.1 or later; this driver is linked into its drivers/misc).
#            Default: Debian's linux-source package: from /usr/src when it is installed, otherwise
#            downloaded to the cache, not installed (140 MB, 1.5 GB unpacked).
# --kasan    with KASAN and lock debugging: another build, twice as long
#
# Ends with "kunit: N passed, M failed, K skipped". Exit status 1 when M > 0.
set -u
here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
O=${O:-$repo/build/kernel/kunit}
jobs=${JOBS:-2}
flavour=um
[ "${1:-}" != --kasan ] || flavour=um-kasan

not_run() {
	echo "not run: kunit: $1"
	echo "kunit: 0 passed, 0 failed, 1 skipped"
	exit 0
}

missing=
for tool in gcc make flex bison bc perl xz; do
	command -v $tool >/dev/null 2>&1 || missing="$missing $tool"
done
[ -x /usr/bin/python3 ] || missing="$missing python3"
[ -e /usr/include/libelf.h ] || missing="$missing libelf-dev"
[ -z "$missing" ] || not_run "these packages are missing:$missing"

mkdir -p "$O" || exit 1
src=${LINUX_SRC:-}
[ -n "$src" ] || src=$(ls -d "$O"/src/linux-source-*/ 2>/dev/null | sort -V | tail -n 1)
src=${src%/}
if [ -z "$src" ]; then
	tar=$(ls /usr/src/linux-source-*.tar.xz 2>/dev/null | sort -V | tail -n 1)
	mkdir -p "$O/src.new"
	if [ -z "$tar" ]; then
		package=$(apt-cache depends linux-source 2>/dev/null |
			  sed -n 's/.*Depends: \(linux-source-.*\)/\1/p' | head -n 1)
		[ -n "$package" ] || not_run "no kernel source: install linux-source or set LINUX_SRC="
		echo "kunit: downloading $package"
		# The cache of downloads is shared by all clones; apt verifies what is there already.
		debs=${VGPU_CACHE:-${XDG_CACHE_HOME:-${HOME:-$O}/.cache}/vgpu-cuda}/debs
		mkdir -p "$debs"
		(cd "$debs" && flock .lock apt-get -qq -o APT::Sandbox::User="$(id -un)" download "$package") &&
			dpkg-deb -x "$(ls "$debs/${package}"_*.deb | sort -V | tail -n 1)" "$O/src.new" ||
			not_run "cannot download $package: install it or set LINUX_SRC="
		tar=$(ls "$O"/src.new/usr/src/linux-source-*.tar.xz)
	fi
	echo "kunit: unpacking $tar"
	tar -C "$O/src.new" -xf "$tar" --no-same-owner || exit 1
	rm -rf "$O/src.new/usr"
	mv "$O/src.new" "$O/src" || exit 1
	src=$(ls -d "$O"/src/linux-source-*/)
	src=${src%/}
fi
[ -e "$src/tools/testing/kunit/kunit.py" ] || not_run "$src is not a kernel tree with KUnit"

# Three lines in the tree, once; the folder is a link, so edits here are seen there.
ln -sfn "$here" "$src/drivers/misc/vgpu"
grep -q misc/vgpu/Kconfig "$src/drivers/misc/Kconfig" ||
	sed -i 's#^endmenu#source "drivers/misc/vgpu/Kconfig"\nendmenu#' "$src/drivers/misc/Kconfig"
grep -q VGPU_CUDA "$src/drivers/misc/Makefile" ||
	echo 'obj-$(CONFIG_VGPU_CUDA) += vgpu/' >>"$src/drivers/misc/Makefile"

mkdir -p "$O/$flavour"
config=$O/$flavour/vgpu.kunitconfig
cp "$here/kunit.config" "$config.new"
if [ "$flavour" = um-kasan ]; then
	printf 'CONFIG_%s=y\n' KASAN KASAN_VMALLOC PROVE_LOCKING DEBUG_OBJECTS \
		DEBUG_OBJECTS_WORK >>"$config.new"
fi
if cmp -s "$config" "$config.new"; then rm "$config.new"; else mv "$config.new" "$config"; fi

# No suite of the kernel's own runs: the glob keeps to ours. MAKEFLAGS of a calling make would give
# the kernel's make our O=.
echo "kunit: building and running in $O/$flavour (the first build takes about two minutes)"
cd "$src" || exit 1
env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u O PATH="/usr/bin:$PATH" \
	timeout "${TIMEOUT:-1200}" /usr/bin/python3 tools/testing/kunit/kunit.py run \
	--kunitconfig="$config" --build_dir="$O/$flavour" --jobs="$jobs" --timeout=120 \
	'vgpu*' >"$O/$flavour.log" 2>&1
[ $? -ne 124 ] || echo "kunit: stopped after ${TIMEOUT:-1200} s; TIMEOUT=SECONDS allows more"
sed 's/\x1b\[[0-9;]*m//g' "$O/$flavour.log" | sed 's/^\[[0-9:]*\] //' >"$O/$flavour.txt"
grep -E '^(=====|\[|    |kunit|#|.*FAIL|.*ERROR|.*error|.*warning)' "$O/$flavour.txt" |
	grep -vE '^\[SKIPPED\]|^/usr/bin/ld:'
result=$(sed -n 's/^Testing complete\. //p' "$O/$flavour.txt" | tail -n 1)
count() { echo "$result" | sed -n "s/.*[ ,]$1: \([0-9]*\).*/\1/ip; t"; }
if [ -z "$result" ]; then
	tail -n 40 "$O/$flavour.txt"
	echo "kunit: 0 passed, 1 failed, 0 skipped"
	exit 1
fi
passed=$(count passed) failed=$(count failed) crashed=$(count crashed)
errors=$(count errors) skipped=$(count skipped)
failed=$((${failed:-0} + ${crashed:-0} + ${errors:-0}))
# A kernel that complains has failed, whatever the cases say.
if grep -nE 'WARNING: |BUG: |INFO: (possible|trying)' "$O/$flavour/test.log"; then
	echo "FAILED: the kernel's log ($O/$flavour/test.log)"
	failed=$((failed + 1))
fi
echo "kunit: ${passed:-0} passed, $failed failed, ${skipped:-0} skipped"
[ "$failed" -eq 0 ]
