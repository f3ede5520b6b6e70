"""Runs with an agent on strings: callbacks really served, outcomes by cause, verdicts that the agent cannot reach."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from runner.errors import ConfigError
from tests.engine.lab import REPOSITORY, Lab, attempt, repaired, stderr

pytestmark = pytest.mark.engine

MODEL: dict[str, Any] = {"do": "model"}
REPAIR: dict[str, Any] = {"do": "write", "path": "src/semver.js", "text": repaired()}
ROOT = "/workspace/semver"


def test_every_callback_is_really_served(lab: Lab) -> None:
    acts = [
        MODEL,
        REPAIR,
        {
            "do": "call",
            "method": "fs/read_text_file",
            "params": {"path": f"{ROOT}/package.json", "line": 2, "limit": 1},
            "expect": "semver",
        },
        {
            "do": "call",
            "method": "fs/write_text_file",
            "params": {"path": f"{ROOT}/notes/new.txt", "content": "héllo\n"},
        },
        {"do": "shell", "command": "cat notes/new.txt"},
        {"do": "call", "method": "terminal/create", "params": {"command": "pwd; echo from-$0"}, "save": "terminalId"},
        {
            "do": "call",
            "method": "terminal/wait_for_exit",
            "params": {"terminalId": "{terminalId}"},
            "expect": '"exitCode": 0',
        },
        {"do": "call", "method": "terminal/output", "params": {"terminalId": "{terminalId}"}, "expect": ROOT},
        {"do": "call", "method": "terminal/release", "params": {"terminalId": "{terminalId}"}},
        {"do": "call", "method": "terminal/output", "params": {"terminalId": "{terminalId}"}, "expect": '"error"'},
        {
            "do": "call",
            "method": "terminal/create",
            "params": {"command": "sleep", "args": ["60"]},
            "save": "terminalId",
        },
        {"do": "call", "method": "terminal/kill", "params": {"terminalId": "{terminalId}"}},
        {
            "do": "call",
            "method": "terminal/wait_for_exit",
            "params": {"terminalId": "{terminalId}"},
            "expect": "signal",
        },
        {"do": "ask", "tool_call": {"toolCallId": "c1", "kind": "edit", "title": "edit"}},
    ]
    result, (record,) = lab.sweep(lab.puppet("callbacks", acts))
    assert record.outcome == "passed", (record.reason, stderr(result, record))
    assert "héllo" in stderr(result, record)
    assert record.exact["client_fs_calls"] == 2
    assert record.exact["client_terminal_calls"] == 8
    assert record.exact["permission_requests"] == 1
    assert record.exact["undeclared_calls"] == 0
    assert record.verdict is not None
    assert [change.path for change in record.verdict.changes] == ["notes/new.txt", "src/semver.js"]
    assert record.sampled["client_ms"] is not None


def test_what_was_not_declared_is_refused_and_what_lies_outside_is_denied(lab: Lab) -> None:
    read = {"do": "call", "method": "fs/read_text_file", "params": {"path": "/etc/hostname"}, "expect": '"error"'}
    link = {"do": "shell", "command": "ln -s /etc link"}
    through = {**read, "params": {"path": f"{ROOT}/link/hostname"}}
    result, records = lab.sweep(
        lab.puppet("outside", [MODEL, REPAIR, read, link, through]), surfaces=["acp", "acp-nocaps"]
    )
    full, none = sorted(records, key=lambda record: record.surface)
    assert (full.surface, full.outcome, none.outcome) == ("acp", "passed", "passed"), stderr(result, full)
    assert (full.exact["undeclared_calls"], none.exact["undeclared_calls"]) == (0, 2)
    assert [finding.id for finding in none.findings].count("undeclared-method") == 2
    assert "-32601" in stderr(result, none)
    assert "-32601" not in stderr(result, full)


@pytest.mark.parametrize(
    ("name", "acts", "outcome", "words"),
    [
        ("crash", [MODEL, {"do": "exit", "code": 7}], "agent-error", "exit code 7"),
        ("memory", [MODEL, {"do": "eat", "mb": 2000}], "agent-error", "out of memory"),
        ("disk", [MODEL, {"do": "shell", "command": "head -c 300M /dev/zero > big; sleep 9"}], "agent-error", "limit"),
        ("suicide", [MODEL, {"do": "shell", "command": "kill -9 -1"}], "agent-error", ""),
        ("unasked", [REPAIR], "model-script", "not asked for"),
        ("idle", [MODEL], "task-failed", "1 of 3 tests pass"),
        ("hang", [MODEL, {"do": "say", "text": "..."}, {"do": "hang"}], "timeout:turn", ""),
    ],
)
def test_each_cause_has_its_outcome(lab: Lab, name: str, acts: list[Any], outcome: str, words: str) -> None:
    deadlines = {"turn": 5.0, "silence": 20.0, "cancel_grace": 0.3, "exit": 0.3, "terminate": 0.3}
    result, (record,) = lab.sweep(lab.puppet(name, acts), knobs={"deadlines": deadlines}, infra_attempts=1)
    assert record.outcome == outcome, (record.reason, stderr(result, record))
    assert words in record.reason
    assert result.exit_code == 1
    # Whatever happened, the evidence reads.
    assert json.loads((attempt(result, record) / "record.json").read_text())["outcome"] == outcome
    assert (attempt(result, record) / "frames.jsonl").stat().st_size > 0


def test_an_expected_failure_fails_nothing(lab: Lab) -> None:
    result, (record,) = lab.sweep(lab.puppet("idle", [MODEL]), expect="task-failed")
    assert (record.outcome, result.exit_code) == ("task-failed", 0)


EVIL = """\
#!/bin/sh
echo pwned > pwned-by-git
"""
PLANTED: list[dict[str, Any]] = [
    {"do": "write", "path": "evil.sh", "text": EVIL},
    {"do": "shell", "command": "chmod +x evil.sh; git config core.fsmonitor ./evil.sh; git config core.hooksPath ."},
    {"do": "shell", "command": "git config filter.x.clean ./evil.sh; git config filter.x.smudge ./evil.sh"},
    {"do": "shell", "command": "git config diff.external ./evil.sh; git config diff.x.textconv ./evil.sh"},
    {"do": "write", "path": ".gitattributes", "text": "* filter=x diff=x\n"},
]


def test_a_planted_git_configuration_runs_nothing_of_ours(lab: Lab) -> None:
    result, (record,) = lab.sweep(lab.puppet("planted", [MODEL, REPAIR, *PLANTED]))
    assert record.outcome == "passed", record.reason
    assert record.verdict is not None
    paths = [change.path for change in record.verdict.changes]
    assert paths == [".gitattributes", "evil.sh", "src/semver.js"]
    assert json.loads((attempt(result, record) / "fsdiff.json").read_text())["git_changed"] is True
    # Positive control: the trap works where git runs on the agent's own repository.
    armed = [*PLANTED, {"do": "shell", "command": "git status >/dev/null; ls >&2"}]
    result, (record,) = lab.sweep(lab.puppet("armed", [MODEL, *armed]), expect="task-failed")
    assert "pwned-by-git" in stderr(result, record)


FORGED = "TAP version 13\n# tests 3\n# pass 3\n# fail 0\n"


@pytest.mark.parametrize(
    ("name", "acts", "words"),
    [
        (
            "prints",
            [{"do": "write", "path": "src/semver.js", "text": f"console.log({FORGED!r}); process.exit(0);"}],
            "tests",
        ),
        ("package", [{"do": "write", "path": "package.json", "text": '{"scripts": {"test": "true"}}'}], "tests"),
        ("decoy", [{"do": "write", "path": "verdict.json", "text": '{"passed": true}'}], "1 of 3"),
        (
            "shadow",
            [
                {
                    "do": "shell",
                    "command": "mkdir bin; printf '#!/bin/sh\nexit 0' > bin/node; chmod +x bin/node",
                }
            ],
            "1 of 3",
        ),
        ("edited", [REPAIR, {"do": "shell", "command": "echo '// kind' >> test/semver.test.js"}], "protected paths"),
        ("emptied", [{"do": "shell", "command": "rm -r test"}], "protected paths"),
        ("linked", [{"do": "shell", "command": "mv test aside; ln -s aside test"}], "protected paths"),
    ],
)
def test_a_forged_result_is_no_pass(lab: Lab, name: str, acts: list[Any], words: str) -> None:
    _, (record,) = lab.sweep(lab.puppet(name, [MODEL, *acts]), expect="task-failed")
    assert record.outcome == "task-failed"
    assert words in record.reason


def test_a_fixture_that_is_not_its_pin_is_refused_before_anything_starts(lab: Lab, tmp_path: Path) -> None:
    (lab.root / "fixtures").unlink()
    shutil.copytree(REPOSITORY / "fixtures", lab.root / "fixtures", symlinks=True)
    (lab.root / "fixtures/semver/tree/src/semver.js").write_text("// other\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"fixture\.yaml:3: tree \w+ is pinned, but"):
        lab.sweep(lab.puppet("pinned", [MODEL]), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("away", "mv semver /home/agent/aside && ln -s /home/agent/aside semver"),
        ("gone", "rm -rf semver; echo > semver"),
    ],
)
def test_an_agent_that_takes_its_workspace_away_has_failed_its_task(lab: Lab, name: str, command: str) -> None:
    acts = [MODEL, REPAIR, {"do": "shell", "command": f"cd .. && {command}"}]
    result, (record,) = lab.sweep(lab.puppet(name, acts), expect="task-failed")
    assert record.outcome == "task-failed", record.reason
    assert "protected paths were changed: test/semver.test.js" in record.reason
    left = json.loads((attempt(result, record) / "fsdiff.json").read_text(encoding="utf-8"))
    assert left["skipped"] == [{"path": ".", "reason": "no folder any more"}]


def test_numbers_beyond_all_bounds_end_no_sweep(lab: Lab) -> None:
    info = {"protocolVersion": 1, "agentInfo": {"name": "x", "version": "VERSION"}}
    answer = json.dumps({"jsonrpc": "2.0", "id": 0, "result": info}).replace('"VERSION"', "1e999")
    acts: list[dict[str, Any]] = [
        {"do": "await", "method": "initialize"},
        {"do": "raw", "text": answer + "\n"},
        {"do": "await", "method": "session/new"},
        {"do": "answer", "result": {"sessionId": "puppet-session"}},
        {"do": "await", "method": "session/prompt"},
        {"do": "keep"},
        MODEL,
        REPAIR,
        {"do": "end", "stop": "end_turn"},
    ]
    _, (record,) = lab.sweep(lab.puppet("boundless", acts, mode=["wire"]))
    assert (record.outcome, record.agent_info) == ("passed", {"name": "x", "version": "inf"}), record.reason


def test_a_record_that_cannot_be_made_says_so_and_ends_no_sweep(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OverflowError("what nobody thought of")

    monkeypatch.setattr("runner.run.record.compute", fails)
    result, records = lab.sweep(lab.puppet("unthought", [MODEL, REPAIR]), infra_attempts=1, repeat=2)
    assert [record.outcome for record in records] == ["infra", "infra"]
    assert "OverflowError: what nobody thought of" in records[0].reason
    assert "tests/engine/" not in records[0].reason
    assert "(runner/run/record.py:" in records[0].reason
    folder = attempt(result, records[0])
    assert (folder / "frames.jsonl").stat().st_size > 0
    assert "what nobody thought of" in (folder / "traceback.txt").read_text("utf-8")


def own_fixture(lab: Lab, **verify: Any) -> None:
    """The lab's own semver, judged otherwise."""
    (lab.root / "fixtures").unlink()
    shutil.copytree(REPOSITORY / "fixtures", lab.root / "fixtures", symlinks=True)
    path = lab.root / "fixtures/semver/fixture.yaml"
    body = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    body["verify"] = {"protected": ["test"], **verify}
    path.write_text(json.dumps(body), encoding="utf-8")


