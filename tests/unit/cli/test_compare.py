"""`compare`, `baseline`, `history` and the forms of `report`, over directories that were written by hand."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from runner.analysis.history import append
from runner.cli.app import app
from runner.cli.compare import Format
from runner.config.catalog import Catalog
from runner.config.loaded_sweep import load_sweep
from runner.config.plan import plan
from runner.errors import AcpbenchError, UsageError
from runner.records.schema import Record
from runner.records.store import SweepDir
from runner.report.render import REPORT_FORMS
from tests.unit.analysis.test_history import sweep
from tests.unit.config.test_upstream import UPSTREAM
from tests.unit.conftest import write

TWINS = """\
id: twins
arms:
  - {adapters: [agent@1.0.0], surfaces: [acp], fixtures: [semver], models: [scripted/fix], twin: true}
repeat: 5
compare: {base: '*container', new: '*--twin'}
"""


def invoke(root: Path, *args: str) -> Result:
    return CliRunner().invoke(app, ["--root", str(root), *args], standalone_mode=False)


def raised(root: Path, *args: str) -> AcpbenchError:
    error = invoke(root, *args).exception
    assert isinstance(error, AcpbenchError)
    return error


def made(
    root: Path,
    name: str,
    *,
    calls: int = 9,
    slower: float = 0.0,
    leave_out: int = 0,
    lock: dict[str, Any] | None = None,
) -> Path:
    """A sweep's directory: the twin has `calls` tool calls and takes `slower` ms longer; the last cells never ran."""
    config = root / "configs/sweeps/twins.yaml"
    config.write_text(TWINS)
    loaded = load_sweep(config, Catalog(root))
    cells = plan(loaded)
    path = root / "results" / name
    with SweepDir.create(path, loaded.source, {"sweep": "twins", "jobs": 1, **(lock or {})}, cells) as sweep:
        for cell in cells[: len(cells) - leave_out]:
            attempt = sweep.attempt(cell)
            more = slower if cell.twin else 0.0
            identity = cell.model_dump(exclude={"order", "block", "name", "image", "matrix", "twin"})
            record = Record(
                sweep="twins", cell=cell.name, attempt=attempt.number, outcome="passed",
                started_at="2026-11-30T02:17:00.000+00:00", start_ns=0, end_ns=10**9,
                exact={"tool_calls": calls if cell.twin else 9, "permission_requests": 2},
                sampled={"handshake_ms": 600.0 + cell.replicate + more, "to_result_ms": 1200.0 + cell.replicate},
                **identity,
            )  # fmt: skip
            attempt.commit(record)
    return path


@pytest.mark.parametrize(
    ("fields", "code", "said"),
    [
        ({}, 0, "nothing gated moved"),
        ({"slower": 150.0}, 2, "regressed: handshake_ms"),
        ({"calls": 8}, 2, "changed-exact: tool_calls"),
        ({"slower": 150.0, "leave_out": 1}, 1, "missing"),
    ],
)
def test_the_sweep_s_own_comparison(root: Path, fields: dict[str, Any], code: int, said: str) -> None:
    done = invoke(root, "compare", str(made(root, "one", **fields)))
    assert done.return_value == code
    assert said in done.stdout


def test_globs_and_gate_of_the_command_line(root: Path, tmp_path: Path) -> None:
    one = str(made(root, "one", slower=150.0, calls=8))
    gate = tmp_path / "loose.yaml"
    gate.write_text("id: loose\nsampled: [{metric: to_result_ms}]\nexact_except: [tool_calls]\n")
    assert invoke(root, "compare", one, "--gate", str(gate)).return_value == 0
    assert invoke(root, "compare", one, "--base", "*twin", "--new", "*container").return_value == 2
    assert "fits no arm" in str(raised(root, "compare", one, "--base", "nothing", "--new", "*twin"))
    assert "unknown gate 'none'" in str(raised(root, "compare", one, "--gate", "none"))
    gate.write_text("id: loose\nalfa: 1\n")
    assert str(raised(root, "compare", one, "--gate", str(gate))) == (
        f"{gate}:2: unknown key 'alfa'; did you mean 'alpha'?"
    )


