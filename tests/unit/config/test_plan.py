from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.config.catalog import Catalog
from runner.config.fixture import Fixture, Verify
from runner.config.loaded_sweep import LoadedSweep, load_sweep
from runner.config.plan import MAX_NAME, Cell, dump, load, plan, remaining, units
from runner.config.policy import BUILTIN
from runner.config.sweep import Matrix, Sweep
from runner.errors import ConfigError, UsageError


@pytest.fixture
def small(root: Path) -> LoadedSweep:
    return load_sweep(root / "configs/sweeps/small.yaml", Catalog(root))


def with_arms(loaded: LoadedSweep, *arms: Matrix, **changes: int) -> LoadedSweep:
    sweep = loaded.sweep.model_copy(update={"arms": list(arms), **changes})
    return replace(loaded, sweep=sweep, arm_lines=tuple(range(10, 10 + len(arms))))


def matrix(**changes: object) -> Matrix:
    fields: dict[str, object] = {
        "adapters": ["agent@1.0.0"], "surfaces": ["acp"], "fixtures": ["semver"], "models": ["scripted/fix"],
    }  # fmt: skip
    return Matrix.model_validate({**fields, **changes})


def test_names(small: LoadedSweep) -> None:
    cells = plan(small)
    assert len(cells) == 10
    assert cells[0].name == "agent-1.0.0--acp--semver--allow_once--scripted-fix--container--w1"
    assert cells[0].warmup
    assert cells[0].block == 0
    assert cells[0].image == "agent-1"
    first = [cell for cell in cells if cell.block == 1]
    assert {cell.name for cell in first} == {
        f"agent-1.0.0--{surface}--semver--allow_once--scripted-fix--container--r1"
        for surface in ("acp", "nocaps", "cli")
    }
    assert [cell.order for cell in cells] == list(range(1, 11))
    assert cells[1].model == "scripted/fix"
    assert cells[1].adapter == "agent@1.0.0"


def test_order_is_pinned(small: LoadedSweep) -> None:
    """The order is part of what a seed means: it must not change with the Python or our version."""
    assert [cell.surface for cell in plan(small) if cell.block == 1] == ["cli", "nocaps", "acp"]


@given(
    seed=st.integers(-(2**40), 2**40),
    repeats=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    warmup=st.integers(0, 3),
)
def test_every_block_is_a_permutation_of_its_arms(seed: int, repeats: list[int], warmup: int) -> None:
    loaded = in_memory(seed, repeats, warmup)
    cells = plan(loaded)
    assert plan(loaded) == cells
    assert len({cell.name for cell in cells}) == len(cells)
    warmups = [cell for cell in cells if cell.warmup]
    assert cells[: len(warmups)] == warmups
    assert Counter(cell.image for cell in warmups) == (
        {f"image{n}": warmup for n in range(len(repeats))} if warmup else {}
    )
    measured = cells[len(warmups) :]
    assert [cell.block for cell in measured] == sorted(cell.block for cell in measured)
    for block in range(1, max(repeats) + 1):
        arms = [cell.arm for cell in measured if cell.block == block]
        assert sorted(arms) == sorted({arm for cell, arm in ((c, c.arm) for c in cells) if due(cell, block, repeats)})
    assert all(cell.replicate == cell.block for cell in measured)


def due(cell: Cell, block: int, repeats: list[int]) -> bool:
    return repeats[int(cell.image.removeprefix("image"))] >= block