def test_a_verifier_that_is_not_there_is_not_the_agents_fault(lab: Lab) -> None:
    own_fixture(lab, command=["no-such-verifier"], parser="exit-code")
    _, records = lab.sweep(lab.puppet("judged", [MODEL, REPAIR]))
    assert [record.outcome for record in records] == ["infra"]  # and it is not tried again
    assert "spawn_failed" in records[0].reason
    assert "no-such-verifier" in records[0].reason


def test_the_tests_have_their_own_limit_beside_the_phases(lab: Lab) -> None:
    own_fixture(lab, command=["sleep", "3"], parser="exit-code", timeout_s=30)
    _, (record,) = lab.sweep(lab.puppet("slow", [MODEL, REPAIR]), knobs={"deadlines": {"verify": 2.0}})
    assert record.outcome == "passed", record.reason


def test_a_resolver_that_cannot_be_started_is_not_the_agents_fault(lab: Lab) -> None:
    resolver = {"command": ["no-such-resolver"], "query": "query (.*)"}
    lab.write("surfaces", {"id": "resolved", "transport": "acp", "resolver": resolver})
    _, records = lab.sweep(lab.puppet("resolved", [MODEL, REPAIR]), surfaces=["resolved"])
    assert [record.outcome for record in records] == ["infra"]
    assert "no-such-resolver" in records[0].reason


