"""An engine that hangs: passes every call on to the real one, but one kind of call, which is never answered."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

_CHUNK = 65536


@contextlib.contextmanager
def hanging(real: str, path: Path, call: str, after: str) -> Iterator[list[bytes]]:
    """A socket at `path` in front of the engine at `real`; yields the request lines that were left hanging.

    :param call: regular expression over a request line, such as `POST .*/start`; one of them hangs, the first one
        from the first request on whose line `after` fits.
    """
    wanted, armed, hung = re.compile(call.encode()), re.compile(after.encode()), list[bytes]()
    arms = threading.Event()
    ends: list[socket.socket] = []
    lock = threading.Lock()
    door = socket.socket(socket.AF_UNIX)
    door.bind(str(path))
    door.listen(64)

    def pump(source: socket.socket, target: socket.socket, watched: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                line = data.partition(b"\r\n")[0]
                with lock:
                    if watched and armed.match(line):
                        arms.set()
                    hangs = watched and arms.is_set() and not hung and wanted.match(line) is not None
                    if hangs:
                        hung.append(line)
                if hangs:
                    return  # neither passed on nor answered; the connection stays open
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = door.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(real)
                ends.extend([near, far])
                for arguments in ((near, far, True), (far, near, False)):
                    threading.Thread(target=pump, args=arguments, daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield hung
    finally:
        door.shutdown(socket.SHUT_RDWR)
        door.close()
        thread.join(5)
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
