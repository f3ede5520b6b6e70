"""A key that opens nothing, in the forms that text takes on its way; and a search for it that is not ours."""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
import secrets
import urllib.parse
from collections.abc import Callable, Iterator

#: It has a character of each kind that an encoding treats in its own way, and lower and upper case.
KEY = f"zq-live/Ab+9_{secrets.token_hex(6)}=~{secrets.token_urlsafe(9)}&x"


def _some(key: str, escape: Callable[[str], str]) -> str:
    """Every third character escaped."""
    return "".join(escape(c) if n % 3 == 0 else c for n, c in enumerate(key))


def _u(c: str) -> str:
    return f"\\u{ord(c):04x}"


#: Name -> a text that says the key.
FORMS: dict[str, str] = {
    "plain": KEY,
    "hex": KEY.encode().hex(),
    "hex upper": KEY.encode().hex().upper(),
    "hex blanks": KEY.encode().hex(" "),
    "hex colons": KEY.encode().hex(":"),
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64 inside, 1": base64.b64encode(f"x{KEY} tail".encode()).decode(),
    "base64 inside, 2": base64.b64encode(f"xy{KEY}tail".encode()).decode(),
    "base64 url": base64.urlsafe_b64encode(f"abc{KEY}".encode()).decode().rstrip("="),
    "base64 lines": base64.encodebytes(b"some text before it, and then: " + KEY.encode() * 2).decode(),
    "base64 in JSON": json.dumps(base64.encodebytes(b"x" * 50 + KEY.encode()).decode()).replace("/", "\\/"),
    "base64 in a query": urllib.parse.quote(base64.b64encode(KEY.encode() + b"x").decode(), safe=""),
    "percent": urllib.parse.quote(KEY, safe=""),
    "percent lower": "".join(f"%{ord(c):02x}" for c in KEY),
    "percent some": _some(KEY, lambda c: f"%{ord(c):02X}"),
    "percent twice": urllib.parse.quote(urllib.parse.quote(KEY, safe=""), safe=""),
    "unicode": "".join(map(_u, KEY)),
    "unicode upper": "".join(f"\\u{ord(c):04X}" for c in KEY),
    "unicode some": _some(KEY, _u),
    "unicode braces": "".join(f"\\u{{{ord(c):x}}}" for c in KEY),
    "x": "".join(f"\\x{ord(c):02x}" for c in KEY),
    "octal": "".join(f"\\{ord(c):03o}" for c in KEY),
    "slashes": KEY.replace("/", "\\/"),
    "JSON in JSON": json.dumps(json.dumps({"a": json.dumps(KEY.replace("/", "\\/"))})),
    "entities": "".join(f"&#{ord(c)};" for c in KEY),
    "entities hex": _some(KEY, lambda c: f"&#x{ord(c):X};"),
    "HTML": html.escape(KEY),
    "markdown": re.sub(r"([_=~&+])", r"\\\1", KEY),
    "wrapped": f"{KEY[:9]}\r\n    {KEY[9:20]}\n{KEY[20:]}",
    "coloured": "".join(f"\x1b[1;3{n % 8}m{c}" for n, c in enumerate(KEY)) + "\x1b[0m",
    "coloured in JSON": json.dumps("\x1b[32m".join(KEY)),
    "UTF-16": KEY.encode("utf-16-le").decode("latin-1"),
}


def says(data: bytes, *, key: str = KEY) -> bool:
    """Whether a reader who tries the usual decoders in any order, three deep, finds the key."""
    seen: set[bytes] = set()
    texts = {re.sub(rb" {100,}|(?:x\n){100,}|-{100,}|\0{100,}|(?:\0\x01){100,}", b" ", data)}  # what only fills
    for _ in range(4):
        if any(key.encode() in text for text in texts):
            return True
        seen |= texts
        texts = {less for text in texts for less in _decoded(text)} - seen
    return False


def _decoded(data: bytes) -> Iterator[bytes]:
    yield re.sub(rb"\x1b\[[0-9;]*m|(?:[\r\n]|\\+[rn])+ *|\0", b"", data)
    yield urllib.parse.unquote_to_bytes(data)
    yield html.unescape(data.decode("latin-1")).encode("latin-1", "replace")
    yield re.sub(rb"\\+u\{?(?:00)?([0-9a-fA-F]{2})\}?", lambda m: bytes([int(m[1], 16)]), data)
    yield re.sub(rb"\\+x([0-9a-fA-F]{2})", lambda m: bytes([int(m[1], 16)]), data)
    yield re.sub(rb"\\+([0-7]{3})", lambda m: bytes([int(m[1], 8) & 0xFF]), data)
    yield data.replace(b"\\", b"")
    for run in re.findall(rb"[A-Za-z0-9+/_-]{16,}", data):
        for skip in range(4):
            core = run[skip:].translate(bytes.maketrans(b"-_", b"+/"))
            try:
                yield base64.b64decode(core[: -1 if len(core) % 4 == 1 else None] + b"===")
            except binascii.Error:
                continue
    for run in re.findall(rb"(?:[0-9a-fA-F]{2}[ :]?){8,}", data):
        digits = re.sub(rb"[ :]", b"", run)
        for skip in range(2):
            yield bytes.fromhex(digits[skip : skip + (len(digits) - skip) // 2 * 2].decode())
