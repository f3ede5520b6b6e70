"""What Linux cannot start is said when the files are read, with the line, and what a fixture's prompt needs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from pydantic import ValidationError

from runner.config.adapter import PROMPT_FILE, Launch
from runner.config.catalog import Catalog
from runner.config.startable import MAX_ALL, MAX_WORD, start_faults, word_fault
from tests.unit.config.test_catalog import faults, loaded, swap

TOO_LONG = "x" * (MAX_WORD + 1)


def test_the_bound_is_the_kernel_s() -> None:
    assert subprocess.run(["/bin/true", "x" * MAX_WORD], check=False).returncode == 0
    with pytest.raises(OSError, match="Argument list too long"):
        subprocess.run(["/bin/true", TOO_LONG], check=False)


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("x" * MAX_WORD, None),
        (TOO_LONG, "it has 131,072 bytes"),
        ("é" * (MAX_WORD // 2 + 1), "it has 131,072 bytes"),
    ],
)
def test_a_word(word: str, words: str | None) -> None:
    fault = word_fault(word)
    assert (fault is None) if words is None else (fault is not None and words in fault)


def test_all_of_it_together() -> None:
    many = ["x" * 100_000] * (MAX_ALL // 100_000)
    assert [what for what, _ in start_faults(many, {"A": "b"})] == ["all arguments and variables"]
    assert list(start_faults(many[:-1], {"A": "b"})) == []
    assert [what for what, _ in start_faults(["a"], {"A": TOO_LONG})] == ["the variable A"]


def prompt_of(root: Path, prompt: str) -> None:
    swap(root / "fixtures/semver/fixture.yaml", "prompt: Fix it.", f"prompt: {prompt}")


def test_a_prompt_that_no_command_line_takes_is_said_at_the_fixture(root: Path) -> None:
    prompt_of(root, TOO_LONG)
    (fault,) = faults(root)
    assert fault == (
        "fixtures/semver/fixture.yaml:4: adapter 'agent@1.0.0' cannot be started with this prompt over cli: argument "
        "1: it has 131,072 bytes, and Linux starts nothing with an argument above 131,071; shorten it, or give it by "
        "'prompt: stdin' or 'prompt: file' in the adapter's 'cli'"
    )


def test_the_longest_prompt_is_taken(root: Path) -> None:
    prompt_of(root, "x" * MAX_WORD)
    assert len(loaded(root).fixtures["semver"].prompt) == MAX_WORD


@pytest.mark.parametrize("way", ["command: [agent], prompt: stdin", "command: [agent, '{prompt_file}'], prompt: file"])
def test_a_cli_that_takes_it_otherwise_takes_any(root: Path, way: str) -> None:
    prompt_of(root, TOO_LONG)
    swap(root / "configs/adapters/agent-1.0.0.yaml", "command: [agent, '{prompt}']", way)
    loaded(root)


def test_without_a_command_line_it_needs_no_other_way(root: Path) -> None:
    prompt_of(root, TOO_LONG)
    swap(root / "configs/sweeps/small.yaml", "[acp, nocaps, cli]", "[acp, nocaps]")
    loaded(root)


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ('"a\\0b"', "the text holds U+0000, which neither a program's arguments nor a file can take"),
        ('"a\\ud800b"', "the text holds U+D800"),
        ("-p", "it starts with '-', which a command line takes for an option"),
        ("x" * 2**20, "is larger than 1 MiB"),
    ],
)
def test_prompts_that_no_surface_takes(root: Path, prompt: str, words: str) -> None:
    prompt_of(root, prompt)
    (fault,) = faults(root)
    assert fault.startswith("fixtures/semver/fixture.yaml:")
    assert words in fault


@pytest.mark.parametrize(
    ("addition", "line", "words"),
    [
        (f"env: {{A: {TOO_LONG}}}\n", 9, "the variable A: it has 131,074 bytes"),
    ],
)
def test_an_adapter_that_cannot_be_started(root: Path, addition: str, line: int, words: str) -> None:
    path = root / "configs/adapters/agent-1.0.0.yaml"
    path.write_text(path.read_text() + addition)
    (fault,) = faults(root)
    assert fault.startswith(f"configs/adapters/agent-1.0.0.yaml:{line}: ")
    assert words in fault


@pytest.mark.parametrize("part", ["args: [a, {long}]", "command: {long}", "env: [{{name: A, value: {long}}}]"])
def test_an_mcp_server_that_no_agent_can_start(root: Path, part: str) -> None:
    path = root / "configs/surfaces/nocaps.yaml"
    path.write_text(path.read_text() + "mcp_servers:\n  - name: s\n    " + part.format(long=TOO_LONG) + "\n")
    (fault,) = faults(root)
    assert fault.startswith("configs/surfaces/nocaps.yaml:5: ")
    assert "no agent can start this server" in fault


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"command": ["a", "{prompt}"], "prompt": "stdin"}, "give the prompt twice"),
        ({"command": ["a"], "prompt": "file"}, "go together"),
        ({"command": ["a", "{prompt_file}"]}, "go together"),
        ({"command": ["a", TOO_LONG]}, "word 1 cannot be an argument: it has 131,072 bytes"),
    ],
)
def test_launches_that_are_refused(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Launch.model_validate({"binary": "/a", **fields})


def test_acp_takes_no_way_for_the_prompt(root: Path) -> None:
    acp = "acp: {command: [agent, --acp], binary: /opt/agent}"
    swap(root / "configs/adapters/agent-1.0.0.yaml", acp, acp.replace("}", ", prompt: stdin}"))
    assert "the protocol says how it is given" in faults(root)[0]


def test_a_prompt_in_a_file_lies_in_home(root: Path) -> None:
    swap(
        root / "configs/adapters/agent-1.0.0.yaml",
        "command: [agent, '{prompt}']",
        "command: [agent, --file, '{prompt_file}'], prompt: file",
    )
    adapter = Catalog(root).adapter("agent@1.0.0")
    assert adapter.cli is not None
    started = adapter.cli.filled({"prompt": "Fix {home}.", "home": "/home/agent"}, adapter)
    assert started.argv == ["agent", "--file", f"/home/agent/{PROMPT_FILE}"]
    assert started.home == {PROMPT_FILE: "Fix {home}."}
