"""The repository's own files: scripts parse, locks hold what pyproject asks for."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def locked(name: str) -> dict[str, str]:
    """Package -> version of a lock, names normalised (PEP 503)."""
    text = (ROOT / name).read_text("utf-8")
    return {normal(found[1]): found[2] for found in re.finditer(r"^([A-Za-z0-9._-]+)==(\S+)", text, re.MULTILINE)}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def asked(requirements: list[str]) -> set[str]:
    return {normal(re.split(r"[<>=!~;\[ ]", requirement, maxsplit=1)[0]) for requirement in requirements}


def test_locks_hold_what_is_asked_for() -> None:
    project = PYPROJECT["project"]
    assert asked(project["dependencies"]) <= set(locked("requirements.lock"))
    assert asked(project["optional-dependencies"]["dev"]) <= set(locked("requirements-dev.lock"))
    # The editable install runs without build isolation.
    assert asked(PYPROJECT["build-system"]["requires"]) <= set(locked("requirements-dev.lock"))


def test_both_locks_agree() -> None:
    runtime, dev = locked("requirements.lock"), locked("requirements-dev.lock")
    assert {name: dev.get(name) for name in runtime} == runtime


@pytest.mark.parametrize("script", [".setup/setup.sh", ".setup/javascript/check.sh", ".ci/run"])
def test_scripts_parse_and_may_be_run(script: str) -> None:
    path = ROOT / script
    assert path.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(path)], check=True)


def test_what_setup_starts_inherits_no_descriptor(tmp_path: Path) -> None:
    text = (ROOT / ".setup" / "setup.sh").read_text("utf-8")
    function = re.search(r"^detached\(\) \(\n.*?^\)$", text, re.MULTILINE | re.DOTALL)
    assert function is not None
    # Descriptor 9 is one that a caller such as make may have opened.
    script = f"{function[0]}\nexec 9>{tmp_path}/held\ndetached ls -l /proc/self/fd\necho mine >&9\n"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert "/dev/null" in done.stdout
    assert "held" not in done.stdout
    assert (tmp_path / "held").read_text() == "mine\n"


def test_make_help_lists_every_target() -> None:
    done = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {line.split()[1] for line in done.stdout.splitlines()} == {
        "help", "setup", "sweep", "test", "long", "agents", "lint", "chaos", "floods", "forgery", "soak", "images",
        "doctor", "clean",
    }  # fmt: skip


def test_news_fragments_make_a_changelog() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "1.2.3", "--date", "2026-01-01"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "## 1.2.3 (2026-01-01)" in done.stdout.splitlines()
    fragments = list((ROOT / ".github/changes").glob("*.md"))
    assert done.stdout.count("\n- ") == len(fragments) > 0


def test_javascript_is_as_narrow_as_python() -> None:
    """biome breaks code at 120 columns, but neither comments nor texts."""
    files = [*(ROOT / "images").glob("*/*.mjs"), *(ROOT / "tests").rglob("*.mjs")]
    assert files
    wide = {f"{path.relative_to(ROOT)}:{number}" for path in files for number in wide_lines(path)}
    assert wide == set()


def wide_lines(path: Path) -> list[int]:
    return [number for number, line in enumerate(path.read_text("utf-8").splitlines(), 1) if len(line) > 120]
