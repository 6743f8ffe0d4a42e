#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Checks the manifests of docs/kubernetes.md: kubernetes_test.py FOLDER.

Each block of YAML is held against the strict schema of its kind, out of the package kubernetes-validate of the Python index (pinned, kept
in the cache that clones share). The hook in the ConfigMap is run; FOLDER gets the domain that it made, hook.xml. Each
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
    report("the page has a DaemonSet, a Pod and a ConfigMap", [m["kind"] for m in manifests] == ["DaemonSet", "Pod", "ConfigMap"])
    hook(manifests[-1]["data"]["onDefineDomain"], sys.argv[1])
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
