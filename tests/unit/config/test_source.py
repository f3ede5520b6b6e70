from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.config.source import MAX_BYTES, ConfigErrors, raise_all, read_source
from runner.errors import ConfigError


def fault(path: Path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read_source(path)
    assert "\n" not in str(caught.value)
    return caught.value


def faulty(tmp_path: Path, content: bytes | str) -> ConfigError:
    path = tmp_path / "x.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return fault(path)


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        (b"", 1, "the file is empty"),
        (b"# only this\n", 1, "the file is empty"),
        (b"---\n...\n", 1, "the file is empty"),
        (b"\xef\xbb\xbf", 1, "the file is empty"),
        (b"\n- a\n- b\n", 2, "the file holds a list; it must be a mapping"),
        (b"text\n", 1, "the file holds a single value"),
        (b"a: 1\nb: caf\xe9\n", 2, "the file is not UTF-8 (byte 0xe9)"),
        ("a: 1\n".encode("utf-16"), 1, "the file is UTF-16"),
        (b"a:\n\tb: 1\n", 2, "a tab where YAML allows only spaces"),
        (b"a:\t1\tb\n\t\n", 1, "a tab where"),
        (b"a: 1\nb: 'x\nc: 2\n", 2, "the quote opened here is never closed"),
        (b"a: 1\nb: [1, 2\nc: 3\n", 2, "the list opened here with '['"),
        (b"a: {b: 1\n", 1, "the mapping opened here with '{'"),
        (b"a: 1\n---\nb: 2\n", 2, "a second document starts here"),
        (b"a: 1\nb: *nobody\n", 2, "undefined alias 'nobody'"),
        (b"a: 1\nb: c: d\n", 2, "a ':' that does not fit here"),
        (b"a: 1\nbcd\n", 2, "a key without ':'"),
        (b"a: @x\n", 1, "character '@' cannot start a value; quote it"),
        (b"a: 1\nb: x\x00y\n", 2, "character U+0000 is not allowed"),
        (b"a: 1\nb: 2\na: 3\n", 3, "duplicate key 'a' (first on line 1)"),
        (b"a: 1\n7: 2\n", 2, "the key '7' must be text; put it in quotes"),
        (b"a: 1\n? [b]\n: 2\n", 2, "a key must be text, not a list or a mapping"),
        (b"a: &x {b: 1}\nc:\n  <<: *x\n", 3, "merge keys ('<<') are not supported"),
        (b"a: !!python/object:os.system x\n", 1, "the tag '!!python/object:os.system' is not supported"),
        (b"a: !thing {b: 1}\n", 1, "the tag '!thing' is not supported"),
        (b"a: .inf\n", 1, "'.inf' is not a finite number"),
        (b"a: 1e999\n", 1, "'1e999' is not a finite number"),
        (b"a: &x [*x]\n", 1, "an anchor holds an alias of itself"),
        (b"a: " + b"[" * 500 + b"]" * 500 + b"\n", None, "nested deeper than 64 levels"),
        (b"a: " + b"[" * 9000 + b"\n", None, "nested deeper than 64 levels"),
        (b'a: 1\nb: "\\ud83d x"\n', 2, "the text holds U+D83D"),
        (b'"\\ude00": 1\n', 1, "the text holds U+DE00"),
        (b"a: " + b"9" * 5000 + b"\n", 1, "as a number; put it in quotes"),
    ],
)
def test_what_is_no_configuration(tmp_path: Path, content: bytes, line: int | None, words: str) -> None:
    error = faulty(tmp_path, content)
    assert words in error.problem
    if line is not None:
        assert error.line == line


