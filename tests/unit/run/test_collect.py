"""What was not collected is told with the knob that raises the limit, and fails nobody."""

from __future__ import annotations

import io
import tarfile
from typing import Any

from runner.records.schema import Verdict
from runner.run.archive import as_file, from_engine
from runner.run.collect_findings import cap_findings, with_missing
from tests.unit.guest.recorder import member, tar


def reply(**changed: Any) -> dict[str, Any]:
    return {"left_out": {}, "odd": 0, "skipped": [], "outside": [], "outside_cut": False, **changed}


def test_nothing_is_said_where_all_was_collected() -> None:
    assert cap_findings(reply(), 64) == []


def test_what_did_not_fit_is_counted_and_the_knob_is_named() -> None:
    left = {"untracked": {"files": 2, "bytes": 1_500_000}, "ignored": {"files": 9000, "bytes": 80_000_000}}
    (finding,) = cap_findings(reply(left_out=left), 64)
    assert finding.id == "collect-cut"
    assert "9002 entries of the workspace (81.5 MB)" in finding.message
    assert "2 new files, 9000 files ignored by git" in finding.message
    assert "knobs.collect_cap_mb: 64" in finding.message


def test_odd_entries_and_a_cut_list_are_findings() -> None:
    skipped = [{"path": "big", "reason": "over the size limit"}, {"path": "a.sock", "reason": "socket"}]
    found = cap_findings(reply(odd=1, skipped=skipped, outside=[{}] * 3, outside_cut=True), 64)
    assert [finding.id for finding in found] == ["collect-skipped", "outside-cut"]
    assert found[0].message == "not collected from the workspace: a.sock (socket)"
    assert "ends after 3" in found[1].message


def test_a_fail_without_files_that_the_tests_may_need_says_so() -> None:
    failed = Verdict(passed=False, reason="1 of 3 tests pass")
    left = {"changed": {"files": 1, "bytes": 10}, "ignored": {"files": 5, "bytes": 10}}
    assert with_missing(failed, left, 64).reason == (
        "1 of 3 tests pass; 1 changed or new files were not collected (knobs.collect_cap_mb: 64)"
    )
    assert with_missing(failed, {"ignored": {"files": 5, "bytes": 10}}, 64) == failed
    passed = Verdict(passed=True)
    assert with_missing(passed, left, 64) == passed


def pieces(data: bytes, size: int = 1000) -> Any:
    return (data[start : start + size] for start in range(0, len(data), size))


def names(packed: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        return archive.getnames()


ENGINES = tar(
    member("fx", type=tarfile.DIRTYPE),
    member("fx/.git/objects/pack", b"x" * 50_000),
    member("fx/a.js", b"a"),
    member("fx/big", b"x" * 30_000),
    member("fx/link", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
    member("fx/sub/.git/config", b"kept"),
)


def test_the_engine_s_archive_is_read_once_and_cut_not_refused() -> None:
    packed, left = from_engine(as_file(pieces(ENGINES)), "fx", 20_000)
    assert names(packed) == ["a.js", "link", "sub/.git/config"]
    assert left == {"files": {"files": 1, "bytes": 30_000}}
    whole, none = from_engine(as_file(pieces(ENGINES)), "fx", 200_000)
    assert names(whole) == ["a.js", "big", "link", "sub/.git/config"]
    assert none == {}


def test_an_archive_that_breaks_off_or_is_not_there_gives_what_it_has() -> None:
    packed, _ = from_engine(as_file(pieces(b"")), "fx", 20_000)
    assert names(packed) == []
    packed, _ = from_engine(as_file(pieces(ENGINES[:53_500])), "fx", 200_000)
    assert names(packed)[:1] == ["a.js"]
