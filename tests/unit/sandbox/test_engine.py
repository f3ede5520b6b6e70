"""Where an engine is looked for, and what is said when none answers."""

from __future__ import annotations

import hashlib
import json
import socket
from pathlib import Path

import docker.errors
import pytest
import requests

from runner.errors import EngineUnavailable
from runner.sandbox import engine
from runner.sandbox.engine import Endpoint, connect, endpoints, retrying, transient
from tests.unit.sandbox.fake_engine import listening


def write_context(home: Path, name: str, url: str, *, current: bool) -> None:
    """Files as the docker command leaves them."""
    folder = home / ".docker" / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest()
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text(json.dumps({"Name": name, "Endpoints": {"docker": {"Host": url}}}))
    if current:
        (home / ".docker" / "config.json").write_text(json.dumps({"currentContext": name}))


def test_docker_host_is_the_only_place_when_it_is_set(tmp_path: Path) -> None:
    write_context(tmp_path, "mine", "unix:///context.sock", current=True)
    found = list(endpoints({"DOCKER_HOST": "unix:///host.sock", "XDG_RUNTIME_DIR": "/run/user/7"}, tmp_path))
    assert [(one.url, one.chosen) for one in found] == [("unix:///host.sock", True)]


def test_the_current_context_comes_before_the_sockets(tmp_path: Path) -> None:
    write_context(tmp_path, "mine", "unix:///context.sock", current=True)
    assert list(endpoints({}, tmp_path)) == [Endpoint("unix:///context.sock", "the docker context", chosen=True)]


def test_docker_context_names_another_one(tmp_path: Path) -> None:
    write_context(tmp_path, "mine", "unix:///mine.sock", current=True)
    write_context(tmp_path, "other", "unix:///other.sock", current=False)
    assert [one.url for one in endpoints({"DOCKER_CONTEXT": "other"}, tmp_path)] == ["unix:///other.sock"]


@pytest.mark.parametrize("config", ["{", "[]", "{}", '{"currentContext": "default"}', '{"currentContext": "gone"}'])
def test_without_a_context_docker_comes_before_podman(tmp_path: Path, config: str) -> None:
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text(config)
    urls = [one.url for one in endpoints({"XDG_RUNTIME_DIR": "/run/user/7"}, tmp_path)]
    assert urls == [
        "unix:///var/run/docker.sock",
        f"unix://{tmp_path}/.docker/run/docker.sock",
        "unix:///run/user/7/docker.sock",
        "unix:///run/user/7/podman/podman.sock",
        "unix:///run/podman/podman.sock",
    ]


def test_connect_takes_the_engine_of_docker_host(tmp_path: Path) -> None:
    path = tmp_path / "engine.sock"
    with listening(path):
        client = connect({"DOCKER_HOST": f"unix://{path}"}, tmp_path)
        try:
            assert client.api.timeout == engine.CALL_S
        finally:
            client.close()


def test_connect_goes_on_to_the_next_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead, alive = tmp_path / "dead.sock", tmp_path / "alive.sock"
    with socket.socket(socket.AF_UNIX) as nobody:
        nobody.bind(str(dead))
    found = [Endpoint(f"unix://{path}", "a socket") for path in (tmp_path / "absent.sock", dead, alive)]
    monkeypatch.setattr(engine, "endpoints", lambda *_: iter(found))
    with listening(alive):
        connect({}, tmp_path).close()


def test_a_chosen_engine_that_is_absent_is_named_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable) as caught:
        connect({"DOCKER_HOST": f"unix://{tmp_path}/none.sock"}, tmp_path)
    assert "DOCKER_HOST" in str(caught.value)
    assert "make setup" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 69


def test_an_engine_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "PROBE_S", 0.2)
    path = tmp_path / "hung.sock"
    with socket.socket(socket.AF_UNIX) as hung:
        hung.bind(str(path))
        hung.listen()
        with pytest.raises(EngineUnavailable, match="does not answer"):
            connect({"DOCKER_HOST": f"unix://{path}"}, tmp_path)


def api_error(status: int) -> docker.errors.APIError:
    response = requests.Response()
    response.status_code = status
    return docker.errors.APIError("no", response=response)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (api_error(500), True),
        (api_error(503), True),
        (api_error(404), False),
        (api_error(409), False),
        (requests.exceptions.ConnectionError(), True),
        # The engine may still be doing what it was asked.
        (requests.exceptions.ReadTimeout(), False),
        (ValueError(), False),
    ],
)
def test_transient(error: Exception, *, expected: bool) -> None:
    assert transient(error) is expected


@pytest.mark.parametrize(("status", "calls"), [(500, 3), (404, 1)])
def test_retrying_is_bounded_and_never_for_4xx(status: int, calls: int) -> None:
    seen = []

    @retrying
    def call() -> None:
        seen.append(status)
        raise api_error(status)

    with pytest.raises(docker.errors.APIError):
        call()
    assert len(seen) == calls


def test_retrying_returns_the_answer_of_the_second_try() -> None:
    answers = [requests.exceptions.ConnectionError(), 7]

    @retrying
    def call() -> object:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert call() == 7