def test_a_gate_on_a_time_that_nothing_measures_is_refused(root: Path) -> None:
    """It would be green for ever."""
    one = str(made(root, "one", slower=150.0))
    gate = root / "configs/gates/typo.yaml"
    gate.parent.mkdir(exist_ok=True)
    gate.write_text("id: typo\nsampled:\n  - {metric: to_result_ms}\n  - {metric: handshak_ms}\n")
    for given in ("typo", str(gate)):
        said = str(raised(root, "compare", one, "--gate", given))
        assert said.endswith("typo.yaml:4: no run has a metric 'handshak_ms'; did you mean 'handshake_ms'?")
    # Counts are sampled under a live model, and some times stand only where a turn was cancelled.
    gate.write_text("id: typo\nsampled: [{metric: tool_calls}, {metric: cancel_to_stop_ms}, {metric: updates.plan}]\n")
    assert invoke(root, "compare", one, "--gate", "typo").return_value == 0


@pytest.mark.parametrize("name", ["", "..", "a/../b", "-x", "a b"])
def test_a_baseline_that_no_sweep_could_name(root: Path, name: str) -> None:
    one = str(made(root, "one"))
    assert "is no name for a baseline" in str(raised(root, "baseline", one, "--", name))
    assert not list((root / "results").glob("baselines/*"))


@pytest.mark.parametrize("date", ["yesterday", "2026-11-01T00:00:00"])
def test_a_baseline_without_a_date_is_none(root: Path, date: str) -> None:
    one = str(made(root, "one"))
    file = Path(invoke(root, "baseline", one, "mine").stdout.strip())
    file.write_text(json.dumps(json.loads(file.read_text()) | {"date": date}))
    assert "mine.json: not a baseline: date: " in str(raised(root, "compare", str(file), one))
    file.write_text(file.read_text()[:200])
    assert "not a baseline: Invalid JSON" in str(raised(root, "compare", str(file), one))


def test_too_few_runs(root: Path) -> None:
    path = made(root, "one", leave_out=0)
    gate = root / "strict.yaml"
    gate.write_text("id: strict\nalpha: 0.001\n")
    done = invoke(root, "compare", str(path), "--gate", str(gate))
    assert done.return_value == 0
    assert "5 v 5 runs cannot tell (handshake_ms, to_result_ms): 8 a side could, at 0.1 %" in " ".join(
        done.stdout.split()
    )
    assert invoke(root, "compare", str(path), "--gate", str(gate), "--strict").return_value == 2


def test_every_form(root: Path, tmp_path: Path) -> None:
    one = str(made(root, "one", slower=150.0))
    for form in Format:
        file = tmp_path / form
        assert invoke(root, "compare", one, "--format", form, "-o", str(file)).return_value == 2
        assert "handshake" in file.read_text()
    assert json.loads((tmp_path / "json").read_text())["exit"] == 2
    assert ET.parse(tmp_path / "junit").getroot().get("failures") == "1"
    for form_of_report in REPORT_FORMS:
        assert invoke(root, "report", one, "--format", form_of_report).return_value == 0


def test_two_directories_and_a_baseline(root: Path) -> None:
    monday, tuesday = made(root, "monday"), made(root, "tuesday", slower=150.0)
    done = invoke(root, "compare", str(monday), str(tuesday), "--format", "json")
    assert done.return_value == 0
    found = json.loads(done.stdout)
    assert {one["verdict"] for one in found["verdicts"]} == {"same-exact", "unlike"}
    assert invoke(root, "compare", str(monday), str(made(root, "wednesday", calls=8))).return_value == 2

    done = invoke(root, "baseline", str(monday), "twins@1")
    file = root / "results/baselines/twins-1.json"
    assert done.stdout.strip() == str(file)
    assert invoke(root, "compare", str(file), str(tuesday)).return_value == 0
    old = json.loads(file.read_text())
    old["date"] = "2020-01-01T00:00:00+00:00"
    file.write_text(json.dumps(old))
    assert "days old, the gate takes 90 at most" in str(raised(root, "compare", str(file), str(tuesday)))


