"""Does the gate see 150 ms, and nothing where there is nothing? The real adapter, on a quiet machine.

    python -m tests.bench.bench_delay [--adapter claude-agent-acp@0.64.0] [--repeat 10] [--out DIR]

One sweep: the adapter, its twin, and a variant that a shell starts 150 ms later. The twin must move no gated metric;
the variant must regress in handshake_ms, to_result_ms and wall_ms, by as much in each, and in no other sampled metric;
no count may change. Exit code 1 where it is otherwise.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from ruamel.yaml import YAML

from runner.analysis import gating
from runner.analysis.comparison import Compared
from runner.config.base import on_disk
from runner.config.catalog import Catalog
from runner.config.gate import Comparison, Gate, SampledRule
from runner.config.loaded_sweep import load_sweep
from runner.config.plan import plan
from runner.report import verdicts
from runner.sweep.progress import progress_for
from runner.sweep.sweep import Options, run_sweep
from tests.engine.lab import REPOSITORY, Lab

DELAY_MS = 150
#: What holds the launch.
MOVED = ("handshake_ms", "to_result_ms", "wall_ms")
#: Of the delay: how far an estimate may be off.
TOLERANCE_MS = 40
GATE = Gate(id="delay", sampled=[SampledRule(metric=name) for name in MOVED])


def late(lab: Lab, adapter: str) -> str:
    """The adapter, started by a shell that waits first."""
    yaml = YAML(typ="safe")
    body = yaml.load(REPOSITORY / "configs/adapters" / f"{on_disk(adapter)}.yaml")
    body["id"] = f"late-{adapter}"
    command = body["acp"]["command"]
    body["acp"]["command"] = ["/bin/sh", "-c", f'sleep {DELAY_MS / 1000}; exec "$@"', "sh", *command]
    lab.write("adapters", body)
    return str(body["id"])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--adapter", default="claude-agent-acp@0.64.0")
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder) / "lab")
        name = on_disk(options.adapter)
        for kind, file in (("adapters", name), ("models", "fix-semver")):
            (lab.root / "configs" / kind / f"{file}.yaml").symlink_to(REPOSITORY / "configs" / kind / f"{file}.yaml")
        shared = {"surfaces": ["acp"], "fixtures": ["semver"], "models": ["scripted/fix-semver"]}
        arms = [
            {**shared, "adapters": [options.adapter], "twin": True},
            {**shared, "adapters": [late(lab, options.adapter)]},
        ]
        lab.write("sweeps", {"id": "delay", "arms": arms, "repeat": options.repeat})
        loaded = load_sweep(lab.root / "configs/sweeps/delay.yaml", Catalog(lab.root))
        out = options.out or lab.root / "out"
        report = run_sweep(loaded, plan(loaded), Options(out, 1), progress_for()).report
    base = f"{name}--*--container"
    twin = gating.within(report, Comparison(base=base, new="*--twin"), GATE)
    slow = gating.within(report, Comparison(base=base, new="late-*"), GATE)
    faults = [*_still(twin), *_delayed(slow)]
    for found in (twin, slow):
        sys.stdout.write(verdicts.render(found) + "\n")
    sys.stdout.write("\n".join(faults or ["as it should be"]) + "\n")
    return 1 if faults else 0


def _still(found: Compared) -> list[str]:
    return [f"A/A: {one.metric} {one.verdict}" for one in found.verdicts if one.gated and _moved(one.verdict)]


def _delayed(found: Compared) -> list[str]:
    by = {one.metric: one for one in found.verdicts}
    faults = [f"{name}: {one.verdict}" for name, one in by.items() if (name in MOVED) is not _moved(one.verdict)]
    for name in MOVED:
        shift = by[name].shift
        if shift is None or abs(shift - DELAY_MS) > TOLERANCE_MS:
            faults.append(f"{name} moved by {shift} ms, not by {DELAY_MS}")
    return [*faults, *([] if found.exit == 2 else [f"exit {found.exit}, not 2"])]


def _moved(word: str) -> bool:
    return word in ("regressed", "improved", "changed-exact", "nondeterministic")


if __name__ == "__main__":
    sys.exit(main())
