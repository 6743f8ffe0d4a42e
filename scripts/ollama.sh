#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Ollama in build/ollama: bin/ollama and lib/ollama, laid out as its own packages are.
#
#   ollama.sh            builds what is missing; prints nothing when all is there
#   ollama.sh --there    exit status 0: all is there
#   ollama.sh --version  Ollama's version, and what its native part was built of
#
# bin/ollama is Ollama's server and command at a named release, built unmodified from its module of the Go module
# proxy, with the modules that its go.sum pins. It lies in the cache, so that it is built once for all clones.
# lib/ollama has llama.cpp, which this release of Ollama runs as a process of its own: llama-server, built from
# the sources in the npm package node-llama-cpp, and the libraries of @node-llama-cpp/linux-x64-cuda
# (scripts/llama.sh), which are some days newer than the version that the release pins. What Ollama's own build adds
# to llama.cpp (reading models that older releases of Ollama have made) is not in it.
# Go comes from the machine where it is new enough, else from the module proxy. Several callers at once wait for
# each other.

set -u
. "$(dirname "$0")/lib.sh"

VERSION=v0.34.4
MODULE=github.com/ollama/ollama@$VERSION
SHA256=1da6a32c9b4fd056dd5ff08b251886594727bf4be531c58ce951c740b63db5ad
BYTES=27681048
# The oldest Go that builds it (its go.mod), and the one that is fetched where the machine has none.
GO_MINOR=26
GO_MODULE=golang.org/toolchain@v0.0.1-go1.26.8.linux-amd64
GO_SHA256=30c2b1bf7dcc88d3eb0a1364e47ddd9128edb3110a30e8a0ef61cd5856b31de7
GO_BYTES=71680185

PLACE=$BUILD/ollama
PROGRAM=$CACHE/ollama/$VERSION/ollama
WORK=$CACHE/ollama/work
LIBS=$BUILD/npm/node_modules/@node-llama-cpp/linux-x64-cuda/bins/linux-x64-cuda

# there: whether everything is.
there()
{
    [ "$(cat "$PLACE/.laid-out" 2> /dev/null)" = "$(stamp)" ] && [ -x "$PLACE/bin/ollama" ]
}

# stamp: what the layout was made of.
stamp()
{
    sha256sum "$SCRIPTS/ollama.sh" | cut -d ' ' -f 1
    stat -c '%n %Y %s' "$PROGRAM" "$BUILD/llama/bin/llama-server" "$LIBS/libggml-cuda.so" 2> /dev/null
}

# find_go: sets GO.
find_go()
{
    local version

    GO=$(command -v go || echo /usr/local/go/bin/go)
    # The version of the local toolchain, whatever a go.mod would have it switch to.
    version=$(GOTOOLCHAIN=local "$GO" env GOVERSION 2> /dev/null)
    version=${version#go1.}
    version=${version%%[!0-9]*}
    [ "${version:-0}" -ge $GO_MINOR ] && return 0
    GO=$WORK/go/bin/go
    [ -x "$GO" ] && return 0
    say "fetching Go ($((GO_BYTES / 1000000)) MB), as the machine has none of version 1.$GO_MINOR or newer"
    /usr/bin/python3 -B "$SCRIPTS/gomod.py" "$GO_MODULE" $GO_SHA256 $GO_BYTES "$CACHE/downloads" "$WORK/go" ||
        die "Go cannot be had: install Go 1.$GO_MINOR, or set GOPROXY to a proxy of Go modules that can be reached"
}

build_program()
{
    local source=$WORK/ollama-$VERSION

    mkdir -p "$WORK" "$(dirname "$PROGRAM")"
    find_go
    if [ ! -d "$source" ]; then
        say "fetching Ollama $VERSION ($((BYTES / 1000000)) MB)"
        /usr/bin/python3 -B "$SCRIPTS/gomod.py" "$MODULE" $SHA256 $BYTES "$CACHE/downloads" "$source" ||
            die "Ollama's module cannot be had: set GOPROXY to a proxy of Go modules that can be reached"
    fi
    # -O1: SQLite takes minutes with -O2. -mod=readonly: only what go.sum pins.
    (
        cd "$source" || exit 1
        exec env GOTOOLCHAIN=local GOFLAGS=-mod=readonly GOWORK=off GOPATH="$WORK/path" GOCACHE="$WORK/objects" CGO_ENABLED=1 \
            CGO_CFLAGS=-O1 "$SCRIPTS/step.sh" ollama "building Ollama $VERSION" "$GO" build -v -p "${JOBS:-$(nproc)}" -trimpath -buildvcs=false \
            -ldflags "-s -w -X=github.com/ollama/ollama/version.Version=${VERSION#v}" -o "$PROGRAM.new" .
    ) || die "Ollama cannot be built"
    mv "$PROGRAM.new" "$PROGRAM"
    # Modules are kept read-only by Go. What is left of a failed build is used by the next.
    chmod -R u+w "$WORK"
    rm -rf "$WORK"
}

# put FILE DIR: a copy there. Not a symbolic link: Ollama looks for its libraries, and llama.cpp for its backends,
# beside the file that a link leads to.
put()
{
    cp -l "$1" "$2/" 2> /dev/null || cp "$1" "$2/" || die "cannot write to $2"
}

lay_out()
{
    local name lib=$PLACE/lib/ollama

    rm -rf "$PLACE"
    mkdir -p "$PLACE/bin" "$lib/cuda_v13"
    put "$PROGRAM" "$PLACE/bin"
    for name in "$LIBS"/*.so "$BUILD/llama/bin/llama-server"; do
        put "$name" "$lib"
    done
    mv "$lib/libggml-cuda.so" "$lib/cuda_v13/"
    # Each start of llama-server loads all forms of the CPU backend to choose one. Two are enough.
    find "$lib" -name 'libggml-cpu-*.so' ! -name '*-x64.so' ! -name '*-haswell.so' -delete
    # Ollama asks for it by the name that it has without the distributor's suffix.
    (cd "$lib" && ln -s libggml.cuda.*.so libggml.so) || exit 1
    stamp > "$PLACE/.laid-out"
}

case ${1:-} in
--there)
    there
    exit
    ;;
--version)
    echo "Ollama ${VERSION#v}, llama.cpp $(cd "$LIBS" 2> /dev/null && ls libllama.cuda.*.so | sed 's/libllama.cuda.//; s/.so$//')"
    exit 0
    ;;
'') ;;
*)
    sed -n '4,19s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
"$SCRIPTS/llama.sh" llama-server || exit 1
mkdir -p "$CACHE/ollama"
exec 8> "$CACHE/ollama/.lock"
flock 8
[ -x "$PROGRAM" ] || build_program
there || lay_out
