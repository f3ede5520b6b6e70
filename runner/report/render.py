"""One sweep in any of the forms that `acpbench report` knows."""

from __future__ import annotations

from collections.abc import Callable

from runner.analysis.aggregate import of_directory
from runner.analysis.report import Report
from runner.records.store import SweepDir
from runner.report import github, html, junit, markdown, table, to_csv, to_json

#: Forms that the report alone is enough for.
_OF_REPORT: dict[str, Callable[[Report], str]] = {
    "table": table.render,
    "markdown": markdown.render,
    "json": to_json.render,
    "html": html.render,
    "annotations": github.of_report,
}
#: All of them; those not above need the runs themselves.
REPORT_FORMS = (*_OF_REPORT, "junit", "csv")


def render(sweep: SweepDir, form: str) -> str:
    """The text. Raises UsageError for records that cannot be read."""
    if form == "junit":
        return junit.render(sweep.path.name, junit.cells(sweep.cells, sweep.latest()))
    if form == "csv":
        return to_csv.of_sweep(sweep.path.name, sweep.cells, sweep.latest())
    return _OF_REPORT[form](of_directory(sweep))
