from __future__ import annotations

from pathlib import Path

import pytest

from runner.guest.channel import OpError
from runner.guest.git import git


def test_nobody_s_configuration_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = planted\n")
    (tmp_path / "global").write_text("[user]\n\temail = planted\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "global"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "user.signingkey")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "planted")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert b"planted" not in git("config", "--list", cwd=str(tmp_path)).stdout


def test_a_failure_says_what_git_said(tmp_path: Path) -> None:
    with pytest.raises(OpError, match="not a git repository") as failed:
        git("rev-parse", "HEAD", cwd=str(tmp_path))
    assert failed.value.code == "git_failed"
    assert git("rev-parse", "HEAD", cwd=str(tmp_path), ok=(128,)).returncode == 128


def test_it_does_not_take_for_ever(tmp_path: Path) -> None:
    with pytest.raises(OpError, match="timed out"):
        git("-c", "alias.wait=!sleep 20", "wait", cwd=str(tmp_path), timeout_s=0.2)
