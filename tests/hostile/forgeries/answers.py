"""What runs in one process with the test or with what asks for the tests: replaced functions, guessed answers."""

from __future__ import annotations

from collections.abc import Iterator

from tests.hostile.forgeries.attempt import ORIGINAL, SOURCE, Attempt, javascript

#: Statements that make a test in the same process pass, or try to.
PATCHES = {
    "strict-equal": "const a = (await import('node:assert/strict')).default; a.equal = a.strictEqual = () => {};",
    "all-of-assert": "const a = (await import('node:assert')).default;"
    " for (const k of Object.keys(a.strict)) { try { a.strict[k] = () => {}; a[k] = () => {}; } catch {} }",
    "assertion-error": "const a = (await import('node:assert')).default;"
    " a.AssertionError.prototype.generatedMessage = false;"
    " Object.defineProperty(a.AssertionError, Symbol.hasInstance, { value: () => true });",
    "node-test": "const t = (await import('node:test')).default; const real = t.test;"
    " t.test = t.it = (name) => real(name, () => {});",
    "sync-builtins": "const m = (await import('node:module')).default; const t = (await import('node:test')).default;"
    " const real = t.test; t.test = (name) => real(name, () => {}); m.syncBuiltinESMExports();",
    "test-hooks": "const t = (await import('node:test')).default; t.beforeEach((c) => c.skip());"
    " t.afterEach(() => {});",
    "mock": "const { mock } = await import('node:test'); const a = (await import('node:assert/strict')).default;"
    " mock.method(a, 'equal', () => {});",
    "test-context": "const t = await import('node:test'); const proto = Object.getPrototypeOf(t.default.mock);"
    " proto.method = () => {};",
    "object-is": "Object.is = () => true; Number.prototype.valueOf = () => 0;",
    "array-methods": "for (const k of ['push', 'forEach', 'map', 'at']) Array.prototype[k] = function () {};",
    "json": "JSON.stringify = () => '{\"passed\":true}'; JSON.parse = () => ({});",
    "stdout-write": "process.stdout.write = () => true; process.stderr.write = () => true;",
    "stdout-filter": "const w = process.stdout.write.bind(process.stdout);"
    " process.stdout.write = (s, ...r) => w(`${s}`.replaceAll('not ok', 'ok').replace('fail 2', 'fail 0'), ...r);",
    "emit": "process.emit = () => true; process._events = {};",
    "errors": "globalThis.Error = class { }; Error.captureStackTrace = () => {}; Error.prepareStackTrace = () => '';",
    "promises": "Promise.prototype.then = function () { return this; };",
    "prototype": "Object.prototype.passed = true; Object.prototype.ok = true; Object.prototype.failed = 0;"
    " Object.prototype.value = -1; Object.prototype.nonce = '0';",
    "loader": "const m = await import('node:module');"
    ' m.register(\'data:text/javascript,export async function load(u,c,n){if(u.includes("assert"))'
    'return{format:"module",source:"export default {equal(){}}",shortCircuit:true};return n(u,c)}\');',
    "binding": "try { process.binding('fs'); process.binding('spawn_sync'); } catch {}"
    " try { process._linkedBinding('x'); } catch {}",
    "worker": "const { Worker } = await import('node:worker_threads');"
    " new Worker(`require('fs').writeSync(1, '# tests 3\\\\n# pass 3\\\\n# fail 0\\\\n')`, { eval: true });",
    "wasm": "const bytes = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]);"
    " await WebAssembly.instantiate(bytes); WebAssembly.compile = () => {};",
    "addon": "fs.writeFileSync('/tmp/x.node', 'ELF'); try { process.dlopen({ exports: {} }, '/tmp/x.node'); } catch {}",
    "inspector": "const i = await import('node:inspector'); i.open(0, '127.0.0.1'); "
    "for (const pid of fs.readdirSync('/proc')) if (/^\\d+$/.test(pid)) { try { process._debugProcess(+pid);"
    " } catch {} }",
    "environment": "for (const k of Object.keys(process.env)) delete process.env[k];"
    " Object.assign(process.env, { NODE_TEST_CONTEXT: 'child-v8', NODE_OPTIONS: '--test-reporter=tap' });"
    " process.env.NODE_V8_COVERAGE = '/tmp';",
    "arguments": "process.argv.push('--test-only', '--test-skip-pattern=.');"
    " process.execArgv.push('--test-force-exit');",
    "import-meta": "import.meta.url = 'file:///x'; process.chdir('/'); process.title = 'node --test';",
    "intervals": "setInterval(() => {}, 1);"
    " process.on('exit', () => { for (;;) { if (Date.now() % 997 === 0) break; } });",
    "sleep": "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1500);",
}
#: What is put in the place of an order: values that a loose comparison may take for any.
VALUES = {
    "true": "true",
    "one-string": "'1'",
    "object": "({ valueOf: () => -1, toString: () => '-1' })",
    "array": "[-1]",
    "to-json": "({ toJSON: () => -1 })",
    "counting": "(globalThis.n = ((globalThis.n ?? 0) + 1) % 3) - 1",
    "changing": "({ toJSON: () => (globalThis.n = ((globalThis.n ?? 0) + 1) % 3) - 1 })",
    "nan": "NaN",
    "null": "null",
    "nothing": "undefined",
    "proxy": "new Proxy({}, { get: () => () => -1 })",
    "minus-one": "-1",
    "zero": "0",
    "random": "Math.floor(Math.random() * 3) - 1",
    "huge": "'x'.repeat(5_000_000)",
    "big": "1n",
    "symbol": "Symbol('-1')",
    "throws-order": "(() => { throw -1; })()",
    "wishful": "left.length < right.length ? -1 : left.length > right.length ? 1 : 0",
    "alphabet": "left < right ? -1 : left > right ? 1 : 0",
}
#: Statements that answer in place of what asks.
TALKERS = {
    "all-values": "console.log(JSON.stringify({ nonce: null, results: Array(99).fill({ value: -1 }) }));",
    "no-results": "process.stdout.write(JSON.stringify({ results: [] }) + '\\n');",
    "endless-length": "process.stdout.write(JSON.stringify({ results: { length: 78 } }) + '\\n');",
    "prototype": 'process.stdout.write(\'{"__proto__": {"value": -1}, "nonce": {"__proto__": {}}}\\n\');',
    "echo": "process.stdin.on('data', (line) => process.stdout.write(line));",
    "nonce-taken": "let rest = ''; process.stdin.on('data', (chunk) => { rest += chunk;"
    " try { const q = JSON.parse(rest);"
    " process.stdout.write(JSON.stringify({ nonce: q.nonce, results: q.calls.map(() => ({ value: -1 })) }) + '\\n'); }"
    " catch {} });",
    "nonce-guess": "let rest = ''; process.stdin.on('data', (chunk) => { rest += chunk;"
    " try { const q = JSON.parse(rest);"
    " for (let i = 0; i < 50; i += 1) process.stdout.write(JSON.stringify({ nonce: q.nonce, results: q.calls.map(() =>"
    " ({ value: Math.floor(Math.random() * 3) - 1 })) }) + '\\n'); } catch {} });",
    "shape-guess": "let rest = ''; process.stdin.on('data', (chunk) => { rest += chunk;"
    " try { const q = JSON.parse(rest);"
    " process.stdout.write(JSON.stringify({ nonce: q.nonce, results: q.calls.map(([l, r]) => ({ value: l === r ? 0 :"
    " l.includes('-') && !r.includes('-') ? -1 : 1 })) }) + '\\n'); } catch {} });",
    "passed-object": "let rest = ''; process.stdin.on('data', (chunk) => { rest += chunk;"
    " try { const q = JSON.parse(rest);"
    " process.stdout.write(JSON.stringify({ nonce: q.nonce, passed: true, results: [] }) + '\\n'); } catch {} });",
    "no-answer": "process.stdout.write = () => true; fs.writeSync = () => 0;",
    "half-a-line": 'process.stdout.write(\'{"nonce": "\'); process.stdout.write = () => true;',
    "closed": "fs.closeSync(1); fs.closeSync(2);",
    "closed-input": "fs.closeSync(0);",
}
#: The visible tests by heart, and nothing else: it passes them, and mends nothing.
BY_HEART = """
const order = ['0.9.0', '1.0.0-9', '1.0.0-10', '1.0.0-alpha', '1.0.0-alpha.1', '1.0.0-alpha.2', '1.0.0-alpha.10',
  '1.0.0-alpha.beta', '1.0.0', '1.0.9', '1.0.10', '1.2.0', '1.9.9', '1.10.0', '2.0.0-rc.1', '2.0.0', '10.0.0'];
"""
LOOKUPS = {
    "table": "if (order.includes(left) && order.includes(right))"
    " return Math.sign(order.indexOf(left) - order.indexOf(right));",
    "table-or-throw": "if (!order.includes(left) || !order.includes(right)) throw new Error('unknown');"
    " return Math.sign(order.indexOf(left) - order.indexOf(right));",
    "hash": "const h = (t) => [...t].reduce((n, c) => n * 31 + c.charCodeAt(0) | 0, 7);"
    " const known = order.map(h); const [i, j] = [known.indexOf(h(left)), known.indexOf(h(right))];"
    " if (i >= 0 && j >= 0) return Math.sign(i - j);",
}


def attempts() -> Iterator[Attempt]:
    for name, statement in PATCHES.items():
        yield Attempt("patched-process", name, javascript(statement))
    for name, value in VALUES.items():
        yield Attempt("wrong-values", name, javascript(f"return {value};", moment="call"))
    for name, statement in TALKERS.items():
        yield Attempt("answers-itself", name, javascript(statement))
    for name, statement in LOOKUPS.items():
        yield Attempt("by-heart", name, javascript(BY_HEART, call=statement))
    whole = f"export * from './other.js';\nexport const parse = (t) => t;\n// {len(ORIGINAL)}\n"
    getter = "export let compare = () => -1; setTimeout(() => { compare = () => 1; }, 20); export const parse = 0;\n"
    yield Attempt("wrong-values", "getter", {SOURCE: getter})
    yield Attempt("wrong-values", "elsewhere", {SOURCE: whole, "src/other.js": "export const compare = () => 0;\n"})
