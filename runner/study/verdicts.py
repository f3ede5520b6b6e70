"""How rules say what they found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from runner.study.claims import CLAIMS
from runner.study.model import ClaimFinding, Judgement, Measured, Rate, Reference, Table
from runner.study.runs import Study


def finding(
    study: Study,
    identity: str,
    verdict: Judgement,
    text: str,
    *,
    shown: Sequence[str] = (),
    figures: dict[str, Any] | None = None,
    evidence: Sequence[Reference] = (),
    limits: Iterable[str] = (),
    unit: str = "",
    n: int | None = None,
    bound: Rate | None = None,
    tables: Iterable[Table] = (),
) -> ClaimFinding:
    """A finding on one of `CLAIMS` (KeyError otherwise).

    shown: figures that are the number of pieces of evidence which show it; `figures`: all others. n: the bound's, where
    it is not given.
    """
    claim = CLAIMS[identity]
    counts = Counter(reference.shows for reference in evidence)
    return ClaimFinding(
        id=identity,
        adapter=study.adapter,
        claim=claim.claim,
        measured=Measured(
            text=text,
            figures={name: counts[name] for name in shown} | (figures or {}),
            unit=unit,
            n=bound.n if n is None and bound is not None else n,
            bound=bound,
            tables=list(tables),
        ),
        verdict=verdict,
        limits=list(limits),
        evidence=list(evidence),
    )


def verdict_of(*, fails: object, limited: object) -> Judgement:
    """The verdict on a claim: `fails`: what speaks against it; `limited`: what it holds but for. Empty: nothing."""
    return "does-not-hold" if fails else "holds-with-limits" if limited else "holds"


#: What the bound of a rate must reach before a claim of "always" or "never" is said to hold.
ENOUGH_OF_A_BOUND: Final = 0.8


def with_its_bound(finding: ClaimFinding) -> ClaimFinding:
    """`holds` of a claim on all (or none) of the actions, where they were so few that the bound is below 80 %, is
    `holds-so-far`: 2 of 2 is at least 22 %.
    """
    bound = finding.measured.bound
    if finding.verdict != "holds" or bound is None:
        return finding
    always = bound.at_least if bound.k == bound.n else None
    never = 1 - bound.at_most if bound.k == 0 and bound.at_most is not None else None
    reached = always if always is not None else never
    if reached is None or reached >= ENOUGH_OF_A_BOUND:
        return finding
    return finding.model_copy(update={"verdict": "holds-so-far"})


def not_measured(study: Study, identity: str, why: str) -> ClaimFinding:
    """What the runs at hand do not show; `why` says which run would."""
    return finding(study, identity, "not-measured", "-", limits=[why])


def counted(evidence: Iterable[Reference], shows: str) -> int:
    return sum(reference.shows == shows for reference in evidence)


def few(items: Iterable[str], limit: int = 4) -> str:
    """The first items for a sentence, and how many more."""
    named = list(dict.fromkeys(items))
    more = len(named) - limit
    return ", ".join(named[:limit]) + (f" and {more} more" if more > 0 else "")


def plural(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"
