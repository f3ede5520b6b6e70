"""Verdicts without agents: a workspace is judged in a verifier of its own, as at the end of a run."""

from __future__ import annotations

import contextlib
import itertools
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass

from docker import DockerClient

from runner.config.catalog import Catalog
from runner.config.fixture import Fixture
from runner.errors import InfraError, LastingError, RunError
from runner.records.outcome import decide
from runner.records.schema import Verdict
from runner.run.verifier import Verifier, verifier_spec
from runner.sandbox.channel import GuestRefused
from runner.sandbox.container import Spec
from runner.sandbox.fixture import fixture_tar
from runner.sandbox.images import Images
from runner.sandbox.labels import labels
from runner.sandbox.volumes import Volumes
from tests.engine.lab import REPOSITORY

#: Beyond the test command's time, as `deadlines.verify` has it.
MARGIN_S = 60.0


@dataclass(frozen=True)
class Judgement:
    """How a run with this workspace would have ended, if its agent did nothing else."""

    outcome: str
    reason: str
    verdict: Verdict | None
    seconds: float


class Verifiers:
    """Judges workspaces by one fixture. `tests`: of an isolated one."""

    def __init__(self, client: DockerClient, fixture: Fixture, tests: bytes | None) -> None:
        self._client = client
        self._fixture = fixture
        self._tar = fixture_tar(Catalog(REPOSITORY).fixture_folder(fixture.id))
        self._tests = tests
        self._image = Images(client).ensure("node").id
        self._sweep = f"verdicts-{secrets.token_hex(4)}"
        self._volumes = Volumes.create(client, self._sweep, self._image)
        self._numbers = itertools.count()

    def judge(self, agent_tar: str) -> Judgement:
        """`agent_tar`: as `collect` gives it. What goes wrong becomes an outcome, as in a run."""
        start = time.monotonic()
        errors: list[RunError] = []
        verdict: Verdict | None = None
        verifier = Verifier(self._client, self._spec(), contextlib.nullcontext())
        try:
            verifier.start()
            limit_s = self._fixture.verify.timeout_s + MARGIN_S
            verdict = verifier.verify(self._fixture, self._tar, agent_tar, limit_s, tests=self._tests).verdict
        except RunError as problem:
            errors.append(problem)
        except GuestRefused as problem:
            errors.append(LastingError(f"the guest refused: {problem}"))
        except Exception as problem:  # noqa: BLE001 - as a run does
            errors.append(InfraError(f"internal error: {type(problem).__name__}: {problem}"))
        finally:
            verifier.remove()
        outcome = decide(errors, [], verdict)
        return Judgement(outcome.word, outcome.reason, verdict, time.monotonic() - start)

    def close(self) -> None:
        self._volumes.remove(self._client)

    def _spec(self) -> Spec:
        return verifier_spec(
            self._fixture.verify.limits,
            name=f"acpbench-{self._sweep}-{next(self._numbers)}",
            image=self._image,
            labels=labels(self._sweep),
            guest_volume=self._volumes.guest,
        )


@contextlib.contextmanager
def verifiers(client: DockerClient, fixture: Fixture, tests: bytes | None = None) -> Iterator[Verifiers]:
    place = Verifiers(client, fixture, tests)
    try:
        yield place
    finally:
        place.close()


def semver(**verify: object) -> tuple[Fixture, bytes]:
    """The fixture with some keys of its `verify` changed, and its isolated tests."""
    catalog = Catalog(REPOSITORY)
    fixture = catalog.fixture("semver")
    changed = fixture.model_copy(update={"verify": fixture.verify.model_copy(update=verify)})
    return changed, fixture_tar(catalog.tests_folder("semver"))
