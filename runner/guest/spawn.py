"""Starts a process of a given user.

Not by `subprocess`: it waits without end for its child's exec, and a child that has become the agent's user can be
stopped by the agent before its exec. Whoever waits for such a one is stopped with it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
from collections.abc import Mapping, Sequence
from typing import NoReturn

from . import procs
from .channel import OpError
from .untrusted import User, conditions

#: Between two looks at a child that has not come to its exec.
_LOOK_MS = 100
#: Python ignores these; a program expects their defaults.
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)


def spawn(
    argv: Sequence[str],
    user: User,
    *,
    env: Mapping[str, str],
    cwd: str | None = None,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    pass_fds: Sequence[int] = (),
) -> int:
    """Starts `argv` in a session of its own; streams that are not given lead nowhere. Returns its pid.

    Raises OpError `spawn_failed`, also for a child that is stopped before its exec; its pid is then reaped here, or by
    whoever reaps.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC)
    try:
        pid = os.fork()
        if pid == 0:
            _become(argv, user, env, cwd, (stdin, stdout, stderr), pass_fds, writing)
    except OSError as error:  # no process can be made
        os.close(reading)
        raise OpError("spawn_failed", f"{argv[0]}: {error}") from error
    finally:
        os.close(writing)
    problem = _problem(reading, pid)
    if problem:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        raise OpError("spawn_failed", f"{argv[0]}: {problem}")
    return pid


def _problem(fd: int, pid: int) -> str:
    """Waits for the child's exec, which closes the pipe. Returns what went wrong, or nothing."""
    with open(fd, "rb") as stream:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        while not poll.poll(_LOOK_MS):
            process = procs.look(pid)
            if process is not None and process.state in "Tt":
                procs.send(pid, signal.SIGKILL)
                return "it was stopped before it began"
        return stream.read().decode("utf-8", "replace")


def _become(
    argv: Sequence[str],
    user: User,
    env: Mapping[str, str],
    cwd: str | None,
    streams: tuple[int | None, int | None, int | None],
    pass_fds: Sequence[int],
    report: int,
) -> NoReturn:
    """The child. It has one thread, whatever the others were doing: nothing here takes a lock of ours or imports."""
    try:
        os.setsid()
        for number in _RESTORED:
            signal.signal(number, signal.SIG_DFL)
        nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for target, source in enumerate(streams):
            os.dup2(nowhere if source is None else source, target)
        # Every other descriptor of ours is closed by the exec (`supervisor.main` sees to what it was started with).
        for fd in pass_fds:
            os.set_inheritable(fd, True)
        conditions(user)
        if cwd is not None:
            os.chdir(cwd)
        os.execvpe(argv[0], list(argv), env)
    except BaseException as error:  # noqa: BLE001 - whatever it is, this process must not go on as the guest
        text = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else repr(error)
        code = errno.errorcode.get(getattr(error, "errno", 0) or 0, "")
        os.write(report, f"[{code}] {text}".encode()[:512])
    finally:
        os._exit(127)
