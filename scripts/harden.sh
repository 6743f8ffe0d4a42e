#!/bin/sh
# SPDX-License-Identifier: MIT
#
# harden.sh BUILD: are the parts that a guest's bytes reach built as harden.mk says? A line for each breach.
build=$1
for file in host/softgpu/libcuda-soft.so.1 host/backend/vgpu-backend host/backend/vgpu-worker; do
    name=$file
    file=$build/$file
    [ -f "$file" ] || { echo "not run: hardening: $name is not built"; continue; }
    dynamic=$(readelf -dW "$file")
    symbols=$(readelf -W --dyn-syms "$file")
    case $dynamic in *BIND_NOW*) ;; *) echo "$name: hardening: not all is relocated at its start" ;; esac
    case $(readelf -lW "$file") in *GNU_RELRO*) ;; *) echo "$name: hardening: what was relocated stays writable" ;; esac
    case $symbols in *__stack_chk_fail*) ;; *) echo "$name: hardening: no canaries on the stack" ;; esac
    case $symbols in *printf_chk*) ;; *) echo "$name: hardening: lengths are not checked" ;; esac
    case $name:$dynamic in
    *.so.1:* | *PIE*) ;;
    *) echo "$name: hardening: at a fixed address" ;;
    esac
    # An index out of bounds traps; the compiler has few of them otherwise.
    case $(uname -m) in
    x86_64)
        code=$(objdump -d --no-show-raw-insn "$file")
        traps=$(printf '%s\n' "$code" | grep -c 'ud2')
        [ "$traps" -ge 20 ] || echo "$name: hardening: indexes are not checked ($traps traps)"
        # A frame of two pages or more that is taken at once.
        frames=$(printf '%s\n' "$code" | grep -cE 'sub +\$0x([2-9a-f][0-9a-f]{3}|[0-9a-f]{5,7}),%rsp')
        [ "$frames" = 0 ] || echo "$name: hardening: $frames frames can reach over the page that guards a stack"
        ;;
    esac
done
# The linker marks a program only when each object is marked, the C library's Scrt1.o, crti.o and crtn.o among them, which Debian's are not.
# So our own objects are asked: with a C library that is marked the programs are, too.
[ "$(uname -m)" = x86_64 ] || exit 0
marks() { # FOLDER FEATURE: the objects below that do not have it
    [ -d "$build/$1" ] || { echo "not run: hardening: $1 is not built"; return; }
    find "$build/$1" -name '*.o' ! -path '*/tests/*' | sort | while read -r object; do
        readelf -nW "$object" 2> /dev/null | grep -q "x86 feature:.*$2" || echo "${object#"$build"/}: hardening: compiled without $2"
    done
}
marks host/softgpu SHSTK
marks host/backend SHSTK
marks host/backend IBT
