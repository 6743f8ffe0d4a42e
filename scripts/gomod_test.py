#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Tests of gomod.py with a module proxy on the loopback interface. Prints what scripts_test.sh does."""
import hashlib
import http.server
import io
import os
import subprocess
import sys
import tempfile
import threading
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
MODULE = "example.org/Upper/module@v1.0.0"
passed = failed = 0


def check(name, good, detail=""):
    global passed, failed
    if good:
        passed += 1
        print(f"ok - {name}")
    else:
        failed += 1
        print(f"FAIL: {name}{': ' + str(detail) if detail else ''}")


def archive():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, text in {"go.mod": "module", "bin/tool": "#!/bin/sh\n", "a/b.go": "x" * 300000}.items():
            file.writestr(f"{MODULE}/{name}", text)
        file.writestr(f"{MODULE}/../outside", "no")
        file.writestr("elsewhere", "no")
    return out.getvalue()


ZIP = archive()
SHA = hashlib.sha256(ZIP).hexdigest()


class Proxy(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        good = self.path == "/proxy/example.org/!upper/module/@v/v1.0.0.zip"
        self.send_response(200 if good else 404)
        self.send_header("Content-Length", str(len(ZIP) if good else 0))
        self.end_headers()
        if good:
            self.wfile.write(ZIP)


def fetch(work, place, sha=SHA, size=len(ZIP), module=MODULE, proxy=None):
    environment = dict(os.environ, GOPROXY=proxy, NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")
    return subprocess.run([sys.executable, "-B", HERE + "/gomod.py", module, sha, str(size), work + "/downloads",
                           f"{work}/{place}"], env=environment, text=True, capture_output=True, timeout=120, check=False)


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    proxy = f"http://127.0.0.1:{server.server_address[1]}/proxy"
    with tempfile.TemporaryDirectory() as work:
        done = fetch(work, "good", proxy=proxy + ",direct")
        check("gomod: a module is unpacked", done.returncode == 0 and os.path.exists(work + "/good/a/b.go"), done.stderr)
        check("gomod: programs may be run", os.access(work + "/good/bin/tool", os.X_OK))
        check("gomod: nothing outside its folder", sorted(os.listdir(work)) == ["downloads", "good"] and
              sorted(os.listdir(work + "/good")) == ["a", "bin", "go.mod"], os.listdir(work))
        done = fetch(work, "bad", sha="0" * 64, proxy=proxy)
        check("gomod: another SHA-256 is refused", done.returncode == 1 and "SHA-256 differs" in done.stderr, done.stderr)
        done = fetch(work, "bad", sha="1" * 64, size=1000, proxy=proxy)
        check("gomod: a larger file is refused", done.returncode == 1 and "larger than" in done.stderr, done.stderr)
        done = fetch(work, "bad", sha="2" * 64, module="example.org/none@v1.0.0", proxy=proxy)
        check("gomod: a module that is not there", done.returncode == 1 and "404" in done.stderr, done.stderr)
        done = fetch(work, "bad", sha="3" * 64, proxy="off")
        check("gomod: no proxy", done.returncode == 1 and "names no module proxy" in done.stderr, done.stderr)
        check("gomod: what is refused leaves nothing", not os.path.exists(work + "/bad"))
    print(f"gomod: {passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
