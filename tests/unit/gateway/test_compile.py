"""Scripts of meanings become concrete tool calls, the same every time."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from runner.config.adapter import Adapter
from runner.config.catalog import Catalog
from runner.config.script import Script
from runner.errors import UsageError
from runner.gateway.compile import compile_program

ROOT = Path(__file__).resolve().parents[3]
TOOLS: dict[str, Any] = {
    "read": [
        {"tool": "Read", "arguments": {"file_path": "{path}", "offset": "{line}", "limit": "{limit}"}},
        {"tool": "cat", "arguments": {"command": "cat {path_sh}", "dir": "{workspace}"}},
    ],
    "run": [{"tool": "Bash", "arguments": {"command": "{command}", "timeout": 5000, "background": False}}],
    "edit": [{"tool": "patch", "arguments": "*** {relative_path}\n-{old}\n+{new}"}],
    "plan": [
        {
            "tool": "Todo",
            "arguments": {"todos": [{"content": "{entry}", "status": "pending"}], "text": "{entries_text}"},
        }
    ],
}


def adapter(tools: dict[str, Any] = TOOLS, **more: Any) -> Adapter:
    return Adapter.model_validate(
        {
            "id": "some-agent@1.0.0",
            "title": "",
            "image": "some-agent",
            "dialect": "anthropic",
            "packages": [{"registry": "npm", "name": "some-agent", "version": "1.0.0"}],
            "programs": [{"name": "agent", "command": ["agent"], "expect": "1"}],
            "tools": tools,
            **more,
        }
    )


def script(*steps: dict[str, Any], **more: Any) -> Script:
    return Script.model_validate({"id": "some-script", "steps": list(steps), **more})


def calls(*steps: dict[str, Any], tools: dict[str, Any] = TOOLS) -> list[Any]:
    """The calls of the first step."""
    program = compile_program(script(*steps), adapter(tools), "/workspace/x")
    found = program["steps"][0]["calls"]
    assert isinstance(found, list)
    return found


def test_a_call_has_every_alternative_in_the_tool_maps_order() -> None:
    assert calls({"read": {"path": "src/a b.js"}}) == [
        {
            "meaning": "read",
            "alternatives": [
                # offset and limit are null in the script, so the tool is not told of them
                {"tool": "Read", "arguments": {"file_path": "/workspace/x/src/a b.js"}},
                {"tool": "cat", "arguments": {"command": "cat '/workspace/x/src/a b.js'", "dir": "/workspace/x"}},
            ],
        }
    ]


def test_a_lone_placeholder_keeps_its_type() -> None:
    arguments = calls({"read": {"path": "a", "line": 3, "limit": 10}})[0]["alternatives"][0]["arguments"]
    assert arguments == {"file_path": "/workspace/x/a", "offset": 3, "limit": 10}


def test_paths_may_be_absolute_or_leave_the_workspace() -> None:
    def path(given: str) -> Any:
        return calls({"read": {"path": given}})[0]["alternatives"][0]["arguments"]["file_path"]

    assert path("../sibling/secret.txt") == "/workspace/sibling/secret.txt"
    assert path("/etc/hostname") == "/etc/hostname"


def test_arguments_may_be_one_text() -> None:
    found = calls({"edit": {"path": "a/b", "old": "{old}", "new": "x"}})[0]["alternatives"]
    # a value is never filled in again
    assert found == [{"tool": "patch", "arguments": "*** a/b\n-{old}\n+x"}]


def test_an_edit_and_a_new_file_can_be_said_as_a_patch() -> None:
    tools = {
        "edit": [
            {"tool": "apply_patch", "arguments": "{patch}"},
            {"tool": "exec", "arguments": {"cmd": "p {patch_sh}"}},
        ],
        "write": [{"tool": "apply_patch", "arguments": {"input": "{patch}"}}],
    }
    found = calls(
        {"edit": {"path": "a/b", "old": "1\n2's\n", "new": "1\n3\n"}, "write": {"path": "c", "content": "x\n"}},
        tools=tools,
    )
    body = "*** Begin Patch\n*** Update File: a/b\n@@\n 1\n-2's\n+3\n*** End Patch"
    assert [one["arguments"] for one in found[0]["alternatives"]] == [body, {"cmd": "p " + shlex.quote(body)}]
    assert found[1]["alternatives"][0]["arguments"]["input"].startswith("*** Begin Patch\n*** Add File: c\n+x\n")


def test_an_edit_that_no_patch_can_say_is_the_users_error_only_where_a_patch_is_asked_for() -> None:
    edit = {"edit": {"path": "a", "old": "1\n", "new": "2"}}
    assert calls(edit)
    with pytest.raises(
        UsageError, match=r"tools\.edit, apply_patch: \{patch\}: old and new must both end with a line feed"
    ):
        calls(edit, tools={"edit": [{"tool": "apply_patch", "arguments": "{patch}"}]})


def test_a_plan_repeats_its_element_for_each_entry() -> None:
    found = calls({"plan": {"entries": ["one", "two\nlines"]}})[0]["alternatives"][0]["arguments"]
    assert found == {
        "todos": [{"content": "one", "status": "pending"}, {"content": "two\nlines", "status": "pending"}],
        "text": "one\ntwo\nlines",
    }


def test_calls_of_one_step_stand_in_the_models_order_and_raw_calls_stay_as_they_are() -> None:
    found = calls(
        {"tool": {"tool": "Odd", "arguments": {"a": "{path}"}}, "run": {"command": "ls"}, "read": {"path": "a"}}
    )
    assert [call["meaning"] for call in found] == ["read", "run", "tool"]
    assert found[2]["alternatives"] == [{"tool": "Odd", "arguments": {"a": "{path}"}}]


@given(st.text(min_size=1), st.text())
def test_text_of_a_script_reaches_the_tool_unchanged(command: str, content: str) -> None:
    tools = {**TOOLS, "write": [{"tool": "Write", "arguments": {"note": "<{content}>", "content": "{content}"}}]}
    found = calls({"run": {"command": command}, "write": {"path": "f", "content": content}}, tools=tools)
    assert found[0]["alternatives"][0]["arguments"]["command"] == command
    assert found[1]["alternatives"][0]["arguments"] == {"note": f"<{content}>", "content": content}


@given(st.text(alphabet=st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), min_size=1, max_size=20))
def test_quoted_placeholders_survive_a_shell(pattern: str) -> None:
    tools = {**TOOLS, "search": [{"tool": "Bash", "arguments": {"command": "printf %s {pattern_sh}"}}]}
    command = calls({"search": {"pattern": pattern}}, tools=tools)[0]["alternatives"][0]["arguments"]["command"]
    assert subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=True).stdout == pattern.encode()


def test_a_step_finishes_by_whether_it_calls() -> None:
    steps = compile_program(script({"run": {"command": "ls"}}, {"say": "done", "think": "hm"}), adapter(), "/w")[
        "steps"
    ]
    assert [(step["index"], step["finish"], step["say"], step["think"]) for step in steps] == [
        (0, "tool_use", None, None),
        (1, "end_turn", "done", "hm"),
    ]
    assert steps[0]["usage"] == {"input": 1000, "output": 50, "cache_read": 0, "cache_write": 0, "reasoning": 0}


def test_the_program_is_json_and_the_same_every_time() -> None:
    made = [
        compile_program(
            script({"run": {"command": "ls"}}, {"say": "done"}, streaming={"chunk_size": 7}, latency={"ttft_ms": 5.0}),
            adapter(side_requests=[{"name": "title", "without_tools": True, "say": "{}"}]),
            "/workspace/x",
        )
        for _ in range(2)
    ]
    assert json.dumps(made[0]) == json.dumps(made[1])
    assert made[0]["streaming"] == {"chunk_size": 7}
    assert made[0]["latency"] == {"ttft_ms": 5.0, "tokens_per_s": None}
    assert made[0]["dialect"] == "anthropic"
    assert made[0]["side_requests"][0]["name"] == "title"


def test_a_missing_meaning_is_the_users_error_and_names_the_step() -> None:
    with pytest.raises(
        UsageError, match=r"script some-script, step 0: adapter some-agent@1.0.0 has no tool for 'write'"
    ):
        calls({"write": {"path": "a", "content": "b"}})


def test_an_unknown_placeholder_is_the_users_error_and_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"tools.run, Bash: unknown placeholder \{comand\}; did you mean 'command'"):
        calls({"run": {"command": "ls"}}, tools={"run": [{"tool": "Bash", "arguments": {"command": "{comand}"}}]})


def test_steps_behind_the_turns_end_are_refused() -> None:
    with pytest.raises(UsageError, match="step 2: never served: step 1 calls no tool"):
        compile_program(
            script({"run": {"command": "ls"}}, {"say": "done"}, {"run": {"command": "ls"}}), adapter(), "/w"
        )


def test_a_script_for_another_dialect_is_refused() -> None:
    with pytest.raises(UsageError, match=r"is for gemini; adapter some-agent@1\.0\.0 speaks anthropic"):
        compile_program(script({"say": "hi"}, dialects=["gemini"]), adapter(), "/w")


def test_fix_semver_compiles_for_the_adapter_and_its_edits_fit_the_fixture() -> None:
    catalog = Catalog(ROOT)
    at = (ROOT / "configs", None)
    program = compile_program(
        catalog.script("fix-semver", at), catalog.adapter("claude-agent-acp@0.64.0", at), "/workspace/semver"
    )
    made = [call for step in program["steps"] for call in step["calls"]]
    assert [call["meaning"] for call in made].count("edit") == 2
    assert [call["meaning"] for call in made].count("read") == 2
    assert len(made) >= 9
    assert program["steps"][-1]["finish"] == "end_turn"
    source = (ROOT / "fixtures/semver/tree/src/semver.js").read_text(encoding="utf-8")
    for call in made:
        if call["meaning"] == "edit":
            arguments = call["alternatives"][0]["arguments"]
            assert arguments["file_path"] == "/workspace/semver/src/semver.js"
            assert source.count(arguments["old_string"]) == 1
            source = source.replace(arguments["old_string"], arguments["new_string"])


def test_sub_agents_have_a_program_of_their_own() -> None:
    tools = {
        **TOOLS,
        "delegate": [{"tool": "Agent", "arguments": {"prompt": "{prompt}", "name": "{title}"}}],
        "mcp": [{"tool": "mcp__{server}__{tool}", "arguments": "{arguments}"}],
    }
    inner = [{"label": "sub:ls", "run": {"command": "ls"}}, {"say": "ok"}]
    steps: list[dict[str, Any]] = [
        {"label": "hand-over", "delegate": {"prompt": "Please list it.", "title": "List", "steps": inner}},
        {"mcp": {"server": "here", "tool": "look", "arguments": {"far": True}}},
        {"say": "done"},
    ]
    program = compile_program(script(*steps), adapter(tools), "/workspace/x")
    handed, asked, _ = program["steps"]
    assert handed["label"] == "hand-over"
    assert handed["calls"][0]["alternatives"] == [
        {"tool": "Agent", "arguments": {"prompt": "Please list it.", "name": "List"}}
    ]
    assert asked["label"] is None
    assert "effect" not in asked
    assert asked["calls"][0]["alternatives"] == [{"tool": "mcp__here__look", "arguments": {"far": True}}]
    (part,) = program["subagents"]
    assert (part["name"], part["marker"]) == ("subagent-0", "Please list it.")
    assert [step["label"] for step in part["steps"]] == ["sub:ls", None]
    assert part["steps"][0]["calls"][0]["alternatives"][0]["arguments"]["command"] == "ls"


def test_a_sub_agent_that_stops_early_is_refused() -> None:
    steps: list[dict[str, Any]] = [
        {"delegate": {"prompt": "Please list it.", "steps": [{"say": "ok"}, {"say": "never"}]}},
        {"say": "done"},
    ]
    tools = {"delegate": [{"tool": "Agent"}]}
    with pytest.raises(UsageError, match="sub-agent 0, step 1: never served: step 0 calls no tool"):
        compile_program(script(*steps), adapter(tools), "/workspace/x")


def test_calls_of_a_list_come_after_those_by_name_and_keep_their_order() -> None:
    found = calls(
        {
            "run": {"command": "a"},
            "calls": [{"run": {"command": "b"}}, {"read": {"path": "c"}}, {"run": {"command": "d"}}],
        }
    )
    assert [call["meaning"] for call in found] == ["run", "run", "read", "run"]
    assert [call["alternatives"][0]["arguments"].get("command") for call in found] == ["a", "b", None, "d"]


def test_conditions_stops_paces_and_faults_reach_the_program() -> None:
    made = compile_program(
        script(
            {"name": "try", "run": {"command": "ls"}},
            {"when": "rejected", "say": "no", "stop": "refusal"},
            {"when": {"step": "try", "lacks": "x"}, "run": {"command": "ls"}, "latency": {"ttft_ms": 5.0}},
            {"say": "cut", "stop": "max_tokens", "faults": [{"kind": "stall"}]},
            {"when": {"offered": "Ask"}, "say": "done"},
        ),
        adapter(results={"rejected": ["no!"]}, continuations=["^go on"]),
        "/w",
    )
    assert [step["when"] for step in made["steps"]] == [
        None,
        {"outcome": "rejected", "matches": None, "lacks": None, "step": None, "offered": None},
        {"outcome": None, "matches": None, "lacks": "x", "step": 0, "offered": None},
        None,
        {"outcome": None, "matches": None, "lacks": None, "step": None, "offered": "Ask"},
    ]
    assert [step["finish"] for step in made["steps"]] == ["tool_use", "refusal", "tool_use", "max_tokens", "end_turn"]
    assert made["steps"][2]["latency"] == {"ttft_ms": 5.0, "tokens_per_s": None}
    (fault,) = made["steps"][3]["faults"]
    assert fault == {"kind": "stall", "times": 1, "retry_after_s": 1, "after_events": 2, "delay_ms": 2000.0}
    assert made["results"]["rejected"] == ["no!"]
    assert made["continuations"] == ["^go on"]


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("The user doesn't want to proceed with this tool use.", "rejected"),
        ("Tool execution was cancelled by the user", "rejected"),
        ("exec_command failed: rejected by user", "rejected"),
        ("Process exited with code 1\nOutput: ...", "failed"),
        ("Exit code 1\nnot ok 2\n# cancelled 0", "failed"),
        ("User refused permission to run tool", "rejected"),
        ("sh: a: Permission denied\nExit code 126", "failed"),
        ("Command: node --test\nExit Code: 1", "failed"),
        ("Process exited with code 0\nOutput: ...", None),
        ("exit code: 0", None),
    ],
)
def test_results_are_read_without_an_adapters_own_patterns(text: str, outcome: str | None) -> None:
    patterns = adapter().results
    found = next(
        (name for name in ("rejected", "failed") if any(re.search(one, text) for one in getattr(patterns, name))), None
    )
    assert found == outcome


def test_a_side_rule_has_one_answer() -> None:
    with pytest.raises(ValidationError, match=r"gives 2 answers \(say, say_json\); a rule has one"):
        adapter(side_requests=[{"name": "x", "path": "/x", "say": "", "say_json": {}}])


def test_reasoning_is_a_part_of_the_output() -> None:
    with pytest.raises(ValidationError, match=r"reasoning \(60\) is a part of output \(50\)"):
        script({"say": "x", "usage": {"reasoning": 60}})


def test_what_shows_that_an_action_was_done_stands_beside_its_label() -> None:
    steps: list[dict[str, Any]] = [
        {"label": "look", "read": {"path": "a"}, "effect": {"shows": "b"}},
        {"label": "make", "run": {"command": "touch c"}, "effect": {"changes": "c"}},
        {"say": "done"},
    ]
    look, make, _ = compile_program(script(*steps), adapter(), "/workspace/x")["steps"]
    assert (look["effect"], make["effect"]) == ({"shows": "b"}, {"changes": "c"})
