"""The gateway's container, seen from the host: start it, register runs, collect their journals, notice its death."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from docker import DockerClient

from runner.errors import InfraError
from runner.gateway.control import START_S, Control, Miss
from runner.gateway.journal import Entry, parse_journal
from runner.gateway.outward import PRIVATE_TARGET, WayOut
from runner.sandbox.container import Container, Spec

MODEL_TARGET = "/model"
JOURNAL_TARGET = "/journal"
#: What stands in a record for the run's token.
MASK = "<run>"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Collected:
    """A run's journal: `lines` are those of model.jsonl (no newline, the token masked), `entries` the same, parsed."""

    entries: list[Entry]
    lines: list[bytes]


class Gateway:
    """One per sweep. `on_death(why)` is called once from another thread, within a second of the container's end."""

    def __init__(
        self,
        client: DockerClient,
        *,
        image: str,
        name: str,
        model_volume: str,
        journal_volume: str,
        labels: Mapping[str, str],
        on_death: Callable[[str], None] | None = None,
        on_miss: Callable[[Miss], None] | None = None,
        on_budget: Callable[[str], None] | None = None,
        on_lost: Callable[[str, str], None] | None = None,
        way_out: WayOut | None = None,
        command: Sequence[str] = (),
    ) -> None:
        """
        :param image: reference or id of the gateway's image.
        :param on_budget: called with the reason when a live model has spent what it may.
        :param on_lost: called with a run's token and the reason when its live model did not answer.
        :param way_out: for live models; None: it has no network at all.
        :param command: overrides the image's own command.
        """
        self._client = client
        self._on_death = on_death
        self._on_miss = on_miss
        self._on_budget = on_budget
        self._on_lost = on_lost
        self._way_out = way_out
        self._control: Control | None = None
        mounts = {model_volume: MODEL_TARGET, journal_volume: JOURNAL_TARGET}
        if way_out is not None:
            mounts[way_out.volume] = PRIVATE_TARGET
        self._container = Container(
            client,
            Spec(
                name=name,
                image=image,
                command=list(command),
                labels=labels,
                mounts=mounts,
                writable=frozenset(mounts),
                network=way_out.network if way_out is not None else "none",
                folders=way_out.outward.folders if way_out is not None else {},
            ),
        )
        #: What runs: `node`, `aimock`, `gateway` (a digest of its sources). Filled by `start`.
        self.versions: dict[str, str] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def container_id(self) -> str:
        return self._container.id

    @property
    def alive(self) -> bool:
        return self._control is not None and self._control.alive

    def start(self, timeout_s: float = START_S) -> None:
        """Create, attach, start, and wait until it listens.

        :raises InfraError: the engine refuses, or it does not come up in time; nothing is left then.
        """
        try:
            self._container.create()
            if self._way_out is not None:
                self._container.put(PRIVATE_TARGET, self._way_out.tar())
            # Before the start: a death during it must be seen too.
            stream = self._container.attach()
            self._control = Control(
                stream,
                on_death=self._on_death,
                on_miss=self._on_miss,
                on_budget=self._on_budget,
                on_lost=self._on_lost,
            )
            self._container.start()
            self.versions = self._control.versions(timeout_s)
        except BaseException:
            self.stop()
            raise

    def register(self, token: str, program: Mapping[str, Any]) -> None:
        """Serve `program` to requests under `/r/<token>`.

        :param token: unguessable, 8 to 128 of A-Z a-z 0-9 _ -.
        :raises InfraError: it is dead, silent, or refuses (token in use, dialect not served).
        """
        self._talk().ask("register", run=token, program=dict(program))

    def collect(self, token: str) -> Collected:
        """The run's journal, once: the gateway forgets the run. Call when its agent is dead.

        :raises InfraError: it is dead or silent, or does not know the run.
        """
        lines = [_masked(line, token) for line in self._talk().collect(token)]
        return Collected(parse_journal(lines), lines)

    def unattributed(self) -> Collected:
        """Requests that named no known run since the last call: all refused, whoever sent them."""
        lines = self._talk().collect(None)
        return Collected(parse_journal(lines), lines)

    def ping(self) -> int:
        """Its CLOCK_MONOTONIC, ns."""
        return int(self._talk().ask("ping")["t_ns"])

    def stop(self) -> None:
        """End it and remove the container; twice is harmless. A gateway that does not end by itself is killed.

        :raises InfraError: the engine does not remove the container.
        """
        control, self._control = self._control, None
        started = time.monotonic()
        if control is not None and not control.close():
            _log.warning("model gateway: killed after %.1f s", time.monotonic() - started)
        self._container.remove()

    def _talk(self) -> Control:
        if self._control is None:
            raise InfraError("model gateway: not started")
        return self._control


def _masked(line: bytes, token: str) -> bytes:
    # The token may stand in bodies too: an agent's `env` shows the base URL to the model.
    return line.replace(token.encode(), MASK.encode())
