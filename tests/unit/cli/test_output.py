from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from runner.cli.output import out, out_or_file, soften, table
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
