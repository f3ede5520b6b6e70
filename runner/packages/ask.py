"""Runs inside the build stage's image (standard library only): asks npm and the machine's package index, prints JSON.

    ask.py < {"npm": ["name@version", ...], "pypi": ["name", ...]}

prints {"npm": {"name@version": ANSWER}, "pypi": {"name": ANSWER}}, where an ANSWER is {"ok": what was said},
{"absent": true} (the registry answers, and does not have it) or {"error": "why it could not be asked"}.
"""

from __future__ import annotations

import base64
import importlib
import json
import os
import re
import ssl
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

#: https://packaging.python.org/en/latest/specifications/simple-repository-api/
SIMPLE_JSON = "application/vnd.pypi.simple.v1+json"
NPM_FIELDS = ("name", "version", "deprecated", "time", "versions", "dist-tags")
#: A registry that cannot be reached is soon known to be so.
NPM_RETRIES = ("--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=2000")
LIMIT_S = 60
AT_ONCE = 4

Answer = dict[str, Any]


def npm(name: str) -> Answer:
    """`npm view` of one version."""
    command = ["npm", "view", name, *NPM_FIELDS, "--json", "--loglevel=silent", *NPM_RETRIES]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return {"error": f"npm: {problem}"}
    return read_npm(done.returncode, done.stdout)


def read_npm(code: int, printed: str) -> Answer:
    """npm's own words; an empty output with exit code 0 is what it prints of a version that is not there."""
    try:
        said = json.loads(printed) if printed.strip() else None
    except ValueError:
        return {"error": f"npm printed no JSON (exit {code})"}
    if said is None:
        return {"absent": True} if code == 0 else {"error": f"npm said nothing (exit {code})"}
    error = said.get("error") if isinstance(said, dict) else None
    if isinstance(error, dict):
        if error.get("code") == "E404":
            return {"absent": True}
        return {"error": " ".join(f"npm: {error.get('code')} {error.get('summary') or ''}".split())}
    return {"ok": said}


def default_index() -> str:
    """The index that pip itself uses where nothing is set (Debian keeps a pip wheel for venvs); empty: no pip."""
    sys.path += sorted(str(wheel) for wheel in Path("/usr/share/python-wheels").glob("pip-*.whl"))
    try:
        return str(importlib.import_module("pip._internal.models.index").PyPI.simple_url)
    except ImportError:
        return ""


def parted(address: str) -> tuple[str, dict[str, str]]:
    """An address without the user and password that pip allows in it, which urllib takes for a host."""
    parts = urllib.parse.urlsplit(address)
    who, at, where = parts.netloc.rpartition("@")
    if not at:
        return address, {}
    basic = base64.b64encode(urllib.parse.unquote(who).encode()).decode("ascii")
    return parts._replace(netloc=where).geturl(), {"Authorization": f"Basic {basic}"}


def pypi(name: str) -> Answer:
    """The page of one project in the index that pip is set to use."""
    index = (os.environ.get("PIP_INDEX_URL") or default_index()).rstrip("/")
    if not index:
        return {"error": "no package index is known: set PIP_INDEX_URL"}
    normal = re.sub(r"[-_.]+", "-", name).lower()
    address, headers = parted(f"{index}/{normal}/")
    request = urllib.request.Request(address, headers={"Accept": SIMPLE_JSON, **headers})  # noqa: S310
    context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT") or None)
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S, context=context) as response:  # noqa: S310
            if "json" not in response.headers.get("Content-Type", ""):
                return {"error": "the package index has no JSON pages"}
            return {"ok": json.load(response)}
    except urllib.error.HTTPError as problem:
        return {"absent": True} if problem.code == 404 else {"error": f"the package index answered {problem.code}"}
    except (OSError, ValueError) as problem:
        return {"error": f"the package index cannot be reached: {problem}"}


def main() -> None:
    """Ask everything of standard input."""
    asked = json.load(sys.stdin)
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        answers = {
            kind: dict(zip(asked[kind], pool.map(ask, asked[kind]), strict=True))
            for kind, ask in (("npm", npm), ("pypi", pypi))
        }
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
