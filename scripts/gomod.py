#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""gomod.py MODULE@VERSION SHA256 BYTES DIR PLACE: unpacks a Go module's zip into PLACE, verified.

Downloads the zip from the module proxy to DIR, as pypi.py does: resumable, with progress on standard error,
removed when its SHA-256 is another one. The proxy is the first address of GOPROXY (default: Go's own). Go itself
is not needed, as the module may be golang.org/toolchain: Go. PLACE must not exist; it appears only when it is whole.

Exit status 1, with the reason on standard error, when the module cannot be had.
"""
import os
import re
import shutil
import sys
import tempfile
import zipfile

import pypi

DEFAULT = "https://proxy.golang.org"


def proxies():
    """The addresses in GOPROXY; its words `direct` and `off` name none."""
    words = re.split(r"[,|]", os.environ.get("GOPROXY") or DEFAULT)
    return [word.rstrip("/") for word in words if "://" in word]


def address(module, _sha256):
    path, _, version = module.partition("@")
    if not proxies():
        raise pypi.Unavailable(f"{module}: GOPROXY names no module proxy")
    # Upper case is written as ! and lower case there.
    path = re.sub("[A-Z]", lambda letter: "!" + letter.group().lower(), path)
    return f"{proxies()[0]}/{path}/@v/{version}.zip"


def unpack(archive, module, place):
    """A module's zip has all below MODULE@VERSION/ and no modes: programs of a toolchain get theirs here."""
    above = module + "/"
    with zipfile.ZipFile(archive) as source:
        for entry in source.infolist():
            name = entry.filename.removeprefix(above)
            if entry.is_dir() or name == entry.filename or ".." in name.split("/") or name.startswith("/"):
                continue
            target = os.path.join(place, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with source.open(entry) as data, open(target, "wb") as out:
                shutil.copyfileobj(data, out, 1 << 20)
            if name.startswith(("bin/", "pkg/tool/")):
                os.chmod(target, 0o755)


def main(args):
    if len(args) != 5 or not args[2].isdigit() or "@" not in args[0]:
        print(__doc__.partition("\n")[0], file=sys.stderr)
        return 2
    module, sha256, size, downloads, place = args
    new = None
    try:
        archive = pypi.download(module, sha256, int(size), downloads, address, ".zip")
        os.makedirs(os.path.dirname(place), exist_ok=True)
        new = tempfile.mkdtemp(dir=os.path.dirname(place))
        unpack(archive, module, new)
        os.chmod(new, 0o755)
        os.rename(new, place)
        new = None
        os.unlink(archive)
    except (pypi.Unavailable, OSError, zipfile.BadZipFile) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        if new:
            shutil.rmtree(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
