"""Does the gate raise false alarms no more often than it says, and what can it see?

    python -m tests.bench.calibration [--trials 2000] [--seed 1]

Simulated comparisons, judged by `runner.analysis.compare` itself under a gate of two metrics (so Holm is in it). Times
are log-normal with a given coefficient of variation; both arms run in shuffled blocks as `runner.config.plan` orders
them. A drifting machine gets 30 % slower from the first run to the last. An alarm is any gated verdict that says a
metric moved (`regressed`, `improved`, `within-threshold`), the failure of a build (`regressed`) a part of them. Exit
code 1 where the alarms of an A/A comparison are more than alpha beyond doubt (the lower 99.9 % bound of their rate).
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator
from random import Random

from tabulate import tabulate

from runner.analysis.compare import compare
from runner.analysis.comparison import Compared, Pair
from runner.analysis.stats import clopper_pearson_lower
from runner.config.gate import Gate
from tests.unit.arms import arm

SIZES = (3, 4, 6, 10)
CVS = (0.02, 0.15, 0.35)
#: How much slower the last run is than the first one.
DRIFT = 0.30
METRICS = ("handshake_ms", "to_result_ms")
GATE = Gate()
_MOVED = ("regressed", "improved", "within-threshold")


def simulated(random: Random, n: int, cv: float, effect: float, drift: float) -> Compared:
    """One comparison of n v n runs; the new arm is slower by `effect` in both metrics."""
    sigma = math.sqrt(math.log1p(cv * cv))
    runs: tuple[dict[str, list[float]], ...] = tuple({metric: [] for metric in METRICS} for _ in range(2))
    for block in range(n):
        order = [0, 1]
        random.shuffle(order)
        for place, side in enumerate(order):
            slow = 1 + drift * (2 * block + place) / (2 * n - 1)
            for metric in METRICS:
                noise = random.lognormvariate(0, sigma)
                runs[side][metric].append(600 * slow * noise * (1 + effect if side else 1))
    return compare(("a", "a"), [Pair(arm(sampled=runs[0]), arm(sampled=runs[1], twin=True))], GATE)


def rates(trials: int, seed: int, n: int, cv: float, effect: float, drift: float) -> tuple[int, int]:
    """(comparisons with an alarm, comparisons that fail a build)."""
    random = Random(f"{seed}/{n}/{cv}/{effect}/{drift}")
    alarms = failures = 0
    for _ in range(trials):
        found = simulated(random, n, cv, effect, drift)
        alarms += any(verdict.gated and verdict.verdict in _MOVED for verdict in found.verdicts)
        failures += found.exit == 2
    return alarms, failures


def false_alarms(trials: int, seed: int) -> Iterator[tuple[list[str], bool]]:
    """Rows of the A/A table, and whether each keeps its bound."""
    for name, drift in (("steady", 0.0), ("drifting", DRIFT)):
        for cv in CVS:
            row, kept = [name, f"{100 * cv:.0f} %"], True
            for n in SIZES:
                alarms, failures = rates(trials, seed, n, cv, 0.0, drift)
                over = clopper_pearson_lower(alarms, trials, 0.999) > GATE.alpha
                kept &= not over
                row.append(f"{100 * alarms / trials:.1f} / {100 * failures / trials:.1f}{' !' if over else ''}")
            yield row, kept


def power(trials: int, seed: int) -> Iterator[list[str]]:
    """Rows: how often a build fails that should."""
    for effect in (0.10, 0.25):
        for cv in CVS:
            failures = [rates(trials, seed, n, cv, effect, 0.0)[1] for n in SIZES]
            yield [f"+{100 * effect:.0f} %", f"{100 * cv:.0f} %", *(f"{100 * one / trials:.0f}" for one in failures)]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started = time.monotonic()
    found = list(false_alarms(options.trials, options.seed))
    heads = [f"n={n}" for n in SIZES]
    say(f"A/A, {options.trials} comparisons each, two gated metrics, alpha {100 * GATE.alpha:g} % over both")
    say("percent with an alarm / percent that fail a build\n")
    say(tabulate([row for row, _ in found], ["machine", "CV", *heads], disable_numparse=True))
    say("\nPower: percent of builds that fail when both metrics are slower by so much, steady machine\n")
    say(tabulate(list(power(options.trials, options.seed)), ["slower", "CV", *heads], disable_numparse=True))
    broken = sum(not kept for _, kept in found)
    say(f"\n{broken} rows above alpha; {time.monotonic() - started:.0f} s")
    return 1 if broken else 0


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
