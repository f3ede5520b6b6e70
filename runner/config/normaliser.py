"""What is volatile in a model's requests, so that two of them are the same although it differs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from runner.config.base import Config, Id, regex_fault

#: What is volatile in a request, by built-in rule: see images/gateway/normalise.mjs.
BuiltinNormaliser = Literal["reminders", "dates", "ids", "paths", "durations", "processes"]


class Normaliser(Config):
    """A rule of one's own: what fits `pattern` becomes `becomes` before requests are held against each other."""

    name: Id
    #: Everywhere, or only in what tools returned.
    in_: Literal["all", "tool_results"] = Field(default="tool_results", alias="in")
    #: A regular expression that Python and JavaScript both read.
    pattern: str = Field(min_length=1)
    becomes: str

    @property
    def fault(self) -> str | None:
        """What is wrong with `pattern`, if anything."""
        return regex_fault(self.pattern)
