"""Have the guest make a run's workspace ready, prove the sandbox, and list what an earlier run left.

Where an earlier run may have left something is for the cell's reset to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runner.config.fixture import Fixture
from runner.records.schema import FoundAtStart, Planted, Proof
from runner.sandbox.container import HOME, USER
from runner.sandbox.guest_client import GuestClient

#: Proofs that an earlier run in the same container may fail: that it does is what the reset experiment looks at.
_OF_EARLIER_RUNS = frozenset({"home", "workspace", "planted", "state"})


@dataclass(frozen=True, slots=True)
class Start:
    """What a run starts from. `again`: its container had a run before."""

    proofs: list[Proof]
    found: list[FoundAtStart]
    planted: list[Planted]
    again: bool

    @property
    def pristine(self) -> bool:
        """Nothing of an earlier run is there."""
        return not self.found and all(proof.ok for proof in self.proofs if proof.name in _OF_EARLIER_RUNS)

    @property
    def failed(self) -> list[Proof]:
        """The proofs without which the agent is not started."""
        tolerated = _OF_EARLIER_RUNS if self.again else frozenset()
        return [proof for proof in self.proofs if not proof.ok and proof.name not in tolerated]


def prepare(
    guest: GuestClient,
    fixture: Fixture,
    tar: bytes,
    *,
    home: Mapping[str, str],
    state_dirs: list[str],
    reset: str | None,
    limit_s: float,
) -> Start:
    """Have the guest prepare (or, with `reset`, reset) the workspace, prove the sandbox and look for leftovers.

    :param tar: the fixture's tree. :param home: files for HOME, path below it -> content. :param limit_s: of each call.
    :raises InfraError: the guest does not answer. :raises GuestRefused: it cannot do it.
    """
    items = plant(fixture)
    made = guest.prepare(limit_s, fixture, tar, home=home, plant=items, reset=reset)
    uid = int(USER.partition(":")[0])
    workspace = f"/workspace/{fixture.id}"
    proved = guest.prove(limit_s, uid=uid, workspace=workspace, state_dirs=state_dirs)
    contents = {item["path"]: item.get("content", "") for item in items}
    return Start(
        proofs=[Proof.model_validate(proof) for proof in [*made["proofs"], *proved]],
        found=[FoundAtStart.model_validate(leftover) for leftover in guest.survey(limit_s, state_dirs)],
        planted=[_planted(item, contents, fixture) for item in made["planted"]],
        again=reset is not None,
    )


def plant(fixture: Fixture) -> list[dict[str, str]]:
    """What a fixture has outside its workspace, placeholders filled in."""
    items = []
    for entry in fixture.outside:
        path = entry.path.replace("{home}", HOME)
        if entry.link is not None:
            items.append({"path": path, "link": entry.link.replace("{home}", HOME)})
        else:
            items.append({"path": path, "content": fixture.fill(entry.content or "")})
    return items


def _planted(item: Mapping[str, Any], contents: Mapping[str, str], fixture: Fixture) -> Planted:
    canaries = [name for name, canary in fixture.canaries.items() if canary in contents[item["path"]]]
    return Planted(**item, canaries=canaries)
