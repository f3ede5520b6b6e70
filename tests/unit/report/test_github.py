from __future__ import annotations

from runner.report.github import of_comparison, of_report, problem
from tests.unit.report.comparisons import moved, still, unlike
from tests.unit.report.sample_reports import plain, troubled


def test_a_sweep() -> None:
    assert of_report(plain()) == ""
    lines = of_report(troubled()).splitlines()
    assert any(line.startswith("::error title=missing-cell::") and line.endswith("never ran") for line in lines)
    assert any(line.startswith("::error title=unexpected-outcome::") for line in lines)
    assert any(line.startswith("::warning title=nondeterministic::") for line in lines)


def test_a_comparison() -> None:
    first, second = of_comparison(moved()).splitlines()
    assert first.startswith("::error title=tool_calls changed-exact::an-adapter-1.3.0--")
    assert first.endswith("changed-exact: 10 -> 9, n 5/5")
    assert second.startswith("::error title=handshake_ms regressed::")
    assert of_comparison(still()).splitlines()[0].startswith("::notice title=unlike::times are not compared")
    assert of_comparison(unlike()).startswith("::error title=unlike::not comparable: knobs.deadlines.turn")


def test_what_could_not_be_compared() -> None:
    assert problem("baseline x: too old: 100 days") == "::error title=unlike::baseline x: too old: 100 days\n"


def test_what_the_command_would_take_for_its_own_is_escaped() -> None:
    found = still()
    found.warnings[0].message = "100 % of\nlines"
    assert "::100 %25 of%0Alines\n" in of_comparison(found)
