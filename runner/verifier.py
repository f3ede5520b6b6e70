"""The verdict on a workspace, reached in a throwaway container that the agent never saw.

The container is made and started beside the agent's, before *go*: nothing of ours runs during the timed turn, and
the sweep does not pay for a second cold start. In it the guest lays the agent's files over a clean fixture, puts the
protected paths back, and runs the fixture's command; git runs on a pristine repository only.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import Any

from docker import DockerClient

from runner.config.fixture import Fixture, Verify
from runner.records.schema import Change, Finding, Verdict
from runner.sandbox.channel import GuestBroken, GuestChannel, GuestGone, Reply
from runner.sandbox.container import BASE_ENV, ENDED_WELL, Container, Gate, Spec

#: TAP summary of node's test runner: `# pass 3` (nodejs.org, "Test reporters").
_SUMMARY = re.compile(r"^# (tests|pass|fail) (\d+)$", re.MULTILINE)
_READY_S = 30.0
#: Seconds that a container may take to end after its guest has.
_ENDING_S = 2.0


def guest_command(channel: str) -> list[str]:
    """The command of every container of ours: the guest."""
    return ["python3", "-I", "-u", "/acpbench/guest/main.py", "--channel", channel]


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict with the patch it rests on, and what a reader of it must know."""

    verdict: Verdict
    patch: bytes
    findings: list[Finding] = field(default_factory=list)


class Verifier:
    """One throwaway container: `start`, then `judge` once, then `remove`."""

    def __init__(self, client: DockerClient, spec: Spec, gate: Gate) -> None:
        self._container = Container(client, spec, gate)
        self._channel: GuestChannel | None = None
        #: Since then code that we do not trust runs in it.
        self._testing = False

    def start(self) -> None:
        """Create it, start it and wait for its guest.

        :raises InfraError: the engine or the guest does not answer.
        """
        self._container.create()
        # Before the start: should that fail, `remove` closes the stream.
        stream = self._container.attach()
        self._channel = GuestChannel(stream, self._hear, name=f"verifier-{self._container.spec.name}")
        self._container.start()
        self._channel.call("clock", _READY_S)

    def judge(
        self, fixture: Fixture, tar: bytes, agent_tar: str, timeout_s: float, *, tests: bytes | None = None
    ) -> Judged:
        """Judge the agent's workspace (`agent_tar`: base64 of a gzipped tar, as `collect` gave it).

        A container that ends while the tests run has been ended by them: that is a fail with a finding. (With code 0
        its guest has ended because its channel did, which they cannot bring about.)

        :param tests: tar of an isolated fixture's folder of tests.
        :raises InfraError: the guest is gone or does not answer within `timeout_s`.
        """
        try:
            return self._judge(fixture, tar, agent_tar, timeout_s, tests)
        except GuestGone as problem:
            how = self._container.ending(_ENDING_S) if self._testing else None
            if self._testing and isinstance(problem, GuestBroken):
                return ended(str(problem))
            if how is None or how == ENDED_WELL:
                raise
            return ended(how)

    def _judge(self, fixture: Fixture, tar: bytes, agent_tar: str, timeout_s: float, tests: bytes | None) -> Judged:
        assert self._channel is not None, "start() comes first"
        reply = self._channel.call(
            "verify",
            timeout_s,
            fixture=fixture.id,
            tar=base64.b64encode(tar).decode("ascii"),
            tree=fixture.tree,
            commit=fixture.commit,
            agent_tar=agent_tar,
            protected=fixture.verify.protected,
            command=fixture.verify.command,
            env=dict(BASE_ENV),
            timeout_s=fixture.verify.timeout_s,
            **({} if tests is None else {"tests": base64.b64encode(tests).decode("ascii")}),
        )
        return Judged(verdict_of(fixture.verify, reply), base64.b64decode(reply["patch"]))

    def remove(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._container.remove()

    def _hear(self, event: Reply) -> None:
        if event["event"] == "testing":
            self._testing = True


def ended(how: str) -> Judged:
    """The verdict where the code under test has ended its verifier; `how` the container ended."""
    reason = f"the verifier's container ended while the tests ran ({how})"
    verdict = Verdict(passed=False, duration_ms=0.0, reason=reason)
    return Judged(verdict, b"", [Finding(id="verifier-ended", message=reason)])


def verdict_of(verify: Verify, reply: dict[str, Any]) -> Verdict:
    """Read the guest's reply; every reason for a fail is named, the first one first."""
    changes = [Change.model_validate(change) for change in reply["changes"]]
    output = str(reply["output"])
    counts: dict[str, int] = {}
    reasons = []
    touched = [change.path for change in changes if change.protected]
    if touched:
        reasons.append(f"protected paths were changed: {', '.join(touched[:5])}")
    if reply["timed_out"]:
        reasons.append(f"the verifier did not end within {verify.timeout_s:g} s")
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
        status=str(reply["status"]),
    )
