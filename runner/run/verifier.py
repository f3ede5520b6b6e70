"""The verdict on a workspace, reached in a throwaway container that the agent never saw.

The container is made and started beside the agent's, before *go*: nothing of ours runs during the timed turn, and
the sweep does not pay for a second cold start. In it the guest lays the agent's files over a clean fixture, puts the
protected paths back, and runs the fixture's command; git runs on a pristine repository only.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from docker import DockerClient

from runner.config.fixture import Fixture, Verify, VerifyLimits
from runner.errors import InternalError
from runner.records.schema import Change, Finding, Verdict
from runner.run.collect_findings import first_entries
from runner.run.failure import how_tests_ended_their_verifier
from runner.sandbox.channel import GuestChannel, GuestGone, Reply
from runner.sandbox.container import (
    BASE_ENV,
    Container,
    Gate,
    Spec,
)
from runner.sandbox.guest_client import GuestClient
from runner.sandbox.guest_spec import guest_spec
from runner.sandbox.volumes import GUEST_TARGET

#: TAP summary of node's test runner: `# pass 3` (nodejs.org, "Test reporters").
_SUMMARY = re.compile(r"^# (tests|pass|fail) (\d{1,9})$", re.MULTILINE)
_READY_S = 30.0
_MB = 10**6


def verifier_spec(limits: VerifyLimits, *, name: str, image: str, labels: Mapping[str, str], guest_volume: str) -> Spec:
    """The container in which a fixture is verified. Its limits are the fixture's, whatever the adapter may use: the
    same files must get the same verdict."""
    return guest_spec("stdio", limits, {guest_volume: GUEST_TARGET}, name=name, image=image, labels=labels)


@dataclass(frozen=True, slots=True)
class Verified:
    """A verdict with the patch it rests on, and what a reader of it must know."""

    verdict: Verdict
    patch: bytes
    findings: list[Finding] = field(default_factory=list)


class Verifier:
    """One throwaway container: `start`, then `verify` once, then `remove`."""

    def __init__(self, client: DockerClient, spec: Spec, gate: Gate) -> None:
        self._container = Container(client, spec, gate)
        self._guest: GuestClient | None = None
        #: Whether code that we do not trust has begun to run in it.
        self._testing = False

    def start(self) -> None:
        """Create it, start it and wait for its guest.

        :raises InfraError: the engine or the guest does not answer.
        """
        self._container.create()
        # Before the start: should that fail, `remove` closes the stream.
        stream = self._container.attach()
        self._guest = GuestClient(GuestChannel(stream, self._hear, name=f"verifier-{self._container.spec.name}"))
        self._container.start()
        self._guest.clock(_READY_S)

    def verify(
        self,
        fixture: Fixture,
        tar: bytes,
        agent_tar: str,
        timeout_s: float,
        *,
        differing: Sequence[str] | None = None,
        cap_mb: int | None = None,
        tests: bytes | None = None,
    ) -> Verified:
        """Reach the verdict on the agent's workspace.

        agent_tar: base64 of a gzipped tar, as `collect` gave it. differing: the fixture's paths that are not as they
        were, where the tar holds changes alone. cap_mb: what the tar may unpack to. tests: tar of an isolated fixture's
        folder of tests.

        A container that ends while the tests run has been ended by them: that is a fail with a finding.

        :raises InfraError: the guest is gone or does not answer within `timeout_s`.
        """
        if self._guest is None:
            raise InternalError("internal error: the verifier is used before it has started")
        limits = fixture.verify.limits
        try:
            reply = self._guest.verify(
                timeout_s,
                fixture,
                tar,
                agent_tar,
                env=BASE_ENV,
                disk_bytes=limits.disk_mb * _MB,
                differing=differing,
                cap_bytes=None if cap_mb is None else cap_mb * _MB,
                tests=tests,
            )
        except GuestGone as problem:
            how = how_tests_ended_their_verifier(problem, self._container, limits.memory_mb) if self._testing else None
            if how is None:
                raise
            return ended(how)
        verdict, findings = verdict_of(fixture.verify, reply), findings_of(reply, fixture)
        return Verified(verdict, base64.b64decode(reply["patch"]), findings)

    def remove(self) -> None:
        """Remove its container, whatever state it is in."""
        if self._guest is not None:
            self._guest.close()
        self._container.remove()

    def _hear(self, event: Reply) -> None:
        if event["event"] == "testing":
            self._testing = True


def ended(how: str) -> Verified:
    """The verdict where the code under test has ended its verifier; `how` the container ended."""
    reason = f"the verifier's container ended while the tests ran ({how})"
    verdict = Verdict(passed=False, duration_ms=0.0, reason=reason)
    return Verified(verdict, b"", [Finding(id="verifier-ended", message=reason)])


def verdict_of(verify: Verify, reply: dict[str, Any]) -> Verdict:
    """Read the guest's reply; every reason for a fail is named, the first one first."""
    changes = [Change.model_validate(change) for change in reply["changes"]]
    output = str(reply["output"])
    counts: dict[str, int] = {}
    reasons = []
    touched = [change.path for change in changes if change.protected]
    if touched:
        reasons.append(f"protected paths were changed: {', '.join(touched[:5])}")
    reasons += limits_reached(verify, reply)
    if verify.parser == "node-test":
        # The runner prints its own summary last; what the code under test prints comes before it.
        counts = {name: int(number) for name, number in _SUMMARY.findall(output)}
        if counts.get("tests") != verify.tests:
            reasons.append(f"{counts.get('tests', 0)} tests ran, {verify.tests} are expected")
        if counts.get("fail", 1) or counts.get("pass") != verify.tests:
            reasons.append(f"{counts.get('pass', 0)} of {verify.tests} tests pass")
    if reply["exit_code"] != 0 and not reply["timed_out"]:
        reasons.append(f"the verifier exits {reply['exit_code']}")
    return Verdict(
        passed=not reasons,
        tests=counts.get("tests"),
        passes=counts.get("pass"),
        failures=counts.get("fail"),
        exit_code=reply["exit_code"],
        duration_ms=float(reply["test_ms"]),
        reason="; ".join(reasons),
        output=output,
        changes=changes,
        changes_cut=int(reply.get("changes_cut", 0)),
        workspace=reply.get("workspace"),
        status=str(reply["status"]),
    )


