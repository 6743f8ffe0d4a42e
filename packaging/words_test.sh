# SPDX-License-Identifier: MIT
# Part of install_test.sh: what an installed vgpu says names packages and pages that are there, and nothing of the source tree.
echo "# words, pages, completion of an installation"
PREFIX=/usr DESTDIR=$work/words "$install" backend tools guest softgpu
check "install for words" $?
installed=$work/words/usr/bin/vgpu
mapfile -t commands < "$build/packaging/man/commands"

# Prints what a text says of the source tree.
words_of_tree()
{
    grep -nE '`make |make -C|README|insmod|CONFIG_|(^|[^/a-z-])docs/|(^|[ `(])(userspace|kernel|host|tests|packaging|build)/' <<< "$1"
}

# Help, a wrong option, nothing at all, a value that cannot be.
for command in "" "${commands[@]}"; do
    for words in --help --fly "" "--gpu voodoo"; do
        text=$(cd "$work" && env -u VGPU_BACKEND timeout 60 "$installed" $command $words 2>&1 < /dev/null)
        ! words_of_tree "$text" > /dev/null
        check "vgpu $command $words: nothing of the source tree" $? "$(words_of_tree "$text")"
    done
done
text=$("$work/words/usr/lib/vgpu/vgpu-backend" --help 2>&1)
! words_of_tree "$text" > /dev/null
check "vgpu-backend --help: nothing of the source tree" $? "$(words_of_tree "$text")"

# Every part that is missing, one after the other: each names its package, which exists. What was named is given then.
PREFIX=/usr DESTDIR=$work/alone "$install" tools
rm -r "$work/alone/usr/lib"
mkdir -p "$work/dummy/driver"
: > "$work/dummy/libcuda.so.1"
: > "$work/dummy/libnvidia-ml.so.1"
packages=$(sed -n 's/^Package: //p' "$top/debian/control")
seen=0
# closure PACKAGE FIELD...: the packages of ours that it has in these fields, and these in theirs
closure()
{
    python3 -B - "$top/debian/control" "$@" <<'END'
import re, sys
fields, package = {}, None
for line in open(sys.argv[1], encoding="utf-8"):
    m = re.match(r"([A-Z][A-Za-z-]*): *(.*)", line)
    if m and m[1] == "Package":
        package = m[2]
    if m:
        field = m[1]
    if package and not line.startswith("#") and field in sys.argv[3:]:
        fields.setdefault(package, []).extend(re.findall(r"[a-z][a-z0-9-]+", re.sub(r"[A-Z][A-Za-z-]*:|\([^)]*\)|\$\{[^}]*\}", " ", line)))
todo, have = [sys.argv[2]], set()
while todo:
    name = todo.pop()
    if name in fields or name == sys.argv[2]:
        if name not in have:
            have.add(name)
            todo += fields.get(name, [])
print("\n".join(sorted(have)))
END
}
declare -A owner=([run]=vgpu-backend [vm]=vgpu-vm [guest-bundle]=vgpu-backend)
for command in "run --gpu soft true" "vm run --gpu soft --accel tcg true" "guest-bundle --out $work/dummy/out"; do
    given=()
    for _ in $(seq 12); do
        text=$(cd "$work" && env -u VGPU_BACKEND "${given[@]}" timeout 60 "$work/alone/usr/bin/vgpu" $command 2>&1 < /dev/null)
        variable=$(sed -n 's/.* is not there: .* with --[a-z-]* or \(VGPU_[A-Z_]*\)$/\1/p' <<< "$text" | head -n 1)
        [ -n "$variable" ] || break
        package=$(sed -n 's/.*the package that has it is \([a-z-]*\),.*/\1/p' <<< "$text")
        [ -n "$package" ] && grep -qx "$package" <<< "$packages" && ! words_of_tree "$text" > /dev/null
        check "vgpu $command without $variable: it is in ${package:-no package}" $? "$text"
        # A GPU there may be without the software one; all else comes with the package that the command is for.
        fields=Depends
        [ "$package" != vgpu-softgpu ] || fields="Depends Recommends"
        brought=$(closure "${owner[${command%% *}]}" $fields)
        grep -qx "$package" <<< "$brought"
        check "${owner[${command%% *}]} brings $package ($fields)" $? "$(xargs <<< "$brought")"
        case $variable in *_DIR | VGPU_GUEST_FILES) given+=("$variable=$work/dummy") ;; *) given+=("$variable=/bin/false") ;; esac
        seen=$((seen + 1))
    done
done
[ $seen -ge 8 ]
check "parts that were asked for: $seen" $?
# Each package that has a part is made of it.
for part in backend guest qemu vm tools softgpu libcuda dkms; do
    grep -qE "call part,[a-z0-9-]+,([a-z ]* )?$part( |\\)|$)" "$top/debian/rules"
    check "a package has the part $part" $?