def test_alias_bomb(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert "expands to more than" in faulty(tmp_path, "\n".join(lines)).problem


def test_huge_file(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    assert "is larger than 1 MiB" in fault(path).problem


def test_missing_file_names_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sweeps").mkdir()
    Path("sweeps/three-surfaces.yaml").touch()
    error = fault(Path("sweeps/three-surface.yaml"))
    assert str(error) == "sweeps/three-surface.yaml: no such file; did you mean 'sweeps/three-surfaces.yaml'?"
    assert "there is no folder swaps" in str(fault(Path("swaps/x.yaml")))
    assert "a part of the path is a file" in str(fault(Path("sweeps/three-surfaces.yaml/x")))


def test_what_is_no_file(tmp_path: Path) -> None:
    assert "is a folder, not a file" in str(fault(tmp_path))
    os.mkfifo(tmp_path / "pipe.yaml")
    assert "is not a regular file" in str(fault(tmp_path / "pipe.yaml"))
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    assert "cannot be read" in str(fault(tmp_path / "loop.yaml"))


def test_every_duplicate_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("a: 1\nb: 2\na: 3\nc: {d: 1, d: 2}\n")
    with pytest.raises(ConfigErrors) as caught:
        read_source(path)
    assert [error.line for error in caught.value.errors] == [3, 4]
    assert str(caught.value).count("\n") == 1


def test_values_and_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(
        b"\xef\xbb\xbf# byte order mark above\na: yes\nb: 0x1f\nc: 012\nd: 1_000.5\ne: 2026-01-01\n"
        b"f: ~\ng:\n  - one\n  - two:\n      three\nh: &x {i: true}\nj: *x\nk: |\n  text\n"
    )
    source = read_source(path)
    assert source.data == {
        "a": "yes", "b": 31, "c": 12, "d": 1000.5, "e": "2026-01-01", "f": None, "g": ["one", {"two": "three"}],
        "h": {"i": True}, "j": {"i": True}, "k": "text\n",
    }  # fmt: skip
    assert source.line(("a",)) == 2
    assert source.line(("g",)) == 8
    assert source.line(("g", 1)) == 10
    assert (source.key_line(("g", 1, "two")), source.line(("g", 1, "two"))) == (10, 11)
    assert source.line(("g", 1, "missing", "deeper")) == 10


def test_a_character_in_two_halves_is_one(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text('"\\ud83d\\ude00": "\\ud83d\\ude00!"\n')
    assert read_source(path).data == {"\U0001f600": "\U0001f600!"}


def test_paths_are_shown_from_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.yaml").write_text("a: {b: 1\n")
    assert str(fault(tmp_path / "x.yaml")).startswith("x.yaml:1: ")


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(st.binary(max_size=60), st.text(alphabet="a:-[]{}&*!|>'\"#%@\t\n ,?<~0.e", max_size=40).map(str.encode))
)
def test_any_bytes_are_data_or_one_line_each(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(content)
    errors: tuple[ConfigError, ...] = ()
    said = ""
    try:
        assert isinstance(read_source(path).data, dict)
    except ConfigErrors as error:
        errors, said = error.errors, str(error)
    except ConfigError as error:
        errors, said = (error,), str(error)
    assert len(said.splitlines()) == len(errors)
    assert said.count("any.yaml") >= len(errors)


def test_raise_all() -> None:
    raise_all([])
    one = ConfigError(Path("x"), 3, "wrong")
    with pytest.raises(ConfigError) as caught:
        raise_all([one, ConfigError(Path("x"), 3, "wrong")])
    assert caught.value is one
    many = [ConfigErrors([one, ConfigError(Path("x"), 1, "first")]), ConfigError(Path("a"), None, "other")]
    with pytest.raises(ConfigErrors, match="a: other\nx:1: first\nx:3: wrong"):
        raise_all(many)


@pytest.mark.parametrize(("escape", "code"), [("\\0", "0000"), ("\\ud800", "D800")])
def test_text_that_nothing_can_take_is_refused(tmp_path: Path, escape: str, code: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f'id: a\nprompt: "x{escape}y"\n')
    with pytest.raises(ConfigError, match=rf"a\.yaml:2: the text holds U\+{code}"):
        read_source(path)
