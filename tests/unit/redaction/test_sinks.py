"""A canary for every sink: what a run with a live model leaves, prints and reports, times every form of its key.

Each is planted and looked for twice: with the redactor, when nothing may be found, and without, when it must be.
"""

from __future__ import annotations

import base64
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from runner.analysis import history
from runner.analysis.aggregate import of_directory
from runner.analysis.compare import compare
from runner.analysis.comparison import Pair
from runner.cli.output import err, out, out_or_file
from runner.config.gate import Gate
from runner.gateway.cassette import dump
from runner.guest.git import git
from runner.records.schema import Change, Finding, Record, Turn, Verdict
from runner.records.store import AttemptDir, SweepDir
from runner.redaction import redact
from runner.redaction.redact import Redactor
from runner.report import github, html, junit, to_csv, verdicts
from runner.report.render import REPORT_FORMS, render
from runner.sweep.progress import PlainProgress
from runner.wire.frames import Frame
from runner.wire.log import FrameLogWriter, read_frames
from tests.unit.gateway.test_cassette import line
from tests.unit.gateway.test_journal import entry
from tests.unit.report.sample_reports import LOCK, cell, run
from tests.unit.secret_texts import FORMS, KEY, says

CELL = cell("acp", 1)


def frames(folder: Path, text: str) -> None:
    """A message, a line of plain text, one that is no UTF-8, one above 1 MiB, and what came on stderr."""
    raw = text.encode("latin-1").replace(b"\n", b"\r")
    with FrameLogWriter(folder / "frames.jsonl", folder / "blobs", 10**8) as log:
        for n, payload in enumerate(
            [json.dumps({"jsonrpc": "2.0", "result": text}).encode(), b"A" + raw, b"\xff" + raw, raw + b" " * (1 << 20)]
        ):  # fmt: skip
            log.write(Frame(n, n, "a2c", "stdout", payload))


def patch(folder: Path, text: str) -> None:
    """What git makes of a text file and of a binary one."""
    tree = folder.parent / "tree"
    (tree / "a").mkdir(parents=True)
    (tree / "b").mkdir()
    (tree / "b/plain.txt").write_text(text)
    (tree / "b/packed.bin").write_bytes(b"\0\1" * 3000 + text.encode("latin-1") + b"\0" * 3000)
    made = git("diff", "--no-index", "--no-ext-diff", "--binary", "--full-index", "a", "b", cwd=str(tree), ok=(0, 1))
    (folder / "workspace.patch").write_bytes(made.stdout)


def logs(folder: Path, text: str) -> None:
    (folder / "stderr.log").write_bytes(b"x\n" * 40_000 + text.encode("latin-1") + b"\nafter")
    message = {"headers": {}, "body": text}
    one = entry(seq=0, path=f"/v1/{text}", request=message, response=message)
    (folder / "model.jsonl").write_text(json.dumps(one.model_dump()) + "\n")
    (folder / "tape.jsonl").write_bytes(b"".join(dump([line(0, chunks=[[1.0, text], [2.0, {"base64": _b64(text)}]])])))
    (folder / "program.json").write_text(json.dumps({"steps": [{"say": text}]}))
    (folder / "names.json").write_text(json.dumps({text: 1}))
    (folder / "fsdiff.json").write_text(json.dumps({"outside": [{"path": f"/home/{text}"}]}))


def _b64(text: str) -> str:
    return base64.b64encode(b"\xfe" + text.encode("latin-1")).decode()


def record(text: str) -> Record:
    return run(
        CELL,
        outcome="task-failed",
        reason=text,
        findings=[Finding(id="not-json", message=text)],
        verdict=Verdict(passed=False, reason=text, output=text, changes=[Change(path=text, status="A")], status=text),
        turns=[Turn(sent_ns=1, stop_reason=text, usage={text: [text]})],
        agent_env={text: text},
        agent_argv=[text],
        agent_info={"name": text},
        exact={"stop_reason": text, f"files_changed.{text}": True, "tool_calls": 1, "permission_requests": 1},
    )


FILES: dict[str, Callable[[Path, str], None]] = {"frames": frames, "patch": patch, "logs": logs}


@pytest.fixture
def attempt(tmp_path: Path) -> Iterator[AttemptDir]:
    with SweepDir.create(tmp_path / "out", b"id: s\n", LOCK, [CELL]) as made:
        yield made.attempt(CELL)


