"""The one rule for text: whatever an agent says or names, every writer writes it and every reader gets it back."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ET
from dataclasses import fields as fields_of
from dataclasses import is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from runner.analysis import baseline, history
from runner.analysis.aggregate import of_directory
from runner.analysis.compare import compare
from runner.analysis.comparison import Pair
from runner.analysis.report import Report
from runner.config.gate import Gate
from runner.errors import UsageError
from runner.evidence.messages import decode
from runner.gateway.journal import JournalEntry, parse_journal
from runner.records.schema import Record
from runner.records.store import _IDS, SweepDir
from runner.report import github, html, junit, markdown, table, to_csv, to_json, verdicts
from runner.report import study as findings_render
from runner.report.render import REPORT_FORMS, render
from runner.study.model import StudyFindings
from runner.text.encoding import json_line, original, repaired, text_written_out, validated, written_out
from runner.wire.frames import Frame
from tests.unit.gateway.test_journal import entry
from tests.unit.report.sample_reports import LOCK, cell, run

#: What has no UTF-8 form, halves of a pair in either order, names that are not UTF-8, what only looks like one of them.
ODD = [
    "\ud800", "\udfff", "\ude00\ud83d", "\ud83d\ude00", "caf\udce9", "\udc80\udcff", r"\ud800", r"\\ud800", "\\\ud800",
    r"\uD800", "\x00", "\ufffe\uffff", "\U0010ffff", "a\rb\n\t\x1b[31m", "\u2028", "=1+1", "$x$", "", "😀",
]  # fmt: skip
TEXT = st.one_of(
    st.sampled_from(ODD),
    st.text(st.one_of(st.characters(exclude_categories=()), st.sampled_from("\\ud8f0\ud800\udcff")), max_size=12),
)


def maps(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(TEXT, values, max_size=2)


NUMBERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False))
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXT)
#: What a metric may be.
FIGURES = st.one_of(st.none(), st.booleans(), st.integers(-(2**62), 2**62), st.floats(-1e18, 1e18), TEXT)
ANYTHING = st.recursive(SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=2), maps(inner)), max_leaves=4)
#: Members whose values decide where a record belongs.
FIXED = {"cell", "attempt", "schema_version", "arm", "outcome", "started_at", "replicate", "warmup", "sampled"}
SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def of(annotation: Any) -> st.SearchStrategy[Any]:
    """Values of a field of a record, text and the keys of maps arbitrary."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return of(args[0])
    if origin is Literal:
        return st.sampled_from(args)
    if origin in (UnionType, Union):
        return st.one_of(*map(of, args))
    if origin is tuple:
        return st.tuples(*map(of, args))
    if origin is list:
        return st.lists(of(args[0]), max_size=2)
    if origin is dict:
        return maps(ANYTHING if args[1] is Any else of(args[1]))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return of_model(annotation)
    if is_dataclass(annotation):
        hints = get_type_hints(annotation)
        return st.fixed_dictionaries({field.name: of(hints[field.name]) for field in fields_of(annotation)})
    plain: dict[Any, st.SearchStrategy[Any]] = {
        str: TEXT,
        bool: st.booleans(),
        int: st.integers(-(2**62), 2**62),
        float: st.floats(allow_nan=False, allow_infinity=False),
        NoneType: st.none(),
        Any: ANYTHING,
    }
    return plain[annotation]


def of_model(model: type[BaseModel]) -> st.SearchStrategy[dict[str, Any]]:
    # What a record says of its cell again, its readers check.
    fixed = FIXED | set(_IDS) if model is Record else FIXED
    fields = {name: of(field.annotation) for name, field in model.model_fields.items() if name not in fixed}
    if model is Record:
        fields["exact"] = maps(FIGURES)
    return st.fixed_dictionaries(fields)


