"""What runs inside the build stage's image, with a package index of our own on loopback."""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from runner.packages.ask import parted, pypi, read_npm


@pytest.mark.parametrize(
    ("code", "printed", "answer"),
    [
        (0, '{"name": "a", "version": "1.0.0"}', {"ok": {"name": "a", "version": "1.0.0"}}),
        (0, "", {"absent": True}),
        (1, '{"error": {"code": "E404", "summary": "Not Found"}}', {"absent": True}),
        (1, '{"error": {"code": "ENOTFOUND", "summary": "no such\\nhost"}}', {"error": "npm: ENOTFOUND no such host"}),
        (1, '{"error": {"code": "ECONNREFUSED"}}', {"error": "npm: ECONNREFUSED"}),
        (1, "npm error", {"error": "npm printed no JSON (exit 1)"}),
        (1, "", {"error": "npm said nothing (exit 1)"}),
    ],
)
def test_absent_and_unreachable_are_two_things(code: int, printed: str, answer: dict[str, object]) -> None:
    assert read_npm(code, printed) == answer


class _Index(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, kind, body = {
            "/simple/good-one/": (200, "application/vnd.pypi.simple.v1+json", json.dumps({"name": "good-one"})),
            "/simple/html/": (200, "text/html", "<html>"),
            "/simple/broken/": (503, "text/plain", "later"),
            "/simple/who/": (200, "application/json", json.dumps(self.headers["Authorization"])),
        }.get(self.path, (404, "text/plain", "no"))
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Tests print nothing."""


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = HTTPServer(("127.0.0.1", 0), _Index)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple/")
    monkeypatch.delenv("PIP_CERT", raising=False)
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    yield
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_index_that_pip_is_set_to_use(index: None) -> None:
    assert pypi("Good_.one") == {"ok": {"name": "good-one"}}
    assert pypi("gone") == {"absent": True}
    assert pypi("html") == {"error": "the package index has no JSON pages"}
    assert pypi("broken") == {"error": "the package index answered 503"}


def test_an_index_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    assert str(pypi("a")["error"]).startswith("the package index cannot be reached: ")


def test_an_index_that_wants_a_password(index: None, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = os.environ["PIP_INDEX_URL"]
    monkeypatch.setenv("PIP_INDEX_URL", plain.replace("://", "://joe:s%40me@"))
    assert pypi("who") == {"ok": "Basic " + base64.b64encode(b"joe:s@me").decode()}
    assert parted(plain) == (plain, {})
