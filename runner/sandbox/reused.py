"""One container for all replicates of an arm: the reset experiment, where a run starts where the last one ended.

Between two runs it is stopped and started again: its file systems stay, its processes and streams are new. What the
next run finds there is reset by git alone (`runner.guest.reset`).
"""

from __future__ import annotations

from collections.abc import Callable

from runner.errors import InfraError, LastingError
from runner.sandbox.container import Container

#: Seconds until a container whose guest was told to stop has ended; then it is killed.
_STOP_S = 10


class ReusedContainer:
    """The container of one arm, handed from run to run. Not for several threads."""

    def __init__(self) -> None:
        self._container: Container | None = None
        #: Runs that have ended in it.
        self.runs = 0

    def take(self, make: Callable[[], Container]) -> Container:
        """The container for the next run; made by `make` for the first one, still to be created.

        :raises LastingError: an earlier run lost it, and a new one would not be the same.
        """
        if self._container is None:
            if self.runs:
                raise LastingError(f"the kept container was lost after run {self.runs}; a new one would start pristine")
            self._container = make()
        return self._container

    def give_back(self) -> None:
        """A run is over: its processes end, its files stay. Raises InfraError as the engine does."""
        assert self._container is not None, "take() comes first"
        try:
            self._container.wait(_STOP_S)
        except InfraError:
            self._container.kill()
            self._container.wait(_STOP_S)
        self.runs += 1

    def discard(self) -> None:
        """Remove it: the arm is done, or a run broke it."""
        container, self._container = self._container, None
        if container is not None:
            container.remove()
