"""Every numeric option of every verb has bounds, and says so by 64."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from typer.main import get_command

from runner.cli import main as cli
from runner.cli.app import app


def numeric() -> Iterator[tuple[list[str], str]]:
    """(verb, option) of all that take a number."""

    def walk(command: object, words: list[str]) -> Iterator[tuple[list[str], str]]:
        for name, below in getattr(command, "commands", {}).items():
            yield from walk(below, [*words, name])
        for parameter in getattr(command, "params", []):
            if getattr(parameter.type_descriptor, "annotation", None) in (int, float):
                yield words, parameter.opts[0]

    yield from walk(get_command(app), [])


OPTIONS = list(numeric())


def test_there_are_some() -> None:
    assert (["nightly"], "--repeat") in OPTIONS
    assert (["sweep"], "--jobs") in OPTIONS
    assert len(OPTIONS) >= 8


@pytest.mark.parametrize("value", ["-1", str(10**10), "1" + "0" * 5000, "1e3", "nan", "1.5", "", "\u00b2"])
@pytest.mark.parametrize(("verb", "option"), OPTIONS, ids=lambda one: one if isinstance(one, str) else " ".join(one))
def test_what_is_beyond_is_refused(
    verb: list[str], option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([*verb, "x", option, value]) == 64
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert option in said
    assert len(said) < 1000


@pytest.mark.parametrize("verb", ["sweep", "nightly"])
@pytest.mark.parametrize("value", ["0", "10001"])
def test_replicates_have_the_same_bound_everywhere(verb: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([verb, "x.yaml", "--repeat", value]) == 64
    assert "--repeat" in capsys.readouterr().err
