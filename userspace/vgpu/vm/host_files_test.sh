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
    same "vm: the host's tree is read-only, also by way of a share that has it" "" "$(ls "$work/kept")"
    same "vm: a share is not" in-the-share "$(ls "$work/share/tmp")"
fi
rm -rf "$work/share" "$work/kept"
