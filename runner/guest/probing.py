"""Runs the probe as the agent will be run, and keeps what it found."""

from __future__ import annotations

import json
import os
import select
import sys
from typing import Any, NamedTuple

from . import procs
from .channel import OpError
from .spawn import spawn
from .untrusted import AGENT, settled

_PROBE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "probe.py")
_LIMIT_S = 20.0
_MAX_BYTES = 1 << 20
#: The container's init.
_INIT = 1


class ProbeReport(NamedTuple):
    """What the probe printed; see `probe.main`."""

    network: list[str]
    status: dict[str, str]
    reached: list[str]


class Probing:
    """One probe, started at once: it runs while the channel is being opened."""

    def __init__(self) -> None:
        self._own = settled()
        self._found: ProbeReport | str | None = None
        self._reading, writing = os.pipe2(os.O_CLOEXEC)
        pids = [str(_INIT), str(os.getpid())] if self._own else []
        try:
            argv = [sys.executable, "-I", "-S", _PROBE, *pids]
            self._pid = spawn(argv, AGENT, env={"PATH": os.defpath, "LC_ALL": "C"}, cwd="/", stdout=writing)
        except OpError as error:
            self._found = str(error)
        finally:
            os.close(writing)

    def found(self) -> ProbeReport:
        """Waits for its end, which must come before anybody else waits for children. Raises OpError `probe_failed`."""
        if self._found is None:
            self._found = self._read()
        if isinstance(self._found, str):
            raise OpError("probe_failed", f"the sandbox was not looked at: {self._found}")
        return self._found

    def _read(self) -> ProbeReport | str:
        text = b""
        with open(self._reading, "rb", buffering=0) as stream:
            poll = select.poll()
            poll.register(stream, select.POLLIN)
            while len(text) < _MAX_BYTES:
                if not poll.poll(_LIMIT_S * 1000):
                    procs.send(self._pid, 9)
                    break
                chunk = stream.read(1 << 16)
                if not chunk:
                    break
                text += chunk
        _, status = os.waitpid(self._pid, 0)
        try:
            found: dict[str, Any] = json.loads(text)
            reached = found["reached"] if self._own else ["guest and agent are one user"]
            return ProbeReport(found["network"], found["status"], reached)
        except (ValueError, KeyError, TypeError):
            return f"it ended with {os.waitstatus_to_exitcode(status)}"
