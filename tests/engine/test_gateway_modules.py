"""The gateway's pure modules, run by the image's own Node: what counts as the same request, and what an answer says."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from docker import DockerClient

from runner.config.cassette import NORMALISER_VERSION
from runner.sandbox.images import Images
from runner.sandbox.throwaway import output
from tests.unit.secret_texts import FORMS, KEY, says

pytestmark = pytest.mark.engine

Node = Callable[[str, Any], Any]


@pytest.fixture(scope="module")
def node(engine: DockerClient) -> Node:
    """`node(expression, value)`: an expression over the modules' exports and `given`, as JSON."""
    image = Images(engine).ensure("gateway").id

    def evaluate(expression: str, given: Any) -> Any:
        script = (
            'import { VERSION, normalise, again, rulesOf, differences } from "/opt/gateway/normalise.mjs";'
            'import { readAnswer } from "/opt/gateway/answers.mjs";'
            'import { short, unparsable, limitsOf } from "/opt/gateway/limits.mjs";'
            'import { speaks } from "/opt/gateway/history.mjs";'
            'import { origin } from "/opt/gateway/upstream.mjs";'
            'import { redactor, struckParts } from "/opt/gateway/redact.mjs";'
            'import { striker } from "/opt/gateway/strike.mjs";'
            f"const given = {json.dumps(given)};"
            f"console.log(JSON.stringify({expression}));"
        )
        argv = ["/opt/node/bin/node", "--input-type=module", "-e", script]
        code, printed = output(engine, image, argv)
        assert code == 0, printed
        return json.loads(printed)

    return evaluate


ALL = ["reminders", "dates", "ids", "paths", "durations", "processes"]
NORMALISE = (
    "given.asked.map((asked) => normalise({method: 'POST', path: '/v1/messages', headers: {}, body: '', tools: [],"
    " ...asked}, rulesOf(given.rules), 'the-run-token'))"
)


