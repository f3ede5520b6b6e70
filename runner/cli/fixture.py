"""`acpbench fixture check|pin`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from runner.cli.output import err, out, table
from runner.cli.state import catalog, engine
from runner.config.sweep import MAX_REPEAT

if TYPE_CHECKING:
    from runner.fixtures.check import CheckedFixture

app = typer.Typer(no_args_is_help=True, help="Fixtures: prove that one judges rightly, and write its pins.")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder that holds fixture.yaml and tree/.")]


@app.callback()
def _group() -> None:
    """Fixtures: prove that one judges rightly, and write its pins."""


@app.command()
def check(
    context: typer.Context,
    directory: Folder,
    times: Annotated[int, typer.Option(min=1, max=MAX_REPEAT, help="Tries of each state, each in a container.")] = 3,
    adapter: Annotated[
        str | None,
        typer.Option(metavar="ID", help="In this adapter's image; default one with the fixtures' Node and no agent."),
    ] = None,
    form: Annotated[Literal["table", "json"], typer.Option("--format")] = "table",
) -> int:
    """Prove in containers that the tests fail on the fixture as it is and pass on its solution, every time.

    States: untouched; solution/ and wrong/ (a repair that must fail), where they are there, laid over the tree.
    Exit codes: 0 each state ended as it must every time, 1 one did not (a flaky one is named), 64 a wrong file or pin,
    or no solution, 69 no engine.
    """
    from runner.fixtures.check import IMAGE, states_of
    from runner.fixtures.check import check as prove

    found = catalog(context)
    image = IMAGE if adapter is None else found.adapter(adapter).image
    states_of(directory)  # what is wrong with the files is told before an engine is looked for
    from runner.sandbox.images import Images

    with engine() as client:
        reference = Images(client, found.root).ensure(image, err)
        checked = prove(directory, times, client, (image, reference.id), err)
    if form == "json":
        out(json.dumps(checked.as_json(), indent=2))
    else:
        _print(checked)
    for problem in checked.problems:
        err(problem)
    return 0 if checked.ok else 1


def _print(checked: CheckedFixture) -> None:
    rows = []
    for state in checked.tried:
        median, low, high = state.times_ms
        ended = f"{state.outcomes.count(state.expected)}/{len(state.verdicts)}"
        mark = "flaky" if state.flaky else "yes" if state.ok else "NO"
        rows.append(
            (state.name, state.expected, ended, mark, f"{median:.0f} [{low:.0f}-{high:.0f}]", state.reason[:80])
        )
    out(table([checked.fixture, "must end", "did", "ok", "test ms, median [min-max]", "why it failed"], rows))
    out(f"\nin image {checked.image}, {checked.times} time(s) each")


@app.command()
def pin(directory: Folder) -> int:
    """Compute tree and commit (no container is started) and write them into fixture.yaml, whose comments stay."""
    from runner.fixtures.pin import pin as write

    pinned = write(directory)
    for key, (old, new) in pinned.changed.items():
        out(f"{pinned.file}: {key} {old or '(none)'} -> {new}")
    if not pinned.changed:
        out(f"{pinned.file}: tree {pinned.pins.tree} and commit {pinned.pins.commit} are pinned already")
    for note in pinned.notes:
        err(f"note: {note}")
    return 0
