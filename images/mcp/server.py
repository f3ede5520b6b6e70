"""A small real MCP server over stdio: where does it run, and may it write?"""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from mcp.server import MCPServer

server = MCPServer("acpbench-tools", log_level="ERROR")


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError as problem:
        return f"not seen: {problem.strerror}"


@server.tool()
def whereabouts() -> str:
    """Where this server runs: its process, its parent, its user and its directory."""
    return json.dumps(
        {
            "canary": os.environ.get("ACPBENCH_CANARY", ""),
            "pid": os.getpid(),
            "ppid": os.getppid(),
            "parent": command_line(os.getppid()),
            "uid": os.getuid(),
            "cwd": str(Path.cwd()),
        }
    )


@server.tool()
def touch(path: str, text: str) -> str:
    """Write a text file; a relative path is one of the server's own directory."""
    Path(path).write_text(text, encoding="utf-8")
    return f"wrote {len(text)} characters to {Path(path).absolute()}"


class Answers(io.RawIOBase):
    """Standard output; when the answer to `tools/list` has left, it says so to NOTIFY_SOCKET (sd_notify(3)).

    The SDK writes to what stands in the place of `sys.stdout` where that has no descriptor.
    """

    def __init__(self) -> None:
        self._listing = False
        self._address = os.environ.get("NOTIFY_SOCKET", "")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]
        self._listing = self._listing or b'"tools":[' in bytes(data)
        if self._listing and bytes(data).endswith(b"\n"):
            self._tell()
        return len(data)

    def _tell(self) -> None:
        address, self._address = self._address, ""
        if address:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.sendto(b"READY=1", address.replace("@", "\0", 1))


if __name__ == "__main__":
    sys.stdout = io.TextIOWrapper(Answers(), encoding="utf-8")
    server.run()
