"""Preparation of the workspace, and the proofs of the sandbox."""

from __future__ import annotations

import pytest

from runner.sandbox.container import GUEST_CAPABILITIES
from tests.engine.guest.harness import Guest, tree_archive
from tests.engine.guest.steps import WORKSPACE, Start, code_of, prepare, prove

pytestmark = pytest.mark.engine


def test_all_proofs_hold_in_the_sandbox(guest: Guest) -> None:
    made = prepare(guest, home={".agent/settings.json": "{}"})
    assert all(proof["ok"] for proof in made["proofs"]), made
    assert prove(guest) == {}
    assert guest.shell(f"cd {WORKSPACE} && git status --porcelain --ignored && git log --format=%s") == "fixture fx\n"


def test_tree_and_commit_are_the_same_in_every_container(start: Start) -> None:
    made = []
    for _ in range(2):
        with start() as running:
            made.append(prepare(running))
    assert (made[0]["tree"], made[0]["commit"]) == (made[1]["tree"], made[1]["commit"])


def test_a_pin_that_differs_fails_its_proof(guest: Guest) -> None:
    made = prepare(guest, tree="0" * 40)
    assert [proof["name"] for proof in made["proofs"] if not proof["ok"]] == ["fixture-tree"]
    assert set(prove(guest)) == {"workspace"}


def test_a_network_fails_the_network_proof(start: Start) -> None:
    with start(network="host") as running:
        prepare(running)
        failed = prove(running)
        assert set(failed) == {"network"}
        assert "route" in failed["network"]


def test_capabilities_that_could_be_gained_fail_the_user_proof(start: Start) -> None:
    """Without SETPCAP the guest cannot empty the bounding set of what it starts."""
    with start(capabilities=tuple(set(GUEST_CAPABILITIES) - {"SETPCAP"})) as running:
        prepare(running)
        failed = prove(running)
        assert set(failed) == {"user"}
        assert "CapBnd" in failed["user"]


def test_new_privileges_fail_their_proof(start: Start) -> None:
    with start(security=()) as running:
        prepare(running)
        failed = prove(running)
        assert failed.pop("no-new-privileges") == "NoNewPrivs 0"
        # Without them no filter of ours can be installed, and what opens then must not go unnoticed.
        assert set(failed) == {"address-families"}


@pytest.mark.parametrize(
    ("line", "failed"),
    [
        (f"echo x > {WORKSPACE}/new", {"workspace"}),
        (f"echo x > {WORKSPACE}/x.log", {"workspace"}),
        (f"cd {WORKSPACE} && git -c user.name=a -c user.email=b commit -q --allow-empty -m x", {"workspace"}),
        (f"cd {WORKSPACE} && git remote add origin /x", {"workspace"}),
        ("echo x > /home/agent/left", {"home"}),
        ("mkdir /home/agent/.agent", {"home", "state"}),
        (f"mkdir {WORKSPACE}/.agent", {"state"}),
    ],
)
def test_what_is_dirty_fails_its_proof(prepared: Guest, line: str, failed: set[str]) -> None:
    assert prove(prepared) == {}
    prepared.shell(line)
    assert set(prove(prepared)) == failed


def test_an_unprepared_container_fails(guest: Guest) -> None:
    assert {"home", "workspace"} <= set(prove(guest))


def test_a_hostile_fixture_is_refused(guest: Guest) -> None:
    archive = tree_archive({"../evil": "x"})
    assert code_of(guest, "prepare", fixture="fx", tar=archive, tree=None, commit=None, home={}) == "bad_archive"
