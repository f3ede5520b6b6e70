"""Requests after the turn, as a surface lists them: what a session can do once it exists, whether it keeps the rules.

A request is sent only where the agent advertises it; its frames are the evidence. Rules (ACP v1): session/load replays
the conversation before it answers, session/resume does not replay it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from runner.acp.events import PeerError
from runner.acp.methods import TURN_KINDS
from runner.config.surface import Probe as Wanted
from runner.errors import AgentError, PhaseTimeout
from runner.records.schema import Probe, Turn
from runner.surfaces.acp.session import AcpSession
from runner.surfaces.driver import Driver

#: What a probe does -> method, and where in the agent's capabilities the method is advertised (None: not there).
_METHODS: Mapping[str, tuple[str, tuple[str, ...] | None]] = {
    "set-config-option": ("session/set_config_option", None),
    "set-mode": ("session/set_mode", None),
    "prompt": ("session/prompt", None),
    "list": ("session/list", ("sessionCapabilities", "list")),
    "load": ("session/load", ("loadSession",)),
    "resume": ("session/resume", ("sessionCapabilities", "resume")),
    "fork": ("session/fork", ("sessionCapabilities", "fork")),
    "close": ("session/close", ("sessionCapabilities", "close")),
}
#: Of these the session's set-up is part of the request.
_OPENING = frozenset({"load", "resume", "fork"})


class Prober:
    """Plays a surface's probes on a session whose turn is over."""

    def __init__(self, driver: Driver, session: AcpSession) -> None:
        self._driver = driver
        self._session = session
        self._created = session.created

    def play(self, wanted: list[Wanted]) -> None:
        """Each in order; an error or a missing answer is what it is, never the end of the run."""
        for probe in wanted:
            self._play(probe)

    def _play(self, wanted: Wanted) -> None:
        driver = self._driver
        method, _ = _METHODS[wanted.do]
        params = self._params(wanted)
        probe = Probe(name=wanted.do, method=method, advertised=self._advertised(wanted), params=params)
        driver.result.probes.append(probe)
        if not probe.advertised:
            return
        if wanted.do == "prompt":
            text = driver.context.prompt if wanted.text is None else wanted.text
            self._prompt(probe, text)
        else:
            self._call(probe, self._session.client.call(method, params))
        self._count(probe)
        _check_replay(probe, driver.result.turns, driver.note)

    def _prompt(self, probe: Probe, text: str) -> None:
        """A refused prompt is an answer; an agent that ended is not."""
        driver = self._driver
        try:
            self._session.prompt(text)
            probe.ok = True
        except AgentError as problem:
            if driver.result.exit is not None:
                raise
            probe.ok, probe.error = False, str(problem)
        probe.sent_seq, probe.answered_seq = self._session.prompt_seqs
        driver.read_on(driver.context.deadlines.quiet)

    def _call(self, probe: Probe, line: bytes) -> None:
        driver = self._driver
        number = self._session.client.last_id
        frame = self._session.send(line)
        probe.sent_seq = frame.seq if frame is not None else None
        limits = driver.context.deadlines
        try:
            driver.wait("probe", limits.probe, lambda: number in self._session.answers)
        except PhaseTimeout:
            probe.ok, probe.error = False, f"no answer within {limits.probe:g} s"
            return
        answer = self._session.answers[number]
        probe.answered_seq = answer.seq
        probe.ok = not isinstance(answer, PeerError)
        probe.error = answer.message if isinstance(answer, PeerError) else None
        driver.read_on(limits.quiet)

    def _count(self, probe: Probe) -> None:
        """Updates with content of the session, before and after the answer."""
        if probe.sent_seq is None:
            return
        end = probe.answered_seq
        for seq, session_id, kind in self._session.updates:
            if session_id == self._created.session_id and kind in TURN_KINDS and seq > probe.sent_seq:
                probe.updates_before += end is None or seq < end
                probe.updates_after += end is not None and seq > end

    def _params(self, wanted: Wanted) -> dict[str, Any]:
        context = self._driver.context
        if wanted.do == "list":
            return {"cwd": context.cwd}
        params: dict[str, Any] = {"sessionId": self._created.session_id}
        if wanted.do in _OPENING:
            params |= {"cwd": context.cwd, "mcpServers": context.surface.mcp_servers}
            if context.additional_directories:
                params["additionalDirectories"] = list(context.additional_directories)
        elif wanted.do == "set-mode":
            params["modeId"] = wanted.value
        elif wanted.do == "set-config-option":
            params |= {"configId": wanted.option, "value": wanted.value}
            if isinstance(wanted.value, bool):
                params["type"] = "boolean"
        return params

    def _advertised(self, wanted: Wanted) -> bool:
        if wanted.do == "prompt":
            return True
        if wanted.do == "set-mode":
            return self._session.offers_mode(wanted.value)
        if wanted.do == "set-config-option":
            return _offers(self._created.result.get("configOptions"), wanted.option, wanted.value)
        initialized = self._session.client.initialized
        value: Any = initialized.result.get("agentCapabilities") if initialized is not None else None
        for name in _METHODS[wanted.do][1] or ():
            value = value.get(name) if isinstance(value, dict) else None
        return value is True or isinstance(value, dict)


def _offers(options: Any, option: str | None, value: str | bool | None) -> bool:
    """Whether `option` is among the config options and `value` among its values (grouped or not)."""
    for candidate in options if isinstance(options, list) else []:
        if not isinstance(candidate, dict) or candidate.get("id") != option:
            continue
        if isinstance(value, bool):
            return candidate.get("type") == "boolean"
        entries = [entry for entry in candidate.get("options") or [] if isinstance(entry, dict)]
        values = [entry.get("value") for entry in entries]
        values += [inner.get("value") for entry in entries for inner in entry.get("options") or []]
        return value in values
    return False


def _check_replay(probe: Probe, turns: list[Turn], note: Callable[[str, str, int | None], None]) -> None:
    """The rules of load and resume, where there is a conversation that could be replayed."""
    if not probe.ok or not any(turn.stop_reason is not None for turn in turns):
        return
    if probe.name == "load" and probe.updates_before == 0:
        message = "session/load was answered before anything of the conversation was replayed"
        note("load-without-replay", message, probe.answered_seq)
    if probe.name == "load" and probe.updates_after > 0:
        message = f"{probe.updates_after} updates of the replay came after session/load was answered"
        note("load-late-replay", message, probe.answered_seq)
    if probe.name == "resume" and probe.updates_before + probe.updates_after > 0:
        message = f"session/resume replayed {probe.updates_before + probe.updates_after} updates"
        note("resume-replayed", message, probe.answered_seq)
