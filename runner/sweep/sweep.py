"""Many cells: order, parallelism, retry, resume, and an end that leaves nothing behind."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from docker import DockerClient
from tenacity import RetryCallState, Retrying, retry_if_result, stop_after_attempt, wait_random_exponential

from runner.analysis.aggregate import build
from runner.analysis.report import Report
from runner.config.catalog import Catalog
from runner.config.loaded_sweep import LoadedSweep
from runner.config.outcome import TRIED_AGAIN, UNMEASURED
from runner.config.plan import FRESH, Cell, remaining, units
from runner.errors import InfraError, Interrupted, UsageError
from runner.gateway import capture
from runner.gateway.upstream_access import LiveUpstreams
from runner.packages.answers import answers, problem_of
from runner.records.disk import DiskFull
from runner.records.lock import differences
from runner.records.outcome import Aborted
from runner.records.schema import Record
from runner.records.store import NAMES_FILE, SweepDir
from runner.run.run import Run
from runner.sandbox.engine import connect
from runner.sandbox.images import Images
from runner.sandbox.reaper import reap
from runner.sandbox.reused import ReusedContainer
from runner.sweep.interrupt import Interrupt, interruptible
from runner.sweep.memory import give_back_large_blocks
from runner.sweep.preflight import preflight
from runner.sweep.progress import SweepProgress
from runner.sweep.resources import SweepResources, pin

#: Bytes that must be free where results go before a sweep starts.
_ROOM = 200 * 10**6


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line adds to a sweep's configuration. `out`: the directory to write."""

    out: Path
    jobs: int
    resume: bool = False


@dataclass(frozen=True, slots=True)
class SweepResult:
    """What a sweep ended as; `exit_code`: 0 every cell as expected, 1 otherwise."""

    directory: Path
    report: Report

    @property
    def exit_code(self) -> int:
        return 1 if any(arm.unexpected for arm in self.report.arms) else 0


def run_sweep(loaded: LoadedSweep, cells: Sequence[Cell], options: Options, progress: SweepProgress) -> SweepResult:
    """Run `cells` in order and write everything under `options.out`.

    :raises ConfigError: a fixture's folder is not what its file pins, a script has no words in an adapter's tools, a
        tape is not whole, a live model's key is not where its file says.
    :raises EngineUnavailable: no engine.
    :raises BuildError: an image cannot be built or is not what it is pinned to; no run was started.
    :raises UsageError: a cassette to capture is there already or being captured, `out` is in use, or `resume`
        finds another plan or other pins there.
    :raises InfraError: the disk is full; what was written before is whole.
    :raises Interrupted: the user asked to stop, and all is cleaned up.
    """
    give_back_large_blocks()
    preflight(loaded, cells)
    _check_room(options.out)
    models = {cell.model for cell in cells}
    live_upstreams = LiveUpstreams.of(loaded, models)
    if not options.resume:
        capture.check_room(loaded, models)
    with capture.reserved(loaded, models), contextlib.closing(connect()) as client:
        return _run(client, live_upstreams, loaded, cells, options, progress)


def _run(
    client: DockerClient,
    live_upstreams: LiveUpstreams | None,
    loaded: LoadedSweep,
    cells: Sequence[Cell],
    options: Options,
    progress: SweepProgress,
) -> SweepResult:
    """`run_sweep` on an engine that answers."""
    for name in reap(client).failed:
        progress.note(f"left over from a dead run and not removed: {name}")
    images = Images(client, loaded.root)
    pinned = pin(images, loaded.adapters.values(), progress.note, loaded.toolboxes())
    with (
        interruptible() as interrupt,
        SweepResources(client, loaded, pinned, live_upstreams) as resources,
        _directory(loaded, cells, options, resources) as out,
    ):
        if loaded.sweep.ask_registries and not (out.path / NAMES_FILE).exists():
            _ask_registries(client, images, loaded.root, out, progress)
        todo = remaining(cells, _finished(out)) if options.resume else list(cells)
        try:
            _Sweep(out, resources, options.jobs, progress, interrupt).run(todo)
        finally:
            _strike_unfinished(out, resources, progress)
            records = out.records(lambda problem: progress.note(f"left out: {problem}"))
            report = build(loaded.sweep.id, out.lock, out.cells, records)
            with contextlib.suppress(DiskFull):  # then the sweep's own error says so already
                out.write_json("report.json", report.model_dump())
        for note in capture.keep(out, loaded):
            progress.note(note)
        if interrupt.asked:
            raise Interrupted(f"interrupted; what was finished is in {out.path}, go on with --resume")
        return SweepResult(out.path, report)


def _strike_unfinished(out: SweepDir, resources: SweepResources, progress: SweepProgress) -> None:
    """Strike keys out of attempts without a record, an earlier process's too; the others were struck before theirs."""
    if (redactor := resources.redactor) is None:
        return
    for path in out.unfinished():
        try:
            redactor.files(path)
        except InfraError as problem:
            progress.note(str(problem))


