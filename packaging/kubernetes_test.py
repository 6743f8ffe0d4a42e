#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Checks the manifests of docs/kubernetes.md: kubernetes_test.py FOLDER.

Each block of YAML is held against the strict schema of its kind, out of the package kubernetes-validate of the Python index (pinned, kept
in the cache that clones share); a VirtualMachine against the OpenAPI description in KubeVirt's repository (its release out of Go's module proxy). The hook in the ConfigMap is run; FOLDER gets the domain that it made, hook.xml. Each
check is a line; what cannot be had is named by "not run: NAME: REASON".
"""
import copy
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
sys.path.insert(0, os.path.join(TOP, "scripts"))
import gomod  # noqa: E402
import pypi  # noqa: E402

CACHE = os.environ.get("VGPU_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "vgpu-cuda")
WHEEL = ("kubernetes-validate", "85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9", "22560767")
# The repository at the release's tag, as Go's module proxy has it.
KUBEVIRT = ("kubevirt.io/kubevirt@v1.9.0", "e8fee3cd7994d63783f8fa793b74a4d1ba93e02343a36bacffdf31fa077f33dd", 10418700)
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
    """KubeVirt's API, of the OpenAPI description in its repository. What it does not define is an error."""

    def __init__(self, definitions):
        self.definitions = definitions

    def resolve(self, schema):
        while "$ref" in schema:
            schema = self.definitions[schema["$ref"].split("/")[-1]]
        return schema

    def errors(self, value, schema, place):
        """What of VALUE is not as SCHEMA says, each with its place."""
        schema = self.resolve(schema)
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if schema.get("format") == "int-or-string":
            kinds = ["string", "integer"]
        known = {"string": str, "boolean": bool, "integer": int, "number": (int, float), "object": dict, "array": list}
        if kinds and not any(isinstance(value, known[k]) and isinstance(value, bool) == (k == "boolean") for k in kinds):
            return ["%s: %r is no %s" % (place, value, " or ".join(kinds))]
        if "enum" in schema and value not in schema["enum"]:
            return ["%s: %r is none of %s" % (place, value, schema["enum"])]
        if isinstance(value, list):
            return [e for i, item in enumerate(value) for e in self.errors(item, schema.get("items", {}), "%s.%d" % (place, i))]
        return self.field_errors(value, schema, place) if isinstance(value, dict) else []

    def field_errors(self, value, schema, place):
        fields, others = schema.get("properties", {}), schema.get("additionalProperties")
        out = ["%s: %s is missing" % (place, name) for name in schema.get("required", []) if name not in value]
        for name, item in value.items():
            if name in fields or isinstance(others, dict):
                out += self.errors(item, fields.get(name, others), place + "." + name)
            elif fields and not others:
                out.append("%s: there is no field %s" % (place, name))
        return out


def kubevirt():
    """KubeVirt's API, or why it cannot be had. The repository is a Go module: its proxy has each release."""
    place = os.path.join(CACHE, "downloads")
    os.makedirs(place, exist_ok=True)
    try:
        archive = pypi.download(*KUBEVIRT, place, gomod.address, ".zip")
        with zipfile.ZipFile(archive) as module:
            text = module.read(KUBEVIRT[0] + "/api/openapi-spec/swagger.json")
    except (pypi.Unavailable, OSError, zipfile.BadZipFile) as e:
        return None, str(e)
    return KubeVirt(json.loads(text)["definitions"]), ""


def virtual_machine(machine, config):
    """The VirtualMachine: its hook is the ConfigMap's, its fields are KubeVirt's."""
    words = json.loads(machine["spec"]["template"]["metadata"]["annotations"]["hooks.kubevirt.io/hookSidecars"])
    named = words[0]["configMap"]
    report("the VirtualMachine's hook is in the ConfigMap",
           named["name"] == config["metadata"]["name"] and named["key"] in config["data"], words)
    api, why = kubevirt()
    if api is None:
        skip("kubernetes: KubeVirt's API", why)
        return
    kind = {"$ref": "#/definitions/v1.VirtualMachine"}
    found = api.errors(machine, kind, "VirtualMachine")
    report("VirtualMachine: the API of KubeVirt " + KUBEVIRT[0].split("@")[1], not found, found)
    # The check itself: what is misspelt, of another type, missing or of no such value, also deep inside.
    for name, change in (("a field that is not there", lambda s: s["domain"]["devices"]["disks"][0].update(discs={})),
                         ("a field of another type", lambda s: s["domain"]["cpu"].update(cores="four")),
                         ("a boolean for a number", lambda s: s["domain"]["cpu"].update(cores=True)),
                         ("a list for an object", lambda s: s["domain"].update(cpu=[])),
                         ("a list's element of another type", lambda s: s["networks"].append("default")),
                         ("a field that is missing", lambda s: s["volumes"][0].pop("name"))):
        wrong = copy.deepcopy(machine)
        change(wrong["spec"]["template"]["spec"])
        found = api.errors(wrong, kind, "VirtualMachine")
        report("VirtualMachine with %s is refused" % name, len(found) == 1, found)


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
    virtual_machine(machine, manifests[-1])
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
