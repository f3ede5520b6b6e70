"""A clone by a git that turns line ends (core.autocrlf, as on Windows) has the same bytes as any other one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from runner.config.catalog import Catalog
from runner.sandbox.fixture import fixture_pins
from runner.sandbox.recipe import load_recipes

ROOT = Path(__file__).parents[2]
SAFE = ("-c", "safe.directory=*")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of what is committed, with this tree's .gitattributes."""
    if not (ROOT / ".git").exists():
        pytest.skip("the tests do not stand in a checkout")
    folder = tmp_path_factory.mktemp("checkout") / "clone"
    git = ["git", *SAFE, "-c", "core.autocrlf=true", "-c", "core.eol=crlf"]
    subprocess.run([*git, "clone", "-q", "--no-checkout", str(ROOT), str(folder)], check=True, timeout=120)
    (folder / ".git/info").mkdir(exist_ok=True)
    shutil.copy(ROOT / ".gitattributes", folder / ".git/info/attributes")
    subprocess.run([*git, "-C", str(folder), "checkout", "-q", "HEAD"], check=True, timeout=120)
    return folder


def committed(clone: Path) -> dict[str, bytes]:
    """Path -> content as git holds it, symbolic links aside."""
    listed = subprocess.run(
        ["git", "-C", str(clone), "ls-tree", "-r", "-z", "HEAD"], check=True, capture_output=True, timeout=60
    ).stdout
    entries = [entry.partition("\t") for entry in listed.decode().split("\0") if entry]
    files = {path: head.split()[2] for head, _, path in entries if head.startswith("100")}
    asked = "".join(f"{name}\n" for name in files.values()).encode()
    said = subprocess.run(
        ["git", "-C", str(clone), "cat-file", "--batch"], input=asked, check=True, capture_output=True, timeout=60
    ).stdout
    found = {}
    at = 0
    for path in files:
        end = said.index(b"\n", at)
        size = int(said[at:end].split()[2])
        found[path] = said[end + 1 : end + 1 + size]
        at = end + size + 2
    return found


def test_every_file_has_the_bytes_that_are_committed(clone: Path) -> None:
    differing = [path for path, content in committed(clone).items() if (clone / path).read_bytes() != content]
    assert differing == []


def test_pins_of_fixtures_and_tags_of_images_hold(clone: Path) -> None:
    catalog = Catalog(clone)
    ids = [folder.name for folder in sorted((clone / "fixtures").iterdir()) if (folder / "fixture.yaml").exists()]
    assert ids
    for name in ids:
        fixture = catalog.fixture(name)
        pins = fixture_pins(catalog.fixture_folder(name), name)
        assert (pins.tree, pins.commit) == (fixture.tree, fixture.commit)
    dirty = subprocess.run(
        ["git", *SAFE, "-C", str(ROOT), "status", "--porcelain", "images"], capture_output=True, check=True
    )
    if not dirty.stdout:
        tags = {name: recipe.tag for name, recipe in load_recipes(ROOT / "images").items()}
        assert {name: recipe.tag for name, recipe in load_recipes(clone / "images").items()} == tags


@pytest.mark.parametrize("script", [".setup/setup.sh", ".ci/run", ".ci/nightly"])
def test_scripts_start(clone: Path, script: str) -> None:
    assert b"\r" not in (clone / script).read_bytes()
    subprocess.run(["bash", "-n", str(clone / script)], check=True, timeout=60)


def test_a_new_fixture_keeps_its_line_ends(clone: Path) -> None:
    """What an author adds is committed as it is."""
    attributes = ["text", "eol"]
    said = subprocess.run(
        ["git", "-C", str(clone), "check-attr", *attributes, "--", "fixtures/new/tree/a/dos.txt", "images/x/run.sh"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "fixtures/new/tree/a/dos.txt: text: unset" in said
    assert "images/x/run.sh: eol: lf" in said
