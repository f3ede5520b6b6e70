"""The verbs that need no engine, through typer's runner."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from typer.testing import CliRunner, Result

from runner.cli import adapters, report
from runner.cli.app import app
from runner.config.catalog import Catalog
from runner.config.loaded_sweep import load_sweep
from runner.config.plan import plan
from runner.errors import AcpbenchError, ConfigError, UsageError
from runner.records.schema import Record
from runner.records.store import SweepDir
from runner.report.render import REPORT_FORMS
from runner.sandbox.images import ImageInfo
from runner.wire.frames import Frame
from tests.unit.evidence.conversations import entry


def invoke(root: Path, *args: str) -> Result:
    return CliRunner().invoke(app, ["--root", str(root), *args], standalone_mode=False)


def raised(root: Path, *args: str) -> AcpbenchError:
    error = invoke(root, *args).exception
    assert isinstance(error, AcpbenchError)
    return error


@pytest.fixture
def config(root: Path) -> str:
    return str(root / "configs/sweeps/small.yaml")


@pytest.fixture
def directory(root: Path, config: str) -> Path:
    """A sweep's directory: every cell passed but one, which never ran."""
    loaded = load_sweep(Path(config), Catalog(root))
    cells = plan(loaded)
    path = root / "results/one"
    with SweepDir.create(path, loaded.source, {"sweep": "small"}, cells) as made:
        for cell in cells[:-1]:
            attempt = made.attempt(cell)
            ids: dict[str, Any] = {
                key: getattr(cell, key)
                for key in (
                    "arm",
                    "replicate",
                    "warmup",
                    "adapter",
                    "surface",
                    "fixture",
                    "policy",
                    "model",
                    "reset",
                    "expect",
                )
            }
            attempt.commit(
                Record(
                    sweep="small", cell=cell.name, attempt=attempt.number, outcome="passed",
                    started_at="2026-01-01T00:00:00Z", start_ns=0, end_ns=10**9, exact={"tool_calls": 9},
                    sampled={"wall_ms": 1000.0}, **ids,
                )
            )  # fmt: skip
    return path


def test_dry_run_prints_every_cell_and_makes_nothing(root: Path, config: str) -> None:
    done = invoke(root, "sweep", config, "--dry-run")
    assert done.return_value == 0
    rows = [line.split() for line in done.stdout.splitlines()[2:12]]
    planned = plan(load_sweep(Path(config), Catalog(root)))
    assert [row[2] for row in rows] == [cell.name for cell in planned]
    assert rows[0][1] == "warm-up"
    assert "9 runs in 3 arms, after 1 warm-up(s)" in done.stdout
    assert not (root / "results").exists()


def test_dry_run_shows_the_limits_of_agents_and_verifiers(root: Path, config: str) -> None:
    fixture = root / "fixtures/semver/fixture.yaml"
    fixture.write_text(fixture.read_text().replace("tests: 3}", "tests: 3, limits: {memory_mb: 777}, timeout_s: 12}"))
    lines = invoke(root, "sweep", config, "--dry-run").output.splitlines()
    assert ["agent", "agent@1.0.0", "2048", "2.0", "512", "1024", "-"] in [line.split() for line in lines]
    assert ["verifier", "of", "semver", "777", "2.0", "512", "1024", "12"] in [line.split() for line in lines]


def test_fixture_pin_says_what_it_wrote_and_then_that_nothing_is_to_do(root: Path) -> None:
    folder = root / "fixtures/semver"
    (folder / "tree").mkdir(exist_ok=True)
    (folder / "tree/a.js").write_text("a")
    first = invoke(root, "fixture", "pin", str(folder))
    assert first.output.count(" -> ") == 2
    assert "are pinned already" in invoke(root, "fixture", "pin", str(folder)).output
    assert isinstance(raised(root, "fixture", "pin", str(root)), UsageError)


def test_fixture_check_tells_what_is_wrong_before_it_looks_for_an_engine(root: Path) -> None:
    folder = root / "fixtures/semver"
    (folder / "tree/a.js").write_text("a")
    assert "is pinned, but" in str(raised(root, "fixture", "check", str(folder)))
    invoke(root, "fixture", "pin", str(folder))
    assert "the reference solution is missing" in str(raised(root, "fixture", "check", str(folder)))
    assert "unknown adapter" in str(raised(root, "fixture", "check", str(folder), "--adapter", "nobody@1"))


def test_dry_run_with_repeat_and_only(root: Path, config: str) -> None:
    done = invoke(root, "sweep", config, "--dry-run", "--repeat", "2", "--only", "*--cli--*")
    assert "2 runs in 1 arms, after 1 warm-up(s)" in done.stdout
    assert "fits no cell" in str(raised(root, "sweep", config, "--dry-run", "--only", "nothing"))


