#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""session.py --ollama DIR --models DIR --work DIR --vgpu PROGRAM [--cpu FILE | --compare FILE]

Serves with Ollama where a GPU of ours is (below `vgpu run`, or in a guest) and asks it what its users ask.
Prints "ok - NAME", "FAIL: NAME: REASON" and "not run: NAME: REASON". --cpu: serves without a GPU instead and keeps
its answer in FILE, with which --compare compares. Ollama's own log is WORK/serve.log. Exit status 1: a test failed.
"""
import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

PROMPT = "The host reads the call"
TOKENS = 12
# Tolerance of test-backend-ops for a matrix product, applied to the logarithms of probabilities.
TOLERANCE = 5e-4
# Generous limit: with an emulated guest CPU programs start ten times slower.
PATIENCE = 400


class Failed(Exception):
    """A test did not pass; the text says why."""


class Server:
    """`ollama serve` with a home and a port of its own."""

    def __init__(self, options, environment):
        self.options = options
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        home = os.path.join(options.work, "home")
        os.makedirs(home, exist_ok=True)
        # No proxy, as all connections use the loopback interface. No cloud, which Ollama would query at its start.
        self.environment = dict(os.environ, HOME=home, OLLAMA_HOST=f"127.0.0.1:{port}", OLLAMA_NO_CLOUD="1",
                                OLLAMA_KEEP_ALIVE="-1", NO_PROXY="127.0.0.1", no_proxy="127.0.0.1", **environment)
        self.environment.pop("OLLAMA_MODELS", None)
        self.log_path = os.path.join(options.work, "serve.log")
        self.program = os.path.join(options.ollama, "bin/ollama")
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([self.program, "serve"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=self.environment)
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.wait("the line about inference", lambda: "inference compute" in self.log())
        self.wait("an answer", self.answers)

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def answers(self):
        try:
            return self.ask("GET", "/api/version") is not None
        except OSError:
            return False

    def wait(self, what, condition):
        """Until condition() is true; not longer than the server lives, nor for ever."""
        end = time.monotonic() + PATIENCE
        while not condition():
            if self.process.poll() is not None:
                raise Failed(f"ollama serve ended with {self.process.returncode}: {self.log()[-500:]}")
            if time.monotonic() > end:
                raise Failed(f"no {what} after {PATIENCE} s: {self.log()[-500:]}")
            time.sleep(0.1)

    def open(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        return self.opener.open(request, timeout=PATIENCE)

    def ask(self, method, path, body=None):
        with self.open(method, path, body) as answer:
            return json.loads(answer.read() or b"{}")

    def command(self, *words):
        """ollama WORDS: what it prints."""
        done = subprocess.run([self.program, *words], env=self.environment, stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=PATIENCE, check=False)
        if done.returncode:
            raise Failed(f"ollama {words[0]} ended with {done.returncode}: {done.stderr[-300:]}")
        return done.stdout

    def create(self, name):
        modelfile = os.path.join(self.options.work, name + ".Modelfile")
        with open(modelfile, "w", encoding="ascii") as file:
            file.write(f"FROM {self.options.models}/{name}.gguf\n"
                       f"PARAMETER num_predict {TOKENS}\nPARAMETER temperature 0\nPARAMETER seed 1\n")
        self.command("create", name, "-f", modelfile)

    def generate(self, model, tokens=TOKENS):
        """The lines of a streamed answer."""
        options = {"temperature": 0, "seed": 1, "num_predict": tokens}
        body = {"model": model, "prompt": PROMPT, "raw": True, "options": options, "logprobs": True, "top_logprobs": 8}
        with self.open("POST", "/api/generate", body) as answer:
            lines = [json.loads(line) for line in answer]
        for line in lines:
            if "error" in line:
                raise Failed(f"{model}: {line['error']}")
        return lines

    def runners(self):
        """Processes of llama-server that hold a model: {pid: model's file}."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().decode(errors="replace").split("\0")
                with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == self.process.pid and "--model" in words:
                found[int(pid)] = words[words.index("--model") + 1]
        return found

    def end(self):
        self.process.terminate()
        self.process.wait(PATIENCE)


def said(lines):
    """The tokens of an answer, each with the logarithms of the likeliest tokens' probabilities."""
    return [(entry["token"], {top["token"]: top["logprob"] for top in entry["top_logprobs"]})
            for line in lines for entry in line.get("logprobs") or []]


def same(got, wanted):
    """Raises Failed unless two answers are those of one model, with other roundings."""
    error = size = 0.0
    for at, ((token, logs), (other, other_logs)) in enumerate(zip(got, wanted)):
        for text in logs.keys() & other_logs.keys():
            error += (logs[text] - other_logs[text]) ** 2
            size += other_logs[text] ** 2
        if token != other:
            # A near tie: both tokens are likely in both runs, and the texts differ from here on.
            tie = [abs(log[token] - log[other]) if token in log and other in log else 9 for log in (logs, other_logs)]
            if max(tie) > 0.05:
                raise Failed(f"token {at} is {token!r} instead of {other!r}: {tie}")
            break
    else:
        if len(got) != len(wanted):
            raise Failed(f"{len(got)} tokens instead of {len(wanted)}")
    if not size or error / size > TOLERANCE:
        raise Failed(f"the probabilities differ: error {error / (size or 1):.2g}, allowed {TOLERANCE}")
    return f"{at + 1} tokens, error {error / size:.1g}"


class Session:
    """The tests, in the order in which they build on each other."""

    def __init__(self, options):
        self.options = options
        self.server = None
        self.failed = 0

    def smi(self, what):
        return subprocess.run([self.options.vgpu, "smi", f"--query-gpu={what}", "--format=csv,noheader,nounits"],
                              stdin=subprocess.DEVNULL, text=True, capture_output=True, timeout=PATIENCE,
                              check=True).stdout.strip()

    def memory(self):
        return int(self.smi("memory.used"))

    def test(self, name, function):
        try:
            detail = function()
            print(f"ok - {name}{': ' + str(detail) if detail else ''}", flush=True)
        except (Failed, OSError, ValueError, KeyError, IndexError, subprocess.SubprocessError) as error:
            self.failed += 1
            print(f"FAIL: {name}: {type(error).__name__}: {error}", flush=True)

    def found(self):
        line = next(line for line in self.server.log().splitlines() if "inference compute" in line)
        line = line[line.index("library="):]
        fields = {key: quoted or plain for key, quoted, plain in re.findall(r'(\w+)=(?:"([^"]*)"|(\S*))', line)}
        compute, name, total, driver = self.smi("compute_cap,name,memory.total,driver_version").split(", ")
        wanted = {"library": "CUDA", "compute": compute, "name": "CUDA0", "description": name, "type": "discrete",
                  "libdirs": "ollama,cuda_v13", "total": f"{int(total) / 1024:.1f} GiB"}
        for key, value in wanted.items():
            if fields.get(key) != value:
                raise Failed(f"{key} is {fields.get(key)!r} instead of {value!r} (driver {driver}): {line}")
        if not re.fullmatch(r"[\d.]+ [KMG]iB", fields["available"]):
            raise Failed(f"no available memory: {line}")
        return line

    def create(self):
        for name in ("tiny-f16", "tiny-q8_0"):
            self.server.create(name)

    def run(self):
        text = self.server.command("run", "tiny-f16", PROMPT)
        if len(text.split()) < 3:
            raise Failed(f"it says {text!r}")
        return " ".join(text.split())

    def stream(self):
        lines = self.server.generate("tiny-f16")
        parts = [line for line in lines if not line["done"]]
        if len(parts) < TOKENS // 2 or not lines[-1]["done"] or lines[-1]["eval_count"] != TOKENS:
            raise Failed(f"{len(parts)} parts of an answer, the last: {lines[-1]}")
        return f"{len(parts)} parts: {''.join(line['response'] for line in parts).strip()}"

    def compare(self):
        with open(self.options.compare, encoding="ascii") as file:
            return same(said(self.server.generate("tiny-f16")), json.load(file))

    def loaded(self, names):
        """Raises Failed unless these models are loaded, all of each on the GPU."""
        rows = self.server.command("ps").splitlines()[1:]
        if sorted(row.split(":")[0] for row in rows) != sorted(names) or not all("100% GPU" in row for row in rows):
            raise Failed(f"ollama ps: {rows}")
        for model in self.server.ask("GET", "/api/ps")["models"]:
            if not 0 < model["size_vram"] == model["size"]:
                raise Failed(f"{model['name']}: {model['size_vram']} of {model['size']} bytes on the GPU")

    def ps(self):
        self.loaded(["tiny-f16"])

    def second(self):
        before = self.memory()
        self.server.generate("tiny-q8_0")
        self.loaded(["tiny-f16", "tiny-q8_0"])
        if len(self.server.runners()) != 2 or self.memory() <= before:
            raise Failed(f"{self.server.runners()}, {before} MiB, then {self.memory()}")
        both = [None, None]

        def one(at, name):
            try:
                both[at] = len(said(self.server.generate(name)))
            except (Failed, OSError) as error:
                both[at] = error
        threads = [threading.Thread(target=one, args=pair) for pair in enumerate(("tiny-f16", "tiny-q8_0"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if both != [TOKENS, TOKENS]:
            raise Failed(f"both at once: {both}")
        return f"{before} MiB, with the second {self.memory()} MiB; both answer at once"

    def unload(self):
        loaded = self.memory()
        self.server.command("stop", "tiny-q8_0")
        self.server.wait("end of one runner", lambda: len(self.server.runners()) == 1)
        self.loaded(["tiny-f16"])
        self.server.command("stop", "tiny-f16")
        self.server.wait("end of the other runner", lambda: not self.server.runners())
        # The process has exited; its worker on the host ends later.
        self.server.wait("free memory", lambda: self.memory() == 0)
        return f"{loaded} MiB, then 0"

    def kill(self, busy):
        """Kills the runner; the next question is answered by another, with the same words."""
        wanted = said(self.server.generate("tiny-f16"))
        (pid,) = self.server.runners()
        if busy:
            with self.server.open("POST", "/api/generate", {"model": "tiny-f16", "prompt": PROMPT, "raw": True,
                                                           "options": {"num_predict": 1500}}) as answer:
                answer.readline()
                os.kill(pid, signal.SIGKILL)
                rest = answer.read().decode()
            if '"error"' not in rest:
                raise Failed(f"the stream ended without an error: {rest[-200:]}")
        else:
            os.kill(pid, signal.SIGKILL)
            self.server.wait("end of the runner", lambda: pid not in self.server.runners())
        again = None
        end = time.monotonic() + PATIENCE
        while again is None:
            try:
                again = said(self.server.generate("tiny-f16"))
            except (urllib.error.HTTPError, Failed):
                # Ollama may still send requests to the exited runner.
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)
        if pid in self.server.runners():
            raise Failed("the same process")
        self.loaded(["tiny-f16"])
        return same(again, wanted)

    def serve(self):
        """Starts Ollama. Its own limit for finding a GPU is 30 s, and files are read faster the second time. False: an
        emulated processor is too slow for that."""
        for attempt in range(3):
            if attempt:
                self.server.end()
            self.server = Server(self.options, {})
            if "discovery watchdog timed out" not in self.server.log():
                return True
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            return "TCG" not in file.read()

    def all(self):
        if not self.serve():
            print("not run: ollama: this guest's CPU is emulated, and Ollama gives a GPU no more than 30 s to start in",
                  flush=True)
            return
        self.test("the GPU is found", self.found)
        self.test("ollama create", self.create)
        self.test("ollama run", self.run)
        self.test("POST /api/generate streams tokens", self.stream)
        self.test("the tokens are those of the CPU", self.compare)
        self.test("ollama ps: 100% GPU", self.ps)
        self.test("a second model beside the first", self.second)
        self.test("unloading gives the memory back", self.unload)
        self.test("a killed runner is started again", lambda: self.kill(False))
        self.test("so is one that was killed while it answered", lambda: self.kill(True))
        self.server.end()

    def cpu(self):
        self.server = Server(self.options, {"CUDA_VISIBLE_DEVICES": "-1"})
        if "library=cpu" not in self.server.log():
            raise Failed(f"a GPU is found: {self.server.log()}")
        self.server.create("tiny-f16")
        lines = self.server.generate("tiny-f16")
        if "100% CPU" not in self.server.command("ps"):
            raise Failed("the reference does not come from the CPU")
        with open(self.options.cpu, "w", encoding="ascii") as file:
            json.dump(said(lines), file)
        self.server.end()


def main():
    parser = argparse.ArgumentParser()
    for name in ("ollama", "models", "work", "vgpu"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--cpu")
    parser.add_argument("--compare")
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    session = Session(options)
    try:
        if options.cpu:
            session.test("the CPU's answer", session.cpu)
        else:
            session.all()
    except Failed as error:
        session.failed += 1
        print(f"FAIL: ollama serve: {error}", flush=True)
    finally:
        if session.server and session.server.process.poll() is None:
            session.server.end()
    return 1 if session.failed else 0


if __name__ == "__main__":
    sys.exit(main())