def forms(node: Node, *asked: dict[str, Any], rules: list[Any] | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = node(NORMALISE, {"asked": list(asked), "rules": ALL if rules is None else rules})
    return found


def result(content: Any) -> dict[str, Any]:
    return {"json": {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": content}]}]}}


#: What may differ from day to day and machine to machine, in a tool's result, and what it becomes.
VOLATILE = [
    ("drwxr-xr-x 5 agent agent 4096 Nov 30 13:40 .git", "drwxr-xr-x 5 agent agent 4096 <date> .git"),
    ("-rw-r--r-- 1 agent agent 242 Nov  3  2025 package.json", "-rw-r--r-- 1 agent agent 242 <date> package.json"),
    ("at 2026-11-30T13:40:12.123Z and 2026-11-30 13:40", "at <date> and <date>"),
    ("Mon Nov 30 13:40:12 UTC 2026", "<date>"),
    ("Mon, 30 Nov 2026 13:40:12 GMT", "<date>"),
    ("today is November 30, 2026.", "today is <date>."),
    ("✔ compares (0.95858ms)", "✔ compares (<duration>)"),
    ("ℹ duration_ms 48.421888", "ℹ duration_ms <duration>"),  # noqa: RUF001 - as node --test prints it
    ("real\t0m0.123s", "real\t<duration>"),
    ("Ran 3 tests in 0.002s", "Ran 3 tests in <duration>"),
    ("wrote /tmp/x-81f/out.txt, /home/agent/tmp/a", "wrote <temporary-path>, <temporary-path>"),
    ("session 1b4e28ba-2fa1-11d2-883f-0016d3cca427 ends", "session <uuid> ends"),
    ("msg_01a22d57-aaeb-7000-aa4c-b425ee198ee5", "msg_<uuid>"),
    ("Process Group PGID: 46", "Process Group PGID: <process>"),
    ("Background PIDs: 17", "Background PIDs: <process>"),
    ('{"pid": 4711, "ppid":1}', '{"pid": <process>, "ppid":<process>}'),
    ("process id 12 ended", "process id <process> ended"),
    ("http://127.0.0.1:4010/r/the-run-token/v1", "http://127.0.0.1:4010/r/<acpbench-run>/v1"),
]


def test_both_sides_know_the_same_version(node: Node) -> None:
    assert node("VERSION", None) == NORMALISER_VERSION


def test_what_is_volatile_in_a_tool_result(node: Node) -> None:
    found = forms(node, *(result(before) for before, _ in VOLATILE))
    texts = [one["request"]["body"]["messages"][0]["content"][0]["content"] for one in found]
    assert texts == [after for _, after in VOLATILE]


STABLE = [
    "1 !== -1", "at file.js:19:1", "commit 1fba6e603933d0adfb1931b8d5d0b2f637016295", "version 1.0.0-alpha.10",
    "5 insertions(+)", "port 4010", "/workspace/semver/src/semver.js", "3 tests", "v25.9.0", "80%", "12 msgs",
    "process 3 files", "rapid 5",
]  # fmt: skip


def test_what_is_not_volatile_stays(node: Node) -> None:
    found = forms(node, *map(result, STABLE))
    assert [one["request"]["body"]["messages"][0]["content"][0]["content"] for one in found] == STABLE


def test_durations_are_volatile_in_tool_results_alone_of_every_dialect(node: Node) -> None:
    results: list[dict[str, Any]] = [
        {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": [{"text": "took 5 ms"}]}]}]},
        {"messages": [{"role": "tool", "content": "took 5 ms"}]},
        {"input": [{"type": "function_call_output", "output": "took 5 ms"}]},
        {"contents": [{"parts": [{"functionResponse": {"response": {"output": "took 5 ms"}}}]}]},
    ]
    words: list[dict[str, Any]] = [
        {"messages": [{"role": "user", "content": "took 5 ms"}]},
        {"input": "took 5 ms"},
        {"contents": [{"parts": [{"text": "took 5 ms"}]}]},
    ]
    found = [json.dumps(one["request"]) for one in forms(node, *({"json": body} for body in results + words))]
    assert ["took <duration>" in text for text in found] == [True] * 4 + [False] * 3


def test_the_system_prompt_and_the_tools_are_hashed_not_matched(node: Node) -> None:
    def asked(system: str, description: str, reminder: str, beta: str) -> dict[str, Any]:
        return {
            "headers": {"anthropic-beta": beta, "cookie": beta},
            "tools": ["b", "a"],
            "json": {
                "system": [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}],
                "tools": [{"name": "b", "description": description}, {"name": "a"}],
                "metadata": {"user_id": system},
                "messages": [
                    {"role": "system", "content": system},
                    {"role": "user", "content": f"<system-reminder>{reminder}</system-reminder>go"},
                ],
            },
        }

    first = asked("a", "b", "Today's date is 2026-11-30.", "d")
    variants = [
        first,
        asked("a", "b", "Today's date is 2027-03-01.", "d"),
        asked("A", "b", "Today's date is 2026-11-30.", "d"),
        asked("a", "B", "Today's date is 2026-11-30.", "d"),
        asked("a", "b", "Be brief.", "d"),
        asked("a", "b", "Today's date is 2026-11-30.", "D"),
    ]
    found = forms(node, *variants)
    assert len({json.dumps(one["request"]) for one in found}) == 1
    assert found[0]["request"]["body"] == {
        "messages": [
            {"content": "<system>", "role": "system"},
            {"content": "<system-reminder/>go", "role": "user"},
        ],
        "tools": ["a", "b"],
    }
    changed = [{part for part, digest in one["hashed"].items() if digest != found[0]["hashed"][part]} for one in found]
    assert changed == [set(), set(), {"system"}, {"tools"}, {"reminders"}, {"features"}]


def test_what_a_tool_is_given_and_returns_is_matched_whole(node: Node) -> None:
    """An id of a person stands in a body's own keys; deeper down the same words are what an agent does."""
    body = {"user": "u", "metadata": {"user_id": "m"}, "cache_control": {"type": "ephemeral"}}
    given = {"user": "root", "metadata": {"a": 1}, "cache_control": "no-store"}
    call = {"type": "tool_use", "input": given, "cache_control": {"type": "ephemeral"}}
    said = {"role": "assistant", "content": [call]}
    (found,) = forms(node, {"json": {**body, "messages": [said]}})
    assert found["request"]["body"] == {
        "messages": [{"content": [{"input": given, "type": "tool_use"}], "role": "assistant"}]
    }


def test_a_rule_of_ones_own_may_be_written_as_python_allows(node: Node) -> None:
    rule = {"name": "x", "in": "all", "pattern": 'a\\-b {"', "becomes": "y"}
    (found,) = forms(node, {"json": {"messages": [{"role": "user", "content": 'a-b {"'}]}}, rules=[rule])
    assert found["request"]["body"]["messages"][0]["content"] == "y"


def test_an_answer_of_another_shape_says_nothing(node: Node) -> None:
    odd = [
        '{"choices": [null]}',
        '{"candidates": [null]}',
        '{"content": [null], "usage": 3}',
        '{"response": null}',
        "",
        "{",
    ]
    dialects = ("anthropic", "openai-chat", "openai-responses", "gemini")
    given = [[dialect, text] for dialect in dialects for text in odd]
    assert node("given.map((one) => readAnswer(...one).calls)", given) == [[]] * len(given)


def test_order_of_keys_is_nothing_order_of_items_is(node: Node) -> None:
    one, two, three = forms(
        node, {"json": {"a": 1, "b": [1, 2]}}, {"json": {"b": [1, 2], "a": 1}}, {"json": {"a": 1, "b": [2, 1]}}
    )
    assert json.dumps(one) == json.dumps(two) != json.dumps(three)
    (plain,) = forms(node, {"json": None, "body": "at 2026-11-30"})
    assert plain["request"]["body"] == "at <date>"


def test_normalising_twice_changes_nothing(node: Node) -> None:
    bodies = [result(before)["json"] for before, _ in VOLATILE]
    expression = (
        "given.bodies.map((json) => { const rules = rulesOf(given.rules);"
        " const asked = {method: 'POST', path: '/x', headers: {}, body: '', tools: [], json};"
        " const { request } = normalise(asked, rules, 't');"
        " return [JSON.stringify(request), JSON.stringify(again(request, rules))]; })"
    )
    for once, twice in node(expression, {"bodies": bodies, "rules": ALL}):
        assert once == twice


def test_differences_show_the_first_character(node: Node) -> None:
    recorded = {"a": ["same", "x" * 100 + "old" + "y" * 100], "gone": 1}
    asked = {"a": ["same", "x" * 100 + "new" + "y" * 100], "more": {"b": None}}
    found = node("differences(given[0], given[1])", [recorded, asked])
    assert [(one["at"], one["character"]) for one in found] == [("a[1]", 100), ("gone", 0), ("more.b", 0)]
    assert found[0]["recorded"] == "..." + "x" * 30 + "old" + "y" * 57 + "..."
    assert (found[1]["recorded"], found[1]["asked"]) == ("1", None)
    assert (found[2]["recorded"], found[2]["asked"]) == (None, "null")
    assert node("differences(given, given)", recorded) == []


def sse(*events: dict[str, Any]) -> str:
    return "".join(f"event: {event.get('type', 'x')}\ndata: {json.dumps(event)}\n\n" for event in events)


ANSWERS: list[tuple[str, str, str]] = [
    ("anthropic", "stream", sse(
        {"type": "message_start", "message": {"usage": {"input_tokens": 3, "cache_read_input_tokens": 90,
         "cache_creation_input_tokens": 7, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t1", "name": "Bash",
         "input": {}}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"comm'}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta",
         "partial_json": 'and": "ls"}'}},
        {"type": "message_delta", "usage": {"output_tokens": 20}})),
    ("anthropic", "plain", json.dumps({"content": [{"type": "text", "text": "x"}, {"type": "tool_use", "id": "t1",
        "name": "Bash", "input": {"command": "ls"}}], "usage": {"input_tokens": 3, "cache_read_input_tokens": 90,
        "cache_creation_input_tokens": 7, "output_tokens": 20}})),
    ("openai-chat", "stream", sse(
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "t1", "function": {"name": "Bash",
         "arguments": '{"comm'}}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": 'and": "ls"}'}}]}}]},
        {"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 20,
         "prompt_tokens_details": {"cached_tokens": 90}}}) + "data: [DONE]\n\n"),
    ("openai-responses", "stream", sse(
        {"type": "response.output_item.done", "item": {"type": "function_call", "call_id": "t1", "name": "Bash",
         "arguments": '{"command": "ls"}'}},
        {"type": "response.completed", "response": {"output": [{"type": "function_call", "call_id": "t1",
         "name": "Bash", "arguments": '{"command": "ls"}'}], "usage": {"input_tokens": 100, "output_tokens": 20,
         "input_tokens_details": {"cached_tokens": 90}}}})),
    ("gemini", "stream", sse(
        {"candidates": [{"content": {"parts": [{"text": "x"}]}}]},
        {"candidates": [{"content": {"parts": [{"functionCall": {"id": "t1", "name": "Bash",
         "args": {"command": "ls"}}}]}}], "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 15,
         "thoughtsTokenCount": 5, "cachedContentTokenCount": 90}})),
    ("gemini", "plain", json.dumps([{"candidates": [{"content": {"parts": [{"functionCall": {"id": "t1",
        "name": "Bash", "args": {"command": "ls"}}}]}}], "usageMetadata": {"promptTokenCount": 100,
        "candidatesTokenCount": 20, "cachedContentTokenCount": 90}}])),
]  # fmt: skip


