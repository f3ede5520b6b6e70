"""A run's frames and its requests to the model on one time line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from runner.evidence.intervals import ms
from runner.gateway.journal import JournalEntry
from runner.report.frames import WIDTH, render
from runner.report.text import shortened
from runner.wire.frames import Frame


def render_with_model(
    frames: Sequence[Frame],
    entries: Sequence[JournalEntry],
    origin_ns: int | None = None,
    width: int = WIDTH,
    offset_ns: int = 0,
) -> Iterator[str]:
    """One line a frame as `render` has it; two a model request, `=>` when its last byte came in at the gateway and `<=`
    when the answer's last byte went out. They stand in the order of time; a model's line has `m<seq>` in place of seq.

    :param offset_ns: how far the gateway's clock is ahead of the frames' (0 on one kernel).
    """
    if not frames and not entries:
        return
    origin = origin_ns
    if origin is None:
        origin = frames[0].t_ns if frames else min(entry.t_request_end_ns for entry in entries) - offset_ns
    names = {entry.seq: f"m{entry.seq}" for entry in entries}
    sizes = {entry.seq: (entry.request.size, entry.response.size) for entry in entries}
    digits = max([len(name) for name in names.values()] + [len(str(frame.seq)) for frame in frames[-1:]])
    size = len(str(max([frame.length for frame in frames] + [length for pair in sizes.values() for length in pair])))
    told = render(frames, origin, width, seq_columns=digits, size_columns=size)
    lines = [(frame.t_ns, line) for frame, line in zip(frames, told, strict=True)]
    for entry in entries:
        asked, answered = sizes[entry.seq]
        for t_ns, arrow, length, what in (
            (entry.t_request_end_ns - offset_ns, "=>", asked, _asked(entry)),
            (entry.t_response_end_ns - offset_ns, "<=", answered, _answered(entry)),
        ):
            head = f"{names[entry.seq]:>{digits}} {ms(origin, t_ns):>10.1f} {arrow} model  {length:>{size}}  "
            lines.append((t_ns, shortened(head + what, width)))
    # Stable: of two lines of one instant the frame stands first.
    for _, line in sorted(lines, key=lambda one: one[0]):
        yield line


def _asked(entry: JournalEntry) -> str:
    step = f"step {entry.step}" if entry.subagent is None else f"{entry.subagent}, step {entry.step}"
    what = {
        "main": step,
        "fault": step,
        "side": f"side request {entry.rule}",
        "miss": "miss",
        "refused": "refused",
    }[entry.kind]
    attempt = f" (request {entry.attempt} for it)" if entry.attempt is not None and entry.attempt > 1 else ""
    model = f" to {entry.model}" if entry.model else ""
    return f"{entry.method} {entry.path.partition('?')[0]}{model}: {what}{attempt}"


def _answered(entry: JournalEntry) -> str:
    first = f"first byte after {ms(entry.t_request_end_ns, entry.t_first_byte_ns):.1f} ms"
    words = [str(entry.status or "no answer"), first]
    words += [f"{call.tool} {_brief(call.arguments)}" for call in entry.calls]
    if entry.fault is not None:
        words.append(f"fault {entry.fault}")
    if entry.reason is not None:
        words.append(entry.reason)
    if entry.aborted:
        words.append("the agent hung up")
    return ", ".join(words)


def _brief(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
