"""What we do not trust: the agent, its terminals, the test command. How it is started, found and ended.

The guest is root without rights on files, what we do not trust is `AGENT`, our helpers (forwarder, resolver) are
`HELPER`, and the channel's bridge, which the engine starts, is yet another one: none may signal, trace or look into
another one's processes, but for the guest, which starts and ends them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from . import procs, system


class User(NamedTuple):
    """Who a process is; it has no group but its own."""

    uid: int
    gid: int
    #: Added to what the kernel counts when it looks for a process to end for want of memory; 1000 goes first.
    oom: int


AGENT = User(1000, 1000, oom=1000)
HELPER = User(65534, 65534, oom=0)
#: Owns no process: the real user of a thread of ours while it signals the agent's (`system.signal_user`).
_NOBODY = 65533

#: What the guest keeps, by number (include/uapi/linux/capability.h). KILL: ends terminals and helpers, which are other
#: users'. SETGID, SETUID: starts processes as those. SYS_NICE: undoes what the agent may do to the priority of a thread
#: that signals it. (SYS_RESOURCE would keep an agent from having itself spared when memory runs out, but not every
#: engine has it to give; an agent that does so and has the guest ended instead has still spent its memory.)
_KEPT_CAPABILITIES = {"KILL": 5, "SETGID": 6, "SETUID": 7, "SYS_NICE": 23}
#: Ahead of the agent's processes, however many they are: what we serve and measure must not wait for them.
_NICE = -5

_LIMIT_S = 5.0
_STEP_S = 0.001


def settle() -> bool:
    """Makes this process the guest, before it has a second thread: root, with the agent's rights on files.

    Every file that we make or read in the agent's folders is then the agent's to make or read, and whatever path it
    leads us to gives nothing that it does not have. False, and nothing done, where we are not root below a container's
    init: the guest's unit tests.
    """
    if os.geteuid() != 0 or os.getppid() != 1:
        return False
    # Without these two rights the proofs say so.
    with contextlib.suppress(PermissionError):
        system.empty_bounding_set()
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    system.keep_capabilities(_KEPT_CAPABILITIES.values())
    os.setgroups([])
    system.set_file_user(AGENT.uid, AGENT.gid)
    return True


def settled() -> bool:
    """Whether `settle` has done it."""
    return os.geteuid() == 0 and system.file_user() == AGENT.uid


def conditions(user: User = AGENT) -> None:
    """Called in a child between fork and exec: makes it a process of `user`. All that we do not trust starts here."""
    if not settled():
        return
    system.set_file_user(0, 0)
    fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    os.write(fd, b"%d" % user.oom)
    os.close(fd)
    os.setpriority(os.PRIO_PROCESS, 0, 0)
    os.setgroups([user.gid])
    os.setresgid(user.gid, user.gid, user.gid)
    os.setresuid(user.uid, user.uid, user.uid)


class Untrusted:
    """All processes of `user`. Where there is but one user (`settle` has done nothing): our descendants, without
    `others` and what descends from them."""

    def __init__(self, others: Callable[[], Iterable[int]] = list, user: User = AGENT) -> None:
        self._others = others
        self._uid = user.uid
        self._own_pid = os.getpid()

    def living(self, *, dead: bool = False) -> list[procs.Process]:
        """`dead`: those that have ended and were not waited for too."""
        if settled():
            return [process for process in procs.snapshot(self._uid).values() if dead or process.alive]
        return procs.descendants(self._own_pid, without=self._others(), dead=dead)

    def signal(self, number: int) -> None:
        """To all of them at once."""
        if settled():
            system.signal_user(self._uid, number, _NOBODY)
            return
        for process in self.living():
            procs.send(process.pid, number)

    def freeze(self) -> None:
        """They do nothing any more, until they are ended."""
        self.signal(signal.SIGSTOP)

    def end(self, limit_s: float = _LIMIT_S) -> list[procs.Process]:
        """Kills them. Returns, once no thread of them lives or after `limit_s`, who is left."""
        if not settled():
            return procs.end_all(self.living, limit_s)
        deadline = time.monotonic() + limit_s
        while True:
            self.signal(signal.SIGKILL)
            left = self.living()
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(_STEP_S)