def test_calls_and_tokens_are_read_from_every_dialects_answer(node: Node) -> None:
    found = node("given.map(([dialect, , text]) => readAnswer(dialect, text))", ANSWERS)
    for (dialect, kind, _), one in zip(ANSWERS, found, strict=True):
        call = {"id": "t1", "tool": "Bash", "arguments": {"command": "ls"}, "meaning": "live"}
        assert one["calls"] == [call], (dialect, kind)
        usage = one["usage"]
        assert usage["input"] + usage["cacheRead"] + usage["cacheWrite"] == 100, (dialect, kind)
        assert (usage["cacheRead"], usage["output"]) == (90, 20), (dialect, kind)


def test_an_answer_that_says_nothing_of_tokens_has_none(node: Node) -> None:
    texts = ["", "not JSON", '{"type": "error"}', "data: {broken\n\n", "[]", "null"]
    found = node("given.map((text) => readAnswer('anthropic', text))", texts)
    assert found == [{"calls": [], "usage": None}] * len(texts)


def test_an_address_is_host_and_port(node: Node) -> None:
    urls = ["https://api.example.com/v1", "http://localhost:8080", "http://a.example", "https://[::1]:9/x"]
    assert node("given.map(origin)", urls) == ["api.example.com:443", "localhost:8080", "a.example:80", "[::1]:9"]


