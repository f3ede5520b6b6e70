"""The folder that `acpbench findings` reads, written like a real adapter's runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runner.config.plan import Cell
from tests.unit.study.actions import ADAPTER, Arm
from tests.unit.study.played import Play


class StudyFolder:
    """Arms by a short name; `write` makes the folder."""

    def __init__(self, arms: dict[str, Arm], names: dict[str, Any] | None) -> None:
        self.arms = arms
        self.names = names

    def write(self, root: Path) -> Path:
        root.mkdir(parents=True, exist_ok=True)
        cells = []
        for arm in self.arms.values():
            for replicate in range(1, arm.runs + 1):
                cells.append((arm, replicate))
                Play(arm, replicate).write(root, order=len(cells))
        (root / "lock.json").write_text(json.dumps({"sweep": "a-study"}))
        (root / "sweep.yaml").write_text("id: a-study\n")
        planned = [self._cell(order, arm, replicate) for order, (arm, replicate) in enumerate(cells, start=1)]
        (root / "plan.jsonl").write_text("".join(cell.model_dump_json() + "\n" for cell in planned))
        if self.names is not None:
            (root / "adapters-check.json").write_text(json.dumps(self.names))
        return root

    def _cell(self, order: int, arm: Arm, replicate: int) -> Cell:
        return Cell(
            order=order,
            block=replicate,
            name=f"{arm.name}--r{replicate}",
            arm=arm.name,
            replicate=replicate,
            warmup=False,
            image="an-image",
            adapter=ADAPTER,
            surface=arm.name.split("--")[1],
            fixture=arm.fixture,
            policy=arm.policy,
            model=arm.model,
            reset=arm.reset,
            expect=arm.outcome,
        )