def _ask_registries(client: DockerClient, images: Images, root: Path, out: SweepDir, progress: SweepProgress) -> None:
    """Keep what they say of our pins; before the first run, since nothing else of ours runs while one is timed."""
    said = answers(client, images, Catalog(root))
    out.write_json(NAMES_FILE, said)
    if (problem := problem_of(said)) is not None:
        progress.note(f"the package registries could not be asked, the sweep goes on without: {problem}")


def _check_room(out: Path) -> None:
    folder = next(parent for parent in (out, *out.absolute().parents) if parent.is_dir())
    free = shutil.disk_usage(folder).free
    if free < _ROOM:
        raise DiskFull(f"{folder}: only {free // 10**6} MB free; a sweep wants {_ROOM // 10**6} MB to start")


def _directory(loaded: LoadedSweep, cells: Sequence[Cell], options: Options, resources: SweepResources) -> SweepDir:
    lock = resources.lock(options.jobs)
    if not options.resume:
        return SweepDir.create(options.out, loaded.source, lock, cells)
    out = SweepDir.resume(options.out)
    changed = [*differences(out.lock, lock), *(["the plan"] if list(out.cells) != list(cells) else [])]
    if changed:
        out.close()
        raise UsageError(f"{options.out}: cannot be resumed, it was made with other pins: {'; '.join(changed[:8])}")
    return out


def _finished(out: SweepDir) -> set[str]:
    """Cells whose last attempt stands: what ended `infra` or `aborted` is tried again."""
    return {name for name, record in out.latest().items() if record.outcome not in UNMEASURED}


class _Sweep:
    """The runs of one sweep; warm-ups end before the first measured run starts."""

    def __init__(
        self, out: SweepDir, resources: SweepResources, jobs: int, progress: SweepProgress, interrupt: Interrupt
    ) -> None:
        self._out = out
        self._resources = resources
        self._jobs = jobs
        self._progress = progress
        self._interrupt = interrupt
        self._full: DiskFull | None = None
        #: Cells that another attempt would not help.
        self._hopeless: set[str] = set()
        self._attempts = resources.loaded.sweep.infra_attempts

    def run(self, cells: Sequence[Cell]) -> None:
        """:raises DiskFull: the sweep stopped because nothing more can be written."""
        self._interrupt.listeners.append(self._stop)
        self._progress.begin(len(cells))
        try:
            for warmup in (True, False):
                due = [cell for cell in cells if cell.warmup is warmup]
                with ThreadPoolExecutor(max_workers=self._jobs, thread_name_prefix="run") as pool:
                    for _ in pool.map(self._unit, units(due)):
                        pass
        finally:
            self._progress.end()
        if self._full is not None:
            raise self._full

    def _stop(self) -> None:
        self._progress.note("stopping and cleaning up; once more ends at once and leaves containers to the next sweep")
        self._resources.stop_all(Aborted("interrupted"))

    @property
    def _stopped(self) -> bool:
        return self._interrupt.asked or self._full is not None or self._resources.closed

    def _unit(self, cells: list[Cell]) -> None:
        """A cell; or all cells of an arm that keeps its container, in order."""
        if cells[0].reset == FRESH:
            self._cell(cells[0], None)
            return
        kept = ReusedContainer()
        try:
            for cell in cells:
                self._cell(cell, kept)
        finally:
            kept.discard()

    def _cell(self, cell: Cell, kept: ReusedContainer | None) -> None:
        """Attempts at one cell until one is not `infra`, or there are no more; every attempt stays.

        In a kept container only the first cell can be tried again: it takes a new one.
        """
        again = Retrying(
            stop=stop_after_attempt(self._attempts if kept is None or kept.runs == 0 else 1),
            wait=wait_random_exponential(multiplier=0.2, max=3),
            retry=retry_if_result(self._again),
            retry_error_callback=_last,
            sleep=self._interrupt.sleep,
        )
        if not self._stopped:
            self._progress.started(cell)
            again(self._attempt, cell, kept)
            self._progress.done(cell)

    def _again(self, record: Record | None) -> bool:
        return record is not None and record.outcome in TRIED_AGAIN and record.cell not in self._hopeless

    def _attempt(self, cell: Cell, kept: ReusedContainer | None) -> Record | None:
        if self._stopped:
            return None
        try:
            run = Run(self._resources.context, cell, self._out.attempt(cell), kept)
            self._resources.admit(run)
            try:
                record = run.execute()
            finally:
                self._resources.dismiss(run)
            if run.hopeless:
                self._hopeless.add(cell.name)
        except DiskFull as full:
            self._full = full
            self._resources.stop_all(full)
            return None
        self._progress.attempted(record)
        return record


def _last(state: RetryCallState) -> Record | None:
    assert state.outcome is not None
    last: Record | None = state.outcome.result()
    return last
