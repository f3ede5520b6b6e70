"""One attempt: the fixture's files with the bug still in them, and what is to forge a verdict."""

from __future__ import annotations

import base64
import gzip
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.engine.lab import AGENTS, REPOSITORY

TREE = REPOSITORY / "fixtures/semver/tree"
SOURCE = "src/semver.js"
#: What every program in Python begins with.
FORGER = (AGENTS / "forger.py").read_text(encoding="utf-8")
ORIGINAL = (TREE / SOURCE).read_text(encoding="utf-8")
TESTS = (
    "major, minor and patch are compared as numbers",
    "a pre-release comes before its release",
    "numeric pre-release identifiers are compared as numbers",
)
#: What the runner prints last when all is well.
SUMMARY = "# tests 3\n# suites 0\n# pass 3\n# fail 0\n# cancelled 0\n# skipped 0\n# todo 0\n# duration_ms 9.5\n"
TAP = "TAP version 13\n" + "".join(f"ok {n} - {name}\n" for n, name in enumerate(TESTS, 1)) + "1..3\n" + SUMMARY
#: What the guest would tell the host of a repair that passes.
REPLY = {
    "ok": True,
    "output": TAP,
    "changes": [],
    "skipped": [],
    "proofs": [],
    "timed_out": False,
    "exit_code": 0,
    "test_ms": 9.5,
    "status": "",
    "patch": "",
    "patch_cut": False,
}


@dataclass(frozen=True)
class Attempt:
    """`files`: path -> content over the fixture's own, None: taken away. `members`: of the tar, as they are."""

    family: str
    name: str
    files: Mapping[str, str | bytes | None] = field(default_factory=dict)
    members: tuple[tuple[tarfile.TarInfo, bytes], ...] = ()

    def archive(self) -> str:
        """As `collect` gives it: base64 of a gzipped tar."""
        files: dict[str, str | bytes | None] = {
            path.relative_to(TREE).as_posix(): path.read_bytes() for path in sorted(TREE.rglob("*")) if path.is_file()
        }
        files |= self.files
        buffer = io.BytesIO()
        with (
            gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT, errors="surrogateescape") as tar,
        ):
            for path, content in files.items():
                if content is not None:
                    add(tar, *file(path, content))
            for member, data in self.members:
                add(tar, member, data)
        return base64.b64encode(buffer.getvalue()).decode("ascii")


def add(tar: tarfile.TarFile, member: tarfile.TarInfo, data: bytes) -> None:
    tar.addfile(member, io.BytesIO(data) if member.isreg() else None)


def file(path: str, content: str | bytes = "", mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    member = tarfile.TarInfo(path)
    member.size, member.mode = len(data), mode
    return member, data


def link(path: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(path)
    member.type, member.linkname = kind, target
    return member, b""


def special(path: str, kind: bytes, mode: int = 0o666) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(path)
    member.type, member.mode, member.devmajor, member.devminor = kind, mode, 1, 8
    return member, b""


def javascript(before: str = "", *, call: str = "", moment: str = "load") -> dict[str, str]:
    """The source with its bug, and statements of ours: when it is loaded, when it is called, or at a later moment."""
    if moment == "call":
        before, call = "", before
    elif moment != "load":
        before = MOMENTS[moment] % before
    head = "export function compare(left, right) {\n"
    assert head in ORIGINAL
    prelude = "import * as fs from 'node:fs';\nimport * as child from 'node:child_process';\n"
    return {SOURCE: prelude + before + "\n" + ORIGINAL.replace(head, head + call + "\n")}


MOMENTS = {
    "exit": "process.on('exit', () => { %s });",
    "before-exit": "process.on('beforeExit', () => { %s });",
    "timer": "setTimeout(() => { %s }, 40);",
    "microtask": "queueMicrotask(() => { %s });",
    "error": "process.on('uncaughtException', () => { %s }); setTimeout(() => { throw new Error('x'); }, 30);",
    "terminate": "process.on('SIGTERM', () => { %s });",
}


def python(payload: str, *, late: bool = False) -> dict[str, str]:
    """The source runs a program in Python as it is loaded: at once, or one that lives on apart from it (`late`)."""
    run = (
        "child.spawn('python3', ['-I', program], { stdio: 'inherit', detached: true }).unref();"
        if late
        else "child.spawnSync('python3', ['-I', program], { stdio: 'inherit', timeout: 4000 });"
    )
    before = f"const program = import.meta.dirname + '/attack.py';\n{run}"
    body = "\n".join(f"    {line}" for line in payload.splitlines())
    program = f"{FORGER}\n\ndef attack():\n{body}\n\n\nrun(attack, late={late})\n"
    return {**javascript(before), "src/attack.py": program}


def quoted(text: str) -> str:
    """As a JavaScript literal."""
    return json.dumps(text)
