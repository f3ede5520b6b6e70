"""Tries to get out. Prints one JSON object: attempt -> how it succeeded, or null where it failed.

Standard library only; played by the puppet inside the sandbox, and by the positive control in a container without it.
The host's listener is `argv[1]` host, `argv[2]` port; nothing else on any network is asked.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable

HOST, PORT = (sys.argv[1], int(sys.argv[2])) if len(sys.argv) > 2 else ("127.0.0.1", 9)
LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWUSER, CLONE_NEWNET, PTRACE_ATTACH, PTRACE_DETACH = 0x10000000, 0x40000000, 16, 17
MS_REMOUNT, MS_BIND = 32, 4096
FOREIGN = "acpbench-guest"


def tcp() -> str | None:
    with socket.create_connection((HOST, PORT), timeout=2) as connection:
        return connection.recv(16).decode()


def udp() -> str | None:
    """What a look-up of a name would be: a datagram, and an answer."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(2)
        sock.sendto(b"?", (HOST, PORT))
        return sock.recv(16).decode()


def text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def interfaces() -> str | None:
    names = [name for _, name in socket.if_nameindex() if name != "lo" and not name.startswith(("tunl", "sit", "ip6"))]
    return ",".join(names) or None


def engine_socket() -> str | None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect("/var/run/docker.sock")
        sock.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
        return sock.recv(15).decode()


def writes(path: str) -> Callable[[], str | None]:
    def attempt() -> str | None:
        with open(path, "a", encoding="ascii") as file:
            file.write("x")
        return path

    return attempt


def kernel_setting() -> str | None:
    """Opened for writing, nothing is written; remounted first, if we may."""
    LIBC.mount(None, b"/proc/sys", None, MS_REMOUNT | MS_BIND, None)
    with open("/proc/sys/kernel/domainname", "r+", encoding="ascii") as file:
        return f"opened {file.name}"


def model_socket() -> str:
    """Where this run's model listens: named on the forwarder's command line, or where the folder can be listed."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        for word in words:
            if word.startswith(b"UNIX-CONNECT:"):
                return word.partition(b":")[2].decode()
    paths = [f"/acpbench/model/{name}" for name in os.listdir("/acpbench/model")]
    return next(path for path in paths if stat.S_ISSOCK(os.lstat(path).st_mode))


def list_sockets() -> str | None:
    """The sockets of other runs: whoever knows one can fill its queue."""
    return ",".join(os.listdir("/acpbench/model")) or None


def replace_socket() -> str | None:
    path = model_socket()
    os.rename(path, "/acpbench/model/mine.sock")
    os.rename("/acpbench/model/mine.sock", path)
    return "renamed"


def become_root() -> str | None:
    os.setuid(0)
    return f"uid {os.getuid()}"


def set_uid_program() -> str | None:
    """A set-uid copy of a shell, if the kernel honours it for us."""
    found = subprocess.run(
        ["find", "/usr", "-perm", "-4000", "-type", "f"], capture_output=True, text=True, check=False
    )
    return found.stdout.split()[0] if found.stdout and "NoNewPrivs:\t0" in text("/proc/self/status") else None


def capability() -> str | None:
    for line in text("/proc/self/status").splitlines():
        if line.startswith("CapEff") and int(line.split()[1], 16):
            return line.split()[1]
    return None


def user_namespace() -> str | None:
    """In a child: whoever succeeds is changed by it."""
    pid = os.fork()
    if pid == 0:
        os._exit(0 if LIBC.unshare(CLONE_NEWUSER) == 0 else 1)
    return "unshared" if os.waitpid(pid, 0)[1] == 0 else None


def device() -> str | None:
    os.mknod(f"/tmp/null-{os.getpid()}", 0o20666, os.makedev(1, 3))
    return "made"


def mount() -> str | None:
    os.makedirs("/tmp/m", exist_ok=True)
    return "mounted" if LIBC.mount(b"none", b"/tmp/m", b"tmpfs", 0, None) == 0 else None


def change_root() -> str | None:
    pid = os.fork()
    if pid == 0:
        try:
            os.chroot("/tmp")
        except OSError:
            os._exit(1)
        os._exit(0)
    return "changed" if os.waitpid(pid, 0)[1] == 0 else None


def supervisor() -> int:
    """The process that is not ours to touch: the guest, or (where there is none) any other one."""
    others = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    for pid in others:
        try:
            words = text(f"/proc/{pid}/cmdline").split("\0")
        except OSError:
            continue
        if "/acpbench/guest/main.py" in words and "python3" in words[0]:
            return pid
    return max(others)


def read_supervisor() -> str | None:
    with open(f"/proc/{supervisor()}/mem", "rb") as file:
        return f"opened {file.name}"


def trace_supervisor() -> str | None:
    pid = supervisor()
    if LIBC.ptrace(PTRACE_ATTACH, pid, None, None) != 0:
        return None
    os.waitpid(pid, 0)
    LIBC.ptrace(PTRACE_DETACH, pid, None, None)
    return "traced"


def steal_streams() -> str | None:
    """The supervisor's descriptors, through /proc."""
    names = os.listdir(f"/proc/{supervisor()}/fd")
    return ",".join(names) or None


