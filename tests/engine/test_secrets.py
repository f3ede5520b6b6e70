"""Keys of the common shapes lie in the host's environment, in its Docker configuration, in a file and behind a live
model; a curious agent looks for them. None may turn up in what a night leaves, prints, starts or builds.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from pathlib import Path

import pytest
from docker import DockerClient

from runner.cli.findings import Format
from runner.cli.main import run
from runner.report.render import REPORT_FORMS
from tests.engine.api import serving
from tests.engine.lab import Act, Lab, repaired
from tests.engine.spy import Spy, files_with
from tests.engine.upstream import canary

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(300)]

#: What an agent can look at, said aloud: its own environment and every process's, its files.
LOOKS = (
    "env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n'; "
    "grep -rsa -e sk- -e AKIA -e AIza -e ghp_ -e dtn_ /home /workspace /tmp /run /acpbench /etc | head -c 100000"
)
#: No key, and in the agent's environment: what is looked for the same way and must be found.
CONTROL = "acpbench-control-of-the-search"
FORMATS = {
    "report": REPORT_FORMS,
    "findings": tuple(Format),
}


def planted() -> dict[str, str]:
    """Variable -> a key of the shape that usually stands there; none was ever one."""
    digits = secrets.token_hex(40)
    return {
        "ANTHROPIC_API_KEY": canary(),
        "OPENAI_API_KEY": f"sk-proj-{digits[:48]}",
        "GEMINI_API_KEY": f"AIza{digits[:35]}",
        "AWS_ACCESS_KEY_ID": f"AKIA{digits[:16].upper()}",
        "AWS_SECRET_ACCESS_KEY": digits[:40],
        "GITHUB_TOKEN": f"ghp_{digits[:36]}",
        "GH_TOKEN": f"github_pat_{digits[:40]}",
        "DAYTONA_API_KEY": f"dtn_{digits[:40]}",
        "HTTPS_PROXY_PASSWORD": digits[10:42],
    }


@dataclass(frozen=True)
class Night:
    """A night with a live model: its folder, its exit code, what was printed, the keys, and who looked for them."""

    out: Path
    code: int
    keys: dict[str, str]
    spy: Spy
    printed: str
    images: list[str]


@pytest.fixture
def night(
    lab: Lab, engine: DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Night:
    keys = planted()
    for name, key in keys.items():
        monkeypatch.setenv(name, key)
    keys["docker configuration"] = f"proxy-{secrets.token_hex(16)}"
    docker = tmp_path / "docker"
    docker.mkdir()
    proxy = f"http://user:{keys['docker configuration']}@127.0.0.1:9"
    (docker / "config.json").write_text(json.dumps({"proxies": {"default": {"httpProxy": proxy}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(docker))
    keys["file of the root"] = canary()
    (lab.root / ".env").write_text(f"KEY={keys['file of the root']}\n")
    with serving(tmp_path / "api") as api:
        address = f"unix:{tmp_path}/api/api.sock"
        model = {"kind": "upstream", "id": "api", "dialect": "anthropic", "base_url": address, "allow": [address]}
        lab.write("models", {**model, "key": {"env": "ANTHROPIC_API_KEY"}, "budget": {"requests": 100}})
        acts: list[Act] = [
            {"do": "model"},
            {"do": "shell", "command": LOOKS},
            {"do": "write", "path": "src/semver.js", "text": repaired()},
            {"do": "sleep", "seconds": 2},
        ]
        env = {"MODEL_URL": "{model_url}", "CONTROL": CONTROL}
        matrix = {
            "adapters": [lab.puppet(name, acts, env=env) for name in ("curious", "nosy")],
            "surfaces": ["acp"],
            "fixtures": ["semver"],
            "models": ["live/api"],
        }
        compare = {"base": "curious-*", "new": "nosy-*"}
        lab.write("sweeps", {"id": "night", "arms": [matrix], "repeat": 1, "warmup": 0, "compare": compare})
        out, config = tmp_path / "out", lab.root / "configs/sweeps/night.yaml"
        spy = Spy(engine, {**keys, "control": CONTROL})
        spy.start()
        try:
            root = ["--root", str(lab.root)]
            code = run([*root, "nightly", str(config), "--out", str(out), "--history", str(tmp_path / "history")])
        finally:
            spy.stop()
        for verb, forms in FORMATS.items():
            for form in forms:
                assert run([*root, verb, str(out), "--format", form]) == 0
        for attempt in sorted((out / "runs").glob("*/1")):
            assert run([*root, "frames", str(attempt), "--with-model"]) == 0
        said = capsys.readouterr()
        assert [headers["x-api-key"] for _, headers, _ in api.asked] == [keys["ANTHROPIC_API_KEY"]] * 2
    images = [json.dumps([image.attrs, image.history()]) for image in engine.images.list()]
    return Night(out, code, keys, spy, said.out + said.err, images)


def test_no_key_is_anywhere(night: Night) -> None:
    assert night.code == 0, night.printed
    records = [json.loads(path.read_bytes()) for path in night.out.glob("runs/*/1/record.json")]
    assert [record["outcome"] for record in records] == ["passed", "passed"]
    # The agents did look, and so did the spy: nothing means nothing only where the control is found.
    assert {path.name for path in files_with(night.out, CONTROL)} >= {"record.json", "stderr.log"}
    assert any(place.startswith("agent:") for place in night.spy.found["control"])
    assert {"agent", "inspect", "logs", "process", "volume"} <= set(night.spy.searched)
    for file in ("report.html", "summary.md", "junit.xml", "verdicts.json"):
        assert (night.out / file).stat().st_size > 100
    for name, key in night.keys.items():
        assert files_with(night.out.parent / "history", key) == [], name
        assert files_with(night.out, key) == [], name
        assert key not in night.printed, name
        assert not any(key in image for image in night.images), name
        assert {place for place in night.spy.found[name] if not place.startswith("process:")} == set(), name
        # A child of ours has our environment; on a command line nobody has a key.
        assert not [place for place in night.spy.found[name] if place.endswith("/cmdline")], name
