#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Tests of maven.py with a repository on the loopback interface. Prints what scripts_test.sh does."""
import hashlib
import http.server
import os
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
JAR = b"PK" + bytes(range(256)) * 900
SHA = hashlib.sha256(JAR).hexdigest()
PATHS = ("/maven/org/example/thing/1.2/thing-1.2.jar", "/maven/org/example/thing/1.2/thing-1.2-linux.jar")
passed = failed = 0


def check(name, good, detail=""):
    global passed, failed
    if good:
        passed += 1
        print(f"ok - maven: {name}")
    else:
        failed += 1
        print(f"FAIL: maven: {name}{': ' + str(detail) if detail else ''}")


class Repository(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        good = self.path in PATHS
        self.send_response(200 if good else 404)
        self.send_header("Content-Length", str(len(JAR) if good else 0))
        self.end_headers()
        if good:
            self.wfile.write(JAR)


def fetch(work, repository, artifact="org.example:thing:1.2", sha=SHA, size=len(JAR)):
    environment = dict(os.environ, MAVEN_REPOSITORY=repository, NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")
    return subprocess.run([sys.executable, "-B", HERE + "/maven.py", artifact, sha, str(size), work], env=environment,
                          text=True, capture_output=True, timeout=120, check=False)


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Repository)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    repository = f"http://127.0.0.1:{server.server_address[1]}/maven/"
    with tempfile.TemporaryDirectory() as work:
        done = fetch(work, repository)
        check("a JAR is where it says", done.returncode == 0 and open(done.stdout.strip(), "rb").read() == JAR, done.stderr)
        done = fetch(work, "http://127.0.0.1:9/none")
        check("what is there is not fetched again", done.returncode == 0, done.stderr)
    with tempfile.TemporaryDirectory() as work:
        done = fetch(work, repository, artifact="org.example:thing:1.2:linux")
        check("one with a classifier", done.returncode == 0, done.stderr)
        done = fetch(work, repository, sha="0" * 64)
        check("another SHA-256 is refused", done.returncode == 1 and "SHA-256 differs" in done.stderr, done.stderr)
        check("and what came is removed", len(os.listdir(work)) == 1, os.listdir(work))
        done = fetch(work, repository, artifact="org.example:none:1.2", sha="1" * 64)
        check("an artifact that is not there", done.returncode == 1 and "404" in done.stderr, done.stderr)
        check("no artifact at all", fetch(work, repository, artifact="thing").returncode == 2)
    print(f"maven: {passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
