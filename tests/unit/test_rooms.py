"""The shape of runner/: its floors, and how long a file, a class and a function may be."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUNNER = ROOT / "runner"

FILE_LINES, CLASS_LINES, FUNCTION_LINES = 400, 200, 60
#: What may be longer, and why. Nothing is added here without a reason that a reader accepts.
LONGER: dict[str, str] = {}


def check_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    linter = Path(sys.executable).with_name("lint-imports")
    return subprocess.run([linter, "--no-logo", "--no-cache"], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(RUNNER, tmp_path / "runner", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_imports_run_down_the_floors(copied: Path) -> None:
    done = check_imports(copied)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "planted"),
    [
        ("runner/wire/jsonrpc.py", "from runner.records import schema\n"),
        ("runner/guest/procs.py", "import runner.errors\n"),
        ("runner/text/visible.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import runner.cli.app\n"),
        ("runner/config/nearest.py", "def late() -> None:\n    import runner.sandbox.engine\n"),
        (
            "runner/records/schema.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import runner.records.store\n",
        ),
    ],
    ids=["upward", "guest", "upward for types alone", "upward in a function", "circle for types alone"],
)
def test_a_planted_import_is_refused(copied: Path, module: str, planted: str) -> None:
    path = copied / module
    path.write_text(f"{path.read_text('utf-8')}\n{planted}", "utf-8")
    done = check_imports(copied)
    assert done.returncode == 1
    assert module.removesuffix(".py").split("/")[1] in done.stdout


def test_a_room_without_a_floor_is_refused(copied: Path) -> None:
    (copied / "runner/attic").mkdir()
    (copied / "runner/attic/__init__.py").touch()
    done = check_imports(copied)
    assert done.returncode == 1
    assert "attic" in done.stdout


def test_no_module_stands_outside_a_room() -> None:
    assert {path.name for path in RUNNER.glob("*.py")} == {"__init__.py", "errors.py"}


def test_every_room_says_what_it_is_for() -> None:
    rooms = sorted(RUNNER.rglob("__init__.py"))
    assert [str(path.relative_to(ROOT)) for path in rooms if not ast.get_docstring(ast.parse(path.read_text()))] == []


def imports_of(path: Path) -> Iterator[list[str]]:
    """Dotted names below `runner` that a file imports, as [room, module, ...]."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name.split(".")[1:] for name in node.names if name.name.startswith("runner."))
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] == "runner":
            parts = (node.module or "").split(".")[1:]
            folder = RUNNER.joinpath(*parts)
            yield from ([*parts, name.name] for name in node.names) if folder.is_dir() else [parts]


ROOMS = sorted(path.parent.name for path in RUNNER.glob("*/__init__.py"))


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_names_what_others_import_and_what_it_imports(room: str) -> None:
    tree = ast.parse((RUNNER / room / "__init__.py").read_text("utf-8"))
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    public = ast.literal_eval(assigned[0].value) if assigned else []
    used, imported = set(), set()
    for path in RUNNER.rglob("*.py"):
        own = path.relative_to(RUNNER).parts[0] == room
        for parts in imports_of(path):
            if own and parts[0] in ROOMS and parts[0] != room:
                imported.add(parts[0])
            elif not own and parts[0] == room and len(parts) == 2:
                used.add(parts[1])
    assert public == sorted(used)
    stated = (ast.get_docstring(tree) or "").rpartition("Imports ")[2]
    assert re.findall(r"`(\w+)`", stated) == sorted(imported)


def lengths() -> Iterator[tuple[str, int, int]]:
    """Name, lines and the bound of each file, class and function."""
    for path in sorted(RUNNER.rglob("*.py")):
        text = path.read_text("utf-8")
        name = str(path.relative_to(ROOT))
        yield name, text.count("\n"), FILE_LINES
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                bound = CLASS_LINES if isinstance(node, ast.ClassDef) else FUNCTION_LINES
                yield f"{name}::{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1, bound


def test_nothing_is_too_long_to_be_read() -> None:
    measured = list(lengths())
    assert {name: lines for name, lines, bound in measured if lines > bound and name not in LONGER} == {}
    # An exception that is not needed any more goes.
    assert set(LONGER) <= {name for name, lines, bound in measured if lines > bound}