def in_memory(seed: int, repeats: list[int], warmup: int) -> LoadedSweep:
    """Two surfaces times one adapter (with an image of its own) per entry of `repeats`."""
    from runner.config.adapter import Adapter, Package, Program

    arms = [matrix(adapters=[f"a@{n}"], surfaces=["acp", "nocaps"], repeat=repeat) for n, repeat in enumerate(repeats)]
    adapters = {
        f"a@{n}": Adapter(
            id=f"a@{n}", title="", image=f"image{n}", dialect="anthropic", tools={},
            packages=[Package(registry="npm", name="a", version="1")],
            programs=[Program(name="a", command=["a"], expect="1")],
        )
        for n in range(len(repeats))
    }  # fmt: skip
    fixture = Fixture(
        id="semver", tree="0" * 40, commit="0" * 40, prompt="p", verify=Verify(command=["x"], parser="exit-code")
    )
    return LoadedSweep(
        sweep=Sweep(id="s", arms=arms, seed=seed, warmup=warmup), path=Path("s.yaml"), source=b"", root=Path(),
        adapters=adapters, surfaces={}, fixtures={"semver": fixture}, policies=BUILTIN, scripts={}, trees={},
        digests={}, arm_lines=tuple(range(len(arms))),
    )  # fmt: skip


def test_order_depends_on_the_seed_alone_not_on_what_is_left(small: LoadedSweep) -> None:
    whole = [cell.name for cell in plan(small) if cell.surface != "cli" and not cell.warmup]
    assert [cell.name for cell in plan(small, only="*--acp--*")] == [
        "agent-1.0.0--acp--semver--allow_once--scripted-fix--container--w1",
        *(name for name in whole if "--acp--" in name),
    ]


def test_repeat_wins_over_the_configuration(small: LoadedSweep) -> None:
    varied = with_arms(small, matrix(repeat=5), matrix(surfaces=["cli"]), repeat=2)
    assert Counter(cell.surface for cell in plan(varied) if not cell.warmup) == {"acp": 5, "cli": 2}
    assert Counter(cell.surface for cell in plan(varied, repeat=4) if not cell.warmup) == {"acp": 4, "cli": 4}


def test_only_of_a_cell_and_of_a_warm_up(small: LoadedSweep) -> None:
    assert [cell.name.rpartition("--")[2] for cell in plan(small, only="*--cli--*--r2")] == ["w1", "r2"]
    assert {cell.surface for cell in plan(small, only="*--cli--*--r2")} == {"cli"}
    assert [cell.name.rpartition("--")[2] for cell in plan(small, only="*--w1")] == ["w1"]