def strings(value: Any) -> list[str]:
    """All text of a value, keys too, in order."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key, part in value.items() for text in (key, *strings(part))]
    return [text for part in value for text in strings(part)] if isinstance(value, list) else []


@given(TEXT, TEXT)
@settings(max_examples=2000, deadline=None)
def test_different_texts_stay_different_and_come_back(one: str, other: str) -> None:
    kept = text_written_out(one)
    kept.encode("utf-8")
    assert original(kept) == one
    assert (kept == text_written_out(other)) == (one == other)
    assert repaired(kept) == kept


def test_it_is_read_by_eyes() -> None:
    assert text_written_out("caf\udce9/\ud83d") == r"caf\udce9/\ud83d"
    assert text_written_out(r"C:\udders \ud8 \ud800") == r"C:\udders \ud8 \\ud800"


def test_a_long_run_of_backslashes_takes_no_longer() -> None:
    text = "\\" * 1_000_000 + "\ud800"
    assert len(text_written_out(text)) == 2_000_006


def test_numbers_that_no_reader_has_are_text() -> None:
    value = {"a": float("nan"), "b": float("-inf"), "c": 2**63, "d": -(10**5000), "e": 2**63 - 1, "f": True, "g": 1.5}
    assert written_out(value) == {
        "a": "nan", "b": "-inf", "c": str(2**63), "d": "-1e5000 or so", "e": 2**63 - 1, "f": True, "g": 1.5,
    }  # fmt: skip


def test_what_lies_too_deep_is_cut() -> None:
    value: Any = "x"
    for _ in range(5000):
        value = [value]
    assert '"..."' in json.dumps(repaired(value))


@given(ANYTHING)
def test_a_raw_line_says_exactly_what_was_said(value: Any) -> None:
    if "\ud83d\ude00" in "".join(strings(value)):
        return  # two halves that follow each other are one character to every reader of JSON
    line = json_line(value)
    line.decode("utf-8")
    read = json.loads(line)
    assert json.dumps(read) == json.dumps(value)


@given(of_model(Record))
@SETTINGS
def test_every_field_of_a_record(tmp_path_factory: pytest.TempPathFactory, fields: dict[str, Any]) -> None:
    """Written, read, reported in every form, judged, added to a history: the same text everywhere."""
    folder = tmp_path_factory.mktemp("sweep")
    cells = [cell("acp", 1), cell("acp", 2)]
    names = ["files_changed.caf\udce9", r"files_changed.caf\udce9", "files_changed.caf\udcea"]
    with SweepDir.create(folder / "out", b"id: s\n", LOCK, cells) as made:
        for planned in cells:
            given = run(planned, outcome="task-failed").model_dump() | {k: v for k, v in fields.items() if k != "exact"}
            given["exact"] = {**fields["exact"], **dict.fromkeys(names, True)}
            raw = Record.model_validate(given)
            record = raw.written_out()
            attempt = made.attempt(planned)
            attempt.commit(record)
            attempt.write_json("fsdiff.json", raw.model_dump())
            assert list(map(original, strings(record.model_dump()))) == strings(raw.model_dump())
            assert json.loads((attempt.path / "fsdiff.json").read_bytes()) == record.model_dump()
    sweep = SweepDir.read(folder / "out")
    assert sweep.latest()[cells[1].name] == record
    assert set(map(text_written_out, names)) <= set(record.exact)
    everything(sweep, folder)


def everything(sweep: SweepDir, folder: Path) -> None:
    """Every writer after the record; each text is what a reader of its form takes."""
    report = of_directory(sweep)
    kept = set(next(iter(sweep.latest().values())).exact)
    read = to_json.load(to_json.render(report))
    assert read == report
    assert kept <= set(read.arms[0].exact)
    csv.field_size_limit(10_000_000)
    rows = list(csv.reader(io.StringIO(render(sweep, "csv"), newline="")))
    assert {len(row) for row in rows} == {len(rows[0])}
    ET.fromstring(render(sweep, "junit"))
    for form in REPORT_FORMS:
        render(sweep, form).encode("utf-8")
    pair = Pair(report.arms[0], report.arms[0])
    found = compare(("a", "b"), [pair], Gate())
    for text in (
        verdicts.render(found), verdicts.markdown(found), verdicts.to_json(found), to_csv.of_comparison(found),
        html.render(report, [found]), github.of_comparison(found), junit.render("s", junit.verdicts(found)),
        table.render(report), markdown.render(report),
    ):  # fmt: skip
        text.encode("utf-8")
    whole = report.model_copy(update={"arms": [arm.model_copy(update={"unexpected": 0}) for arm in report.arms]})
    frozen = baseline.freeze("one", whole, datetime.now(UTC))
    (folder / "one.json").write_text(baseline.render(frozen), encoding="utf-8")
    assert baseline.load(folder / "one.json") == frozen
    file = history.append(folder / "history", sweep)
    assert file is not None
    assert kept <= set(pyarrow.parquet.read_table(file).column("metric").to_pylist())


@given(of_model(StudyFindings))
@SETTINGS
def test_every_field_of_findings(fields: dict[str, Any]) -> None:
    found = StudyFindings.model_validate(repaired({**fields, "findings": []}))
    for text in (findings_render.table(found), findings_render.markdown(found)):
        text.encode("utf-8", "backslashreplace")
    printed = findings_render.to_json(found).encode("utf-8", "backslashreplace")
    assert json.loads(printed) == found.model_dump()


@given(of_model(Report))
@SETTINGS
def test_a_baseline_of_before_the_rule(tmp_path_factory: pytest.TempPathFactory, fields: dict[str, Any]) -> None:
    report = Report.model_validate({**fields, "arms": []})
    frozen = baseline.freeze("one", report, datetime.now(UTC))
    path = tmp_path_factory.mktemp("baseline") / "one.json"
    written = json.dumps(frozen.model_dump())
    path.write_text(written, encoding="utf-8")
    assert baseline.load(path).model_dump() == repaired(json.loads(written))
    path.write_text(baseline.render(frozen), encoding="utf-8")
    assert baseline.load(path).model_dump() == repaired(frozen.model_dump())


@given(of_model(JournalEntry))
@SETTINGS
def test_every_field_of_the_gateways_journal(fields: dict[str, Any]) -> None:
    """As Node writes it, with escapes where there is no Unicode. Nothing of it may differ: a tape is made of it."""
    # In Node's text two halves in a row are one character, which may be a key that is there already.
    whole = JournalEntry.model_validate(json.loads(json.dumps(fields)))
    (read,) = parse_journal([json.dumps(whole.model_dump()).encode()])
    assert json.dumps(read.model_dump()) == json.dumps(whole.model_dump())


def test_a_megabyte_of_each(tmp_path: Path) -> None:
    planned = cell("acp", 1)
    long = {f"files_changed.{odd}": odd * (1_000_000 // max(1, len(odd))) for odd in ODD[::6]}
    with SweepDir.create(tmp_path / "out", b"id: s\n", LOCK, [planned]) as made:
        record = run(planned, exact=long, reason="\udcff" * 1_000_000).written_out()
        made.attempt(planned).commit(record)
    assert SweepDir.read(tmp_path / "out").latest()[planned.name] == record
    everything(SweepDir.read(tmp_path / "out"), tmp_path)


def test_a_record_of_before_the_rule_is_read_and_told_in_every_form(tmp_path: Path) -> None:
    planned = cell("acp", 1)
    with SweepDir.create(tmp_path / "out", b"id: s\n", LOCK, [planned]) as made:
        attempt = made.attempt(planned)
        exact = {f"files_changed.{name}": True for name in ("\udcff", "\udcfe", r"\udcfd")}
        value = run(planned, exact=exact).model_dump()
        value["exact"]["tokens_reported"] = float("inf")
        (attempt.path / "record.json").write_text(json.dumps(value))
    sweep = SweepDir.read(tmp_path / "out")
    assert sweep.latest()[planned.name].exact == {
        r"files_changed.\udcff": True, r"files_changed.\udcfe": True, r"files_changed.\\udcfd": True,
        "tokens_reported": "inf",
    }  # fmt: skip
    everything(sweep, tmp_path)


def test_messages_are_told_as_their_record_tells_them() -> None:
    raw = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"title":"caf\\udce9"}}}'
    frames = [Frame(0, 1, "a2c", "stdout", raw)]
    assert decode(frames)[0].payload["update"]["title"] == "caf\udce9"
    assert decode(frames, as_kept=True)[0].payload["update"]["title"] == r"caf\udce9"


def test_a_model_is_read_where_pydantic_refuses() -> None:
    written = json.dumps(entry(seq=0, model="\ud800").model_dump())
    with pytest.raises(ValueError, match="Invalid JSON"):
        JournalEntry.model_validate_json(written)
    assert validated(JournalEntry, written, raw=True).model == "\ud800"
    assert validated(JournalEntry, written).model == r"\ud800"


def test_a_bad_record_is_named_and_left_out(tmp_path: Path) -> None:
    cells = [cell("acp", n) for n in range(1, 4)]
    with SweepDir.create(tmp_path / "out", b"id: s\n", LOCK, cells) as made:
        for planned in cells[:2]:
            made.attempt(planned).commit(
                run(planned).model_copy(update={"started_at": "?"} if planned is cells[1] else {})
            )
        (made.attempt(cells[2]).path / "record.json").write_bytes(b"{")
    sweep, told = SweepDir.read(tmp_path / "out"), list[UsageError]()
    assert [record.replicate for record in sweep.records(told.append)] == [1, 2]
    file = history.append(tmp_path / "history", sweep, told.append)
    assert file is not None
    assert set(pyarrow.parquet.read_table(file).column("replicate").to_pylist()) == {1}
    assert ["record.json: " in str(one) for one in told] == [True, True, True]
    with pytest.raises(UsageError, match=r"r3/1/record\.json: not JSON"):
        history.append(tmp_path / "again", sweep)