done
# Packages and files that the words of doctor name.
for package in $(sed -n 's/.*packages\{0,1\} \(\(libcuda1-\)\{0,1\}vgpu[a-z-]*\).*/\1/p' "$top"/userspace/vgpu/doctor/*.c | sort -u); do
    grep -qx "$package" <<< "$packages"
    check "doctor names the package $package" $?
done
for page in $(sed -n 's/.*vgpu_cli_page("\([a-z.]*\)").*/\1/p' "$top"/userspace/vgpu/doctor/*.c | sort -u); do
    [ -s "$work/words/usr/share/doc/vgpu-tools/$page" ]
    check "the page $page is installed" $?
done
for command in "${commands[@]}"; do
    [ -s "$work/words/usr/share/man/man1/vgpu-${command%% *}.1" ]
    check "vgpu-${command%% *}(1), for $command" $?
done
# The manual pages say nothing of the source tree, and no page links to a file that is not there.
for page in "$work"/words/usr/share/man/man?/*; do
    text=$(sed 's/\\//g' "$page")
    ! words_of_tree "$text" > /dev/null
    check "man ${page##*/}: nothing of the source tree" $? "$(words_of_tree "$text")"
done
# links FOLDER: what its pages link to that is not there, one a line.
links()
{
    python3 -B - "$1" <<'END'
import glob, os, re, sys
for page in sorted(glob.glob(sys.argv[1] + "/**/*.md", recursive=True)):
    for target in re.findall(r"(?s)\[[^][]*\]\(([^)\s]+)\)", open(page, encoding="utf-8").read()):
        place = os.path.join(os.path.dirname(page), target.split("#")[0])
        if not re.match("[a-z]+:|#", target) and not os.path.exists(place):
            print(os.path.relpath(page, sys.argv[1]), target)
END
}
text=$(links "$work/words/usr/share/doc/vgpu-tools")
[ -z "$text" ]
check "the installed pages link to installed pages" $? "$text"
[ "$(grep -ohE '\]\(([a-z-]+/)*[a-z-]+\.md' "$work"/words/usr/share/doc/vgpu-tools/*.md | wc -l)" -gt 50 ] &&
    grep -q '](../tenancy.md)' "$work/words/usr/share/doc/vgpu-tools/results/bench-tenancy.md" &&
    grep -q '](SECURITY.md' "$work/words/usr/share/doc/vgpu-tools/nvidia.md"
check "and such links are left as they are" $?
# Every page is formatted without a warning.
if command -v man > /dev/null; then
    for page in "$work"/words/usr/share/man/man?/*; do
        text=$(LC_ALL=C.UTF-8 MANWIDTH=100 man --warnings -l "$page" 2>&1 > /dev/null)
        [ -z "$text" ]
        check "man ${page##*/}" $? "$text"
    done
else
    skip "the manual pages" "man is not installed"
fi

# completions WORDS...: those of the last word
completions()
{
    bash -c 'PATH=$1:$1/../lib/vgpu:$PATH; . "$2"; shift 2; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        case $1 in *vgpu-backend) _vgpu_backend ;; *) _vgpu ;; esac; printf "%s\n" "${COMPREPLY[@]}"' - \
        "$work/words/usr/bin" "$work/words/usr/share/bash-completion/completions/vgpu" "$@"
}

# completes WANT WORDS: it is among the completions
completes()
{
    completions "${@:2}" > "$work/completed"
    grep -qx -- "$1" "$work/completed"
    check "completion: ${*:2} gives $1" $? "$(cat "$work/completed")"
}
completes doctor vgpu do
completes guest-bundle vgpu ""
completes shell vgpu vm s
completes generate vgpu cdi ""
completes --memory vgpu vm run --me
completes --json vgpu doctor --js
completes soft vgpu run --gpu s
completes --host vgpu smi --ho
completes --vram-quota vgpu-backend --vr
completes ceiling vgpu-backend --memory-policy c
completes --all vgpu vm stop --a

# Each option that is offered is an option of the command's parser, which goes on to the word after it (or takes that).
for command in "${commands[@]}" vgpu-backend; do
    words=(vgpu $command)
    [ "$command" != vgpu-backend ] || words=(vgpu-backend)
    seen=0
    for option in $(completions "${words[@]}" --); do
        text=$(cd "$work" && PATH=$work/words/usr/bin:$work/words/usr/lib/vgpu:$PATH timeout 60 "${words[@]}" "$option" --fly --fly 2>&1 < /dev/null)
        ! grep -qE -- "(unrecognized|ambiguous|invalid) option '?$option|'$option' is not" <<< "$text"
        check "${words[*]} takes $option, which completion offers" $? "$text"
        seen=$((seen + 1))
    done
    [ $seen -gt 0 ] || [ "$command" = "vm list" ]
    check "${words[*]}: $seen options offered" $?
done
! completions vgpu run --qe | grep -q .
check "completion: nothing that vgpu run refuses" $?

# Names that are there now: of limits, by the control socket of the line, and of machines.
mkdir "$work/named"
cat > "$work/named/vgpu" <<'END'
#!/bin/sh
case $* in
"ctl --socket /c get") printf 'vram-quota 0\nmax-clients 64\n' ;;
"vm list") printf 'NAME PID\none 17\n' ;;
esac
END
chmod +x "$work/named/vgpu"
completes max-clients "$work/named/vgpu" ctl --socket /c get m
completes vram-quota "$work/named/vgpu" ctl --socket /c set v
completes one "$work/named/vgpu" vm stop o
