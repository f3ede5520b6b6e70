from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import runner
from runner.acp import findings as of_frames
from runner.records.finding_texts import DESCRIPTIONS

RUNNER = Path(runner.__file__).parent
#: Rooms in which a finding or a note is something else: a claim of the study, a warning, a line on the terminal.
OTHERS = {"study", "analysis", "guest", "sweep"}
#: What is called to say a finding.
MAKERS = {"Finding", "note"}
TREES = {path: ast.parse(path.read_text("utf-8")) for path in RUNNER.rglob("*.py")}
#: Constants that are text, by name.
CONSTANTS = {
    target.id: node.value.value
    for tree in TREES.values()
    for node in ast.walk(tree)
    if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant)
    for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    if isinstance(target, ast.Name) and target.id.isupper() and isinstance(node.value.value, str)
}


def ids_in_the_code() -> Iterator[tuple[str, str]]:
    """(id, where) of every finding whose id is text or a constant."""
    for path, tree in TREES.items():
        if path.relative_to(RUNNER).parts[0] in OTHERS:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in MAKERS:
                named = [keyword.value for keyword in node.keywords if keyword.arg == "id"]
                for value in (named or node.args)[:1]:
                    if isinstance(value, ast.Constant) and isinstance(value.value, str):
                        yield value.value, f"{path.name}:{node.lineno}"
                    elif (name := getattr(value, "attr", getattr(value, "id", ""))) in CONSTANTS:
                        yield CONSTANTS[name], f"{path.name}:{node.lineno}"


def test_every_finding_has_its_sentence() -> None:
    made = dict(ids_in_the_code())
    assert len(made) > 50
    assert {identity: where for identity, where in made.items() if identity not in DESCRIPTIONS} == {}


def test_the_page_has_every_sentence() -> None:
    page = (RUNNER.parent / "results/FINDINGS.md").read_text("utf-8")
    assert [identity for identity, text in DESCRIPTIONS.items() if f"| `{identity}` | {text} |" not in page] == []
    assert page.count("\n| `") == len(DESCRIPTIONS)


def test_what_the_frames_show_is_described_once() -> None:
    assert of_frames.DESCRIPTIONS.items() <= DESCRIPTIONS.items()
