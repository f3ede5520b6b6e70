"""The report as JSON: the contract that scripts rely on (`report.json`, `report --format json`)."""

from __future__ import annotations

import json

from runner.analysis.report import Report
from runner.text.encoding import validated
from runner.text.visible import json_text


def render(report: Report) -> str:
    """One JSON object, two spaces of indent, keys in the model's order; ends with a line feed."""
    return json_text(json.dumps(report.model_dump(mode="json"), indent=2, ensure_ascii=False, allow_nan=False)) + "\n"


def load(text: str) -> Report:
    """A report that `render` wrote. Raises pydantic's ValidationError where it is not one."""
    return validated(Report, text)
