"""What a script may say: labels name one action each, sub-agents can be told apart."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from runner.config.script import Script, every_step

PROMPT = "Do this part of the work."


def script(*steps: dict[str, Any]) -> Script:
    return Script.model_validate({"id": "s", "steps": list(steps)})


def test_steps_of_sub_agents_come_right_after_the_step_that_calls_them() -> None:
    inner = {"label": "b", "run": {"command": "ls"}}
    made = script({"label": "a", "delegate": {"prompt": PROMPT, "steps": [inner, {"say": "x"}]}}, {"say": "y"})
    assert [step.label or step.say for step in every_step(made.steps)] == ["a", "b", "x", "y"]
    assert [meaning for meaning, _ in made.steps[0].meant()] == ["delegate"]


def test_sub_agents_of_parallel_calls_are_walked_too() -> None:
    inner = {"label": "c", "delegate": {"prompt": f"{PROMPT} Within.", "steps": [{"say": "z"}]}}
    calls = [
        {"delegate": {"prompt": PROMPT, "steps": [inner, {"say": "x"}]}},
        {"delegate": {"prompt": f"{PROMPT} Beside.", "steps": [{"say": "y"}]}},
    ]
    made = script({"calls": calls}, {"say": "w"})
    assert [step.label or step.say for step in every_step(made.steps)] == [None, "c", "z", "x", "y", "w"]
    assert [(one.number, one.prompt) for one in made.conversations()] == [
        (None, None),
        (0, PROMPT),
        (1, f"{PROMPT} Within."),
        (2, f"{PROMPT} Beside."),
    ]
    assert [one.place for one in made.conversations()][1:3] == [
        ("steps", 0, "calls", 0, "delegate", "steps"),
        ("steps", 0, "calls", 0, "delegate", "steps", 0, "delegate", "steps"),
    ]
    assert made.meanings() == {"delegate"}


def test_what_a_sub_agent_can_never_be_served_is_told_at_its_place() -> None:
    steps = [{"say": "x"}, {"when": {"outcome": "ok", "step": "none"}, "say": "y"}]
    made = script({"calls": [{"delegate": {"prompt": PROMPT, "steps": steps}}]}, {"say": "z"})
    inner = ("steps", 0, "calls", 0, "delegate", "steps", 1)
    assert [place for place, _ in made.problems()] == [inner, (*inner, "when", "step")]


def test_the_first_step_may_hang_on_what_is_offered_and_on_nothing_earlier() -> None:
    ask = {"tool": {"tool": "Ask"}}
    assert list(script({"when": {"offered": "Ask"}, **ask}, {"say": "y"}).problems()) == []
    late = script({"when": {"offered": "Ask", "outcome": "ok"}, **ask}, {"say": "y"})
    assert [problem for _, problem in late.problems()] == ["the first step has no step before it"]


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([{"label": "a"}], "needs at least one of"),
        ([{"label": "a", "say": "x"}], "names one action, the step has 0 calls"),
        ([{"label": "a", "read": {"path": "x"}, "run": {"command": "y"}}], "the step has 2 calls"),
        ([{"label": "a", "calls": [{"read": {"path": "x"}}, {"read": {"path": "y"}}]}], "the step has 2 calls"),
        ([{"label": "a", "read": {"path": "x"}}] * 2, "the label 'a' stands twice"),
        (
            [
                {"label": "a", "read": {"path": "x"}},
                {"delegate": {"prompt": PROMPT, "steps": [{"label": "a", "read": {"path": "x"}}]}},
            ],
            "the label 'a' stands twice",
        ),
        ([{"delegate": {"prompt": PROMPT, "steps": [{"say": "x"}]}}] * 2, "could not be told apart"),
        ([{"effect": {"shows": "x"}, "read": {"path": "x"}}], "give the step a label"),
        ([{"label": "a", "effect": {}, "read": {"path": "x"}}], "exactly one of: shows, changes"),
        ([{"label": "a", "effect": {"shows": "x", "changes": "y"}, "read": {"path": "x"}}], "exactly one of: shows"),
        ([{"label": "a", "effect": {"shows": "("}, "read": {"path": "x"}}], "effect.shows"),
        ([{"label": "A b", "read": {"path": "x"}}], "pattern"),
        ([{"say": "x"}, {"when": {"step": "a", "offered": "Ask"}, "say": "y"}], "at least one of: outcome"),
    ],
)
def test_what_is_refused(steps: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        script(*steps)
