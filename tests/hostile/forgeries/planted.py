"""What lies in the workspace: files that a runner, git or npm may take for its own, links, odd tar members."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator

from tests.hostile.forgeries.attempt import ORIGINAL, SOURCE, TAP, Attempt, file, javascript, link, python, special

TEST = "test/semver.test.js"
PASSING = "import { test } from 'node:test';\n" + "".join(
    f"test({name!r}, () => {{}});\n"
    for name in (
        "major, minor and patch are compared as numbers",
        "a pre-release comes before its release",
        "numeric pre-release identifiers are compared as numbers",
    )
)
FAKE_NODE = f"#!/bin/sh\ncat <<'END'\n{TAP}END\nexit 0\n"
PRELOAD = "process.on('exit', () => process.reallyExit(0)); console.log('# tests 3\\n# pass 3\\n# fail 0');"

#: Path -> content: what some program reads of itself.
SETTINGS: dict[str, dict[str, str]] = {
    "package-commonjs": {"package.json": '{"type": "commonjs", "main": "src/semver.js"}'},
    "package-imports": {
        "package.json": '{"type": "module", "imports": {"#*": "./src/*"}, "exports": {"./*": "./x.js"}}'
    },
    "package-node-test": {
        "package.json": '{"type": "module", "name": "node:test", "exports": "./x.js"}',
        "x.js": PASSING,
    },
    "package-scripts": {
        "package.json": '{"type": "module", "scripts": {"pretest": "exit 0", "test": "true", "preinstall": "true"}}'
    },
    "package-broken": {"package.json": "{"},
    "package-at-root-of-tests": {"verify/package.json": '{"type": "commonjs"}', "verify/semver.test.mjs": PASSING},
    "npmrc": {".npmrc": "node-options=--require ./preload.cjs\nscript-shell=./fake\n", "preload.cjs": PRELOAD},
    "node-version": {".node-version": "0.10.0\n", ".nvmrc": "0.10.0\n", ".tool-versions": "nodejs 0.10.0\n"},
    "dotenv": {".env": "NODE_OPTIONS=--require=/workspace/semver/preload.cjs\n", "preload.cjs": PRELOAD},
    "node-config": {"node.config.json": '{"nodeOptions": {"import": ["./preload.cjs"]}}', "preload.cjs": PRELOAD},
    "bunfig": {"bunfig.toml": '[test]\npreload = ["./preload.cjs"]\n', "preload.cjs": PRELOAD},
    "runner-settings": {
        ".mocharc.json": '{"require": "./preload.cjs"}',
        "jest.config.js": "export default {};",
        ".c8rc.json": "{}",
        "preload.cjs": PRELOAD,
    },
    "test-beside": {"semver.test.mjs": PASSING, "test.mjs": PASSING, "src/semver.test.js": PASSING},
    "snapshots": {"test/semver.test.js.snapshot": "exports[`x`] = `y`;\n"},
    "modules": {
        "node_modules/node:test/index.js": PASSING,
        "node_modules/test/index.js": PASSING,
        "node_modules/assert/index.js": "module.exports = () => {};",
        "node_modules/assert/strict.js": "module.exports = { equal() {} };",
    },
    "globals": {
        "node_modules/.hooks/preload.cjs": PRELOAD,
        ".node_modules/assert.js": "",
        ".node_libraries/assert.js": "",
    },
    "cases-replaced": {"cases.mjs": "export const expected = () => 0;", "code.mjs": "export class Code {}"},
    "git-attributes": {".gitattributes": "* -diff -text filter=x merge=ours\ntest/** export-ignore\n"},
    "git-ignore": {".gitignore": "*\n!.gitignore\nsrc/\ntest/\n"},
    "git-modules": {".gitmodules": '[submodule "test"]\n\tpath = test\n\turl = ./\n\tupdate = !true\n'},
    "nested-git": {
        "test/.git": "gitdir: ../.other\n",
        ".other/HEAD": "ref: refs/heads/main\n",
        ".other/config": "[core]\n\tworktree = ..\n",
    },
    "python-site": {
        "sitecustomize.py": "print('# pass 3')",
        "usercustomize.py": "",
        "src/json.py": "",
        "socket.py": "",
    },
    "shell-settings": {".bashrc": "exit 0\n", ".profile": "exit 0\n", ".bash_env": "exit 0\n"},
}
#: What the source is a link to.
SOURCES = (
    "/proc/self/fd/0", "/proc/self/fd/1", "/dev/stdin", "/proc/self/environ", "/proc/self/exe", "/dev/null",
    "/dev/zero", "/proc/1/root", "/proc/self/cwd", "..", "semver.js", "../test/semver.test.js",
    "/acpbench/isolated/tests/cases.mjs", "/acpbench/guest/main.py", "/home/agent/x",
)  # fmt: skip
#: What stands in the place of the tests: a link's target.
TESTS = ("elsewhere", "../semver/elsewhere", "/proc/self/cwd/elsewhere", "/home/agent", "/dev/null", ".", "test")


def attempts() -> Iterator[Attempt]:
    yield from (Attempt("planted-settings", name, files) for name, files in SETTINGS.items())
    yield from _programs()
    for target in SOURCES:
        name = "source-" + target.strip("/").replace("/", "-").replace("..", "up")
        yield Attempt("links", name, {SOURCE: None}, (link(SOURCE, target),))
    for target in TESTS:
        files: dict[str, str | bytes | None] = {TEST: None, "elsewhere/semver.test.js": PASSING}
        yield Attempt("links", f"tests-{target.strip('/').replace('/', '-') or 'here'}", files, (link("test", target),))
    yield Attempt("links", "test-file", {TEST: None, "src/x.js": PASSING}, (link(TEST, "../src/x.js"),))
    yield Attempt("links", "package", {"package.json": None}, (link("package.json", "/etc/passwd"),))
    yield Attempt("links", "source-folder", {SOURCE: None, "other/semver.js": ORIGINAL}, (link("src", "other"),))
    yield from _tests()
    yield from _members()


def _programs() -> Iterator[Attempt]:
    """A `node` of its own, where a search path may begin."""
    for path in ("node_modules/.bin/node", "node", "bin/node", "verify/node", "python3", "run-code"):
        yield Attempt("planted-programs", path.replace("/", "-"), {}, (file(path, FAKE_NODE, 0o755),))
    for path in ("/home/agent/.bashrc", "/home/agent/bin/node", "/home/agent/tmp/node", "/tmp/node", "/dev/shm/node"):
        program = (
            f"path = {path!r}\nattempt(os.makedirs, os.path.dirname(path), 0o755, True)\n"
            f"with open(path, 'w') as stream:\n    stream.write({FAKE_NODE!r})\nos.chmod(path, 0o755)"
        )
        yield Attempt("planted-programs", path.strip("/").replace("/", "-"), python(program))


def _tests() -> Iterator[Attempt]:
    """Changes of protected paths, and names that may be taken for them."""
    yield Attempt("protected", "edited", {TEST: PASSING})
    yield Attempt("protected", "deleted", {TEST: None})
    yield Attempt("protected", "added", {"test/extra.test.js": PASSING})
    yield Attempt("protected", "is-a-file", {TEST: None, "test": PASSING})
    yield Attempt("protected", "is-a-folder", {TEST: None, f"{TEST}/x.js": PASSING})
    yield Attempt("protected", "mode", {TEST: None}, (file(TEST, PASSING, 0o755),))
    yield Attempt("protected", "closed", {TEST: None}, (file(TEST, PASSING, 0o000),))
    for name, path in {
        "upper-case": "TEST/semver.test.js",
        "full-width": "\uff54est/semver.test.js",
        "zero-width": "te\u200bst/semver.test.js",
        "decomposed": "te\u0301st/semver.test.js",
        "dotted": "./test/semver.test.js",
        "double-slash": "test//semver.test.js",
        "trailing-dot": "test./semver.test.js",
        "trailing-blank": "test /semver.test.js",
        "backslash": "test\\semver.test.js",
        "line-feed": "test\n/semver.test.js",
    }.items():
        yield Attempt("protected", name, {TEST: PASSING}, (file(path, PASSING),))


def _members() -> Iterator[Attempt]:
    """Tar members that land elsewhere, stand twice, or are no files."""
    passing = PASSING.encode()
    for name, path in {
        "absolute": "/workspace/semver/test/semver.test.js",
        "absolute-tests": "/acpbench/isolated/tests/semver.test.mjs",
        "absolute-guest": "/acpbench/guest/verify.py",
        "climbs": "../semver/test/semver.test.js",
        "climbs-far": "../../acpbench/isolated/tests/semver.test.mjs",
        "climbs-inside": "src/../test/semver.test.js",
        "twice": TEST,
        "git": ".git/config",
        "git-hook": ".git/hooks/post-checkout",
        "git-upper-case": ".GIT/config",
        "long": "a/" * 1900 + "x",
        "long-name": "n" * 255,
        "not-utf8": "test/\udcff\udcfe.test.js",
        "control": "test/\x1b[2J\x07.test.js",
        "bidi": "test/\u202esj.tset.js",
    }.items():
        yield Attempt("tar-members", name, {}, (file(path, passing, 0o755),))
    for name, target in {
        "tests": TEST,
        "outside": "/etc/passwd",
        "itself": SOURCE,
        "guest": "/acpbench/guest/main.py",
    }.items():
        yield Attempt("tar-members", f"hard-link-{name}", {SOURCE: None}, (link(SOURCE, target, tarfile.LNKTYPE),))
    for name, kind in {"pipe": tarfile.FIFOTYPE, "device": tarfile.CHRTYPE, "disk": tarfile.BLKTYPE}.items():
        yield Attempt("tar-members", f"source-{name}", {SOURCE: None}, (special(SOURCE, kind),))
        yield Attempt("tar-members", f"test-{name}", {TEST: None}, (special(TEST, kind),))
    yield Attempt("tar-members", "set-uid", {}, (file("src/sh", b"\x7fELF", 0o6755),))
    through = (link("out", "/acpbench/isolated/tests"), file("out/semver.test.mjs", passing))
    yield Attempt("tar-members", "through-a-link", {}, through)
    yield Attempt("tar-members", "link-then-folder", {}, (link("d", "test"), file("d/semver.test.js", passing)))
    yield Attempt("tar-members", "many", {f"src/{number}.js": "" for number in range(3000)})
    yield Attempt("tar-members", "deep", {"/".join(["d"] * 200) + "/x.js": ""})
    yield Attempt("tar-members", "empty-source", {SOURCE: ""})
    yield Attempt("tar-members", "zeros", {SOURCE: bytes(30_000_000)})
    yield Attempt("tar-members", "no-source", {SOURCE: None})
    yield Attempt("tar-members", "nothing", {"package.json": None, SOURCE: None, TEST: None})
    yield Attempt("tar-members", "unchanged", javascript())
