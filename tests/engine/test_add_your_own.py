"""The page "Add your own agent", followed to the letter: its blocks are the files, its commands are run."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from runner.records.schema import Record
from runner.records.store import SweepDir
from runner.sandbox.images import Images
from tests.engine.lab import REPOSITORY

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(300)]

PAGE = (REPOSITORY / "configs/adapters/README.md").read_text(encoding="utf-8")
#: A path on a line of its own, then the file.
FILES = dict(re.findall(r"^`([^`\n]+)`\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
COMMANDS = [line.split()[1:] for line in re.findall(r"^acpbench [a-z].*$", PAGE, re.MULTILINE)]
IMAGE = "loop-agent-1.0.0"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, engine: docker.DockerClient) -> Iterator[Path]:
    """A checkout whose only new files are those of the page."""
    root = tmp_path_factory.mktemp("own")
    for kind in ("images", "configs/adapters", "configs/sweeps"):
        (root / kind).mkdir(parents=True)
        for path in (REPOSITORY / kind).iterdir():
            (root / kind / path.name).symlink_to(path)
    for kind in ("fixtures", "configs/surfaces", "configs/models"):
        (root / kind).symlink_to(REPOSITORY / kind)
    for name, content in FILES.items():
        assert not (root / name).exists()
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(content, encoding="utf-8")
    yield root
    built = Images(engine, root).find(IMAGE)
    if built is not None:
        engine.api.remove_image(built.reference)


@pytest.fixture(scope="module")
def said(root: Path) -> list[str]:
    """What the page's commands print, in order."""
    said = []
    for command in COMMANDS:
        done = subprocess.run(
            [sys.executable, "-m", "runner.cli", "--root", str(root), *command],
            cwd=root,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(REPOSITORY), "HOME": str(Path.home())},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        said.append(done.stdout)
    return said


@pytest.fixture(scope="module")
def records(root: Path, said: list[str]) -> dict[str, Record]:
    directory = root / said[-1].splitlines()[-1]
    return {record.surface: record for record in SweepDir.read(directory).records()}


def test_the_page_holds_what_it_speaks_of() -> None:
    assert set(FILES) == {
        f"images/{IMAGE}/image.yaml",
        f"images/{IMAGE}/Dockerfile",
        f"images/{IMAGE}/agent.py",
        f"configs/adapters/{IMAGE}.yaml",
        "configs/sweeps/loop-agent.yaml",
    }
    assert [command[0] for command in COMMANDS] == ["images", "images", "sweep"]
    for link in re.findall(r"\]\(([^)]+)\)", PAGE) + re.findall(r"\| `([a-z0-9.-]+\.yaml)` \|$", PAGE, re.MULTILINE):
        assert (REPOSITORY / "configs/adapters" / link).exists(), link


def test_its_agent_passes_on_every_surface(records: dict[str, Record]) -> None:
    assert sorted(records) == ["acp", "acp-nocaps", "cli"]
    for record in records.values():
        assert (record.outcome, record.reason, record.findings) == ("passed", "", [])
        assert record.exact["tool_calls_served"] == 10
    for surface in ("acp", "acp-nocaps"):
        exact = records[surface].exact
        assert (exact["tool_calls"], exact["permission_requests"], exact["schema_violations"]) == (10, 10, 0)
        assert exact["tokens_reported"] == exact["tokens_served"]


def test_its_version_is_in_the_table_of_programs(said: list[str]) -> None:
    assert re.search(rf"^{re.escape(IMAGE)} +agent +loop-agent 1\.0\.0 +loop-agent 1\.0\.0$", said[1], re.MULTILINE)
