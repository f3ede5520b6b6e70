"""A container engine that only answers `/version` and `/_ping`, on a Unix socket."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        ping = self.path.endswith("/_ping")
        body = b"OK" if ping else json.dumps({"ApiVersion": "1.41", "MinAPIVersion": "1.12"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain" if ping else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Tests print nothing."""

    def address_string(self) -> str:
        return "unix"


class _Server(HTTPServer):
    address_family = socket.AF_UNIX

    def server_bind(self) -> None:
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "unix", 0


@contextmanager
def listening(path: Path) -> Iterator[None]:
    """An engine on `path` as long as the block lasts."""
    server = _Server(str(path), _Handler)  # type: ignore[arg-type]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
