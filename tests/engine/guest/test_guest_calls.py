"""What the guest's seccomp filter keeps from an agent in a real container, and what it leaves."""

from __future__ import annotations

import json

import pytest

from tests.engine.guest.harness import Guest
from tests.engine.guest.steps import Start

pytestmark = pytest.mark.engine

PYTHON = ("python3", "-I", "-u", "-c")


def output(guest: Guest, *argv: str) -> str:
    guest.go(*argv, cwd="/", env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/home/agent"})
    guest.event("exit", 60)
    assert guest.stdio is not None
    return guest.stdio.settled().decode()


FAMILIES = """
import json, socket
opened = []
for family in range(64):
    for kind in range(16):
        try:
            socket.socket(family, kind).close()
            opened.append([family, kind])
        except OSError:
            pass
print(json.dumps(opened))
"""
OPENED = [[1, 1], [1, 2], [1, 5], [2, 1], [2, 2], [10, 1], [10, 2], [16, 2], [16, 3]]


def test_an_agent_opens_four_families(guest: Guest) -> None:
    assert json.loads(output(guest, *PYTHON, FAMILIES)) == OPENED


def test_so_does_whatever_it_starts(guest: Guest) -> None:
    script = f"import subprocess, sys; subprocess.run(['setsid', sys.executable, '-c', {FAMILIES!r}])"
    assert json.loads(output(guest, *PYTHON, script)) == OPENED


def test_the_proof_is_among_the_others_and_says_what_opens(guest: Guest) -> None:
    proofs = {one["name"]: one for one in guest.call("prove", uid=1000, workspace="/w", state_dirs=[])["proofs"]}
    assert proofs["address-families"]["ok"], proofs["address-families"]["detail"]
    assert proofs["address-families"]["detail"] == (
        "unix stream, unix dgram, unix seqpacket, inet stream, inet dgram, inet6 stream, inet6 dgram, netlink dgram, "
        "netlink raw"
    )


@pytest.mark.parametrize("security", [("no-new-privileges", "seccomp=unconfined")])
def test_it_holds_without_the_engine_s_own_profile(start: Start, security: tuple[str, ...]) -> None:
    with start(security=security) as guest:
        assert json.loads(output(guest, *PYTHON, FAMILIES)) == OPENED
        found = json.loads(output_again(guest, *PYTHON, REFUSED))
        assert found == EXPECTED


def output_again(guest: Guest, *argv: str) -> str:
    """The last line of a second agent's."""
    return output(guest, *argv).splitlines()[-1]


#: x86_64 and aarch64 have these numbers in common; the others are asked by their C functions.
REFUSED = """
import ctypes, ctypes.util, errno, json, os
libc = ctypes.CDLL(None, use_errno=True)
def error(result):
    return "done" if result >= 0 else errno.errorcode[ctypes.get_errno()]
found = {
    "io_uring": error(libc.syscall(425, 1, None)),
    "clone3": error(libc.syscall(435, None, 0)),
    "pidfd_getfd": error(libc.syscall(438, 3, 0, 0)),
    "open_tree": error(libc.syscall(428, -100, b"/tmp", 1)),
    "fsopen": error(libc.syscall(430, b"tmpfs", 0)),
    "user namespace": error(libc.unshare(0x10000000)),
    "network namespace": error(libc.unshare(0x40000000)),
    "another namespace": error(libc.setns(os.open("/proc/self/ns/net", os.O_RDONLY), 0)),
    "mount": error(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)),
    "fanotify": error(libc.fanotify_init(0x200, 0)),
    "kernel log": error(libc.klogctl(3, ctypes.create_string_buffer(100), 100)),
}
print(json.dumps(found))
"""
EXPECTED = {
    "io_uring": "ENOSYS",
    "clone3": "ENOSYS",
    "pidfd_getfd": "EPERM",
    "open_tree": "EPERM",
    "fsopen": "EPERM",
    "user namespace": "EPERM",
    "network namespace": "EPERM",
    "another namespace": "EPERM",
    "mount": "EPERM",
    "fanotify": "EPERM",
    "kernel log": "EPERM",
}

SERVER = """
const net = require('net')
const server = net.createServer(peer => peer.end('x')).listen(0, '127.0.0.1', () =>
  net.connect(server.address().port, '127.0.0.1').on('data', data => { console.log(String(data)); server.close() }))
"""
TRACER = """
import ctypes, os, signal
child = os.fork() or os.kill(os.getpid(), signal.SIGSTOP)
os.waitpid(child, os.WUNTRACED)
print(ctypes.CDLL(None).ptrace(0x4206, child, None, None))
os.kill(child, 9)
"""
IN_MEMORY = """
import os
fd = os.memfd_create("x")
os.write(fd, open("/bin/echo", "rb").read())
os.execve(fd, ["echo", "1"], {})
"""
THREADS = "import subprocess, threading; threading.Thread(target=lambda: subprocess.run(['echo', '1'])).start()"
POOL = "import multiprocessing; print(multiprocessing.get_context('fork').Pool(2).map(abs, [-1]))"
COMMIT = "cd /home/agent && git init -q r && cd r && git -c user.name=a -c user.email=b commit --allow-empty -m x"
#: What agents and their tools do all the time and must go on: each prints something where it could.
TOOLS = {
    "node's interfaces": ("node", "-e", "console.log(Object.keys(os.networkInterfaces()).join())"),
    "node's threads": ("node", "-e", "new (require('worker_threads').Worker)('console.log(1)', {eval: true})"),
    "node's processes": ("node", "-e", "console.log(require('child_process').execSync('echo 1').toString())"),
    "node's server": ("node", "-e", SERVER),
    "python's threads and processes": (*PYTHON, THREADS),
    "python's pool": (*PYTHON, POOL),
    "git": ("sh", "-c", COMMIT),
    "socat": ("sh", "-c", "echo 1 | socat - EXEC:cat,pty"),
    "a tracer": (*PYTHON, TRACER),
    "a program in memory": (*PYTHON, IN_MEMORY),
}


@pytest.mark.parametrize("name", TOOLS)
def test_what_real_tools_do_goes_on(guest: Guest, name: str) -> None:
    assert output(guest, *TOOLS[name]).strip() not in ("", "-1")
