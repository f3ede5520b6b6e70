"""What a pin that ends before its time leaves: nothing that the next one, or anybody else, stumbles over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import docker
import pytest
import requests

from runner.config.adapter import Program
from runner.config.catalog import Catalog
from runner.errors import BuildError, UsageError
from runner.packages import pin as pins
from runner.packages.clients import ClientRun, Clients

CONFIG = """\
id: tiny@1.0.0
title: Tiny
image: tiny-1.0.0
dialect: anthropic
packages:
  - { registry: npm, name: tiny, version: 1.0.0 }
programs:
  - { name: own, command: [own], expect: 1.0.0 }
acp: { command: [own], binary: /own }
tools: {}
"""
MANIFEST = '{"dependencies": {"tiny": "1.0.0"}}'


class Stopped(Clients):
    """The moment at which the lock is made is the one at which it ends."""

    def __init__(self, end: BaseException) -> None:
        self.end = end

    def run(self, *_: object, **__: object) -> ClientRun:
        raise self.end


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for below in ("configs/adapters", "images/tiny-1.0.0", "fixtures"):
        (tmp_path / below).mkdir(parents=True)
    (tmp_path / "configs/adapters/tiny-1.0.0.yaml").write_text(CONFIG)
    (tmp_path / "images/tiny-1.0.0/image.yaml").write_text("title: Tiny 1.0.0\n")
    (tmp_path / "images/tiny-1.0.0/package.json").write_text(MANIFEST)
    return tmp_path


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def pinned(root: Path, end: BaseException) -> None:
    pins.pin("tiny@1.1.0", Catalog(root), docker.DockerClient(), Stopped(end), lambda _: None)


@pytest.mark.parametrize(
    ("end", "seen"),
    [
        (KeyboardInterrupt(), KeyboardInterrupt),
        (SystemExit(1), SystemExit),
        (requests.exceptions.ReadTimeout("60 s"), requests.exceptions.ReadTimeout),
        (OSError(28, "No space left on device"), UsageError),
    ],
)
def test_nothing_is_left_of_one_that_is_stopped(root: Path, end: BaseException, seen: type[BaseException]) -> None:
    before = files(root)
    for _ in range(2):
        with pytest.raises(seen):
            pinned(root, end)
        assert files(root) == before


def test_what_a_killed_one_left_is_made_anew(root: Path) -> None:
    before = files(root)
    script = (
        "import os, sys, pathlib\n"
        "from runner.packages.pin import _unfinished\n"
        "root = pathlib.Path(sys.argv[1])\n"
        "mark, config, folder = root / '.cache/pins/tiny-1.1.0', root / 'configs/adapters/tiny-1.1.0.yaml', "
        "root / 'images/tiny-1.1.0'\n"
        "with _unfinished(mark, 'tiny@1.1.0', config, folder):\n"
        "    folder.mkdir()\n"
        "    config.write_text('half')\n"
        "    os._exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(root)], check=False).returncode == 9
    assert {"configs/adapters/tiny-1.1.0.yaml", ".cache/pins/tiny-1.1.0"} <= set(files(root))
    with pytest.raises(KeyboardInterrupt):
        pinned(root, KeyboardInterrupt())
    assert files(root) == before


@pytest.mark.parametrize("theirs", ["configs/adapters/tiny-1.1.0.yaml", "images/tiny-1.1.0/Dockerfile"])
def test_what_somebody_else_wrote_is_left(root: Path, theirs: str) -> None:
    (root / theirs).parent.mkdir(exist_ok=True)
    (root / theirs).write_text(CONFIG)
    before = files(root)
    with pytest.raises(UsageError, match=r"tiny-1\.1\.0.*: tiny@1\.1\.0 is there already"):
        pinned(root, KeyboardInterrupt())
    assert files(root) == before


def test_two_at_once_do_not_make_the_same(root: Path) -> None:
    class Both(Stopped):
        def run(self, *_: object, **__: object) -> ClientRun:
            with pytest.raises(UsageError, match=r"tiny@1\.1\.0: another acpbench is making it"):
                pinned(root, KeyboardInterrupt())
            assert "images/tiny-1.1.0/image.yaml" in files(root)
            raise self.end

    with pytest.raises(KeyboardInterrupt):
        pins.pin("tiny@1.1.0", Catalog(root), docker.DockerClient(), Both(KeyboardInterrupt()), lambda _: None)


def test_an_image_that_cannot_be_asked_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> tuple[int, str]:
        raise requests.exceptions.ReadTimeout("read timeout=60")

    monkeypatch.setattr(pins, "output", asked)
    program = Program(name="own", command=["own"], expect="1.0.0")
    with pytest.raises(BuildError, match=r"^own cannot be asked for its version \(read timeout=60\)$"):
        pins._said(docker.DockerClient(), "sha256:0", program)


@pytest.mark.parametrize("registry", ["npm", "pypi"])
def test_an_agent_from_no_registry_has_no_other_versions(root: Path, registry: str) -> None:
    config = root / "configs/adapters/tiny-1.0.0.yaml"
    config.write_text(CONFIG.replace("npm, name: tiny,", f"{registry}, name: beside-it,"))
    before = files(root)
    for missing in (False, True):
        if missing:
            (root / "images/tiny-1.0.0/package.json").unlink()
            before.remove("images/tiny-1.0.0/package.json")
        with pytest.raises(UsageError, match=r"^tiny@1\.0\.0: its first package, beside-it, is not in .*no registry"):
            pinned(root, KeyboardInterrupt())
        assert files(root) == before


def test_a_disk_that_refuses_is_told_in_one_line(root: Path) -> None:
    (root / ".cache").write_text("in the way")
    with pytest.raises(UsageError, match=r"^tiny@1\.1\.0: cannot be written: \w.*\.cache/pins"):
        pinned(root, KeyboardInterrupt())
    (root / ".cache").unlink()
    with pytest.raises(UsageError, match=r"^tiny@1\.1\.0: cannot be written: No space left on device$"):
        pinned(root, OSError(28, "No space left on device"))
