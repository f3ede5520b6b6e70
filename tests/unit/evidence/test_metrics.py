"""Every exact metric in both directions: a run as it is, and a doctored log that moves this figure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runner.evidence import cost, metrics
from runner.evidence.conversation import Conversation
from runner.records.schema import Finding
from runner.surfaces.cli.parsers import CliResult, CliToolCall, CliUsage
from tests.unit.evidence.conversations import NO_CAPS, Log, entry, record, verdict

ENTRIES = [
    entry(510, 560, calls=("t1", "t2")),
    entry(900, 1000, seq=1, calls=("t3",)),
    entry(950, 1100, kind="side", seq=2, calls=("side",)),
]
TERMINAL = [{"type": "terminal", "terminalId": "t1"}]


def run(doctor: Callable[[Log], object] = lambda log: None, stop: str = "end_turn", mode: str = "default") -> Log:
    """Three calls, of which two are asked for; `doctor` adds to the turn just before its end."""
    log = Log().initialize().session(mode=mode).commands("init", "review")
    prompt = log.prompt()
    log.usage(1031).says("Look.", "m1").tool("t1", "read", "Read a.js").tool("t2", "edit", "Edit a.js")
    log.asks("t2", kind="edit")
    log.says("Run.", "m2").tool("t3", "execute", "node --test")
    log.asks("t3", kind="execute")
    doctor(log)
    return log.end(prompt, stop=stop, usage={"totalTokens": 5410})


def exact(log: Log, entries: Any = ENTRIES, **fields: Any) -> dict[str, Any]:
    return metrics.compute(record(**fields), log.conversation, entries, None)[0]


def test_an_acp_run() -> None:
    log = run()
    assert exact(log) == {
        "tool_calls": 3,
        "tool_calls_served": 3,
        "permission_requests": 2,
        "client_fs_calls": 0,
        "client_terminal_calls": 0,
        "undeclared_calls": 0,
        "terminal_content_items": 0,
        "usage_updates": 1,
        "commands_announced": 2,
        "model_requests": 2,
        "side_requests": 1,
        "side_requests_by_rule.title": 1,
        "tokens_reported": 5410,
        "tokens_served": 2100,
        "files_changed": 1,
        "stop_reason": "end_turn",
        "default_mode": "default",
        "schema_violations": 0,
        "frames": len(log.frames),
        "late_updates": 0,
        "tools_offered": 2,
        "tools_offered.Bash": True,
        "tools_offered.Read": True,
        "files_outside": None,
        "names_tried": None,
        "files_changed.src/0.js": True,
        "commands_announced.init": True,
        "commands_announced.review": True,
        "modes.default": True,
        "modes.plan": True,
        "capabilities.loadSession": True,
        "capabilities.promptCapabilities.image": True,
        "config_options.mode": "default",
        "permission_options.allow:allow_once": 2,
        "permission_options.allow_always:allow_always": 2,
        "permission_options.reject:reject_once": 2,
        "tool_calls_by_kind.edit": 1,
        "tool_calls_by_kind.execute": 1,
        "tool_calls_by_kind.read": 1,
        "permission_requests_by_kind.edit": 1,
        "permission_requests_by_kind.execute": 1,
        "updates.agent_message_chunk": 2,
        "updates.available_commands_update": 1,
        "updates.tool_call": 3,
        "updates.tool_call_update": 3,
        "updates.usage_update": 1,
        "update_chunks.agent_message_chunk": 2,
        "update_chunks.tool_call_update": 3,
    }


@pytest.mark.parametrize(
    ("doctor", "moved"),
    [
        (
            lambda log: log.tool("t4", "search"),
            {"tool_calls": 4, "tool_calls_by_kind.search": 1, "updates.tool_call": 4},
        ),
        (lambda log: log.asks("t4"), {"tool_calls": 4, "tool_calls_by_kind.other": 1, "permission_requests": 3}),
        (
            lambda log: log.asks("t1"),
            {"permission_requests": 3, "permission_requests_by_kind.read": 1, "tool_calls": 3},
        ),
        (lambda log: log.calls("fs/read_text_file"), {"client_fs_calls": 1, "client_terminal_calls": 0}),
        (lambda log: log.calls("fs/write_text_file"), {"client_fs_calls": 1, "undeclared_calls": 0}),
        (lambda log: log.calls("terminal/create"), {"client_terminal_calls": 1, "client_fs_calls": 0}),
        (lambda log: log.calls("elicitation/create", {"mode": "form"}), {"undeclared_calls": 1, "client_fs_calls": 0}),
        (lambda log: log.calls("_vendor/ping"), {"undeclared_calls": 0, "permission_requests": 2}),
        (lambda log: log.update("tool_call_update", toolCallId="t3", content=TERMINAL), {"terminal_content_items": 1}),
        (lambda log: log.usage(1080), {"usage_updates": 2, "updates.usage_update": 2}),
        (lambda log: log.asks("t9", options=[]), {"permission_requests": 3, "permission_options.allow:allow_once": 2}),
        (lambda log: log.commands("doctor"), {"commands_announced": 1, "commands_announced.doctor": True}),
        (lambda log: log.commands("init"), {"commands_announced": 1, "updates.available_commands_update": 2}),
        (lambda log: log.says("on", "m2"), {"updates.agent_message_chunk": 2, "update_chunks.agent_message_chunk": 3}),
        (lambda log: log.says("new", "m3"), {"updates.agent_message_chunk": 3}),
        (lambda log: log.update("plan", entries=[]), {"updates.plan": 1}),
    ],
)
def test_a_doctored_log_moves_the_figure(doctor: Callable[[Log], object], moved: dict[str, Any]) -> None:
    found = exact(run(doctor))
    assert {name: found[name] for name in moved} == moved


def test_frames_count_what_crossed_but_not_stderr() -> None:
    plain = exact(run())["frames"]
    assert exact(run(lambda log: log.raw("stderr", b"noise")))["frames"] == plain
    assert exact(run(lambda log: log.raw("stdout", b"noise")))["frames"] == plain + 1


def test_an_undeclared_call_is_a_call_too() -> None:
    log = Log().initialize(NO_CAPS).session()
    prompt = log.prompt()
    log.calls("fs/read_text_file", error={"code": -32601, "message": "no"})
    log.calls("terminal/create", error={"code": -32601, "message": "no"})
    found = exact(log.end(prompt))
    assert (found["client_fs_calls"], found["client_terminal_calls"], found["undeclared_calls"]) == (1, 1, 2)


def test_late_updates() -> None:
    assert exact(run().says("late", "m9"))["late_updates"] == 1


@pytest.mark.parametrize(("stop", "mode"), [("end_turn", "auto"), ("cancelled", "plan")])
def test_stop_reason_and_default_mode(stop: str, mode: str) -> None:
    found = exact(run(stop=stop, mode=mode))
    assert (found["stop_reason"], found["default_mode"]) == (stop, mode)


def test_a_failed_prompt_has_no_stop_reason() -> None:
    log = Log().initialize().session()
    log.close(log.prompt(), error={"code": -32603, "message": "no"})
    assert exact(log)["stop_reason"] is None


def test_what_the_model_served() -> None:
    fewer = exact(run(), entries=ENTRIES[:1])
    assert (fewer["model_requests"], fewer["side_requests"], fewer["tool_calls_served"]) == (1, 0, 2)
    retried = exact(run(), entries=[*ENTRIES, entry(1100, 1200, seq=3, calls=("t3",))])
    assert (retried["model_requests"], retried["tool_calls_served"], retried["tokens_served"]) == (3, 3, 3150)
    misses = exact(run(), entries=[*ENTRIES, entry(1100, 1200, seq=3, kind="miss", calls=("t9",))])
    assert (misses["model_requests"], misses["side_requests"], misses["tool_calls_served"]) == (2, 1, 3)


def test_what_the_disk_says() -> None:
    assert exact(run(), verdict=verdict(changes=0))["files_changed"] == 0
    assert exact(run(), verdict=verdict(changes=4))["files_changed"] == 4
    assert exact(run(), verdict=None)["files_changed"] is None


def test_schema_violations_of_both_severities() -> None:
    findings = [
        Finding(id="schema-invalid", message="a"),
        Finding(id="schema-invalid-tolerated", message="b"),
        Finding(id="late-update", message="c"),
    ]
    found = exact(run(), findings=findings)
    assert found["schema_violations"] == 2
    assert {name: value for name, value in found.items() if name.startswith("findings.")} == {
        "findings.late-update": 1,
        "findings.schema-invalid": 1,
        "findings.schema-invalid-tolerated": 1,
    }
    assert metrics.is_information("findings.late-update")


def cli(**fields: Any) -> CliResult:
    calls = {id: CliToolCall(id, name, kind, 0) for id, name, kind in [("a", "Bash", "execute"), ("b", "Read", "read")]}
    plain: dict[str, Any] = {"result_ns": 6_500_000_000, "duration_ms": 900.0, "stop": "end_turn", "tool_calls": calls}
    return CliResult("claude-stream-json", **(plain | {"usage": CliUsage(5010, 250, 100, 50)} | fields))


def test_a_cli_run_has_no_boundary() -> None:
    log = Log()
    log.raw("stdout", b'{"type":"system"}')
    found, sampled = metrics.compute(record(surface="cli"), log.conversation, ENTRIES, cli())
    assert found == {
        "tool_calls": 2,
        "tool_calls_by_kind.execute": 1,
        "tool_calls_by_kind.read": 1,
        "tool_calls_served": 3,
        "permission_requests": None,
        "client_fs_calls": None,
        "client_terminal_calls": None,
        "undeclared_calls": None,
        "terminal_content_items": None,
        "usage_updates": None,
        "commands_announced": None,
        "model_requests": 2,
        "side_requests": 1,
        "side_requests_by_rule.title": 1,
        "tokens_reported": 5410,
        "tokens_served": 2100,
        "files_changed": 1,
        "stop_reason": "end_turn",
        "default_mode": None,
        "schema_violations": None,
        "tools_offered": 2,
        "tools_offered.Bash": True,
        "tools_offered.Read": True,
        "files_outside": None,
        "names_tried": None,
        "files_changed.src/0.js": True,
        "frames": 1,
        "late_updates": None,
    }
    assert (sampled["turn_ms"], sampled["handshake_ms"]) == (900.0, None)


def test_a_cli_whose_format_has_no_tool_calls() -> None:
    found, _ = metrics.compute(record(), Conversation(), [], CliResult("generic", stop=None, subtype="success"))
    assert (found["tool_calls"], found["stop_reason"]) == (None, "success")
    none, _ = metrics.compute(record(), Conversation(), [], cli(tool_calls={}))
    assert none["tool_calls"] == 0


def test_every_contract_name_is_there_whatever_happened() -> None:
    for result in (None, CliResult("generic")):
        found, sampled = metrics.compute(record(agent=None, verdict=None), Conversation(), [], result)
        assert set(metrics.NAMES) <= set(found)
        assert set(sampled) == set(cost.NAMES)


@pytest.mark.parametrize(
    ("name", "information", "owner"),
    [
        ("frames", True, None),
        ("late_updates", True, None),
        ("update_chunks.agent_message_chunk", True, "permission_requests"),
        ("updates.tool_call", False, "permission_requests"),
        ("tool_calls_by_kind.read", False, "tool_calls"),
        ("commands_announced.init", False, "commands_announced"),
        ("files_outside.~/.cache/x.y", False, "files_outside"),
        ("tool_calls", False, None),
        ("updates", False, None),
    ],
)
def test_names(name: str, information: bool, owner: str | None) -> None:
    assert metrics.is_information(name) is information
    assert metrics.owner(name) == owner


def test_side_requests_are_told_apart_by_rule() -> None:
    entries = [*ENTRIES, entry(300, 301, "side", seq=9), entry(302, 303, "side", seq=10, rule="loop-check")]
    found = exact(run(), entries)
    assert found["side_requests"] == 3
    assert {name: value for name, value in found.items() if name.startswith("side_requests_by_rule.")} == {
        "side_requests_by_rule.loop-check": 1,
        "side_requests_by_rule.title": 2,
    }


def test_faults_have_figures_only_where_one_was_met() -> None:
    assert not [name for name in exact(run()) if name.startswith("faults.")]
    met = [
        entry(10, 20, "fault", seq=20, step=7, fault="rate-limit", attempt=1),
        entry(30, 40, seq=21, step=7, attempt=2),
    ]
    log = run()
    found, sampled = metrics.compute(record(), log.conversation, [*ENTRIES, *met], None)
    assert (found["faults.met"], found["faults.retries"], found["faults.outcome"]) == (1, 1, "recovered")
    assert sampled["fault_lost_ms"] == 20.0
    assert found["model_requests"] == 3


def test_what_a_run_does_not_have() -> None:
    """Counts say 0, names say no, values say nothing; and nothing is said where the map does not apply."""
    assert metrics.absent("updates.plan", 5) == 0
    assert metrics.absent("tools_offered.Read", 3) is False
    assert metrics.absent("tools_offered.Read", None) is None
    assert metrics.absent("config_options.model", 5) is None
    assert metrics.absent("tool_calls", 5) is None


def test_tools_are_those_of_the_runs_own_main_requests() -> None:
    others = [
        entry(10, 20, "side", seq=20, tools=["SideTool"]),
        entry(10, 20, seq=21, subagent="helper", tools=["HelperTool"]),
        entry(10, 20, seq=22, tools=["Read", "Late"]),
    ]
    found = exact(run(), [*ENTRIES, *others])
    assert {name for name in found if name.startswith("tools_offered.")} == {
        "tools_offered.Bash",
        "tools_offered.Late",
        "tools_offered.Read",
    }
    assert found["tools_offered"] == 3
    assert exact(run(), [])["tools_offered"] is None


def test_files_outside_are_those_that_were_not_given() -> None:
    files: list[dict[str, Any]] = [
        {"path": "/home/agent/.agent/config", "sha256": "aa"},
        {"path": "/home/agent/.agent/log", "sha256": "bb"},
        {"path": "/home/agent/link", "sha256": None},
    ]
    given = {"/home/agent/.agent/config": "aa", "/home/agent/link": None}

    def outside(**changed: str | None) -> dict[str, Any]:
        left = metrics.LeftoverFiles(
            files, {**given, **{f"/home/agent/{name}": value for name, value in changed.items()}}
        )
        found, _ = metrics.compute(record(agent_env={"HOME": "/home/agent"}), Conversation(), [], None, left)
        return {name: value for name, value in found.items() if name.startswith("files_outside")}

    assert outside() == {"files_outside": 1, "files_outside.~/.agent/log": True}
    assert outside(link="cc") == {"files_outside": 2, "files_outside.~/.agent/log": True, "files_outside.~/link": True}
    assert outside(**{".agent/log": "bb"}) == {"files_outside": 0}


def test_names_tried_are_null_where_nobody_listened() -> None:
    def tried(names: list[str] | None) -> dict[str, Any]:
        found, _ = metrics.compute(record(), Conversation(), [], None, tried=names)
        return {name: value for name, value in found.items() if name.startswith("names_tried")}

    assert tried(None) == {"names_tried": None}
    assert tried([]) == {"names_tried": 0}
    assert tried(["b.example", "a.example", "b.example"]) == {
        "names_tried": 2,
        "names_tried.a.example": True,
        "names_tried.b.example": True,
    }
    assert metrics.owner("names_tried.a.example") == "names_tried"


@pytest.mark.parametrize(
    ("name", "older", "newer"),
    [
        ("tools_offered", False, True),
        ("tools_offered.Read", False, True),
        ("modes.plan", False, True),
        ("commands_announced.init", False, True),
        ("commands_announced", True, True),
        ("updates.plan", True, True),
        ("side_requests", True, True),
    ],
)
def test_what_a_report_is_too_old_to_have(name: str, older: bool, newer: bool) -> None:
    assert metrics.measured(name, {"tool_calls": 1}) is older
    assert metrics.measured(name, {"tool_calls": 1, "tools_offered": None}) is newer


def test_what_an_agent_says_of_itself_becomes_figures_that_every_reader_holds() -> None:
    deep: Any = 1
    for _ in range(400):
        deep = [deep]
    said = {"id": "x", "currentValue": 10**400}, {"id": "y", "currentValue": deep}, {"id": "z", "currentValue": 1e999}
    log = Log()
    log.request("initialize", result={"protocolVersion": 1, "agentCapabilities": {"n": 2**70, "deep": deep}})
    log.request("session/new", result={"sessionId": "s", "configOptions": list(said)})
    found = exact(log)
    assert found["config_options.x"] == "1e400 or so"
    assert found["config_options.z"] == "inf"
    assert found["capabilities.n"] == "1e21 or so"
    assert found["config_options.y"] == found["capabilities.deep"]
    assert '"..."' in found["capabilities.deep"]


def test_any_number_of_names_is_a_few_metrics_and_a_count() -> None:
    calls = {str(number): CliToolCall(str(number), "x", f"kind{number:06}", 1) for number in range(20_000)}
    found, _ = metrics.compute(record(), Conversation(), [], CliResult("generic", tool_calls=calls, stop="s" * 10**6))
    kinds = {name for name in found if name.startswith("tool_calls_by_kind.")}
    assert len(kinds) == 501
    assert found["tool_calls_by_kind.<more>"] == 19_500
    assert found["tool_calls"] == 20_000
    assert len(found["stop_reason"]) < 1000


def test_long_names_stay_apart() -> None:
    calls = {name: CliToolCall(name, "x", "k" * 5000 + name, 1) for name in ("a", "b")}
    found, _ = metrics.compute(record(), Conversation(), [], CliResult("generic", tool_calls=calls))
    kinds = {name for name in found if name.startswith("tool_calls_by_kind.")}
    assert len(kinds) == 2
    assert all(len(name) < 200 for name in kinds)


def test_findings_count_beyond_those_that_are_listed() -> None:
    listed = [Finding(id="not-json", message="x"), Finding(id="schema-invalid", message="x")]
    counts = {"not-json": 300_000, "schema-invalid": 1000, "schema-invalid-tolerated": 5}
    found, _ = metrics.compute(record(findings=listed), Conversation(), [], None, found=counts)
    assert found["findings.not-json"] == 300_000
    assert found["schema_violations"] == 1005
