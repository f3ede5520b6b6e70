"""Which signals are heard, asked of a process of its own: whoever starts us may have had some ignored."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: argv: the signal that is ignored when the interpreter starts, or none; then the one that is sent.
SCRIPT = """
import os, signal, sys
from runner.sweep.interrupt import interruptible
with interruptible() as interrupt:
    os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    print(interrupt.asked)
print(signal.getsignal(getattr(signal, sys.argv[1])) is signal.SIG_IGN)
"""
SIGNALS = ["SIGHUP", "SIGINT", "SIGTERM"]


def asked(sent: str, ignored: str | None) -> list[str]:
    """Started by a shell that ignores a signal, as nohup and a script's background jobs are."""
    trap = "" if ignored is None else f"trap '' {ignored.removeprefix('SIG')};"
    line = f'{trap} exec "$0" -c "$1" "$2"'
    done = subprocess.run(
        ["sh", "-c", line, sys.executable, SCRIPT, sent], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.split()


@pytest.mark.parametrize("name", SIGNALS)
def test_an_ignored_signal_stays_ignored(name: str) -> None:
    assert asked(name, name) == ["False", "True"]


@pytest.mark.parametrize("name", SIGNALS)
def test_the_others_are_heard(name: str) -> None:
    assert asked(name, None) == ["True", "False"]
    assert asked(name, next(one for one in SIGNALS if one != name)) == ["True", "False"]
