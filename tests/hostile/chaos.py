"""Chaos: kill the controller, the gateway, an agent or the engine at random moments, resume, and count what is left.

    python -m tests.hostile.chaos --kills 24 --seed 7      (make chaos)

Everything happens on an engine of its own. After each kill the sweep is resumed until it ends; then every planned cell
must be there exactly once, every file must read, and nothing of ours may be left on the engine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
from tabulate import tabulate

from runner.records.store import SweepDir
from runner.sandbox.engine import connect
from runner.sandbox.labels import LABEL
from runner.wire.log import read_frames
from tests.engine.lab import REPOSITORY, Lab, repaired
from tests.hostile.own_engine import OwnEngine, own_engine

VICTIMS = ("controller", "gateway", "agent", "engine")
IMAGES = ("base", "node", "gateway", "acp-sdk")
CELLS = 3
#: A sweep that has not ended by then hangs: that is a failure, not patience.
_END_S = 120.0
_RESUMES = 4


@dataclass(frozen=True)
class Outcome:
    """One kill: what was left when all was resumed."""

    victim: str
    after_s: float
    codes: tuple[int, ...]
    cells: int
    once: bool
    attempts: int
    leftovers: int
    unreadable: int

    @property
    def whole(self) -> bool:
        return self.cells == CELLS and self.once and self.leftovers == 0 and self.unreadable == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=24)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args()
    outcomes = chaos(asked.kills, asked.seed)
    print(table(outcomes))
    whole = sum(one.whole for one in outcomes)
    print(
        f"\n{whole} of {len(outcomes)} kill points whole (seed {asked.seed}): "
        f"{sum(one.cells for one in outcomes)} of {CELLS * len(outcomes)} cells present, "
        f"{sum(one.leftovers for one in outcomes)} leftovers, "
        f"{sum(one.unreadable for one in outcomes)} unreadable files"
    )
    return 0 if whole == len(outcomes) else 1


def table(outcomes: list[Outcome]) -> str:
    rows = [
        (
            one.victim,
            f"{one.after_s:.2f}",
            " ".join(map(str, one.codes)),
            f"{one.cells}/{CELLS}",
            one.attempts,
            one.leftovers,
            one.unreadable,
        )
        for one in outcomes
    ]
    return tabulate(rows, headers=["killed", "after s", "exit codes", "cells", "attempts", "leftovers", "unreadable"])


def chaos(kills: int, seed: int) -> list[Outcome]:
    """`kills` kill points, the victims in turn, the moments by `seed`."""
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(connect()) as client:
        lab = Lab(Path(folder) / "lab")
        acts: list[dict[str, Any]] = [
            {"do": "model"},
            {"do": "write", "path": "src/semver.js", "text": repaired()},
            {"do": "sleep", "seconds": 0.3},
        ]
        lab.write(
            "sweeps",
            {
                "id": "chaos",
                "arms": [
                    {
                        "adapters": [lab.puppet("chaos", acts)],
                        "surfaces": ["acp"],
                        "fixtures": ["semver"],
                        "models": ["scripted/one-word"],
                    }
                ],
                "repeat": CELLS,
                "warmup": 0,
            },
        )
        with own_engine(Path(folder) / "engine", client, IMAGES) as engine:
            run(lab, engine, Path(folder) / "warm")  # so that caches are filled before moments are chosen
            outcomes = []
            for number in range(kills):
                victim = VICTIMS[number % len(VICTIMS)]
                moment = dice.uniform(0.3, 4.0)
                outcomes.append(one_kill(lab, engine, Path(folder) / f"out-{number}", victim, moment))
                print(f"{number + 1}/{kills} {outcomes[-1]}", file=sys.stderr, flush=True)
            return outcomes


def command(lab: Lab, engine: OwnEngine, out: Path, *, resume: bool) -> subprocess.Popen[bytes]:
    argv = [
        sys.executable,
        "-m",
        "runner.cli",
        "--root",
        str(lab.root),
        "sweep",
        f"{lab.root}/configs/sweeps/chaos.yaml",
    ]
    return subprocess.Popen(
        [*argv, "--out", str(out), *(["--resume"] if resume else [])],
        cwd=REPOSITORY,
        env={**os.environ, "DOCKER_HOST": engine.url},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def run(lab: Lab, engine: OwnEngine, out: Path) -> int:
    return command(lab, engine, out, resume=(out / "plan.jsonl").exists()).wait(timeout=_END_S)


def one_kill(lab: Lab, engine: OwnEngine, out: Path, victim: str, moment: float) -> Outcome:
    process = command(lab, engine, out, resume=False)
    time.sleep(moment)
    if victim == "controller":
        process.kill()
    elif victim == "engine":
        engine.kill()
        time.sleep(0.5)
        engine.start()
    else:
        kill_container(engine, victim)
    codes = [process.wait(timeout=_END_S)]
    while codes[-1] not in (0, 1) or not whole(out):
        if len(codes) > _RESUMES:
            break
        codes.append(run(lab, engine, out))
    return look(engine, out, victim, moment, tuple(codes))


def kill_container(engine: OwnEngine, role: str) -> None:
    """SIGKILL to the container of that role, if there is one at this moment."""
    with engine.client() as client:
        for one in client.api.containers(filters={"label": f"{LABEL}.owner"}):
            if f"-{role}" in one["Names"][0]:
                with contextlib.suppress(docker.errors.APIError):
                    client.api.kill(one["Id"])


def whole(out: Path) -> bool:
    """Every planned cell has a record that stands."""
    if not (out / "plan.jsonl").exists():
        return False
    sweep = SweepDir.read(out)
    standing = [name for name, record in sweep.latest().items() if record.outcome not in ("infra", "aborted")]
    return len(standing) == len(sweep.cells)


def look(engine: OwnEngine, out: Path, victim: str, moment: float, codes: tuple[int, ...]) -> Outcome:
    sweep = SweepDir.read(out)
    records = list(sweep.records())
    final = Counter(record.cell for record in records if record.outcome not in ("infra", "aborted"))
    with engine.client() as client:
        containers = client.api.containers(all=True, filters={"label": f"{LABEL}.owner"})
        volumes = client.api.volumes(filters={"label": f"{LABEL}.owner"})["Volumes"] or []
    return Outcome(
        victim=victim,
        after_s=moment,
        codes=codes,
        cells=len(final),
        # A block that lacked a cell is run again whole, so a cell may have several attempts; its last one stands.
        once=len({cell.name for cell in sweep.cells}) == len(sweep.latest()),
        attempts=len(records) + len(sweep.unfinished()),
        leftovers=len(containers) + len(volumes),
        unreadable=unreadable(out),
    )


def unreadable(out: Path) -> int:
    """Files that do not read: every JSON file whole, every log up to a torn last line, no temporary file left."""
    bad = 0
    for path in out.rglob("*"):
        try:
            if path.suffix == ".json":
                json.loads(path.read_bytes())
            elif path.name == "frames.jsonl":
                list(read_frames(path))
        except (ValueError, OSError):
            bad += 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
