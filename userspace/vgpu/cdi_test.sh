# SPDX-License-Identifier: MIT
# vgpu cdi. Sourced by vgpu_test.sh.

echo "# vgpu cdi"
says "cdi --help" 0 "nvidia.com/gpu=all" "$vgpu" cdi --help
says "cdi without generate is wrong use" 2 "generate" "$vgpu" cdi
says "cdi: unknown argument" 2 "generate" "$vgpu" cdi generate more
says "cdi: no device" 6 "/dev/vgpu0" "$vgpu" cdi generate --root "$work"
says "cdi: a socket that is none" 2 "not the absolute path of a socket" "$vgpu" cdi generate --socket "$work/lib"
says "cdi: a relative socket" 2 "not the absolute path of a socket" "$vgpu" cdi generate --socket x
mkdir -p "$work/root/dev"
touch "$work/root/dev/vgpu0" "$work/root/dev/vgpu3"
# By the tables of CDI's SPEC.md 0.5.0: which keys there are, and what they may hold.
cat > "$work/cdi.py" <<'END'
import json, os, re, stat, sys
spec = json.load(open(sys.argv[1]))
assert set(spec) <= {"cdiVersion", "kind", "annotations", "devices", "containerEdits"}
assert spec["cdiVersion"] == "0.5.0" and re.fullmatch(r"[A-Za-z0-9][\w.-]*[A-Za-z0-9]/[A-Za-z0-9][\w-]*[A-Za-z0-9]", spec["kind"])
def edits(e):
    assert e and set(e) <= {"env", "deviceNodes", "mounts", "hooks"}
    for v in e.get("env", []):
        assert re.fullmatch(r"[A-Za-z_]\w*=.*", v)
    for d in e.get("deviceNodes", []):
        assert set(d) <= {"path", "hostPath", "type", "major", "minor", "fileMode", "permissions", "uid", "gid"} and d["path"][0] == "/"
    for m in e.get("mounts", []):
        assert set(m) <= {"hostPath", "containerPath", "options", "type"} and os.path.exists(m["hostPath"])
        assert m["containerPath"][0] == "/" and all(isinstance(o, str) for o in m["options"])
names = []
for d in spec["devices"]:
    assert set(d) <= {"name", "annotations", "containerEdits"} and re.fullmatch(r"[A-Za-z0-9]([\w.:-]*[A-Za-z0-9])?", d["name"])
    edits(d["containerEdits"])
    names.append(d["name"])
assert len(set(names)) == len(names)
edits(spec["containerEdits"])
inside = [m["containerPath"] for m in spec["containerEdits"]["mounts"]]
assert len(set(inside)) == len(inside) and "/usr/lib64/libcuda.so.1" in inside and "/usr/bin/vgpu" in inside
assert "NVIDIA_VISIBLE_DEVICES=void" in spec["containerEdits"]["env"]
nodes = [n["path"] for d in spec["devices"] for n in d["containerEdits"].get("deviceNodes", [])]
sockets = [m["hostPath"] for m in spec["containerEdits"]["mounts"] if stat.S_ISSOCK(os.stat(m["hostPath"]).st_mode)]
print(spec["kind"], *names, *nodes, *sockets)
END
says "cdi: writes a file" 0 "^$" "$vgpu" cdi generate --root "$work/root" --output "$work/vgpu.json"
says "cdi: devices of a guest" 0 "^nvidia.com/gpu 0 3 all /dev/vgpu0 /dev/vgpu3 /dev/vgpu0 /dev/vgpu3$" \
    /usr/bin/python3 "$work/cdi.py" "$work/vgpu.json"
/usr/bin/python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$work/b \"1.sock"
"$vgpu" cdi generate --socket "$work/b \"1.sock" > "$work/host.json"
says "cdi: a backend's socket on a host" 0 "^nvidia.com/gpu 0 all $work/b \"1.sock$" /usr/bin/python3 "$work/cdi.py" "$work/host.json"
# A folder of any characters: the engine, which reads JSON as UTF-8, opens files that exist (cdi.py
# looks for each), and each library is mounted read-only. JSON has no form for a path that is not UTF-8.
for name in "a ü" "日本" "\"q\\" "😀" $'\x01\x7f' $'zero\xe2\x80\x8bwidth'; do
    mkdir "$work/$name" && cp "$work"/lib/libcuda.so.1 "$work"/nvml/libnvidia-ml.so.1 "$work/$name"
    says "cdi: libraries in a folder '$(printf %q "$name")'" 0 "^$" env VGPU_LIBCUDA_DIR="$work/$name" VGPU_NVML_DIR="$work/$name" \
        "$vgpu" cdi generate --root "$work/root" --output "$work/named.json"
    says "cdi: what an engine reads of them" 0 "^nvidia.com/gpu 0 3 all" /usr/bin/python3 "$work/cdi.py" "$work/named.json"
    same "cdi: each library is the folder's, read-only" "$work/$name/libcuda.so.1 $work/$name/libnvidia-ml.so.1 bind nodev nosuid ro" \
        "$(/usr/bin/python3 -c '
import json, sys
m = [m for m in json.load(open(sys.argv[1], encoding="utf-8"))["containerEdits"]["mounts"] if ".so." in m["containerPath"]]
print(*sorted({m["hostPath"] for m in m}), *sorted({o for m in m for o in m["options"]}))' "$work/named.json")"
    /usr/bin/python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$work/$name/s"
    "$vgpu" cdi generate --socket "$work/$name/s" > "$work/named.json"
    says "cdi: a backend's socket there" 0 "" grep -qxF "nvidia.com/gpu 0 all $work/$name/s" <(/usr/bin/python3 "$work/cdi.py" "$work/named.json")
done
mkdir "$work/"$'\xfc' && cp "$work"/lib/libcuda.so.1 "$work/"$'\xfc'
rm "$work/named.json"
says "cdi: a path that is not UTF-8" 125 "/?/libcuda.so.1: the path is not UTF-8" env VGPU_LIBCUDA_DIR="$work/"$'\xfc' \
    "$vgpu" cdi generate --root "$work/root" --output "$work/named.json"
says "cdi: a library that is not there" 125 "is not there" env VGPU_NVML_DIR="$work/root" \
    "$vgpu" cdi generate --root "$work/root" --output "$work/named.json"
same "cdi: what is refused leaves no file" "" "$(ls "$work" | grep named)"
says "cdi: a file that cannot be written" 125 "No such file" "$vgpu" cdi generate --root "$work/root" --output "$work/none/none/x"
says "cdi: makes the file's folder" 0 "^$" "$vgpu" cdi generate --root "$work/root" --output "$work/cdi/x.json"
same "cdi: the folder that it made" 755 "$(stat -c %a "$work/cdi")"
# A link of another user's under the name that the file has before it is complete.
echo kept > "$work/aim"
says "cdi: no link is followed" 125 "File exists" \
    sh -c 'ln -s aim "$1.$$.tmp"; exec "$0" cdi generate --root "$2" --output "$1"' "$vgpu" "$work/linked" "$work/root"
same "cdi: what the link names is not written" kept "$(cat "$work/aim")"
rm "$work"/linked.*.tmp
same "cdi: nothing half-written is left" "" "$(ls "$work"/*.tmp 2> /dev/null)"
