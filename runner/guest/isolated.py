"""The tests of an isolated fixture: laid where the code cannot read them, run as a user of their own.

Three users: the guest, the tests (`TESTS`), the code (`AGENT`). The code starts through the launcher alone, in the
workspace; the tests start in their own folder, so no setting that lies in the workspace is theirs. They may read the
workspace, though by a link of the code's they would read their own files (`run-code cat` does not); whatever they
execute or import from it would again be the code in the tests' process.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from . import procs, system, tree
from .channel import OpError
from .launcher import Launcher
from .spawn import spawn
from .untrusted import AGENT, Untrusted, User, settled

#: Ended for want of memory after the code, before the guest.
TESTS = User(1001, 1001, oom=500)
_CAP_BYTES = 512 << 20
_CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run_code.py")


class PlaceOfTests(NamedTuple):
    """Where the tests are. Nobody but root and the tests' group comes below `root`."""

    root: str

    @property
    def tests(self) -> str:
        return f"{self.root}/tests"

    @property
    def home(self) -> str:
        return f"{self.root}/home"

    @property
    def client(self) -> str:
        return f"{self.root}/run-code"

    @property
    def socket(self) -> str:
        """Beside the client, which looks for it there."""
        return f"{self.root}/socket"

    def environment(self, env: Mapping[str, str], workspace: str) -> dict[str, str]:
        """The tests' environment, from the code's."""
        own = {"HOME": self.home, "TMPDIR": self.home, "USER": "tests", "LOGNAME": "tests"}
        return {**env, **own, "ACPBENCH_RUN_CODE": self.client, "ACPBENCH_WORKSPACE": workspace}


@contextlib.contextmanager
def laid_apart(root: str, archive: bytes, workspace: str, env: Mapping[str, str]) -> Iterator[PlaceOfTests]:
    """The tests in their place and the launcher at work; afterwards no process of the code is left.

    Raises OpError `bad_archive`, and `not_root` where the guest is not root: the tests would not be apart.
    """
    if not settled():
        raise OpError("not_root", "isolated tests need a guest that is root")
    place = PlaceOfTests(root)
    code = Untrusted()

    def start_code(argv: Sequence[str], streams: tuple[int, int, int]) -> int:
        stdin, stdout, stderr = streams
        return spawn(argv, AGENT, env=env, cwd=workspace, stdin=stdin, stdout=stdout, stderr=stderr)

    def end_code() -> None:
        code.end()
        procs.reap((), AGENT.uid)  # until then they count against the container's processes

    system.set_file_user(0, TESTS.gid)
    try:
        _lay(place, archive)
        launcher = Launcher(place.socket, TESTS.uid, start_code, end_code)
    finally:
        system.set_file_user(AGENT.uid, AGENT.gid)
    launcher.start()
    try:
        yield place
    finally:
        launcher.stop()


def _lay(place: PlaceOfTests, archive: bytes) -> None:
    for folder, mode in ((place.root, 0o750), (place.tests, 0o750), (place.home, 0o770)):
        os.mkdir(folder)
        os.chmod(folder, mode)
    extraction = tree.Extraction(place.tests, strict=True, cap_bytes=_CAP_BYTES)
    try:
        extraction.run(archive)
    except tree.BadArchive as error:
        raise OpError("bad_archive", f"the fixture's tests: {error}") from error
    with open(_CLIENT, "rb") as source, open(place.client, "xb") as target:
        target.write(source.read())
    os.chmod(place.client, 0o750)
