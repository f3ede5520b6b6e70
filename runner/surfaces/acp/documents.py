"""The editor's open documents of one run: opened before the agent is, told of in the record when it has ended."""

from __future__ import annotations

from runner.acp.buffers import EditorBuffers, MediatedWrite, blob_hash
from runner.config.surface import OpenBuffer
from runner.records.schema import Buffer
from runner.sandbox.channel import GuestRefused
from runner.surfaces.driver import DriverContext

_READ_S = 30.0


class Documents:
    """Documents with unsaved text, as a surface asks for them, in the client's `buffers`."""

    def __init__(self, context: DriverContext, buffers: EditorBuffers) -> None:
        self._context = context
        self._buffers = buffers
        self._opened: list[Buffer] = []

    def open(self) -> None:
        """Read the disk and open each document with text that is not on it.

        :raises InfraError: the guest does not answer.
        """
        for wanted in self._context.buffers:
            disk = self._disk(wanted)
            text = wanted.text if wanted.text is not None else f"{disk or ''}{wanted.append}"
            self._buffers.open(wanted.path, text, unsaved=True)
            blob = blob_hash(text)
            disk_blob = None if disk is None else blob_hash(disk)
            self._opened.append(Buffer(path=wanted.path, text=text, blob=blob, disk_blob=disk_blob, blob_at_end=blob))

    def close(self) -> tuple[list[MediatedWrite], list[Buffer]]:
        """The ledger of mediated writes, and the opened documents as they are now."""
        for document in self._opened:
            document.unsaved_at_end = self._buffers.is_unsaved(document.path)
            document.blob_at_end = blob_hash(self._buffers.text(document.path) or "")
        return list(self._buffers.ledger), self._opened

    def _disk(self, wanted: OpenBuffer) -> str | None:
        try:
            reply = self._context.guest.read_file(_READ_S, wanted.path, self._context.roots)
        except GuestRefused as no:
            if no.code != "not_found":
                raise
            return None
        return str(reply["content"])
