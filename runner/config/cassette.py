"""A cassette: what a live model was asked and answered. `configs/cassettes/<id>/cassette.yaml`, its tapes beside it.

Written by a sweep of a `capture/` model and played by `replay/<id>`. The file is data to edit: a normaliser that is
added to it counts for the requests that were recorded and for those that are asked.
"""

from __future__ import annotations

from pydantic import Field

from runner.config.adapter import Dialect
from runner.config.base import MAX_COUNT, Config, Id
from runner.config.normaliser import BuiltinNormaliser, Normaliser

#: Of the rules in images/gateway/normalise.mjs; requests normalised by others cannot be held against new ones.
NORMALISER_VERSION = 2


class Tape(Config):
    """One run's requests and answers: `file` beside the cassette, and the run it was recorded of."""

    file: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*\.jsonl$")
    adapter: Id
    surface: Id
    fixture: Id
    policy: Id
    #: Requests in `file`; one that holds less was cut off. None: nobody counted.
    entries: int | None = Field(default=None, ge=1, le=MAX_COUNT)


class Cassette(Config):
    """One cassette."""

    id: Id
    title: str = ""
    dialect: Dialect
    #: Day of the recording, UTC.
    captured: str
    #: Of the rules by which its requests were normalised.
    normaliser_version: int = Field(ge=0, le=MAX_COUNT)
    normalisers: list[BuiltinNormaliser | Normaliser]
    tapes: list[Tape] = Field(min_length=1)

    def tape(self, adapter: str, surface: str, fixture: str, policy: str) -> Tape | None:
        """The tape for a run: its own, else the only one of another version of its adapter; None: there is none."""
        there = [tape for tape in self.tapes if (tape.surface, tape.fixture, tape.policy) == (surface, fixture, policy)]
        exact = [tape for tape in there if tape.adapter == adapter]
        kin = [tape for tape in there if tape.adapter.partition("@")[0] == adapter.partition("@")[0]]
        found = exact or kin
        return found[0] if len(found) == 1 else None
