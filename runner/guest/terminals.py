"""terminal/*: commands that the client runs for the agent, their output bounded and always drained."""

from __future__ import annotations

import codecs
import os
import re
import select
import signal
import stat
import threading
from typing import Any

from . import procs
from .channel import OpError, Request
from .reaper import Ended, Reaper
from .system import signal_name
from .untrusted import AGENT

#: What is kept where the agent names no limit, and at most.
_DEFAULT_LIMIT = 1 << 20
_MAX_LIMIT = 4 << 20
_MAX_TERMINALS = 64
#: What all terminals may keep together: it is memory that the agent has too (`sandbox.container.GUEST_RESERVE_MB`). A
#: terminal for which little is left still keeps this much.
_BUDGET = 16 << 20
_LEAST = 64 << 10
#: Who asks more often than this for the end of one command is refused.
_MAX_WAITING = 256
_READ = 1 << 16
#: Reads after the command's end: enough for a full pipe; a child that goes on writing must not keep us.
_LAST_READS = 32
#: A command without arguments that holds one of these is a line for the shell.
_SHELL = re.compile(r"[\s|&;<>()$`\\\"'*?\[\]#~=%{}!]")


class Terminal:
    """One command. Its lock guards everything but what never changes."""

    def __init__(self, fd: int, limit: int) -> None:
        self.fd = fd
        self.limit = limit
        self.pid = 0
        self.lock = threading.Lock()
        self.open = True
        self.kept = bytearray()
        self.total = 0
        self.ended: Ended | None = None
        self.waiting: list[Request] = []

    def read(self, times: int) -> bool:
        """Takes what the pipe holds, at most `times` reads. False at its end. The lock is held."""
        for _ in range(times):
            try:
                chunk = os.read(self.fd, _READ)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            self.total += len(chunk)
            self.kept += chunk
            if len(self.kept) > self.limit + max(self.limit // 4, _READ):
                del self.kept[: len(self.kept) - self.limit]
        return True

    def exit_status(self) -> dict[str, Any] | None:
        """ACP's `TerminalExitStatus`, or None while it runs."""
        if self.ended is None:
            return None
        number = self.ended.signal
        return {"exitCode": self.ended.code, "signal": None if number is None else signal_name(number)}


class Terminals:
    """All terminals, by the client's own ids."""

    def __init__(self, reaper: Reaper) -> None:
        self._reaper = reaper
        self._lock = threading.Lock()
        self._by_id: dict[str, Terminal] = {}
        self._by_fd: dict[int, Terminal] = {}
        self._epoll = select.epoll()
        #: The agent's environment; a terminal's own variables are laid over it.
        self.base_env: dict[str, str] = {}

    def start(self) -> None:
        threading.Thread(target=self._pump, name="terminals", daemon=True).start()

    def sessions(self) -> set[int]:
        """The sessions (= pids) of the commands."""
        with self._lock:
            return {terminal.pid for terminal in self._by_id.values()}

    def create(self, request: Request) -> dict[str, Any]:
        """`terminal.create` {terminal, command, args, env, cwd, limit} -> {pid}.

        Errors: `exists`, `too_many`, `spawn_failed` (no such command or folder).
        """
        ident, cwd = request.text("terminal"), request.text("cwd")
        argv = command_argv(request.text("command"), request.texts("args"), cwd)
        env = {**self.base_env, **_variables(request.args.get("env") or [])}
        limit = request.optional_number("limit")
        limit = _DEFAULT_LIMIT if limit is None else max(0, min(limit, _MAX_LIMIT))
        with self._lock:
            if ident in self._by_id:
                raise OpError("exists", f"terminal {ident} exists already")
            if len(self._by_id) >= _MAX_TERMINALS:
                raise OpError("too_many", f"{_MAX_TERMINALS} terminals are open")
            left = _BUDGET - sum(terminal.limit for terminal in self._by_id.values())
        limit = min(limit, max(left, _LEAST))
        terminal = self._spawn(argv, env, cwd, limit)
        with self._lock:
            self._by_id[ident] = terminal
        return {"pid": terminal.pid}

    def output(self, request: Request) -> None:
        """`terminal.output` {terminal} -> {output, truncated, exit}. Replies itself: `output` is text as
        `Request.reply_text` sends it."""
        terminal = self._find(request)
        with terminal.lock:
            if terminal.open:
                terminal.read(1)
            text = tail_text(bytes(terminal.kept), terminal.limit, final=terminal.ended is not None)
            truncated = terminal.total > terminal.limit
            status = terminal.exit_status()
        request.reply_text("output", text.encode("utf-8"), truncated=truncated, exit=status)

    def wait(self, request: Request) -> dict[str, Any] | None:
        """`terminal.wait` {terminal} -> {exitCode, signal}, when the command has ended."""
        terminal = self._find(request)
        with terminal.lock:
            status = terminal.exit_status()
            if status is None:
                if len(terminal.waiting) >= _MAX_WAITING:
                    raise OpError("too_many", f"{_MAX_WAITING} requests wait for this terminal")
                terminal.waiting.append(request)
            return status

    def kill(self, request: Request) -> dict[str, Any]:
        """`terminal.kill` {terminal} -> {}: the command's whole session; the terminal stays."""
        _kill_session(self._find(request))
        return {}

    def release(self, request: Request) -> dict[str, Any]:
        """`terminal.release` {terminal} -> {}: killed if it runs, and forgotten."""
        terminal = self._find(request)
        with self._lock:
            self._by_id.pop(request.text("terminal"), None)
        _kill_session(terminal)
        with terminal.lock:
            self._close(terminal)
        return {}

    def _find(self, request: Request) -> Terminal:
        ident = request.text("terminal")
        with self._lock:
            terminal = self._by_id.get(ident)
        if terminal is None:
            raise OpError("unknown_terminal", f"no terminal {ident}")
        return terminal

    def _spawn(self, argv: list[str], env: dict[str, str], cwd: str, limit: int) -> Terminal:
        read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(read_fd, False)
        terminal = Terminal(read_fd, limit)
        try:
            # Held until it is known to the pump, so that its end is not seen first.
            with terminal.lock:
                terminal.pid = self._reaper.spawn(
                    argv,
                    lambda ended: self._ended(terminal, ended),
                    user=AGENT,
                    env=env,
                    cwd=cwd,
                    stdout=write_fd,
                    stderr=write_fd,
                )
                with self._lock:
                    self._by_fd[read_fd] = terminal
                self._epoll.register(read_fd, select.EPOLLIN)
        except OpError:
            os.close(read_fd)
            raise
        finally:
            os.close(write_fd)
        return terminal

    def _ended(self, terminal: Terminal, ended: Ended) -> None:
        with terminal.lock:
            if terminal.open and not terminal.read(_LAST_READS):
                self._close(terminal)
            terminal.ended = ended
            status = terminal.exit_status()
            waiting, terminal.waiting = terminal.waiting, []
        assert status is not None
        for request in waiting:
            request.reply(status)

    def _pump(self) -> None:
        while True:
            for fd, _ in self._epoll.poll():
                with self._lock:
                    terminal = self._by_fd.get(fd)
                if terminal is None:
                    continue
                with terminal.lock:
                    if terminal.open and not terminal.read(1):
                        self._close(terminal)

    def _close(self, terminal: Terminal) -> None:
        """Lets go of the pipe. The terminal's lock is held."""
        if not terminal.open:
            return
        terminal.open = False
        self._epoll.unregister(terminal.fd)
        with self._lock:
            self._by_fd.pop(terminal.fd, None)
        os.close(terminal.fd)


def command_argv(command: str, args: list[str], cwd: str) -> list[str]:
    """How a command is run: as it is with its arguments; a whole shell line without arguments by the shell.

    A path with a blank in it that names a program is no shell line.
    """
    if args or not _SHELL.search(command):
        return [command, *args]
    path = os.path.join(cwd, command)
    if "/" in command and _is_program(path):
        return [command]
    return ["/bin/sh", "-c", command]


def _is_program(path: str) -> bool:
    """By the mode alone: access(2) would answer for our real user, which is not the agent's."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(mode) and mode & 0o111 != 0


def tail_text(data: bytes, limit: int, *, final: bool) -> str:
    """The end of `data` as text of at most `limit` bytes of UTF-8, cut between characters.

    Bytes that are not UTF-8 become U+FFFD. Unless `final`, a character whose last bytes have not come is left out.
    """
    if len(data) > limit:
        data = data[len(data) - limit :]
        start = 0
        while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
            start += 1
        data = data[start:]
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(data, final)
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    # Replacements are longer than what they replace.
    return encoded[len(encoded) - limit :].decode("utf-8", "ignore") if limit else ""


def _variables(entries: Any) -> dict[str, str]:
    """ACP's `[{name, value}]`."""
    if not isinstance(entries, list):
        raise OpError("bad_request", "env: a list is wanted")
    try:
        return {str(entry["name"]): str(entry["value"]) for entry in entries}
    except (TypeError, KeyError) as error:
        raise OpError("bad_request", f"env: name and value are wanted: {error!r}") from error


def _kill_session(terminal: Terminal) -> None:
    if terminal.ended is None:
        procs.send(terminal.pid, signal.SIGKILL)
    for process in procs.snapshot().values():
        if process.session == terminal.pid:
            procs.send(process.pid, signal.SIGKILL)