def said(folder: Path) -> dict[str, bytes]:
    """What each file says; base64 of ours is undone, as its readers do."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    if "frames.jsonl" in found:
        found["frames, read"] = b"\n".join(frame.raw for frame in read_frames(folder / "frames.jsonl"))
    if "workspace.patch" in found:
        for name in ("plain.txt", "packed.bin"):
            found[f"patch, {name}"] = applied(found["workspace.patch"], folder.parent, name)
    return found


def applied(patch: bytes, where: Path, name: str) -> bytes:
    """What a file of the patch becomes; nothing where it was emptied, since its hash is another one then."""
    tree = where / f"applied-{len(list(where.iterdir()))}"
    tree.mkdir()
    done = git("apply", "--whitespace=nowarn", f"--include=b/{name}", cwd=str(tree), stdin=patch, ok=(0, 1))
    assert done.returncode == 0 or b"incorrect result" in done.stderr, done.stderr
    return (tree / "b" / name).read_bytes() if (tree / "b" / name).exists() else b""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", FILES)
def test_files(kind: str, form: str, attempt: AttemptDir) -> None:
    FILES[kind](attempt.path, FORMS[form])
    before = said(attempt.path)
    # A patch has a mark before every line, so that only who applies it reads what goes over several.
    assert {name for name, data in before.items() if not says(data)} <= {"workspace.patch"}
    struck = Redactor([KEY]).files(attempt.path)
    after = said(attempt.path)
    assert [name for name, data in after.items() if says(data)] == []
    assert set(struck) == {
        name for name in before if name in after and before[name] != after[name] and ", " not in name
    }
    assert Redactor([KEY]).files(attempt.path) == []
    assert not list(attempt.path.rglob("*.tmp"))
    for name in ("program.json", "names.json", "fsdiff.json", "model.jsonl", "tape.jsonl"):
        for row in after.get(name, b"").splitlines():
            json.loads(row)
    if kind == "frames":
        assert [frame.seq for frame in read_frames(attempt.path / "frames.jsonl")] == [0, 1, 2, 3]
    if kind == "logs":
        assert len(after["stderr.log"]) == len(before["stderr.log"])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("redacted", [True, False], ids=["struck", "control"])
def test_the_record_and_all_that_is_made_of_it(form: str, redacted: bool, attempt: AttemptDir, tmp_path: Path) -> None:
    kept = record(FORMS[form])
    if redacted:
        kept = Record.model_validate(Redactor([KEY]).value(kept.model_dump()))
    attempt.commit(kept.written_out())
    sweep = SweepDir.read(tmp_path / "out")
    report = of_directory(sweep)
    found = compare(("a", "b"), [Pair(report.arms[0], report.arms[0])], Gate())
    texts = {form: render(sweep, form).encode() for form in REPORT_FORMS}
    texts |= {
        "record": (attempt.path / "record.json").read_bytes(),
        "table": render(sweep, "table").replace("\n  ", "").encode(),
        "verdicts.json": verdicts.to_json(found).encode(),
        "verdicts.csv": to_csv.of_comparison(found).encode(),
        "verdicts.html": html.render(report, [found]).encode(),
        "verdicts.junit": junit.render("s", junit.verdicts(found)).encode(),
        "verdicts.annotations": github.of_comparison(found).encode(),
    }
    file = history.append(tmp_path / "history", sweep)
    assert file is not None
    rows = pyarrow.parquet.read_table(file).to_pylist()
    texts["history"] = "\n".join(str(row[name] or "") for row in rows for name in ("metric", "text")).encode()
    told = [name for name, text in texts.items() if says(text)]
    if redacted:
        assert told == []
    else:
        assert {"record", "json", "csv", "verdicts.json", "history"} <= set(told)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_printed(form: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: Any) -> None:
    for known in (False, True):
        monkeypatch.setattr(redact, "_spoken", [Redactor([KEY])] if known else [])
        screen = io.StringIO()
        out(FORMS[form])
        err(FORMS[form])
        progress = PlainProgress(screen)
        progress.note(FORMS[form])
        progress.attempted(record(FORMS[form]))
        out_or_file(FORMS[form], tmp_path / "page")
        printed = capsys.readouterr()
        for text in (printed.out, printed.err, screen.getvalue(), (tmp_path / "page").read_text()):
            assert says(text.encode("latin-1", "backslashreplace")) is not known


def pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


#: How a text comes in pieces: a line of a surface's output.
STREAMS: dict[str, Callable[[str], dict[str, Any]]] = {
    "acp": lambda piece: {
        "jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": {
            "sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": piece}}}},
    "acp tool": lambda piece: {
        "jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": {
            "sessionUpdate": "tool_call_update", "toolCallId": "t", "rawInput": {"command": piece}}}},
    "cli": lambda piece: {
        "type": "stream_event", "event": {"type": "content_block_delta", "index": 0, "delta": {
            "type": "input_json_delta", "partial_json": piece}}},
}  # fmt: skip
OTHER = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": {
    "sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "well"}}}}  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 3, 5, 12, 20])
@pytest.mark.parametrize("form", ["plain", "hex", "base64 inside, 1"])
@pytest.mark.parametrize("stream", [*STREAMS, "lines"])
def test_a_key_cut_over_frames(stream: str, form: str, size: int, attempt: AttemptDir) -> None:
    text = f"here é: {FORMS[form]} and zq- zq-live zq"
    with FrameLogWriter(attempt.path / "frames.jsonl", attempt.path / "blobs", 10**8) as log:
        for n, piece in enumerate(pieces(text, size)):
            raw = piece if stream == "lines" else json.dumps(STREAMS[stream](piece), ensure_ascii=n % 2 == 0)
            log.write(Frame(2 * n, n, "a2c", "stdout", raw.encode()))
            log.write(Frame(2 * n + 1, n, "c2a", "stdin", json.dumps(OTHER).encode()))
    assert says(_joined(attempt.path, stream).encode())
    assert Redactor([KEY]).files(attempt.path) == ["frames.jsonl"]
    after = _joined(attempt.path, stream)
    assert not says(after.encode())
    assert after.startswith("here é: ")
    assert after.endswith(" and zq- zq-live zq")
    assert form.startswith("base64") or FORMS[form][-4:] not in after


def _joined(folder: Path, stream: str) -> str:
    raws = [frame.raw.decode() for frame in read_frames(folder / "frames.jsonl") if frame.channel == "stdout"]
    if stream == "lines":
        return "".join(raws)
    place = {"acp": ("params", "update", "content", "text"), "acp tool": ("params", "update", "rawInput", "command"),
             "cli": ("event", "delta", "partial_json")}[stream]  # fmt: skip
    texts = []
    for raw in raws:
        value = json.loads(raw)
        for name in place:
            value = value[name]
        texts.append(value)
    return "".join(texts)


def test_a_log_that_was_cut_says_no_half_of_a_key(attempt: AttemptDir) -> None:
    (attempt.path / "stderr.log").write_bytes(b"text " + KEY.encode()[:20])
    (attempt.path / "other.log").write_bytes(KEY.encode()[-20:] + b" text")
    assert Redactor([KEY]).files(attempt.path) == ["other.log", "stderr.log"]
    assert (attempt.path / "stderr.log").read_bytes() == b"text " + b"*" * 20
    assert (attempt.path / "other.log").read_bytes() == b"*** text"


@pytest.mark.parametrize("at", [0, 5, 2**16 - 9, 2**20 - 20, 2**20 - 1, 2**20, 2**20 + 2**16 - 7, 2**21 - 11])
@pytest.mark.parametrize("form", ["plain", "coloured"])
def test_a_key_on_the_edge_of_what_is_read_at_once(at: int, form: str, tmp_path: Path) -> None:
    said = FORMS[form].encode()
    (tmp_path / "big").write_bytes(b"-" * at + said + b"-" * (3 * 2**20 - at))
    assert Redactor([KEY]).files(tmp_path) == ["big"]
    after = (tmp_path / "big").read_bytes()
    assert not says(after.replace(b"-", b""))
    assert after.count(b"-") - after.count(b"***-") >= 3 * 2**20 - 2
    assert b"*" in after


def test_memory_stays_flat(tmp_path: Path) -> None:
    """Said by the process itself: what a log of 40 MB takes beyond what a small one does."""
    code = (
        "import resource, sys\nfrom pathlib import Path\nfrom runner.redaction.redact import Redactor\n"
        f"print(Redactor([{KEY!r}]).files(Path(sys.argv[1])))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    import subprocess

    def peak() -> int:
        ran = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
        assert "stderr.log" in ran.stdout
        return int(ran.stdout.split()[-1])

    (tmp_path / "stderr.log").write_bytes(KEY.encode())
    small = peak()
    with (tmp_path / "stderr.log").open("wb") as file:
        for n in range(40):
            file.write(bytes([65 + n % 26]) * 999_999 + b"\n")
        file.write(KEY.encode())
    assert peak() - small < 20_000


def test_a_file_that_cannot_be_rewritten_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from runner.errors import InfraError

    (tmp_path / "log").write_text(KEY)
    monkeypatch.setattr(Path, "replace", _refuse)
    with pytest.raises(InfraError, match="said a key, could not be rewritten and was removed"):
        Redactor([KEY]).files(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_searched_is_removed_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log").write_text(KEY)
    redactor = Redactor([KEY])
    monkeypatch.setattr(Redactor, "spans", _fail)
    assert redactor.files(tmp_path) == ["log (removed: the search failed: ValueError: a fault of ours)"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("length", range(1, 9))
def test_what_only_looks_like_base64_is_no_trouble(length: int, tmp_path: Path) -> None:
    written = json.dumps({"base64": "A" * length}).encode()
    (tmp_path / "tape.jsonl").write_bytes(written)
    assert Redactor([KEY]).files(tmp_path) == []
    assert (tmp_path / "tape.jsonl").read_bytes() == written


def _fail(*_: object) -> list[tuple[int, int]]:
    raise ValueError("a fault of ours")


def _refuse(*_: object) -> None:
    raise OSError(28, "No space left on device")
