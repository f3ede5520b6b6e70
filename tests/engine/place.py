"""A gateway before a model's API that does as it is told, and a caller where an agent would be."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

from runner.config.cassette import NORMALISER_VERSION
from runner.config.upstream import Budget, Upstream
from runner.gateway.container import Gateway
from runner.gateway.upstream_access import LiveUpstreams, UpstreamAccess
from runner.sandbox.container import Container, Spec
from runner.sandbox.images import Images
from runner.sandbox.labels import labels
from runner.sandbox.reaper import reap
from tests.engine.api import Api, serving
from tests.engine.gateway_harness import Caller
from tests.engine.test_gateway import question
from tests.engine.upstream import canary

NORMALISERS = ["reminders", "dates", "ids", "paths", "durations", "processes"]


@dataclass
class Place:
    """Volumes of a gateway, an agent's stand-in, and a model's API; `start` starts a gateway between them."""

    client: DockerClient
    image: str
    sweep: str
    api: Api
    socket: Path
    call: Caller
    key: str = field(default_factory=canary)
    spent: list[str] = field(default_factory=list)
    lost: list[tuple[str, str]] = field(default_factory=list)
    started: list[Gateway] = field(default_factory=list)

    def upstream(self, **more: Any) -> Upstream:
        given = {
            "kind": "upstream",
            "id": "api",
            "dialect": "anthropic",
            "base_url": f"unix:{self.socket}",
            "allow": [f"unix:{self.socket}"],
            "budget": Budget(requests=100),
            "key": {"env": "KEY"},
        }
        return Upstream.model_validate({**given, **more})

    def start(self, *, authority: str = "", **more: Any) -> Gateway:
        upstream = self.upstream(**more)
        live_upstreams = LiveUpstreams({upstream.id: upstream}, {upstream.id: self.key}, {upstream.id: authority})
        network = f"acpbench-{self.sweep}-out"
        if self.client.api.networks(names=[network]):  # as a gateway's successor has it
            upstream_access = UpstreamAccess(live_upstreams, f"acpbench-{self.sweep}-private", network)
        else:
            upstream_access = UpstreamAccess.create(self.client, self.sweep, live_upstreams)
        made = Gateway(
            self.client,
            image=self.image,
            name=f"acpbench-{self.sweep}-gateway-{secrets.token_hex(3)}",
            model_volume=f"acpbench-{self.sweep}-model",
            journal_volume=f"acpbench-{self.sweep}-journal",
            labels=labels(self.sweep, "gateway"),
            on_budget=self.spent.append,
            on_lost=lambda run, reason: self.lost.append((run, reason)),
            upstream_access=upstream_access,
        )
        made.start()
        self.started.append(made)
        return made

    def register(self, gateway: Gateway, mode: str = "capture", **more: Any) -> str:
        token = secrets.token_hex(16)
        head = {"mode": mode, "dialect": "anthropic", "side_requests": [], "normalisers": NORMALISERS}
        if mode != "replay":
            head["upstream"] = "api"
        gateway.register(token, {**head, **more})
        self.call.knows(token)
        return token

    def ask(self, token: str, body: dict[str, Any] | None = None) -> tuple[int, str]:
        return self.call("POST", f"/r/{token}/v1/messages", body or question(stream=False), {"x-api-key": "sk-dummy"})


@pytest.fixture
def place(engine: DockerClient, tmp_path: Path) -> Iterator[Place]:
    sweep = f"live-{secrets.token_hex(4)}"
    image = Images(engine).ensure("gateway").id
    names = [f"acpbench-{sweep}-model", f"acpbench-{sweep}-journal"]
    for name in names:
        engine.api.create_volume(name=name, labels=labels(sweep))
    spec = Spec(
        name=f"acpbench-{sweep}-caller",
        image=image,
        command=["sleep", "600"],
        labels=labels(sweep),
        mounts={names[0]: "/acpbench/model"},
    )
    caller = Container(engine, spec)
    started: list[Gateway] = []
    try:
        caller.create()
        caller.start()
        with serving(tmp_path / "api") as api:
            yield Place(engine, image, sweep, api, tmp_path / "api/api.sock", Caller(caller), started=started)
    finally:
        for gateway in started:
            gateway.stop()
        caller.remove()
        reap(engine, sweep=sweep)


def replay(place: Place, gateway: Gateway, tape: list[dict[str, Any]], **more: Any) -> str:
    return place.register(gateway, "replay", version=NORMALISER_VERSION, tape=tape, timing="fast", **more)
