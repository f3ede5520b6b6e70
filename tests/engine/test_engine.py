"""The real engine: what it says of itself, what it costs, and what a throwaway container can see."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import docker
import pytest

from runner.sandbox.container import Container, Spec
from runner.sandbox.engine import connect, describe
from runner.sandbox.floor import floor
from runner.sandbox.images import Images
from runner.sandbox.labels import labels
from runner.sandbox.throwaway import created, output
from tests.engine.conftest import leftovers

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def base(engine: docker.DockerClient) -> str:
    """Id of the base image."""
    return Images(engine).ensure("base").id


def test_describe_is_complete(engine: docker.DockerClient) -> None:
    about = describe(engine)
    assert about["name"] in ("docker", "podman")
    assert about["cgroup"] in ("1", "2")
    for key in ("version", "api", "storage_driver", "kernel", "os", "arch", "root"):
        assert isinstance(about[key], str)
        assert about[key]
    assert about["cpus"] >= 1
    assert about["memory_mb"] > 100
    assert about["disk_free_mb"] is None or about["disk_free_mb"] > 0
    assert json.loads(json.dumps(about)) == about


def test_the_floor_is_measured_and_leaves_nothing(engine: docker.DockerClient, base: str) -> None:
    before = leftovers(engine)
    measured = floor(engine, base, 3)
    assert measured.n == 3
    steps = (measured.create_ms, measured.start_ms, measured.wait_ms, measured.remove_ms)
    assert all(0 < step < 10_000 for step in steps)
    assert measured.total_ms >= max(steps)
    assert 0 < measured.attach_echo_ms < 100
    assert leftovers(engine) == before


def test_output_and_exit_code(engine: docker.DockerClient, base: str) -> None:
    code, printed = output(engine, base, ["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert code == 3
    assert sorted(printed.split()) == ["err", "out"]


def test_a_throwaway_container_sees_no_network_no_rights_and_no_host(
    engine: docker.DockerClient, base: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://canary.test:1")
    (tmp_path / "config.json").write_text(json.dumps({"proxies": {"default": {"httpProxy": "http://canary.test:2"}}}))
    # docker-py reads the client's configuration when a client is made.
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    client = connect()
    try:
        # The canary is in place: docker-py has read it.
        assert "canary.test:2" in str(vars(client.api))
        _, printed = output(client, base, ["sh", "-c", "env; cat /proc/net/dev; grep -E 'Cap|NoNew' /proc/self/status"])
    finally:
        client.close()
    assert "canary" not in printed
    assert re.findall(r"^ *(\w+): +\d", printed, re.MULTILINE) == ["lo"]
    assert "CapEff:\t0000000000000000" in printed
    assert "NoNewPrivs:\t1" in printed


def test_a_program_that_hangs_is_given_up_and_removed(engine: docker.DockerClient, base: str) -> None:
    before = leftovers(engine)
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="sleep has not ended"):
        output(engine, base, ["sleep", "60"], limit_s=0.5)
    assert time.monotonic() - began < 10
    assert leftovers(engine) == before


def test_a_program_that_is_not_there_is_inits_exit_code(engine: docker.DockerClient, base: str) -> None:
    code, printed = output(engine, base, ["/no/such/program"])
    assert code == 127
    assert "/no/such/program" in printed


def test_created_removes_even_when_the_block_breaks(engine: docker.DockerClient, base: str) -> None:
    before = leftovers(engine)
    seen = []

    def broken() -> None:
        with created(engine, base, ["true"]) as container:
            seen.append(container)
            assert leftovers(engine) - before == {container}
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken()
    assert len(seen) == 1
    assert leftovers(engine) == before


def test_a_volume_that_went_meanwhile_comes_again_as_ours(engine: docker.DockerClient, base: str) -> None:
    """The engine makes it anew by itself; without our labels nobody would ever remove it."""
    before = leftovers(engine)
    mounts = {"acpbench-went-private": "/private"}
    container = Container(engine, Spec("acpbench-went", base, ["true"], labels("went"), mounts))
    container.create()
    try:
        assert leftovers(engine) - before == {container.id, "acpbench-went-private"}
    finally:
        container.remove()
        engine.api.remove_volume("acpbench-went-private")
    assert leftovers(engine) == before