def test_only_a_body_that_costs_too_much_is_not_parsed(node: Node) -> None:
    deep = {"json_depth": 3, "json_values": 20}
    bodies = {
        '{"a": [[1]]}': None,
        '{"a": [[[1]]]}': "json-depth",
        '"[[[[[[["': None,
        '{"a": "[[[[\\"[[[[,,,,,,,,,,,,,"}': None,
        f"[{'1,' * 20}1]": "json-values",
        '{"a": 1, "b": {"a": 2}, "c": [{"a": 3}]}': None,
        '{"a": 1, "b": 2, "a": 3}': "json-keys",
        '{"a": 1, "\\u0061": 3}': "json-keys",
        '{"a": "b", "c": "a"}': None,
        "": None,
        "not JSON at all": None,
        '{"open': None,
    }
    expression = "given.bodies.map((text) => unparsable(Buffer.from(text), given.limits)?.limit ?? null)"
    assert node(expression, {"bodies": list(bodies), "limits": deep}) == list(bodies.values())


def test_limits_are_known_by_name(node: Node) -> None:
    tried = "given.map((one) => { try { limitsOf(one); return null; } catch (problem) { return problem.message; } })"
    told = node(tried, [{}, {"requests": 5}, {"request": 5}, {"requests": 0}, {"requests": "5"}])
    assert told == [
        None,
        None,
        "no such limit: request = 5",
        "no such limit: requests = 0",
        "no such limit: requests = 5",
    ]
    assert node("limitsOf({request_bytes: 50e6}).held_bytes", None) == 200_000_000


def test_a_text_is_cut_to_its_bound(node: Node) -> None:
    assert node("given.map((text) => short(text, 10))", ["short", "x" * 10, "x" * 11]) == [
        "short",
        "x" * 10,
        "xxxxxxx...",
    ]