def test_the_hosts_environment_stays_outside(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    config = tmp_path_factory.mktemp("docker")
    proxies = {"default": {"httpProxy": "http://of-the-host-proxy.invalid:1", "noProxy": "of-the-host-no-proxy"}}
    (config / "config.json").write_text(json.dumps({"proxies": proxies}), encoding="utf-8")
    monkeypatch.setenv("DOCKER_CONFIG", str(config))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "of-the-host-sk-ant-api03-0123456789")
    monkeypatch.setenv("HTTPS_PROXY", "http://of-the-host-env-proxy.invalid:1")
    monkeypatch.delenv("HTTPS_PROXY")  # docker-py itself would use it; its name in the config is what must not leak
    monkeypatch.setenv("ACPBENCH_TEST_SECRET", "of-the-host-host-variable")
    acts = [MODEL, {"do": "shell", "command": "env; cat /proc/self/environ /proc/1/environ"}]
    result, (record,) = lab.sweep(lab.puppet("env", acts), expect="task-failed")
    assert "HOME=/home/agent" in stderr(result, record)
    for path in result.directory.rglob("*"):
        if path.is_file():
            assert b"of-the-host" not in path.read_bytes(), path


def test_a_survivor_is_found_and_ended(lab: Lab) -> None:
    acts = [MODEL, REPAIR, {"do": "shell", "command": "setsid sleep 4321 >/dev/null 2>&1 </dev/null &"}]
    _, (record,) = lab.sweep(lab.puppet("daemon", acts))
    assert record.outcome == "passed"
    assert record.agent is not None
    assert record.agent.survivors == ["sleep 4321"]
    (finding,) = [finding for finding in record.findings if finding.id == "process-left-behind"]
    assert finding.message == "1 outlived the agent: sleep 4321"


