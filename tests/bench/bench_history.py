"""How long a query of a long history takes.

    python -m tests.bench.bench_history [--runs 100000] [--per-night 60]

Every night is a file of its own, as `acpbench nightly` writes it, with the metrics of a real run. Exit code 1 where a
query takes longer than LIMIT_S.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow
import pyarrow.parquet as parquet

from runner.analysis.history import COLUMNS, query
from runner.analysis.steps import steps
from runner.evidence import cost, metrics

LIMIT_S = 5.0


def night(number: int, runs: int, random: Random) -> pyarrow.Table:
    """One night's table: six arms, every metric of a run."""
    started = datetime(2020, 1, 1, 2, tzinfo=UTC) + timedelta(days=number)
    rows: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for index in range(runs):
        arm = f"an-adapter-1--surface-{index % 6}--semver--allow_once--scripted-fix-semver--container"
        for kind, names in (("exact", metrics.NAMES), ("sampled", cost.NAMES)):
            for name in names:
                value = 9.0 if kind == "exact" else random.gauss(1000, 50)
                row = {
                    "sweep": "nightly", "directory": f"night-{number}", "started_at": started, "arm": arm,
                    "adapter": "an-adapter@1", "surface": f"surface-{index % 6}", "fixture": "semver",
                    "policy": "allow_once", "model": "scripted/fix-semver", "reset": "container", "machine": "x86_64",
                    "replicate": index // 6 + 1, "attempt": 1, "outcome": "passed", "metric": name, "kind": kind,
                    "value": value, "text": None, "night": f"night-{number}",
                }  # fmt: skip
                for column, cell in row.items():
                    rows[column].append(cell)
    types = {"string": pyarrow.string(), "timestamp": pyarrow.timestamp("ms", tz="UTC"), "double": pyarrow.float64(),
             "int32": pyarrow.int32()}  # fmt: skip
    schema = pyarrow.schema([(name, types[kind]) for name, kind in COLUMNS.items()])
    return pyarrow.table(rows, schema=schema).sort_by("metric")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--per-night", type=int, default=60)
    options = parser.parse_args()
    random = Random(1)
    with tempfile.TemporaryDirectory() as folder:
        nights = options.runs // options.per_night
        # The figures of a dozen nights, over and over: what is measured is the reading.
        made = [night(number, options.per_night, random) for number in range(12)]
        for number in range(nights):
            table = made[number % len(made)]
            names = pyarrow.array([f"night-{number}"] * table.num_rows)
            days = pyarrow.array([datetime(2020, 1, 1, tzinfo=UTC) + timedelta(days=number)] * table.num_rows)
            table = table.set_column(table.column_names.index("directory"), "directory", names)
            table = table.set_column(
                table.column_names.index("started_at"), "started_at", days.cast(pyarrow.timestamp("ms", tz="UTC"))
            )
            parquet.write_table(
                table, Path(folder) / f"night-{number}.parquet", compression="zstd", row_group_size=8192
            )
        size = sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e6
        started = time.monotonic()
        found = query(Path(folder), "to_result_ms")
        queried = time.monotonic() - started
        hints = sum(len(steps(one.medians)) for one in found)
        whole = time.monotonic() - started
    runs = sum(night.found.n for one in found for night in one.nights)
    sys.stdout.write(
        f"{runs} runs, {nights} nights, {size:.0f} MB: query {queried:.1f} s; steps of {len(found)} "
        f"arms {whole - queried:.1f} s ({hints} hints)\n"
    )
    return 1 if queried > LIMIT_S else 0


if __name__ == "__main__":
    sys.exit(main())
