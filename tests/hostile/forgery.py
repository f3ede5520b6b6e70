"""Forged verdicts: has every attempt judged, each in a verifier of its own, and counts how they end.

    python -m tests.hostile.forgery [--in-process] [--only FAMILY/NAME] [--jobs N]

By no attempt may a run pass, nor become `infra` (which would be tried again and paid again). `--in-process`: the same
with the fixture's visible tests, which import the code: what succeeds there, no verifier that does so can exclude.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from docker import DockerClient
from tabulate import tabulate

from runner.sandbox.engine import connect
from tests.engine.verifiers import Judgement, Verifiers, semver, verifiers
from tests.hostile.forgeries import Attempt, attempts

#: An attempt that hangs is not waited for as long as a repair.
TIMEOUT_S = 15.0
IN_PROCESS = ["node", "--test", "--test-reporter=tap", "test/semver.test.js"]

Judged = tuple[Attempt, Judgement]


@contextlib.contextmanager
def court(client: DockerClient, *, isolated: bool) -> Iterator[Verifiers]:
    """Verifiers of the fixture as it is, or of one whose tests import the code."""
    fixture, tests = semver(
        timeout_s=TIMEOUT_S, **({} if isolated else {"isolated": False, "command": list(IN_PROCESS)})
    )
    with verifiers(client, fixture, tests if isolated else None) as place:
        yield place


def judge_all(
    place: Verifiers, chosen: Sequence[Attempt], jobs: int, tell: Callable[[Attempt, Judgement], object] | None = None
) -> list[Judged]:
    """Every attempt once, in order; `tell` is called as their ends come."""
    judged: list[Judged] = []
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        ends = pool.map(lambda attempt: place.judge(attempt.archive()), chosen)
        for attempt, end in zip(chosen, ends, strict=True):
            judged.append((attempt, end))
            if tell is not None:
                tell(attempt, end)
    return judged


def table(judged: Sequence[Judged]) -> str:
    """Family by family: attempts, and how many ended in what."""
    families: dict[str, Counter[str]] = {}
    for attempt, end in judged:
        families.setdefault(attempt.family, Counter())[end.outcome] += 1
    families["all"] = Counter(end.outcome for _, end in judged)
    named = ("passed", "infra", "task-failed")
    rows = [
        (family, ends.total(), *(ends[name] for name in named), ends.total() - sum(ends[name] for name in named))
        for family, ends in families.items()
    ]
    return tabulate(rows, headers=["family", "attempts", "passed", "infra", "failed", "other"])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--in-process", action="store_true", help="with tests that import the code")
    parser.add_argument("--only", default="*", help="glob over FAMILY/NAME")
    parser.add_argument("--jobs", type=int, default=2, help="verifiers at a time")
    parser.add_argument("--verbose", action="store_true", help="a line for each attempt")
    options = parser.parse_args(arguments)
    chosen = [one for one in attempts() if fnmatch.fnmatch(f"{one.family}/{one.name}", options.only)]

    def tell(attempt: Attempt, end: Judgement) -> None:
        if options.verbose or end.outcome != "task-failed":
            print(f"{attempt.family}/{attempt.name}: {end.outcome} in {end.seconds:.1f} s: {end.reason}", flush=True)

    with court(connect(), isolated=not options.in_process) as place:
        judged = judge_all(place, chosen, options.jobs, tell)
    print(table(judged))
    return 0 if all(end.outcome == "task-failed" for _, end in judged) else 1


if __name__ == "__main__":
    sys.exit(main())
