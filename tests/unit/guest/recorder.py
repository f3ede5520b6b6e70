"""A channel that keeps what is sent, and archives for the guest's unit tests."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from typing import IO, Any

from runner.guest.channel import Channel, Request


class Recorder(Channel):
    """Keeps messages instead of writing them; blobs become members of the message, as bytes."""

    def __init__(self) -> None:
        super().__init__(-1, -1)
        self.sent: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any], blobs: Mapping[str, bytes | IO[bytes]] | None = None) -> None:
        read = {name: blob if isinstance(blob, bytes) else blob.read() for name, blob in (blobs or {}).items()}
        self.sent.append({**message, **read})

    def request(self, **args: Any) -> Request:
        return Request(self, 1, args)


def member(name: str, content: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    """One member; `fields` are TarInfo's (`type`, `linkname`, `mode`)."""
    info = tarfile.TarInfo(name)
    info.mode = 0o644
    for field, value in fields.items():
        setattr(info, field, value)
    info.size = len(content)
    return info, content


def tar(*members: tuple[tarfile.TarInfo, bytes], compress: bool = False) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(
        fileobj=buffer,
        mode="w:gz" if compress else "w",
        format=tarfile.GNU_FORMAT,
        encoding="utf-8",
        errors="surrogateescape",
    ) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def files_tar(files: dict[str, str]) -> bytes:
    return tar(*(member(name, content.encode()) for name, content in files.items()))
