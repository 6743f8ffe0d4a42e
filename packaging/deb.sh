#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Makes the Debian packages from what was built: deb.sh BUILD. They and their .changes come to BUILD/deb.
# dpkg-buildpackage writes beside the sources, so it runs in a copy of them. VGPU_DEB_VERSION: another version,
# for tests of upgrades.

set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
tree=$build/deb/tree

rm -rf "$build/deb"
mkdir -p "$tree"
cd "$top"
# Without a repository (a release's archive) all files but the build folder.
if git rev-parse --git-dir > /dev/null 2>&1; then
    git ls-files -z --cached --others --exclude-standard
else
    find . -path ./build -prune -o ! -type d -printf '%P\0'
fi | tar --null --ignore-failed-read -T - -cf - 2> /dev/null | tar -xf - -C "$tree"
cd "$tree"
if [ -n "${VGPU_DEB_VERSION:-}" ]; then
    sed -i "1s/(.*)/($VGPU_DEB_VERSION)/" debian/changelog
    sed -i "s/VGB_VERSION \".*\"/VGB_VERSION \"$VGPU_DEB_VERSION\"/" host/backend/common/vgb_version.h
fi
# -d: the compilers that the Build-Depends name have done their work.
env -u MAKEFLAGS -u MAKELEVEL VGPU_PREBUILT="$build" dpkg-buildpackage -b -d -us -uc --no-sign
cd ..
rm -rf tree
ls -1 "$PWD"/*.deb
