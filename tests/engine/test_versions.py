"""Two pinned versions side by side: what the comparison must name."""

from __future__ import annotations

from pathlib import Path

import docker
import pytest

from runner.analysis import gating
from runner.analysis.comparison import Compared
from runner.config.catalog import Catalog
from runner.config.loaded_sweep import load_sweep
from runner.config.plan import plan
from runner.report.verdicts import render
from runner.sweep.progress import PlainProgress
from runner.sweep.sweep import Options, run_sweep
from tests.engine.lab import REPOSITORY

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.agents, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory, engine: docker.DockerClient) -> Compared:
    catalog = Catalog(REPOSITORY)
    loaded = load_sweep(REPOSITORY / "configs/sweeps/versions.yaml", catalog)
    out = tmp_path_factory.mktemp("versions") / "out"
    report = run_sweep(loaded, plan(loaded, repeat=3), Options(out=Path(out), jobs=1), PlainProgress()).report
    comparison = loaded.sweep.compare
    assert comparison is not None
    return gating.within(report, comparison, gating.gate_of(None, comparison, catalog), strict=False)


@pytest.mark.parametrize(
    ("metric", "base", "new"),
    [
        ("default_mode", "default", "auto"),
        ("modes.dontAsk", True, False),
        ("permission_options.allow:allow_once", 5, 0),
        ("permission_options.allow-once:allow_once", 0, 5),
        ("permission_options.allow_always:allow_always", 5, 0),
        ("permission_options.allow-with-updates:allow_always", 0, 5),
        ("commands_announced", 36, 40),
        ("commands_announced.doctor", True, False),
        ("commands_announced.output-style", False, True),
        ("tools_offered", 26, 12),
        ("tools_offered.TaskCreate", True, False),
        ("tools_offered.ToolSearch", False, True),
        ("side_requests_by_rule.probe", 1, 0),
        ("side_requests_by_rule.title", 0, 1),
        ("updates.session_info_update", 0, 1),
        ("capabilities._meta.authStatus", False, True),
        ("files_outside", 3, 4),
    ],
)
def test_what_changed_is_named(metric: str, base: object, new: object, compared: Compared) -> None:
    (verdict,) = [verdict for verdict in compared.verdicts if verdict.metric == metric]
    assert (verdict.verdict, verdict.base, verdict.new) == ("changed-exact", base, new)
    assert f"{metric}*" in render(compared)


def test_nothing_of_it_varies_from_run_to_run(compared: Compared) -> None:
    assert [verdict.metric for verdict in compared.verdicts if verdict.verdict == "nondeterministic"] == []
