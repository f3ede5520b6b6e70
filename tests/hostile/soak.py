"""Soak: many runs in one process, and what it holds before and after: nothing may grow, no count may vary.

python -m tests.hostile.soak --runs 200      (make soak)
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

from tabulate import tabulate

from runner.analysis.report import Report
from runner.config.catalog import Catalog
from runner.config.loaded_sweep import load_sweep
from runner.config.plan import plan
from runner.evidence.metrics import is_information
from runner.sandbox.engine import connect
from runner.sandbox.labels import LABEL, Owner
from runner.sweep.progress import PlainProgress
from runner.sweep.sweep import Options, run_sweep
from tests.engine.lab import Lab, repaired

#: Runs before the first count: imports, caches and pools are then filled.
_WARM = 3


@dataclass(frozen=True)
class Held:
    """What this process holds: of its own, and on the engine."""

    containers: int
    volumes: int
    file_descriptors: int
    threads: int
    memory_mb: float


@dataclass(frozen=True)
class Soaked:
    """Counts before and after, how many runs passed, and the exact metrics that were not the same in all."""

    runs: int
    passed: int
    before: Held
    after: Held
    varying: list[str]
    #: Containers and volumes that its sweeps left on the engine, by name.
    left: list[str]


def owned() -> tuple[set[str], set[str]]:
    """Names of the containers and volumes of this process on the engine."""
    with contextlib.closing(connect()) as client:
        mine = {"label": f"{LABEL}.owner={Owner.me()}"}
        containers = {one["Names"][0] for one in client.api.containers(all=True, filters=mine)}
        return containers, {one["Name"] for one in client.api.volumes(filters=mine)["Volumes"] or []}


def held() -> Held:
    gc.collect()
    containers, volumes = map(len, owned())
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (rss,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    return Held(containers, volumes, descriptors, threading.active_count(), rss / 1000)


def soak(runs: int, jobs: int = 2) -> Soaked:
    """Run a cheap agent `runs` times on two surfaces' worth of cells, `jobs` at a time."""
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder) / "lab")
        acts = [{"do": "model"}, {"do": "write", "path": "src/semver.js", "text": repaired()}]
        adapter = lab.puppet("soak", acts)
        others = set().union(*owned())
        sweep(lab, adapter, _WARM, Path(folder) / "warm", jobs)
        before = held()
        report = sweep(lab, adapter, runs, Path(folder) / "out", jobs)
        after = held()
        left = set().union(*owned()) - others
    (arm,) = report.arms
    varying = [
        name
        for name, found in arm.exact.items()
        if not is_information(name) and len({str(value) for value in found.values}) > 1
    ]
    return Soaked(runs, arm.outcomes.get("passed", 0), before, after, varying, sorted(left))


def sweep(lab: Lab, adapter: str, repeat: int, out: Path, jobs: int) -> Report:
    matrix = {"adapters": [adapter], "surfaces": ["acp"], "fixtures": ["semver"], "models": ["scripted/one-word"]}
    lab.write("sweeps", {"id": out.name, "arms": [matrix], "repeat": repeat, "warmup": 0})
    loaded = load_sweep(lab.root / f"configs/sweeps/{out.name}.yaml", Catalog(lab.root))
    with Path("/dev/null").open("w", encoding="utf-8") as nowhere:
        return run_sweep(loaded, plan(loaded), Options(out=out, jobs=jobs), PlainProgress(nowhere)).report


def table(soaked: Soaked) -> str:
    before, after = asdict(soaked.before), asdict(soaked.after)
    rows = [(name.replace("_", " "), before[name], after[name]) for name in before]
    return tabulate(rows, headers=[f"over {soaked.runs} runs", "start", "end"], floatfmt=".1f")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    soaked = soak(parser.parse_args().runs)
    print(table(soaked))
    print(f"\n{soaked.passed} of {soaked.runs} passed; exact metrics that vary: {', '.join(soaked.varying) or 'none'}")
    print(f"left on the engine: {', '.join(soaked.left) or 'nothing'}")
    return 0 if soaked.passed == soaked.runs and not soaked.varying and not soaked.left else 1


if __name__ == "__main__":
    sys.exit(main())
