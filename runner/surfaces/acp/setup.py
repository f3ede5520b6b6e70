"""Between initialize and the prompt: authentication, mode and options, servers, a look at the workspace."""

from __future__ import annotations

import contextlib
from concurrent.futures import Future

from runner.errors import InfraError, PhaseTimeout
from runner.sandbox.channel import GuestRefused, Reply
from runner.surfaces.acp.authentication import Method, named, offered
from runner.surfaces.acp.session import AcpSession
from runner.surfaces.driver import Driver

#: Seconds for a look at the workspace; an agent may have filled it.
_LOOK_S = 10


class SessionSetup:
    """Makes a session what the surface and the adapter say, on the loop of `driver`."""

    def __init__(self, driver: Driver, session: AcpSession) -> None:
        self._driver = driver
        self._context = driver.context
        self._session = session

    def auth_methods(self) -> list[Method]:
        """The authentication methods that the agent offers."""
        initialized = self._session.client.initialized
        return offered(initialized.result) if initialized is not None else []

    def authenticate(self, wanted: str) -> None:
        """Send what the adapter names where the agent offers it; else say so and go on: it may want none after all.

        :raises AgentError: it was answered with an error.
        """
        methods = self.auth_methods()
        method = next((method for method in methods if method.id == wanted), None)
        if method is None:
            self._driver.note(
                "auth-method-not-offered",
                f"authentication method {wanted!r} is not offered (offered: {named(methods)}), so it was not sent",
            )
        elif not method.supported:
            message = f"authentication method {method} needs a person, so it was not sent"
            self._driver.note("auth-method-not-supported", message)
        else:
            call = self._session.client.call("authenticate", {"methodId": wanted})
            self._session.request(call, "authenticate")

    def configure(self) -> None:
        """Pin the mode and the options explicitly, so that an agent's default never decides a comparison."""
        context, session, client = self._context, self._session.created, self._session.client
        mode = context.surface.mode or context.session.mode
        if mode is not None and self._session.offers_mode(mode):
            self._session.request(client.set_mode(session.session_id, mode))
        elif mode is not None:
            self._driver.note("mode-not-offered", f"mode {mode!r} is not offered: the agent's default stays")
        for option, value in {**context.session.config_options, **context.surface.config_options}.items():
            self._session.request(client.set_config_option(session.session_id, option, value))

    def await_servers(self) -> None:
        """Until the session's servers are ready; the run goes on without those that are not in time."""
        awaited, limit_s = self._context.awaited, self._context.deadlines.mcp_connected
        try:
            self._driver.wait("mcp_connected", limit_s, lambda: awaited <= self._driver.ready)
        except PhaseTimeout:
            missing = f"{len(awaited - self._driver.ready)} of {len(awaited)} MCP servers not ready"
            self._driver.note("mcp-not-connected", f"{missing} within {limit_s:g} s; prompted all the same")

    def look_at_workspace(self) -> None:
        """What has changed in the workspace already: a change within the turn would hide an earlier one."""
        paths: list[str] | None = None

        def ready(reply: Future[Reply]) -> None:
            nonlocal paths
            with contextlib.suppress(GuestRefused, InfraError):
                paths = [change["path"] for change in reply.result()["changes"] if change["kind"] == "file"]
            paths = paths or []

        context = self._context
        skip = [".git", *context.adapter.state_dirs]
        self._driver.when_done(context.guest.submit_change_times(context.cwd, skip, _LOOK_S), ready)
        try:
            self._driver.wait("look", 2 * _LOOK_S, lambda: paths is not None)
        except PhaseTimeout:
            self._driver.note("not-looked-at", "the workspace could not be looked at in time before the prompt")
        self._driver.result.early_changes = paths or []
