from __future__ import annotations

from pathlib import Path

import pytest

from runner.config.base import Config
from runner.config.loader import load
from runner.errors import ConfigError
from tests.unit.conftest import write

KEYS = [
    "sk-" + "Zz9" * 12,
    "sk-ant-api03-" + "Ab_-" * 10,
    "AIza" + "q" * 35,
    "AKIA" + "Q7" * 8,
    "ghp_" + "a1" * 18,
    "github_pat_" + "a1" * 20,
    "dtn_" + "0f" * 20,
    "Bearer " + "t0k." * 8,
]


class Plain(Config):
    id: str
    env: dict[str, str] = {}


@pytest.mark.parametrize("key", KEYS)
def test_a_key_in_a_configuration_is_refused_and_not_repeated(tmp_path: Path, key: str) -> None:
    path = write(tmp_path / "a.yaml", f"id: a\nenv:\n  NAME: '{key}'\n")
    with pytest.raises(ConfigError) as caught:
        load(path, Plain)
    assert str(caught.value).startswith(f"{path}:3: this line holds what looks like a key; ")
    assert key not in str(caught.value)


@pytest.mark.parametrize("text", ["sk-acpbench-no-key", "{model_key}", "task-list-of-many-words-in-a-row", "bearer of"])
def test_what_is_no_key_is_none(tmp_path: Path, text: str) -> None:
    assert load(write(tmp_path / "a.yaml", f"id: a\nenv:\n  NAME: '{text}'\n"), Plain).value.env == {"NAME": text}
