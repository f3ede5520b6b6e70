"""What the kernel can start: sizes of arguments and variables, told before a run instead of failing in it. Pure.

Linux (execve(2), "Limits on size of arguments and environment"): one argument, or one `NAME=value`, has at most 131,072
bytes with the NUL at its end; all together a quarter of the stack's limit, which is 8 MiB in a container.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: Bytes of one argument or `NAME=value`, without its NUL.
MAX_WORD = 131_071
#: Bytes of all of them with their NULs and pointers; some are left for what is added when the agent is started.
MAX_ALL = 2_000_000
_POINTER = 8


def word_fault(word: str) -> str | None:
    """Why a text can be no argument and no variable; None: it can. (A NUL is refused where the file is read.)"""
    size = _bytes(word)
    if size <= MAX_WORD:
        return None
    return f"it has {size:,} bytes, and Linux starts nothing with an argument above {MAX_WORD:,}"


def start_faults(argv: Sequence[str], env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(what, why) for each part that cannot be started, all of it together last; all placeholders are filled in."""
    parts = [(f"argument {number}", word) for number, word in enumerate(argv)]
    parts += [(f"the variable {name}", f"{name}={value}") for name, value in env.items()]
    found = [(what, fault) for what, text in parts if (fault := word_fault(text)) is not None]
    yield from found
    total = sum(_bytes(text) + 1 + _POINTER for _, text in parts)
    if total > MAX_ALL and not found:
        yield (
            "all arguments and variables",
            f"they have {total:,} bytes, and Linux starts nothing with above {MAX_ALL:,}",
        )


def server_faults(servers: Sequence[Mapping[str, Any]]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """(place, why) for each text of `mcp_servers` with which an agent cannot start the server."""
    for index, server in enumerate(servers):
        args, env = server.get("args"), server.get("env")
        words: list[tuple[tuple[str | int, ...], Any]] = [(("command",), server.get("command"))]
        words += [(("args", n), word) for n, word in enumerate(args if isinstance(args, list) else [])]
        for n, one in enumerate(env if isinstance(env, list) else []):
            if isinstance(one, Mapping):
                words.append((("env", n), f"{one.get('name')}={one.get('value')}"))
        for place, word in words:
            if isinstance(word, str) and (fault := word_fault(word)) is not None:
                yield (index, *place), fault


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
