"""A small real MCP server over stdio: where does it run, and may it write?"""

from __future__ import annotations

import json
import os
from pathlib import Path

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


if __name__ == "__main__":
    server.run()
