"""A model's API that does as it is told, on a Unix socket of the host."""

from __future__ import annotations

import contextlib
import json
import socketserver
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any


def answer(text: str = "done", **usage: int) -> bytes:
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": usage or {"input_tokens": 100, "output_tokens": 10},
    }
    return json.dumps(body).encode()


@dataclass
class Reply:
    """`cut`: the connection ends in the middle of the body. `hang`: what is still to come never comes; `silent`: nor
    does anything else."""

    body: bytes = field(default_factory=answer)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    hang: bool = False
    silent: bool = False
    #: In place of `body`: written one after the other, each by itself.
    pieces: tuple[bytes, ...] = ()


class Api(socketserver.ThreadingUnixStreamServer):
    """A model's API on a socket of the host: answers as `replies` say, the last one for ever.

    `forgetful`: it keeps connections, and closes each without a word when it is used again.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, path: Path, tls: ssl.SSLContext | None) -> None:
        self.replies = [Reply()]
        self.forgetful = False
        self._tls = tls
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        super().__init__(str(path), _Handler)
        path.chmod(0o777)

    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        if self._tls is not None:
            connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Tests print nothing: a client that does not trust us hangs up."""


class _Handler(BaseHTTPRequestHandler):
    server: Api
    used = False

    def do_POST(self) -> None:
        if self.server.forgetful:
            self.protocol_version = "HTTP/1.1"
            if self.used:
                self.close_connection = True
                return
            self.close_connection, self.used = False, True
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        reply = self.server.replies.pop(0) if len(self.server.replies) > 1 else self.server.replies[0]
        if reply.silent:
            self.rfile.read()  # until the other side gives up
            return
        self.send_response(reply.status)
        for name, value in {"content-type": "application/json", "organization": "acme", **reply.headers}.items():
            self.send_header(name, value)
        size = sum(map(len, reply.pieces)) or len(reply.body)
        self.send_header("content-length", str(size + 10 * (reply.cut or reply.hang)))
        self.end_headers()
        for piece in reply.pieces or (reply.body,):
            self.wfile.write(piece)
            self.wfile.flush()
            if reply.pieces:
                time.sleep(0.02)
        if reply.hang:
            self.rfile.read()
        self.close_connection = self.close_connection or reply.cut

    def log_message(self, *_: object) -> None:
        """Tests print nothing."""

    def address_string(self) -> str:
        return "unix"


@contextlib.contextmanager
def serving(folder: Path, tls: ssl.SSLContext | None = None) -> Iterator[Api]:
    """An API on `folder`/api.sock as long as the block lasts; the folder is made."""
    folder.mkdir()
    folder.chmod(0o755)
    with Api(folder / "api.sock", tls) as api:
        thread = threading.Thread(target=api.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield api
        finally:
            api.shutdown()
            thread.join()