def guests_channel() -> str | None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(1)
        sock.connect("\0" + FOREIGN)
        return "connected"


def other_places() -> str | None:
    """What other runs, the gateway or the host might have left within reach."""
    found = [path for path in ("/journal", "/host", "/var/lib/docker") if os.path.isdir(path) and os.listdir(path)]
    return ",".join(found) or None


def control_surface() -> str | None:
    """The gateway's own routes and another run's, through its socket."""
    for path in ("/__aimock/fixtures", "/__aimock/reset", "/r/0000000000000000/v1/messages", "/health", "/"):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(3)
            sock.connect(model_socket())
            sock.sendall(f"GET {path} HTTP/1.0\r\nhost: x\r\n\r\n".encode())
            status = sock.recv(64).split()[1]
            if status not in (b"404", b"400"):
                return f"{path} {status.decode()}"
    return None


def other_family() -> str | None:
    """A socket of any family but those of the sandbox's own: AF_VSOCK would reach the machine that hosts this one."""
    for family in range(64):
        for kind in (1, 2, 3, 4, 5):
            if family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
                continue
            with contextlib.suppress(OSError), socket.socket(family, kind):
                return f"family {family}, type {kind}"
    return None


def raw_socket() -> str | None:
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_RAW, 255):
            return f"family {family}"
    return None


def kernel_events() -> str | None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15) as sock:
        sock.bind((0, 1))
        return "listens"


def ring() -> str | None:
    """io_uring_setup(2): a ring makes sockets past any filter of system calls."""
    fd = LIBC.syscall(425, 1, ctypes.create_string_buffer(120))
    return None if fd < 0 else f"descriptor {fd}"


def network_namespace() -> str | None:
    pid = os.fork()
    if pid == 0:
        os._exit(0 if LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 else 1)
    return "unshared" if os.waitpid(pid, 0)[1] == 0 else None


def namespace_by_clone3() -> str | None:
    """clone3(2) with its flags behind a pointer: CLONE_NEWUSER, SIGCHLD."""
    arguments = (ctypes.c_uint64 * 11)(CLONE_NEWUSER, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)
    pid = LIBC.syscall(435, arguments, ctypes.sizeof(arguments))
    if pid == 0:
        os._exit(0)
    return None if pid < 0 else f"pid {os.waitpid(pid, 0)[0]}"


def new_mount() -> str | None:
    """fsopen(2): a mount without mount(2)."""
    fd = LIBC.syscall(430, b"tmpfs", 0)
    return None if fd < 0 else f"descriptor {fd}"


def users_keys() -> str | None:
    """add_key(2) to the user's keyring, which the whole machine's processes of that user share."""
    number = {"x86_64": 248, "aarch64": 217}[os.uname().machine]
    key = LIBC.syscall(number, b"user", b"acpbench-escape", b"x", 1, -4)
    return None if key < 0 else f"key {key}"


ATTEMPTS: dict[str, Callable[[], str | None]] = {
    "TCP to the host": tcp,
    "UDP to the host": udp,
    "an interface but loopback": interfaces,
    "a socket of another family": other_family,
    "a raw socket": raw_socket,
    "the kernel's events": kernel_events,
    "a ring for system calls": ring,
    "the engine's socket": engine_socket,
    "write the guest's code": writes("/acpbench/guest/main.py"),
    "write the model's volume": writes("/acpbench/model/x"),
    "replace the model's socket": replace_socket,
    "list other runs' sockets": list_sockets,
    "write /usr": writes("/usr/x"),
    "write /etc": writes("/etc/hosts.allow"),
    "write a kernel setting": kernel_setting,
    "become root": become_root,
    "a set-uid program": set_uid_program,
    "a capability": capability,
    "a user namespace": user_namespace,
    "a network namespace": network_namespace,
    "a user namespace by clone3": namespace_by_clone3,
    "a mount by fsopen": new_mount,
    "a key of the user's": users_keys,
    "a device node": device,
    "a mount": mount,
    "change the root": change_root,
    "read the supervisor's memory": read_supervisor,
    "trace the supervisor": trace_supervisor,
    "the supervisor's descriptors": steal_streams,
    "the guest's channel": guests_channel,
    "other runs' places": other_places,
    "the gateway's control surface": control_surface,
}


def main() -> None:
    found: dict[str, str | None] = {}
    for name, attempt in ATTEMPTS.items():
        try:
            found[name] = attempt()
        except (OSError, ValueError, IndexError):
            found[name] = None
    print(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--hold"]:  # the positive control's stand-in for a guest's channel
        listener = socket.socket(socket.AF_UNIX)
        listener.bind("\0" + FOREIGN)
        listener.listen()
        time.sleep(600)
    main()