def test_dry_run_with_another_adapter(root: Path, config: str) -> None:
    text = Path(config).read_text().replace("adapters: [agent@1.0.0]\n    ", "", 1)
    Path(config).write_text(text + "adapters: [agent@1.0.0]\n")
    done = invoke(root, "sweep", config, "--dry-run", "--adapter", "other@2")
    assert "6 runs in 2 arms, after 1 warm-up(s)" in done.stdout
    assert "agent-1.0.0" not in done.stdout
    assert "did you mean 'other@2'?" in str(raised(root, "sweep", config, "--dry-run", "--adapter", "othr@2"))


def test_wrong_config(root: Path, config: str) -> None:
    Path(config).write_text(Path(config).read_text().replace("adapters", "adaptor"))
    error = raised(root, "sweep", config, "--dry-run")
    assert isinstance(error, ConfigError)
    assert str(error).endswith("small.yaml:3: unknown key 'adaptor'; did you mean 'adapters'?")
    assert "did you mean" in str(raised(root, "sweep", config.replace("small", "smal"), "--dry-run"))


def test_resume_takes_the_plan_that_is_there(root: Path, config: str, directory: Path) -> None:
    done = invoke(root, "sweep", config, "--resume", "--out", str(directory), "--dry-run")
    assert "9 runs in 3 arms" in done.stdout
    assert "say which with --out" in str(raised(root, "sweep", config, "--resume"))
    message = str(raised(root, "sweep", config, "--resume", "--out", str(directory), "--repeat", "1"))
    assert "leave out --repeat and --only" in message
    assert "no such folder" in str(raised(root, "sweep", config, "--resume", "--out", str(directory / "x")))


def test_report(root: Path, directory: Path, tmp_path: Path) -> None:
    found = json.loads(invoke(root, "report", str(directory), "--format", "json").stdout)
    assert found["sweep"] == "small"
    assert sorted(arm["surface"] for arm in found["arms"]) == ["acp", "cli", "nocaps"]
    outcomes = [arm["outcomes"] for arm in found["arms"]]
    assert sum(one.get("passed", 0) for one in outcomes) == 8
    assert sum(one.get("missing", 0) for one in outcomes) == 1
    assert "small" in invoke(root, "report", str(directory)).stdout
    file = tmp_path / "r.md"
    done = invoke(root, "report", str(directory), "--format", "markdown", "-o", str(file))
    assert done.stdout == ""
    assert file.read_text().startswith("## small")


def test_report_of_nothing(root: Path, directory: Path) -> None:
    assert "did you mean 'one'?" in str(raised(root, "report", str(directory.with_name("onee"))))
    (next((directory / "runs").glob("*/1")) / "record.json").write_text("{")
    assert "record.json: not JSON" in str(raised(root, "report", str(directory)))


@pytest.fixture
def run(directory: Path) -> Path:
    """An attempt with a frame log: a request, an answer, something that is not JSON."""
    from runner.wire.log import FrameLogWriter

    path = next((directory / "runs").glob("*--r1/1"))
    frames = [
        Frame(0, 5_000_000, "c2a", "stdin", b'{"jsonrpc":"2.0","id":0,"method":"initialize"}'),
        Frame(1, 7_500_000, "a2c", "stdout", b'{"jsonrpc":"2.0","id":0,"result":{"text":"caf\xc3\xa9"}}'),
        Frame(2, 8_000_000, "a2c", "stdout", b"\x1b[31mnot json\xff" + b"x" * 500),
    ]
    log = FrameLogWriter(path / "frames.jsonl", path / "blobs", 10**6)
    for frame in frames:
        log.write(frame)
    log.close()
    return path


def test_frames(root: Path, run: Path) -> None:
    listed = invoke(root, "frames", str(run), "--width", "100").stdout.splitlines()
    assert len(listed) == 3
    assert listed[0].split()[2:6] == ["->", "stdin", "46", "initialize"]
    assert listed[1].split()[2:4] == ["<-", "stdout"]
    assert "\x1b" not in listed[2]
    assert max(map(len, listed)) <= 100


def test_frames_with_the_model(root: Path, run: Path) -> None:
    assert "has no model.jsonl" in str(raised(root, "frames", str(run), "--with-model"))
    asked = entry(6.0, 7.0, seq=0, calls=("c",)).model_copy(
        update={"t_request_end_ns": 6_000_000, "t_first_byte_ns": 6_500_000, "t_response_end_ns": 7_000_000}
    )
    (run / "model.jsonl").write_text(asked.model_dump_json() + "\n\n")
    done = invoke(root, "frames", str(run), "--with-model", "--width", "90")
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["0", "m0", "m0", "1", "2"]
    assert lines[1].split()[2:] == ["=>", "model", "0", "POST", "/v1/messages", "to", "a-model:", "step", "0"]
    assert lines[2].endswith("200, first byte after 0.5 ms, Read {}")
    assert max(map(len, lines)) <= 90
    assert done.stderr.startswith("turn_ms -, model_ms -")
    (run / "model.jsonl").write_text("{}\n")
    assert "model journal, line 1" in str(raised(root, "frames", str(run), "--with-model"))


