"""The disk limit in real containers: whatever way an agent takes room on the host's disk, it is ended for it."""

from __future__ import annotations

import pytest

from tests.engine.guest.harness import Guest

pytestmark = pytest.mark.engine

PYTHON = ("python3", "-I", "-u", "-c")
LIMIT = 50_000_000

#: What every script begins with. `take` makes a file of some megabytes that nobody has written, `hide` leaves no name.
PRELUDE = """
import array, ctypes, mmap, os, socket, time
libc = ctypes.CDLL(None, use_errno=True)
def new(name="/tmp/x", flags=os.O_RDWR | os.O_CREAT | os.O_TRUNC):
    return os.open(name, flags, 0o600)
def take(megabytes, name="/tmp/x", mode=0):
    fd = new(name)
    size = ctypes.c_long(megabytes * 1000000)
    if libc.fallocate(fd, mode, ctypes.c_long(0), size) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")
    return fd
"""
#: Each goes above 50 MB in a way of its own and then only waits.
SCRIPTS = {
    "preallocated, mapped, unlinked": """
fd = new(); os.posix_fallocate(fd, 0, 60000000)
held = mmap.mmap(fd, 60000000); os.unlink("/tmp/x"); os.close(fd)
""",
    "preallocated in small pieces, each mapped and unlinked": """
held = []
for _ in range(30):
    fd = take(2); held.append(mmap.mmap(fd, 2000000)); os.unlink("/tmp/x"); os.close(fd)
""",
    "preallocated beyond the file's size": "take(60, mode=1)",
    "preallocated and sent over a socket": """
left, right = socket.socketpair()
for _ in range(15):
    fd = take(4); os.unlink("/tmp/x")
    left.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]); os.close(fd)
""",
    "preallocated and mapped, and written, both without a name": """
fd = take(30); held = mmap.mmap(fd, 30000000); os.unlink("/tmp/x"); os.close(fd)
fd = new(); os.unlink("/tmp/x"); os.write(fd, b"x" * 30000000); os.fsync(fd)
""",
    "sparse, dirtied through a mapping, unlinked": """
fd = new(); os.ftruncate(fd, 40000000); held = [mmap.mmap(fd, 40000000)]; os.unlink("/tmp/x"); os.close(fd)
fd = new(); os.ftruncate(fd, 40000000); held += [mmap.mmap(fd, 40000000)]; os.unlink("/tmp/x"); os.close(fd)
for one in held:
    for at in range(0, 40000000, 4096): one[at] = 1
""",
    "behind more descriptors than are looked at first": """
fds = [os.dup(0) for _ in range(3000)]
fd = new(); os.unlink("/tmp/x"); os.write(fd, b"x" * 30000000); fd = os.dup(fd)
fd = new(); os.unlink("/tmp/x"); os.write(fd, b"x" * 30000000)
""",
    "direct": """
block = mmap.mmap(-1, 1 << 20)
fd = new(flags=os.O_RDWR | os.O_CREAT | os.O_DIRECT); os.unlink("/tmp/x")
for _ in range(60): os.write(fd, block)
""",
    "behind 52,000 small files": """
for d in range(52):
    os.makedirs(f"/tmp/{d}")
    for f in range(1000): os.close(os.open(f"/tmp/{d}/{f}", os.O_CREAT | os.O_WRONLY, 0o600))
fd = take(60, "/home/agent/big")
""",
    "empty files": """
for d in range(110):
    os.makedirs(f"/tmp/{d}")
    for f in range(1000): os.close(os.open(f"/tmp/{d}/{f}", os.O_CREAT | os.O_WRONLY, 0o600))
""",
    "folders": """
for d in range(120):
    os.makedirs(f"/tmp/{d}")
    for f in range(110): os.mkdir(f"/tmp/{d}/{f}")
""",
    "links": """
os.makedirs("/tmp/l")
for n in range(13000): os.symlink("x" * 2000, f"/tmp/l/{n}")
""",
    "attributes": """
os.makedirs("/tmp/a")
for n in range(13000):
    fd = new(f"/tmp/a/{n}"); os.setxattr(fd, "user.x", b"x" * 3000); os.close(fd)
""",
    "folders below a path that is too long for the kernel": """
os.chdir("/tmp")
for _ in range(100): os.mkdir("d" * 200); os.chdir("d" * 200)
for d in range(130):
    os.mkdir(str(d))
    for f in range(100): os.mkdir(f"{d}/{f}")
""",
    "shared memory, mapped and unlinked": """
fd = new("/dev/shm/x"); os.ftruncate(fd, 60000000); held = mmap.mmap(fd, 60000000)
os.unlink("/dev/shm/x"); os.close(fd)
for at in range(0, 60000000, 4096): held[at] = 1
""",
    "mapped, and dirtied by children that leave no counter": """
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
held = []
for _ in range(4):
    fd = new(); os.ftruncate(fd, 20000000); held.append(mmap.mmap(fd, 20000000)); os.unlink("/tmp/x"); os.close(fd)
    if os.fork() == 0:
        for at in range(0, 20000000, 4096): held[-1][at] = 1
        os._exit(0)
""",
    "written by who has made itself undumpable": """
assert libc.prctl(4, 0, 0, 0, 0) == 0
fd = new(); os.unlink("/tmp/x"); os.write(fd, b"x" * 60000000)
""",
    "written by a program that nobody may read": """
import shutil, sys
shutil.copy(sys.executable, "/home/agent/p"); os.chmod("/home/agent/p", 0o111)
script = "fd = os.open('/tmp/x', 66); os.unlink('/tmp/x'); os.write(fd, b'x' * 60000000); time.sleep(300)"
os.execve("/home/agent/p", ["python3", "-c", "import os, time; " + script], os.environ)
""",
    "written and gone before anybody looks": """
fd = new(); os.unlink("/tmp/x"); os.write(fd, b"x" * 60000000); os._exit(0)
""",
}
#: None of these takes 50 MB of disk.
HARMLESS = {
    "preallocated and then written": """
fd = take(30); os.write(fd, b"x" * 30000000)
""",
    "a file in memory": """
fd = os.memfd_create("x"); os.posix_fallocate(fd, 0, 60000000)
""",
    "one file by 1,000 names": """
fd = new("/tmp/x"); os.write(fd, b"x" * 1000000); os.mkdir("/tmp/n")
for n in range(1000): os.link("/tmp/x", f"/tmp/n/{n}")
""",
    "a sparse file": """
fd = new(); os.ftruncate(fd, 1000000000)
""",
    "holes are no preallocation": """
fd = new(); os.write(fd, b"x" * 10000000)
for _ in range(10):
    assert libc.fallocate(fd, 3, ctypes.c_long(0), ctypes.c_long(10000000)) == 0
""",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_who_takes_too_much_is_ended(guest: Guest, name: str) -> None:
    guest.go(*PYTHON, f"{PRELUDE}{SCRIPTS[name]}\ntime.sleep(300)", disk_bytes=LIMIT, cwd="/")
    ended = guest.event("exit", 60)
    assert ended["disk_exceeded"], guest.stdio and guest.stdio.settled()


@pytest.mark.parametrize("name", HARMLESS)
def test_who_does_not_goes_on(guest: Guest, name: str) -> None:
    guest.go(*PYTHON, f"{PRELUDE}{HARMLESS[name]}\ntime.sleep(1.5)", disk_bytes=LIMIT, cwd="/")
    ended = guest.event("exit")
    assert (ended["disk_exceeded"], ended["code"]) == (False, 0)


def test_what_would_pass_the_limit_is_not_even_done(guest: Guest) -> None:
    """The host's disk never has to hold it."""
    script = """
if os.fork() == 0:
    print("asked", flush=True)
    fd = take(2000000)
    print("taken", flush=True)
time.sleep(300)
"""
    guest.go(*PYTHON, PRELUDE + script, disk_bytes=LIMIT, cwd="/")
    assert guest.event("exit")["disk_exceeded"]
    assert guest.stdio is not None
    assert guest.stdio.settled() == b"asked\n"


def test_what_was_written_by_who_is_killed_at_the_end_is_counted(guest: Guest) -> None:
    """The agent has ended, its child not: its counter is nobody's until it is waited for."""
    child = "fd = new(); os.write(fd, b'x' * 5000000); time.sleep(300)"
    script = f"""
if os.fork() == 0:
    {child}
while not os.path.exists("/tmp/x") or os.stat("/tmp/x").st_size < 5000000: time.sleep(0.05)
"""
    guest.go(*PYTHON, PRELUDE + script, disk_bytes=LIMIT, cwd="/")
    ended = guest.event("exit")
    assert 5_000_000 <= ended["bytes_written"] < 6_000_000
    assert not ended["disk_exceeded"]


#: FS_IOC_RESVSP64 with its `struct space_resv`; FS_IOC_FSSETXATTR; file_setattr(2).
OTHER_NAMES = """
import fcntl, struct
fd = new()
for number, data in ((0x4030582a, struct.pack("hhqqiI16x", 0, 0, 0, 60000000, 0, 0)), (0x401c5820, bytes(28))):
    try:
        fcntl.ioctl(fd, number, data)
        print("done")
    except OSError as error:
        print(error.errno)
print(os.fstat(fd).st_blocks)
print(libc.syscall(469, -100, None, None, 0, 0), ctypes.get_errno())
"""


def test_fallocate_has_no_other_name(guest: Guest) -> None:
    guest.go(*PYTHON, PRELUDE + OTHER_NAMES, cwd="/")
    assert guest.event("exit")["code"] == 0
    assert guest.stdio is not None
    assert guest.stdio.settled().decode().split() == ["25", "95", "0", "-1", "38"]
