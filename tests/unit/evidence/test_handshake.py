from __future__ import annotations

from runner.evidence.conversation import Conversation
from runner.evidence.handshake import handshake
from tests.unit.evidence.conversations import SESSION, Log, at


def test_what_the_agent_says_of_itself() -> None:
    log = Log().initialize().session(mode="default").commands("init", "review")
    log.prompt()
    hello = handshake(log.conversation)
    assert hello.protocol_version == 1
    assert hello.agent_info["version"] == "1.2.3"
    assert hello.capabilities["loadSession"] is True
    assert hello.session == SESSION
    assert (hello.modes, hello.default_mode) == (("default", "plan"), "default")
    assert hello.config_options == {"mode": "default"}
    assert (hello.opened_seq, hello.opened_ns) == (3, at(500))
    assert hello.commands is not None
    assert (hello.commands.names, hello.commands.before_prompt) == (("init", "review"), True)
    assert hello.commands.length == log.frames[4].length


def test_commands_that_the_prompt_overtook() -> None:
    log = Log().initialize().session()
    log.prompt()
    log.commands("init")
    commands = handshake(log.conversation).commands
    assert commands is not None
    assert not commands.before_prompt


def test_the_last_announcement_counts() -> None:
    log = Log().initialize().session().commands("init").commands("init", "mcp__tool")
    commands = handshake(log.conversation).commands
    assert commands is not None
    assert len(commands.names) == 2


def test_an_agent_without_modes_and_commands() -> None:
    log = Log().initialize()
    log.request("session/new", result={"sessionId": SESSION})
    hello = handshake(log.conversation)
    assert (hello.default_mode, hello.modes, hello.commands, hello.config_options) == (None, (), None, {})


def test_a_refused_session_opens_nothing() -> None:
    log = Log().initialize()
    log.request("session/new", error={"code": -32000, "message": "log in first"})
    hello = handshake(log.conversation)
    assert (hello.session, hello.opened_seq, hello.opened_ns) == (None, None, None)


def test_a_loaded_session_is_named_by_the_request() -> None:
    log = Log().initialize()
    log.request("session/load", sessionId="old", result={"modes": {"currentModeId": "plan"}})
    hello = handshake(log.conversation)
    assert (hello.session, hello.default_mode) == ("old", "plan")


def test_an_empty_log() -> None:
    hello = handshake(Conversation())
    assert (hello.protocol_version, hello.session, hello.commands) == (None, None, None)
