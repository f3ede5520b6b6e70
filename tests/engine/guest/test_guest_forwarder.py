"""The forwarder between the agent and its model."""

from __future__ import annotations

import time

import pytest

from tests.engine.guest.harness import Guest
from tests.engine.guest.steps import PYTHON, code_of, processes, prove

pytestmark = pytest.mark.engine

SERVER = """
import os, socket, threading, time
server = socket.socket(socket.AF_UNIX)
server.bind("/tmp/model.sock")
server.listen(200)
def serve(peer):
    text = b""
    while chunk := peer.recv(65536):
        text += chunk
    # Longer than the half second after which socat, left to itself, gives a half-closed client up.
    time.sleep(0.8)
    peer.sendall(b"got " + text)
    peer.close()
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""
#: 60 clients at once, each closes its half first and then waits for its answer.
CLIENTS = """
import socket, threading
answers = []
def ask(number):
    s = socket.create_connection(("127.0.0.1", 4010), 5)
    s.sendall(b"%d" % number)
    s.shutdown(socket.SHUT_WR)
    text = b""
    while chunk := s.recv(4096):
        text += chunk
    answers.append(text)
threads = [threading.Thread(target=ask, args=(n,)) for n in range(60)]
[t.start() for t in threads]
[t.join() for t in threads]
print(sorted(answers) == sorted(b"got %d" % n for n in range(60)), flush=True)
"""


def serve(guest: Guest, script: str) -> None:
    """A model at /tmp/model.sock; not the agent's, with which it would end, and open to all as the gateway's is."""
    line = f"umask 0; nohup python3 -I -c '{script}' >/dev/null 2>&1 &"
    guest.shell(f"{line} while [ ! -S /tmp/model.sock ]; do sleep 0.01; done", user="0:0")


@pytest.fixture
def forwarded(prepared: Guest) -> Guest:
    serve(prepared, SERVER)
    prepared.call("forward", listen=4010, socket="/tmp/model.sock")
    return prepared


def test_the_forwarder_carries_half_closed_clients(forwarded: Guest) -> None:
    forwarded.go(*PYTHON, CLIENTS)
    ended = forwarded.event("exit")
    assert forwarded.stdio is not None
    assert forwarded.stdio.settled() == b"True\n", forwarded.stdio.out
    assert ended["survivors"] == []
    assert prove(forwarded).get("network") is None


BREAKING_OFF = """
import os, socket, time
server = socket.socket(socket.AF_UNIX)
server.bind("/tmp/model.sock")
server.listen()
peer = server.accept()[0]
peer.recv(100)
peer.sendall(b"half an ans")
time.sleep(0.1)
peer.close()
time.sleep(60)
"""
#: Never closes its half: it waits for the rest of its answer.
WAITING = """
import socket
s = socket.create_connection(("127.0.0.1", 4010), 5)
s.sendall(b"x")
text = b""
while chunk := s.recv(100):
    text += chunk
print(text, flush=True)
"""


def test_an_end_on_the_models_side_reaches_the_agent(prepared: Guest) -> None:
    serve(prepared, BREAKING_OFF)
    prepared.call("forward", listen=4010, socket="/tmp/model.sock")
    prepared.go(*PYTHON, WAITING)
    ended = prepared.event("exit")
    assert ended["code"] == 0
    assert prepared.stdio is not None
    assert prepared.stdio.settled() == b"b'half an ans'\n", prepared.stdio.out


CONNECT = 'import socket; socket.create_connection(("127.0.0.1", 4010), 5); print("connected")'


def test_an_agent_cannot_kill_the_forwarder(forwarded: Guest) -> None:
    forwarded.go("sh", "-c", f"pkill -9 socat; sleep 0.2; exec python3 -I -c '{CONNECT}'")
    forwarded.event("exit")
    assert forwarded.stdio is not None
    assert forwarded.stdio.settled() == b"connected\n"


def test_a_forwarder_that_dies_is_told_and_connections_are_refused(forwarded: Guest) -> None:
    forwarded.go("sh", "-c", f"read go; exec python3 -I -c '{CONNECT}'")
    forwarded.shell("pkill -f ACCEPT-FD", user="0:0")
    died = forwarded.event("forwarder-died")
    assert died["signal"] == 15 or died["code"] is not None
    assert forwarded.stdio is not None
    forwarded.stdio.write(b"go\n")
    forwarded.event("exit")
    forwarded.stdio.wait_for(b"ConnectionRefusedError", channel=2)


def test_after_the_exit_the_forwarder_is_gone_without_an_event(forwarded: Guest) -> None:
    forwarded.go("true")
    forwarded.event("exit")
    assert not [line for line in processes(forwarded) if "ACCEPT-FD" in line]
    time.sleep(0.1)
    assert forwarded.events.empty()
    forwarded.call("forward", listen=4010, socket="/tmp/model.sock")


def test_forwarding_errors(prepared: Guest) -> None:
    assert code_of(prepared, "forward", listen=4010, socket="/none.sock") == "no_model"
    prepared.shell("nohup python3 -I -m http.server 4011 --bind 127.0.0.1 >/dev/null 2>&1 & sleep 0.5")
    assert code_of(prepared, "forward", listen=4011, socket="/tmp") == "listen_failed"
