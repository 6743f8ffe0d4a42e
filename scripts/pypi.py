#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""pypi.py PACKAGE SHA256 BYTES DIR: one file of a package of the Python package index, verified.

Finds the file of PACKAGE with that SHA-256 in the index, downloads it to DIR/SHA256.whl and prints that
path. A download that broke off is continued where it ended (HTTP range request, RFC 9110 section 14); a
file whose contents are not those of SHA256 is removed. BYTES is its size, for the progress lines on
standard error (one every 5 s). The index is the one that pip is set up for: PIP_INDEX_URL,
PIP_EXTRA_INDEX_URL, PIP_CERT, or `index-url`, `extra-index-url` and `cert` in pip's configuration files;
proxies are those of the environment (HTTPS_PROXY). Nothing of pip itself is needed.

pypi.py --unpack WHEEL DIR: unpacks what a wheel of NVIDIA's has below nvidia/*/ into DIR, modes included,
and its licence into DIR/licenses.

Exit status 1, with the reason on standard error, when the file cannot be had.
"""
import configparser
import hashlib
import html.parser
import http.client
import json
import os
import re
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile

TRIES = 5
TIMEOUT = float(os.environ.get("PIP_DEFAULT_TIMEOUT", "60"))


class Unavailable(Exception):
    """The file cannot be had; the text says why."""


def setting(name):
    """The words of one of pip's settings, from the environment or else its configuration files."""
    value = os.environ.get("PIP_" + name.upper().replace("-", "_"))
    if value:
        return value.split()
    home = os.path.expanduser("~")
    files = [os.environ.get("PIP_CONFIG_FILE", ""),
             os.path.join(os.environ.get("XDG_CONFIG_HOME", home + "/.config"), "pip/pip.conf"),
             home + "/.pip/pip.conf", "/etc/xdg/pip/pip.conf", "/etc/pip.conf"]
    for path in files:
        config = configparser.ConfigParser(interpolation=None)
        try:
            config.read(path)
        except (configparser.Error, OSError, UnicodeDecodeError):
            continue
        for section in ("install", "global"):
            if config.has_option(section, name):
                return config.get(section, name).split()
    return []


class Links(html.parser.HTMLParser):
    """The addresses in an index page of the older, HTML form (PEP 503)."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


def open_url(url, headers):
    """Opens url; a user and password in it are sent as basic authentication."""
    parts = urllib.parse.urlsplit(url)
    if "@" in parts.netloc:
        user, _, place = parts.netloc.rpartition("@")
        url = urllib.parse.urlunsplit(parts._replace(netloc=place))
        manager = urllib.request.HTTPPasswordMgrWithPriorAuth()
        name, _, password = (urllib.parse.unquote(word) for word in user.partition(":"))
        manager.add_password(None, url, name, password, is_authenticated=True)
        handlers = [urllib.request.HTTPBasicAuthHandler(manager)]
    else:
        handlers = []
    cert = setting("cert")
    context = ssl.create_default_context(cafile=cert[0] if cert else None)
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), *handlers)
    return opener.open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)


def address(package, sha256):
    """Where the index has the file of that hash."""
    indexes = (setting("index-url") or ["https://pypi.org/simple"]) + setting("extra-index-url")
    reasons = []
    for index in indexes:
        page = f"{index.rstrip('/')}/{re.sub(r'[-_.]+', '-', package).lower()}/"
        try:
            with open_url(page, {"Accept": "application/vnd.pypi.simple.v1+json, text/html;q=0.2"}) as answer:
                kind, text = answer.headers.get("Content-Type", ""), answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            reasons.append(str(getattr(error, "reason", error)))
            continue
        if "json" in kind:
            found = [f["url"] for f in json.loads(text)["files"] if f["hashes"].get("sha256") == sha256]
        else:
            links = Links()
            links.feed(text)
            found = [link for link in links.found if f"sha256={sha256}" in link]
        if found:
            return urllib.parse.urljoin(page, found[0]).partition("#")[0]
        reasons.append("the index has no file with the pinned hash")
    raise Unavailable(f"{package}: {'; '.join(reasons)}")


def digest_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def receive(url, part, size, package):
    """Appends what part lacks of url. True when the server has sent all."""
    have = os.path.getsize(part) if os.path.exists(part) else 0
    headers = {"Range": f"bytes={have}-"} if have else {}
    with open_url(url, headers) as answer, open(part, "ab") as out:
        if have and answer.status != 206:
            out.truncate(0)
            have = 0
        told = time.monotonic()
        while block := answer.read(1 << 18):
            out.write(block)
            have += len(block)
            # Not more than was promised, whatever the server sends.
            if have > size:
                raise Unavailable(f"{package}: larger than the {size} bytes that are pinned")
            if time.monotonic() - told >= 5:
                told = time.monotonic()
                print(f"{package}: {have / 1e6:.0f} of {size / 1e6:.0f} MB", file=sys.stderr, flush=True)
    return have == size


def download(package, sha256, size, place, find=address, kind=".whl"):
    """DIR/SHA256KIND, downloaded where it is not there yet. find(package, sha256) says from where."""
    done = os.path.join(place, sha256 + kind)
    part = done + ".part"
    if os.path.exists(done):
        return done
    os.makedirs(place, exist_ok=True)
    url = find(package, sha256)
    for attempt in range(1, TRIES + 1):
        try:
            if receive(url, part, size, package):
                break
            reason = "the connection ended early"
        except urllib.error.HTTPError as error:
            # The whole file is there already, or the server does not serve what is missing.
            if error.code == 416 and os.path.getsize(part) == size:
                break
            reason = str(error)
            if error.code in (403, 404):
                raise Unavailable(f"{package}: {reason}") from error
        except (OSError, http.client.HTTPException) as error:
            reason = str(getattr(error, "reason", error))
        if attempt == TRIES:
            raise Unavailable(f"{package}: {reason}")
        time.sleep(attempt)
    if digest_of(part) != sha256:
        os.unlink(part)
        raise Unavailable(f"{package}: what was downloaded is not what is pinned: its SHA-256 differs; removed")
    os.rename(part, done)
    return done


def unpack(wheel, place):
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            parts = entry.filename.split("/")
            if entry.is_dir() or ".." in parts:
                continue
            if parts[0] == "nvidia" and len(parts) > 2 and not parts[2].startswith("."):
                target = os.path.join(place, *parts[2:])
            elif re.search(r"licen[cs]e", parts[-1], re.IGNORECASE):
                target = os.path.join(place, "licenses", parts[0].partition(".dist-info")[0] + ".txt")
            else:
                continue
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with archive.open(entry) as source, open(target + ".new", "wb") as out:
                while block := source.read(1 << 20):
                    out.write(block)
            os.chmod(target + ".new", 0o755 if entry.external_attr >> 16 & 0o100 else 0o644)
            os.rename(target + ".new", target)


def main(args):
    if len(args) == 3 and args[0] == "--unpack":
        unpack(args[1], args[2])
        return 0
    if len(args) != 4 or not args[2].isdigit():
        print(__doc__.partition("\n")[0], file=sys.stderr)
        return 2
    try:
        print(download(args[0], args[1], int(args[2]), args[3]))
    except (Unavailable, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
