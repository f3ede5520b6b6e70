"""An agent on strings: plays a list of acts over ACP (or as a CLI), standard library only, inside the sandbox.

The acts stand in ~/.puppet.json, a list of objects `{"do": <name>, ...}`. It speaks just enough ACP to be driven, asks
the scripted model over the Anthropic dialect, and does on purpose what hostile or broken agents do. Used by engine and
hostile tests through an adapter that is written by the test (`tests.engine.lab`).
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable
from typing import Any

Act = dict[str, Any]


class Puppet:
    def __init__(self) -> None:
        self.session = "puppet-session"
        self.cwd = os.getcwd()
        self.number = 0
        self.seen: dict[str, Any] = {}
        self.request: dict[str, Any] = {}
        self.prompt: dict[str, Any] = {}
        self.held: list[socket.socket] = []

    # the wire

    def send(self, body: Any) -> None:
        sys.stdout.buffer.write(json.dumps(body).encode() + b"\n")
        sys.stdout.buffer.flush()

    def read(self) -> dict[str, Any]:
        line = sys.stdin.buffer.readline()
        if not line:
            sys.exit(0)
        message: dict[str, Any] = json.loads(line)
        return message

    def answer(self, request: dict[str, Any], result: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        body = {"sessionId": self.session, **params}
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": body})
        while True:
            message = self.read()
            if message.get("id") == self.number and "method" not in message:
                return message

    def update(self, **update: Any) -> None:
        params = {"sessionId": self.session, "update": update}
        self.send({"jsonrpc": "2.0", "method": "session/update", "params": params})

    # acts on the wire: a hostile agent plays them from its start, nothing is answered for it

    def do_await(self, act: Act) -> None:
        """Read on until the client's request or notification `method` is there; it is what `answer` answers next."""
        while True:
            message = self.read()
            if message.get("method") == act["method"]:
                self.request = message
                return

    def do_answer(self, act: Act) -> None:
        """A `result` or an `error` for the last awaited request; `raw_id` in place of its id, `times` over.

        `raw`: the result as text.
        """
        if "raw" in act:
            self._say_result(self.request, act["raw"])
            return
        body = {key: act[key] for key in ("result", "error") if key in act}
        number = act.get("raw_id", self.request.get("id"))
        for _ in range(act.get("times", 1)):
            self.send({"jsonrpc": "2.0", "id": number, **body})

    def do_handshake(self, _act: Act) -> None:
        """Answer initialize and session/new as a well-behaved agent does."""
        self.do_await({"method": "initialize"})
        self.do_answer({"result": {"protocolVersion": 1, "agentCapabilities": {}}})
        self.do_await({"method": "session/new"})
        self.do_answer({"result": {"sessionId": self.session}})

    def do_prompt(self, _act: Act) -> None:
        """Wait for session/prompt, keep it for `end`, and tell that the turn has begun."""
        self.do_await({"method": "session/prompt"})
        self.prompt = self.request
        self.do_say({"text": "..."})

    def do_eof(self, _act: Act) -> None:
        """Read on until the client hangs up."""
        while sys.stdin.buffer.readline():
            pass

    def do_mcp(self, act: Act) -> None:
        """Start the first MCP server of the awaited session/new, `after` seconds later (in a child, so that the session
        goes on), and ask it for its tools.
        """
        server = self.request["params"]["mcpServers"][0]
        if os.fork():
            return
        time.sleep(act.get("after", 0))
        env = {**os.environ, **{one["name"]: one["value"] for one in server.get("env", [])}}
        argv = [server["command"], *server["args"]]
        child = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdin is not None
        assert child.stdout is not None
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "puppet", "version": "1"}}
        for body in (
            {"id": 1, "method": "initialize", "params": hello},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/list"},
        ):
            child.stdin.write(json.dumps({"jsonrpc": "2.0", **body}).encode() + b"\n")
            child.stdin.flush()
            if "id" in body:
                print(
                    f"mcp {time.monotonic_ns()} {child.stdout.readline().decode().strip()}", file=sys.stderr, flush=True
                )
        child.stdin.close()
        os._exit(0)

    def do_await_answer(self, act: Act) -> None:
        """Read on until the request `id` of our own is answered."""
        while self.read().get("id") != act["id"]:
            pass

    def do_keep(self, _act: Act) -> None:
        """Remember the awaited request as the prompt."""
        self.prompt = self.request

    def do_fail(self, act: Act) -> None:
        """An error in place of the prompt's response."""
        self.send({"jsonrpc": "2.0", "id": self.prompt["id"], "error": act["error"]})

    def do_ignore(self, act: Act) -> None:
        signal.signal(act["signal"], signal.SIG_IGN)

    def do_end(self, act: Act) -> None:
        """The prompt's response; `raw`: its result as text."""
        if "raw" in act:
            self._say_result(self.prompt, act["raw"])
            return
        self.answer(self.prompt, act.get("result", {"stopReason": act.get("stop", "end_turn")}))

    def _say_result(self, request: dict[str, Any], result: str) -> None:
        """A result that is no JSON of Python's own; DIGITS stands for a number of 4,300 digits."""
        text = result.replace("DIGITS", "9" * 4300)
        self.do_raw({"text": f'{{"jsonrpc":"2.0","id":{json.dumps(request["id"])},"result":{text}}}\n'})

    def do_send(self, act: Act) -> None:
        """Any message, `times` over."""
        line = json.dumps(act["message"]).encode() + b"\n"
        for _ in range(act.get("times", 1)):
            sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()

    def do_update(self, act: Act) -> None:
        self.update(**act["update"])

    def do_pieces(self, act: Act) -> None:
        """Hex bytes on stdout, one write a piece, with a pause between them."""
        for piece in act["hex"]:
            os.write(1, bytes.fromhex(piece))
            time.sleep(act.get("pause", 0.02))

    def do_big(self, act: Act) -> None:
        """One update whose line has `bytes` bytes of text."""
        self.do_say({"text": "x" * act["bytes"]})

    def do_digits(self, act: Act) -> None:
        """`text` with each %s as a number of so many `digits`, or as an object nested `deep`."""
        value = "9" * act["digits"] if "deep" not in act else '{"a":' * act["deep"] + "1" + "}" * act["deep"]
        os.write(1, act["text"].replace("%s", value).encode())

    def do_nested(self, act: Act) -> None:
        os.write(1, b"[" * act["depth"] + b"]" * act["depth"] + b"\n")

    def do_close(self, act: Act) -> None:
        os.close(act["fd"])

    def do_die(self, act: Act) -> None:
        os.kill(os.getpid(), act["signal"])

    def do_expect(self, act: Act) -> None:
        """The next line from the client must hold `text`; exit 3 where it does not."""
        line = sys.stdin.buffer.readline().decode()
        if act["text"] not in line:
            print(f"puppet: expected {act['text']!r}, got {line!r}", file=sys.stderr, flush=True)
            os._exit(3)

    # acts

    def do_model(self, act: Act) -> None:
        """Ask the model until it has no more tool calls; its calls are answered with `done` and not carried out.

        `stubborn`: what fails is asked again for ever, as some agents do.
        """
        messages: list[Any] = [{"role": "user", "content": "go"}]
        tools = [{"name": "Bash", "description": "", "input_schema": {"type": "object", "properties": {}}}]
        while True:
            body = {"model": "puppet", "max_tokens": 100, "messages": messages, "tools": tools}
            request = urllib.request.Request(
                os.environ["MODEL_URL"] + "/v1/messages",
                json.dumps(body).encode(),
                {"content-type": "application/json", "x-api-key": "none"},
            )
            try:
                with urllib.request.urlopen(request) as response:
                    reply = json.load(response)
            except OSError:
                if not act.get("stubborn"):
                    raise
                time.sleep(0.5)
                continue
            uses = [block for block in reply["content"] if block["type"] == "tool_use"]
            if not uses:
                return
            messages.append({"role": "assistant", "content": reply["content"]})
            results = [{"type": "tool_result", "tool_use_id": use["id"], "content": "done"} for use in uses]
            messages.append({"role": "user", "content": results})

    def do_ask_model(self, act: Act) -> None:
        """`times` requests to the model, whatever they are answered: a prompt of `bytes` bytes, or the body `raw`
        (`repeat` times over).
        """
        content = act.get("raw", "") * act.get("repeat", 1)
        if not content:
            messages = [{"role": "user", "content": "x" * act.get("bytes", 1)}]
            content = json.dumps({"model": "puppet", "max_tokens": 100, "messages": messages})
        headers = {"content-type": "application/json", **act.get("headers", {})}
        for _ in range(act.get("times", 1)):
            request = urllib.request.Request(os.environ["MODEL_URL"] + "/v1/messages", content.encode(), headers)
            try:
                with urllib.request.urlopen(request) as response:
                    response.read()
            except OSError as problem:
                print(f"puppet: {problem}", file=sys.stderr)

    def do_http(self, act: Act) -> None:
        """Bytes to the model's port, `times` over each connection; its answer is read, or not for `hold` seconds."""
        path = urllib.parse.urlsplit(os.environ["MODEL_URL"]).path
        data = act["text"].replace("{path}", path).encode("utf-8", "surrogateescape") * act.get("times", 1)
        for connection in [self._connected() for _ in range(act.get("connections", 1))]:
            try:
                connection.sendall(data)
                if "hold" in act:
                    time.sleep(act["hold"])
                else:
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(1 << 16):
                        pass
            except OSError as problem:
                print(f"puppet: {problem}", file=sys.stderr)
            connection.close()

    def do_unending(self, act: Act) -> None:
        """Requests over `connections` connections whose bodies never end, for `seconds` or until all are cut."""
        path = urllib.parse.urlsplit(os.environ["MODEL_URL"]).path
        head = f"POST {path}/v1/messages HTTP/1.1\r\nHost: model\r\nTransfer-Encoding: chunked\r\n\r\n"
        piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        left = {self._connected(): head.encode() for _ in range(act["connections"])}
        until = time.monotonic() + act["seconds"]
        for connection in left:
            connection.setblocking(False)
        while left and time.monotonic() < until:
            _, ready, _ = select.select([], list(left), [], 0.1)
            for connection in ready:
                try:
                    left[connection] = left[connection][connection.send(left[connection]) :] or piece
                except BlockingIOError:
                    pass
                except OSError:
                    del left[connection]
        for connection in left:
            connection.close()

    def _connected(self) -> socket.socket:
        address = urllib.parse.urlsplit(os.environ["MODEL_URL"])
        return socket.create_connection((str(address.hostname), int(address.port or 80)))

    def do_lines(self, act: Act) -> None:
        """Numbered lines on stdout: `text` with `#` replaced, `times` over."""
        for number in range(act["times"]):
            sys.stdout.buffer.write(act["text"].replace("#", str(number)).encode() + b"\n")
        sys.stdout.buffer.flush()

    def do_files(self, act: Act) -> None:
        """`times` empty files below `path`, a thousand in a folder."""
        for number in range(act["times"]):
            folder = os.path.join(os.path.expanduser(act["path"]), str(number // 1000))
            if number % 1000 == 0:
                os.makedirs(folder, exist_ok=True)
            os.close(os.open(os.path.join(folder, f"file-{chr(97 + number % 26)}{number}"), os.O_CREAT | os.O_WRONLY))

    def do_asks(self, act: Act) -> None:
        """`times` permission requests, each answered before the next."""
        for number in range(act["times"]):
            self.do_ask({"tool_call": {"toolCallId": f"call-{number}", "title": "x", "kind": "execute"}})

    def do_calls(self, act: Act) -> None:
        """`times` requests to the client, each answered before the next; `#` in a text parameter is its number."""
        for number in range(act["times"]):
            params = {k: v.replace("#", str(number)) if isinstance(v, str) else v for k, v in act["params"].items()}
            self.call(act["method"], **params)

    def do_say(self, act: Act) -> None:
        """`text`, which may be a list of pieces that belong together."""
        said = act["text"]
        text = said if isinstance(said, str) else "".join(said)
        self.update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})

    def do_shell(self, act: Act) -> None:
        """Run a shell line with the agent's own rights; its output goes to stderr."""
        subprocess.run(act["command"], shell=True, stdout=sys.stderr, cwd=self.cwd, check=False)

    def do_write(self, act: Act) -> None:
        """A file below the session's cwd, written by the agent itself."""
        path = os.path.join(self.cwd, act["path"])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(act["text"])

    def do_python(self, act: Act) -> None:
        """Run a program with the agent's own rights, its output on stderr; exit 3 where it fails."""
        done = subprocess.run([sys.executable, "-I", "-c", act["code"]], stdout=sys.stderr, cwd=self.cwd, check=False)
        if done.returncode and not act.get("may_fail"):
            os._exit(3)

    def do_child(self, act: Act) -> None:
        """Play `acts` in a child with a session of its own, which reads and says nothing; nobody waits for it."""
        if os.fork():
            return
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        self.play(act["acts"])
        os._exit(0)

    def do_leave_main(self, act: Act) -> None:
        """End the main thread alone, which shows the process as a zombie, while another one plays `acts`."""

        def rest() -> None:
            self.play(act["acts"])
            os._exit(0)

        threading.Thread(target=rest).start()
        ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)

    def do_trace_me(self, act: Act) -> None:
        """Make the parent our tracer, so that a signal of ours stops us until it lets us go on."""
        ctypes.CDLL(None).ptrace(0, 0, 0, 0)
        os.kill(os.getpid(), act["signal"])

    def do_await_orphanage(self, _act: Act) -> None:
        """Wait until the parent of this child is gone."""
        parent = os.getppid()
        while os.getppid() == parent:
            time.sleep(0.01)

    def do_await_eof(self, _act: Act) -> None:
        """Read until the client hangs up."""
        while sys.stdin.buffer.readline():
            pass

    def do_requests(self, act: Act) -> None:
        """`times` connections to the model at once, each with `head` and then `body` bytes, and no end; held open."""
        address = urllib.parse.urlsplit(os.environ["MODEL_URL"])
        head = act["head"].replace("{path}", address.path).replace("\n", "\r\n").encode()
        for _ in range(act["times"]):
            with contextlib.suppress(OSError):
                connection = socket.create_connection((address.hostname, address.port), timeout=2)
                self.held.append(connection)
                connection.sendall(head + b"x" * act.get("body", 0))

    def do_call(self, act: Act) -> None:
        """Any request to the client; `save` keeps one field of the result for `{name}` in later acts."""
        params = {k: self._fill(v) for k, v in act.get("params", {}).items()}
        reply = self.call(act["method"], **params)
        print(json.dumps(reply), file=sys.stderr)
        if "save" in act:
            self.seen[act["save"]] = reply.get("result", {}).get(act["save"])
        if "expect" in act and act["expect"] not in json.dumps(reply):
            print(f"puppet: expected {act['expect']!r}", file=sys.stderr)
            sys.exit(3)

    def do_repeat(self, act: Act) -> None:
        for _ in range(act["times"]):
            self.play(act["acts"])

    def do_packed(self, act: Act) -> None:
        """Acts with words that no configuration may hold: base64 of their deflated JSON."""
        self.play(json.loads(zlib.decompress(base64.b64decode(act["acts"]))))

    def do_ask(self, act: Act) -> None:
        options = [
            {"optionId": kind, "kind": kind, "name": kind} for kind in ("allow_always", "allow_once", "reject_once")
        ]
        self.call("session/request_permission", toolCall=act["tool_call"], options=options)

    def do_raw(self, act: Act) -> None:
        """Bytes on stdout or stderr, `times` over."""
        out = sys.stderr.buffer if act.get("to") == "stderr" else sys.stdout.buffer
        for _ in range(act.get("times", 1)):
            out.write(act["text"].encode("utf-8", "surrogateescape"))
        out.flush()

    def do_sleep(self, act: Act) -> None:
        time.sleep(act["seconds"])

    def do_exit(self, act: Act) -> None:
        os._exit(act["code"])

    def do_eat(self, act: Act) -> None:
        """Allocate and touch memory until the kernel says no."""
        kept = [bytearray(b"x" * 1_000_000) for _ in range(act["mb"])]
        print(len(kept), file=sys.stderr)

    def do_hang(self, _act: Act) -> None:
        while True:
            time.sleep(60)

    def _fill(self, value: Any) -> Any:
        return value.format(**self.seen) if isinstance(value, str) and "{" in value else value

    def play(self, acts: list[Act]) -> None:
        for act in acts:
            handler: Callable[[Act], None] = getattr(self, "do_" + act["do"].replace("-", "_"))
            handler(act)

    # the session

    def serve(self, acts: list[Act]) -> None:
        while True:
            message = self.read()
            method = message.get("method")
            if method == "initialize":
                info = {"name": "puppet", "version": "1"}
                self.answer(message, {"protocolVersion": 1, "agentInfo": info, "agentCapabilities": {}})
            elif method == "session/new":
                self.cwd = message["params"]["cwd"]
                self.answer(message, {"sessionId": self.session})
            elif method == "session/prompt":
                self.play(acts)
                self.answer(message, {"stopReason": "end_turn"})


def main() -> None:
    with open(os.path.expanduser("~/.puppet.json"), encoding="utf-8") as file:
        acts = json.load(file)
    puppet = Puppet()
    if sys.argv[1:] == ["wire"]:
        puppet.play(acts)
        while sys.stdin.buffer.readline():  # until the client hangs up
            pass
    elif sys.argv[1:] == ["cli"]:
        puppet.play(acts)
        print("done")
    else:
        puppet.serve(acts)


if __name__ == "__main__":
    main()
