"""Live models as a user writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.config.catalog import Catalog
from runner.config.loaded_sweep import load_sweep
from runner.config.upstream import Upstream
from runner.errors import ConfigError, UsageError
from tests.unit.conftest import write

UPSTREAM = """\
kind: upstream
id: big
dialect: anthropic
base_url: https://api.example.com/base
key: {env: BIG_KEY}
allow: ["api.example.com:443"]
budget: {requests: 10}
normalisers: [dates, {name: build, pattern: 'build \\d+', becomes: build}]
"""


#: Looks like a key and opens nothing.
CANARY = "sk-ant-" + "Zz9" * 12


def fault(root: Path, old: str, new: str) -> str:
    assert old in UPSTREAM
    write(root / "configs/models/big.yaml", UPSTREAM.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        Catalog(root).upstream("big")
    return str(caught.value).removeprefix(f"{root}/configs/models/")


def test_it_is_read_whole(root: Path) -> None:
    write(root / "configs/models/big.yaml", UPSTREAM)
    found = Catalog(root).upstream("big")
    assert (found.address, found.socket) == ("api.example.com:443", None)
    assert found.key is not None
    assert found.key.env == "BIG_KEY"
    assert [one if isinstance(one, str) else one.in_ for one in found.normalisers] == ["dates", "tool_results"]


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        (
            "https://api.example.com/base",
            "api.example.com",
            4,
            "must be https://host[:port][/path], http://... or unix:",
        ),
        ("https://api.example.com/base", "https://me:pw@api.example.com", 4, "without a user or a query"),
        ("https://api.example.com/base", "https://api.example.com:x", 4, "is not an address"),
        ("{env: BIG_KEY}", "{env: BIG_KEY, file: k}", 5, "name either 'env' or 'file'"),
        ("{env: BIG_KEY}", "sk-secret", 5, "never the key itself"),
        ("{env: BIG_KEY}", "{env: sk-secret}", 5, "'env': must be the name of an environment variable"),
        ("{env: BIG_KEY}", f"{{env: {CANARY}}}", 5, "this line holds what looks like a key; say where the key is"),
        ("{env: BIG_KEY}", f"{{file: {CANARY}}}", 5, "this line holds what looks like a key"),
        ("{env: BIG_KEY}", f"{{env: BIG_KEY}} # {CANARY}", 5, "this line holds what looks like a key"),
        ("{requests: 10}", f"{{requests: 10}}\nauth: {{header: x, scheme: 'Bearer {CANARY}'}}", 8, "looks like a key"),
        ("build \\d+", "(?P<n>x)", 8, "'(?P' is not read alike by Python and JavaScript; write (...)"),
        ("api.example.com:443", "api.example.com", 6, "the list lacks the model's own address, 'api.example.com:443'"),
        ("api.example.com:443", "api.example.com:8443", 6, "the list lacks the model's own address"),
        ("{requests: 10}", "{}", 7, "a live model needs a limit"),
        ("{requests: 10}", "{requests: 0}", 7, "'requests' must be more than 0"),
        ("[dates,", "[date,", 8, "normalisers"),
        ("build \\d+", "build (", 8, "not a regular expression"),
        ("kind: upstream\nid: big", "kind: upstream\nid: bigger", 2, "the id 'bigger' belongs in"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(root: Path, old: str, new: str, line: int, words: str) -> None:
    said = fault(root, old, new)
    assert said.startswith(f"big.yaml:{line}: ")
    assert words in said
    assert "sk-secret" not in said
    assert CANARY not in said


@pytest.mark.parametrize(
    ("url", "address", "socket"),
    [
        ("http://localhost:8080/v1", "localhost:8080", None),
        ("http://a.example", "a.example:80", None),
        ("https://[::1]:9/x", "[::1]:9", None),
        ("unix:/run/llm.sock", "unix:/run/llm.sock", "/run/llm.sock"),
    ],
)
def test_the_address_is_what_the_gateway_holds_against_the_list(url: str, address: str, socket: str | None) -> None:
    found = Upstream.model_validate(
        {
            "kind": "upstream",
            "id": "x",
            "dialect": "gemini",
            "base_url": url,
            "allow": [address],
            "budget": {"money": 1.5},
        }
    )
    assert (found.address, found.socket) == (address, socket)


def test_scripts_and_live_models_share_a_folder_and_are_told_apart(root: Path) -> None:
    write(root / "configs/models/big.yaml", UPSTREAM)
    write(root / "configs/models/said.yaml", "kind: scripted\nid: said\nsteps: [{say: x}]\n")
    found = Catalog(root)
    assert [one.value.id for one in found.scripts()] == ["fix", "said"]
    with pytest.raises(UsageError, match="unknown script 'big'"):
        found.script("big")
    with pytest.raises(UsageError, match="unknown upstream 'fix'; valid: big"):
        found.upstream("fix")


@pytest.mark.parametrize("kind", ["live", "capture"])
def test_a_sweep_names_it_by_what_is_to_be_done(root: Path, kind: str) -> None:
    write(root / "configs/models/big.yaml", UPSTREAM)
    sweep = root / "configs/sweeps/small.yaml"
    write(sweep, sweep.read_text().replace("scripted/fix", f"{kind}/big"))
    loaded = load_sweep(sweep, Catalog(root))
    assert {name: one.id for name, one in loaded.upstreams.items()} == {f"{kind}/big": "big"}
    assert "configs/models/big.yaml" in loaded.digests


def test_the_dialect_must_be_the_adapters(root: Path) -> None:
    write(root / "configs/models/big.yaml", UPSTREAM.replace("anthropic", "gemini"))
    sweep = root / "configs/sweeps/small.yaml"
    write(sweep, sweep.read_text().replace("scripted/fix", "live/big"))
    with pytest.raises(ConfigError, match=r"6: model 'live/big' speaks gemini, adapter 'agent@1.0.0' anthropic"):
        load_sweep(sweep, Catalog(root))
