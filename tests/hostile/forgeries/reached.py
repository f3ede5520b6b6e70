"""What the code reaches from its process: descriptors, memory, signals, tracing, sockets, files of others."""

from __future__ import annotations

from collections.abc import Iterator

from tests.hostile.forgeries.attempt import Attempt, python

#: What is written to a descriptor of somebody else's.
BYTES = {
    "summary": "TAP.encode()",
    "replies": "REPLIES",
    "refusals": "REFUSALS",
    "event": 'b\'{"event":"gone"}\\n\' * 20',
    "torn-line": 'b\'{"id":2,"ok":true,\' * 20',
    "not-json": "b'\\x00\\xff\\n' * 100",
}
#: Where the descriptors of somebody else's are. `{pid}` stands for each process.
PLACES = {
    "init": "[f'/proc/1/fd/{fd}' for fd in range(3)]",
    "all": "[f'/proc/{pid}/fd/{fd}' for pid in pids() for fd in range(24)]",
    "threads": "[f'/proc/{pid}/task/{pid}/fd/{fd}' for pid in pids() for fd in range(12)]",
    "parents": "[f'/proc/{pid}/fd/{fd}' for pid in above() for fd in range(24)]",
    "own": "[f'/proc/self/fd/{fd}' for fd in range(64)]",
    "devices": "['/dev/console', '/dev/tty', '/dev/pts/0', '/dev/ptmx', '/dev/kmsg', '/dev/stdout']",
}
#: What is sent to whom.
SIGNALS = ("KILL", "STOP", "TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "CONT", "ABRT", "SEGV", "CHLD", "ALRM", "PIPE")
TARGETS = {
    "all-others": "pids()",
    "everyone": "[-1]",
    "own-group": "[0]",
    "parents": "above()",
    "init": "[1]",
    "all-groups": "[-pid for pid in pids()]",
}
#: One thing done to each process, `pid` at a time.
TO_EACH = {
    "memory-written": "write(f'/proc/{pid}/mem', b'x' * 8, os.O_RDWR)",
    "memory-read": "open(f'/proc/{pid}/mem', 'rb').read(1)",
    "maps-read": "say(open(f'/proc/{pid}/environ').read())",
    "root-entered": "os.chdir(f'/proc/{pid}/root'); os.chdir(f'/proc/{pid}/cwd')",
    "attached": "LIBC.ptrace(16, pid, 0, 0); LIBC.ptrace(17, pid, 0, 0)",
    "seized": "LIBC.ptrace(0x4206, pid, 0, 0); LIBC.ptrace(0x4207, pid, 0, 0)",
    "vm-written": "LIBC.syscall(311, pid, 0, 0, 0, 0, 0)",
    "descriptors-taken": "[os.write(LIBC.syscall(438, os.pidfd_open(pid), fd, 0), TAP.encode()) for fd in range(12)]",
    "limits-set": "[__import__('resource').prlimit(pid, limit, (0, 0)) for limit in range(16)]",
    "file-limit": "__import__('resource').prlimit(pid, 7, (3, 3))",
    "memory-limit": "__import__('resource').prlimit(pid, 9, (1 << 20, 1 << 20))",
    "idle": "os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))",
    "one-cpu": "os.sched_setaffinity(pid, {0})",
    "nice": "os.setpriority(os.PRIO_PROCESS, pid, 19)",
    "io-idle": "LIBC.syscall(251, 1, pid, 3 << 13)",
    "oom-first": "write(f'/proc/{pid}/oom_score_adj', b'1000')",
    "comm": "write(f'/proc/{pid}/comm', b'x')",
    "core-filter": "write(f'/proc/{pid}/coredump_filter', b'ff')",
    "migrated": "LIBC.syscall(256, pid, 64, 0, 0)",
    "threads-killed": "[LIBC.syscall(234, pid, int(tid), 9) for tid in os.listdir(f'/proc/{pid}/task')]",
    "namespaces": "LIBC.setns(os.open(f'/proc/{pid}/ns/pid', os.O_RDONLY), 0)",
    "compared": "LIBC.syscall(312, os.getpid(), pid, 0, 1, 1)",
}
#: Programs of more than one line.
PROGRAMS = {
    "traced-by-parent": "LIBC.ptrace(0, 0, 0, 0)\nos.kill(os.getpid(), signal.SIGSTOP)",
    "traced-child": "child = os.fork()\nif not child:\n    LIBC.ptrace(0, 0, 0, 0)\n    os.kill(os.getpid(), 19)\n"
    "    os._exit(0)\nos.waitpid(child, 0)\nLIBC.ptrace(7, child, 0, 0)",
    "guest-squatted": "s = socket.socket(socket.AF_UNIX)\ns.bind('\\0acpbench-guest')\ns.listen()\n"
    "s.settimeout(1)\nc, _ = s.accept()\nc.sendall(REPLIES)",
    "guest-asked": "s = socket.socket(socket.AF_UNIX)\ns.connect('\\0acpbench-guest')\ns.sendall(REPLIES)",
    "launcher-asked": "for path in ('/acpbench/isolated/socket', '/acpbench/isolated/run-code'):\n"
    "    s = socket.socket(socket.AF_UNIX)\n    attempt(s.connect, path)\n    attempt(s.sendall, b'[\"true\"]\\n')",
    "launcher-replaced": "for name in ('socket', 'run-code', 'tests', 'home'):\n"
    "    attempt(os.rename, f'/acpbench/isolated/{name}', '/tmp/x')\n"
    "    attempt(os.unlink, f'/acpbench/isolated/{name}')",
    "all-sockets": "for line in open('/proc/net/unix').read().splitlines()[1:]:\n    name = line.split()[-1]\n"
    "    s = socket.socket(socket.AF_UNIX)\n    attempt(s.connect, name.replace('@', '\\0'))\n"
    "    attempt(s.sendall, REPLIES)",
    "all-names-squatted": "for name in ('acpbench', 'acpbench-verify', 'acpbench-guest', 'verify', 'launcher'):\n"
    "    s = socket.socket(socket.AF_UNIX)\n    attempt(s.bind, '\\0' + name)",
    "model-asked": "for name in attempt(os.listdir, '/acpbench/model') or ['model.sock']:\n"
    "    s = socket.socket(socket.AF_UNIX)\n    attempt(s.connect, f'/acpbench/model/{name}')\n"
    "    attempt(s.sendall, b'GET /verdict HTTP/1.0\\r\\n\\r\\n')",
    "descriptors-sent": "import array\nfor fd in (0, 1, 2):\n    s = attempt(socket.socket, -1, -1, -1, fd)\n"
    "    if s:\n        s.sendmsg([TAP.encode()], [(1, 1, array.array('i', [fd] * 20))])\n        s.detach()",
    "stdin-written": "for fd in (0, 1, 2):\n    attempt(os.write, fd, TAP.encode())\n    attempt(os.ftruncate, fd, 0)",
    "streams-not-blocking": "import fcntl\nfor fd in (0, 1, 2):\n    fcntl.fcntl(fd, 4, os.O_NONBLOCK | os.O_APPEND)\n"
    "    attempt(fcntl.fcntl, fd, 1031, 4096)",
    "streams-shut": "for fd in (0, 1, 2):\n    s = attempt(socket.socket, -1, -1, -1, fd)\n"
    "    if s:\n        s.shutdown(2)\n        s.detach()",
    "typed": "import fcntl\nfor path in ('/dev/tty', '/dev/console', '/proc/1/fd/0'):\n"
    "    fd = attempt(os.open, path, os.O_RDWR)\n    if fd:\n        fcntl.ioctl(fd, 0x5412, b'x')",
    "tests-read": "for top in ('/acpbench', '/acpbench/isolated', '/acpbench/isolated/tests', '/root'):\n"
    "    for name in attempt(os.listdir, top) or []:\n        say(attempt(lambda: open(f'{top}/{name}').read()) or '')",
    "tests-written": "for name in ('semver.test.mjs', 'cases.mjs', 'code.mjs', 'package.json'):\n"
    "    attempt(write, f'/acpbench/isolated/tests/{name}', b'', os.O_WRONLY | os.O_CREAT)",
    "guest-written": "for name in os.listdir('/acpbench/guest'):\n    attempt(write, f'/acpbench/guest/{name}', b'#')\n"
    "    attempt(os.unlink, f'/acpbench/guest/{name}')",
    "system-written": "for path in ('/etc/ld.so.preload', '/etc/passwd', '/etc/profile', '/usr/local/bin/node',\n"
    "             '/usr/bin/python3', '/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', '/sys/fs/cgroup/x'):\n"
    "    attempt(write, path, b'x', os.O_WRONLY | os.O_CREAT)",
    "remounted": "for target in (b'/acpbench/guest', b'/acpbench', b'/proc', b'/usr/local/bin'):\n"
    "    LIBC.mount(b'/tmp', target, None, 4096, None)\n    LIBC.umount2(target, 2)",
    "user-namespace": "LIBC.unshare(0x10000000)\nLIBC.unshare(0x20000)\n"
    "attempt(write, '/proc/self/uid_map', b'0 1000 1')",
    "other-user": "for call in (LIBC.setuid, LIBC.setgid, LIBC.setresuid):\n"
    "    for uid in (0, 1001):\n        call(uid, uid, uid)",
    "set-uid-programs": "for name in ('su', 'newgrp', 'passwd', 'mount', 'chsh', 'gpasswd'):\n"
    "    attempt(subprocess.run, [name, '-c', 'kill -9 -1'], timeout=1)",
    "scratch-taken": "import glob\nfor path in glob.glob('/home/agent/tmp/*') + glob.glob('/tmp/*'):\n"
    "    attempt(os.rename, path, path + '.x')\n    attempt(os.symlink, '/workspace/semver', path)",
    "scratch-squatted": "import tempfile\nfor number in range(2000):\n"
    "    attempt(os.mkdir, f'/home/agent/tmp/tmp{number:08x}')",
    "shared-memory": "for path in os.listdir('/dev/shm'):\n    attempt(write, f'/dev/shm/{path}', TAP.encode())\n"
    "write('/dev/shm/x', TAP.encode(), os.O_WRONLY | os.O_CREAT)",
    "queues": "LIBC.msgget(0, 0o1666)\nLIBC.shmget(0, 4096, 0o1666)\nLIBC.mq_open(b'/x', 0o102, 0o666, None)",
    "file-times": "for path in ('/workspace/semver/test', '/workspace/semver/.git'):\n"
    "    attempt(os.utime, path, (0, 0))\n"
    "    attempt(os.chmod, path, 0)\n    attempt(os.rename, path, path + '.x')",
    "workspace-gone": "import shutil\nshutil.rmtree('/workspace/semver', True)\n"
    "attempt(os.symlink, '/', '/workspace/semver')",
    "debugger-ports": "for port in (9229, 9230, 9222):\n    s = socket.socket()\n"
    "    if attempt(s.connect, ('127.0.0.1', port)) is None:\n"
    "        attempt(s.sendall, b'GET /json HTTP/1.0\\r\\n\\r\\n')",
    "keyring": "LIBC.syscall(248, b'user', b'x', b'y', 1, -3)\nLIBC.syscall(250, 0, -3, 1)",
    "seccomp": "LIBC.prctl(22, 1, 0, 0, 0)",
    "subreaper": "LIBC.prctl(36, 1, 0, 0, 0)\nif not os.fork():\n    os.setsid()\n    time.sleep(1)\n    os._exit(0)",
}


def attempts() -> Iterator[Attempt]:
    for place, paths in PLACES.items():
        for name, data in BYTES.items():
            late = place == "init" and name in ("summary", "replies", "refusals")
            body = f"for path in {paths}:\n    attempt(write, path, {data})"
            yield Attempt("others-descriptors", f"{place}-{name}", python(body))
            if late:
                yield Attempt("others-descriptors", f"{place}-{name}-late", python(body, late=True))
    for number in SIGNALS:
        yield _signals(number, "all-others")
    for target in TARGETS:
        for number in ("KILL", "STOP"):
            if target != "all-others":
                yield _signals(number, target)
    for number in ("KILL", "STOP", "USR1"):
        yield _signals(number, "all-others", late=True)
    for name, action in TO_EACH.items():
        body = f"def act(pid):\n    {action}\nfor pid in pids():\n    attempt(act, pid)"
        yield Attempt("other-processes", name, python(body))
    for name, body in PROGRAMS.items():
        yield Attempt("other-places", name, python(body))
    for name in ("launcher-asked", "tests-written", "file-times", "guest-asked", "all-sockets"):
        yield Attempt("other-places", f"{name}-late", python(PROGRAMS[name], late=True))


def _signals(number: str, target: str, *, late: bool = False) -> Attempt:
    body = f"for pid in {TARGETS[target]}:\n    attempt(os.kill, pid, signal.SIG{number})"
    return Attempt("signals", f"{number.lower()}-{target}{'-late' if late else ''}", python(body, late=late))
