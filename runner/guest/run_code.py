#!/usr/bin/python3 -IS
"""For the tests of an isolated fixture: run a program as the code's user. `run-code ARGV...`

Copied to where only the tests' user can read it, and run by the tests. It hands its own three streams to the guest,
which starts ARGV in the workspace, and ends with ARGV's exit code. When it is killed, all that it started dies.

Each test pays for its start: it imports what it needs and no more (`socket` alone would double the time).
"""

from __future__ import annotations

import _socket
import os
import stat
import sys

#: As a shell says that a command cannot be run.
_REFUSED = 126
#: Of the number of bytes that follow: words, each with a NUL behind it.
_SIZE = 4


def main(argv: list[str]) -> int:
    if len(argv) < 2:
        return _refuse("usage: run-code ARGV...")
    # Standard input too: a test may have put its own output there, and one can write to it.
    for fd in (0, 1, 2):
        if _is_the_tests(fd):
            return _refuse(f"descriptor {fd} is the tests' own output: give the code a pipe, a file or /dev/null")
    words = b"".join(os.fsencode(word) + b"\0" for word in argv[1:])
    message = len(words).to_bytes(_SIZE, "big") + words
    streams = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (0, 1, 2))
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    answer = b""
    try:
        connection.connect(os.path.join(os.path.dirname(os.path.abspath(__file__)), "socket"))
        sent = connection.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
        if rest := message[sent:]:  # to send nothing fails too where the answer has come already
            connection.sendall(rest)
        # From here on they are the code's alone: whoever reads them sees their end.
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        while not answer.endswith(b"\n") and (chunk := connection.recv(4096)):
            answer += chunk
    except OSError as error:
        return _refuse(f"the guest does not answer: {error}")
    code, _, problem = answer.decode("utf-8", "replace").strip().partition(" ")
    if not code:
        return _refuse("the guest ended it")
    if problem:
        _say(problem)
    return int(code)


def _is_the_tests(fd: int) -> bool:
    """Whether a descriptor is also a parent's standard output or error: what the tests say must be theirs alone."""
    mine = os.fstat(fd)
    if stat.S_ISCHR(mine.st_mode):
        return False
    pid = os.getppid()
    while pid > 1:
        for number in (1, 2):
            try:
                theirs = os.stat(f"/proc/{pid}/fd/{number}")
            except OSError:  # closed, or of another user: the guest
                continue
            if (theirs.st_dev, theirs.st_ino) == (mine.st_dev, mine.st_ino):
                return True
        pid = _parent(pid)
    return False


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            text = stream.read()
    except OSError:
        return 0
    return int(text[text.rindex(")") + 2 :].split()[1])


def _refuse(problem: str) -> int:
    _say(problem)
    return _REFUSED


def _say(problem: str) -> None:
    sys.stderr.write(f"run-code: {problem}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv))
