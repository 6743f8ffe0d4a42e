#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Runs Docker with the GPU, as docs/operate.md says it: docker_test.sh O, O: a folder beside what was built.
#
# A minimal Debian 13 root (Docker 26; Debian 12's 20.10 knows no CDI) gets what `make install` installs and Docker from the
# archive; its dockerd runs there, in a mount and process namespace, without a network for containers, and serves nobody else.
# The image is the root itself. The root and the packages are kept in the cache. Needs root, overlayfs, the network or
# the caches; podman is in own_guest_test.py. The output is in O/docker. Last line: "docker: N passed, M failed, K skipped".

set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../scripts/lib.sh"
mkdir -p "$1"
out=$(cd "$1" && pwd)
build=$(cd "$out/.." && pwd)
root=$CACHE/roots/trixie-minimal
packages="docker.io docker-cli libseccomp2"
passed=0 failed=0

not_run()
{
    echo "not run: docker: $*"
    echo "docker: 0 passed, 0 failed, 1 skipped"
    exit 0
}

ok()
{
    passed=$((passed + 1))
    echo "ok - docker: $1"
}

# says NAME STATUS PATTERN COMMAND...: of a command in the root
says()
{
    local name=$1 want=$2 pattern=$3 text rc
    shift 3
    text=$(in_root timeout 300 "$@" 2>&1 < /dev/null)
    rc=$?
    if [ $rc = "$want" ] && grep -qE -- "$pattern" <<< "$text"; then
        ok "$name"
    else
        failed=$((failed + 1))
        echo "FAIL: docker: $name: status $rc, not $want, or no '$pattern' in: $text"
    fi
}

if [ -z "${VGPU_DOCKER_INSIDE:-}" ]; then
    [ "$(id -u)" = 0 ] || not_run "root is needed"
    unshare -m --propagation private -p -f --kill-child true || not_run "no namespaces can be made"
    VGPU_DOCKER_INSIDE=1 exec unshare -m --propagation private -p -f --kill-child --mount-proc "$0" "$@"
fi
for part in host/backend/vgpu-backend userspace/vgpu/vgpu demo/programs/vector_add-static host/softgpu/libcuda-soft.so.1; do
    [ -e "$build/$part" ] || not_run "$part is not built"
done
why=$(debian_root "$root" trixie "$out/debootstrap-trixie.log" --include=git,make,ca-certificates) || not_run "$why"

# Not on a temporary file system: an image and its containers are copies of the root.
work=$(mktemp -d /var/tmp/vgpu-docker.XXXXXX)
r=$work/root
trap 'umount -R -l "$r" 2> /dev/null; rm -rf --one-file-system "$work"' EXIT
mkdir -p "$work"/{up,work,root} "$CACHE/roots/debs-trixie/partial" "$out/docker"
mount -t overlay overlay -o "lowerdir=$root,upperdir=$work/up,workdir=$work/work" "$r" || not_run "overlayfs cannot be mounted"
mount -t proc proc "$r/proc"
mount --rbind /dev "$r/dev"
mount --rbind /sys "$r/sys"
mount -t tmpfs -o mode=755 none "$r/run"
mount -t tmpfs none "$r/tmp"
mount --bind "$CACHE/roots/debs-trixie" "$r/var/cache/apt/archives"
in_root()
{
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot "$r" "$@"
}

say "installing Docker in the root"
cp /etc/resolv.conf "$r/etc/" 2> /dev/null
for file in /etc/apt/apt.conf.d/*proxy* /usr/local/share/ca-certificates/*; do
    [ -e "$file" ] && mkdir -p "$r${file%/*}" && cp "$file" "$r$file"
done
rm -f "$r/etc/apt/apt.conf.d/docker-clean"
in_root sh -c "update-ca-certificates && apt-get -q update && apt-get -q -y --no-install-recommends install $packages" \
    > "$out/docker/apt" 2>&1 || not_run "the archive does not give $packages, see $out/docker/apt"
BUILD=$build PREFIX=/usr DESTDIR=$r "$here/install.sh" backend tools libcuda softgpu > "$out/docker/install" ||
    { echo "FAIL: install.sh"; exit 1; }
in_root ldconfig
mkdir -p "$r/etc/docker" "$r/srv/programs" "$r/run/vgpu"
cat > "$r/etc/docker/daemon.json" << 'END'
{"features": {"cdi": true}, "storage-driver": "vfs", "bridge": "none", "iptables": false, "ip6tables": false}
END
install -m 755 "$build"/demo/programs/vector_add-static "$r/srv/programs/"

say "starting dockerd and a backend"
in_root dockerd > "$out/docker/dockerd" 2>&1 &
in_root /usr/lib/vgpu/vgpu-backend --listen /run/vgpu/gpu.sock --gpu soft > "$out/docker/backend" 2>&1 &
backend=$!
for _ in $(seq 120); do
    [ -S "$r/run/vgpu/gpu.sock" ] && in_root docker info > "$out/docker/info" 2>&1 && break
    kill -0 $backend 2> /dev/null || break
    sleep 0.5
done
[ -S "$r/run/vgpu/gpu.sock" ] || { echo "FAIL: the backend does not start: $(tail -n 3 "$out/docker/backend")"; exit 1; }
in_root docker info > "$out/docker/info" 2>&1 || not_run "dockerd does not start here: $(tail -n 1 "$out/docker/dockerd")"
tar -C "$root" --exclude=./proc/* --exclude=./sys/* --exclude=./dev/* --exclude=./usr/share --exclude=./var/lib/apt --exclude=./var/cache \
    --exclude=./usr/lib/git-core -c . | in_root docker import - minimal > "$out/docker/import" 2>&1 ||
    not_run "docker imports no image: $(tail -n 1 "$out/docker/import")"

run="docker run --rm --network none"
gpu="--device nvidia.com/gpu=all"
says "without the file the device is not known" 125 "nvidia.com/gpu=all|CDI" $run $gpu minimal true
says "vgpu cdi generate" 0 "^$" vgpu cdi generate --socket /run/vgpu/gpu.sock --output /etc/cdi/vgpu.json
says "vgpu smi in a container" 0 "MiB" $run $gpu minimal vgpu smi
says "a CUDA program in a container" 0 ": PASS$" $run $gpu -v /srv/programs:/srv/programs:ro minimal /srv/programs/vector_add-static
says "the first GPU by its number" 0 ": PASS$" $run --device nvidia.com/gpu=0 -v /srv/programs:/srv/programs:ro minimal \
    /srv/programs/vector_add-static
says "a GPU that is not there" 125 "nvidia.com/gpu=9" $run --device nvidia.com/gpu=9 minimal true
says "without the option there is no GPU" 127 "vgpu" $run minimal vgpu smi
says "nor for a program" 1 "." $run -v /srv/programs:/srv/programs:ro minimal /srv/programs/vector_add-static
# The library is read-only there.
says "a container cannot change the host's library" 2 "Read-only file system" $run $gpu minimal sh -c 'echo x > /usr/lib64/libcuda.so.1'
in_root pkill dockerd 2> /dev/null
kill %1 %2 2> /dev/null
wait
echo "docker: $passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
