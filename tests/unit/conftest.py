"""A small root (configs/, fixtures/, images/) that unit tests may change as they like."""

from __future__ import annotations

from pathlib import Path

import pytest

ADAPTER = """\
id: {id}
title: An agent
image: {image}
dialect: anthropic
packages:
  - {{registry: npm, name: agent, version: 1.0.0}}
programs:
  - {{name: agent, command: [agent, --version], expect: 1.0.0}}
acp: {{command: [agent, --acp], binary: /opt/agent}}
{cli}tools:
  read: [{{tool: Read, arguments: {{path: '{{path}}'}}}}]
  run: [{{tool: Bash, arguments: {{command: '{{command}}'}}}}]
"""
FIXTURE = """\
id: semver
tree: 68cf7ea895c8f5f47d69699413a654ea0a9f6cbd
commit: 7388d20fe43894f53c0978ab58d5ec668fabe6f7
prompt: Fix it.
verify: {command: [node, --test], parser: node-test, tests: 3}
"""
SCRIPT = """\
id: fix
steps:
  - read: {path: a.js}
  - run: {command: node --test}
  - say: Done.
"""
SWEEP = """\
id: small
arms:
  - adapters: [agent@1.0.0]
    surfaces: [acp, nocaps, cli]
    fixtures: [semver]
    models: [scripted/fix]
repeat: 3
"""


def write(path: Path, text: str) -> Path:
    """Write a file, its folders first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Adapters agent@1.0.0 (acp, cli) and other@2 (acp); surfaces acp, nocaps, cli; fixture semver, script fix."""
    folder = tmp_path / "root"
    cli = "cli: {command: [agent, '{prompt}'], binary: /opt/agent}\n"
    write(folder / "configs/adapters/agent-1.0.0.yaml", ADAPTER.format(id="agent@1.0.0", image="agent-1", cli=cli))
    write(folder / "configs/adapters/other-2.yaml", ADAPTER.format(id="other@2", image="other-2", cli=""))
    for image in ("agent-1", "other-2"):
        write(folder / "images" / image / "image.yaml", "title: x\n")
    caps = "client_capabilities: {terminal: true}\n"
    write(folder / "configs/surfaces/acp.yaml", f"id: acp\ntransport: acp\n{caps}")
    write(folder / "configs/surfaces/nocaps.yaml", "id: nocaps\ntransport: acp\n")
    write(folder / "configs/surfaces/cli.yaml", "id: cli\ntransport: cli\n")
    write(folder / "configs/models/fix.yaml", SCRIPT)
    write(folder / "fixtures/semver/fixture.yaml", FIXTURE)
    write(folder / "fixtures/semver/tree/a.js", "1\n")
    write(folder / "configs/sweeps/small.yaml", SWEEP)
    return folder
