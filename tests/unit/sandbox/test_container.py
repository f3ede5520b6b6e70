"""The gate: however many runs there are, no more containers come up at once than it lets through."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from runner.sandbox.container import Container, Spec


class Engine:
    """Counts how many of its calls are under way at once; they take a moment, as an engine's do."""

    def __init__(self) -> None:
        self.api = self
        self.asked: dict[str, Any] = {}
        self.most = 0
        self.calls = 0
        self._now = 0
        self._lock = threading.Lock()

    def info(self) -> dict[str, Any]:
        return {"NCPU": 1}

    def create_host_config(self, **asked: Any) -> dict[str, Any]:
        self.asked = asked
        return {}

    def create_container(self, *_: Any, **__: Any) -> dict[str, str]:
        self._busy()
        return {"Id": "c"}

    def start(self, _: str) -> None:
        self._busy()

    def _busy(self) -> None:
        with self._lock:
            self._now += 1
            self.calls += 1
            self.most = max(self.most, self._now)
        time.sleep(0.02)
        with self._lock:
            self._now -= 1


def come_up(gate: threading.BoundedSemaphore | None) -> Engine:
    """Twelve containers, all at once."""
    engine: Any = Engine()

    def one(number: int) -> None:
        container = Container(engine, Spec(f"c{number}", "i", [], {}, {}), gate)
        container.create()
        container.start()

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(one, range(12)))
    assert isinstance(engine, Engine)
    assert engine.calls == 24
    return engine


def test_no_more_come_up_at_once_than_the_gate_lets_through() -> None:
    assert come_up(threading.BoundedSemaphore(3)).most == 3


def test_without_a_gate_all_come_up_at_once() -> None:
    assert come_up(None).most > 3


def test_no_more_cpus_are_asked_for_than_the_engine_has() -> None:
    # An engine on one core refuses 2.0, which most adapters may use: every run would end as infra.
    engine: Any = Engine()
    Container(engine, Spec("c", "i", [], {}, {}, cpus=2.0)).create()
    assert engine.asked["nano_cpus"] == 10**9
    Container(engine, Spec("c", "i", [], {}, {}, cpus=0.5)).create()
    assert engine.asked["nano_cpus"] == 5 * 10**8


def test_the_size_of_a_file_is_limited_where_it_is_asked_for() -> None:
    engine: Any = Engine()
    Container(engine, Spec("c", "i", [], {}, {}, file_bytes=65_000_000)).create()
    assert [dict(one) for one in engine.asked["ulimits"]] == [
        {"Name": "core", "Soft": 0, "Hard": 0},
        {"Name": "fsize", "Soft": 65_000_000, "Hard": 65_000_000},
    ]
    Container(engine, Spec("c", "i", [], {}, {})).create()
    assert [one["Name"] for one in engine.asked["ulimits"]] == ["core"]