def test_one_frame_whole(root: Path, run: Path) -> None:
    found = invoke(root, "frames", str(run), "--seq", "1")
    assert json.loads(found.stdout)["result"] == {"text": "café"}
    assert found.stderr.startswith("seq 1, ")
    assert invoke(root, "frames", str(run), "--seq", "2").stdout.count("x") >= 500
    assert "has no frame 9" in str(raised(root, "frames", str(run), "--seq", "9"))


def test_frames_of_what_is_no_attempt(root: Path, run: Path) -> None:
    assert f"for example {run}" in str(raised(root, "frames", str(run.parent)))
    assert "has no frames.jsonl" in str(raised(root, "frames", str(root)))
    assert "did you mean" in str(raised(root, "frames", str(run.parent.with_name(run.parent.name + "x"))))
    (run / "frames.jsonl").write_text("{}\n{}\n")
    assert "not a frame log" in str(raised(root, "frames", str(run)))


def test_adapters_list_without_an_engine(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{root}/no.sock")
    listed = invoke(root, "adapters", "list")
    words = ["agent@1.0.0", "acp,", "cli", "anthropic", "agent-1", "-", "-", "-", "agent@1.0.0"]
    lines = listed.stdout.splitlines()
    assert lines[2].split() == words
    assert listed.stderr.startswith("sizes are unknown: ")
    assert lines[3].split()[:2] == ["other@2", "acp"]


def test_adapters_list_says_what_one_more_version_costs(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = (root / "configs/adapters/agent-1.0.0.yaml").read_text()
    (root / "configs/adapters/agent-1.1.0.yaml").write_text(other.replace("agent@1.0.0", "agent@1.1.0"))

    def images(own: int | None) -> dict[str, ImageInfo]:
        info = ImageInfo(name="agent-1", title="", tag="a", id="b", size_mb=300, own_mb=own, shared_layers=4, layers=6)
        return {"agent-1": info}

    monkeypatch.setattr(adapters, "_images", lambda _: images(120))
    lines = invoke(root, "adapters", "list").stdout.splitlines()
    assert "4/6" in lines[2]
    assert lines[-1] == "one more version of agent: 120 to 120 MB, as the 2 that are built"
    monkeypatch.setattr(adapters, "_images", lambda _: images(None))
    assert "one more version" not in invoke(root, "adapters", "list").stdout


def test_script_check(root: Path) -> None:
    done = invoke(root, "script", "check")
    assert done.return_value == 0
    assert [line.split()[-1] for line in done.stdout.splitlines()[2:]] == ["ok", "ok"]
    (root / "configs/models/find.yaml").write_text("id: find\nsteps:\n  - search: {pattern: x}\n  - say: hi\n")
    done = invoke(root, "script", "check", "find")
    assert done.return_value == 64
    assert "search" in done.stdout
    assert str(raised(root, "script", "check", "find", "--adapter", "other@2")).endswith(
        "find.yaml:3: step 0: adapter other@2 has no tool for 'search' (its tools say: read, run)"
    )
    assert isinstance(raised(root, "script", "check", "fnid"), UsageError)


def test_script_check_leaves_out_other_dialects(root: Path) -> None:
    (root / "configs/models/fix.yaml").write_text("id: fix\ndialects: [gemini]\nsteps: [{say: hi}]\n")
    done = invoke(root, "script", "check")
    assert done.return_value == 0
    assert done.stdout.count("not meant for it: no dialect gemini") == 2
    assert invoke(root, "script", "check", "--adapter", "other@2").stdout == ""
    assert "is for gemini; adapter other@2 speaks" in str(
        raised(root, "script", "check", "fix", "--adapter", "other@2")
    )


def test_script_check_shows_what_each_step_becomes(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "id: mine\nsteps:\n"
        "  - {name: try, think: hm, say: I look., calls: [{run: {command: ls}}, {run: {command: pwd}}]}\n"
        "  - {when: {outcome: failed, matches: ENOENT, step: try}, say: no, stop: refusal, usage: {cache_read: 5}}\n"
        "  - {tool: {tool: Odd, arguments: text}, faults: [{kind: rate-limit, times: 2}, {kind: reset, times: null}]}\n"
    )
    lines = invoke(root, "script", "check", str(file), "--adapter", "agent@1.0.0").stdout.splitlines()
    assert lines[0].startswith("mine for agent@1.0.0 (anthropic)")
    cells = [" ".join(line.split()) for line in lines[4:]]
    assert cells[:4] == ['0 - think "hm" 1,000/50 - -', 'say "I look."', cells[2], cells[3]]
    assert [cell.partition(" {")[0] for cell in cells[2:4]] == ["run: Bash", "run: Bash"]
    assert cells[4] == '1 failed and matches /ENOENT/ (of step 0) say "no" 1,005/50 refusal -'
    assert cells[5] == '2 - tool: Odd (freeform) "text" 1,000/50 - rate-limit x2, reset always'


def test_a_script_that_can_never_be_played_is_refused_with_its_line(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "id: mine\nsteps:\n  - when: ok\n    say: hi\n  - say: bye\n  - say: more\n    when: {step: x, lacks: a}\n"
    )
    errors = str(raised(root, "script", "check", str(file), "--adapter", "agent@1.0.0")).splitlines()
    assert [line.partition("mine.yaml")[2] for line in errors] == [
        ":3: the first step has no step before it",
        ":6: never served: step 1 calls no tool, which ends the turn; give that step a `when`",
        ":7: no earlier step is named 'x' (named: none)",
    ]


def test_schema(root: Path) -> None:
    jsonschema_rs.meta.validate(json.loads(invoke(root, "schema", "adapter").stdout))
    assert "sweep" in invoke(root, "schema").stdout.splitlines()
    assert "did you mean 'adapter'?" in str(raised(root, "schema", "adaptor"))


def test_dry_run_checks_the_pins_of_all_fixtures(root: Path, config: str) -> None:
    """Without a container; what only its line ends make differ is said."""
    text = (root / "fixtures/semver/fixture.yaml").read_text()
    for name in ("other", "third"):
        (root / f"fixtures/{name}/tree").mkdir(parents=True)
        (root / f"fixtures/{name}/tree/a.js").write_text("1\n")
        (root / f"fixtures/{name}/fixture.yaml").write_text(text.replace("id: semver", f"id: {name}"))
    Path(config).write_text(Path(config).read_text().replace("[semver]", "[semver, other, third]"))
    (root / "fixtures/semver/tree/a.js").write_bytes(b"1\r\n")
    (root / "fixtures/third/tree/b.js").write_text("new\n")
    said = str(raised(root, "sweep", config, "--dry-run")).splitlines()
    assert [line.partition("fixtures/")[2].partition(": ")[0] for line in said] == [
        "other/fixture.yaml:3",
        "semver/fixture.yaml:2",
        "third/fixture.yaml:2",
    ]
    assert "commit 7388d20fe43894f53c0978ab58d5ec668fabe6f7 is pinned" in said[0]
    assert "CRLF line ends" in said[1]
    assert "CRLF" not in said[2]


def test_resume_takes_no_plan_of_another_configuration(root: Path, config: str, directory: Path) -> None:
    plan_file = directory / "plan.jsonl"
    whole = plan_file.read_text()
    for old, new, words in (
        ('"adapter": "agent@1.0.0"', '"adapter": "gone@1"', "plans the adapter 'gone@1'"),
        ('"model": "scripted/fix"', '"model": "scripted/gone"', "plans the model 'scripted/gone'"),
        ('"matrix": 0', '"matrix": 7', "is not the plan of"),
        ('"surface": "acp"', '"surface": "../../etc"', "no surface is called '../../etc'"),
        ('"replicate": 1', '"replicate": -1', "not a cell of a plan"),
    ):
        assert old in whole
        plan_file.write_text(whole.replace(old, new))
        message = str(raised(root, "sweep", config, "--resume", "--out", str(directory), "--dry-run"))
        assert words in message
        assert "\n" not in message


def test_resume_empties_no_file_that_a_link_leads_to(root: Path, config: str, directory: Path) -> None:
    secret = root / "secret"
    secret.write_text("mine")
    owner = directory / ".owner"
    for kind in ("link", "pipe"):
        owner.unlink()
        if kind == "link":
            owner.symlink_to(secret)
        else:
            os.mkfifo(owner)
        with pytest.raises(UsageError, match=r"\.owner: "):
            SweepDir.resume(directory)
    assert secret.read_text() == "mine"


def test_frames_takes_no_digit_for_an_index_that_is_none(root: Path, run: Path) -> None:
    assert "has no found_at_start.\u00b2" in str(raised(root, "frames", str(run), "--record", "found_at_start.\u00b2"))


def test_the_command_line_offers_every_form_of_a_report() -> None:
    assert {form.value for form in report.Format} == set(REPORT_FORMS)
