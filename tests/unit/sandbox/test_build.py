"""Build contexts, the reading of a build's events, mmdebstrap's command line."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker
import pytest
import requests
from docker.errors import ImageNotFound

from runner.errors import BuildError
from runner.sandbox.build import STAGE_LABEL, TAIL, build, context, debootstrap_command
from runner.sandbox.host import HostSettings
from runner.sandbox.recipe import Debootstrap, Recipe, load_recipes


@pytest.fixture
def recipes(tmp_path: Path) -> dict[str, Recipe]:
    for name, text in (("a", "FROM scratch\n"), ("b", "FROM acpbench/a\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "image.yaml").write_text("title: x\n")
        (tmp_path / name / "Dockerfile").write_text(text)
    (tmp_path / "b" / "run.mjs").write_text("1")
    return load_recipes(tmp_path)


class Engine:
    """Answers a build with the given events; images are those of `stages` (build stages) and `finals`."""

    def __init__(
        self, events: list[dict[str, Any]], stages: tuple[str, ...] = (), finals: tuple[str, ...] = ()
    ) -> None:
        self.events, self.stages, self.finals = events, stages, finals
        self.removed: list[str] = []
        self.options: dict[str, Any] = {}
        self.api = SimpleNamespace(build=self._build, remove_image=self.removed.append)
        self.images = SimpleNamespace(get=self._get)

    def _build(self, **options: Any) -> Iterator[dict[str, Any]]:
        self.options = options
        return iter(self.events)

    def _get(self, image: str) -> SimpleNamespace:
        if image in self.stages:
            return SimpleNamespace(labels={STAGE_LABEL: "build"}, tags=[])
        if image in self.finals:
            return SimpleNamespace(labels={}, tags=["acpbench/b:1"])
        raise ImageNotFound(image)


def run(engine: Engine, recipes: dict[str, Recipe], name: str = "b") -> list[str]:
    said: list[str] = []
    client: docker.DockerClient = engine  # type: ignore[assignment]
    build(client, recipes[name], recipes, HostSettings(), said.append)
    return said


def test_the_context_is_the_same_every_time_and_holds_exact_tags(recipes: dict[str, Recipe]) -> None:
    settings = HostSettings(ca=b"PEM", env={"HTTP_PROXY": "http://p"})
    packed = context(recipes["b"], recipes, settings)
    assert packed.getvalue() == context(recipes["b"], recipes, settings).getvalue()
    with tarfile.open(fileobj=packed) as tar:
        assert tar.getnames() == [".host/ca.pem", ".host/env", "Dockerfile", "image.yaml", "run.mjs"]
        content = tar.extractfile("Dockerfile")
        assert content is not None
        assert content.read().decode() == f"FROM {recipes['a'].reference}\n"
        assert {(member.mtime, member.uid, member.gid) for member in tar} == {(0, 0, 0)}


def test_the_clients_proxies_are_not_handed_to_the_build(recipes: dict[str, Recipe]) -> None:
    engine = Engine([])
    run(engine, recipes)
    assert engine.options["use_config_proxy"] is False
    assert "buildargs" not in engine.options
    assert engine.options["tag"] == recipes["b"].reference
    assert engine.options["labels"]["acpbench.image"] == "b"


def test_steps_are_told(recipes: dict[str, Recipe]) -> None:
    events = [{"stream": "Step 1/2 : FROM x\n"}, {"stream": " ---> 0123456789ab\n"}, {"stream": "Step 2/2 : RUN y"}]
    assert run(Engine(events), recipes) == ["b: 1/2 FROM x", "b: 2/2 RUN y"]


def test_build_stages_are_removed_newest_first_and_nothing_else(recipes: dict[str, Recipe]) -> None:
    ids = ["aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc", "dddddddddddd"]
    engine = Engine(
        [{"stream": f" ---> {one}\n"} for one in ids], stages=("bbbbbbbbbbbb", "aaaaaaaaaaaa"), finals=("cccccccccccc",)
    )
    run(engine, recipes)
    assert engine.removed == ["bbbbbbbbbbbb", "aaaaaaaaaaaa"]


def test_an_engine_too_busy_to_remove_a_stage_breaks_no_build(recipes: dict[str, Recipe]) -> None:
    engine = Engine([{"stream": f" ---> {one * 12}\n"} for one in "ab"], stages=("a" * 12, "b" * 12))

    def remove(image: str) -> None:
        engine.removed.append(image)
        raise requests.exceptions.ReadTimeout("read timeout=60")

    engine.api.remove_image = remove
    run(engine, recipes)
    assert engine.removed == ["b" * 12, "a" * 12]


def test_a_broken_build_shows_its_last_lines_and_still_removes_its_stages(recipes: dict[str, Recipe]) -> None:
    events: list[dict[str, Any]] = [{"stream": " ---> aaaaaaaaaaaa\n"}]
    events += [{"stream": f"line {number}\n"} for number in range(TAIL + 5)]
    events += [{"error": "The command '/bin/sh -c npm ci' returned a non-zero code: 1"}]
    engine = Engine(events, stages=("aaaaaaaaaaaa",))
    with pytest.raises(BuildError) as caught:
        run(engine, recipes)
    lines = str(caught.value).splitlines()
    assert lines[0] == "image b could not be built: The command '/bin/sh -c npm ci' returned a non-zero code: 1"
    assert [line.strip() for line in lines[1:]] == [f"| line {number}" for number in range(5, TAIL + 5)]
    assert engine.removed == ["aaaaaaaaaaaa"]


def test_an_engine_that_goes_silent_behind_a_broken_build_hides_nothing_of_it(recipes: dict[str, Recipe]) -> None:
    engine = Engine([{"stream": " ---> aaaaaaaaaaaa\n"}, {"error": "npm ci failed"}])

    def silent(_: str) -> SimpleNamespace:
        raise requests.exceptions.ReadTimeout("timed out")

    engine.images = SimpleNamespace(get=silent)
    with pytest.raises(BuildError, match="npm ci failed"):
        run(engine, recipes)


def test_the_hooks_of_mmdebstrap_strip_and_remove(tmp_path: Path) -> None:
    spec = Debootstrap(
        suite="trixie",
        variant="minbase",
        include=["git", "socat"],
        strip=["share/doc"],
        remove=["etc/hostname"],
        epoch=1,
    )
    command = debootstrap_command("mmdebstrap", spec, tmp_path / "out.tar")
    assert command[:3] == ["mmdebstrap", "--variant=minbase", "--include=git,socat"]
    assert command[-2:] == ["trixie", str(tmp_path / "out.tar")]
    for file in (
        "share/doc/git/copyright",
        "share/doc/git/README",
        "share/doc/perl/man/x",
        "etc/hostname",
        "etc/passwd",
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("x")
    hooks = [part.removeprefix("--customize-hook=") for part in command if part.startswith("--customize-hook=")]
    for hook in hooks:
        subprocess.run(["/bin/sh", "-ec", hook, "hook", str(tmp_path)], check=True)
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert left == ["etc/passwd", "share/doc/git/copyright"]
    assert not (tmp_path / "share/doc/perl").exists()


def test_without_mmdebstrap_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "image.yaml").write_text(
        "title: x\ndebootstrap: {suite: trixie, variant: minbase, include: [git], epoch: 1}\n"
    )
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(BuildError, match="apt-get install mmdebstrap"):
        run(Engine([]), load_recipes(tmp_path), "base")
