#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""ask.py URL MODEL PROMPT: POST /api/generate; prints the tokens as they come, then where they were computed.

Exit status 1, with the reason: there was no answer, or part of the model is not on the GPU.
"""
import json
import sys
import urllib.request


def post(opener, url, body=None):
    data = None if body is None else json.dumps(body).encode()
    return opener.open(urllib.request.Request(url, data, {"Content-Type": "application/json"}), timeout=600)


def main(url, model, prompt):
    # No proxy: the server is on the loopback interface.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    print(f"\n    {prompt}", end="", flush=True)
    with post(opener, url + "/api/generate", {"model": model, "prompt": prompt, "raw": True}) as answer:
        for line in answer:
            part = json.loads(line)
            if "error" in part:
                print()
                raise OSError(part["error"])
            print(part["response"].replace("\n", "\n    "), end="", flush=True)
    print("\n")
    seconds = part["eval_duration"] / 1e9
    print(f"{part['eval_count']} tokens in {seconds:.1f} s")
    with post(opener, url + "/api/ps") as answer:
        (loaded,) = [entry for entry in json.load(answer)["models"] if entry["name"].startswith(model + ":")]
    share = 100 * loaded["size_vram"] // loaded["size"]
    print(f"ollama ps: {loaded['name']} {loaded['size'] / 1e6:.0f} MB {share}% GPU")
    return 0 if share == 100 else 1


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"ask.py: {error}", file=sys.stderr)
        sys.exit(1)
