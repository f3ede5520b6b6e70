"""The docker command's context: which one, and with which TLS files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from runner.errors import EngineUnavailable
from runner.sandbox import contexts, engine
from runner.sandbox.engine import connect, endpoints


def write(folder: Path, name: str, endpoint: Any, tls: tuple[str, ...] = (), *, current: bool = False) -> Path:
    """Files as the docker command leaves them, below its configuration folder; the folder of the TLS files."""
    ident = hashlib.sha256(name.encode()).hexdigest()
    meta = folder / "contexts" / "meta" / ident
    meta.mkdir(parents=True)
    (meta / "meta.json").write_text(json.dumps({"Name": name, "Metadata": {}, "Endpoints": {"docker": endpoint}}))
    pems = folder / "contexts" / "tls" / ident / "docker"
    if tls:
        pems.mkdir(parents=True)
    for part in tls:
        (pems / f"{part}.pem").write_text("")
    if current:
        (folder / "config.json").write_text(json.dumps({"currentContext": name}))
    return pems


REMOTE = {"Host": "tcp://engine.example:2376", "SkipTLSVerify": False}


def test_the_tls_files_of_a_context_are_used(tmp_path: Path) -> None:
    pems = write(tmp_path / ".docker", "far", REMOTE, ("ca", "cert", "key"), current=True)
    (found,) = endpoints({}, tmp_path)
    assert (found.url, found.chosen) == ("tcp://engine.example:2376", True)
    assert found.tls is not None
    tls = found.tls["tls"]
    assert tls.cert == (str(pems / "cert.pem"), str(pems / "key.pem"))
    assert (tls.ca_cert, tls.verify) == (str(pems / "ca.pem"), True)


def test_an_authority_alone_is_enough(tmp_path: Path) -> None:
    pems = write(tmp_path, "far", REMOTE, ("ca",))
    context = contexts.chosen({"DOCKER_CONFIG": str(tmp_path), "DOCKER_CONTEXT": "far"}, Path("/nowhere"))
    assert context is not None
    assert context.tls is not None
    assert (context.tls.cert, context.tls.ca_cert, context.tls.verify) == (None, str(pems / "ca.pem"), True)


@pytest.mark.parametrize("tls", [(), ("cert", "key")])
def test_verification_is_skipped_where_the_context_says_so(tmp_path: Path, tls: tuple[str, ...]) -> None:
    write(tmp_path, "far", {**REMOTE, "SkipTLSVerify": True}, tls, current=True)
    context = contexts.chosen({"DOCKER_CONFIG": str(tmp_path)}, Path("/nowhere"))
    assert context is not None
    assert context.tls is not None
    assert context.tls.verify is False
    assert bool(context.tls.cert) is bool(tls)


def test_without_tls_files_there_is_no_tls(tmp_path: Path) -> None:
    write(tmp_path, "near", {"Host": "unix:///mine.sock"}, current=True)
    assert contexts.chosen({"DOCKER_CONFIG": str(tmp_path)}, Path("/nowhere")) == contexts.Context(
        "near", "unix:///mine.sock"
    )


def test_tls_reaches_the_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked at the moment where docker-py is given its settings."""
    write(tmp_path / ".docker", "far", REMOTE, ("ca", "cert", "key"), current=True)
    given: dict[str, Any] = {}

    def client(**settings: Any) -> Any:
        given.update(settings)
        raise ValueError

    monkeypatch.setattr("docker.APIClient", client)
    with pytest.raises(EngineUnavailable, match=r"the docker context \(tcp://engine.example:2376\) does not answer"):
        connect({}, tmp_path)
    assert given["tls"].ca_cert.endswith("ca.pem")


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"DOCKER_CONTEXT": "gone"}, "DOCKER_CONTEXT names 'gone', which is not there"),
        ({"DOCKER_CONTEXT": "torn"}, "the docker context 'torn' cannot be read"),
        ({"DOCKER_CONTEXT": "keyless"}, "the docker context 'keyless' has no key.pem"),
        ({"DOCKER_CONTEXT": "listed"}, "the docker context 'listed' cannot be read"),
        ({}, "the docker context 'torn' cannot be read"),
    ],
)
def test_a_context_that_cannot_be_used_is_refused_in_one_line(
    tmp_path: Path, environ: dict[str, str], words: str
) -> None:
    folder = tmp_path / ".docker"
    write(folder, "torn", {}, current=True)
    next((folder / "contexts" / "meta").glob("*/meta.json")).write_text("{")
    write(folder, "keyless", REMOTE, ("ca", "cert"))
    write(folder, "listed", [])
    with pytest.raises(EngineUnavailable) as caught:
        connect(environ, tmp_path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 69


def test_docker_host_wins_over_a_context_that_is_not_there(tmp_path: Path) -> None:
    found = list(endpoints({"DOCKER_HOST": "unix:///host.sock", "DOCKER_CONTEXT": "gone"}, tmp_path))
    assert [one.url for one in found] == ["unix:///host.sock"]


def test_the_default_context_is_none(tmp_path: Path) -> None:
    write(tmp_path / ".docker", "mine", REMOTE, current=True)
    assert contexts.chosen({"DOCKER_CONTEXT": "default"}, tmp_path) is None


@pytest.mark.parametrize("source", ["DOCKER_HOST", "the docker context"])
def test_ssh_is_refused_in_one_line_that_says_what_to_do(tmp_path: Path, source: str) -> None:
    write(tmp_path / ".docker", "far", {"Host": "ssh://me@engine.example"}, current=True)
    environ = {"DOCKER_HOST": "ssh://me@engine.example"} if source == "DOCKER_HOST" else {}
    with pytest.raises(EngineUnavailable, match=r"ssh:// is not supported.*DOCKER_HOST=unix:///tmp") as caught:
        engine.connect(environ, tmp_path)
    assert source in str(caught.value)
    assert "\n" not in str(caught.value)
