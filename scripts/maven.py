#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""maven.py GROUP:ARTIFACT:VERSION[:CLASSIFIER] SHA256 BYTES DIR: prints where the JAR of that artifact is, verified.

Downloads it to DIR, as pypi.py does: resumable, with progress on standard error, removed when its SHA-256 is another
one. The repository is MAVEN_REPOSITORY (default: Maven Central).

Exit status 1, with the reason on standard error, when it cannot be had.
"""
import os
import sys

import pypi

DEFAULT = "https://repo1.maven.org/maven2"


def address(artifact, _sha256):
    group, name, version, *classifier = artifact.split(":")
    file = "-".join([name, version, *classifier]) + ".jar"
    repository = (os.environ.get("MAVEN_REPOSITORY") or DEFAULT).rstrip("/")
    return f"{repository}/{group.replace('.', '/')}/{name}/{version}/{file}"


def main(args):
    if len(args) != 4 or not args[2].isdigit() or args[0].count(":") not in (2, 3):
        print(__doc__.partition("\n")[0], file=sys.stderr)
        return 2
    artifact, sha256, size, downloads = args
    try:
        print(pypi.download(artifact, sha256, int(size), downloads, address, ".jar"))
    except (pypi.Unavailable, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
