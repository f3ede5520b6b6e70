"""A fixture's folder as the tar that the guest unpacks, and its pins, computed here as the guest computes them.

No git and no container are needed: the format of git's objects is written out in `runner.guest.gitobj`.
"""

from __future__ import annotations

import io
import os
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from runner.config.fixture import Fixture
from runner.config.loaded_sweep import LoadedSweep
from runner.config.source import raise_all, read_source, shown
from runner.errors import ConfigError, UsageError
from runner.guest import gitobj
from runner.guest.fixture import commit_data, subject_of

#: Names that git keeps for itself, also as other systems would read them (`.GIT`, `git~1`, `.git `).
_GITS_OWN = re.compile(r"\.git[ .]*(:.*)?|git~1", re.IGNORECASE)
#: Read by git from the tree: as a link it would lead out of it.
_READ_BY_GIT = frozenset({".gitattributes", ".gitignore", ".gitmodules", ".mailmap"})
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True, slots=True)
class FixturePins:
    """The names that git gives a fixture's tree and its commit (40 hex digits each)."""

    tree: str
    commit: str


def fixture_pins(folder: Path, fixture: str) -> FixturePins:
    """What `tree` and `commit` of the fixture with that id must be; `folder` holds its tree.

    :raises UsageError: something there that no git tree can hold.
    """
    tree = fixture_tree(folder)
    return FixturePins(tree, gitobj.object_name("commit", commit_data(tree, subject_of(fixture))))


def check_pins(loaded: LoadedSweep) -> None:
    """What stands in the folders of a sweep's fixtures must be what their files pin. Needs no engine.

    :raises ConfigError: with file and line, or `ConfigErrors` with those of all fixtures.
    """
    errors = []
    for name, fixture in loaded.fixtures.items():
        folder = loaded.fixture_folder(name)
        file = folder.parent / "fixture.yaml"
        try:
            fault = wrong_pin(folder, fixture)
        except UsageError as problem:
            errors.append(ConfigError(shown(file), None, str(problem)))
            continue
        if fault is not None:
            key, problem_text = fault
            errors.append(ConfigError(shown(file), read_source(file).line((key,)), problem_text))
    raise_all(errors)


def wrong_pin(folder: Path, fixture: Fixture) -> tuple[str, str] | None:
    """The first pin that differs (`tree` or `commit`) and a sentence about it; None: both are right."""
    found = fixture_pins(folder, fixture.id)
    remedy = "undo the change or run `acpbench fixture pin` on the fixture"
    if found.tree != fixture.tree:
        text = f"tree {fixture.tree} is pinned, but {shown(folder)} holds {found.tree}"
        if _tree_of(_with_unix_line_ends(_manifest(folder)), folder) == fixture.tree:
            remedy = "its files have CRLF line ends: check it out anew with git's core.autocrlf=false"
        return "tree", f"{text}; {remedy}"
    if found.commit != fixture.commit:
        return "commit", f"commit {fixture.commit} is pinned, but this tree and id make {found.commit}; {remedy}"
    return None


def fixture_tree(folder: Path) -> str:
    """The name git gives the tree that `fixture_tar` packs (40 hex digits).

    :raises UsageError: something there that no git tree can hold.
    """
    return _tree_of(_manifest(folder), folder)


def fixture_tar(folder: Path) -> bytes:
    """Tar of what stands below `folder`, sorted by name; owner 0, time 0, mode 0644 or 0755 by the user's x bit.

    Empty folders are left out, as git leaves them out: a clone of the fixture would not have them either.

    :raises UsageError: something there that no git tree can hold.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        made: set[Path] = set()
        for path, content in _files(folder):
            for parent in reversed(path.relative_to(folder).parents[:-1]):
                if parent not in made:
                    made.add(parent)
                    member = tarfile.TarInfo(parent.as_posix())
                    member.type = tarfile.DIRTYPE
                    member.mode = 0o755
                    tar.addfile(member)
            member = tarfile.TarInfo(path.relative_to(folder).as_posix())
            if content is None:
                member.type = tarfile.SYMTYPE
                member.linkname = str(path.readlink())
                tar.addfile(member)
            else:
                member.size = len(content)
                member.mode = 0o755 if _is_executable(path) else 0o644
                tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def oddities(folder: Path) -> list[str]:
    """What an author may not expect of the tree in `folder`, a line each; none of it makes a pin wrong."""
    found = []
    with_crlf = []
    for path, content in _files(folder):
        if content is not None and content.startswith(_LFS_POINTER):
            found.append(f"{shown(path)}: a pointer of Git LFS, not the file itself; fetch it with `git lfs pull`")
        elif content is not None and b"\r\n" in content and b"\0" not in content:
            with_crlf.append(path)
    if with_crlf:
        more = f" and {len(with_crlf) - 1} more" if len(with_crlf) > 1 else ""
        message = "CRLF line ends, which are pinned; `* -text` in .gitattributes keeps git from changing them"
        found.append(f"{shown(with_crlf[0])}{more}: {message}")
    for path in sorted(folder.rglob("*")):
        if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
            submodule = " (a submodule? Its files must be copied here)" if (folder / ".gitmodules").exists() else ""
            message = f"an empty folder, which git cannot hold: it is left out{submodule}; put a file in it to keep it"
            found.append(f"{shown(path)}: {message}")
    return found


def _files(folder: Path) -> Iterator[tuple[Path, bytes | None]]:
    """Every file with its content and every symbolic link with None, sorted by path."""
    empty = True
    for path in sorted(folder.rglob("*")):
        if _GITS_OWN.fullmatch(path.name):
            message = "a repository or submodule inside a fixture's tree; remove it, the fixture holds the files alone"
            raise UsageError(f"{shown(path)}: {message}")
        if path.is_symlink():
            if path.name.lower() in _READ_BY_GIT:
                raise UsageError(f"{shown(path)}: git takes no symbolic link for this; put the file itself here")
            empty = False
            yield path, None
        elif path.is_file():
            empty = False
            yield path, path.read_bytes()
        elif not path.is_dir():
            raise UsageError(f"{path}: a fixture holds files, folders and symbolic links only")
    if empty:
        raise UsageError(f"{shown(folder)}: there is no file in the fixture's tree")


def _is_executable(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o100)


def _manifest(folder: Path) -> dict[Path, tuple[int, bytes]]:
    """Path below `folder` -> git's mode, and the content or the link's target."""
    found = {}
    for path, content in _files(folder):
        mode = gitobj.EXECUTABLE if content is not None and _is_executable(path) else gitobj.FILE
        below = path.relative_to(folder)
        if content is None:
            found[below] = gitobj.SYMLINK, os.fsencode(path.readlink())
        else:
            found[below] = mode, content
    return found


def _with_unix_line_ends(manifest: dict[Path, tuple[int, bytes]]) -> dict[Path, tuple[int, bytes]]:
    return {path: (mode, content.replace(b"\r\n", b"\n")) for path, (mode, content) in manifest.items()}


def _tree_of(manifest: dict[Path, tuple[int, bytes]], folder: Path) -> str:
    try:
        return gitobj.build_trees(
            {
                path.as_posix(): gitobj.GitEntry(mode, gitobj.blob_name(content))
                for path, (mode, content) in manifest.items()
            }
        )
    except ValueError as problem:
        raise UsageError(f"{shown(folder)}: {problem}") from problem
