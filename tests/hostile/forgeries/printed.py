"""What the code prints, and how it ends: the parser's own output, exit codes, the test runner's events."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tests.hostile.forgeries.attempt import MOMENTS, SUMMARY, TAP, TESTS, Attempt, javascript, python, quoted

WHEN = ("load", "call", *MOMENTS)
#: Texts that a reader of TAP may take for a pass.
TEXTS = {
    "summary": SUMMARY,
    "whole": TAP,
    "thousand": SUMMARY * 1000,
    "carriage-returns": "\r" + SUMMARY.replace("\n", "\r\n"),
    "only-returns": SUMMARY.replace("\n", "\r"),
    "nul": SUMMARY.replace("\n", "\0\n") + "\0" * 5000,
    "ansi": "\x1b[2J\x1b[H" + SUMMARY + "\x1b[8m",
    "erase-lines": "\x1b[1A\x1b[2K" * 200 + SUMMARY,
    "wide-digits": "# tests \uff13\n# pass \uff13\n# fail \uff10\n",
    "line-separators": SUMMARY.replace("\n", "\u2028"),
    "bail-out": TAP + "Bail out!\n",
    "plan-of-three": "TAP version 13\n1..3\nok 1\nok 2\nok 3\n# tests 3\n# pass 3\n# fail 0\n",
    "all-skipped": "".join(f"ok {n} - {name} # SKIP\n" for n, name in enumerate(TESTS, 1)) + SUMMARY,
    "all-todo": "".join(f"not ok {n} - {name} # TODO\n" for n, name in enumerate(TESTS, 1)) + SUMMARY,
    "subtest": "# Subtest: x\n    ok 1 - x\n    1..1\nok 1 - x\n" + SUMMARY,
    "unfinished-line": SUMMARY + "# fail",
    "comment-eats-all": "\n\n" + SUMMARY + "#",
    "yaml-block": "  ---\n  duration_ms: 1\n  ...\n" + SUMMARY,
    "pragma": "pragma +strict\n" + SUMMARY,
    "not-utf8": SUMMARY + "\udcff\udcfe\n",
}
#: How to be gone with a clean exit.
ENDS = {
    "exit-0": "process.exit(0);",
    "really-exit-0": "process.reallyExit(0);",
    "exit-code-0": "process.exitCode = 0; process.on('exit', () => { process.exitCode = 0; process.reallyExit(0); });",
    "exit-in-exit": "process.on('exit', () => process.reallyExit(0));",
    "exit-in-before-exit": "process.on('beforeExit', () => process.exit(0));",
    "swallow-errors": "process.on('uncaughtException', () => {}); process.on('unhandledRejection', () => {});",
    "swallow-signals": "for (const s of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(s, () => process.exit(0));",
    "no-exit": "process.exit = () => {}; process.reallyExit = () => {}; process.abort = () => {};",
    "exec-true": "if (process.execve) process.execve('/bin/true', ['true'], {});",
    "die-by-signal": "process.kill(process.pid, 'SIGKILL');",
    "frozen-exit-code": "Object.defineProperty(process, 'exitCode', { get: () => 0, set: () => {} });",
}
#: The runner's own events, as a test file's process sends them to its parent.
EVENTS = """
import v8 from 'node:v8';
function events(items) {
  return Buffer.concat(items.map((item) => {
    const serializer = new v8.DefaultSerializer();
    serializer.writeHeader();
    const head = serializer.releaseBuffer();
    serializer.writeHeader();
    serializer.writeValue(item);
    const body = serializer.releaseBuffer();
    const size = Buffer.alloc(4);
    size.writeUInt32BE(body.length);
    return Buffer.concat([head, size, body]);
  }));
}
const file = process.argv[1] ?? '/x/test/semver.test.js';
const where = { nesting: 0, file, line: 1, column: 1 };
const items = %s.flatMap((name, index) => [
  { type: 'test:enqueue', data: { ...where, name, type: 'test' } },
  { type: 'test:dequeue', data: { ...where, name, type: 'test' } },
  { type: 'test:start', data: { ...where, name } },
  { type: 'test:complete', data: { ...where, name, testNumber: index + 1, details: { duration_ms: 1, passed: true, type: 'test' } } },
  { type: 'test:pass', data: { ...where, name, testNumber: index + 1, details: { duration_ms: 1, type: 'test' } } },
]).concat([{ type: 'test:plan', data: { nesting: 0, file, count: 3 } }]);
"""  # noqa: E501 - JavaScript, a line an event


def attempts() -> Iterator[Attempt]:
    yield from _summaries()
    yield from _endings()
    yield from _events()
    yield from _late()


def _summaries() -> Iterator[Attempt]:
    for when, fd in itertools.product(WHEN, (1, 2)):
        statement = f"fs.writeSync({fd}, {quoted(TAP)});"
        yield Attempt("forged-summary", f"{when}-fd-{fd}", javascript(statement, moment=when))
    for name, text in TEXTS.items():
        statement = f"try {{ fs.writeSync(1, Buffer.from({quoted(text)}, 'utf8')); }} catch {{}}"
        yield Attempt("summary-text", name, javascript(f"{statement} process.on('exit', () => {{ {statement} }});"))
    for stream, call in itertools.product(("stdout", "stderr"), ("write", "end")):
        yield Attempt("forged-summary", f"{stream}-{call}", javascript(f"process.{stream}.{call}({quoted(TAP)});"))


def _endings() -> Iterator[Attempt]:
    for name, statement in ENDS.items():
        yield Attempt("exit-code", name, javascript(statement))
        yield Attempt("exit-code", f"{name}-after-summary", javascript(f"fs.writeSync(1, {quoted(TAP)}); {statement}"))
    for name in ("exit-0", "really-exit-0", "die-by-signal"):
        yield Attempt("exit-code", f"{name}-when-called", javascript(ENDS[name], moment="call"))


def _events() -> Iterator[Attempt]:
    names = quoted("|".join(TESTS)) + ".split('|')"
    for when, exits in itertools.product(("load", "call", "exit"), (True, False)):
        end = "process.reallyExit(0);" if exits else ""
        head = EVENTS % names
        files = javascript(f"fs.writeSync(1, events(items)); {end}", moment=when)
        files["src/semver.js"] = head + files["src/semver.js"]
        yield Attempt("runner-events", f"{when}-{'exit' if exits else 'stay'}", files)
    for path in ("/proc/self/fd/1", "/dev/stdout", "/proc/self/fd/2"):
        files = javascript(
            f"try {{ fs.appendFileSync({quoted(path)}, events(items)); }} catch {{}} process.reallyExit(0);"
        )
        files["src/semver.js"] = EVENTS % names + files["src/semver.js"]
        yield Attempt("runner-events", f"through-{path.strip('/').replace('/', '-')}", files)


def _late() -> Iterator[Attempt]:
    """From a process that outlives the test, to the descriptors it has inherited."""
    for delay, fd in itertools.product((50, 300, 1200), (1, 2)):
        program = f"setTimeout(() => require('fs').writeSync({fd}, {quoted(TAP)}), {delay});"
        spawn = (
            f"child.spawn(process.execPath, ['-e', {quoted(program)}], {{ stdio: 'inherit', detached: true }}).unref();"
        )
        yield Attempt("late-writer", f"{delay}-ms-fd-{fd}", javascript(spawn))
    yield Attempt("late-writer", "again-and-again", python("say(TAP)", late=True))
    forks = "if os.fork():\n    os._exit(0)\nos.setsid()\nif os.fork():\n    os._exit(0)\nsay(TAP)"
    yield Attempt("late-writer", "twice-forked", python(forks, late=True))
    ignoring = (
        "for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):\n    signal.signal(number, signal.SIG_IGN)\n"
    )
    yield Attempt("late-writer", "deaf-to-signals", python(ignoring + "say(TAP)", late=True))
