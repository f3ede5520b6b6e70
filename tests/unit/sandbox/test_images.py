"""Which images are looked up, built and pruned; the engine is a stand-in."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker
import pytest
from docker.errors import ImageNotFound

from runner.errors import BuildError, UsageError
from runner.sandbox import extract
from runner.sandbox import images as module
from runner.sandbox.build import Progress
from runner.sandbox.images import Images
from runner.sandbox.recipe import Recipe


class Engine:
    """Holds images by reference; `built` says which ones were asked for, in order."""

    def __init__(self) -> None:
        self.present: dict[str, dict[str, Any]] = {}
        self.built: list[str] = []
        self.images = SimpleNamespace(get=self._get)
        self.api = SimpleNamespace(images=self._images, remove_image=self._remove)

    def add(self, reference: str, **attrs: Any) -> None:
        number = len(self.present)
        self.present[reference] = {"Id": f"sha256:{number:064x}", "RootFS": {"Layers": []}, "Size": 0, **attrs}

    def _get(self, reference: str) -> SimpleNamespace:
        if reference not in self.present:
            raise ImageNotFound(reference)
        return SimpleNamespace(attrs=self.present[reference])

    def _images(self, filters: dict[str, str]) -> list[dict[str, Any]]:
        assert filters == {"label": "acpbench"}
        return [{"RepoTags": [reference]} for reference in self.present]

    def _remove(self, reference: str) -> None:
        del self.present[reference]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    fake = Engine()

    def build(_client: object, recipe: Recipe, _recipes: object, _host: object, progress: Progress) -> None:
        progress(f"{recipe.name}: 1/1 FROM x")
        fake.built.append(recipe.name)
        fake.add(recipe.reference)

    monkeypatch.setattr(module, "build", build)
    return fake


@pytest.fixture
def images(engine: Engine, tmp_path: Path) -> Images:
    """base <- tool; base <- node <- agent (built with tool)."""
    texts = {
        "base": "FROM scratch\n",
        "tool": "FROM acpbench/base\n",
        "node": "FROM acpbench/base\n",
        "agent": "FROM acpbench/tool AS build\nFROM acpbench/node\n",
    }
    for name, text in texts.items():
        folder = tmp_path / "images" / name
        folder.mkdir(parents=True)
        (folder / "image.yaml").write_text(f"title: {name}\n")
        (folder / "Dockerfile").write_text(text)
    lock = {"packages": {"": {}, "node_modules/x": {"version": "1.0.0", "integrity": "sha512-x"}}}
    (tmp_path / "images" / "agent" / "package-lock.json").write_text(json.dumps(lock))
    client: docker.DockerClient = engine  # type: ignore[assignment]
    return Images(client, tmp_path)


def test_what_is_missing_is_built_parents_first(images: Images, engine: Engine) -> None:
    said: list[str] = []
    (ref,) = images.build(["agent"], said.append)
    assert engine.built == ["base", "tool", "node", "agent"]
    assert said[0] == "base: 1/1 FROM x"
    assert said[-1].startswith(f"agent: built {ref.reference} in ")
    assert [pin.name for pin in ref.packages] == ["x"]


def test_a_cached_build_builds_nothing(images: Images, engine: Engine) -> None:
    first = images.build()
    engine.built.clear()
    assert images.build() == first
    assert engine.built == []


def test_a_parent_that_no_child_needs_is_not_built(images: Images, engine: Engine) -> None:
    engine.add(images.recipes["agent"].reference)
    images.build(["agent"])
    assert engine.built == []
    images.build(["node"])
    assert engine.built == ["base", "node"]


def test_ensure_and_find(images: Images) -> None:
    assert images.find("node") is None
    ref = images.ensure("node")
    assert images.find("node") == ref
    assert ref.digest == ref.id


def test_a_registrys_digest_is_reported(images: Images, engine: Engine) -> None:
    engine.add(images.recipes["base"].reference, RepoDigests=["r.test/acpbench/base@sha256:feed"])
    assert images.ensure("base").digest == "sha256:feed"


def test_an_unknown_name_builds_nothing(images: Images, engine: Engine) -> None:
    with pytest.raises(UsageError, match="did you mean 'agent'"):
        images.build(["base", "agents"])
    assert engine.built == []


def test_an_image_that_vanishes_is_no_success(images: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "build", lambda *_: None)
    with pytest.raises(BuildError, match="is gone again"):
        images.build(["base"])


def test_list_counts_what_an_image_adds(images: Images, engine: Engine) -> None:
    engine.add(images.recipes["node"].reference, RootFS={"Layers": ["a", "b"]}, Size=300_000_000)
    engine.add(images.recipes["agent"].reference, RootFS={"Layers": ["a", "b", "c"]}, Size=700_000_000)
    listed = {info.name: info for info in images.list()}
    assert list(listed) == ["agent", "base", "node", "tool"]
    assert (listed["agent"].size_mb, listed["agent"].own_mb) == (700, 400)
    assert (listed["agent"].layers, listed["agent"].shared_layers) == (3, 2)
    assert (listed["base"].id, listed["base"].size_mb) == (None, None)


def test_verify_of_an_image_that_is_not_built(images: Images) -> None:
    with pytest.raises(BuildError, match="images build agent"):
        images.verify(["agent"])


def test_prune_removes_other_tags_of_ours_only(images: Images, engine: Engine) -> None:
    images.build()
    engine.add("acpbench/agent:000000000000")
    engine.add("acpbench/gone:000000000000")
    engine.add("else/agent:1")
    assert sorted(images.prune()) == ["acpbench/agent:000000000000", "acpbench/gone:000000000000"]
    assert "else/agent:1" in engine.present
    assert all(recipe.reference in engine.present for recipe in images.recipes.values())


def test_prune_keeps_what_it_is_told(images: Images, engine: Engine) -> None:
    images.build()
    images.prune(["base", "node"])
    assert sorted(engine.present) == sorted(images.recipes[name].reference for name in ("base", "node"))


def test_what_an_image_lacks_is_told_by_the_images_name(
    images: Images, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extract, "output", lambda *_: (1, "sha256sum: /none: No such file or directory\n"))
    (name, *_) = images.recipes
    with pytest.raises(BuildError, match=rf"^image {name}: sha256sum: /none: No such file"):
        images.digests(name, ["/none"])
