#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Checks the manifests of docs/kubernetes.md: kubernetes_test.py FOLDER.

Each block of YAML is held against the strict schema of its kind, out of the package kubernetes-validate of the Python index (pinned, kept
in the cache that clones share); a VirtualMachine against the types that are generated from KubeVirt's API (scripts/npm.sh kubevirt). The hook in the ConfigMap is run; FOLDER gets the domain that it made, hook.xml. Each
check is a line; what cannot be had is named by "not run: NAME: REASON".
"""
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zipfile

from checks import end, report, skip

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
CACHE = os.environ.get("VGPU_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "vgpu-cuda")
WHEEL = ("kubernetes-validate", "85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9", "22560767")
SCHEMAS = "kubernetes_validate/kubernetes-json-schema/v1.37.0-local-strict/"
QEMU = "{http://libvirt.org/schemas/domain/qemu/1.0}"


def schemas():
    """The wheel, open, or why it cannot be had."""
    place = os.path.join(CACHE, "python")
    os.makedirs(place, exist_ok=True)
    done = subprocess.run([sys.executable, "-B", os.path.join(TOP, "scripts/pypi.py"), *WHEEL, place],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        return None, done.stderr.decode(errors="replace").strip().split("\n")[-1]
    return zipfile.ZipFile(done.stdout.decode().strip()), ""


def errors(wheel, manifest):
    import jsonschema

    def load(name):
        return json.loads(wheel.read(SCHEMAS + name))

    # The files name each other relatively.
    resolver = jsonschema.RefResolver("http://schemas.invalid/", {}, handlers={"http": lambda uri: load(uri.split("/")[-1])})
    schema = load("%s-%s.json" % (manifest["kind"].lower(), manifest["apiVersion"].replace("/", "-")))
    return [e.message for e in jsonschema.Draft4Validator(schema, resolver=resolver).iter_errors(manifest)]


class KubeVirt:
    """KubeVirt's API as TypeScript interfaces, a file each: {interface: {field: (its type, whether it must be there)}}."""

    def __init__(self, folder):
        self.folder, self.interfaces, self.names = folder, {}, set(os.listdir(folder))

    def fields(self, name):
        """The fields of an interface; None when NAME is none: a word of an enumeration, or a type of TypeScript's own."""
        if name not in self.interfaces:
            self.interfaces[name] = None
            if name + ".ts" in self.names:
                with open(os.path.join(self.folder, name + ".ts"), encoding="utf-8") as f:
                    body = re.search(r"(?ms)^export interface %s \{\n(.*?)^\}" % re.escape(name), f.read())
                if body:
                    self.interfaces[name] = {
                        field: (kind, not optional) for field, optional, kind in
                        re.findall(r"(?m)^  '?([\w.$-]+)'?(\??): (.*);$", body.group(1))}
        return self.interfaces[name]

    def errors(self, value, kind, place):
        """What of VALUE is not of the type KIND, each with its place."""
        simple = {"string": str, "boolean": bool, "number": (int, float), "object": dict}
        if kind in simple:
            ok = isinstance(value, simple[kind]) and (kind != "number" or not isinstance(value, bool))
            return [] if ok else ["%s: %r is no %s" % (place, value, kind)]
        inner = re.fullmatch(r"Array<(.*)>|\{ \[key: string\]: (.*?);? \}", kind)
        if inner:
            if not isinstance(value, list if inner.group(1) else dict):
                return ["%s: %r is no %s" % (place, value, kind)]
            items = enumerate(value) if inner.group(1) else value.items()
            return [e for key, item in items
                    for e in self.errors(item, inner.group(1) or inner.group(2), "%s.%s" % (place, key))]
        fields = self.fields(kind)
        if fields is None:
            return []
        if not isinstance(value, dict):
            return ["%s: %r is no %s" % (place, value, kind)]
        out = ["%s: %s is missing" % (place, name) for name, (_, needed) in fields.items() if needed and name not in value]
        for name, item in value.items():
            if name in fields:
                out += self.errors(item, fields[name][0], place + "." + name)
            else:
                out.append("%s: %s has no field %s" % (place, kind, name))
        return out


