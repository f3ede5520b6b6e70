"""The command `acpbench`: every way a verb can end becomes an exit code and at most one message on standard error."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Sequence

import typer
from typer.main import get_command

from runner.cli.output import err, open_streams, soften
from runner.config.source import ConfigErrors
from runner.errors import AcpbenchError, EngineUnavailable, UsageError
from runner.text.files import NotRegular
from runner.text.visible import SENTENCE, error_text, one_line

#: sysexits.h EX_SOFTWARE: a fault of ours.
INTERNAL = 70
#: 128 + SIGINT, as a shell says it.
INTERRUPTED = 130
#: What a path that was given can be and no verb need look for by itself: too long, in a circle, not ours to look into.
_UNUSABLE = frozenset({errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES})


def run(args: Sequence[str] | None = None) -> int:
    """Run one command line (default: the process's own); its exit code. Raises nothing."""
    from runner.cli.app import app

    try:
        code = get_command(app).main(
            args=list(sys.argv[1:] if args is None else args), prog_name="acpbench", standalone_mode=False
        )
    except AcpbenchError as error:
        _debug()
        # Several faults of configuration have a line each; other lines are quotes of what something else said.
        err(f"acpbench: {error_text(str(error), indented=not isinstance(error, ConfigErrors))}")
        return error.exit_code
    except typer.TyperException as error:
        # The library's own exit code is 2, which means `regressed` here.
        err(f"acpbench: {_usage(error)}")
        return UsageError.exit_code
    except (KeyboardInterrupt, typer.Abort):
        err("acpbench: interrupted")
        return INTERRUPTED
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except OSError as error:
        if _of_the_engine(error):
            return _silent(error)
        if not isinstance(error, NotRegular) and (error.errno not in _UNUSABLE or error.filename is None):
            return _internal(error)
        _debug()
        cannot = "cannot be read: " if isinstance(error, NotRegular) else ""
        err(f"acpbench: {one_line(f'{error.filename}: {cannot}{error.strerror}')}")
        return UsageError.exit_code
    except Exception as error:  # noqa: BLE001 - the last line of defence: one line, its own exit code
        return _internal(error)
    if code == INTERRUPTED:
        # The library turns KeyboardInterrupt into this exit code.
        err("acpbench: interrupted")
    return code if isinstance(code, int) else 0


def _of_the_engine(error: Exception) -> bool:
    """Only the engine is asked through this library: a socket that went silent or away in the middle of a verb."""
    requests = sys.modules.get("requests")
    return requests is not None and isinstance(error, requests.RequestException)


def _silent(error: Exception) -> int:
    _debug()
    err(f"acpbench: the container engine does not answer any more: {one_line(str(error), SENTENCE)}")
    return EngineUnavailable.exit_code


def _internal(error: Exception) -> int:
    _debug()
    said = one_line(f"{type(error).__name__}: {error}", SENTENCE)
    err(f"acpbench: internal error: {said} (set ACPBENCH_DEBUG=1 for the traceback)")
    return INTERNAL


def _usage(error: typer.TyperException) -> str:
    """The library's message on one line, with the help to ask for."""
    context = getattr(error, "ctx", None)
    message = one_line(" ".join(error.format_message().split()), SENTENCE).rstrip(".")
    if context is None:
        return message
    if not message or context.get_help() == error.message:
        message = "a command is missing"
    return f"{message} (try '{context.command_path} --help')"


def _debug() -> None:
    if os.environ.get("ACPBENCH_DEBUG") == "1":
        # It quotes the error, and that what an agent said.
        err(traceback.format_exc().rstrip("\n"))


def main() -> None:
    """The entry point of the installed command."""
    open_streams()
    soften(sys.stdout)
    soften(sys.stderr)
    sys.exit(run())


if __name__ == "__main__":
    main()
