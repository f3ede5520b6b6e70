from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from runner.cli.output import err, out, out_as_is, out_or_file, soften, table
from runner.errors import UsageError


def test_table_keeps_text_and_shows_null() -> None:
    text = table(["a", "b"], [("1.0", None), ("007", 2)])
    assert [line.split() for line in text.splitlines()[2:]] == [["1.0", "-"], ["007", "2"]]


def test_out_or_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out_or_file("x\n", None)
    assert capsys.readouterr().out == "x\n"
    out_or_file("x\udcff\n", tmp_path / "f")
    assert (tmp_path / "f").read_text() == "x\\udcff\n"
    with pytest.raises(UsageError, match="cannot be written: No such file"):
        out_or_file("x", tmp_path / "none/f")


def test_soften() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    soften(stream)
    stream.write("é\udcff")
    stream.flush()
    assert stream.buffer.getvalue() == b"\\xe9\\udcff"


def test_broken_pipe_is_silent_and_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        out("lost")
        out("lost too")


def test_what_is_printed_is_never_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    out("::error::a\n\x1b[2Jb\u202e ##[error]c")
    err("  ::set-output name=a::b\r")
    said = capsys.readouterr()
    assert said.out == "\\u003a:error::a\n\\u001b[2Jb\\u202e #\\u0023[error]c\n"
    assert said.err == "  \\u003a:set-output name=a::b\\u000d\n"


def test_a_cell_is_one_short_line() -> None:
    lines = table(["a\n"], [("::error::x\n::error::y" + "z" * 999,)]).splitlines()
    assert len(lines) == 3
    assert lines[2].startswith("\\u003a:error::x ::error::yzzz")
    assert len(lines[2]) == 200


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_for_machines_is_as_it_is_but_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out_as_is('::error title=x::y\n"a\rb"')
    assert capsys.readouterr().out == '::error title=x::y\n"a\rb"\n'
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    out_as_is('"a\rb"')
    assert terminal.getvalue() == '"a\\u000db"\n'
