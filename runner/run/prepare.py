"""The guest makes a run's workspace ready and proves the sandbox; what an earlier run left is told, and where it may be
there is the reset's to say."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runner.config.fixture import Fixture
from runner.records.schema import Found, Planted, Proof
from runner.sandbox.channel import GuestChannel
from runner.sandbox.container import HOME, USER

#: Proofs that an earlier run in the same container may fail: that it does is what the reset experiment looks at.
_OF_EARLIER_RUNS = frozenset({"home", "workspace", "planted", "state"})


@dataclass(frozen=True, slots=True)
class Start:
    """What a run starts from. `again`: its container had a run before."""

    proofs: list[Proof]
    found: list[Found]
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
    guest: GuestChannel,
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
    made = guest.call(
        "prepare" if reset is None else "reset",
        limit_s,
        **({} if reset is None else {"mode": reset}),
        fixture=fixture.id,
        tar=base64.b64encode(tar).decode("ascii"),
        tree=fixture.tree,
        commit=fixture.commit,
        home=dict(home),
        plant=items,
    )
    uid = int(USER.partition(":")[0])
    workspace = f"/workspace/{fixture.id}"
    proved = guest.call("prove", limit_s, uid=uid, workspace=workspace, state_dirs=state_dirs)
    surveyed = guest.call("survey", limit_s, state_dirs=state_dirs)
    contents = {item["path"]: item.get("content", "") for item in items}
    return Start(
        proofs=[Proof.model_validate(proof) for proof in [*made["proofs"], *proved["proofs"]]],
        found=[Found.model_validate(found) for found in surveyed["found"]],
        planted=[_planted(told, contents, fixture) for told in made["planted"]],
        again=reset is not None,
    )


def plant(fixture: Fixture) -> list[dict[str, str]]:
    """What a fixture has outside its workspace, placeholders filled in."""
    items = []
    for one in fixture.outside:
        path = one.path.replace("{home}", HOME)
        if one.link is not None:
            items.append({"path": path, "link": one.link.replace("{home}", HOME)})
        else:
            items.append({"path": path, "content": fixture.fill(one.content or "")})
    return items


def _planted(told: Mapping[str, Any], contents: Mapping[str, str], fixture: Fixture) -> Planted:
    held = [name for name, canary in fixture.canaries.items() if canary in contents[told["path"]]]
    return Planted(**told, canaries=held)
