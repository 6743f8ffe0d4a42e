# SPDX-License-Identifier: MIT
# Part of vgpu_test.sh: the host's files where a guest may write to the folder that has vgpu's temporary ones. QEMU is a
# script, which sees what QEMU would.
mkdir "$work/share" "$work/share/tmp" "$work/kept"
cat > "$work/qemu-tree" <<'END'
#!/bin/bash
case "$*" in *-version*) exit 1 ;; esac
tree=$(echo "$TMPDIR"/vgpu-run.*/root)
[ -d "$tree$KEPT" ] && echo "the host's tree is there"
touch "$tree$KEPT/planted" "$TMPDIR/in-the-share"
END
chmod +x "$work/qemu-tree"
text=$(KEPT=$work/kept TMPDIR=$work/share/tmp timeout 60 "$vgpu" vm run --gpu none --accel tcg --qemu "$work/qemu-tree" \
    --kernel "$work/backend" --initrd "$work/backend" --share "$work/share" true 2>&1)
if grep -q "no mount namespace" <<< "$text"; then
    skipped=$((skipped + 1))
    echo "not run: vm: the host's tree in a share: no mount namespace may be made here"
else
    same "vm: QEMU sees the host's tree" 1 "$(grep -c "the host's tree is there" <<< "$text")"
    same "vm: the host's tree is read-only also by way of a share that has it" "" "$(ls "$work/kept")"
    same "vm: a share is not" in-the-share "$(ls "$work/share/tmp")"
fi
# A guest lays out a folder as a vgpu that was killed leaves it, and puts a link in its place while the next one removes it.
cat > "$work/swap.py" <<'END'
# swap.py FOLDER KEPT READY: at the first file that vanishes from FOLDER it becomes a link to KEPT.
import os, sys
folder, kept, ready = sys.argv[1:]
first = len(os.listdir(folder))
open(ready, "w").write("ready")
while len(os.listdir(folder)) == first:
    pass
os.rename(folder, folder + ".real")
os.symlink(kept, folder)
END
left=$work/tmp/vgpu-run.4194305.swapped
mkdir -p "$left/folder"
for dir in "$left/folder" "$work/kept"; do (cd "$dir" && seq -f file%g 20000 | xargs touch); done
timeout 60 /usr/bin/python3 "$work/swap.py" "$left/folder" "$work/kept" "$work/swap.ready" & swapper=$!
appears "$work/swap.ready"
$run true
wait $swapper
same "temporary folders are removed without following a link" 20000 "$(find "$work/kept" -type f | wc -l)"
mkdir -p "$left/folder"
ln -s "$work/kept" "$left/folder/link"
rm -rf "$work/share"
same "... also one that is there before" 20000 "$($run true; find "$work/kept" -type f | wc -l)"
rm -rf "$work/kept" "$work"/tmp/*
# A guest puts a link in place of a file that vgpu writes again.
echo precious > "$work/precious"
ln -s precious "$work/link"
for option in "trace --json" "trace --output" "trace --chrome" "trace --record"; do
    says "$option: no link is written through" 125 "link: it is a link" "$vgpu" $option "$work/link" true
done
says "vm run --keep-log: no link is written through" 125 "link: it is a link" \
    "$vgpu" vm run --gpu none --accel tcg --qemu "$work/qemu-tree" --kernel "$work/backend" --initrd "$work/backend" --keep-log "$work/link" true
same "what the link names is not written" precious "$(cat "$work/precious")"
# Or a FIFO, at which nobody reads.
mkfifo "$work/fifo"
for option in "trace --json" "trace --output" "trace --chrome" "trace --record"; do
    says "$option: a FIFO is not waited for" 125 "fifo: it is a FIFO" timeout 10 "$vgpu" $option "$work/fifo" true
done
says "vm run --keep-log: a FIFO is not waited for" 125 "fifo: it is a FIFO" \
    timeout -k 1 10 "$vgpu" vm run --gpu none --accel tcg --qemu "$work/qemu-tree" --kernel "$work/backend" --initrd "$work/backend" --keep-log "$work/fifo" true
exec 7<> "$work/fifo"
says "trace --output: a FIFO with a reader" 0 "" "$vgpu" trace --gpu soft --output "$work/fifo" true
same "... gets it" 1 "$(timeout 5 grep -m 1 -c "vgpu trace: no call" <&7)"
exec 7>&-
says "trace --output: but one of the system's" 0 "vgpu trace: no call" "$vgpu" trace --gpu soft --output /dev/stdout true
cat > "$work/qemu-talks" <<'END'
#!/bin/bash
case "$*" in *-version*) exit 1 ;; esac
path=$(sed 's/.*file,id=console,path=\([^,]*\),.*/\1/' <<< "$*")
echo "words of the kernel" > "$path"
END
chmod +x "$work/qemu-talks"
says "vm run --keep-log: the console is shown" 125 "words of the kernel" \
    "$vgpu" vm run --gpu none --accel tcg --qemu "$work/qemu-talks" --kernel "$work/backend" --initrd "$work/backend" --keep-log "$work/console" true
same "vm run --keep-log: and kept" "words of the kernel" "$(cat "$work/console")"
# A guest that sees vgpu's folder appear puts links there, before vgpu has made its own files.
cat > "$work/backend-links" <<END
#!/bin/bash
for name in qemu.log console.log; do ln -s "$work/precious" "\${2%/*}/\$name"; done
exec "$work/backend" "\$@"
END
sed 's/^echo.*/echo "words of QEMU"; &/' "$work/qemu-talks" > "$work/qemu-both"
chmod +x "$work/backend-links" "$work/qemu-both"
timeout 60 "$vgpu" vm run --gpu soft --backend "$work/backend-links" --accel tcg --qemu "$work/qemu-both" \
    --kernel "$work/backend" --initrd "$work/backend" --driver "$work/backend" true > "$work/out" 2>&1
same "vm: no link in place of a log is written through" precious "$(cat "$work/precious")"
same "vm: and what was written elsewhere is shown" "words of the kernel" "$(grep -o "words of the kernel" "$work/out")"
