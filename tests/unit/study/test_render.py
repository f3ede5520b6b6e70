"""The table fits its width, Markdown its cells, JSON its model; nothing that an agent wrote steers a terminal."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from runner.report import study as render
from runner.study.claims import CLAIMS
from runner.study.model import ClaimFinding, Measured, Reference, StudyFindings
from tests.unit.study.conftest import Measured as Folder

EVIL = "\x1b[31mred\u202e | `x` <b>"


def findings(folder: Folder) -> StudyFindings:
    return StudyFindings(
        sweep="a-study", findings=list(folder.findings.values()), excluded={"runs/x/1": "infra: no engine"}
    )


def one(**changes: object) -> StudyFindings:
    plain = ClaimFinding(
        id="veto",
        adapter="an-adapter@1",
        claim=CLAIMS["veto"].claim,
        published="4 of 4",
        measured=Measured(text="3 of 4"),
        verdict="does-not-hold",
    )
    return StudyFindings(sweep="s", findings=[plain.model_copy(update=changes)])


@pytest.mark.parametrize("width", [100, 120])
def test_no_line_of_the_table_is_wider(width: int, undoctored: Folder) -> None:
    text = render.table(findings(undoctored), width)
    tables = text.split("\nEvidence, ")[0]
    assert max(map(len, tables.splitlines())) <= width


def test_the_table_says_every_claim_figure_and_verdict(undoctored: Folder) -> None:
    text = " ".join(render.table(findings(undoctored)).split())
    for found in undoctored.findings.values():
        assert found.verdict in text
        assert found.claim.split()[-1] in text
    assert "29 holds, 19 holds-so-far, 1 does-not-hold, 1 information" in text
    assert "0 of 17 distinct actions (at most 16.2 %)" in render.markdown(findings(undoctored))
    assert "runs/x/1 (infra: no engine)" in text


def test_limits_stand_with_the_figure() -> None:
    text = " ".join(render.table(one(limits=["a", "b", "c", "d", "e"])).split())
    assert "3 of 4 (a; b; c; 2 limits more)" in text


def test_what_is_not_measured_says_what_would() -> None:
    text = render.table(one(measured=Measured(text="-"), verdict="not-measured", limits=["no run rejects"]))
    assert "no run rejects" in text
    assert "- (" not in text


def test_exceptions_come_before_the_rule() -> None:
    many = [Reference(run="runs/a/1", kind="frame", seq=n, shows="rule") for n in range(9)]
    exception = Reference(run="runs/b/1", kind="file", path="src/a", hash="0" * 40, shows="exception")
    text = render.table(one(evidence=[*many, exception]))
    assert "9 rule, 1 exception" in text
    assert text.index("frames DIR/runs/b/1 --file src/a") < text.index("frames DIR/runs/a/1 --seq 0")
    assert "--seq 1\n" not in text


def test_what_markdown_gives_to_type_can_be_typed(undoctored: Folder) -> None:
    spans = re.findall(r"`(acpbench [^`]*)`", render.markdown(findings(undoctored)))
    typed = {render.command(one) for found in undoctored.findings.values() for one in found.evidence}
    assert len(spans) > len(undoctored.findings)
    assert set(spans) <= typed


def test_the_maps_are_printed(undoctored: Folder) -> None:
    for text in (render.table(findings(undoctored)), render.markdown(findings(undoctored))):
        assert "Permission table" in text
        for title in ("Boundary map", "Method tally", "Capability ablation", "Cost of a surface"):
            assert title in text
    rows = [line.split() for line in render.table(findings(undoctored)).splitlines() if line.startswith("read ")]
    assert ["read", "link", "shell", "2/2", "-", "1/1", "0/1", "1/1", "1/1"] in rows
    assert ["read", "cwd-env", "tool", "0/2", "2/2", "-", "-", "0/1", "1/1"] in rows


def test_nothing_steers_a_terminal_or_a_page() -> None:
    evil = one(measured=Measured(text=EVIL), limits=[EVIL], adapter=EVIL)
    for text in (render.table(evil), render.markdown(evil)):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "<b>" not in render.markdown(evil)


def test_json_is_the_model(undoctored: Folder) -> None:
    text = render.to_json(findings(undoctored))
    assert StudyFindings.model_validate_json(text) == findings(undoctored)
    value = json.loads(text)
    assert value["schema_version"] == 1
    assert list(value["findings"][0]) == [
        "id", "adapter", "claim", "published", "measured", "verdict", "limits", "evidence",
    ]  # fmt: skip


def test_adapters_have_tables_of_their_own() -> None:
    both = one()
    both.findings.append(both.findings[0].model_copy(update={"adapter": "another@2"}))
    assert render.table(both).count("claim") == 2


def test_runs_in_no_figure_are_told_by_their_reason() -> None:
    left = {f"cell-{n}": "never ran" for n in range(50)} | {"runs/odd/1": "infra: no room"}
    found = StudyFindings(sweep="x", findings=one().findings, excluded=left, altered={"runs/cut/1": "3 frames"})
    text = render.table(found)
    assert "(51 runs in no figure, see below)" in text.splitlines()[0]
    assert "- In no figure: cell-0, cell-1, cell-2 and 47 more (never ran)." in text
    assert "- In no figure: runs/odd/1 (infra: no room)." in text
    assert "- Not as it was recorded: runs/cut/1 (3 frames)." in text
    assert len(json.loads(render.to_json(found))["excluded"]) == 51


@pytest.mark.parametrize("path", ["src/semver.js", "a file.txt", "it's;rm -rf", "$(id)", ".~/x"])
def test_a_reference_to_any_file_can_be_typed(path: str) -> None:
    typed = render.command(Reference(run="runs/a/1", kind="file", path=path, shows="x"))
    assert shlex.split(typed) == ["acpbench", "frames", "DIR/runs/a/1", "--file", path]