@pytest.mark.parametrize(
    ("glob", "words"),
    [
        ("*--acpp--*", "; did you mean 'acp'?"),
        ("*--nocap--*", "; valid: agent-1.0.0--acp--"),  # stands in an arm's name, but is no id
        ("", "; valid: "),
        ("*--zzzzz--*", "; valid: agent-1.0.0, acp, nocaps, cli, semver, allow_once, scripted-fix, container"),
    ],
)
def test_only_of_nothing(small: LoadedSweep, glob: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        plan(small, only=glob)
    assert f"--only '{glob}' fits no cell and no arm{words}" in str(caught.value)


def test_duplicate_arms(small: LoadedSweep) -> None:
    twice = with_arms(small, matrix(surfaces=["acp", "cli"]), matrix(expect="task-failed"))
    with pytest.raises(ConfigError, match=r"small\.yaml:11: the arm agent-1\.0\.0--acp--.* is planned twice"):
        plan(twice)


def test_names_fit_a_folder(small: LoadedSweep) -> None:
    long = with_arms(small, matrix(fixtures=["f" * 120], surfaces=["s" * 40]))
    with pytest.raises(ConfigError, match=f"more than {MAX_NAME} bytes"):
        plan(long)


def test_expectation_is_the_matrix_own(small: LoadedSweep) -> None:
    veto = with_arms(small, matrix(policies=["reject_once"], expect="task-failed"), matrix())
    assert {cell.policy: cell.expect for cell in plan(veto)} == {"reject_once": "task-failed", "allow_once": "passed"}


def test_remaining(small: LoadedSweep) -> None:
    cells = plan(small)
    everything = {cell.name for cell in cells}
    assert remaining(cells, set()) == cells
    assert remaining(cells, everything) == []
    missing = next(cell for cell in cells if cell.block == 2)
    left = remaining(cells, everything - {missing.name})
    assert left == [cell for cell in cells if cell.block == 2 or cell.warmup]
    assert remaining(cells, everything - {cells[0].name}) == [cells[0]]


def test_dump_and_load(small: LoadedSweep) -> None:
    cells = plan(small)
    assert load(dump(cells), Path("plan.jsonl")) == cells
    assert dump(cells).count(b"\n") == len(cells)


def test_load_of_something_else() -> None:
    with pytest.raises(UsageError, match=r"plan\.jsonl:3: not a cell of a plan"):
        load(dump(plan(in_memory(1, [1], 0))) + b'{"order": 1}\n', Path("plan.jsonl"))


def test_an_arm_that_keeps_its_container_runs_in_one_go(small: LoadedSweep) -> None:
    kept = with_arms(small, matrix(resets=["container", "git-clean-fd"], repeat=3), matrix(surfaces=["cli"]), warmup=0)
    cells = plan(kept)
    found = [unit for unit in units(cells) if len(unit) > 1]
    assert [[cell.replicate for cell in unit] for unit in found] == [[1, 2, 3]]
    assert {cell.block for cell in found[0]} == {1}
    assert [cell for unit in units(cells) for cell in unit] == cells
    # What is missing of it is run again from its first run on.
    done = {cell.name for cell in cells} - {found[0][2].name}
    assert {cell.name for cell in found[0]} <= {cell.name for cell in remaining(cells, done)}


def test_an_adapter_may_be_expected_to_end_otherwise(small: LoadedSweep) -> None:
    both = matrix(adapters=["agent@1.0.0", "other@2"], expect_of={"oth*": "task-failed", "*@2": "infra"})
    two = with_arms(replace(small, adapters={**small.adapters, "other@2": small.adapters["agent@1.0.0"]}), both)
    ends = {(cell.adapter, cell.expect) for cell in plan(two)}
    assert ends == {("agent@1.0.0", "passed"), ("other@2", "task-failed")}


def test_a_cell_knows_its_entry_of_the_sweep(small: LoadedSweep) -> None:
    two = with_arms(small, matrix(), matrix(surfaces=["cli"]), warmup=0)
    assert {cell.surface: cell.matrix for cell in plan(two)} == {"acp": 0, "cli": 1}


def test_what_an_adapter_of_the_whole_sweep_cannot_do_is_left_out(root: Path) -> None:
    sweep = root / "configs/sweeps/small.yaml"
    sweep.write_text(sweep.read_text().replace("adapters: [agent@1.0.0]\n    ", "", 1) + "adapters: [other@2]\n")
    loaded = load_sweep(sweep, Catalog(root))
    assert {cell.surface for cell in plan(loaded)} == {"acp", "nocaps"}
    script = root / "configs/models/fix.yaml"
    script.write_text("id: fix\nsteps: [{plan: {entries: [x]}}, {say: hi}]\n")
    with pytest.raises(ConfigError, match="no arm is left"):
        plan(load_sweep(sweep, Catalog(root)))


def test_a_cell_that_stands_there_twice_would_count_twice() -> None:
    dumped = dump(plan(in_memory(1, [1], 0)))
    with pytest.raises(UsageError, match=r"plan\.jsonl:3: the cell .* stands there twice"):
        load(dumped + dumped.splitlines(keepends=True)[0], Path("plan.jsonl"))


def test_a_cells_name_leads_nowhere_else() -> None:
    (line, *_) = dump(plan(in_memory(1, [1], 0))).splitlines()
    cell = {**json.loads(line), "name": "../../elsewhere"}
    with pytest.raises(UsageError, match=r"plan\.jsonl:1: .*'\.\./\.\./elsewhere' cannot be"):
        load(json.dumps(cell).encode(), Path("plan.jsonl"))
