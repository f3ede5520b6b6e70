"""Every error acpbench raises on purpose; whose fault it is stands in the type.

::

    AcpbenchError                 the root; never raised itself
    |-- UsageError                the user: a wrong option, a path that is not there       exit 64
    |   `-- ConfigError           the user: a YAML file, with file:line                    exit 64
    |-- EngineUnavailable         the machine: no container engine answers                 exit 69
    |-- BuildError                the image: its build or its verification failed          exit 1
    |-- Interrupted               the user: Ctrl-C or SIGTERM, after clean-up              exit 130
    `-- RunError                  one run ended without a verdict; becomes its outcome     exit 1
        |-- InfraError            ours or the engine's; the agent is not to blame          outcome infra
        |   |-- LastingError      ... and another attempt would end the same way
        |   `-- InternalError     ours alone: what was paid for by then is not paid again
        |-- PhaseTimeout          a deadline passed; `phase` says which                    outcome timeout:<phase>
        |-- AgentError            the agent crashed or spent its limits                    outcome agent-error
        |   `-- AgentGaveUp       ... it ended in an error of its own words
        `-- ProtocolViolation     the agent made going on meaningless                      outcome protocol-violation

Exit codes follow sysexits.h (64 EX_USAGE, 69 EX_UNAVAILABLE) and the shell's 128 + SIGINT.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar


class AcpbenchError(Exception):
    """Root of the tree. `str()` is one line a user can act on; `exit_code` is the process's exit code."""

    exit_code: ClassVar[int] = 1


class UsageError(AcpbenchError):
    """The command line asks for something that cannot be."""

    exit_code: ClassVar[int] = 64


class ConfigError(UsageError):
    """A configuration file is wrong: `path` and 1-based `line` say where, `problem` says what and what to do."""

    def __init__(self, path: Path, line: int | None, problem: str) -> None:
        self.path = path
        self.line = line
        self.problem = problem
        where = f"{path}:{line}" if line is not None else f"{path}"
        super().__init__(f"{where}: {problem}")


class EngineUnavailable(AcpbenchError):
    """No container engine answers."""

    exit_code: ClassVar[int] = 69


class BuildError(AcpbenchError):
    """An image could not be built or is not what its pins say."""


class Interrupted(AcpbenchError):
    """The user asked to stop; clean-up has been done."""

    exit_code: ClassVar[int] = 130


class RunError(AcpbenchError):
    """One run ended early; `outcome` is what its record says."""

    outcome: str = "infra"


class InfraError(RunError):
    """The engine, the gateway, the guest or the host failed; the run may be tried again."""

    outcome = "infra"


class LastingError(InfraError):
    """What stands in the way will not go away by trying again: the engine refuses a request as wrong, a pin differs."""


class InternalError(InfraError):
    """This program failed, not the engine: a run that had asked a model that costs money is not attempted again."""


class PhaseTimeout(RunError):
    """A phase's deadline passed. `phase` is one of `runner.config.knobs.Deadlines`' names."""

    def __init__(self, phase: str, seconds: float) -> None:
        self.phase = phase
        self.seconds = seconds
        self.outcome = f"timeout:{phase}"
        super().__init__(f"{phase}: no end within {seconds:g} s")


class AgentError(RunError):
    """The agent crashed, ran out of memory or spent its own disk or process limit."""

    outcome = "agent-error"


class AgentGaveUp(AgentError):
    """The agent itself ended in an error; a request that missed the script explains it."""


class ProtocolViolation(RunError):
    """What the agent sent makes going on meaningless."""

    outcome = "protocol-violation"