def test_unlike_sweeps_are_refused_with_the_list(root: Path) -> None:
    one, other = made(root, "one", lock={"seed": 1}), made(root, "other", lock={"seed": 2, "acpbench": "9"})
    done = invoke(root, "compare", str(one), str(other))
    assert done.return_value == UsageError.exit_code
    assert "not comparable: acpbench: None -> 9; seed: 1 -> 2." in done.stdout


def test_a_sweep_that_compares_nothing(root: Path) -> None:
    path = made(root, "one")
    (path / "sweep.yaml").write_text("".join(line for line in TWINS.splitlines(True) if "compare" not in line))
    assert "say what with --base ARM --new ARM" in str(raised(root, "compare", str(path)))
    assert invoke(root, "compare", str(path), "--base", "*container", "--new", "*twin").return_value == 0


def test_nightly_and_confirm_say_at_once_what_is_missing(root: Path) -> None:
    config = root / "configs/sweeps/small.yaml"
    for verb in (["nightly", str(config)], ["sweep", str(config), "--confirm"]):
        assert "says nothing of what to compare" in str(raised(root, *verb))
    config.write_text(config.read_text() + "compare: {base: 'x*', new: '*'}\n")
    assert "compare.base 'x*' fits no arm" in str(raised(root, "nightly", str(config)))
    config.write_text(config.read_text().replace("'x*', new: '*'", "'*', new: '*', baseline: gone"))
    assert "gone.json: no such baseline" in str(raised(root, "nightly", str(config)))


def test_a_step_before_the_nights_that_are_listed(root: Path, tmp_path: Path) -> None:
    for night in range(12):
        append(tmp_path / "history", sweep(tmp_path, night, [100.0 + night / 10 + 20 * (night >= 6)]))
    args = ("history", "to_result_ms", "--history", str(tmp_path / "history"))
    assert "step? x 1.21" in invoke(root, *args).stdout
    last = invoke(root, *args, "--last", "3").stdout
    assert "(9 earlier nights are not listed, step? 2026-11-07 x 1.21; --last 12 shows all)" in last


def test_what_is_captured_is_not_judged(root: Path) -> None:
    """Its fresh runs would find the cassette of the first ones, and all that was paid for would end in 64."""
    write(root / "configs/models/big.yaml", UPSTREAM + "title: A big one\n")
    config = root / "configs/sweeps/twins.yaml"
    config.write_text(TWINS.replace("scripted/fix", "capture/big"))
    for verb in (["nightly", str(config)], ["sweep", str(config), "--confirm"]):
        assert "judge with replay/... or live/big" in str(raised(root, *verb))


def test_history(root: Path, tmp_path: Path) -> None:
    one = str(made(root, "one"))
    assert "which metric" in str(raised(root, "history"))
    done = invoke(root, "history", "to_result_ms", "--add", one, "--plot", str(tmp_path / "p.png"))
    assert done.return_value == 0
    assert "2026-11-30 02:17" in done.stdout
    assert "1203 [1201-1205]" in done.stdout
    assert (tmp_path / "p.png").stat().st_size > 1000
    assert [file.name[:4] for file in (root / "results/history").iterdir()] == ["one-"]
    assert "9 [9-9]" in invoke(root, "history", "tool_calls").stdout
    again = invoke(root, "history", "--add", one)
    assert (again.return_value, again.stdout) == (0, "")
    assert "in the history already" in again.stderr
