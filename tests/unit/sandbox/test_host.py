"""What of the building machine enters a build stage."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from runner.sandbox.host import CONTEXT, HostSettings, detect


def test_a_plain_machine_gives_an_empty_env_file(tmp_path: Path) -> None:
    assert detect({}, tmp_path, tmp_path).files() == {f"{CONTEXT}/env": b""}


def test_every_distinct_bundle_is_taken_once(tmp_path: Path) -> None:
    for name, text in (("one", "A"), ("two", "B"), ("copy", "A\n")):
        (tmp_path / name).write_text(text)
    (tmp_path / "pip.conf").write_text(f"[global]\ncert = {tmp_path}/two\n")
    found = detect(
        {"SSL_CERT_FILE": f"{tmp_path}/one", "PIP_CERT": f"{tmp_path}/copy", "CURL_CA_BUNDLE": f"{tmp_path}/absent"},
        tmp_path,
        tmp_path,
    )
    assert found.ca == b"A\nB\n"
    env = found.files()[f"{CONTEXT}/env"].decode()
    assert "export PIP_CERT=/tmp/host/bundle.pem" in env
    assert "export NODE_EXTRA_CA_CERTS=/tmp/host/bundle.pem" in env


def test_pip_settings_come_from_files_and_the_environment_wins(tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://system.test/simple\ntrusted-host = system.test\n")
    (tmp_path / ".config" / "pip").mkdir(parents=True)
    (tmp_path / ".config" / "pip" / "pip.conf").write_text("[global]\nindex-url = https://user.test/simple\n")
    assert detect({}, tmp_path, tmp_path).env == {
        "PIP_INDEX_URL": "https://user.test/simple",
        "PIP_TRUSTED_HOST": "system.test",
    }
    found = detect({"PIP_INDEX_URL": "https://env.test/simple"}, tmp_path, tmp_path)
    assert found.env["PIP_INDEX_URL"] == "https://env.test/simple"


def test_settings_that_point_into_this_machine_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text(
        "[global]\nextra-index-url = file:///opt/simple https://more.test/simple\nfind-links = /opt/wheels\n"
    )
    assert detect({}, tmp_path, tmp_path).env == {"PIP_EXTRA_INDEX_URL": "https://more.test/simple"}


def test_proxies_in_both_spellings(tmp_path: Path) -> None:
    environ = {"HTTPS_PROXY": "http://p.test:1", "no_proxy": "localhost", "HOME": "/root", "AWS_SECRET": "x"}
    found = detect(environ, tmp_path, tmp_path).env
    assert found == {"HTTPS_PROXY": "http://p.test:1", "no_proxy": "localhost"}


def test_only_registry_settings_of_npmrc_are_taken(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("C")
    (tmp_path / ".npmrc").write_text(
        f"; comment\nregistry=https://r.test/\n//r.test/:_authToken=${{TOKEN}}\n@s:registry = https://s.test/\n"
        f"cafile={tmp_path}/ca.pem\nnodedir=/usr\nfund=false\n"
    )
    found = detect({"TOKEN": "t0"}, tmp_path, tmp_path)
    assert found.npmrc == "registry=https://r.test/\n//r.test/:_authToken=t0\n@s:registry=https://s.test/\n"
    assert found.ca == b"C\n"
    assert "NPM_CONFIG_USERCONFIG=/tmp/host/npmrc" in found.files()[f"{CONTEXT}/env"].decode()


def test_broken_files_count_as_empty(tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text("index-url = no section\n")
    (tmp_path / ".npmrc").write_bytes(b"\xff\xfe")
    assert detect({}, tmp_path, tmp_path) == HostSettings()


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=40))
def test_a_shell_reads_back_what_was_written(value: str) -> None:
    script = HostSettings(env={"HTTP_PROXY": value}).files()[f"{CONTEXT}/env"] + b'\nprintf %s "$HTTP_PROXY"'
    done = subprocess.run(["/bin/sh"], input=script, capture_output=True, check=True, env={})
    assert done.stdout == value.encode()
