"""Editor buffers: ACP's line and limit, unsaved text first, and a ledger that knows what was written over unseen."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.acp.buffers import EditorBuffers, MediatedWrite, blob_hash, select_lines

texts = st.text(alphabet="ab\n\r\u2028\x0c é", max_size=40)


@pytest.mark.parametrize(
    ("line", "limit", "expected"),
    [
        (None, None, "1\n2\n3"),
        (0, None, "1\n2\n3"),
        (1, None, "1\n2\n3"),
        (2, None, "2\n3"),
        (3, None, "3"),
        (4, None, ""),
        (99, 5, ""),
        (None, 0, ""),
        (None, 2, "1\n2\n"),
        (2, 1, "2\n"),
        (3, 1, "3"),
        (2, 99, "2\n3"),
    ],
)
def test_lines_are_one_based_and_keep_their_ends(line: int | None, limit: int | None, expected: str) -> None:
    assert select_lines("1\n2\n3", line, limit) == expected


@given(texts, st.integers(1, 5))
def test_pages_put_together_are_the_text(text: str, size: int) -> None:
    count = text.count("\n") + 1
    pages = [select_lines(text, line, size) for line in range(1, count + 1, size)]
    assert "".join(pages) == text
    assert all(page.count("\n") <= size for page in pages)


@given(texts, st.integers(0, 10), st.integers(0, 10))
def test_a_selection_is_what_splitting_at_lf_gives(text: str, line: int, limit: int) -> None:
    lines = [part + "\n" for part in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    start = max(line, 1) - 1
    assert select_lines(text, line, limit) == "".join(lines[start : start + limit])
    assert select_lines(text, line) == "".join(lines[start:])


@given(texts)
def test_the_hash_is_git_s(text: str) -> None:
    assert len(blob_hash(text)) == 40
    assert (blob_hash(text) == blob_hash("")) == (text == "")


def test_the_hash_is_what_git_says() -> None:
    said = subprocess.run(["git", "hash-object", "--stdin"], input="é\n".encode(), capture_output=True, check=True)
    assert blob_hash("é\n") == said.stdout.decode().strip()


def test_unsaved_text_wins_over_the_disk() -> None:
    buffers = EditorBuffers()
    buffers.open("/w/a", "typed\nmore\n", unsaved=True)
    assert not buffers.needs_disk("/w/a")
    assert buffers.read("/w/a", "disk", line=2) == "more\n"


def test_a_clean_document_follows_the_disk() -> None:
    buffers = EditorBuffers()
    buffers.open("/w/a", "old", unsaved=False)
    assert buffers.needs_disk("/w/a")
    assert buffers.read("/w/a", "new") == "new"
    assert buffers.text("/w/a") == "new"
    assert buffers.read("/w/a", None) == "new"


def test_what_is_not_open_is_the_disk() -> None:
    buffers = EditorBuffers()
    assert buffers.needs_disk("/w/a")
    assert buffers.read("/w/a", "1\n2\n", line=1, limit=1) == "1\n"
    assert buffers.text("/w/a") is None
    with pytest.raises(FileNotFoundError):
        buffers.read("/w/a", None)


def test_closing_loses_unsaved_text() -> None:
    buffers = EditorBuffers()
    buffers.open("/w/a", "typed", unsaved=True)
    buffers.close("/w/a")
    assert not buffers.is_open("/w/a")
    assert buffers.read("/w/a", "disk") == "disk"
    with pytest.raises(KeyError):
        buffers.close("/w/a")


def test_a_write_saves_the_document_and_enters_the_ledger() -> None:
    buffers = EditorBuffers()
    buffers.open("/w/a", "typed", unsaved=True)
    buffers.read("/w/a", None)
    entry = buffers.write("/w/a", "agent's", "b" * 40, 7, 70)
    assert entry == MediatedWrite(
        "/w/a", "b" * 40, blob_hash("agent's"), 7, 70, was_unsaved=True, overwrote_unseen=False
    )
    assert buffers.ledger == [entry]
    assert not buffers.is_unsaved("/w/a")
    assert buffers.text("/w/a") == "agent's"


def test_writing_over_unsaved_text_that_was_never_read_is_told() -> None:
    buffers = EditorBuffers()
    buffers.open("/w/a", "typed", unsaved=True)
    assert buffers.write("/w/a", "x", None, 1, 1).overwrote_unseen
    assert not buffers.write("/w/a", "y", None, 2, 2).overwrote_unseen


def test_typing_after_the_read_makes_it_unseen_again() -> None:
    buffers = EditorBuffers()
    buffers.open("/w/a", "typed", unsaved=True)
    buffers.read("/w/a", None)
    buffers.open("/w/a", "typed more", unsaved=True)
    assert buffers.write("/w/a", "x", None, 1, 1).overwrote_unseen


def test_a_write_to_a_file_that_is_not_open() -> None:
    buffers = EditorBuffers()
    entry = buffers.write("/w/new", "x", None, 1, 2)
    assert (entry.before, entry.was_unsaved, entry.overwrote_unseen) == (None, False, False)
    assert not buffers.is_open("/w/new")


@pytest.mark.parametrize("spelling", ["/w/a", "/w//a", "//w/a", "/w/./a", "/w/b/../a", "/w/a/"])
def test_spellings_of_one_path_are_one_document(spelling: str) -> None:
    buffers = EditorBuffers()
    buffers.open("/w/a", "typed", unsaved=True)
    assert buffers.is_unsaved(spelling)
    assert buffers.write(spelling, "x", None, 1, 1).path == "/w/a"


@given(
    st.lists(
        st.tuples(st.sampled_from(["open", "read", "write", "close"]), st.sampled_from(["/a", "/b"]), texts),
        max_size=15,
    )
)
def test_what_was_written_or_typed_last_is_what_is_read(steps: list[tuple[str, str, str]]) -> None:
    buffers, disk, typed = EditorBuffers(), dict.fromkeys(("/a", "/b"), ""), dict[str, str]()
    for seq, (step, path, text) in enumerate(steps):
        if step == "open":
            buffers.open(path, text, unsaved=True)
            typed[path] = text
        elif step == "write":
            buffers.write(path, text, blob_hash(disk[path]), seq, seq)
            disk[path] = text
            typed.pop(path, None)
        elif step == "close" and buffers.is_open(path):
            buffers.close(path)
            typed.pop(path, None)
        assert buffers.read(path, disk[path]) == typed.get(path, disk[path])
    assert [entry.after for entry in buffers.ledger] == [blob_hash(text) for step, _, text in steps if step == "write"]
