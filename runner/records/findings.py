"""The findings of a run: bounded, since an agent can bring about any number of them, and counted, every one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Self

from runner.records.schema import Finding

#: Findings of one id that are kept.
KEPT = 20
#: Characters of a message that are kept: agents choose names, ids and texts.
MAX_WORDS = 1000


class Findings(list[Finding]):
    """The first findings of each id, in order; `counts` has how many there were.

    A list that takes in only so many: whoever appends need not count.
    """

    def __init__(self, findings: Iterable[Finding] = ()) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self._kept: Counter[str] = Counter()
        self.extend(findings)

    def append(self, finding: Finding) -> None:
        self.counts[finding.id] += 1
        self._keep(finding)

    def extend(self, found: Iterable[Finding]) -> None:
        """Also the count of what `found` itself no longer keeps."""
        if isinstance(found, Findings):
            for finding in list(found):
                self._keep(finding)
            self.counts.update(found.counts)
            return
        for finding in found:
            self.append(finding)

    def __iadd__(self, findings: Iterable[Finding]) -> Self:  # type: ignore[override, misc]
        """A list's own `+=` would pass `extend` by."""
        self.extend(findings)
        return self

    def more(self, id: str, times: int) -> None:
        """Count findings that were not kept to begin with."""
        if times > 0:
            self.counts[id] += times

    def listed(self) -> list[Finding]:
        """As a record holds them: the last one of an id says how many more there were."""
        last = {finding.id: number for number, finding in enumerate(self)}
        listed = list(self)
        for id, number in last.items():
            if (left := self.counts[id] - self._kept[id]) > 0:
                words = f"{listed[number].message} (and {left:,} more of this kind)"
                listed[number] = listed[number].model_copy(update={"message": words})
        return listed

    def _keep(self, finding: Finding) -> None:
        if self._kept[finding.id] >= KEPT:
            return
        self._kept[finding.id] += 1
        if len(finding.message) > MAX_WORDS:
            finding = finding.model_copy(update={"message": finding.message[: MAX_WORDS - 3] + "..."})
        super().append(finding)
