"""The launcher with its client, both as they are, for one user: who is who is looked at in tests/engine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from runner.guest import run_code
from runner.guest.channel import OpError
from runner.guest.launcher import Launcher


class Place:
    """A launcher in a folder, its client beside it, and what it was told to do."""

    def __init__(self, folder: Path, tests_uid: int) -> None:
        self.client = folder / "run-code"
        shutil.copy(run_code.__file__, self.client)
        self.started: list[list[str]] = []
        self.children: list[int] = []
        self.ended = threading.Event()
        self.launcher = Launcher(str(folder / "socket"), tests_uid, self._spawn, self._end)
        self.launcher.start()

    def _spawn(self, argv: Sequence[str], streams: tuple[int, int, int]) -> int:
        self.started.append(list(argv))
        stdin, stdout, stderr = streams
        try:
            child = subprocess.Popen(argv, stdin=stdin, stdout=stdout, stderr=stderr)
        except FileNotFoundError as error:
            raise OpError("spawn_failed", f"{argv[0]}: [ENOENT] {error.strerror}") from error
        child.returncode = 0  # the launcher waits for it
        self.children.append(child.pid)
        return child.pid

    def _end(self) -> None:
        for pid in self.children:
            if os.path.exists(f"/proc/{pid}"):
                os.kill(pid, 9)
        self.ended.set()

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-IS", str(self.client), *words]

    def open(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.argv(*words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def run(self, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(self.argv(*words), input=stdin, capture_output=True, timeout=20, check=False)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path, os.geteuid())
    yield place
    place.launcher.stop()


def test_streams_words_and_the_exit_code_pass(place: Place) -> None:
    done = place.run("sh", "-c", 'cat; echo "$1" >&2; exit 7', "sh", "a\n b\udcff", stdin=b"in")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"in", b"a\n b\xff\n")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["sh", "-c", "kill -9 $$"], 137, ""),
        (["no-such-program"], 127, "no-such-program: [ENOENT] No such file or directory"),
        ([], 126, "usage: run-code ARGV..."),
    ],
)
def test_ends_as_a_shell_says_them(place: Place, words: list[str], code: int, said: str) -> None:
    done = place.run(*words)
    assert done.returncode == code
    assert said in done.stderr.decode()


def test_what_a_program_leaves_is_ended_before_its_test_hears_of_the_exit(place: Place) -> None:
    place.run("true")
    assert place.ended.is_set()


def test_a_test_that_goes_takes_its_program_along(place: Place) -> None:
    with place.open("sh", "-c", "echo up; exec sleep 60") as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        child.kill()
        assert child.stdout.read() == b""  # ends with the last process that has it


def test_the_second_waits_for_the_first(place: Place) -> None:
    with place.open("sh", "-c", "echo up; cat") as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"up\n"
        with place.open("echo", "second") as second:
            with pytest.raises(subprocess.TimeoutExpired):
                second.wait(0.3)
            assert [argv[0] for argv in place.started] == ["sh"]
            assert first.communicate(b"x", timeout=20)[0] == b"x"
            assert second.communicate(timeout=20)[0] == b"second\n"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_the_tests_own_output_is_not_handed_over(place: Place, stream: str) -> None:
    """`inherit` is what a test easily writes; the code could then say what the tests say."""
    other = "stderr" if stream == "stdout" else "stdout"
    script = (
        "import subprocess, sys\n"
        f"done = subprocess.run(sys.argv[1:], {other}=subprocess.DEVNULL)\n"
        "sys.exit(done.returncode)\n"
    )
    argv = [sys.executable, "-c", script, *place.argv("echo", "# pass 3")]
    done = subprocess.run(argv, capture_output=True, timeout=20, check=False)
    assert done.returncode == 126
    assert b"# pass" not in done.stdout
    assert place.started == []


def test_nor_is_it_under_the_name_of_standard_input(place: Place) -> None:
    """`0<&1`: what is open for writing can be written to, whatever its number."""
    script = (
        "import subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], stdin=sys.stdout, stdout=subprocess.PIPE, stderr=subprocess.PIPE)\n"
        "sys.exit(done.returncode)\n"
    )
    argv = [sys.executable, "-c", script, *place.argv("sh", "-c", "echo '# pass 3' >&0")]
    done = subprocess.run(argv, capture_output=True, timeout=20, check=False)
    assert done.returncode == 126
    assert b"# pass" not in done.stdout
    assert place.started == []


def test_another_user_is_not_served(tmp_path: Path) -> None:
    place = Place(tmp_path, os.geteuid() + 1)
    try:
        done = place.run("true")
        assert (done.returncode, place.started) == (126, [])
        assert b"the guest" in done.stderr
    finally:
        place.launcher.stop()


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"\0\0\0\5true\0", "three descriptors"),
        (b"\0\0\0\0", "words are wanted"),
        (b"\0\0\0\4true", "words are wanted"),
        (b"\xff\xff\xff\xff" + b"x" * (2 << 20), "has no end"),
        (b"\0\0\0\5true", "has no end"),
    ],
)
def test_a_request_that_is_none(place: Place, tmp_path: Path, sent: bytes, said: str) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(tmp_path / "socket"))
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
        except ConnectionError:
            pass  # it had enough
        else:
            assert said in connection.recv(1000).decode()
    assert place.run("true").returncode == 0


def test_stop_ends_what_runs(tmp_path: Path) -> None:
    place = Place(tmp_path, os.geteuid())
    with place.open("sh", "-c", "echo up; exec sleep 60") as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        place.launcher.stop()
        assert child.wait(20) == 126
