"""Locks: what is installed, and that nothing in them is unpinned or names a registry."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.errors import BuildError
from runner.sandbox.images import ROOT
from runner.sandbox.pins import InstalledPackage, packages


def lock(folder: Path, entries: dict[str, dict[str, object]]) -> Path:
    (folder / "package-lock.json").write_text(json.dumps({"lockfileVersion": 3, "packages": {"": {}, **entries}}))
    return folder


def test_packages_of_both_locks_sorted(tmp_path: Path) -> None:
    lock(
        tmp_path,
        {
            "node_modules/b": {"version": "2.0.0", "integrity": "sha512-b"},
            "node_modules/b/node_modules/@s/a": {"version": "1.0.0", "integrity": "sha512-a"},
            "node_modules/alias": {"name": "real", "version": "3.0.0", "integrity": "sha512-r"},
        },
    )
    digest = "0" * 64
    (tmp_path / "requirements.txt").write_text(f"# comment\nwheel-x==1.2.3 \\\n    --hash=sha256:{digest}\n")
    assert packages(tmp_path) == (
        InstalledPackage("npm", "@s/a", "1.0.0", "sha512-a"),
        InstalledPackage("npm", "b", "2.0.0", "sha512-b"),
        InstalledPackage("npm", "real", "3.0.0", "sha512-r"),
        InstalledPackage("pypi", "wheel-x", "1.2.3", f"sha256:{digest}"),
    )


def test_variants_for_other_platforms_are_left_out(tmp_path: Path) -> None:
    entry = {"version": "1.0.0", "integrity": "sha512-x", "optional": True}
    lock(
        tmp_path,
        {
            "node_modules/here": {**entry, "os": ["linux"], "cpu": ["x64"], "libc": ["glibc"]},
            "node_modules/musl": {**entry, "os": ["linux"], "cpu": ["x64"], "libc": ["musl"]},
            "node_modules/mac": {**entry, "os": ["darwin"], "cpu": ["x64"]},
            "node_modules/arm": {**entry, "os": ["linux"], "cpu": ["arm64"]},
        },
    )
    assert [pin.name for pin in packages(tmp_path)] == ["here"]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"version": "1.0.0"}, "no integrity hash"),
        ({"version": "1.0.0", "integrity": "sha512-x", "resolved": "https://r.test/x.tgz"}, "download address"),
    ],
)
def test_an_entry_that_is_not_pinned_is_refused(tmp_path: Path, entry: dict[str, object], said: str) -> None:
    with pytest.raises(BuildError, match=said):
        packages(lock(tmp_path, {"node_modules/x": entry}))


def test_a_requirement_without_a_hash_is_refused(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("wheel-x==1.2.3\n")
    with pytest.raises(BuildError, match="wheel-x has no hash"):
        packages(tmp_path)


def test_a_broken_lock_is_refused(tmp_path: Path) -> None:
    (tmp_path / "package-lock.json").write_text("{}")
    with pytest.raises(BuildError, match="not a package lock"):
        packages(tmp_path)


@pytest.mark.parametrize(
    "folder", sorted(path.parent for path in ROOT.glob("images/*/image.yaml")), ids=lambda p: p.name
)
def test_every_image_of_ours_is_pinned(folder: Path) -> None:
    text = (folder / "Dockerfile").read_text() if (folder / "Dockerfile").exists() else ""
    assert bool(packages(folder)) == any(tool in text for tool in ("npm-locked", "npm ci", "pip install"))


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_our_own_locks_hold_hashes_and_no_registry(name: str) -> None:
    text = (ROOT / name).read_text()
    assert "://" not in text
    lines = [line for line in text.replace("\\\n", "").splitlines() if line and not line.startswith("#")]
    assert len(lines) > 10
    assert all("==" in line and "--hash=sha256:" in line for line in lines)