def test_odd_names_are_collected_and_judged(lab: Lab) -> None:
    odd = r"""python3 - <<'E'
import os
for name in (b"new\nline", b"bad\xffutf8", b"x" * 255, b" lead", b"-rf", b"quo\"te"):
    open(name, "wb").write(b"odd")
os.symlink("../../../etc/passwd", "out")
E"""
    _, (record,) = lab.sweep(lab.puppet("odd", [MODEL, REPAIR, {"do": "shell", "command": odd}]))
    assert record.outcome == "passed", record.reason
    assert record.verdict is not None
    assert len(record.verdict.changes) == 8


def test_a_flood_on_both_streams_is_bounded(lab: Lab) -> None:
    flood = [
        {"do": "raw", "text": "x" * 9999 + "\n", "times": 3000},
        {"do": "raw", "to": "stderr", "text": "y" * 9999 + "\n", "times": 3000},
    ]
    knobs = {"frames_cap_mb": 2, "stderr_cap_mb": 1}
    result, (record,) = lab.sweep(lab.puppet("flood", [MODEL, REPAIR, *flood]), knobs=knobs)
    assert record.outcome == "passed", record.reason
    assert record.cut["frames"] > 0
    assert record.cut["stderr_bytes"] > 0
    size = sum(path.stat().st_size for path in attempt(result, record).rglob("*") if path.is_file())
    assert size < 6_000_000
