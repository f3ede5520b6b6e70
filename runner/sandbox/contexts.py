"""The docker command's contexts: which engine its user has chosen, and the TLS files that go with it.

docker-py has a reader of its own, but it knows neither DOCKER_CONTEXT nor a context with less than three TLS files, and
looks only at this process's own environment. Layout: https://docs.docker.com/engine/manage-resources/contexts/ (a
context's folder is named by the sha256 of its name).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from docker.errors import TLSParameterError
from docker.tls import TLSConfig

from runner.errors import EngineUnavailable


@dataclass(frozen=True)
class Context:
    """Where a context's engine is. `tls`: None where it has no certificates and checks none."""

    name: str
    url: str
    tls: TLSConfig | None = None


def chosen(environ: Mapping[str, str], home: Path) -> Context | None:
    """The context that the docker command would use; None for its default one, and where nobody has chosen.

    A `currentContext` of config.json that is not there counts as none, as an unreadable config.json does.
    Raises EngineUnavailable for one that DOCKER_CONTEXT names and that is not there, and for one that cannot be used.
    """
    folder = Path(environ.get("DOCKER_CONFIG") or home / ".docker")
    asked = environ.get("DOCKER_CONTEXT")
    name = asked or _current(folder)
    if not name or name == "default":
        return None
    ident = hashlib.sha256(name.encode()).hexdigest()
    meta = folder / "contexts" / "meta" / ident / "meta.json"
    try:
        endpoint = json.loads(meta.read_text("utf-8"))["Endpoints"]["docker"]
        url, unchecked = str(endpoint.get("Host") or ""), bool(endpoint.get("SkipTLSVerify"))
    except FileNotFoundError:
        if asked is None or not asked:
            return None
        raise _unusable(
            f"DOCKER_CONTEXT names '{name}', which is not there; `docker context ls` lists what is ({folder})"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unusable(f"the docker context '{name}' cannot be read: {meta}: {type(error).__name__}") from None
    if not url:
        return None
    return Context(name, url, _tls(name, folder / "contexts" / "tls" / ident / "docker", unchecked=unchecked))


def _current(folder: Path) -> str | None:
    try:
        name = json.loads((folder / "config.json").read_text("utf-8")).get("currentContext")
    except (OSError, ValueError, AttributeError):
        return None
    return name if isinstance(name, str) else None


def _tls(name: str, folder: Path, *, unchecked: bool) -> TLSConfig | None:
    files = {part: folder / f"{part}.pem" for part in ("ca", "cert", "key")}
    try:
        there = {part: str(path) for part, path in files.items() if path.is_file()}
        if not there and not unchecked:
            return None
        pair = (there["cert"], there["key"]) if "cert" in there or "key" in there else None
        return TLSConfig(client_cert=pair, ca_cert=there.get("ca"), verify=not unchecked)
    except KeyError as error:
        raise _unusable(f"the docker context '{name}' has no {error.args[0]}.pem in {folder}") from None
    except (OSError, TLSParameterError) as error:
        words = str(error).partition(" TLS configurations")[0]
        raise _unusable(f"the TLS files of the docker context '{name}' cannot be used: {words}") from None


def _unusable(words: str) -> EngineUnavailable:
    return EngineUnavailable(f"no container engine: {' '.join(words.split())}")
