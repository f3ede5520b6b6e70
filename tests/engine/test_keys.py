"""A key that comes back in every form: out of an upstream before the agent hears it, and out of all that a run leaves.

Each is shown twice: struck, and with the redactor off, when the same search must find it.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from runner.analysis import history
from runner.cli.findings import Format
from runner.cli.main import run
from runner.gateway.cassette import dump, tape_of
from runner.records.store import SweepDir
from runner.redaction import redact
from runner.report.render import REPORT_FORMS
from runner.sweep.resources import SweepResources
from runner.wire.log import read_frames
from tests.engine.api import Reply, answer, serving
from tests.engine.gateway_harness import ledger
from tests.engine.lab import Lab, packed, repaired
from tests.engine.place import Place
from tests.engine.test_gateway import question
from tests.engine.test_live_sweeps import Live
from tests.unit.secret_texts import FORMS, KEY, says

pytestmark = pytest.mark.engine


def delta(text: str) -> bytes:
    body = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    return f"event: content_block_delta\ndata: {json.dumps(body)}\n\n".encode()


def spoken(stream: bytes) -> str:
    """What the deltas of a stream say together."""
    lines = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith(b"data: ")]
    return "".join(line["delta"]["text"] for line in lines if "delta" in line)


def cut(data: bytes, size: int) -> tuple[bytes, ...]:
    return tuple(data[at : at + size] for at in range(0, len(data), size))


SSE = {"content-type": "text/event-stream"}
REPLIES = {
    **{f"whole: {name}": Reply(answer(f"it is {form}.")) for name, form in FORMS.items()},
    **{f"cut: {name}": Reply(pieces=cut(answer(f"it is {form}."), 37)) for name, form in FORMS.items()},
    **{
        f"deltas of {size}": Reply(headers=SSE, pieces=tuple(delta(one.decode()) for one in cut(KEY.encode(), size)))
        for size in (4, 7, 20)
    },
    "deltas, cut": Reply(headers=SSE, pieces=cut(b"".join(delta(one.decode()) for one in cut(KEY.encode(), 9)), 50)),
    "cut short": Reply(pieces=(b'{"error": "the key ', KEY.encode()[:30]), cut=True),
    "refused": Reply(f"no such key: {KEY}".encode(), status=401),
    "refused, long": Reply(b"x" * 180 + KEY.encode(), status=403),
    "header": Reply(headers={"retry-after": KEY, "content-type": f"text/plain; {KEY}"}),
    "no UTF-8": Reply(pieces=(b"\xff\xfe" + KEY.encode()[:11], KEY.encode()[11:] + b"\xff")),
    "redirect": Reply(status=302, headers={"location": f"http://elsewhere.example/{KEY}"}),
}


def test_neither_the_agent_nor_the_ledger_hears_the_key_from_an_upstream(place: Place) -> None:
    place.key = KEY
    gateway = place.start()
    for name, reply in REPLIES.items():
        place.api.replies = [reply]
        token = place.register(gateway)
        try:
            _, text = place.ask(token, question(stream=reply.headers is SSE))
        except http.client.IncompleteRead as short:
            text = short.partial.decode()
        except UnicodeDecodeError as odd:
            text = odd.object.decode("latin-1")
        found = ledger(gateway, token)
        kept = b"\n".join(found.lines)
        tape = b"".join(dump(tape_of(found.entries)))
        for told in (text.encode(), spoken(text.encode()).encode(), kept, tape):
            assert not says(told), name
            assert KEY[6:30] not in told.decode("utf-8", "replace"), name
            assert KEY.encode()[:12] not in told, name
        if name.startswith(("whole", "cut: ")):
            assert "it is " in text, name
            assert "***" in text, name
    assert place.lost
    assert not says(json.dumps(place.lost).encode())


def test_an_upstream_that_says_no_key_is_passed_on_as_it_comes(place: Place) -> None:
    """Byte for byte, and the ledger has the chunks as they came: nothing waits for more."""
    place.key = KEY
    gateway = place.start()
    pieces = (delta("zq-"), delta("liv"), delta("é and zq-liv")[:50], delta("é and zq-liv")[50:], delta("er"))
    place.api.replies = [Reply(headers=SSE, pieces=pieces)]
    token = place.register(gateway)
    _, text = place.ask(token, question())
    assert text.encode() == b"".join(pieces)
    (entry,) = ledger(gateway, token).entries
    assert entry.tape is not None
    assert "".join(str(chunk) for _, chunk in entry.tape.chunks).encode() == b"".join(pieces)
    assert len(entry.tape.chunks) >= 3


def told(text: str) -> list[dict[str, Any]]:
    """Acts that say a text wherever an agent can."""
    name = text.replace("/", "\u2044").replace("\0", "")[:100]
    call = {"toolCallId": text, "title": text, "kind": "execute", "status": "pending", "rawInput": {"command": text}}
    return [
        {"do": "say", "text": text},
        {"do": "raw", "text": text.replace("\n", "\r") + "\n"},
        {"do": "raw", "to": "stderr", "text": text + "\n"},
        {"do": "update", "update": {"sessionUpdate": "tool_call", **call}},
        {"do": "update", "update": {"sessionUpdate": text, "content": [text]}},
        {"do": "send", "message": {"jsonrpc": "2.0", "id": text, "method": text, "params": {text: text}}},
        {"do": "write", "path": f"{name}.txt", "text": text},
        {"do": "write", "path": f"{name}.bin", "text": "\0\1" * 2000 + text},
        {"do": "write", "path": f"/home/agent/{name}", "text": text},
    ]


ACTS = [act for form in FORMS.values() for act in told(form)]
ASKS = [{"do": "ask", "tool_call": {"toolCallId": form, "title": form, "kind": "edit"}} for form in FORMS.values()]
PIECES = [{"do": "say", "text": KEY[at : at + 7]} for at in range(0, len(KEY), 7)]


@pytest.fixture
def live(lab: Lab, tmp_path: Path) -> Iterator[Live]:
    with serving(tmp_path / "api") as api:
        made = Live(lab, api, tmp_path / "api/api.sock")
        made.key = KEY
        (lab.root / "key").write_text(KEY)
        yield made


@pytest.mark.timeout(300)
@pytest.mark.parametrize("struck", [True, False], ids=["struck", "control"])
def test_nothing_that_a_run_leaves_says_the_key(
    live: Live, struck: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lab = live.lab
    if not struck:
        monkeypatch.setattr(SweepResources, "redactor", None)
        monkeypatch.setattr(redact, "know", lambda _keys: None)
        monkeypatch.setattr(redact, "_spoken", [])
    write = {"do": "write", "path": "src/semver.js", "text": f"{repaired()}\n// {{}}\n"}
    acts = [{"do": "model"}, write, packed([*ACTS, *PIECES, *ASKS])]
    surfaces = ("acp", "cli")
    result, records = lab.sweep(lab.puppet("knows", acts), model="capture/api", surfaces=surfaces, infra_attempts=1)
    out = result.directory
    history.append(tmp_path / "history", SweepDir.read(out))
    root = ["--root", str(lab.root)]
    for form in REPORT_FORMS:
        run([*root, "report", str(out), "--format", form, "-o", str(out / f"made.{form}")])
        run([*root, "report", str(out), "--format", form])
    for form in Format:
        run([*root, "findings", str(out), "--format", form, "-o", str(out / f"findings.{form}")])
    for attempt in (out / "runs").glob("*/1"):
        run([*root, "frames", str(attempt), "--with-model"])
    printed = capsys.readouterr()
    (table,) = (pyarrow.parquet.read_table(file) for file in (tmp_path / "history").iterdir())
    found = {
        "stdout": printed.out.encode(),
        "stderr": printed.err.encode(),
        "history": "\n".join(f"{row['metric']} {row['text']}" for row in table.to_pylist()).encode(),
    }
    for path in [*out.rglob("*"), *(lab.root / "configs/cassettes").rglob("*")]:
        if path.is_file():
            found[path.relative_to(lab.root).as_posix()] = path.read_bytes()
    for log in out.rglob("frames.jsonl"):
        raws = [frame.raw for frame in read_frames(log)]
        found[f"{log.parent.parent.name}: frames"] = b"\n".join(raws)
        found[f"{log.parent.parent.name}: said"] = "".join(_said(raws)).encode()
    says_it = {name for name, data in found.items() if says(data) or KEY.encode() in data}
    if struck:
        assert says_it == set()
        assert [record.outcome for record in records] == ["passed"] * 2, [record.reason for record in records]
        assert (out / "report.json").stat().st_size > 1000
    else:
        ends = {name.rpartition("/")[2] for name in says_it}
        assert ends >= {
            "record.json", "frames.jsonl", "stderr.log", "workspace.patch", "fsdiff.json", "report.json", "made.json",
            "made.csv", "made.html", "stdout", "history",
        }  # fmt: skip


def _said(raws: Sequence[bytes]) -> Iterator[str]:
    for raw in raws:
        if b"agent_message_chunk" in raw:
            yield json.loads(raw)["params"]["update"]["content"]["text"]
