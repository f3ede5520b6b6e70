"""The pure parts; terminals at work are in tests/engine/guest and test_main.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.guest.terminals import command_argv, tail_text


@given(st.text(), st.integers(0, 50))
def test_the_end_of_a_text_is_a_suffix_of_whole_characters(text: str, limit: int) -> None:
    text = text.encode("utf-8", "replace").decode()
    tail = tail_text(text.encode(), limit, final=True)
    assert len(tail.encode()) <= limit
    assert text.endswith(tail)
    left_out = text[: len(text) - len(tail)]
    assert not left_out or len((left_out[-1] + tail).encode()) > limit


@given(st.binary(), st.integers(0, 50), st.booleans())
def test_the_end_of_any_bytes_is_text_within_the_limit(data: bytes, limit: int, final: bool) -> None:
    assert len(tail_text(data, limit, final=final).encode()) <= limit


def test_a_character_that_has_not_come_whole_is_held_back_until_the_end() -> None:
    data = "a€".encode()[:-1]
    assert tail_text(data, 100, final=False) == "a"
    assert tail_text(data, 100, final=True) == "a\ufffd"


@pytest.mark.parametrize(
    ("command", "args", "argv"),
    [
        ("ls", [], ["ls"]),
        ("ls", ["-l", "a b"], ["ls", "-l", "a b"]),
        ("ls -l", [], ["/bin/sh", "-c", "ls -l"]),
        ("ls|wc", [], ["/bin/sh", "-c", "ls|wc"]),
        ("ls -l", ["x"], ["ls -l", "x"]),
        ("/usr/bin/node", [], ["/usr/bin/node"]),
        ("$SHELL", [], ["/bin/sh", "-c", "$SHELL"]),
        ("", [], [""]),
    ],
)
def test_what_is_run(command: str, args: list[str], argv: list[str]) -> None:
    assert command_argv(command, args, "/") == argv


def test_a_program_with_a_blank_in_its_path_is_no_shell_line(tmp_path: Path) -> None:
    program = tmp_path / "a tool"
    program.write_text("#!/bin/sh\n")
    assert command_argv("./a tool", [], str(tmp_path))[0] == "/bin/sh"
    program.chmod(0o755)
    assert command_argv("./a tool", [], str(tmp_path)) == ["./a tool"]
