"""The guest as it is started, but on the host: the entry, and the operations that need no container."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

MAIN = Path(__file__).resolve().parents[3] / "runner/guest/main.py"


class Host:
    """A guest in stdio mode, driven line by line."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-u", str(MAIN), "--channel", "stdio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
        )

    def call(self, op: str, **args: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"id": 1, "op": op, **args}).encode() + b"\n")
        self.process.stdin.flush()
        reply: dict[str, Any] = json.loads(self.process.stdout.readline())
        return reply

    def close(self) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait(10)
        self.process.stdout.close()
        return code


@pytest.fixture
def host() -> Iterator[Host]:
    made = Host()
    yield made
    made.close()


def test_the_clock_is_the_monotonic_one(host: Host) -> None:
    before = time.monotonic_ns()
    stamped = host.call("clock")["t_ns"]
    assert before < stamped < time.monotonic_ns()


def test_a_verifier_has_no_agent_s_operations(host: Host) -> None:
    for op in ("go", "forward", "fs.read", "terminal.create", "collect", "signal"):
        assert host.call(op)["error"]["code"] == "unknown_op"


def test_the_end_of_the_channel_is_its_end(host: Host) -> None:
    assert host.call("clock")["ok"]
    assert host.close() == 0


def test_stop_answers_and_ends(host: Host) -> None:
    assert host.call("stop") == {"id": 1, "ok": True}
    assert host.process.wait(10) == 0


@pytest.mark.parametrize("argv", [[], ["--channel"], ["--channel", "tcp"], ["--help"]])
def test_wrong_arguments(argv: list[str]) -> None:
    done = subprocess.run([sys.executable, "-I", str(MAIN), *argv], capture_output=True, check=False)
    assert done.returncode == 64
    assert done.stderr.startswith(b"usage:")


def test_terminating_signals_do_not_take_it(host: Host) -> None:
    assert host.call("clock")["ok"]
    for number in (15, 2, 1, 10, 12):
        host.process.send_signal(number)
    assert host.call("clock")["ok"]
