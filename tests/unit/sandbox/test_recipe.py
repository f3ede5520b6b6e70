"""Folders as recipes: tags, parents, errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.errors import ConfigError, UsageError
from runner.sandbox.build import STAGE_LABEL
from runner.sandbox.images import ROOT
from runner.sandbox.recipe import dockerfile, load_recipes, pick

BASE = """\
title: base
debootstrap: {suite: trixie, variant: minbase, include: [git], epoch: 1}
"""


def image(root: Path, name: str, text: str, **files: str) -> Path:
    folder = root / name
    folder.mkdir()
    (folder / "image.yaml").write_text(f"title: {name}\n")
    (folder / "Dockerfile").write_text(text)
    for file, content in files.items():
        (folder / file).write_text(content)
    return folder


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """base <- tool, base <- node <- agent (built with tool)."""
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "image.yaml").write_text(BASE)
    image(tmp_path, "tool", "FROM acpbench/base\n")
    image(tmp_path, "node", "FROM acpbench/base\n")
    image(tmp_path, "agent", "FROM acpbench/tool AS build\nFROM acpbench/node\nCOPY --from=build /a /a\n", lock="1")
    return tmp_path


def tags(root: Path) -> dict[str, str]:
    return {name: recipe.tag for name, recipe in load_recipes(root).items()}


def test_parents_and_what_the_last_stage_stands_on(images: Path) -> None:
    recipes = load_recipes(images)
    assert recipes["agent"].parents == ("tool", "node")
    assert recipes["agent"].base == "node"
    assert (recipes["base"].parents, recipes["base"].base) == ((), None)
    assert recipes["agent"].reference == f"acpbench/agent:{recipes['agent'].tag}"


def test_the_same_folders_give_the_same_tags(images: Path) -> None:
    assert tags(images) == tags(images)
    assert all(len(tag) == 12 for tag in tags(images).values())


def test_a_changed_file_changes_its_own_tag_only(images: Path) -> None:
    before = tags(images)
    (images / "agent" / "lock").write_text("2")
    after = tags(images)
    assert [name for name in before if before[name] != after[name]] == ["agent"]


def test_a_changed_parent_changes_all_that_stand_on_it(images: Path) -> None:
    before = tags(images)
    (images / "tool" / "Dockerfile").write_text("FROM acpbench/base\n# new\n")
    after = tags(images)
    assert sorted(name for name in before if before[name] != after[name]) == ["agent", "tool"]


def test_moving_a_byte_between_files_changes_the_tag(images: Path) -> None:
    (images / "agent" / "a").write_text("xy")
    (images / "agent" / "b").write_text("z")
    before = tags(images)["agent"]
    (images / "agent" / "a").write_text("x")
    (images / "agent" / "b").write_text("yz")
    assert tags(images)["agent"] != before


@pytest.mark.parametrize("name", [".hidden", "tap.test.mjs", "node_modules/x", "test/x"])
def test_what_is_no_input_changes_nothing(images: Path, name: str) -> None:
    before = tags(images)
    path = images / "agent" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("x")
    assert tags(images) == before
    assert name not in load_recipes(images)["agent"].files()


def test_dockerfile_names_exact_tags(images: Path) -> None:
    recipes = load_recipes(images)
    assert dockerfile(recipes["agent"], recipes) == (
        f"FROM {recipes['tool'].reference} AS build\nFROM {recipes['node'].reference}\nCOPY --from=build /a /a\n"
    )


def test_an_image_copied_from_directly_is_a_parent(images: Path) -> None:
    image(images, "more", "FROM scratch\nCOPY --from=acpbench/node /a /a\n")
    recipes = load_recipes(images)
    assert (recipes["more"].parents, recipes["more"].base) == (("node",), None)
    assert recipes["node"].reference in dockerfile(recipes["more"], recipes)


def test_an_unknown_parent_is_an_error_at_its_line(images: Path) -> None:
    image(images, "wrong", "# one\nFROM acpbench/nod\n")
    with pytest.raises(ConfigError, match=r"wrong/Dockerfile:2: unknown image 'nod'; did you mean 'node'\?"):
        load_recipes(images)


def test_a_circle_is_an_error(images: Path) -> None:
    (images / "tool" / "Dockerfile").write_text("FROM acpbench/agent\n")
    with pytest.raises(ConfigError, match="stands on itself"):
        load_recipes(images)


def test_a_recipe_without_a_way_to_build_it_is_an_error(images: Path) -> None:
    (images / "tool" / "Dockerfile").unlink()
    with pytest.raises(ConfigError, match="neither a debootstrap section nor Dockerfile"):
        load_recipes(images)


def test_an_unknown_key_is_an_error_with_its_line(images: Path) -> None:
    (images / "tool" / "image.yaml").write_text("title: x\nparant: base\n")
    with pytest.raises(ConfigError, match=r"tool/image.yaml:2: "):
        load_recipes(images)


def test_pick_names_the_nearest(images: Path) -> None:
    with pytest.raises(UsageError, match="unknown image 'agnet'; did you mean 'agent'"):
        pick(load_recipes(images), "agnet")


@pytest.mark.parametrize("path", sorted(ROOT.glob("images/*/Dockerfile")), ids=lambda path: path.parent.name)
def test_the_machines_settings_stay_in_build_stages(path: Path) -> None:
    _, *stages = ("\n" + path.read_text()).split("\nFROM ")
    assert stages
    for stage in stages[:-1]:
        assert f"LABEL {STAGE_LABEL}=build" in stage
    assert ".host" not in stages[-1]
    assert "/tmp/host" not in stages[-1]
    assert "ARG" not in path.read_text()