def kubevirt(build):
    """KubeVirt's types, or why they cannot be had."""
    done = subprocess.run([os.path.join(TOP, "scripts/npm.sh"), "kubevirt"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=dict(os.environ, VGPU_BUILD=build), check=False)
    models = os.path.join(build, "npm/node_modules/@kubevirt-ui/kubevirt-api/kubevirt/models")
    if done.returncode or not os.path.isdir(models):
        return None, done.stdout.decode(errors="replace").strip().split("\n")[-1]
    return KubeVirt(models), ""


def virtual_machine(machine, config, build):
    """The VirtualMachine: its hook is the ConfigMap's, its fields are KubeVirt's."""
    words = json.loads(machine["spec"]["template"]["metadata"]["annotations"]["hooks.kubevirt.io/hookSidecars"])
    named = words[0]["configMap"]
    report("the VirtualMachine's hook is in the ConfigMap",
           named["name"] == config["metadata"]["name"] and named["key"] in config["data"], words)
    api, why = kubevirt(build)
    if api is None:
        skip("kubernetes: KubeVirt's types", why)
        return
    found = api.errors(machine, "V1VirtualMachine", "VirtualMachine")
    report("VirtualMachine: KubeVirt's types", not found, found)
    # The check itself: what is misspelt, of another type or missing, deep inside.
    spec = machine["spec"]["template"]["spec"]
    spec["domain"]["devices"]["disks"][0]["discs"] = {}
    spec["domain"]["cpu"]["cores"] = "four"
    del spec["volumes"][0]["name"]
    report("a VirtualMachine with three faults has three", len(api.errors(machine, "V1VirtualMachine", "VirtualMachine")) == 3,
           api.errors(machine, "V1VirtualMachine", "VirtualMachine"))


def hook(script, folder):
    """The hook's domain, of a domain with memory backing of its own, of one without, and of its own result."""
    path = os.path.join(folder, "onDefineDomain")
    with open(path, "w", encoding="utf-8") as f:
        f.write(script)
    domain = ("<domain type='kvm'><name>a</name><memory unit='MiB'>64</memory>%s<os><type arch='x86_64' machine='q35'>hvm</type></os>"
              "<devices><emulator>/usr/libexec/qemu-kvm</emulator></devices></domain>")
    for backing in "", "<memoryBacking><hugepages/></memoryBacking>", "<memoryBacking><source type='file'/></memoryBacking>":
        done = subprocess.run([sys.executable, path, "--vmi", "{}", "--domain", domain % backing], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        text = done.stdout.decode(errors="replace")
        name = "the hook, with the domain's %s" % (backing or "no memoryBacking")
        if not report(name + ": ends well", done.returncode == 0, text):
            continue
        made = ElementTree.fromstring(text)
        words = [a.get("value") for a in made.findall("%scommandline/%sarg" % (QEMU, QEMU))]
        report(name + ": shared memory, the device", made.find("memoryBacking/source").get("type") == "memfd"
               and made.find("memoryBacking/access").get("mode") == "shared" and len(made.findall("memoryBacking")) == 1
               and len(words) == 4 and words[3].startswith("vgpu-cuda,chardev=vgpu,"), text)
        with open(os.path.join(folder, "hook.xml"), "w", encoding="utf-8") as f:
            f.write(text)


def main():
    try:
        import jsonschema  # noqa: F401
        import yaml
    except ImportError as e:
        skip("kubernetes", "%s (python3-yaml, python3-jsonschema)" % e)
        return
    with open(os.path.join(TOP, "docs/kubernetes.md"), encoding="utf-8") as f:
        manifests = [yaml.safe_load(block) for block in re.findall(r"(?s)```yaml\n(.*?)```", f.read())]
    report("the page has a DaemonSet, a Pod, a ConfigMap and a VirtualMachine",
           [m["kind"] for m in manifests] == ["DaemonSet", "Pod", "ConfigMap", "VirtualMachine"])
    machine = manifests.pop()
    hook(manifests[-1]["data"]["onDefineDomain"], sys.argv[1])
    virtual_machine(machine, manifests[-1], os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[1]))))
    args = manifests[0]["spec"]["template"]["spec"]["containers"][0]["args"]
    resource = "squat.ai/" + json.loads(args[1])["name"]
    report("the Pod asks for what the DaemonSet hands out", resource in manifests[1]["spec"]["containers"][0]["resources"]["limits"])
    wheel, why = schemas()
    if wheel is None:
        skip("kubernetes: schemas", why)
        return
    for manifest in manifests:
        report("%s: Kubernetes' schema" % manifest["kind"], not errors(wheel, manifest), errors(wheel, manifest))
    # The check itself: what is misspelt or of another type is seen, also deep inside.
    manifests[1]["spec"]["containers"][0]["volumeMount"] = []
    manifests[0]["spec"]["template"]["spec"]["containers"][0]["args"] = "--device"
    for manifest in manifests[:2]:
        report("%s with a fault is refused" % manifest["kind"], errors(wheel, manifest))


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    main()
    sys.exit(end("kubernetes"))