def test_reminders_are_told_from_words_however_many_begin(node: Node) -> None:
    end = "</system-reminder>"
    texts = {
        f"<system-reminder>x{end}": False,
        f" <system-reminder>x{end}\n<system-reminder>y{end} ": False,
        f"<system-reminder>x{end} go": True,
        "<system-reminder>x": True,
        end: True,
        "": False,
    }
    assert node("given.map(speaks)", list(texts)) == list(texts.values())
    # A search for each of them that begins anew would take hours.
    assert node("speaks('<system-reminder>'.repeat(500000))", None) is True
    text = "'<system-reminder>'.repeat(300000) + '</system-reminder>' + '<system-reminder>'.repeat(300000)"
    asked = (
        "{method: 'POST', path: '/x', headers: {}, body: '', tools: [], json: {messages: [{content: " + text + "}]}}"
    )
    size = f"JSON.stringify(normalise({asked}, rulesOf(['reminders']), 'the-run-token').request).length"
    assert 5_000_000 < node(size, None) < 5_200_000


def test_a_key_that_names_the_prototype_is_one_like_any_other(node: Node) -> None:
    asked = "{method: 'POST', path: '/x', headers: {}, body: '', tools: [], json: JSON.parse(text)}"
    texts = [json.dumps({"messages": [{"__proto__": {"a": number}}]}) for number in (1, 2)]
    found = node(
        f"given.map((text) => JSON.stringify(normalise({asked}, rulesOf([]), 'the-run-token').request.body))", texts
    )
    assert found == [text.replace(" ", "") for text in texts]


def test_usage_that_cannot_be_is_none(node: Node) -> None:
    absurd = [1e308, -5, 1.5, 10**12]
    texts = [json.dumps({"content": [], "usage": {"input_tokens": value, "output_tokens": 1}}) for value in absurd]
    found = node("given.map((text) => readAnswer('anthropic', text).usage)", texts)
    assert found == [None] * len(absurd)


def test_the_gateway_strikes_every_form(node: Node) -> None:
    given = {"key": KEY, "texts": [f"before {form} after" for form in FORMS.values()]}
    found = node("given.texts.map(redactor([given.key]))", given)
    for name, text in zip(FORMS, found, strict=True):
        assert not says(text.encode("latin-1")), name
        assert text.startswith("before "), name
        assert text.endswith(" after"), name
    innocent = ["no key here", "zq-live", '{"a": "\\n\\u0041"}', "ünïcode 😀", "\\" * 9]
    assert node("given.map(redactor(['zq-live-key-of-nobody']))", innocent) == innocent


def test_what_looks_like_a_key_is_struck_over_chunks(node: Node) -> None:
    shape = "sk-" + "Zz9" * 12
    given = [
        ["a " + shape[:5], shape[5:20], shape[20:] + " b"],
        ["Bear", "er " + "t0k." * 3, "t0k." * 6],
        ["sk-", "no"],
    ]
    found = node("given.map(struckParts)", given)
    assert found == [["a ***", "***", "*** b"], ["Bear", "er ***", "***"], ["sk-", "no"]]


#: Of each text, cut in two at every place (with three bytes by themselves after it): what comes out, where it differs.
CUT = """given.texts.flatMap((text) => {
  const bytes = Buffer.from(text, "latin1");
  const whole = redactor([given.key])(text);
  const wrong = [];
  for (let at = 1; at < bytes.length; at += 1) {
    const strike = striker([given.key], false);
    const cuts = [0, at, Math.min(at + 3, bytes.length), bytes.length];
    const parts = cuts.slice(1).map((end, n) => strike.push(bytes.subarray(cuts[n], end)));
    const out = Buffer.concat([...parts, strike.end()]).toString("latin1");
    // Two keys side by side are struck as one, or as two.
    if (out.replace(/\\*+/g, "*") !== whole.replace(/\\*+/g, "*")) wrong.push([at, out]);
  }
  return wrong;
})"""


def test_a_chunk_may_end_anywhere(node: Node) -> None:
    assert node(CUT, {"key": KEY, "texts": [f"b {form} a" for form in FORMS.values()]}) == []
