"""What all configuration models share: unknown keys are errors, values are frozen."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from runner.config.startable import word_fault

#: An id a user writes: `claude-agent-acp@0.64.0`, `acp-nocaps`, `fix-semver`.
Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+@-]*$", max_length=120)]

#: The largest count, size and wait that a file may ask for. Every number is bounded: what overflows a clock, the
#: engine's or JavaScript's integers is told with its line, and not in the middle of a run.
MAX_COUNT = 10**9
MAX_MB = 10**6
WEEK_S = 7 * 24 * 3600


def _startable(words: list[str]) -> list[str]:
    if not words[0]:
        raise ValueError("its first word is empty, which starts nothing")
    for number, word in enumerate(words):
        if (fault := word_fault(word)) is not None:
            raise ValueError(f"word {number} cannot be an argument: {fault}")
    return words


#: A program and its arguments.
Argv = Annotated[list[str], Field(min_length=1), AfterValidator(_startable)]
#: What `execve` and every shell take for a variable's name.
EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


def below(path: str) -> str:
    """Refuses what is not below the folder it is relative to."""
    if not path or path.startswith("/") or not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise ValueError("a path below its folder is wanted: relative, without '..'")
    return path


#: A file below a folder that is known: `.claude/settings.json`.
Below = Annotated[str, AfterValidator(below)]

#: What `@`, `:` and `/` become where an id names a file, an image or a cell.
_UNSAFE = re.compile(r"[@:/]")


#: What Python's `re` reads and JavaScript does not, or otherwise; character classes and escaped characters first.
_ALIEN = re.compile(
    r"\\(?P<anchor>[AZ])|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<group>\(\?(?:P|>|#|\(|[aiLmsux]+\)|[a-zA-Z-]*[aLux][a-zA-Z-]*:))"
    r"|(?P<possessive>[*+?}]\+)",
    re.DOTALL,
)


def regex_fault(pattern: str) -> str | None:
    """Why `pattern` is no regular expression that Python and JavaScript read alike; None: it is one."""
    try:
        re.compile(pattern)
    except re.error as problem:
        return f"not a regular expression: {problem}"
    alien = next((found for found in _ALIEN.finditer(pattern) if found.lastgroup is not None), None)
    if alien is None:
        return None
    instead = {
        "anchor": "write ^ or $",
        "group": "write (...), (?:...) or (?i:...)",
        "possessive": "leave out the second +",
    }[str(alien.lastgroup)]
    return f"'{alien[0]}' is not read alike by Python and JavaScript; {instead}"


def _regex(pattern: str) -> str:
    if (fault := regex_fault(pattern)) is not None:
        raise ValueError(fault)
    return pattern


#: A regular expression that Python and JavaScript read alike; searched, not anchored.
Regex = Annotated[str, AfterValidator(_regex)]


class Config(BaseModel):
    """Root of all models of what a user writes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def on_disk(name: str) -> str:
    """The form of an id that may stand in a path or a cell name (`@`, `:` and `/` become `-`)."""
    return _UNSAFE.sub("-", name)
