"""What is said about each kind of fault, at the line where it is: through the loader, as a user meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.config.adapter import Adapter
from runner.config.base import Config
from runner.config.explain import keys_at
from runner.config.fixture import Fixture
from runner.config.loader import load
from runner.config.policy import Policy
from runner.config.script import Script
from runner.config.surface import Surface
from runner.config.sweep import Sweep
from runner.errors import ConfigError

ARM = "arms:\n  - adapters: [a]\n    surfaces: [s]\n    fixtures: [f]\n    models: [m]\n"


def lines(tmp_path: Path, model: type[Config], text: str) -> list[str]:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(path, model)
    return [line.removeprefix(f"{path}:") for line in str(caught.value).splitlines()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"id: x\n{ARM}repaet: 3\n", ["7: unknown key 'repaet'; did you mean 'repeat'?"]),
        (f"id: x\n{ARM}repeat: '3'\n", ["7: 'repeat' must be a whole number, not the text '3'"]),
        (f"id: x\n{ARM}repeat: 0\n", ["7: 'repeat' must be more than 0, not 0"]),
        (f"id: x\n{ARM}repeat: true\n", ["7: 'repeat' must be a whole number, not true"]),
        (f"id: x\n{ARM}repeat:\n", ["7: 'repeat' must be a whole number, not empty"]),
        (f"id: 7\n{ARM}", ["1: 'id' must be text, not the number 7; put it in quotes"]),
        (
            f"id: a b\n{ARM}",
            ["1: 'id': 'a b' is not an id: letters, digits and . _ + @ - only, a letter or digit first"],
        ),
        (f"id: {'x' * 121}\n{ARM}", ["1: 'id' is longer than 120 characters"]),
        ("id: x\n", ["1: the key 'arms' is missing"]),
        ("id: x\narms: []\n", ["2: 'arms' needs at least 1 item(s)"]),
        ("id: x\narms: acp\n", ["2: 'arms' must be a list, not the text 'acp'"]),
        ("id: x\narms:\n  - acp\n", ["3: item 1 of 'arms' must be a mapping, not the text 'acp'"]),
        (
            "id: x\narms:\n  - adaptor: [a]\n    surfaces: [s]\n    fixtures: [f]\n",
            [
                "3: unknown key 'adaptor'; did you mean 'adapters'?",
                "3: the key 'models' is missing in item 1 of 'arms'",
            ],
        ),
        (f"id: x\n{ARM}knobs:\n  deadlines:\n    turns: 3\n", ["9: unknown key 'turns'; did you mean 'turn'?"]),
        (f"id: x\n{ARM}knobs: {{deadlines: {{turn: long}}}}\n", ["7: 'turn' must be a number, not the text 'long'"]),
        (
            f"id: x\n{ARM}    policies:\n      - allow_once\n      - [a]\n",
            ["9: item 2 of 'policies' must be text or a mapping, not a list"],
        ),
        (
            f"id: x\n{ARM}    policies:\n      - id: mine\n        anwser: never\n",
            ["9: unknown key 'anwser'; did you mean 'answer'?"],
        ),
        (
            f"id: x\n{ARM}    policies:\n      - id: mine\n        answer: allow_ones\n",
            ["9: 'answer' cannot be 'allow_ones'; did you mean 'allow_once'?"],
        ),
        (
            f"zzzz: 1\nid: x\n{ARM}jobs: 0\nseed: x\n",
            [
                (
                    "1: unknown key 'zzzz'; valid: title, adapters, repeat, warmup, starts, infra_attempts, knobs, "
                    "ask_registries, published, compare"
                ),
                "8: 'jobs' must be more than 0, not 0",
                "9: 'seed' must be a whole number, not the text 'x'",
            ],
        ),
    ],
)
def test_sweep(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert lines(tmp_path, Sweep, text) == expected


def test_misspelt_key_is_told_once(tmp_path: Path) -> None:
    assert lines(tmp_path, Surface, "id: x\ntransprot: acp\n") == [
        "2: unknown key 'transprot'; did you mean 'transport'?"
    ]


def test_key_with_no_near_name_lists_those_not_yet_given(tmp_path: Path) -> None:
    found = lines(tmp_path, Policy, "id: x\nqqqq: 1\nanswer: never\n")
    assert found == ["2: unknown key 'qqqq'; valid: rules, delay_s, elicitation, cancel"]


def test_key_of_a_closed_set(tmp_path: Path) -> None:
    text = (
        "id: x\ntitle: t\nimage: i\ndialect: anthropic\n"
        "packages: [{registry: npm, name: n, version: '1'}]\nprograms: [{name: p, command: [p], expect: '1'}]\n"
        "tools:\n  reed: [{tool: R}]\n  run: [{tool: B, arguments: 5}]\n"
    )
    assert lines(tmp_path, Adapter, text) == [
        "8: unknown key 'reed'; did you mean 'read'?",
        "9: 'arguments' must be a mapping or text, not the number 5",
    ]


def test_own_checks_of_a_model(tmp_path: Path) -> None:
    text = "id: x\nsteps:\n  - say: hi\n  - usage: {input: 1}\n"
    (found,) = lines(tmp_path, Script, text)
    assert found.startswith("4: item 2 of 'steps': needs at least one of: think, say, read,")


def test_hash(tmp_path: Path) -> None:
    text = f"id: x\ntree: abc\ncommit: '{'0' * 40}'\nprompt: p\nverify: {{command: [x], parser: tap}}\n"
    assert lines(tmp_path, Fixture, text) == [
        "2: 'tree': 'abc' is not a hash of 40 lower-case hexadecimal digits",
        "5: 'parser' cannot be 'tap'; valid: node-test, exit-code",
    ]


def test_keys_at_goes_through_unions_lists_and_mappings() -> None:
    assert keys_at(Sweep, ("arms", 0, "policies", 0, "Policy")) == list(Policy.model_fields)
    assert keys_at(Sweep, ("arms", 0, "policies", 0, "Policy", "rules", 1)) == ["answer", "kind", "path", "command"]
    assert keys_at(Adapter, ("tools", "read", 0)) == ["tool", "arguments"]
    assert keys_at(Adapter, ("acp",)) == ["command", "env", "home", "binary", "parser", "prompt"]
    assert keys_at(Sweep, ("seed",)) == []