def limits_reached(verify: Verify, reply: dict[str, Any]) -> list[str]:
    """Which of its limits the verifier reached, each with the key that raises it."""
    limits, reached = verify.limits, reply.get("limits", [])
    messages = {
        "memory": f"the verifier ran out of memory (verify.limits.memory_mb: {limits.memory_mb})",
        "pids": f"the verifier reached its limit of processes (verify.limits.pids: {limits.pids})",
        "disk": f"the verifier filled its disk (verify.limits.disk_mb: {limits.disk_mb})",
    }
    limits_in_words = [text for name, text in messages.items() if name in reached]
    if reply["timed_out"]:
        limits_in_words.append(f"the verifier did not end within {verify.timeout_s:g} s (verify.timeout_s)")
    return limits_in_words


def findings_of(reply: dict[str, Any], fixture: Fixture) -> list[Finding]:
    """What a reader of the verdict must know: a limit that decided it, and what is not in it or in its patch."""
    findings = [
        Finding(id="verifier-limit", message=f"{text}; this says nothing of the agent's repair")
        for text in limits_reached(fixture.verify, reply)
    ]
    if reply.get("patch_cut"):
        findings.append(Finding(id="patch-cut", message="workspace.patch holds only the first part of all changes"))
    if skipped := reply.get("skipped", []):
        named = first_entries(skipped, len(skipped))
        findings.append(Finding(id="verify-skipped", message=f"not taken over by the verifier: {named}"))
    if cut := reply.get("changes_cut", 0):
        findings.append(Finding(id="changes-cut", message=f"{cut} more paths changed than the record lists"))
    return findings
