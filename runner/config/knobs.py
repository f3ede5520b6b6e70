"""Deadlines and other knobs that are part of a cell: two arms with different knobs are `unlike`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from runner.config.base import MAX_MB, WEEK_S, Config


class Deadlines(Config):
    """Seconds per phase; each has its own outcome `timeout:<name>`."""

    create: float = Field(default=30.0, gt=0, le=WEEK_S)
    start: float = Field(default=30.0, gt=0, le=WEEK_S)
    prepare: float = Field(default=30.0, gt=0, le=WEEK_S)
    initialize: float = Field(default=60.0, gt=0, le=WEEK_S)
    #: Only where the adapter says `session.authenticate`.
    authenticate: float = Field(default=60.0, gt=0, le=WEEK_S)
    session_new: float = Field(default=60.0, gt=0, le=WEEK_S)
    configure: float = Field(default=30.0, gt=0, le=WEEK_S)
    #: The session's set-up to the moment at which its MCP servers are ready, where a surface waits for them; then the
    #: prompt is sent all the same.
    mcp_connected: float = Field(default=30.0, gt=0, le=WEEK_S)
    #: session/prompt sent to the first session/update of the turn.
    first_update: float = Field(default=60.0, gt=0, le=WEEK_S)
    #: No frame from the agent while it owes us one; paused while we owe an answer.
    silence: float = Field(default=120.0, gt=0, le=WEEK_S)
    turn: float = Field(default=600.0, gt=0, le=WEEK_S)
    #: From session/cancel to the prompt's response.
    cancel_grace: float = Field(default=10.0, gt=0, le=WEEK_S)
    #: How long we go on reading after the prompt's response.
    quiet: float = Field(default=0.25, ge=0, le=WEEK_S)
    #: stdin closed to the agent's exit.
    exit: float = Field(default=3.0, gt=0, le=WEEK_S)
    #: SIGTERM to exit.
    terminate: float = Field(default=2.0, gt=0, le=WEEK_S)
    #: SIGKILL to exit.
    kill: float = Field(default=5.0, gt=0, le=WEEK_S)
    #: One request after the turn, its answer awaited.
    probe: float = Field(default=30.0, gt=0, le=WEEK_S)
    collect: float = Field(default=60.0, gt=0, le=WEEK_S)
    #: Beside the fixture's own limit for its tests.
    verify: float = Field(default=120.0, gt=0, le=WEEK_S)
    remove: float = Field(default=30.0, gt=0, le=WEEK_S)


class Knobs(Config):
    """What else shapes a run and is not its subject."""

    deadlines: Deadlines = Deadlines()
    #: A cassette's answers: as fast as they go, or at the pace at which they were recorded.
    replay_timing: Literal["fast", "recorded"] = "fast"
    #: Interval of memory and cpu samples in the guest, milliseconds.
    sample_ms: int = Field(default=50, ge=5, le=60_000)
    #: Bytes of frames kept on disk per run; what is cut is counted.
    frames_cap_mb: int = Field(default=256, gt=0, le=MAX_MB)
    #: Bytes of stderr kept on disk per run.
    stderr_cap_mb: int = Field(default=16, gt=0, le=MAX_MB)
    #: Bytes of the model's journal kept on disk per run; beyond it an entry stays without its bodies.
    model_cap_mb: int = Field(default=256, gt=0, le=MAX_MB)
    #: Largest body of a request to the model; a larger one is refused. The gateway takes 10 MB of memory for each.
    model_request_mb: int = Field(default=10, gt=0, le=256)
    #: Bytes of the workspace that are collected.
    collect_cap_mb: int = Field(default=64, gt=0, le=MAX_MB)


def overlay(base: Knobs, over: Knobs | None) -> Knobs:
    """`base` with what is written out in `over`, deadline by deadline."""
    if over is None:
        return base
    given = over.model_dump(exclude_unset=True)
    deadlines = base.deadlines.model_copy(update=given.pop("deadlines", {}))
    return base.model_copy(update={**given, "deadlines": deadlines})
