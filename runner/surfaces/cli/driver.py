"""The CLI surface: one prompt, on the command line, in a file or on standard input; what standard output tells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict

from runner.acp.findings import OVERSIZE
from runner.errors import AgentError, AgentGaveUp
from runner.records.findings import Findings
from runner.records.schema import Finding, Turn
from runner.surfaces.cli.parsers import CliResult
from runner.surfaces.driver import Driver, DriverContext, exit_words
from runner.wire.frames import OVERSIZE as OVERSIZE_FLAG
from runner.wire.frames import Frame


class CliDriver(Driver):
    """From spawn to exit. What the lines say is read afterwards, when all of them are there (`turn_of`)."""

    def __init__(self, context: DriverContext) -> None:
        super().__init__(context)
        self._spoke = False

    def play(self) -> None:
        limits = self.context.deadlines
        if self.context.launch.prompt == "stdin":
            self.context.pipe.send(self.context.prompt.encode() + b"\n")
        self.context.pipe.close_stdin()
        with self.context.phases.phase("prompt"):
            self.wait("first_update", limits.first_update, lambda: self._spoke or self.result.exit is not None)
            self.wait("turn", limits.turn, lambda: self.result.exit is not None, silence=True)
        event = self.result.exit
        if event is None:
            return
        if event.get("oom") or event.get("disk_exceeded") or event.get("signal"):
            raise AgentError(f"ended with {exit_words(event)}")
        if event.get("code") != 0:
            raise AgentGaveUp(f"ended with {exit_words(event)}")

    def on_frame(self, frame: Frame) -> None:
        self._spoke = True

    def conclude(self) -> None:
        """Nothing to add: what the lines say is read when all of them are there."""


def output_lines(frames: Iterable[Frame], findings: Findings) -> Iterator[tuple[int, bytes]]:
    """(arrival, bytes) of the lines on standard output, one at a time; one too long to be kept is a finding."""
    for frame in frames:
        if frame.channel != "stdout":
            continue
        if OVERSIZE_FLAG in frame.flags:
            findings.append(Finding(id=OVERSIZE, message=f"a line of {frame.length} bytes", seq=frame.seq))
        yield frame.t_ns, frame.raw


def turn_of(result: CliResult, spawn_ns: int) -> Turn:
    """The one turn of a CLI run: from spawn to the result line; `turn_ms` is the CLI's own figure or None."""
    return Turn(
        sent_ns=spawn_ns,
        result_ns=result.result_ns,
        stop_reason=result.stop,
        turn_ms=result.duration_ms,
        usage=asdict(result.usage) if result.usage else None,
    )
