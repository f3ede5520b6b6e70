"""The judgement, on answers as registries give them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest

from runner.config.adapter import Adapter
from runner.packages.check import MARKED, CheckedPackage, PinnedPackage, check, image_pins, merged, pins

NOTICES = {"ok": {"name": "request", "version": "2.88.2", "deprecated": "request has been deprecated"}}
#: As a mirror answers that keeps no notices.
NO_NOTICES = {"ok": {"name": "request", "version": "2.88.2"}}
TIMES = {"1.0.0": "2026-01-01T00:00:00Z", "1.1.0": "2026-03-01T12:00:00Z", "2.0.0-beta": "2026-06-01T00:00:00Z"}
ONE = {"name": "one", "version": "1.0.0", "time": TIMES, "versions": list(TIMES), "dist-tags": {"latest": "1.1.0"}}
PAGE = {
    "meta": {"api-version": "1.4"},
    "files": [
        {"filename": "two_x-1.0-py3-none-any.whl", "upload-time": "2026-01-01T00:00:00.5Z", "yanked": "broken"},
        {"filename": "two_x-1.0.tar.gz", "upload-time": "2026-01-01T00:00:00.5Z", "yanked": True},
        {"filename": "two_x-1.1.tar.gz", "upload-time": "2026-01-11T00:00:00.5Z", "yanked": False},
        {"filename": "two_x-1.2-py3-none-any.whl", "upload-time": "2026-02-01T00:00:00.5Z", "yanked": "broken"},
    ],
}


class Canned:
    """Registries that answer from a table; what is not in it cannot be reached."""

    def __init__(self, npm: Mapping[str, Any] | None = None, pypi: Mapping[str, Any] | None = None) -> None:
        self.table = {"npm": {MARKED: NOTICES, **(npm or {})}, "pypi": dict(pypi or {})}

    def ask(self, npm: Iterable[str], pypi: Iterable[str]) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        asked = {"npm": list(npm), "pypi": list(pypi)}
        down = {"error": "npm: ENOTFOUND"}
        return {kind: {name: self.table[kind].get(name, down) for name in names} for kind, names in asked.items()}


def adapter(name: str, *packages: str, registry: Literal["npm", "pypi"] = "npm", **more: Any) -> Adapter:
    pinned = [dict(zip(("name", "version"), one.rsplit("@", 1), strict=True)) for one in packages]
    return Adapter.model_validate(
        {
            "id": name,
            "title": name,
            "image": "image",
            "dialect": "anthropic",
            "packages": [{"registry": registry, **one} for one in pinned],
            "programs": [{"name": "p", "command": ["p"], "expect": "1"}],
            "tools": {},
            **more,
        }
    )


def one(
    answer: Mapping[str, Any], *, marked: Mapping[str, Any] = NOTICES, accepted: str | None = None
) -> CheckedPackage:
    found = check(
        [PinnedPackage("npm", "one", "1.0.0", ("a@1",), accepted)], Canned({MARKED: marked, "one@1.0.0": answer})
    )
    return found[0]


def test_how_far_behind() -> None:
    found = one({"ok": ONE})
    assert (found.newest, found.behind, found.behind_days) == ("1.1.0", 1, 59)
    assert (found.deprecated, found.yanked, found.problem, found.ok) == ("", False, None, True)
    said = found.as_json()
    assert (said["released"], said["newest_released"]) == (TIMES["1.0.0"], TIMES["1.1.0"])


@pytest.mark.parametrize(
    ("notice", "renamed"),
    [
        ("This package has been renamed to @new-scope/one. Please migrate.", "@new-scope/one"),
        ("Moved to `@new/one-acp`", "@new/one-acp"),
        ("Please use two-cli instead", "two-cli"),
        ("no longer supported", None),
        ("one is replaced by nothing", None),
    ],
)
def test_a_notice_and_the_new_name_in_it(notice: str, renamed: str | None) -> None:
    found = one({"ok": {**ONE, "deprecated": notice}})
    assert (found.deprecated, found.renamed, found.ok) == (notice, renamed, False)
    assert one({"ok": {**ONE, "deprecated": notice}}, accepted="for its callbacks").ok


def test_a_registry_without_notices_is_not_taken_for_a_clean_bill() -> None:
    found = one({"ok": ONE}, marked=NO_NOTICES)
    assert found.deprecated is None
    assert found.ok
    # A notice that is there counts all the same.
    assert one({"ok": {**ONE, "deprecated": "gone"}}, marked=NO_NOTICES).deprecated == "gone"


def test_what_cannot_be_asked_is_said_and_not_guessed() -> None:
    found = one({"error": "npm: ENOTFOUND"})
    assert (found.problem, found.ok) == ("npm: ENOTFOUND", False)
    assert (found.newest, found.behind, found.behind_days, found.deprecated, found.yanked) == (None,) * 5


@pytest.mark.parametrize(
    ("time", "copies"),
    [({"2.88.2": "2020-02-11T16:35:30Z"}, False), ({"2.88.2": "2024-12-01T00:00:00Z"}, True), ({}, None)],
)
def test_a_mirror_that_dates_its_copies_is_known_by_a_package_of_known_age(
    time: dict[str, str], copies: bool | None
) -> None:
    assert one({"ok": ONE}, marked={"ok": {"deprecated": "x", "time": time}}).copies_dated is copies


def test_a_version_that_npm_no_longer_has_is_withdrawn() -> None:
    assert one({"absent": True}).yanked is True


def test_times_that_contradict_the_order_give_no_days() -> None:
    assert one({"ok": {**ONE, "time": {"1.0.0": TIMES["1.1.0"], "1.1.0": TIMES["1.0.0"]}}}).behind_days is None
    assert one({"ok": {**ONE, "time": {}}}).behind_days is None


def test_pypi_yanked_newest_and_status() -> None:
    pinned = [PinnedPackage("pypi", "two-x", "1.0")]
    (found,) = check(pinned, Canned(pypi={"two-x": {"ok": PAGE}}))
    # 1.2 is yanked: 1.1 is the newest that is left.
    assert (found.newest, found.behind, found.behind_days) == ("1.1", 1, 10)
    assert (found.yanked, found.deprecated) == (True, "")
    archived = {**PAGE, "project-status": {"status": "archived", "reason": "moved to three-x"}}
    (found,) = check(pinned, Canned(pypi={"two-x": {"ok": archived}}))
    assert (found.deprecated, found.renamed, found.ok) == ("archived: moved to three-x", "three-x", False)
    (found,) = check(pinned, Canned(pypi={"two-x": {"ok": {**PAGE, "meta": {"api-version": "1.1"}}}}))
    assert found.deprecated is None


def test_each_package_once_with_everybody_who_pins_it() -> None:
    rows = pins(
        [adapter("b@2", "two@2", "node@1"), adapter("a@1", "one@1", "node@1", accept_deprecated="old on purpose")]
    )
    assert [(row.name, row.by, row.accepted) for row in rows] == [
        ("node", ("b@2", "a@1"), None),
        ("one", ("a@1",), "old on purpose"),
        ("two", ("b@2",), None),
    ]
    image = PinnedPackage("npm", "node", "1", ("image node",))
    assert merged([*rows, image])[0].by == ("b@2", "a@1", "image node")


def test_an_images_own_pins_are_the_direct_ones(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"dependencies": {"one": "1.0.0"}}')
    lock = {
        "packages": {f"node_modules/{name}": {"version": "1.0.0", "integrity": "sha512-x"} for name in ("one", "deep")}
    }
    (tmp_path / "package-lock.json").write_text(json.dumps(lock))
    (tmp_path / "requirements.txt").write_text(f"two==1 \\\n    --hash=sha256:{'0' * 64}\n")
    found = [(row.registry, row.name, row.by) for row in image_pins("gate", tmp_path)]
    assert found == [("npm", "one", ("image gate",)), ("pypi", "two", ("image gate",))]


@pytest.mark.parametrize("said", [None, [], [{"version": "1.0.0"}], {"versions": 7, "time": [], "dist-tags": "x"}])
def test_odd_answers_break_nothing(said: Any) -> None:
    assert one({"ok": said}).behind is None
