#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Tests of pypi.py and find-cuda.sh with an index on the loopback interface. Prints what scripts_test.sh does."""
import hashlib
import http.server
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
passed = failed = 0


def check(name, good, detail=""):
    global passed, failed
    if good:
        passed += 1
        print(f"ok - {name}")
    else:
        failed += 1
        print(f"FAIL: {name}{': ' + str(detail) if detail else ''}")


def wheel(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, (mode, text) in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            archive.writestr(entry, text)
    return out.getvalue()


WHEEL = wheel({
    "nvidia/cu13/bin/nvcc": (0o755, "#!/bin/sh\n"),
    "nvidia/cu13/include/cuda.h": (0o644, "#define CUDA_VERSION 13000\nvoid cuInit(void);\n"),
    "nvidia/cu13/include/cudaProfiler.h": (0o644, "void cuProfilerStart(void);\n"),
    "nvidia/cu13/lib/libcudart.so.13": (0o644, "x" * 300000),
    "nvidia/../../outside": (0o644, "no"),
    "nvidia_core-1.dist-info/License.txt": (0o644, "terms"),
})
SHA = hashlib.sha256(WHEEL).hexdigest()
EXTRA = wheel({"nvidia/extra/lib/libextra.so.1": (0o644, "y")})
EXTRA_SHA = hashlib.sha256(EXTRA).hexdigest()


class Index(http.server.BaseHTTPRequestHandler):
    """A package index; `behaviour` changes what the next answers are."""
    behaviour = {"kind": "json", "cut": 0, "ranges": [], "requests": 0, "contents": WHEEL}

    def log_message(self, *args):
        pass

    def do_GET(self):
        b = self.behaviour
        b["requests"] += 1
        if self.path.startswith("/simple/"):
            name, sha = ("extra", EXTRA_SHA) if "extra" in self.path else ("core", SHA)
            if b["kind"] == "json":
                text = json.dumps({"files": [{"url": f"/files/{name}.whl", "hashes": {"sha256": sha}}]}).encode()
                kind = "application/vnd.pypi.simple.v1+json"
            else:
                text = f'<a href="../../files/{name}.whl#sha256={sha}">w</a>'.encode()
                kind = "text/html"
            self.answer(200, text, kind)
            return
        contents = EXTRA if "extra" in self.path else b["contents"]
        start = 0
        if "Range" in self.headers:
            start = int(self.headers["Range"][len("bytes="):-1])
            b["ranges"].append(start)
        rest = contents[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if b["cut"]:
            rest, b["cut"] = rest[:b["cut"]], 0
            self.close_connection = True
        self.wfile.write(rest)

    def answer(self, code, text, kind):
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    index = f"http://127.0.0.1:{server.server_port}/simple"
    work = tempfile.mkdtemp()
    env = {k: v for k, v in os.environ.items() if not k.startswith("PIP_") and k not in ("CUDA_HOME", "APT_CONFIG")}
    env.update(PIP_INDEX_URL=index, HOME=work, PIP_CONFIG_FILE="/dev/null", no_proxy="*")
    b = Index.behaviour

    def run(*args, **more):
        return subprocess.run(args, env={**env, **more}, text=True, capture_output=True, check=False)

    def fetch(place, sha=SHA, size=len(WHEEL), **more):
        return run("/usr/bin/python3", "-B", f"{HERE}/pypi.py", "nvidia-core", sha, str(size), f"{work}/{place}", **more)

    done = fetch("a")
    check("pypi: a file is downloaded", done.returncode == 0 and open(done.stdout.strip(), "rb").read() == WHEEL, done)
    b["requests"] = 0
    check("pypi: once", fetch("a").returncode == 0 and b["requests"] == 0)
    b["kind"] = "html"
    check("pypi: an index of the older form", fetch("b").returncode == 0)
    b.update(cut=100000, ranges=[])
    done = fetch("c")
    check("pypi: what broke off is continued", done.returncode == 0 and b["ranges"] and b["ranges"][0] > 0, b["ranges"])
    b["contents"] = WHEEL[:-1] + b"?"
    done = fetch("d")
    check("pypi: other contents are refused", done.returncode == 1 and "SHA-256 differs" in done.stderr, done)
    check("pypi: and removed", os.listdir(f"{work}/d") == [])
    b["contents"] = WHEEL + b"more"
    done = fetch("e")
    check("pypi: more than was promised is refused", done.returncode == 1 and "larger than" in done.stderr, done)
    b["contents"] = WHEEL
    done = fetch("f", sha="0" * 64)
    check("pypi: a file that the index has not", done.returncode == 1 and "no file with the pinned hash" in done.stderr, done)
    done = fetch("g", PIP_INDEX_URL="http://127.0.0.1:1/simple")
    check("pypi: no index", done.returncode == 1 and "nvidia-core: " in done.stderr, done)

    # find-cuda.sh with lists of its own.
    scripts = f"{work}/scripts"
    os.mkdir(scripts)
    for name in ("lib.sh", "find-cuda.sh", "pypi.py"):
        os.symlink(f"{HERE}/{name}", f"{scripts}/{name}")
    with open(f"{scripts}/cuda-packages.txt", "w", encoding="utf-8") as out:
        out.write(f"core nvidia-core 1 {SHA} {len(WHEEL)} all that is needed\n"
                  f"extra nvidia-extra 1 {EXTRA_SHA} {len(EXTRA)} and more\n")
    cache = f"{work}/cache"
    if os.path.exists("/usr/local/cuda/bin/nvcc"):
        print("not run: find-cuda: fetching: this machine has a toolkit in /usr/local/cuda")
        print(f"pypi: {passed} passed, {failed} failed, 1 skipped")
        return failed > 0

    def find(*args, **more):
        return run("bash", f"{scripts}/find-cuda.sh", *args, VGPU_CACHE=cache, **more)

    done = find("--where")
    home = done.stdout.strip()
    check("find-cuda: where it would be", done.returncode == 0 and home == f"{cache}/cuda-13.0", done)
    check("find-cuda: nothing to check yet", find("--check").returncode == 0 and not os.path.exists(home))
    done = find(PIP_INDEX_URL="http://127.0.0.1:1/simple")
    check("find-cuda: neither toolkit nor index", done.returncode == 1 and "it cannot be fetched" in done.stderr and
          "cuda-toolkit-13-0" in done.stderr, done)
    done = find()
    check("find-cuda: fetches the core", done.returncode == 0 and done.stdout.strip() == home and
          "all that is needed" in done.stderr and "and more" not in done.stderr, done)
    check("find-cuda: laid out as a toolkit", os.access(f"{home}/bin/nvcc", os.X_OK) and
          os.path.exists(f"{home}/lib64/libcudart.so") and os.path.exists(f"{home}/lib64/stubs/libcuda.so"))
    check("find-cuda: nothing lands outside", not os.path.exists(f"{cache}/outside") and
          not os.path.exists(f"{work}/outside"))
    check("find-cuda: with its licence", os.path.exists(f"{home}/licenses/nvidia_core-1.txt"))
    done = find(PIP_INDEX_URL="http://127.0.0.1:1/simple")
    check("find-cuda: a second time without network, in silence", done.returncode == 0 and not done.stderr, done)
    done = find("core", "extra", CUDA_HOME=home)
    check("find-cuda: another group into the same", done.returncode == 0 and os.path.exists(f"{home}/lib64/libextra.so") and
          "all that is needed" not in done.stderr, done)
    done = find("--fly")
    check("find-cuda: wrong use", done.returncode == 2 and "find-cuda.sh [--where" in done.stderr, done)
    names = subprocess.run(["nm", "-D", "--defined-only", f"{home}/lib64/stubs/libcuda.so"], text=True,
                           capture_output=True, check=False).stdout.split()
    check("find-cuda: the stub has the names of the headers", "cuInit" in names and "cuProfilerStart" in names, names)
    subprocess.run(["rm", "-rf", work], check=False)
    print(f"pypi: {passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
