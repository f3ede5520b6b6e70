"""What a sweep keeps of the registries' answers, and what it does without any."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runner.config.catalog import Catalog
from runner.errors import BuildError
from runner.packages import answers as module
from runner.packages.answers import answers, problem_of
from tests.unit.packages.test_check import ONE, Canned

IMAGES: Any = SimpleNamespace(recipes={})
NO_ENGINE: Any = None


def said(root: Path, monkeypatch: pytest.MonkeyPatch, registries: Any) -> dict[str, Any]:
    def clients(*_: Any, **options: Any) -> Any:
        assert options["limit_s"] > 0
        if isinstance(registries, Exception):
            raise registries
        return registries

    monkeypatch.setattr(module, "Clients", clients)
    return answers(NO_ENGINE, IMAGES, Catalog(root))


def test_every_pin_of_every_adapter_is_asked_about(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = said(root, monkeypatch, Canned({"agent@1.0.0": {"ok": {**ONE, "name": "agent"}}}))
    (package,) = found["packages"]
    assert (package["name"], package["by"], package["newest"]) == ("agent", ["agent@1.0.0", "other@2"], "1.1.0")
    assert problem_of(found) is None


def test_a_registry_out_of_reach_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = said(root, monkeypatch, Canned())
    assert problem_of(found) == "npm: ENOTFOUND" == found["packages"][0]["problem"]


def test_no_address_of_a_registry_is_kept(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Down(Canned):
        def ask(self, npm: Iterable[str], pypi: Iterable[str]) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
            down = {"error": "npm: request to https://user:key@npm.example/one failed"}
            return {"npm": dict.fromkeys(npm, down), "pypi": dict.fromkeys(pypi, down)}

    assert problem_of(said(root, monkeypatch, Down())) == "npm: request to <registry> failed"
    unbuilt = said(root, monkeypatch, BuildError("no way to http://npm.example:4873/"))
    assert problem_of(unbuilt) == "no way to <registry>"


def test_clients_that_fail_are_no_failure_of_the_sweeps(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = said(root, monkeypatch, BuildError("image npm: cannot be built"))
    assert found == {"packages": [], "problem": "image npm: cannot be built"}
    assert problem_of(found) == "image npm: cannot be built"
