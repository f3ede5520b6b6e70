"""What the building machine needs to reach package registries: its CA bundle, proxies and registry settings.

They enter build stages only, as files of the build context under `.host/`, and no image that runs holds them.
"""

from __future__ import annotations

import configparser
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

#: The folder inside the build context, and where Dockerfiles copy it to.
CONTEXT = ".host"
MOUNT = "/tmp/host"

_CA = ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PROXY = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")
#: pip's settings that say where packages come from: key in pip.conf -> environment variable.
_PIP = {
    "index-url": "PIP_INDEX_URL",
    "extra-index-url": "PIP_EXTRA_INDEX_URL",
    "trusted-host": "PIP_TRUSTED_HOST",
    "proxy": "PIP_PROXY",
    "timeout": "PIP_DEFAULT_TIMEOUT",
}
#: npm's settings that say where packages come from (.npmrc), besides those of a scope or a registry.
_NPM = frozenset({"registry", "proxy", "https-proxy", "noproxy"})


@dataclass(frozen=True)
class HostSettings:
    """`ca`: PEM text of every bundle the machine names, or empty; `env` and `npmrc`: what pip and npm read."""

    ca: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)
    npmrc: str = ""

    def files(self) -> dict[str, bytes]:
        """The files of the context folder: relative path -> content. `env` is sourced by build stages."""
        lines = [f"export {name}={shlex.quote(value)}" for name, value in sorted(self.env.items())]
        files: dict[str, bytes] = {}
        if self.npmrc:
            files["npmrc"] = self.npmrc.encode()
            lines.append(f"export NPM_CONFIG_USERCONFIG={MOUNT}/npmrc")
        if self.ca:
            files["ca.pem"] = self.ca
            # The machine's bundle may hold nothing but its own authority.
            lines.append(f"cat /etc/ssl/certs/ca-certificates.crt {MOUNT}/ca.pem > {MOUNT}/bundle.pem")
            lines += [
                f"export {name}={MOUNT}/bundle.pem" for name in ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "PIP_CERT")
            ]
        files["env"] = "".join(f"{line}\n" for line in lines).encode()
        return {f"{CONTEXT}/{name}": content for name, content in files.items()}


def detect(environ: Mapping[str, str], home: Path, system: Path = Path("/etc")) -> HostSettings:
    """Read the machine's settings from its environment, pip's configuration files and the user's .npmrc.

    Files that are absent or unreadable count as empty; settings that point into this machine's file system are left
    out (a build stage could not follow them).
    """
    pip = _pip(environ, home, system)
    npm = _npm(environ, home)
    ca = _bundles([*(environ.get(name, "") for name in _CA), pip.get("cert", ""), npm.pop("cafile", "")])
    env = {name: value for key, name in _PIP.items() if (value := environ.get(name) or pip.get(key, ""))}
    for name in _PROXY:
        for spelling in (name, name.lower()):
            if environ.get(spelling):
                env[spelling] = environ[spelling]
    for name in ("npm_config_registry", "NPM_CONFIG_REGISTRY"):
        if environ.get(name):
            env["NPM_CONFIG_REGISTRY"] = environ[name]
    env = {name: kept for name, value in env.items() if (kept := _reachable(value))}
    return HostSettings(ca, env, "".join(f"{key}={value}\n" for key, value in npm.items()))


def authorities(environ: Mapping[str, str]) -> bytes:
    """PEM text of every bundle that the environment names; what is absent or unreadable counts as empty."""
    return _bundles([environ.get(name, "") for name in _CA])


def _reachable(value: str) -> str:
    """The words of a setting that do not point into the file system."""
    return " ".join(word for word in value.split() if not word.startswith(("file:", "/")))


def _bundles(paths: list[str]) -> bytes:
    """Every distinct bundle among `paths`, one after the other."""
    found: dict[bytes, None] = {}
    for path in paths:
        if not path:
            continue
        try:
            found[Path(path).read_bytes().strip() + b"\n"] = None
        except OSError:
            continue
    return b"".join(found)


def _pip(environ: Mapping[str, str], home: Path, system: Path) -> dict[str, str]:
    """pip's settings, later files win (https://pip.pypa.io/en/stable/topics/configuration/)."""
    named = environ.get("PIP_CONFIG_FILE")
    files = [
        system / "xdg" / "pip" / "pip.conf",
        system / "pip.conf",
        home / ".pip" / "pip.conf",
        Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf",
        *([Path(named)] if named else []),
    ]
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read(files, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return {}
    settings: dict[str, str] = {}
    for section in ("global", "install"):
        if parser.has_section(section):
            settings |= {key: " ".join(value.split()) for key, value in parser.items(section) if value}
    return settings


def _npm(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    """The registry settings of the user's .npmrc, `${NAME}` filled in, and its `cafile`."""
    path = Path(environ.get("NPM_CONFIG_USERCONFIG") or environ.get("npm_config_userconfig") or home / ".npmrc")
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    settings: dict[str, str] = {}
    for line in lines:
        key, equals, value = (part.strip() for part in line.partition("="))
        if not equals or key.startswith(("#", ";")):
            continue
        # `//host/:_authToken` belongs to a registry, `@scope:registry` to a scope.
        if key in _NPM or key == "cafile" or key.startswith(("//", "@")):
            for name, content in environ.items():
                value = value.replace("${" + name + "}", content)
            settings[key] = value
    return settings


def detect_here() -> HostSettings:
    """`detect` for this process."""
    return detect(os.environ, Path.home())
