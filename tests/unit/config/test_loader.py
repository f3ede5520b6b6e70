from __future__ import annotations

from pathlib import Path

import pytest

from runner.config.loader import ConfigErrors, load
from runner.config.surface import ClientCapabilities, Surface


def test_model_places_and_bytes(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_bytes(b"# a surface\nid: acp\ntransport: acp\nclient_capabilities:\n  terminal: true\n")
    loaded = load(path, Surface)
    expected = ClientCapabilities(terminal=True)
    assert loaded.value == Surface(id="acp", transport="acp", client_capabilities=expected)
    assert loaded.source.raw == path.read_bytes()
    assert loaded.at("client_capabilities") == (loaded.path, 4)
    assert loaded.at("client_capabilities", "terminal") == (loaded.path, 5)
    assert str(loaded.error(("transport",), "no")) == f"{loaded.path}:3: no"


def test_all_faults_at_once_in_line_order(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("title: 3\nid: acp\ntransport: tcp\nmode: [x]\n")
    with pytest.raises(ConfigErrors) as caught:
        load(path, Surface)
    assert [error.line for error in caught.value.errors] == [1, 3, 4]
    assert caught.value.exit_code == 64
    assert "pydantic" not in str(caught.value)
    assert "Input" not in str(caught.value)
