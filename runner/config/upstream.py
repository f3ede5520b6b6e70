"""A live model: an API that the gateway alone may reach. `configs/models/<id>.yaml` with `kind: upstream`; data only.

A sweep names it `live/<id>`, or `capture/<id>` to have a cassette written.
"""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_validator, model_validator

from runner.config.adapter import Dialect
from runner.config.base import MAX_COUNT, WEEK_S, Config, Id
from runner.config.normaliser import BuiltinNormaliser, Normaliser

_PORTS = {"http": 80, "https": 443}
_UNIX = "unix:/"


def _variable(name: str) -> str:
    if not name.isascii() or not name.isidentifier():
        # Not repeated in the message: it may be the key.
        raise ValueError("must be the name of an environment variable (letters, digits, _), never the key itself")
    return name


class Key(Config):
    """Where the host finds the key: one of the two. It is read when the sweep starts."""

    #: Name of an environment variable.
    env: Annotated[str, AfterValidator(_variable)] | None = None
    #: Path of a file that holds the key alone; `~` is the user's home, a relative path is below the root. A byte order
    #: mark, and white space around the key, are not part of it.
    file: str | None = None

    @model_validator(mode="after")
    def _one(self) -> Key:
        if (self.env is None) == (self.file is None):
            raise ValueError("name either 'env' or 'file'")
        return self


class Auth(Config):
    """How the key is shown to the API, where it is not the dialect's own way."""

    header: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    #: Before the key, for example `Bearer `.
    scheme: str = ""


class Price(Config):
    """US dollars per million tokens. What is left out of the cache's prices costs as `input`."""

    input: float = Field(ge=0, le=MAX_COUNT)
    output: float = Field(ge=0, le=MAX_COUNT)
    cache_read: float | None = Field(default=None, ge=0, le=MAX_COUNT)
    cache_write: float | None = Field(default=None, ge=0, le=MAX_COUNT)


class Budget(Config):
    """What a sweep may spend, anew each time it is resumed; the first limit reached stops it. One is needed."""

    requests: int | None = Field(default=None, gt=0, le=MAX_COUNT)
    #: In and out, cached ones included. Answers that are under way when it is reached are still counted; of one that
    #: never came to its end, where it states no figure, a quarter of the characters.
    tokens: int | None = Field(default=None, gt=0, le=MAX_COUNT * 1000)
    #: US dollars, by `prices`.
    money: float | None = Field(default=None, gt=0, le=MAX_COUNT)

    @model_validator(mode="after")
    def _some(self) -> Budget:
        if self.requests is None and self.tokens is None and self.money is None:
            raise ValueError("a live model needs a limit: name at least one of 'requests', 'tokens', 'money'")
        return self


class Upstream(Config):
    """One live model."""

    kind: Literal["upstream"]
    id: Id
    title: str = ""
    dialect: Dialect
    #: `https://host[:port][/path]`, `http://...`, or `unix:/path/of/a/socket` on the host (a server on the host's own
    #: loopback, behind `socat UNIX-LISTEN:...,fork TCP:127.0.0.1:...`): then the gateway needs no network at all.
    base_url: str
    #: None: the API wants no key.
    key: Key | None = None
    auth: Auth | None = None
    #: File of the certificates (PEM) that may sign an `https` address beside the public authorities: those of one's own
    #: authority, or of a proxy that looks into TLS; paths as in `key`. None: those that the machine's environment names
    #: (SSL_CERT_FILE, NODE_EXTRA_CA_CERTS, ...), as for building images.
    ca: str | None = None
    #: Seconds in which the API must say something, before an answer or in its middle.
    silence_s: float = Field(default=100.0, gt=0, le=WEEK_S)
    #: The only addresses that may be reached: `host:port`, or the `unix:` path.
    allow: list[str] = Field(min_length=1)
    budget: Budget
    #: Model name, `*` standing for any characters -> price.
    prices: dict[str, Price] = {}
    normalisers: list[BuiltinNormaliser | Normaliser] = [
        "reminders", "dates", "ids", "paths", "durations", "processes",
    ]  # fmt: skip
    #: Name of the cassette that `capture/` writes; default the id.
    cassette: Id | None = None

    @field_validator("key", mode="before")
    @classmethod
    def _where(cls, key: object) -> object:
        if isinstance(key, str):
            # Not repeated in the message: it may be the key.
            raise ValueError("must say where the key is, {env: NAME} or {file: PATH}, never the key itself")
        return key

    @field_validator("base_url")
    @classmethod
    def _reachable(cls, url: str) -> str:
        if url.startswith(_UNIX):
            return url
        try:
            parts = urlsplit(url)
            _ = parts.port
        except ValueError as problem:
            raise ValueError(f"is not an address: {problem}") from None
        if parts.scheme not in _PORTS or not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
            raise ValueError("must be https://host[:port][/path], http://... or unix:/path, without a user or a query")
        return url

    @property
    def address(self) -> str:
        """What must stand in `allow`."""
        if self.socket is not None:
            return self.base_url
        parts = urlsplit(self.base_url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return f"{host}:{parts.port or _PORTS[parts.scheme]}"

    @property
    def socket(self) -> str | None:
        """Path of the socket on the host; None where the API is on a network."""
        return self.base_url.removeprefix("unix:") if self.base_url.startswith(_UNIX) else None
