"""The gateway's container, seen from the host: start it, register runs, collect their journals, notice its death."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from docker import DockerClient

from runner.errors import InfraError
from runner.gateway.control import START_S, Control, Miss
from runner.gateway.upstream_access import PRIVATE_TARGET, UpstreamAccess
from runner.sandbox.container import BASE_ENV, Container, Spec

MODEL_TARGET = "/model"
JOURNAL_TARGET = "/journal"
#: What stands in a record for the run's token.
MASK = "<run>"
#: The group that may list the folder of the runs' sockets (images/gateway/Dockerfile): no agent is in it. Its user is
#: the agents' own, as is the group beside it: a live model's socket on the host may be readable by that one alone.
_USER = "1000:64000"
_GROUPS = ("1000",)
#: Of the gateway's heap, MB: what it takes by itself with request bodies of 10 MB, and for each further MB of them.
_HEAP_MB = 128
_HEAP_PER_MB = 8
_SMALL_BODY_MB = 10
#: Beside the heap, in MB: the program, buffers, and files that the kernel keeps in memory as long as there is room.
_BESIDE_MB = 384

_log = logging.getLogger(__name__)


def socket_name(token: str) -> str:
    """A run's socket in the model volume: it says nothing of the token, and nobody can guess it."""
    return f"{hashlib.sha256(token.encode()).hexdigest()[:32]}.sock"


@dataclass(frozen=True, slots=True)
class CollectedJournal:
    """What a run's journal holds. `entries` None: a gateway that died wrote some of them."""

    size: int
    entries: int | None
    #: Bodies that its cap left out, and their bytes.
    cut_bodies: int
    cut_bytes: int


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
        upstream_access: UpstreamAccess | None = None,
        command: Sequence[str] = (),
        request_mb: int = _SMALL_BODY_MB,
    ) -> None:
        """
        :param image: reference or id of the gateway's image.
        :param on_budget: called with the reason when a live model has spent what it may.
        :param on_lost: called with a run's token and the reason when its live model did not answer.
        :param upstream_access: for live models; None: it has no network at all.
        :param command: overrides the image's own command.
        :param request_mb: the largest request body that any run may send.
        """
        self._client = client
        self._on_death = on_death
        self._on_miss = on_miss
        self._on_budget = on_budget
        self._on_lost = on_lost
        self._upstream_access = upstream_access
        self._control: Control | None = None
        heap_mb = _HEAP_MB + _HEAP_PER_MB * max(0, request_mb - _SMALL_BODY_MB)
        mounts = {model_volume: MODEL_TARGET, journal_volume: JOURNAL_TARGET}
        if upstream_access is not None:
            mounts[upstream_access.volume] = PRIVATE_TARGET
        self._container = Container(
            client,
            Spec(
                name=name,
                image=image,
                command=list(command),
                labels=labels,
                mounts=mounts,
                writable=frozenset(mounts),
                network=upstream_access.network if upstream_access is not None else "none",
                folders=upstream_access.live_upstreams.folders if upstream_access is not None else {},
                user=_USER,
                groups=_GROUPS,
                env={**BASE_ENV, "NODE_OPTIONS": f"--max-old-space-size={heap_mb}"},
                memory_bytes=(2 * heap_mb + _BESIDE_MB) * 10**6,
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
            if self._upstream_access is not None:
                self._container.put(PRIVATE_TARGET, self._upstream_access.tar())
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

    def register(
        self,
        token: str,
        program: Mapping[str, Any],
        *,
        limits: Mapping[str, int] | None = None,
        canaries: Mapping[str, str] | None = None,
    ) -> None:
        """Serve `program` to requests under `/r/<token>` that come over the run's own socket (`socket_name`).

        :param token: unguessable, 8 to 128 of A-Z a-z 0-9 _ -.
        :param limits: bounds that are not the gateway's own (images/gateway/limits.mjs).
        :param canaries: name -> text; looked for in requests whose bodies are not kept.
        :raises InfraError: it is dead, silent, or refuses (token in use, dialect not served).
        """
        known = dict(canaries or {})
        self._talk().ask("register", run=token, program=dict(program), limits=dict(limits or {}), canaries=known)

    def collect(self, token: str, keep: Callable[[Iterable[bytes]], object]) -> CollectedJournal:
        """The run's journal, once: its socket goes, and the gateway forgets the run. Call when its agent is dead.

        :param keep: called with the bytes of model.jsonl (the token masked), in pieces; takes all of them.
        :raises InfraError: it is dead or silent, or does not know the run; or what `keep` raises.
        """
        control = self._talk()
        state = control.ask("collect", run=token)
        keep(masked(control.journal(token, state["size"]), token.encode()))
        control.ask("forget", run=token)
        cut = state["cut"]
        return CollectedJournal(state["size"], state["entries"], cut["bodies"], cut["bytes"])

    def ping(self) -> int:
        """Its CLOCK_MONOTONIC, ns."""
        return int(self._talk().ask("ping")["t_ns"])

    def peak_mb(self) -> float:
        """The most memory that its process ever had resident."""
        return float(self._talk().ask("ping")["peak_mb"])

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


def masked(pieces: Iterable[bytes], token: bytes) -> Iterator[bytes]:
    """The pieces without the token, which may also stand in bodies (an agent's `env` shows the base URL to the model),
    and across the end of a piece."""
    rest = b""
    for piece in pieces:
        data = (rest + piece).replace(token, MASK.encode())
        # What may be the token's beginning waits for the next piece.
        keep = next((n for n in range(len(token) - 1, 0, -1) if data.endswith(token[:n])), 0)
        yield data[: len(data) - keep]
        rest = data[len(data) - keep :]
    yield rest
