"""A fixture's folder as the tar that the guest unpacks: normalised, the same bytes every time."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

from runner.errors import UsageError
from runner.guest import gitobj


def fixture_tree(folder: Path) -> str:
    """The name git gives the tree that `fixture_tar` packs (40 hex digits).

    :raises UsageError: something there is neither a file, a folder nor a symbolic link.
    """
    manifest: dict[str, gitobj.Entry] = {}
    with tarfile.open(fileobj=io.BytesIO(fixture_tar(folder))) as tar:
        for member in tar:
            if member.issym():
                manifest[member.name] = gitobj.Entry(gitobj.SYMLINK, gitobj.blob_name(os.fsencode(member.linkname)))
            elif member.isreg():
                mode = gitobj.EXECUTABLE if member.mode & 0o100 else gitobj.FILE
                content = tar.extractfile(member)
                assert content is not None
                manifest[member.name] = gitobj.Entry(mode, gitobj.blob_name(content.read()))
    return gitobj.build_trees(manifest)


def fixture_tar(folder: Path) -> bytes:
    """Tar of what stands below `folder`, sorted by name; owner 0, time 0, mode 0644 or 0755 by the user's x bit.

    :raises UsageError: something there is neither a file, a folder nor a symbolic link.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            member = tarfile.TarInfo(path.relative_to(folder).as_posix())
            if path.is_symlink():
                member.type = tarfile.SYMTYPE
                member.linkname = str(path.readlink())
                tar.addfile(member)
            elif path.is_dir():
                member.type = tarfile.DIRTYPE
                member.mode = 0o755
                tar.addfile(member)
            elif path.is_file():
                data = path.read_bytes()
                member.size = len(data)
                member.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
                tar.addfile(member, io.BytesIO(data))
            else:
                raise UsageError(f"{path}: a fixture holds files, folders and symbolic links only")
    return buffer.getvalue()
