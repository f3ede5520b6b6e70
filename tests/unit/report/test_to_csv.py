from __future__ import annotations

import csv
import io

from runner.report.to_csv import RUN_COLUMNS, VERDICT_COLUMNS, of_comparison, of_sweep
from tests.unit.report.comparisons import moved
from tests.unit.report.sample_reports import cell, run


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_row_a_run_and_metric() -> None:
    first, second, third = cell("acp", 1, warmup=True), cell("acp", 1), cell("acp", 2)
    odd = run(second, exact={"tool_calls": 9, "default_mode": 'a, "b"\n', "stop_reason": None}, sampled={"cpu_s": 1.5})
    found = rows(of_sweep("a-sweep", [first, second, third], {second.name: odd}))
    assert tuple(found[0]) == RUN_COLUMNS
    assert (found[0]["outcome"], found[0]["warmup"], found[0]["metric"]) == ("missing", "true", "")
    figures = {row["metric"]: (row["kind"], row["value"]) for row in found[1:-1]}
    assert figures == {
        "tool_calls": ("exact", "9"),
        "default_mode": ("exact", 'a, "b"\n'),
        "stop_reason": ("exact", ""),
        "cpu_s": ("sampled", "1.5"),
    }
    assert (found[-1]["replicate"], found[-1]["outcome"]) == ("2", "missing")


def test_a_row_a_verdict() -> None:
    found = rows(of_comparison(moved()))
    assert tuple(found[0]) == VERDICT_COLUMNS
    by = {row["metric"]: row for row in found}
    assert (by["tool_calls"]["base"], by["tool_calls"]["new"], by["tool_calls"]["gated"]) == ("10", "9", "true")
    assert (by["handshake_ms"]["verdict"], by["handshake_ms"]["shift"]) == ("regressed", "150.0")
    assert float(by["handshake_ms"]["low"]) < float(by["handshake_ms"]["ratio"]) < float(by["handshake_ms"]["high"])
