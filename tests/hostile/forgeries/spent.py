"""What the code uses up, and when it acts: memory, processes, descriptors, output, time."""

from __future__ import annotations

from collections.abc import Iterator

from tests.hostile.forgeries.attempt import TAP, Attempt, javascript, python, quoted

#: JavaScript that takes more than there is.
SCRIPTS = {
    "memory": "const kept = []; for (let i = 0; i < 4000; i += 1) kept.push(Buffer.alloc(1 << 20, 1));",
    "heap": "let text = 'x'; for (;;) text += text;",
    "stack": "const f = () => f() + 1; try { f(); } catch {}",
    "descriptors": "try { for (;;) fs.openSync('/dev/null', 'r'); } catch {}",
    "loop": "for (;;) ;",
    "never-resolves": "await new Promise(() => setInterval(() => {}, 1000));",
    "never-settles": "await new Promise(() => {});",
    "output": "const block = Buffer.alloc(1 << 20, 'x'); try { for (let i = 0; i < 600;"
    " i += 1) fs.writeSync(1, block); } catch {}",
    "errors": "const block = Buffer.alloc(1 << 20, 'x'); try { for (let i = 0; i < 600;"
    " i += 1) fs.writeSync(2, block); } catch {}",
    "lines": "try { for (let i = 0; i < 2e6; i += 1) fs.writeSync(1, '{}\\n'); } catch {}",
    "files": "for (let i = 0; i < 20000; i += 1) fs.writeFileSync(`/tmp/${i}`, '');",
    "disk": "const block = Buffer.alloc(1 << 20); const fd = fs.openSync('/tmp/big', 'w');"
    " for (let i = 0; i < 300; i += 1) fs.writeSync(fd, block);",
    "sparse": "fs.truncateSync('/home/agent/sparse', 0) ?? 0;",
    "workers": "const { Worker } = await import('node:worker_threads');"
    " for (let i = 0; i < 40; i += 1) new Worker('for (;;) ;', { eval: true });",
    "children": "for (let i = 0; i < 200;"
    " i += 1) child.spawn('sleep', ['60'], { stdio: 'inherit', detached: true }).unref();",
}
#: Python that does.
PROGRAMS = {
    "fork-bomb": "for _ in range(3000):\n    if attempt(os.fork) == 0:\n        time.sleep(0.001)",
    "fork-chain": "for _ in range(400):\n    if os.fork():\n        os._exit(0)\n    time.sleep(0.005)",
    "threads": "import threading\nfor _ in range(600):\n    try:\n"
    "        threading.Thread(target=time.sleep, args=(3,)).start()\n"
    "    except RuntimeError:\n        break",
    "zombie-leader": "import threading\ndef worker():\n    time.sleep(1)\n    say(TAP)\n"
    "threading.Thread(target=worker).start()\nLIBC.syscall(60, 0)",
    "pipes": "kept = []\nwhile (pair := attempt(os.pipe)) is not None:\n    kept.append(pair)",
    "locked-memory": "import mmap\nkept = [mmap.mmap(-1, 1 << 30) for _ in range(8)]\nfor block in kept:\n"
    "    for place in range(0, 1 << 30, 4096):\n        block[place] = 1",
    "allocated-files": "for number in range(3):\n    fd = os.open(f'/home/agent/f{number}', os.O_RDWR | os.O_CREAT)\n"
    "    attempt(os.posix_fallocate, fd, 0, 100 << 20)\n    os.unlink(f'/home/agent/f{number}')",
    "busy": "for _ in range(8):\n    if not os.fork():\n        while True:\n            pass",
    "memory-files": "kept = []\nfor _ in range(64):\n    fd = os.memfd_create('x')\n"
    "    os.ftruncate(fd, 1 << 26)\n    kept.append(fd)",
}
#: What a daemon does from the moment the code is loaded.
DAEMONS = {
    "tests-edited": "for folder in ('/workspace/semver/test', '/acpbench/isolated/tests'):\n"
    "    for name in attempt(os.listdir, folder) or []:\n        attempt(write, f'{folder}/{name}', b'//' * 4000)",
    "source-repaired": "text = open('/workspace/semver/src/semver.js').read()\n"
    "attempt(write, '/workspace/semver/src/semver.js', text.replace('length', 'size').encode())",
    "waits-for-a-runner": "for pid in pids():\n    words = attempt(lambda: open(f'/proc/{pid}/cmdline').read()) or ''\n"
    "    if 'test' in words:\n        attempt(os.kill, pid, signal.SIGKILL)\n"
    "        attempt(write, f'/proc/{pid}/fd/1', TAP.encode())",
    "waits-for-pipes": "for pid in pids():\n    for name in attempt(os.listdir, f'/proc/{pid}/fd') or []:\n"
    "        attempt(write, f'/proc/{pid}/fd/{name}', TAP.encode())",
    "pids-taken": "for _ in range(50):\n    if os.fork() == 0:\n        os._exit(0)",
}


def attempts() -> Iterator[Attempt]:
    for name, statement in SCRIPTS.items():
        yield Attempt("exhaustion", name, javascript(statement))
    for name in ("loop", "memory", "output", "errors"):
        tail = f"process.on('exit', () => fs.writeSync(1, {quoted(TAP)}));"
        yield Attempt("exhaustion", f"{name}-when-called", javascript(tail + SCRIPTS[name], moment="call"))
    for name, program in PROGRAMS.items():
        yield Attempt("exhaustion", f"program-{name}", python(program))
    yield Attempt("exhaustion", "fork-bomb-late", python(PROGRAMS["fork-bomb"], late=True))
    for name, program in DAEMONS.items():
        yield Attempt("timing", name, python(program, late=True))
    for delay in (5, 60, 400):
        yield Attempt("timing", f"answers-after-{delay}-ms", javascript(_slow(delay), moment="call"))
    yield Attempt(
        "timing", "first-call-only", javascript("if (!globalThis.n) { globalThis.n = 1; return -1; }", moment="call")
    )
    yield Attempt("timing", "by-the-clock", javascript("return (Date.now() % 3) - 1;", moment="call"))


def _slow(delay_ms: int) -> str:
    return f"Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, {delay_ms} / 50);"
